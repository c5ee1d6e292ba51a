//! Where partitions start that a connector has just come to own.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::consumer::bounds::Bounds;
use crate::consumer::committer::Committer;
use crate::consumer::owned_partitions::OwnedPartition;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::coordination::ConsumerThreadId;
use crate::error::Error;
use crate::fetch::ChunkQueue;
use crate::fetch::PartitionTopicInfo;
use crate::thread::StopSignal;

/// A partition, the thread that it is for, and that thread's queue.
pub(crate) type Share = (TopicPartition, ConsumerThreadId, Arc<ChunkQueue>);

/// Reads stored offsets.
pub(crate) struct StartingPositions<'a> {
    pub(crate) committer: &'a Committer,
    /// Where the partitions are read to their ends only.
    pub(crate) bounds: Option<&'a Bounds>,
    /// The one that has claimed the partitions, if they were claimed.
    pub(crate) session: Option<i64>,
    pub(crate) stop: &'a StopSignal,
}

impl StartingPositions<'_> {
    /// Makes an assignment that starts at the stored offsets.
    pub(crate) fn read(
        &self,
        shares: Vec<Share>,
        generation: u64,
    ) -> Result<OwnedPartitions, Error> {
        let partitions: Vec<TopicPartition> = shares.iter().map(|(of, ..)| of.clone()).collect();
        let mut stored = self.committer.fetch(&partitions, self.session, self.stop)?;
        let mut owned = OwnedPartitions {
            generation,
            session: self.session,
            partitions: BTreeMap::new(),
        };
        for (partition, thread, queue) in shares {
            let offset = stored.remove(&partition);
            let end = self.bounds.map(|bounds| bounds.end_of(&partition));
            let info = PartitionTopicInfo::with_end(partition.clone(), queue, offset, end);
            let of_thread = OwnedPartition { info, thread };
            owned.partitions.insert(partition, of_thread);
        }
        Ok(owned)
    }
}
