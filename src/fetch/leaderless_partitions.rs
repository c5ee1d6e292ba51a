//! The partitions that wait for the leader finder.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::bounded;
use crossbeam_channel::select;
use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::fetch::partition_topic_info::PartitionTopicInfo;
use crate::thread::StopSignal;

/// Partitions without a known leader: all at the start of a generation, later those whose fetch failed.
///
/// Adding touches this set only, never the fetchers, so that a fetcher can add its own while it is being
/// stopped (KAFKA-916).
#[derive(Debug)]
pub(crate) struct LeaderlessPartitions {
    partitions: Mutex<BTreeMap<TopicPartition, Arc<PartitionTopicInfo>>>,
    /// Those whose leader serves no version of a request that is known here, with what was told of it.
    unserved: Mutex<BTreeMap<TopicPartition, String>>,
    token: Sender<()>,
    added: Receiver<()>,
}

impl LeaderlessPartitions {
    pub(crate) fn new() -> Arc<Self> {
        let (token, added) = bounded(1);
        Arc::new(Self {
            partitions: Mutex::default(),
            unserved: Mutex::default(),
            token,
            added,
        })
    }

    /// Adds partitions, other than those that a rebalance has revoked meanwhile.
    pub(crate) fn add(&self, infos: impl IntoIterator<Item = Arc<PartitionTopicInfo>>) {
        let mut partitions = self.partitions.lock();
        for info in infos {
            if !info.is_revoked() {
                partitions.insert(info.topic_partition().clone(), info);
            }
        }
        drop(partitions);
        // A token that is there already wakes the leader finder just as well.
        let _ = self.token.try_send(());
    }

    /// A copy of the set, so that no lock is held during a look-up (D27).
    pub(crate) fn snapshot(&self) -> Vec<Arc<PartitionTopicInfo>> {
        let mut partitions = self.partitions.lock();
        partitions.retain(|_, info| !info.is_revoked());
        partitions.values().cloned().collect()
    }

    /// Takes a partition out, if it is still the same that was looked up. `false` otherwise.
    pub(crate) fn remove(&self, info: &Arc<PartitionTopicInfo>) -> bool {
        let mut partitions = self.partitions.lock();
        let wanted = partitions
            .get(info.topic_partition())
            .is_some_and(|present| Arc::ptr_eq(present, info));
        if wanted {
            partitions.remove(info.topic_partition());
        }
        wanted
    }

    pub(crate) fn clear(&self) {
        self.partitions.lock().clear();
        self.unserved.lock().clear();
    }

    /// Notes that the leader of a partition is of no use. `false` if that was known.
    pub(crate) fn note_unserved(&self, of: &TopicPartition, reason: &str) -> bool {
        let mut unserved = self.unserved.lock();
        let known = unserved.insert(of.clone(), reason.to_owned());
        known.as_deref() != Some(reason)
    }

    /// Whether the leader of a partition was of no use when it was last asked.
    pub(crate) fn is_unserved(&self, of: &TopicPartition) -> bool {
        self.unserved.lock().contains_key(of)
    }

    /// Notes that a leader has another answer for these. Returns those for which that is news.
    pub(crate) fn note_served<'a>(
        &self,
        partitions: impl Iterator<Item = &'a TopicPartition>,
    ) -> Vec<TopicPartition> {
        let mut unserved = self.unserved.lock();
        if unserved.is_empty() {
            return Vec::new();
        }
        let served = partitions.filter(|of| unserved.remove(*of).is_some());
        served.cloned().collect()
    }

    /// Waits until there are partitions. `false` at the stop.
    pub(crate) fn wait(&self, stop: &StopSignal) -> bool {
        // A loop, not an `if`: an empty list would ask for all topics (KAFKA-1087).
        loop {
            if stop.is_stopped() {
                return false;
            }
            if !self.partitions.lock().is_empty() {
                return true;
            }
            select! {
                recv(self.added) -> _ => {}
                recv(stop.receiver()) -> _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crate::fetch::chunk_queue::ChunkQueue;
    use crate::thread::Stopper;

    use super::*;

    fn info(partition: i32) -> Arc<PartitionTopicInfo> {
        let topic_partition = TopicPartition::new("orders", partition);
        PartitionTopicInfo::new(topic_partition, ChunkQueue::new(1, 1), None)
    }

    #[test]
    fn the_wait_ends_with_the_first_partition_and_at_the_stop() {
        let set = LeaderlessPartitions::new();
        let stopper = Stopper::new();
        let waiting = {
            let (set, stop) = (Arc::clone(&set), stopper.signal());
            thread::spawn(move || (set.wait(&stop), set.snapshot().len()))
        };
        set.add([info(0)]);
        assert_eq!(waiting.join().unwrap(), (true, 1));
        set.clear();
        stopper.stop();
        assert!(!set.wait(&stopper.signal()));
    }

    #[test]
    fn the_wait_goes_on_when_the_partitions_have_gone_again() {
        // D26 (KAFKA-1087): woken without a partition to look up, the original asked for the metadata of all topics.
        let set = LeaderlessPartitions::new();
        let stopper = Stopper::new();
        for _ in 0..100 {
            set.add([info(0)]);
            set.clear();
            let waiting = {
                let (set, stop) = (Arc::clone(&set), stopper.signal());
                thread::spawn(move || (set.wait(&stop), set.snapshot().len()))
            };
            thread::yield_now();
            set.add([info(1)]);
            assert_eq!(waiting.join().unwrap(), (true, 1));
            set.clear();
        }
    }

    #[test]
    fn a_partition_of_an_older_generation_is_neither_added_nor_removed() {
        let set = LeaderlessPartitions::new();
        let (old, new) = (info(0), info(0));
        old.revoke();
        set.add([Arc::clone(&old), Arc::clone(&new)]);
        assert!(!set.remove(&old));
        assert_eq!(set.snapshot().len(), 1);
        assert!(set.remove(&new));
        assert!(set.snapshot().is_empty());
    }
}
