//! Where a group keeps its offsets.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::coordination::GroupRegistry;
use crate::coordination::StoredOffset;
use crate::error::Error;
use crate::stats::Stats;

/// Keeps, for each partition, the next offset that the group has to read.
pub(crate) trait OffsetStore: Send + Sync {
    /// The stored offset of each partition. An error fails the rebalance, which is tried again.
    fn fetch(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<HashMap<TopicPartition, StoredOffset>, Error>;

    /// Stores offsets; the results are in the order of the arguments. With `session`, only as long as that
    /// ZooKeeper session lives, in which the partitions were claimed.
    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        session: Option<i64>,
    ) -> Vec<Result<(), Error>>;
}

/// Offsets in `/consumers/<group>/offsets`, as `offsets.storage=zookeeper` says.
pub(crate) struct ZooKeeperOffsets {
    group: GroupRegistry,
    stats: Arc<Stats>,
}

impl ZooKeeperOffsets {
    pub(crate) fn new(group: GroupRegistry, stats: Arc<Stats>) -> Self {
        Self { group, stats }
    }
}

impl OffsetStore for ZooKeeperOffsets {
    fn fetch(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<HashMap<TopicPartition, StoredOffset>, Error> {
        self.group.offsets(partitions)
    }

    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        session: Option<i64>,
    ) -> Vec<Result<(), Error>> {
        let results = match session {
            Some(session) => self.group.in_session(session).store_offsets(offsets),
            None => self.group.store_offsets(offsets),
        };
        let stored = results.iter().filter(|result| result.is_ok()).count();
        self.stats
            .zookeeper_commits
            .add(u64::try_from(stored).unwrap_or(u64::MAX));
        results
    }
}
