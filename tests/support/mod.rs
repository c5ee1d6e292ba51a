//! Real ZooKeeper servers, Kafka brokers and JVM clients for tests and benchmarks.
//!
//! ```text
//!   Cluster, Version: what a scenario asks of any cluster
//!        ^
//!   RealCluster ---> Kafka --------+
//!        |                         v
//!        +---------> ZooKeeper --> JavaProcess ---> Components (jars unpacked by tests/setup.sh)
//!                                  ^
//!   ConsoleConsumer, ConsoleProducer, ConsumerOffsetChecker, ConsumerPerformance, ProducerPerformance
//!
//!   ZooKeeperShell: a hand-written ZooKeeper client to look at znodes and to inject foreign ones
//! ```
//!
//! Knows nothing of the crate: only std, tempfile and serde_json, so that every test binary, the
//! benchmark and the crate's own unit tests can include it. Every process dies with its owner,
//! whether that is dropped, panics or is killed. Every wait has a deadline and panics with what it
//! waited for.

// Support code of tests, compiled outside of `cfg(test)` in some of its places: failing loudly is
// its way to report, and no includer uses all of it.
#![allow(dead_code, missing_docs, unreachable_pub, unused_imports)]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

mod any_cluster;
mod broker_connection;
mod cluster;
mod components;
mod console_consumer;
mod console_producer;
mod consumer_offset_checker;
mod consumer_performance;
mod kafka;
mod kafka_version;
mod mirror_maker;
mod port;
mod process;
mod producer_performance;
mod record_batch;
mod transaction;
mod wait;
mod zookeeper;
mod zookeeper_shell;

pub use any_cluster::Cluster;
pub use any_cluster::PartitionState;
pub use any_cluster::Version;
pub use broker_connection::BrokerConnection;
pub use broker_connection::WantedOffsets;
pub use cluster::RealCluster;
pub use components::Components;
pub use console_consumer::ConsoleConsumer;
pub use console_consumer::ConsoleConsumerOptions;
pub use console_producer::ConsoleProducer;
pub use consumer_offset_checker::ConsumerOffsetChecker;
pub use consumer_offset_checker::OffsetLine;
pub use consumer_performance::ConsumerPerformance;
pub use consumer_performance::ConsumerPerformanceOptions;
pub use consumer_performance::PerformanceRow;
pub use kafka::Kafka;
pub use kafka_version::KafkaVersion;
pub use mirror_maker::MirrorMaker;
pub use port::free_port;
pub use process::JavaCommand;
pub use process::JavaProcess;
pub use producer_performance::ProducerPerformance;
pub use record_batch::RecordBatch;
pub use transaction::Transaction;
pub use wait::wait_for;
pub use wait::wait_until;
pub use zookeeper::ZooKeeper;
pub use zookeeper::ZooKeeperVersion;
pub use zookeeper_shell::NodeStat;
pub use zookeeper_shell::ZooKeeperShell;
