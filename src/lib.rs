//! Kafka's legacy high-level consumer, the 0.8-style one that coordinates its group through ZooKeeper.

mod cluster;
mod error;
mod thread;
mod zk;

pub use cluster::Broker;
pub use cluster::BrokerAddress;
pub use cluster::TopicPartition;
pub use error::Error;
pub use error::ErrorCode;
