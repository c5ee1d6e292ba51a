//! Turns bytes into values and values into bytes.
//!
//! ```text
//!  Request ----> Writer ----> frame ~~~~> broker
//!                                           |
//!  Response <--- Reader <---- frame <~~~~~~~+
//!     |
//!  MessageSet ----> EntryCursor ----> messages, decompressed and checked
//! ```
//!
//! A request and its response share a file, and both directions of both are here, so that a broker can be played as
//! well as asked. Each says which versions it knows; which one is used is chosen by who knows the broker. Sentinels of
//! the wire (code 0, offset -1, leader -1) end here: they become `Option` or an enum.
//!
//! Knows no socket, clock, thread or log.

mod decode_error;
mod encode_error;
mod reader;
mod writer;

mod request;
mod topic_groups;

mod api_versions;
mod fetch;
mod fetch_metadata;
mod fetch_stream;
mod find_coordinator;
mod isolation_level;
mod list_offsets;
mod metadata;
mod offset_commit;
mod offset_fetch;
mod partition_header;
mod produce;
mod replica;

mod message_set;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use decode_error::DecodeError;
pub(crate) use encode_error::EncodeError;
pub(crate) use reader::Reader;
#[cfg(feature = "embedded")]
pub(crate) use writer::Writer;

pub(crate) use request::Request;
#[cfg(any(test, feature = "embedded"))]
pub(crate) use request::RequestHeader;
pub(crate) use request::Response;
pub(crate) use request::request_frame;
#[cfg(any(test, feature = "embedded"))]
pub(crate) use request::response_frame;

pub use api_versions::ApiVersion;
pub use api_versions::ApiVersionsRequest;
pub use api_versions::ApiVersionsResponse;
pub use fetch::FetchPartition;
pub use fetch::FetchRequest;
pub use fetch::FetchResponse;
pub use fetch::FetchedPartition;
pub use fetch_metadata::FetchMetadata;
pub(crate) use fetch_stream::FetchResponseHeader;
pub(crate) use fetch_stream::FetchSink;
pub(crate) use fetch_stream::read_fetch_response;
pub use find_coordinator::FindCoordinatorRequest;
pub use find_coordinator::FindCoordinatorResponse;
pub use isolation_level::IsolationLevel;
pub use list_offsets::ListOffsetsPartition;
pub use list_offsets::ListOffsetsRequest;
pub use list_offsets::ListOffsetsResponse;
pub use list_offsets::OffsetTime;
pub use list_offsets::PartitionOffsets;
pub use metadata::MetadataRequest;
pub use metadata::MetadataResponse;
pub use metadata::PartitionMetadata;
pub use metadata::TopicMetadata;
pub use offset_commit::CommittedOffset;
pub use offset_commit::OffsetCommitPartition;
pub use offset_commit::OffsetCommitRequest;
pub use offset_commit::OffsetCommitResponse;
pub use offset_fetch::FetchedOffset;
pub use offset_fetch::OffsetFetchRequest;
pub use offset_fetch::OffsetFetchResponse;
pub use partition_header::AbortedTransaction;
pub use partition_header::PartitionHeader;
pub use produce::ProducePartition;
pub use produce::ProduceRequest;
pub use produce::ProduceResponse;
pub use produce::ProducedPartition;
pub use produce::RequiredAcks;
pub use replica::Replica;

pub(crate) use message_set::AbortedTransactions;
pub use message_set::Codec;
#[cfg(feature = "embedded")]
pub(crate) use message_set::ConversionError;
pub use message_set::CorruptMessage;
pub use message_set::CorruptReason;
pub(crate) use message_set::Entry;
pub(crate) use message_set::EntryCursor;
pub use message_set::Header;
pub use message_set::Headers;
pub use message_set::MessageAndOffset;
pub use message_set::MessageFormat;
pub use message_set::MessageSet;
pub use message_set::MessageSetBuilder;
pub use message_set::Messages;
pub use message_set::NewMessage;
#[cfg(feature = "embedded")]
pub(crate) use message_set::OuterEntries;
pub(crate) use message_set::Outline;
pub(crate) use message_set::RawMessage;
pub(crate) use message_set::RawWrapper;
pub(crate) use message_set::SetEnd;
pub use message_set::Timestamp;
pub use message_set::TimestampType;
#[cfg(feature = "embedded")]
pub(crate) use message_set::down_convert;
#[cfg(feature = "embedded")]
pub(crate) use message_set::rebuild;
#[cfg(feature = "embedded")]
pub(crate) use message_set::set_log_append_time;
pub(crate) use message_set::wide;
