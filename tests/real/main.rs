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

mod connector;
mod consuming;
#[cfg(feature = "cli")]
mod kzc;
mod member;
#[cfg(feature = "cli")]
mod mixed_groups;
mod readme;
#[cfg(feature = "cli")]
mod resuming;
mod support_itself;
