//! Kafka's legacy high-level consumer, the 0.8-style one that coordinates its group through ZooKeeper.

mod cluster;
mod config;
mod coordination;
mod error;
mod thread;
mod zk;

#[cfg(test)]
#[cfg(feature = "real-brokers")]
#[path = "../tests/support/mod.rs"]
mod support;

pub use cluster::Broker;
pub use cluster::BrokerAddress;
pub use cluster::TopicPartition;
pub use config::AutoOffsetReset;
pub use config::ConsumedOn;
pub use config::ConsumerConfig;
pub use config::ConsumerConfigBuilder;
pub use config::OnBadMessage;
pub use error::Error;
pub use error::ErrorCode;
