//! What a stream has met and not told yet.

use std::ops::Range;
use std::sync::Arc;

use crate::consumer::chunk_reader::CorruptEntry;
use crate::fetch::BadEntry;
use crate::fetch::PartitionTopicInfo;

/// Something in the way that waits until the messages before it have been handed out.
#[derive(Debug)]
pub(crate) enum Deferred {
    /// In the present chunk.
    Corrupt(CorruptEntry),
    /// In the present chunk, whose partition is paused.
    Paused,
    /// Found by the fetcher.
    Bad {
        info: Arc<PartitionTopicInfo>,
        epoch: u64,
        offset: i64,
        entry: BadEntry,
    },
    /// Told by the fetcher.
    NoOffset {
        info: Arc<PartitionTopicInfo>,
        epoch: u64,
        offset: Option<i64>,
        log: Option<Range<i64>>,
    },
}
