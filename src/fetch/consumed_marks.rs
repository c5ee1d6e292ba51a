//! How far the application has come in one partition, as its stream tells.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// No epoch: nothing has been marked yet.
const NEVER: u64 = u64::MAX;

/// The last mark of a stream: the next offset to hand out, and the position epoch in which it holds.
///
/// Only the stream's thread marks, once per message and without a lock. A mark says in which epoch it was made, so
/// that one which a seek of another thread overtakes is not taken for the new position, in whatever order the two
/// arrive.
#[derive(Debug)]
pub(super) struct ConsumedMarks {
    epoch: AtomicU64,
    next: AtomicI64,
}

impl ConsumedMarks {
    pub(super) fn new() -> Self {
        Self {
            epoch: AtomicU64::new(NEVER),
            next: AtomicI64::new(0),
        }
    }

    /// Called by the stream's thread.
    pub(super) fn mark(&self, next: i64, epoch: u64) {
        // In this order: who sees the epoch sees an offset that is not older.
        self.next.store(next, Ordering::Release);
        self.epoch.store(epoch, Ordering::Release);
    }

    /// The last mark, if it was made in `epoch`. Called with the epoch locked.
    pub(super) fn in_epoch(&self, epoch: u64) -> Option<i64> {
        let is_of_epoch = self.epoch.load(Ordering::Acquire) == epoch;
        is_of_epoch.then(|| self.next.load(Ordering::Acquire))
    }

    /// Takes the place of what was marked in `epoch`. Called with the epoch locked, while the stream has nothing of
    /// the partition.
    pub(super) fn correct(&self, next: i64, epoch: u64) {
        if self.epoch.load(Ordering::Acquire) == epoch {
            self.next.store(next, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_holds_in_its_own_epoch_only() {
        let marks = ConsumedMarks::new();
        assert_eq!(marks.in_epoch(0), None);
        marks.mark(7, 0);
        assert_eq!(marks.in_epoch(0), Some(7));
        assert_eq!(marks.in_epoch(1), None, "a seek came in between");
        marks.correct(50, 1);
        assert_eq!(marks.in_epoch(0), Some(7));
        marks.correct(50, 0);
        assert_eq!(marks.in_epoch(0), Some(50));
    }
}
