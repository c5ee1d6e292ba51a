//! What a stream has met and not told yet.

use crate::consumer::chunk_reader::CorruptEntry;
use crate::fetch::Halt;
use crate::fetch::PartitionTopicInfo;

/// Something in the way that waits until the messages before it have been handed out.
#[derive(Debug)]
pub(crate) enum Deferred {
    /// In the present chunk.
    Corrupt(CorruptEntry),
    /// In the present chunk, whose partition is paused.
    Paused,
    /// Told by the fetcher.
    Halt(Halt),
}

/// Whether the application is told why fetching stopped at `offset`. Under a pause it is not: that is met again after
/// the resume.
pub(crate) fn is_to_be_told(info: &PartitionTopicInfo, offset: Option<i64>, epoch: u64) -> bool {
    if info.is_outdated(epoch) {
        return false;
    }
    let is_told = !info.is_paused();
    if !is_told {
        info.rewind(offset, epoch);
    }
    is_told
}
