//! What the member owns, as one immutable snapshot after the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::coordination::ConsumerThreadId;
use crate::error::Error;
use crate::fetch::ChunkQueue;
use crate::fetch::PartitionTopicInfo;

/// The partitions of one generation (the original's topic registry). Empty between two generations.
#[derive(Debug, Default)]
pub(crate) struct OwnedPartitions {
    /// Number of the assignment, from 1; 0 before the first.
    pub(crate) generation: u64,
    /// The ZooKeeper session that holds the owner nodes; `None` where there are none, because nothing is owned, or the
    /// partitions were chosen without the group.
    pub(crate) session: Option<i64>,
    pub(crate) partitions: BTreeMap<TopicPartition, OwnedPartition>,
}

#[derive(Debug)]
pub(crate) struct OwnedPartition {
    pub(crate) info: Arc<PartitionTopicInfo>,
    /// Thread id in the owner node.
    pub(crate) thread: ConsumerThreadId,
}

impl OwnedPartitions {
    /// Partition and thread id of everything owned, sorted.
    pub(crate) fn claims(&self) -> Vec<(TopicPartition, ConsumerThreadId)> {
        self.partitions
            .iter()
            .map(|(topic_partition, owned)| (topic_partition.clone(), owned.thread.clone()))
            .collect()
    }

    pub(crate) fn infos(&self) -> impl Iterator<Item = &Arc<PartitionTopicInfo>> {
        self.partitions.values().map(|owned| &owned.info)
    }

    /// Those of one stream.
    pub(crate) fn infos_of(
        &self,
        queue: &Arc<ChunkQueue>,
    ) -> impl Iterator<Item = &Arc<PartitionTopicInfo>> {
        self.infos()
            .filter(move |info| Arc::ptr_eq(info.queue(), queue))
    }

    /// The next offset to read of each partition where it is known: what a commit writes. An unknown
    /// position is left out, not written as -1 (D38).
    pub(crate) fn consumed(&self) -> Vec<(TopicPartition, i64)> {
        self.partitions
            .iter()
            .filter_map(|(partition, owned)| Some((partition.clone(), owned.info.consumed()?)))
            .collect()
    }
}

/// The present snapshot; replaced, never changed (D19).
#[derive(Debug, Default)]
pub(crate) struct Ownership {
    current: Mutex<Arc<OwnedPartitions>>,
}

impl Ownership {
    pub(crate) fn current(&self) -> Arc<OwnedPartitions> {
        Arc::clone(&self.current.lock())
    }

    pub(crate) fn replace(&self, owned: OwnedPartitions) -> Arc<OwnedPartitions> {
        std::mem::replace(&mut *self.current.lock(), Arc::new(owned))
    }

    /// The position of a partition that is owned now.
    pub(crate) fn info(&self, topic_partition: &TopicPartition) -> Option<Arc<PartitionTopicInfo>> {
        let owned = self.current();
        let owned = owned.partitions.get(topic_partition)?;
        Some(Arc::clone(&owned.info))
    }
}

/// Moves a position, if `info` is there: that of a partition which the caller may move.
pub(crate) fn seek(
    info: Option<Arc<PartitionTopicInfo>>,
    topic_partition: &TopicPartition,
    offset: i64,
) -> Result<(), Error> {
    let refused = |reason| Error::InvalidArgument {
        name: "seek",
        reason,
    };
    if offset < 0 {
        return Err(refused(format!(
            "offset {offset} of {topic_partition} is negative"
        )));
    }
    if info.is_some_and(|info| info.seek(offset)) {
        return Ok(());
    }
    Err(refused(format!("{topic_partition} is not owned here")))
}
