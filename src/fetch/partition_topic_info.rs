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

/// There was no answer yet.
const UNEXPECTED: usize = usize::MAX;

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
    /// `start` is the stored offset, `None` where there is none.
    pub(crate) fn new(
        topic_partition: TopicPartition,
        queue: Arc<ChunkQueue>,
        start: Option<i64>,
    ) -> Arc<Self> {
        Arc::new(Self {
            topic_partition,
            queue,
            fetching: Mutex::new(Fetching {
                fetched: start,
                stopped: None,
                suspect: None,
            }),
            consumed: AtomicI64::new(start.unwrap_or(UNKNOWN)),
            high_watermark: AtomicI64::new(UNKNOWN),
            epoch: AtomicU64::new(0),
            revoked: AtomicBool::new(false),
            expected_bytes: AtomicUsize::new(UNEXPECTED),
        })
    }

    pub(crate) fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }

    pub(crate) fn queue(&self) -> &Arc<ChunkQueue> {
        &self.queue
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
        }
    }

    /// How much the next answer will bring, going by the last one: no more than `fetch_size`, unless that one
    /// brought more, as one large message does from Fetch 3 on. Without one, as much as can be.
    pub(crate) fn expected_bytes(&self, fetch_size: usize) -> usize {
        match self.expected_bytes.load(Ordering::Relaxed) {
            UNEXPECTED => fetch_size,
            expected => expected.min(fetch_size.max(expected / 2)),
        }
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
        match (fetching.stopped, fetching.fetched) {
            (Some(_), _) => FetchPosition::Stopped,
            (None, Some(offset)) => FetchPosition::At { offset, epoch },
            (None, None) => FetchPosition::Unresolved { epoch },
        }
    }

    /// Puts `chunk` into the queue and moves `fetched` to `next`, both or neither: neither when the
    /// partition was revoked, sought or fed by another fetcher since the chunk was asked for (D23, 8.3).
    pub(crate) fn enqueue(&self, chunk: Chunk, next: i64) -> bool {
        let mut fetching = self.fetching.lock();
        if fetching.fetched != Some(chunk.fetch_offset) || !self.is_current(chunk.epoch) {
            drop(fetching);
            drop(chunk);
            return false;
        }
        if let Some(offset) = chunk.high_watermark {
            self.high_watermark.store(offset, Ordering::Relaxed);
        }
        self.queue.push(QueueEntry::Messages(chunk));
        fetching.fetched = Some(next);
        true
    }

    /// How far the log goes, by the last answer that said so.
    pub(crate) fn high_watermark(&self) -> Option<i64> {
        known(self.high_watermark.load(Ordering::Relaxed))
    }

    /// Notes how far the log goes, from an answer without messages.
    pub(crate) fn note_high_watermark(&self, offset: Option<i64>) {
        if let Some(offset) = offset {
            self.high_watermark.store(offset, Ordering::Relaxed);
        }
    }

    /// Fetching goes on at `offset`, chosen by `auto.offset.reset`. Chunks in the queue stay valid: the
    /// consumed position follows when the stream has come through them (D44). `false` when outdated.
    pub(crate) fn reset(self: &Arc<Self>, offset: i64, epoch: u64) -> bool {
        let mut fetching = self.fetching.lock();
        if !self.is_current(epoch) {
            return false;
        }
        let nothing_queued = self.consumed() == fetching.fetched;
        fetching.fetched = Some(offset);
        fetching.suspect = None;
        if nothing_queued {
            self.consumed.store(offset, Ordering::Release);
        } else {
            self.queue.push(QueueEntry::Reposition {
                info: Arc::clone(self),
                epoch,
                offset,
            });
        }
        true
    }

    /// Both positions become `offset`; what is queued is dropped by the stream.
    pub(crate) fn seek(&self, offset: i64) {
        let mut fetching = self.fetching.lock();
        self.epoch.fetch_add(1, Ordering::AcqRel);
        fetching.fetched = Some(offset);
        fetching.stopped = None;
        self.consumed.store(offset, Ordering::Release);
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
        self.seek(stopped.resume);
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
            high_watermark: self.high_watermark(),
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
    use crate::protocol::AbortedTransactions;

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
            aborted: AbortedTransactions::default(),
            charge: info.queue.reserve(1, &waiter).unwrap(),
        }
    }

    #[test]
    fn the_next_answer_is_expected_to_be_as_large_as_the_last_one_and_no_larger_than_the_fetch_size()
     {
        let info = info(Some(5));
        assert_eq!(info.expected_bytes(1000), 1000, "nothing is known yet");
        info.note_answer(10);
        assert_eq!(info.expected_bytes(1_000_000), LEAST_EXPECTED);
        info.note_answer(9000);
        assert_eq!(info.expected_bytes(1_000_000), 18_000);
        assert_eq!(info.expected_bytes(10_000), 10_000);
        // One message larger than the fetch size: what was dropped for lack of room finds room for it next time.
        assert_eq!(info.expected_bytes(1000), 9000);
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
