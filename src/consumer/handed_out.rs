//! How far a stream has handed out, and what of it is not yet counted as consumed.

use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::consumer::chunk_reader::ChunkReader;
use crate::fetch::PartitionTopicInfo;

/// Next offsets after what the application was handed and has not come back for.
#[derive(Debug, Default)]
pub(crate) struct HandedOut {
    /// Of the present chunk.
    present: Option<i64>,
    /// Of chunks that a batch has gone through, and of repositions, with their epochs, in order.
    before: Vec<(Arc<PartitionTopicInfo>, u64, i64)>,
}

impl HandedOut {
    /// The application was handed everything before `next` of the present chunk.
    #[inline]
    pub(crate) fn note(&mut self, next: i64) {
        self.present = Some(next);
    }

    /// Behind what was handed out, the partition goes on at `offset`. Not in a generation that is over: what stood
    /// before that offset was not handed out any more.
    pub(crate) fn note_reposition(
        &mut self,
        info: Arc<PartitionTopicInfo>,
        epoch: u64,
        offset: i64,
    ) {
        if !info.is_outdated(epoch) {
            self.before.push((info, epoch, offset));
        }
    }

    /// The present chunk is through.
    pub(crate) fn leave(&mut self, chunk: &ChunkReader) {
        if let Some(next) = self.present.take() {
            let info = Arc::clone(chunk.info());
            self.before.push((info, chunk.epoch(), next));
        }
    }

    /// The application came back: all of it is consumed.
    #[inline]
    pub(crate) fn mark_consumed(&mut self, present: Option<&ChunkReader>) {
        // Once a chunk, while this is called for each message.
        if !self.before.is_empty() {
            for (info, epoch, next) in self.before.drain(..) {
                info.mark_consumed(next, epoch);
            }
        }
        if let (Some(next), Some(chunk)) = (self.present.take(), present) {
            chunk.info().mark_consumed(next, chunk.epoch());
        }
    }

    /// What was handed out of one partition is consumed up to `through`, the next offset after it.
    pub(crate) fn mark_consumed_through(
        &self,
        present: Option<&ChunkReader>,
        topic_partition: &TopicPartition,
        through: i64,
    ) {
        let present = match (self.present, present) {
            (Some(next), Some(chunk)) => Some((chunk.info(), chunk.epoch(), next)),
            _ => None,
        };
        let before = self.before.iter();
        let in_order = before.map(|(info, epoch, next)| (info, *epoch, *next));
        for (info, epoch, next) in in_order.chain(present) {
            if info.topic_partition() == topic_partition {
                info.mark_consumed(through.min(next), epoch);
                if next >= through {
                    return;
                }
            }
        }
    }
}
