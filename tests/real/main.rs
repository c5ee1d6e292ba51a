//! Tests against real ZooKeeper servers and Kafka brokers; see tests/README.md.

#[path = "../support/mod.rs"]
mod support;

mod support_itself;
