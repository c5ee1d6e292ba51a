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

mod consuming;
mod leader_change;
mod member_process;
mod numbered;
mod outages;
mod readme;
mod restarts;
mod shutdowns;
mod support_itself;
