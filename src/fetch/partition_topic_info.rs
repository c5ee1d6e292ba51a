//! Where a consumer stands in one partition.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::fetch::chunk_queue::BadEntry;
use crate::fetch::chunk_queue::Chunk;
use crate::fetch::chunk_queue::ChunkQueue;
use crate::fetch::chunk_queue::QueueEntry;
use crate::fetch::partition_end::Emptiness;
use crate::fetch::partition_end::EndLookUp;
use crate::fetch::partition_end::EndStep;
use crate::fetch::partition_end::PartitionEnd;
use crate::stats::PartitionStats;

/// "Not known" in the atomics below; never leaves this file.
const UNKNOWN: i64 = -1;

/// Where a consumer stands in one partition it owns.
///
/// Both positions name the *next* message, never the last: `fetched` the next to ask a broker for,
/// `consumed` the next to hand to the application, which is also the offset that gets committed.
/// One object lives for one generation of the assignment: a rebalance revokes it and makes a new one.
#[derive(Debug)]
pub(crate) struct PartitionTopicInfo {
    topic_partition: TopicPartition,
    queue: Arc<ChunkQueue>,
    /// Where reading ends, for a member that reads no further.
    end: Option<Arc<PartitionEnd>>,
    fetching: Mutex<Fetching>,
    /// Written by the stream's thread, and by a reset or seek while nothing of this partition is queued.
    consumed: AtomicI64,
    high_watermark: AtomicI64,
    /// Raised by a seek: what was fetched before it no longer counts. Changes with `fetching` locked.
    epoch: AtomicU64,
    revoked: AtomicBool,
    /// Room to reserve for the next answer; a guess from the last one.
    expected_bytes: AtomicUsize,
}

/// Least room to reserve for an answer, also after one without messages.
const LEAST_EXPECTED: usize = 4096;

#[derive(Debug)]
struct Fetching {
    /// `None` until `auto.offset.reset` has chosen an offset.
    fetched: Option<i64>,
    stopped: Option<StoppedAt>,
    /// Offset at which corruption was seen once; seen there again it is final.
    suspect: Option<i64>,
}

/// A bad message, before which fetching stopped until the application decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoppedAt {
    pub(crate) offset: i64,
    /// Where to go on to leave the bad message out.
    pub(crate) resume: i64,
}

/// What a fetcher may do with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchPosition {
    At {
        offset: i64,
        epoch: u64,
    },
    /// Ask the broker for an offset by `auto.offset.reset` first.
    Unresolved {
        epoch: u64,
    },
    /// Ask the broker for an end of the log first.
    EndWanted(EndLookUp),
    /// Everything up to the end has been fetched.
    AtEnd,
    /// A bad message stands here; see [`StoppedAt`].
    Stopped,
    /// The partition belongs to somebody else by now.
    Revoked,
}

/// What the first sight of corruption at an offset calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Fetch it once more: a cut or a race on the broker can look the same.
    FetchAgain,
    /// It was bad twice.
    Confirmed,
}

impl PartitionTopicInfo {
    #[cfg(test)]
    pub(crate) fn new(
        topic_partition: TopicPartition,
        queue: Arc<ChunkQueue>,
        start: Option<i64>,
    ) -> Arc<Self> {
        Self::with_end(topic_partition, queue, start, None)
    }

    /// `start` is the stored offset, `None` where there is none; with `end`, no further than to there.
    pub(crate) fn with_end(
        topic_partition: TopicPartition,
        queue: Arc<ChunkQueue>,
        start: Option<i64>,
        end: Option<Arc<PartitionEnd>>,
    ) -> Arc<Self> {
        if let Some(end) = &end {
            end.begins_at(start);
        }
        Arc::new(Self {
            topic_partition,
            queue,
            end,
            fetching: Mutex::new(Fetching {
                fetched: start,
                stopped: None,
                suspect: None,
            }),
            consumed: AtomicI64::new(start.unwrap_or(UNKNOWN)),
            high_watermark: AtomicI64::new(UNKNOWN),
            epoch: AtomicU64::new(0),
            revoked: AtomicBool::new(false),
            expected_bytes: AtomicUsize::new(usize::MAX),
        })
    }

    pub(crate) fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }

    pub(crate) fn queue(&self) -> &Arc<ChunkQueue> {
        &self.queue
    }

    /// The first offset that is not delivered; the largest number where reading goes on without end.
    pub(crate) fn limit(&self) -> i64 {
        self.end.as_ref().map_or(i64::MAX, |end| end.limit())
    }

    /// The next offset to hand to the application; `None` while it is not known.
    pub(crate) fn consumed(&self) -> Option<i64> {
        known(self.consumed.load(Ordering::Acquire))
    }

    pub(crate) fn fetched(&self) -> Option<i64> {
        self.fetching.lock().fetched
    }

    /// Ends this generation's claim: nothing of it is delivered or fetched from now on (D21, D40).
    pub(crate) fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Whether a chunk or message taken at `epoch` may still be delivered. Cheap: asked per message.
    pub(crate) fn is_current(&self, epoch: u64) -> bool {
        !self.is_revoked() && self.epoch.load(Ordering::Acquire) == epoch
    }

    /// Called by the stream's thread when the application is through with all messages before `next`.
    pub(crate) fn mark_consumed(&self, next: i64, epoch: u64) {
        if self.epoch.load(Ordering::Acquire) == epoch {
            self.consumed.store(next, Ordering::Release);
            if let Some(end) = &self.end {
                end.note_consumed(next);
            }
        }
    }

    /// How much the next answer will bring, going by the last one. Without one, as much as can be.
    pub(crate) fn expected_bytes(&self) -> usize {
        self.expected_bytes.load(Ordering::Relaxed)
    }

    /// An answer brought so much; the next one may bring twice as much.
    pub(crate) fn note_answer(&self, bytes: usize) {
        let expected = bytes.saturating_mul(2).max(LEAST_EXPECTED);
        self.expected_bytes.store(expected, Ordering::Relaxed);
    }

    pub(crate) fn fetch_position(&self) -> FetchPosition {
        if self.is_revoked() {
            return FetchPosition::Revoked;
        }
        let fetching = self.fetching.lock();
        let epoch = self.epoch.load(Ordering::Relaxed);
        let step = self.end.as_ref().map(|end| end.step(fetching.fetched));
        match (fetching.stopped, step, fetching.fetched) {
            (Some(_), _, _) => FetchPosition::Stopped,
            (None, Some(EndStep::LookUp(which)), _) => FetchPosition::EndWanted(which),
            (None, Some(EndStep::Done), _) => FetchPosition::AtEnd,
            (None, _, Some(offset)) => FetchPosition::At { offset, epoch },
            (None, _, None) => FetchPosition::Unresolved { epoch },
        }
    }

    /// Puts `chunk` into the queue and moves `fetched` to `next`, both or neither: neither when the
    /// partition was revoked, sought or fed by another fetcher since the chunk was asked for (D23, 8.3).
    pub(crate) fn enqueue(self: &Arc<Self>, chunk: Chunk, next: i64) -> bool {
        let mut fetching = self.fetching.lock();
        if fetching.fetched != Some(chunk.fetch_offset) || !self.is_current(chunk.epoch) {
            drop(fetching);
            drop(chunk);
            return false;
        }
        if let Some(offset) = chunk.high_watermark {
            self.high_watermark.store(offset, Ordering::Relaxed);
        }
        let limit = self.limit();
        if chunk.fetch_offset >= limit {
            // Asked for only to learn whether the position lies within the log.
            drop(fetching);
            self.note_checked();
            return false;
        }
        let epoch = chunk.epoch;
        self.queue.push(QueueEntry::Messages(chunk));
        fetching.fetched = Some(next.min(limit));
        if next >= limit {
            // The last messages before the end may be missing, and then none of them tells that it is reached.
            self.push_reposition(limit, epoch);
        }
        true
    }

    /// Notes how far the log goes, from an answer without messages.
    pub(crate) fn note_high_watermark(&self, offset: Option<i64>) {
        if let Some(offset) = offset {
            self.high_watermark.store(offset, Ordering::Relaxed);
        }
    }

    /// A fetch at `offset` brought nothing. `is_whole`: nor did any other partition of the answer.
    /// Where the end is known that may mean that it is reached (compaction, aborted transactions).
    pub(crate) fn note_empty(
        self: &Arc<Self>,
        offset: i64,
        epoch: u64,
        high_watermark: Option<i64>,
        is_whole: bool,
    ) {
        let Some(end) = &self.end else {
            return;
        };
        let mut fetching = self.fetching.lock();
        if fetching.fetched != Some(offset) || !self.is_current(epoch) {
            return;
        }
        if offset >= end.limit() {
            return end.note_checked();
        }
        if let Emptiness::UpTo(limit) = end.note_empty(offset, high_watermark, is_whole) {
            self.reposition(&mut fetching, limit, epoch);
        }
    }

    /// A broker was asked for an end of the log, and said `offset`.
    pub(crate) fn found_end(&self, which: EndLookUp, offset: i64) {
        if let Some(end) = &self.end {
            end.found(which, offset);
        }
    }

    /// A fetcher of another broker, perhaps, has the partition from now on.
    pub(crate) fn note_leader(&self) {
        if let Some(end) = &self.end {
            end.note_leader();
        }
    }

    fn note_checked(&self) {
        if let Some(end) = &self.end {
            end.note_checked();
        }
    }

    /// Whether everything up to the end is consumed, or the application has left it at a bad message.
    pub(crate) fn is_done(&self) -> bool {
        self.end.as_ref().is_some_and(|end| {
            end.is_reached(self.consumed()) || (end.state().left && self.is_stopped())
        })
    }

    /// The application came back without a decision about the bad message, if it was told of one.
    /// Called by the stream's thread.
    pub(crate) fn leave_bad_message(&self) {
        if let Some(end) = &self.end
            && self.is_stopped()
            // What stopped the partition is told by way of the queue; in this order it is not overlooked.
            && self.queue.is_drained()
        {
            end.leave();
        }
    }

    fn is_stopped(&self) -> bool {
        self.fetching.lock().stopped.is_some()
    }

    /// Fetching goes on at `offset`, chosen by `auto.offset.reset`. Chunks in the queue stay valid: the
    /// consumed position follows when the stream has come through them (D44). `false` when outdated.
    pub(crate) fn reset(self: &Arc<Self>, offset: i64, epoch: u64) -> bool {
        let mut fetching = self.fetching.lock();
        if !self.is_current(epoch) {
            return false;
        }
        self.reposition(&mut fetching, offset, epoch);
        if let Some(end) = &self.end {
            end.note_reset(offset);
        }
        true
    }

    fn reposition(self: &Arc<Self>, fetching: &mut Fetching, offset: i64, epoch: u64) {
        let nothing_queued = self.consumed() == fetching.fetched;
        fetching.fetched = Some(offset);
        fetching.suspect = None;
        if nothing_queued {
            self.mark_consumed(offset, epoch);
        } else {
            self.push_reposition(offset, epoch);
        }
    }

    fn push_reposition(self: &Arc<Self>, offset: i64, epoch: u64) {
        self.queue.push(QueueEntry::Reposition {
            info: Arc::clone(self),
            epoch,
            offset,
        });
    }

    /// Both positions become `offset`; what is queued is dropped by the stream.
    pub(crate) fn seek(&self, offset: i64) {
        self.move_to(offset, Some(offset));
    }

    /// `start`: reading begins anew there, which is told.
    fn move_to(&self, offset: i64, start: Option<i64>) {
        let mut fetching = self.fetching.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        fetching.fetched = Some(offset);
        fetching.stopped = None;
        self.consumed.store(offset, Ordering::Release);
        if let Some(end) = &self.end {
            end.note_move(start);
        }
        drop(fetching);
        self.queue.wake_fetchers();
    }

    /// Corruption was seen at `offset`. At the first sight everything from `position` is fetched again, and
    /// what was fetched of it is dropped. For the stream that is the next offset to deliver; for a fetcher
    /// the offset it asked for, behind what is queued, which stays.
    pub(crate) fn suspect(&self, offset: i64, position: i64, epoch: u64) -> Verdict {
        let mut fetching = self.fetching.lock();
        if !self.is_current(epoch) {
            return Verdict::FetchAgain;
        }
        if fetching.suspect == Some(offset) {
            return Verdict::Confirmed;
        }
        fetching.suspect = Some(offset);
        if fetching.fetched != Some(position) {
            fetching.fetched = Some(position);
            self.epoch.fetch_add(1, Ordering::AcqRel);
        }
        drop(fetching);
        self.queue.wake_fetchers();
        Verdict::FetchAgain
    }

    /// Stops fetching before a bad message until [`skip`](Self::skip) or [`seek`](Self::seek).
    /// What was fetched from `position`, the next offset to deliver, is dropped. `false` when outdated.
    pub(crate) fn stop_at(&self, at: StoppedAt, position: i64, epoch: u64) -> bool {
        let mut fetching = self.fetching.lock();
        if !self.is_current(epoch) {
            return false;
        }
        fetching.stopped = Some(at);
        fetching.fetched = Some(position);
        self.epoch.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// Goes on behind the bad message. `None` when no bad message stopped this partition.
    pub(crate) fn skip(&self) -> Option<StoppedAt> {
        let stopped = self.fetching.lock().stopped?;
        self.move_to(stopped.resume, None);
        Some(stopped)
    }

    /// Stops fetching, and hands the bad message, met by a fetch at `offset`, to the stream behind what it has
    /// still to deliver, so that it is told once and not fetched again and again (D47). `false` when outdated.
    pub(crate) fn enqueue_bad(
        self: &Arc<Self>,
        offset: i64,
        resume: i64,
        epoch: u64,
        entry: BadEntry,
    ) -> bool {
        let mut fetching = self.fetching.lock();
        if fetching.fetched != Some(offset) || !self.is_current(epoch) {
            return false;
        }
        if offset >= self.limit() {
            drop(fetching);
            self.note_checked();
            return false;
        }
        fetching.stopped = Some(StoppedAt { offset, resume });
        self.queue.push(QueueEntry::Bad {
            info: Arc::clone(self),
            epoch,
            offset,
            entry,
        });
        true
    }

    pub(crate) fn stats(&self) -> PartitionStats {
        let fetching = self.fetching.lock();
        PartitionStats {
            topic_partition: self.topic_partition.clone(),
            fetched: fetching.fetched,
            consumed: self.consumed(),
            high_watermark: known(self.high_watermark.load(Ordering::Relaxed)),
            stopped_at: fetching.stopped.map(|at| at.offset),
        }
    }
}

fn known(offset: i64) -> Option<i64> {
    (offset != UNKNOWN).then_some(offset)
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::bounded;

    use crate::fetch::buffer_pool::BufferPool;
    use crate::fetch::buffer_pool::PooledBuffer;
    use crate::fetch::chunk_queue::Taken;

    use super::*;

    fn info(start: Option<i64>) -> Arc<PartitionTopicInfo> {
        let queue = ChunkQueue::new(10, 1000);
        PartitionTopicInfo::new(TopicPartition::new("orders", 3), queue, start)
    }

    fn chunk(info: &Arc<PartitionTopicInfo>, fetch_offset: i64, epoch: u64) -> Chunk {
        let (waiter, _token) = bounded(1);
        Chunk {
            info: Arc::clone(info),
            epoch,
            fetch_offset,
            high_watermark: Some(100),
            message_set: PooledBuffer::new(vec![1], &BufferPool::new(0)),
            charge: info.queue.reserve(1, &waiter).unwrap(),
        }
    }

    #[test]
    fn a_chunk_moves_the_fetched_offset_once() {
        let info = info(Some(5));
        assert!(info.enqueue(chunk(&info, 5, 0), 9));
        assert_eq!((info.fetched(), info.consumed()), (Some(9), Some(5)));
        assert!(
            !info.enqueue(chunk(&info, 5, 0), 9),
            "a second fetcher came too late"
        );
        assert_eq!(info.queue.len(), 1);
        assert_eq!(info.stats().lag(), Some(91));
    }

    #[test]
    fn a_reset_with_chunks_queued_leaves_the_consumed_offset_to_the_stream() {
        // The original moved the consumed offset at once and so lost or repeated what was queued (D44).
        let info = info(Some(5));
        assert!(info.enqueue(chunk(&info, 5, 0), 9));
        assert!(info.reset(0, 0));
        assert_eq!((info.fetched(), info.consumed()), (Some(0), Some(5)));
        assert!(matches!(
            info.queue.take(None),
            Taken::Entry(QueueEntry::Messages(_))
        ));
        let Taken::Entry(QueueEntry::Reposition { offset, .. }) = info.queue.take(None) else {
            panic!("the reset follows the chunk");
        };
        assert_eq!(offset, 0);
    }

    #[test]
    fn a_first_position_counts_as_consumed_so_that_it_gets_committed() {
        let info = info(None);
        assert_eq!(
            info.fetch_position(),
            FetchPosition::Unresolved { epoch: 0 }
        );
        assert!(info.reset(42, 0));
        assert_eq!(info.consumed(), Some(42));
        assert_eq!(
            info.fetch_position(),
            FetchPosition::At {
                offset: 42,
                epoch: 0
            }
        );
    }

    #[test]
    fn corruption_is_believed_at_the_second_sight() {
        let info = info(Some(5));
        assert!(info.enqueue(chunk(&info, 5, 0), 9));
        assert_eq!(info.suspect(7, 6, 0), Verdict::FetchAgain);
        assert_eq!(
            info.fetch_position(),
            FetchPosition::At {
                offset: 6,
                epoch: 1
            }
        );
        assert!(!info.is_current(0), "what was queued is dropped");
        assert_eq!(info.suspect(7, 6, 1), Verdict::Confirmed);
    }

    #[test]
    fn corruption_behind_what_is_queued_leaves_the_queue_alone() {
        // A fetcher that met broken framing dropped the sound messages before it, which still waited for the
        // stream, and did not ask for them again: they were lost.
        let info = info(Some(5));
        assert!(info.enqueue(chunk(&info, 5, 0), 9));
        assert_eq!(info.suspect(9, 9, 0), Verdict::FetchAgain);
        assert!(info.is_current(0), "5 to 8 are still to be delivered");
        assert_eq!(
            info.fetch_position(),
            FetchPosition::At {
                offset: 9,
                epoch: 0
            }
        );
        assert_eq!(info.suspect(9, 9, 0), Verdict::Confirmed);
    }

    #[test]
    fn a_bad_message_met_by_a_fetcher_that_came_too_late_stops_nothing() {
        let info = info(Some(5));
        assert!(info.enqueue(chunk(&info, 5, 0), 9));
        assert!(!info.enqueue_bad(5, 6, 0, BadEntry::TooLarge { needed: None }));
        assert_eq!(info.stats().stopped_at, None);
    }

    #[test]
    fn a_bad_message_stops_fetching_until_it_is_skipped() {
        let info = info(Some(5));
        let too_large = BadEntry::TooLarge { needed: Some(12) };
        assert!(info.enqueue_bad(5, 6, 0, too_large));
        assert_eq!(info.fetch_position(), FetchPosition::Stopped);
        assert_eq!(info.stats().stopped_at, Some(5));
        assert_eq!(
            info.consumed(),
            Some(5),
            "a commit must not pass the bad message"
        );
        assert_eq!(
            info.skip(),
            Some(StoppedAt {
                offset: 5,
                resume: 6
            })
        );
        assert_eq!(info.skip(), None);
        assert_eq!(
            info.fetch_position(),
            FetchPosition::At {
                offset: 6,
                epoch: 1
            }
        );
        assert_eq!(info.consumed(), Some(6));
    }

    #[test]
    fn nothing_of_a_revoked_partition_is_taken_or_delivered() {
        let info = info(Some(5));
        info.revoke();
        assert!(!info.enqueue(chunk(&info, 5, 0), 9));
        assert!(!info.is_current(0));
        assert!(!info.reset(1, 0));
        assert_eq!(info.fetch_position(), FetchPosition::Revoked);
    }

    #[test]
    fn a_late_acknowledgement_does_not_undo_a_seek() {
        let info = info(Some(5));
        info.seek(50);
        info.mark_consumed(6, 0);
        assert_eq!(info.consumed(), Some(50));
    }
}
