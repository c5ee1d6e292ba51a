//! A decoded message.

use crate::cluster::TopicPartition;
use crate::consumer::message::Message;

/// One message of a partition with its key and its value decoded (`kafka.message.MessageAndMetadata`).
#[derive(Clone, Debug)]
pub struct MessageAndMetadata<K, V> {
    raw: Message,
    key: Option<K>,
    message: Option<V>,
}

impl<K, V> MessageAndMetadata<K, V> {
    pub(crate) fn new(raw: Message, key: Option<K>, message: Option<V>) -> Self {
        Self { raw, key, message }
    }

    /// Topic of the message.
    pub fn topic(&self) -> &str {
        self.raw.topic()
    }

    /// Partition of the message.
    pub fn partition(&self) -> i32 {
        self.raw.partition()
    }

    /// Topic and partition of the message.
    pub fn topic_partition(&self) -> &TopicPartition {
        self.raw.topic_partition()
    }

    /// Offset of the message in its partition. Offsets may have gaps.
    pub fn offset(&self) -> i64 {
        self.raw.offset()
    }

    /// The decoded key; `None` where it is null.
    pub fn key(&self) -> Option<&K> {
        self.key.as_ref()
    }

    /// The decoded value, called the message in the original; `None` where it is null.
    pub fn message(&self) -> Option<&V> {
        self.message.as_ref()
    }

    /// The message as it came, bytes and all else.
    pub fn raw(&self) -> &Message {
        &self.raw
    }

    /// Key and value, to be kept.
    pub fn into_key_and_message(self) -> (Option<K>, Option<V>) {
        (self.key, self.message)
    }
}
