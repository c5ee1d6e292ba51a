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
mod hostile_brokers;
#[cfg(feature = "cli")]
mod kzc;
mod leader_change;
mod member;
mod member_process;
#[cfg(feature = "cli")]
mod mixed_groups;
mod numbered;
mod outages;
mod positions;
mod readme;
mod restarts;
#[cfg(feature = "cli")]
mod resuming;
mod shutdowns;
mod stalled_streams;
mod support_itself;
mod topics;
mod topics_support;
