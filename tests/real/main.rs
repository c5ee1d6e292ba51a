//! Tests against real ZooKeeper servers and Kafka brokers; see tests/README.md.

// Clippy takes only functions with the attribute `test` for tests; what they share is test code as
// well.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

#[path = "../scenarios/mod.rs"]
mod scenarios;
#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod bad_messages;
mod bounded;
mod consuming;
mod control;
mod embedded_brokers;
mod embedded_zookeeper;
mod every_broker;
mod fenced_commits;
mod hostile_brokers;
mod kcat;
mod kzc;
mod migration;
mod mixed_filters;
mod mixed_groups;
mod mixed_round_robin;
mod newer_formats;
mod offsets_in_kafka;
mod on_first_brokers;
mod positions;
mod readme;
mod resuming;
mod shutdowns;
mod support_itself;
mod topics;
mod transactions;
mod upgrades;
