//! What waits in the queue of a stream.

use std::ops::Range;
use std::sync::Arc;

use crate::fetch::buffer_pool::PooledBuffer;
use crate::fetch::chunk_queue::Charge;
use crate::fetch::partition_topic_info::PartitionTopicInfo;
use crate::protocol::AbortedTransactions;

/// One message set on its way from a fetcher to a stream.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) info: Arc<PartitionTopicInfo>,
    /// Position epoch of `info` when the set was asked for.
    pub(crate) epoch: u64,
    /// The offset that was asked for; the set may begin before it.
    pub(crate) fetch_offset: i64,
    pub(crate) high_watermark: Option<i64>,
    pub(crate) message_set: PooledBuffer,
    /// Transactions in the set that are not to be delivered.
    pub(crate) aborted: AbortedTransactions,
    /// What the set takes of the queue's bytes, until the stream is through with it.
    pub(crate) charge: Charge,
}

impl Chunk {
    /// What it takes up, before anything in it is decompressed.
    pub(crate) fn bytes(&self) -> usize {
        self.message_set.len().saturating_add(self.aborted.bytes())
    }
}

/// A message that cannot be delivered, found by a fetcher: its framing is broken or it does not fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadEntry {
    /// Larger than the fetch size; `needed` bytes would hold it, where that much of it came.
    TooLarge { needed: Option<u64> },
    /// Not a message.
    Corrupt { reason: String },
}

/// Why fetching has stopped, in its place behind the messages before.
#[derive(Debug)]
pub(crate) enum Halt {
    Bad {
        info: Arc<PartitionTopicInfo>,
        epoch: u64,
        offset: i64,
        entry: BadEntry,
    },
    /// There is no usable offset: not this one, which is outside the log, or none is stored at all.
    NoOffset {
        info: Arc<PartitionTopicInfo>,
        epoch: u64,
        offset: Option<i64>,
        log: Option<Range<i64>>,
    },
}

#[derive(Debug)]
pub(crate) enum QueueEntry {
    Messages(Chunk),
    /// The messages of `info` behind this one start at `offset`, forwards or backwards (D44).
    Reposition {
        info: Arc<PartitionTopicInfo>,
        epoch: u64,
        offset: i64,
    },
    Halt(Halt),
}
