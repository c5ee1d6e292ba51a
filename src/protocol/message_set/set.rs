//! A run of entries in one buffer.

use bytes::Bytes;

use crate::protocol::message_set::aborted_transactions::AbortedTransactions;
use crate::protocol::message_set::entry_cursor::EntryCursor;
use crate::protocol::message_set::messages::Messages;
use crate::protocol::partition_header::AbortedTransaction;

/// The bytes of a message set, as a broker sends them or a producer makes them; nothing in them is checked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageSet {
    bytes: Bytes,
}

impl MessageSet {
    /// Most bytes that [`messages`](Self::messages) lets a compressed message grow to: 128 MiB.
    pub const DEFAULT_LIMIT: usize = 128 * 1024 * 1024;

    /// All messages, decompressed and checked, from the start of the set, which may lie before the offset asked for.
    pub fn messages(&self) -> Messages {
        self.messages_within(Self::DEFAULT_LIMIT)
    }

    /// As [`messages`](Self::messages), with another limit on the size of a compressed message's content.
    pub fn messages_within(&self, limit: usize) -> Messages {
        Messages::new(self.bytes.clone(), EntryCursor::outer(), limit)
    }

    /// As [`messages`](Self::messages), without those of the transactions that the broker told to be aborted.
    pub fn committed_messages(&self, aborted: &[AbortedTransaction]) -> Messages {
        let aborted = AbortedTransactions::new(aborted.to_vec());
        let cursor = EntryCursor::without(aborted);
        Messages::new(self.bytes.clone(), cursor, Self::DEFAULT_LIMIT)
    }

    /// The whole set, as it stands on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes, those of a cut last entry included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl From<Bytes> for MessageSet {
    fn from(bytes: Bytes) -> Self {
        Self { bytes }
    }
}

impl From<Vec<u8>> for MessageSet {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Bytes::from(bytes),
        }
    }
}
