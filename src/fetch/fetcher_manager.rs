//! The fetcher threads of a connector, by broker.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cluster::Broker;
use crate::cluster::TopicPartition;
use crate::cluster::java_hash;
use crate::error::Error;
use crate::fetch::fetcher_thread::FetchContext;
use crate::fetch::fetcher_thread::FetcherThread;
use crate::fetch::leader_finder::LeaderFinder;
use crate::fetch::partition_topic_info::PartitionTopicInfo;
use crate::net::BrokerVersion;
use crate::thread::ShutdownableThread;

/// Which fetcher a partition belongs to: broker id, and number among the broker's fetchers.
type FetcherKey = (i32, usize);

/// Starts and stops the fetchers of one generation after the other.
pub(crate) struct FetcherManager {
    context: FetchContext,
    fetchers: Mutex<Fetchers>,
    leader_finder: Mutex<Option<ShutdownableThread>>,
}

#[derive(Default)]
struct Fetchers {
    threads: HashMap<FetcherKey, FetcherThread>,
    /// Where each partition is fetched, so that it is never fetched in two places (D24, 8.3).
    places: HashMap<TopicPartition, FetcherKey>,
}

impl FetcherManager {
    pub(crate) fn new(context: FetchContext) -> Arc<Self> {
        Arc::new(Self {
            context,
            fetchers: Mutex::default(),
            leader_finder: Mutex::default(),
        })
    }

    /// Begins to fetch `infos`, as soon as their leaders are found. Called by the rebalance, after [`stop`](Self::stop).
    pub(crate) fn start(
        self: &Arc<Self>,
        infos: Vec<Arc<PartitionTopicInfo>>,
    ) -> Result<(), Error> {
        let topics = infos.iter().map(|info| info.topic_partition().topic());
        let topics: BTreeSet<String> = topics.map(str::to_owned).collect();
        self.context.metadata.keep_only(topics);
        self.context.leaderless.add(infos);
        let finder = LeaderFinder::new(Arc::clone(self), self.context.clone());
        let thread = ShutdownableThread::start("leader-finder", move |stop| finder.run(&stop))?;
        *self.leader_finder.lock() = Some(thread);
        Ok(())
    }

    /// Ends all fetching: first the leader finder, which would start new fetchers, then all fetchers at
    /// once (KAFKA-914, KAFKA-4319). Afterwards nothing more reaches a queue.
    pub(crate) fn stop(&self) {
        let finder = self.leader_finder.lock().take();
        if let Some(mut finder) = finder {
            finder.stop();
        }
        let fetchers = std::mem::take(&mut *self.fetchers.lock());
        fetchers
            .threads
            .values()
            .for_each(FetcherThread::signal_stop);
        drop(fetchers);
        self.context.leaderless.clear();
    }

    #[cfg(test)]
    pub(crate) fn fetcher_count(&self) -> usize {
        self.fetchers.lock().threads.len()
    }

    /// Fetches `info` from `broker`, which is of `version`, from now on. Called by the leader finder.
    pub(super) fn place(
        &self,
        info: &Arc<PartitionTopicInfo>,
        broker: &Broker,
        version: BrokerVersion,
    ) -> Result<(), Error> {
        let topic_partition = info.topic_partition();
        let number = fetcher_number(topic_partition, self.context.config.num_consumer_fetchers());
        let key = (broker.id, number);
        let mut outdated = None;
        let mut fetchers = self.fetchers.lock();
        if let Some(old) = fetchers.places.remove(topic_partition)
            && let Some(thread) = fetchers.threads.get(&old)
        {
            thread.remove(topic_partition);
        }
        let usable = fetchers
            .threads
            .get(&key)
            .is_some_and(|thread| thread.is_for(broker, version) && !thread.is_dead());
        if !usable {
            let name = format!("fetcher-{}-{number}", broker.id);
            let thread = FetcherThread::start(name, broker.clone(), version, self.context.clone())?;
            // Only now: were there no new thread, the old one's partitions would be nobody's.
            outdated = fetchers.threads.insert(key, thread);
        }
        if let Some(thread) = fetchers.threads.get(&key) {
            thread.add(Arc::clone(info));
            fetchers.places.insert(topic_partition.clone(), key);
        }
        drop(fetchers);
        if let Some(outdated) = outdated {
            self.retire(outdated);
        }
        Ok(())
    }

    /// Ends the fetchers without partitions, and those that died, whose partitions wait for the leader
    /// finder again. Called by the leader finder after each round.
    pub(super) fn shut_down_idle(&self) {
        let mut idle = Vec::new();
        {
            let mut fetchers = self.fetchers.lock();
            let Fetchers { threads, places } = &mut *fetchers;
            let keys: Vec<FetcherKey> = threads
                .iter()
                .filter(|(_, thread)| thread.is_idle() || thread.is_dead())
                .map(|(key, _)| *key)
                .collect();
            for key in keys {
                idle.extend(threads.remove(&key));
                places.retain(|_, place| *place != key);
            }
        }
        for thread in idle {
            self.retire(thread);
        }
    }

    fn retire(&self, thread: FetcherThread) {
        log::debug!("{} ends", thread.name());
        thread.signal_stop();
        self.context.leaderless.add(thread.take_partitions());
    }
}

/// As in Kafka 0.8.2.2: `abs(31 * hash(topic) + partition) % fetchers`, in 32 bits that wrap around.
fn fetcher_number(topic_partition: &TopicPartition, fetchers: usize) -> usize {
    let hash = java_hash(topic_partition.topic());
    let sum = hash
        .wrapping_mul(31)
        .wrapping_add(topic_partition.partition());
    // Java's abs leaves the smallest number negative; Kafka takes 0 for it.
    let positive = sum.checked_abs().unwrap_or(0);
    usize::try_from(positive)
        .ok()
        .and_then(|positive| positive.checked_rem(fetchers))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_java_hash_agrees_with_the_jvm() {
        assert_eq!(java_hash("topic1"), -868_034_334);
        assert_eq!(java_hash("test"), 3_556_498);
        assert_eq!(java_hash("__consumer_offsets"), -970_371_369);
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
    }

    #[test]
    fn fetcher_numbers_agree_with_the_original() {
        let cases = [
            ("topic1", 0, [0, 0, 2]),
            ("topic1", 1, [1, 2, 1]),
            ("topic1", 2, [0, 1, 0]),
            ("topic1", 3, [1, 0, 3]),
            ("test", 1, [1, 2, 3]),
            ("__consumer_offsets", 0, [1, 2, 3]),
        ];
        for (topic, partition, expected) in cases {
            let numbers =
                [2, 3, 4].map(|n| fetcher_number(&TopicPartition::new(topic, partition), n));
            assert_eq!(numbers, expected, "{topic}/{partition}");
        }
    }
}
