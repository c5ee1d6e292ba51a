//! Where partitions start that a connector has just come to own.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::consumer::bounds::Bounds;
use crate::consumer::committer::Offsets;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::owned_partitions::OwnedPartition;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::coordination::ConsumerThreadId;
use crate::coordination::GroupRegistry;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::fetch::ChunkQueue;
use crate::fetch::PartitionTopicInfo;
use crate::stats::Stats;

/// A partition, the thread that it is for, and that thread's queue.
pub(crate) type Share = (TopicPartition, ConsumerThreadId, Arc<ChunkQueue>);

/// Reads stored offsets.
pub(crate) struct StartingPositions<'a> {
    pub(crate) store: &'a dyn OffsetStore,
    pub(crate) group: &'a GroupRegistry,
    /// Where the partitions are read to their ends only.
    pub(crate) bounds: Option<&'a Bounds>,
    pub(crate) stats: &'a Stats,
    pub(crate) events: &'a EventSender,
}

impl StartingPositions<'_> {
    /// Makes an assignment that starts at the stored offsets, and returns these too. One that cannot be used counts
    /// as none, and is told.
    pub(crate) fn read(
        &self,
        shares: Vec<Share>,
        generation: u64,
        session: Option<i64>,
    ) -> Result<(OwnedPartitions, Offsets), Error> {
        let partitions: Vec<TopicPartition> = shares.iter().map(|(of, ..)| of.clone()).collect();
        let mut stored = self.store.fetch(&partitions)?;
        let mut owned = OwnedPartitions {
            generation,
            session,
            partitions: BTreeMap::new(),
        };
        let mut offsets = Offsets::new();
        for (partition, thread, queue) in shares {
            let offset = match stored.remove(&partition) {
                Some(Ok(offset)) => offset,
                Some(Err(reason)) => {
                    self.tell_unusable(self.group.offset_path(&partition), reason);
                    None
                }
                None => None,
            };
            offsets.extend(offset.map(|offset| (partition.clone(), offset)));
            let end = self.bounds.map(|bounds| bounds.end_of(&partition));
            let info = PartitionTopicInfo::with_end(partition.clone(), queue, offset, end);
            let of_thread = OwnedPartition { info, thread };
            owned.partitions.insert(partition, of_thread);
        }
        Ok((owned, offsets))
    }

    fn tell_unusable(&self, path: String, reason: String) {
        self.stats.unusable_znodes.increment();
        self.events.send(Event::UnusableZnode { path, reason });
    }
}
