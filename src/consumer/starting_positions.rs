//! Where partitions start that a connector has just come to own.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::TopicPartition;
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

/// Makes an assignment that starts at the stored offsets. `session` is the one that claimed it, if it was claimed.
pub(crate) fn at_stored_offsets(
    committer: &Committer,
    shares: Vec<Share>,
    generation: u64,
    session: Option<i64>,
    stop: &StopSignal,
) -> Result<OwnedPartitions, Error> {
    let partitions: Vec<TopicPartition> = shares.iter().map(|(of, ..)| of.clone()).collect();
    let mut stored = committer.fetch(&partitions, session, stop)?;
    let mut owned = OwnedPartitions {
        generation,
        session,
        partitions: BTreeMap::new(),
    };
    for (partition, thread, queue) in shares {
        let offset = stored.remove(&partition);
        let info = PartitionTopicInfo::new(partition.clone(), queue, offset);
        let of_thread = OwnedPartition { info, thread };
        owned.partitions.insert(partition, of_thread);
    }
    Ok(owned)
}
