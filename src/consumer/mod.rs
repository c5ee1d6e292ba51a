//! One member of a group: joins it, works out with the others what it owns, and hands out the messages.
//!
//! ```text
//!  application          ConsumerConnector ---- create, commit, shut down
//!       |                      |
//!       |            thread rebalance: Rebalancer ---> Member::rebalance
//!       |                      |                            |
//!       |             events from ZooKeeper        claim, read offsets, publish
//!       v                                                   v
//!  MessageStream <--- ChunkQueue <--- FetcherManager   Committer ---> Ownership, a snapshot per generation
//!       |                                                   |
//!  ChunkReader                             thread auto-commit, OffsetStore: ZooKeeperOffsets, KafkaOffsets,
//!                                          DualOffsets of both, or the application's own
//! ```
//!
//! `ListenerCalls` tells the application in between. For partitions that the application has chosen itself,
//! `ChosenPartitions` takes the place of the upper half: no member, no claims, no rebalances.
//!
//! `Poller`, `Batches` and `DecodedStream` are other ways to read `MessageStream`s. A `BoundedStream` is one that ends:
//! all streams of its connector share the `Bounds`, which know the end of each partition and whether all are reached.
//!
//! Here the two towers meet: what is fetched comes from `fetch`, what is owned from `coordination`.
//! Lock order: the shutdown and the group membership of the connector, the commit lock, the ownership
//! snapshot; all but the last are held while ZooKeeper is asked.

mod message;
mod stream_error;

mod wait;

mod chunk_reader;
mod deferred;
mod demand;
mod handed_out;
mod message_stream;
mod stream_queues;

mod batches;
mod decoded_stream;
mod decoder;
mod message_and_metadata;
mod poller;

mod bounded_partition;
mod bounded_stream;
mod bounds;

mod built_in_store;
mod dual_offsets;
mod kafka_offsets;
mod offset_store;
mod owned_partitions;
mod zookeeper_offsets;

mod application_code;
mod committer;
mod listener_calls;
mod member;
mod rebalance_listener;
mod rebalancer;
mod starting_positions;

mod chosen_partitions;
mod connector;
mod connector_control;
mod connector_parts;
mod connector_state;
mod connector_streams;
mod delete_group;
mod zookeeper_directory;

pub use batches::BatchLimits;
pub use batches::Batches;
pub use bounded_partition::BoundedOutcome;
pub use bounded_partition::BoundedPartition;
pub use bounded_stream::BoundedStream;
pub use connector::ConsumerConnector;
pub use connector_state::ConnectorState;
pub use decoded_stream::DecodedStream;
pub use decoder::BytesDecoder;
pub use decoder::Decoder;
pub use decoder::DecoderError;
pub use decoder::IntegerDecoder;
pub use decoder::LongDecoder;
pub use decoder::ShortDecoder;
pub use decoder::StringDecoder;
pub use delete_group::delete_group;
pub use message::Message;
pub use message::MessageRef;
pub use message_and_metadata::MessageAndMetadata;
pub use message_stream::MessageStream;
pub use offset_store::OffsetCall;
pub use offset_store::OffsetStore;
pub use offset_store::OffsetStoreError;
pub use poller::Poller;
pub use rebalance_listener::AssignedPartitions;
pub use rebalance_listener::ListenerResult;
pub use rebalance_listener::RebalanceListener;
pub use rebalance_listener::RevokedPartitions;
pub use stream_error::StreamError;
