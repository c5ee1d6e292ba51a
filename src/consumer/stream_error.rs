//! What a stream yields instead of a message.

use std::ops::Range;

use crate::cluster::TopicPartition;
use crate::events::NoOffsetText;

/// Why a stream has no message this time. The stream itself stays usable after each of these.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// No message came within `consumer.timeout.ms` or the timeout of the call. Ask again whenever you like.
    #[error("no message in time")]
    Timeout,

    /// A message is damaged: its checksum, framing or compression is wrong, also after it was fetched again.
    ///
    /// With `on.bad.message=fail` the partition waits before it until
    /// [`skip_bad_message`](crate::MessageStream::skip_bad_message) or [`seek`](crate::MessageStream::seek); the other
    /// partitions of the stream go on. With `on.bad.message=skip` the partition goes on behind it by itself.
    #[error("corrupt message in {topic_partition} at offset {offset}: {reason}")]
    Corrupt {
        /// The partition.
        topic_partition: TopicPartition,
        /// Offset of the message, or of the compressed message that holds it.
        offset: i64,
        /// What is wrong.
        reason: String,
    },

    /// A message is larger than `fetch.message.max.bytes`. Goes on like [`StreamError::Corrupt`].
    #[error("message in {topic_partition} at offset {offset} is larger than the fetch size of {fetch_size} bytes{}", needed.map(|n| format!(": it needs {n}")).unwrap_or_default())]
    TooLarge {
        /// The partition.
        topic_partition: TopicPartition,
        /// The offset that was asked for.
        offset: i64,
        /// `fetch.message.max.bytes`.
        fetch_size: i32,
        /// The fetch size that would do, where the broker's answer tells it.
        needed: Option<u64>,
    },

    /// There is no usable offset, and `auto.offset.reset=none` chooses none. Told once; the partition waits for a
    /// [`seek`](crate::MessageStream::seek), while the others of the stream go on. `on.bad.message` does not matter.
    #[error("{}", NoOffsetText(topic_partition, *offset, log.as_ref()))]
    NoOffset {
        /// The partition.
        topic_partition: TopicPartition,
        /// The offset that the log does not have; `None` where none is stored for the group.
        offset: Option<i64>,
        /// First offset of the log and the one that the next message will get, where the broker told them.
        log: Option<Range<i64>>,
    },

    /// A decoder refused the key or the value of a message, in a [`DecodedStream`](crate::DecodedStream) only.
    /// The message counts as handed out, and the stream goes on behind it.
    #[error("{part} in {topic_partition} at offset {offset} cannot be decoded: {reason}")]
    Undecodable {
        /// The partition.
        topic_partition: TopicPartition,
        /// Offset of the message.
        offset: i64,
        /// `key` or `value`.
        part: &'static str,
        /// What the decoder said.
        reason: String,
    },
}
