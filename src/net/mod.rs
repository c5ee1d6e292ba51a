//! One socket to one broker: requests out, answers in, and what is known about the cluster.
//!
//! ```text
//!   fetch::FetcherThread     applications, tools        fetch::LeaderFinder     consumer::KafkaOffsets
//!            |                      |                            |                       |
//!            v                      v                            v                       v
//!      SimpleConsumer <-------------+------> SyncProducer   ClusterMetadata        OffsetChannel
//!       |    |                                    |              |   |               |   |
//!       |    |                                    |              |   +--> BrokerDirectory (ZooKeeper)
//!       |    |                                    |              |                   |
//!       |    +----------------+-------------------+--------------+-------------------+
//!  FetchSession               v
//!                      RequestChannel      numbers requests, checks answers, chooses versions
//!                        |    |      |
//!              BrokerVersion  |   NodeApiVersions
//!              or probe       |
//!                             v
//!                      BlockingChannel <--- Canceller, from any thread
//!                             |
//!                             v
//!                        the broker
//! ```
//!
//! The version of a broker's registration decides what may be sent to it; one from 0.10.0 on is asked what it serves,
//! on each connection. Nothing is found out by trying.
//!
//! Every call has a deadline for the whole answer and can be ended from another thread.
//! Knows nothing of queues, streams, groups or ZooKeeper, starts no thread that outlives a call
//! (but for host names that the system does not finish resolving), and decides nothing about
//! offsets or leaders: it hands on what the brokers say.

mod blocking_channel;
mod broker_directory;
mod broker_version;
mod canceller;
mod cluster_metadata;
mod cluster_view;
mod connect;
mod deadline_socket;
#[cfg(test)]
pub(crate) mod fake_broker;
mod fetch_session;
mod metadata_round;
mod node_api_versions;
mod offset_channel;
mod probe;
mod request_channel;
mod simple_consumer;
mod sync_producer;

pub(crate) use broker_directory::BrokerDirectory;
pub(crate) use broker_directory::RegisteredBrokers;
pub use broker_version::BrokerVersion;
pub(crate) use cluster_metadata::ClusterMetadata;
pub(crate) use cluster_metadata::ClusterMetadataOptions;
pub(crate) use cluster_metadata::means_stale;
pub use cluster_view::ClusterView;
pub use cluster_view::PartitionView;
pub use cluster_view::TopicView;
pub(crate) use fetch_session::FetchSession;
pub(crate) use offset_channel::CallEnd;
pub(crate) use offset_channel::OffsetChannel;
pub(crate) use offset_channel::OffsetChannelOptions;
pub(crate) use simple_consumer::Absence;
pub use simple_consumer::SimpleConsumer;
pub use simple_consumer::SimpleConsumerOptions;
pub use sync_producer::SyncProducer;
pub use sync_producer::SyncProducerOptions;

#[cfg(test)]
mod tests;
