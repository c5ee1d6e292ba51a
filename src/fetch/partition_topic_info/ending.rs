//! What a partition that is read to its end only knows of that end.

use std::sync::Arc;

use crate::fetch::fetch_position::Standstill;
use crate::fetch::partition_end::Emptiness;
use crate::fetch::partition_end::EndLookUp;
use crate::fetch::partition_end::EndStep;
use crate::fetch::partition_topic_info::PartitionTopicInfo;

impl PartitionTopicInfo {
    /// The first offset that is not delivered; the largest number where reading goes on without end.
    pub(crate) fn limit(&self) -> i64 {
        self.end.as_ref().map_or(i64::MAX, |end| end.limit())
    }

    /// A fetch at `offset` brought nothing. `is_whole`: nor did any other partition of the answer.
    /// Where the end is known that may mean that it is reached (compaction, aborted transactions).
    pub(crate) fn note_empty(self: &Arc<Self>, offset: i64, epoch: u64, is_whole: bool) {
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
        if let Emptiness::UpTo(limit) = end.note_empty(offset, is_whole) {
            self.reposition(&mut fetching, limit, epoch);
        }
    }

    /// Notes how far the log can be read by now, from an answer with or without messages.
    pub(crate) fn note_readable(&self, offset: Option<i64>) {
        if let Some(end) = &self.end {
            end.note_readable(offset);
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

    pub(super) fn note_checked(&self) {
        if let Some(end) = &self.end {
            end.note_checked();
        }
    }

    /// The application goes on elsewhere, at `start`, or may do so.
    pub(super) fn note_move(&self, start: Option<i64>) {
        if let Some(end) = &self.end {
            end.note_move(start);
        }
    }

    /// Whether everything up to the end has been fetched.
    pub(crate) fn is_all_fetched(&self) -> bool {
        let fetched = self.fetched();
        self.end
            .as_ref()
            .is_some_and(|end| end.step(fetched) == EndStep::Done)
    }

    /// Whether everything up to the end is consumed, or the application has left it at a standstill.
    pub(crate) fn is_done(&self) -> bool {
        self.end.as_ref().is_some_and(|end| {
            end.is_reached(self.consumed()) || (end.state().left && self.needs_decision())
        })
    }

    /// The application came back without a decision about the standstill, if it was told of one.
    /// Called by the stream's thread.
    pub(crate) fn leave(&self) {
        if let Some(end) = &self.end
            && self.needs_decision()
            // What stopped the partition is told by way of the queue; in this order it is not overlooked.
            && self.queue.is_drained()
        {
            end.leave();
        }
    }

    /// Nothing more comes unless the application decides. One that has paused the partition has, for now.
    fn needs_decision(&self) -> bool {
        self.standstill().is_some() && !self.is_paused()
    }

    /// Why nothing more is fetched until the application decides.
    pub(crate) fn standstill(&self) -> Option<Standstill> {
        self.fetching.lock().stopped
    }
}
