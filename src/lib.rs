//! Kafka's legacy high-level consumer, the 0.8-style one that coordinates its group through ZooKeeper.
//!
//! A [`ConsumerConnector`] joins a group, whose other members may still run on the JVM, and hands out
//! [`MessageStream`]s: blocking iterators over [`Message`]s, each read by a thread of the application. Everything
//! else happens in the background, is told by [`ConsumerConnector::events`], and is counted in
//! [`ConsumerConnector::stats`]. [`ConsumerConfigBuilder`] is the table of all configuration keys.
//!
//! | to | see |
//! |---|---|
//! | read topics by name, a stream for each thread | [`create_message_streams`](ConsumerConnector::create_message_streams), [`MessageStream`] |
//! | read all topics that match | [`TopicFilter`], [`create_message_streams_by_filter`](ConsumerConnector::create_message_streams_by_filter) |
//! | read partitions of one's choice, without the group | [`create_message_streams_for`](ConsumerConnector::create_message_streams_for) |
//! | read up to the ends of the logs and stop | [`create_bounded_streams`](ConsumerConnector::create_bounded_streams), [`create_bounded_streams_for`](ConsumerConnector::create_bounded_streams_for), [`BoundedStream`] |
//! | read everything in one thread | [`create_poller`](ConsumerConnector::create_poller), [`Poller`] |
//! | read in batches | [`MessageStream::next_batch`], [`MessageStream::batches`] |
//! | have typed keys and values | [`MessageStream::decoded`], [`Decoder`] |
//! | be told of partitions that come and go | [`RebalanceListener`] |
//! | commit by hand | [`MessageStream::mark_consumed`], [`commit_offsets`](ConsumerConnector::commit_offsets) |
//! | move and hold positions | [`seek`](ConsumerConnector::seek), [`seek_to_time`](ConsumerConnector::seek_to_time), [`pause`](ConsumerConnector::pause) |
//! | keep offsets beside one's results | [`OffsetStore`] |
//!
//! What happens is also written to the `log` crate. The feature `cli` builds the tool `kzc`, the feature `embedded`
//! a cluster within the process; both are on by default, and the library needs neither. The feature `zstd`, on by
//! default too, is for messages in that compression.
//!
//! Beside it stand clients of single brokers, without group: [`SimpleConsumer`] and [`SyncProducer`], with the
//! requests and message sets of [`protocol`].

mod cluster;
mod config;
mod consumer;
mod coordination;
#[cfg(feature = "embedded")]
pub mod embedded;
mod error;
mod events;
mod fetch;
pub mod net;
pub mod protocol;
mod stats;
mod thread;
mod zk;

/// Compiles the examples of the documents that need no feature.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../docs/migration.md")]
    struct Migration;
    #[doc = include_str!("../README.md")]
    struct Readme;
}

#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod support;
#[cfg(test)]
#[cfg(any(feature = "embedded", feature = "real-brokers"))]
mod test_zookeeper;

pub use cluster::Broker;
pub use cluster::BrokerAddress;
pub use cluster::TopicPartition;
pub use cluster::java_hash;
pub use config::AutoOffsetReset;
pub use config::BrokerAddressMap;
pub use config::ConsumedOn;
pub use config::ConsumerConfig;
pub use config::ConsumerConfigBuilder;
pub use config::IsolationLevel;
pub use config::OffsetsStorage;
pub use config::OnBadMessage;
pub use config::PartitionAssignmentStrategy;
pub use config::RoundRobinVersion;
pub use consumer::AssignedPartitions;
pub use consumer::BatchLimits;
pub use consumer::Batches;
pub use consumer::BoundedOutcome;
pub use consumer::BoundedPartition;
pub use consumer::BoundedStream;
pub use consumer::BytesDecoder;
pub use consumer::ConnectorState;
pub use consumer::ConsumerConnector;
pub use consumer::DecodedStream;
pub use consumer::Decoder;
pub use consumer::DecoderError;
pub use consumer::IntegerDecoder;
pub use consumer::ListenerResult;
pub use consumer::LongDecoder;
pub use consumer::Message;
pub use consumer::MessageAndMetadata;
pub use consumer::MessageRef;
pub use consumer::MessageStream;
pub use consumer::OffsetCall;
pub use consumer::OffsetStore;
pub use consumer::OffsetStoreError;
pub use consumer::Poller;
pub use consumer::RebalanceListener;
pub use consumer::RevokedPartitions;
pub use consumer::ShortDecoder;
pub use consumer::StreamError;
pub use consumer::StringDecoder;
pub use consumer::delete_group;
pub use coordination::TopicFilter;
pub use coordination::registered_brokers;
pub use error::Error;
pub use error::ErrorCode;
pub use events::Event;
pub use events::Events;
pub use net::BrokerVersion;
pub use net::SimpleConsumer;
pub use net::SimpleConsumerOptions;
pub use net::SyncProducer;
pub use net::SyncProducerOptions;
pub use protocol::Header;
pub use protocol::Headers;
pub use protocol::OffsetTime;
pub use protocol::Timestamp;
pub use protocol::TimestampType;
pub use stats::PartitionStats;
pub use stats::StatsSnapshot;
