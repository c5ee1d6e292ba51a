//! What a stream hands to the application.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::fetch::PooledBuffer;
use crate::protocol::Headers;
use crate::protocol::RawMessage;
use crate::protocol::Timestamp;
use crate::protocol::wide;

/// The buffer that messages are slices of: a fetched message set, or the unpacked content of a compressed message.
#[derive(Debug)]
pub(crate) struct MessageBuffer {
    pub(crate) topic_partition: TopicPartition,
    pub(crate) high_watermark: Option<i64>,
    pub(crate) bytes: PooledBuffer,
}

/// One message of a partition.
///
/// Key and value are slices of the message set that came from the broker, which is shared and not copied:
/// a message that is kept keeps its whole set in memory, up to `fetch.message.max.bytes` (or what a
/// compressed message unpacks to). Copy what you want to keep for long.
#[derive(Clone)]
pub struct Message {
    buffer: Arc<MessageBuffer>,
    offset: i64,
    key: Option<Range<u32>>,
    value: Option<Range<u32>>,
    timestamp: Option<Timestamp>,
    headers: Range<u32>,
}

impl Message {
    /// Topic of the message.
    pub fn topic(&self) -> &str {
        self.buffer.topic_partition.topic()
    }

    /// Partition of the message.
    pub fn partition(&self) -> i32 {
        self.buffer.topic_partition.partition()
    }

    /// Topic and partition of the message.
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.buffer.topic_partition
    }

    /// Offset of the message in its partition. Offsets may have gaps.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// The key; `None` where it is null, which is not the same as empty.
    pub fn key(&self) -> Option<&[u8]> {
        self.slice(self.key.as_ref())
    }

    /// The value; `None` where it is null (a tombstone in a compacted topic), which is not the same as empty.
    pub fn value(&self) -> Option<&[u8]> {
        self.slice(self.value.as_ref())
    }

    /// When it was made or appended; `None` in message format 0, and where the producer gave no time.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// Its headers in their order, read as the iteration goes; none below message format 2 (Kafka 0.11).
    pub fn headers(&self) -> Headers<'_> {
        Headers::new(self.slice(Some(&self.headers)).unwrap_or_default())
    }

    /// End of the replicated log, known when the message was fetched: the next offset to be written then.
    pub fn high_watermark(&self) -> Option<i64> {
        self.buffer.high_watermark
    }

    fn slice(&self, range: Option<&Range<u32>>) -> Option<&[u8]> {
        self.buffer.bytes.get(wide(range?))
    }
}

/// One message of a partition, lent for the length of a call; see [`MessageStream::visit_batch`].
///
/// [`MessageStream::visit_batch`]: crate::MessageStream::visit_batch
#[derive(Clone, Copy)]
pub struct MessageRef<'a> {
    buffer: &'a Arc<MessageBuffer>,
    raw: &'a RawMessage,
}

impl<'a> MessageRef<'a> {
    /// The message at the positions `raw` of `buffer`.
    #[inline]
    pub(crate) fn new(buffer: &'a Arc<MessageBuffer>, raw: &'a RawMessage) -> Self {
        Self { buffer, raw }
    }

    /// Topic and partition of the message.
    pub fn topic_partition(self) -> &'a TopicPartition {
        &self.buffer.topic_partition
    }

    /// Offset of the message in its partition. Offsets may have gaps.
    #[inline]
    pub fn offset(self) -> i64 {
        self.raw.offset
    }

    /// The key; `None` where it is null.
    #[inline]
    pub fn key(self) -> Option<&'a [u8]> {
        self.buffer.bytes.get(wide(self.raw.key.as_ref()?))
    }

    /// The value; `None` where it is null.
    #[inline]
    pub fn value(self) -> Option<&'a [u8]> {
        self.buffer.bytes.get(wide(self.raw.value.as_ref()?))
    }

    /// When it was made or appended; see [`Message::timestamp`].
    #[inline]
    pub fn timestamp(self) -> Option<Timestamp> {
        self.raw.timestamp
    }

    /// Its headers; see [`Message::headers`].
    pub fn headers(self) -> Headers<'a> {
        let headers = self.buffer.bytes.get(wide(&self.raw.headers));
        Headers::new(headers.unwrap_or_default())
    }

    /// End of the replicated log, known when the message was fetched.
    pub fn high_watermark(self) -> Option<i64> {
        self.buffer.high_watermark
    }

    /// The same message, to be kept.
    #[inline]
    pub fn to_message(self) -> Message {
        Message {
            buffer: Arc::clone(self.buffer),
            offset: self.raw.offset,
            key: self.raw.key.clone(),
            value: self.raw.value.clone(),
            timestamp: self.raw.timestamp,
            headers: self.raw.headers.clone(),
        }
    }
}

impl fmt::Debug for MessageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_message().fmt(f)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic_partition", self.topic_partition())
            .field("offset", &self.offset)
            .field("key_len", &self.key().map(<[u8]>::len))
            .field("value_len", &self.value().map(<[u8]>::len))
            .finish()
    }
}
