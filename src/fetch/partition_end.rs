//! Where the reading of one partition ends.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::fetch::chunk_queue::ChunkQueue;

/// Wakes every stream of a member that reads up to the ends, so that each looks whether that was all.
#[derive(Debug)]
pub(crate) struct EndBell {
    queues: Vec<Arc<ChunkQueue>>,
}

impl EndBell {
    pub(crate) fn new(queues: Vec<Arc<ChunkQueue>>) -> Arc<Self> {
        Arc::new(Self { queues })
    }

    pub(crate) fn ring(&self) {
        for queue in &self.queues {
            queue.nudge();
        }
    }
}

/// The end of one partition for a member that reads no further; lives from one generation to the next
/// for as long as the member owns the partition.
///
/// It is what "latest" was when the member took the partition over. A log that loses its tail lowers it,
/// nothing raises it. Locked while the positions of the partition are.
#[derive(Debug)]
pub(crate) struct PartitionEnd {
    bell: Arc<EndBell>,
    state: Mutex<EndState>,
    /// The end that counts, for the stream's thread; the largest number while it is not known.
    limit: AtomicI64,
}

/// What is known of an end, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndState {
    /// Where reading began: stored, chosen by `auto.offset.reset`, or sought.
    pub(crate) start: Option<i64>,
    /// What "latest" was.
    pub(crate) end: Option<i64>,
    /// How far the log went when its tail was found to be lost.
    pub(crate) lowered_to: Option<i64>,
    /// The application left a bad message where it stands, and came back for more.
    pub(crate) left: bool,
    /// A broker has answered for a position behind the end: it lies within the log.
    checked: bool,
    /// How far the leader's log can be read, by its last answer that said so: within a fetch session that is told
    /// when it changes. The high watermark, or where the first open transaction begins.
    readable: Option<i64>,
    /// Where an answer was empty although the log went on to the end.
    empty_at: Option<i64>,
    /// An answer said that the log ends before the end: it is to be looked up.
    doubted: bool,
    /// Such a look-up found the log to end before the end, once.
    seems_cut: bool,
}

impl EndState {
    /// The end that counts.
    fn limit(&self) -> Option<i64> {
        self.lowered_to.or(self.end)
    }
}

/// What a fetcher has to do for a partition that is read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndStep {
    LookUp(EndLookUp),
    Fetch,
    Done,
}

/// Which end to ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndLookUp {
    /// That of the replicated log, up to which consumers can read.
    Latest,
    /// That of the leader's log: the replicated one may lag behind it after a change of leaders.
    OfLeader,
}

/// What an empty answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emptiness {
    /// Nothing, or not yet.
    Unclear,
    /// From here to this end there is no message.
    UpTo(i64),
}

impl PartitionEnd {
    pub(crate) fn new(bell: Arc<EndBell>) -> Arc<Self> {
        Arc::new(Self {
            bell,
            state: Mutex::default(),
            limit: AtomicI64::new(i64::MAX),
        })
    }

    pub(crate) fn state(&self) -> EndState {
        *self.state.lock()
    }

    /// The first offset that is not delivered.
    pub(crate) fn limit(&self) -> i64 {
        self.limit.load(Ordering::Acquire)
    }

    /// What is to be done with the next position to fetch, if it is known.
    pub(super) fn step(&self, fetched: Option<i64>) -> EndStep {
        let state = self.state.lock();
        match (state.limit(), fetched) {
            (None, _) => EndStep::LookUp(EndLookUp::Latest),
            (Some(_), _) if state.doubted => EndStep::LookUp(EndLookUp::OfLeader),
            (Some(limit), Some(offset)) if offset == limit => EndStep::Done,
            (Some(limit), Some(offset)) if offset > limit && state.checked => EndStep::Done,
            _ => EndStep::Fetch,
        }
    }

    /// A broker was asked for an end, and said `offset`.
    pub(super) fn found(&self, asked: EndLookUp, offset: i64) {
        let mut state = self.state.lock();
        match asked {
            EndLookUp::Latest => {
                state.end.get_or_insert(offset);
            }
            EndLookUp::OfLeader => {
                state.doubted = false;
                let is_cut = state.limit().is_some_and(|limit| offset < limit);
                // Believed at the second time, with an answer of the leader in between: a follower answers as well,
                // and may lag behind.
                if std::mem::replace(&mut state.seems_cut, is_cut) && is_cut {
                    state.lowered_to = Some(offset);
                }
            }
        }
        let limit = state.limit().unwrap_or(i64::MAX);
        drop(state);
        self.limit.store(limit, Ordering::Release);
        self.bell.ring();
    }

    /// The position of a generation, where it is known at its beginning.
    pub(super) fn begins_at(&self, offset: Option<i64>) {
        let mut state = self.state.lock();
        state.start = state.start.or(offset);
        // A bad message that still stands there is met and told again.
        state.left = false;
    }

    /// `auto.offset.reset` chose `offset`, which hence lies within the log.
    pub(super) fn note_reset(&self, offset: i64) {
        let mut state = self.state.lock();
        state.start.get_or_insert(offset);
        state.checked = true;
        state.empty_at = None;
        drop(state);
        self.note_consumed(offset);
    }

    /// The application goes on elsewhere: at `start`, or behind a bad message.
    pub(super) fn note_move(&self, start: Option<i64>) {
        let mut state = self.state.lock();
        state.start = start.or(state.start);
        state.checked = false;
        state.empty_at = None;
        state.left = false;
        drop(state);
        self.bell.ring();
    }

    /// The leader may be another one: what the last one did not have does not count.
    pub(super) fn note_leader(&self) {
        let mut state = self.state.lock();
        state.readable = None;
        state.empty_at = None;
        state.seems_cut = false;
    }

    /// An answer said so.
    pub(super) fn note_readable(&self, offset: Option<i64>) {
        self.state.lock().readable = offset;
    }

    /// A position behind the end was answered for.
    pub(super) fn note_checked(&self) {
        self.state.lock().checked = true;
        self.bell.ring();
    }

    /// A fetch at `offset` brought nothing, not even part of a message. `is_whole`: nor did any other
    /// partition of the answer bring anything, which could have taken the room.
    ///
    /// Believed at the second time: between reading the log and telling the high watermark messages may come.
    pub(super) fn note_empty(&self, offset: i64, is_whole: bool) -> Emptiness {
        let mut state = self.state.lock();
        let (Some(limit), Some(readable)) = (state.limit(), state.readable) else {
            return Emptiness::Unclear;
        };
        if readable < limit {
            state.doubted = offset < limit;
            state.empty_at = None;
        } else if offset < limit && is_whole && state.empty_at.replace(offset) == Some(offset) {
            return Emptiness::UpTo(limit);
        }
        Emptiness::Unclear
    }

    /// Called by the stream's thread when everything before `next` is consumed.
    pub(super) fn note_consumed(&self, next: i64) {
        if next >= self.limit() {
            self.bell.ring();
        }
    }

    /// The application came back without a decision about the bad message before which the partition waits.
    pub(super) fn leave(&self) {
        let was_left = std::mem::replace(&mut self.state.lock().left, true);
        if !was_left {
            self.bell.ring();
        }
    }

    /// Whether everything before the end is consumed, when that is so of everything before `consumed`.
    pub(crate) fn is_reached(&self, consumed: Option<i64>) -> bool {
        let state = self.state.lock();
        match (state.limit(), consumed) {
            (Some(limit), Some(next)) => next == limit || (next > limit && state.checked),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_at(offset: i64) -> Arc<PartitionEnd> {
        let end = PartitionEnd::new(EndBell::new(Vec::new()));
        assert_eq!(end.step(None), EndStep::LookUp(EndLookUp::Latest));
        end.found(EndLookUp::Latest, offset);
        end
    }

    #[test]
    fn a_partition_is_fetched_up_to_the_end_that_was_looked_up_first() {
        let end = end_at(10);
        end.found(EndLookUp::Latest, 30);
        assert_eq!(end.limit(), 10);
        assert_eq!(end.step(Some(9)), EndStep::Fetch);
        assert_eq!(end.step(Some(10)), EndStep::Done);
        assert!(!end.is_reached(Some(9)) && end.is_reached(Some(10)));
        assert!(!end.is_reached(None));
    }

    #[test]
    fn a_position_behind_the_end_counts_once_a_broker_has_answered_for_it() {
        // It may lie behind the log itself, and then auto.offset.reset decides, as for any other stream.
        let end = end_at(10);
        assert_eq!(end.step(Some(11)), EndStep::Fetch);
        assert!(!end.is_reached(Some(11)));
        end.note_checked();
        assert_eq!(end.step(Some(11)), EndStep::Done);
        assert!(end.is_reached(Some(11)));
    }

    #[test]
    fn a_tail_without_messages_is_believed_at_the_second_empty_answer_of_one_leader() {
        let end = end_at(10);
        end.note_readable(Some(10));
        assert_eq!(end.note_empty(8, true), Emptiness::Unclear);
        end.note_leader();
        assert_eq!(end.note_empty(8, true), Emptiness::Unclear);
        assert_eq!(
            end.note_empty(8, true),
            Emptiness::Unclear,
            "it has not said"
        );
        end.note_readable(Some(12));
        assert_eq!(end.note_empty(8, true), Emptiness::Unclear);
        assert_eq!(end.note_empty(8, false), Emptiness::Unclear);
        assert_eq!(end.note_empty(8, true), Emptiness::UpTo(10));
    }

    #[test]
    fn a_log_that_lost_its_tail_lowers_the_end_and_one_that_only_lags_does_not() {
        let end = end_at(10);
        for (of_leader, limit) in [(12, 10), (6, 10), (12, 10), (6, 10), (6, 6)] {
            end.note_readable(Some(6));
            assert_eq!(end.note_empty(6, true), Emptiness::Unclear);
            assert_eq!(end.step(Some(6)), EndStep::LookUp(EndLookUp::OfLeader));
            end.found(EndLookUp::OfLeader, of_leader);
            assert_eq!(end.limit(), limit);
        }
        assert!(end.is_reached(Some(6)));
        assert_eq!(
            (end.state().end, end.state().lowered_to),
            (Some(10), Some(6))
        );
    }
}
