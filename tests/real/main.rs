//! Tests against real ZooKeeper servers and Kafka brokers; see tests/README.md.

// Clippy takes only functions with the attribute `test` for tests; what they share is test code as
// well.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod bad_messages;
mod connector;
mod consuming;
mod control;
mod embedded_brokers;
mod embedded_zookeeper;
mod fenced_commits;
mod hostile_brokers;
mod kcat;
mod killed_members;
mod kzc;
mod leader_change;
mod member;
mod migration;
mod mixed_filters;
mod mixed_groups;
mod numbered;
mod offsets_in_kafka;
mod outages;
mod positions;
mod readme;
mod resuming;
mod shutdowns;
mod stalled_streams;
mod support_itself;
mod taken_nodes;
mod topics;
mod topics_support;
