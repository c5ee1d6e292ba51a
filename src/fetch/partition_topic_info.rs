//! Where a consumer stands in one partition.

mod ending;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use parking_lot::MutexGuard;

use crate::cluster::TopicPartition;
use crate::fetch::chunk_queue::ChunkQueue;
use crate::fetch::consumed_marks::ConsumedMarks;
use crate::fetch::fetch_position::FetchPosition;
use crate::fetch::fetch_position::Standstill;
use crate::fetch::fetch_position::StoppedAt;
use crate::fetch::fetch_position::Verdict;
use crate::fetch::partition_end::EndStep;
use crate::fetch::partition_end::PartitionEnd;
use crate::fetch::queue_entry::BadEntry;
use crate::fetch::queue_entry::Chunk;
use crate::fetch::queue_entry::Halt;
use crate::fetch::queue_entry::QueueEntry;
use crate::stats::PartitionStats;

/// "Not known" in `high_watermark`; never leaves this file.
const UNKNOWN: i64 = -1;

/// Bits of `hold`, why nothing is delivered: for now, or for ever.
const PAUSED: u8 = 1;
const REVOKED: u8 = 2;

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
    /// What the stream's thread has told; it counts while the epoch is the same, else `Fetching::base` does.
    consumed: ConsumedMarks,
    high_watermark: AtomicI64,
    /// Raised by a seek: what was fetched before it no longer counts. Changes with `fetching` locked.
    epoch: AtomicU64,
    /// [`PAUSED`] and [`REVOKED`]; one number, because it is looked at for each message.
    hold: AtomicU8,
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
    /// The next offset to hand to the application, as of the beginning of the present epoch.
    base: Option<i64>,
    stopped: Option<Standstill>,
    /// Offset at which corruption was seen once; seen there again it is final.
    suspect: Option<i64>,
    /// The offset that `auto.offset.reset` chose last.
    reset_to: Option<i64>,
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
                base: start,
                stopped: None,
                suspect: None,
                reset_to: None,
            }),
            consumed: ConsumedMarks::new(),
            high_watermark: AtomicI64::new(UNKNOWN),
            epoch: AtomicU64::new(0),
            hold: AtomicU8::new(0),
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
        self.consumed_of(&self.fetching.lock())
    }

    fn consumed_of(&self, fetching: &Fetching) -> Option<i64> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.consumed.in_epoch(epoch).or(fetching.base)
    }

    pub(crate) fn fetched(&self) -> Option<i64> {
        self.fetching.lock().fetched
    }

    /// Ends this generation's claim: nothing of it is delivered or fetched from now on (D21, D40).
    pub(crate) fn revoke(&self) {
        self.hold.fetch_or(REVOKED, Ordering::AcqRel);
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.hold.load(Ordering::Acquire) & REVOKED != 0
    }

    /// From now on nothing is fetched or delivered. What the queue holds is dropped when the stream meets it, and
    /// fetched again after [`resume`](Self::resume): else it would take the room of the stream's other partitions.
    pub(crate) fn pause(&self) {
        self.hold.fetch_or(PAUSED, Ordering::AcqRel);
    }

    pub(crate) fn resume(&self) {
        self.hold.fetch_and(!PAUSED, Ordering::AcqRel);
        // Whether this is where the application leaves it is open again.
        self.note_move(None);
        self.queue.wake_fetchers();
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.hold.load(Ordering::Acquire) & PAUSED != 0
    }

    /// Whether a chunk or message taken at `epoch` may be delivered now. Cheap: asked per message.
    pub(crate) fn is_current(&self, epoch: u64) -> bool {
        self.hold.load(Ordering::Acquire) == 0 && self.epoch.load(Ordering::Acquire) == epoch
    }

    /// Whether what was taken at `epoch` counts no more: revoked or sought since. That is for ever, unlike a pause,
    /// which may be over before one has looked twice.
    pub(crate) fn is_outdated(&self, epoch: u64) -> bool {
        self.is_revoked() || self.epoch.load(Ordering::Acquire) != epoch
    }

    /// Called by the stream's thread when the application is through with all messages before `next`.
    pub(crate) fn mark_consumed(&self, next: i64, epoch: u64) {
        if self.epoch.load(Ordering::Acquire) == epoch {
            self.consumed.mark(next, epoch);
            if let Some(end) = &self.end {
                end.note_consumed(next);
            }
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
        let step = self.end.as_ref().map(|end| end.step(fetching.fetched));
        match (fetching.stopped, step, fetching.fetched) {
            (Some(_), _, _) => FetchPosition::Waiting,
            // Paused or not: where the log ended is asked when the partition is taken over.
            (None, Some(EndStep::LookUp(which)), _) => FetchPosition::EndWanted(which),
            _ if self.is_paused() => FetchPosition::Waiting,
            (None, Some(EndStep::Done), _) => FetchPosition::AtEnd,
            (None, _, Some(offset)) => FetchPosition::At { offset, epoch },
            (None, _, None) => FetchPosition::Unresolved { epoch },
        }
    }

    /// As [`fetch_position`](Self::fetch_position); where there is nothing to do, `wake` is told when that changes.
    pub(crate) fn position_or_wake(&self, wake: &Sender<()>) -> FetchPosition {
        let position = self.fetch_position();
        if !matches!(position, FetchPosition::Waiting | FetchPosition::AtEnd) {
            return position;
        }
        self.queue.notify_when_woken(wake);
        // What has changed before that has woken nobody.
        self.fetch_position()
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
        self.reposition(&mut fetching, offset, epoch);
        if let Some(end) = &self.end {
            end.note_reset(offset);
        }
        true
    }

    fn reposition(self: &Arc<Self>, fetching: &mut Fetching, offset: i64, epoch: u64) {
        let nothing_queued = self.consumed_of(fetching) == fetching.fetched;
        fetching.fetched = Some(offset);
        fetching.reset_to = Some(offset);
        fetching.suspect = None;
        if nothing_queued {
            fetching.base = Some(offset);
            self.consumed.correct(offset, epoch);
            if let Some(end) = &self.end {
                end.note_consumed(offset);
            }
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

    /// Whether `offset` is where `auto.offset.reset` has led last.
    pub(crate) fn was_reset_to(&self, offset: i64) -> bool {
        self.fetching.lock().reset_to == Some(offset)
    }

    /// Both positions become `offset`; what is queued is dropped by the stream. From any thread. `false` when the
    /// partition is being given up, or was: then nothing has changed.
    pub(crate) fn seek(&self, offset: i64) -> bool {
        self.move_to(self.fetching.lock(), offset, Some(offset))
    }

    /// `start`: reading begins anew there, which is told.
    fn move_to(
        &self,
        mut fetching: MutexGuard<'_, Fetching>,
        offset: i64,
        start: Option<i64>,
    ) -> bool {
        if self.is_revoked() {
            return false;
        }
        self.begin_epoch(&mut fetching);
        fetching.fetched = Some(offset);
        fetching.base = Some(offset);
        fetching.stopped = None;
        self.note_move(start);
        drop(fetching);
        self.queue.wake_fetchers();
        true
    }

    /// Sets what the next commit writes. For a partition that is given up: what is fetched does not follow.
    pub(crate) fn set_consumed(&self, offset: i64) {
        let mut fetching = self.fetching.lock();
        self.begin_epoch(&mut fetching);
        fetching.base = Some(offset);
    }

    /// Drops what was fetched from `position` on, the next offset to deliver, so that it is fetched again; so the
    /// stream gets rid of what is held by a pause. Nothing happens when outdated.
    pub(crate) fn rewind(&self, position: Option<i64>, epoch: u64) {
        let mut fetching = self.fetching.lock();
        if self.is_outdated(epoch) {
            return;
        }
        self.begin_epoch(&mut fetching);
        fetching.fetched = position;
        fetching.stopped = None;
        self.note_move(None);
        drop(fetching);
        // It may have been resumed meanwhile.
        self.queue.wake_fetchers();
    }

    /// What was fetched before no longer counts; what was consumed does.
    fn begin_epoch(&self, fetching: &mut Fetching) {
        fetching.base = self.consumed_of(fetching);
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Corruption was seen at `offset`. At the first sight everything from `position` is fetched again, and
    /// what was fetched of it is dropped. For the stream that is the next offset to deliver; for a fetcher
    /// the offset it asked for, behind what is queued, which stays. A pause changes nothing about that.
    pub(crate) fn suspect(&self, offset: i64, position: i64, epoch: u64) -> Verdict {
        let mut fetching = self.fetching.lock();
        if self.is_outdated(epoch) {
            return Verdict::FetchAgain;
        }
        if fetching.suspect == Some(offset) {
            return Verdict::Confirmed;
        }
        fetching.suspect = Some(offset);
        if fetching.fetched != Some(position) {
            fetching.fetched = Some(position);
            self.begin_epoch(&mut fetching);
        }
        drop(fetching);
        self.queue.wake_fetchers();
        Verdict::FetchAgain
    }

    /// Stops fetching before a bad message until [`skip`](Self::skip) or [`seek`](Self::seek).
    /// What was fetched from `position`, the next offset to deliver, is dropped. `false` when outdated.
    pub(crate) fn stop_at(&self, at: StoppedAt, position: i64, epoch: u64) -> bool {
        let mut fetching = self.fetching.lock();
        if self.is_outdated(epoch) {
            return false;
        }
        fetching.stopped = Some(Standstill::BadMessage(at));
        fetching.fetched = Some(position);
        self.begin_epoch(&mut fetching);
        true
    }

    /// Goes on behind the bad message. `None` when no bad message stopped this partition.
    pub(crate) fn skip(&self) -> Option<StoppedAt> {
        let fetching = self.fetching.lock();
        let Some(Standstill::BadMessage(stopped)) = fetching.stopped else {
            return None;
        };
        self.move_to(fetching, stopped.resume, None)
            .then_some(stopped)
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
        fetching.stopped = Some(Standstill::BadMessage(StoppedAt { offset, resume }));
        self.queue.push(QueueEntry::Halt(Halt::Bad {
            info: Arc::clone(self),
            epoch,
            offset,
            entry,
        }));
        true
    }

    /// Stops fetching, because there is no usable offset and `auto.offset.reset=none` chooses none, and has the stream
    /// tell that, behind what it has still to deliver. `log` is where the log begins and ends, if that is known.
    /// `false` when outdated.
    pub(crate) fn enqueue_no_offset(self: &Arc<Self>, epoch: u64, log: Option<Range<i64>>) -> bool {
        let mut fetching = self.fetching.lock();
        if !self.is_current(epoch) {
            return false;
        }
        fetching.stopped = Some(Standstill::NoOffset);
        self.queue.push(QueueEntry::Halt(Halt::NoOffset {
            info: Arc::clone(self),
            epoch,
            offset: fetching.fetched,
            log,
        }));
        true
    }

    pub(crate) fn stats(&self) -> PartitionStats {
        let fetching = self.fetching.lock();
        PartitionStats {
            topic_partition: self.topic_partition.clone(),
            fetched: fetching.fetched,
            consumed: self.consumed_of(&fetching),
            high_watermark: self.high_watermark(),
            stopped_at: fetching.stopped.and_then(|stopped| match stopped {
                Standstill::BadMessage(at) => Some(at.offset),
                Standstill::NoOffset => fetching.fetched,
            }),
            paused: self.is_paused(),
        }
    }
}

fn known(offset: i64) -> Option<i64> {
    (offset != UNKNOWN).then_some(offset)
}

#[cfg(test)]
mod tests;
