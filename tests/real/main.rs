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
#[cfg(feature = "embedded")]
mod embedded_zookeeper;
mod readme;
mod support_itself;
