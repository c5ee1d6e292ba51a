//! Counters that the threads of a connector keep.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::cluster::TopicPartition;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the connector was made; each is raised by the thread that does the thing.
        #[derive(Debug, Default)]
        pub(crate) struct Stats {
            $(pub(crate) $name: Counter,)*
        }

        /// What a connector has counted, and where it stands in each partition that it owns.
        #[derive(Clone, Debug, Default)]
        #[non_exhaustive]
        pub struct StatsSnapshot {
            $($(#[$doc])* pub $name: u64,)*
            /// Events dropped because nobody read them.
            pub events_dropped: u64,
            /// When the brokers were last asked for metadata.
            pub last_metadata_try: Option<Instant>,
            /// When they last answered.
            pub last_metadata_success: Option<Instant>,
            /// The partitions owned now, sorted.
            pub partitions: Vec<PartitionStats>,
        }

        impl Stats {
            pub(crate) fn snapshot(&self) -> StatsSnapshot {
                StatsSnapshot {
                    $($name: self.$name.get(),)*
                    events_dropped: 0,
                    last_metadata_try: None,
                    last_metadata_success: None,
                    partitions: Vec::new(),
                }
            }
        }
    };
}

counters! {
    /// Messages handed to the application (`MessagesPerSec` of the original).
    messages,
    /// Bytes of message sets put into queues, as they came from the broker (`BytesPerSec`).
    bytes,
    /// Message sets put into queues.
    chunks,
    /// Fetch requests sent, failed ones too (`RequestsPerSec`).
    fetch_requests,
    /// Fetch requests that failed as a whole.
    fetch_failures,
    /// Partitions taken from a fetcher because of an error.
    partition_errors,
    /// Rounds of the leader finder.
    leader_lookups,
    /// Those that no broker answered.
    leader_lookup_failures,
    /// Times that `auto.offset.reset` chose an offset.
    offset_resets,
    /// Corrupt or too large messages met.
    bad_messages,
    /// Rebalances that succeeded.
    rebalances,
    /// Attempts to rebalance that failed.
    rebalance_failures,
    /// Times that the connection to ZooKeeper broke.
    zookeeper_disconnects,
    /// Times that the partitions were given up because the ZooKeeper session ended, or may have ended.
    sessions_lost,
    /// Times that own nodes were found gone or taken.
    nodes_lost,
    /// Znodes of brokers, topics, members and offsets that could not be used.
    unusable_znodes,
    /// Offsets written to ZooKeeper (`ZooKeeperCommitsPerSec`).
    zookeeper_commits,
    /// Offsets written to Kafka (`KafkaCommitsPerSec`).
    kafka_commits,
    /// Offsets that somebody else had written into ZooKeeper for a partition of this member, and that were written over.
    offsets_overwritten,
    /// Offsets that could not be committed.
    commit_failures,
}

/// Where a connector stands in one partition it owns. Both offsets name the *next* message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionStats {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// Next offset to ask a broker for; `None` until `auto.offset.reset` has chosen one.
    pub fetched: Option<i64>,
    /// Next offset to hand to the application, which is also what gets committed.
    pub consumed: Option<i64>,
    /// End of the log as far as it is replicated, known from the last fetch.
    pub high_watermark: Option<i64>,
    /// Why nothing more is fetched until the application decides: a bad message stands here, or the log does not have
    /// this offset, with `auto.offset.reset=none`. `None` too where that rule finds no offset at all.
    pub stopped_at: Option<i64>,
    /// Whether [`pause`](crate::ConsumerConnector::pause) holds it.
    pub paused: bool,
}

impl PartitionStats {
    /// `ConsumerLag` of the original: high watermark less fetched offset, at least 0.
    pub fn lag(&self) -> Option<u64> {
        let behind = self.high_watermark?.saturating_sub(self.fetched?);
        Some(u64::try_from(behind).unwrap_or(0))
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_never_negative_and_unknown_without_a_position() {
        let mut stats = PartitionStats {
            topic_partition: TopicPartition::new("orders", 0),
            fetched: Some(7),
            consumed: Some(5),
            high_watermark: Some(10),
            stopped_at: None,
            paused: false,
        };
        assert_eq!(stats.lag(), Some(3));
        stats.high_watermark = Some(6);
        assert_eq!(
            stats.lag(),
            Some(0),
            "KAFKA-2678: a new leader may be behind"
        );
        stats.fetched = None;
        assert_eq!(stats.lag(), None);
    }
}
