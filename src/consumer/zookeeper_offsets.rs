//! Offsets in ZooKeeper.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::consumer::offset_store::OffsetCall;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::offset_store::OffsetStoreError;
use crate::coordination::GroupRegistry;
use crate::coordination::OwnedOffset;
use crate::coordination::SeenNode;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::stats::Stats;

/// Offsets in `/consumers/<group>/offsets`, as `offsets.storage=zookeeper` says.
///
/// Unlike Kafka: the owner of a partition writes only over what it has seen, so that a member that has lost the
/// partition without noticing cannot overwrite the progress of the next owner. What somebody else, such as a tool, has
/// written while the member owns the partition is overwritten, as in Kafka, and told.
pub(crate) struct ZooKeeperOffsets {
    group: GroupRegistry,
    stats: Arc<Stats>,
    events: EventSender,
    /// Of the partitions that were fetched last: those that the member owns.
    known: Mutex<HashMap<TopicPartition, KnownNode>>,
}

/// The node of an offset, as far as we know.
#[derive(Clone, Copy, Debug)]
struct KnownNode {
    node: SeenNode,
    /// What it holds, so that nothing is written twice (KAFKA-987).
    offset: Option<i64>,
    /// What a write of unknown outcome may have put there.
    attempted: Option<i64>,
}

impl KnownNode {
    const UNKNOWN: Self = Self {
        node: SeenNode::Unknown,
        offset: None,
        attempted: None,
    };
}

type Results = Vec<Result<(), OffsetStoreError>>;

impl ZooKeeperOffsets {
    pub(crate) fn new(group: GroupRegistry, stats: Arc<Stats>, events: EventSender) -> Self {
        Self {
            group,
            stats,
            events,
            known: Mutex::default(),
        }
    }

    /// Of partitions that are read without the group, whoever owns them. What is stored already is left out.
    fn commit_unowned(&self, offsets: &[(TopicPartition, i64)]) -> Results {
        let stored: Vec<bool> = {
            let known = self.known.lock();
            let of = |partition| known.get(partition).and_then(|known| known.offset);
            let all = offsets.iter();
            all.map(|(partition, offset)| of(partition) == Some(*offset))
                .collect()
        };
        let changed = offsets.iter().zip(&stored).filter(|(_, stored)| !**stored);
        let changed: Vec<_> = changed.map(|(offset, _)| offset.clone()).collect();
        let mut written = self.commit_any(&changed).into_iter();
        let results = stored.into_iter().map(|is_stored| match is_stored {
            true => Ok(()),
            false => written.next().unwrap_or_else(|| Err(Error::Closed.into())),
        });
        results.collect()
    }

    /// Whatever is stored, and whoever owns the partitions.
    fn commit_any(&self, offsets: &[(TopicPartition, i64)]) -> Results {
        let mut results = Vec::with_capacity(offsets.len());
        for ((partition, offset), written) in offsets.iter().zip(self.group.store_offsets(offsets))
        {
            let mut known = self.known.lock();
            if let Some(known) = known.get_mut(partition) {
                *known = match &written {
                    Ok(version) => KnownNode {
                        node: SeenNode::Version(*version),
                        offset: Some(*offset),
                        attempted: None,
                    },
                    Err(_) => KnownNode {
                        attempted: Some(*offset),
                        ..KnownNode::UNKNOWN
                    },
                };
            }
            drop(known);
            results.push(self.counted(written.map(drop)));
        }
        results
    }

    /// What is stored already is left out.
    fn commit_owned(&self, offsets: &[(TopicPartition, i64)], session: i64) -> Results {
        let known: Vec<KnownNode> = {
            let known = self.known.lock();
            let of = |partition| known.get(partition).copied();
            let all = offsets.iter().map(|(partition, _)| of(partition));
            all.map(|known| known.unwrap_or(KnownNode::UNKNOWN))
                .collect()
        };
        let is_stored = |known: &KnownNode, offset: i64| known.offset == Some(offset);
        let changed: Vec<OwnedOffset> = offsets
            .iter()
            .zip(&known)
            .filter(|((_, offset), known)| !is_stored(known, *offset))
            .map(|((partition, offset), known)| OwnedOffset {
                partition: partition.clone(),
                offset: *offset,
                node: known.node,
            })
            .collect();
        let mut written = self
            .group
            .store_owned_offsets(session, &changed)
            .into_iter();
        let results = offsets
            .iter()
            .zip(&known)
            .map(|((partition, offset), known)| {
                if is_stored(known, *offset) {
                    return Ok(());
                }
                let written = written.next().unwrap_or(Err(Error::Closed));
                let written = written.map(|written| {
                    self.tell_overwritten(partition, *offset, known, written.replaced);
                    written.version
                });
                self.learn(partition, *offset, known, &written);
                self.counted(written.map(drop))
            });
        results.collect()
    }

    fn learn(
        &self,
        partition: &TopicPartition,
        offset: i64,
        before: &KnownNode,
        written: &Result<i32, Error>,
    ) {
        let known = match written {
            Ok(version) => KnownNode {
                node: SeenNode::Version(*version),
                offset: Some(offset),
                attempted: None,
            },
            Err(_) => KnownNode {
                offset: None,
                attempted: Some(offset),
                ..*before
            },
        };
        self.known.lock().insert(partition.clone(), known);
    }

    fn tell_overwritten(
        &self,
        partition: &TopicPartition,
        offset: i64,
        before: &KnownNode,
        replaced: Option<Result<Option<i64>, String>>,
    ) {
        let Some(replaced) = replaced else {
            return;
        };
        let found = replaced.ok().flatten();
        let is_ours = found.is_some() && (found == before.attempted || found == before.offset);
        if is_ours || before.node == SeenNode::Unknown {
            return;
        }
        self.stats.offsets_overwritten.increment();
        self.events.send(Event::OffsetOverwritten {
            topic_partition: partition.clone(),
            found,
            stored: offset,
        });
    }

    fn counted(&self, written: Result<(), Error>) -> Result<(), OffsetStoreError> {
        if written.is_ok() {
            self.stats.zookeeper_commits.increment();
        }
        Ok(written?)
    }
}

impl OffsetStore for ZooKeeperOffsets {
    fn fetch(
        &self,
        partitions: &[TopicPartition],
        _call: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
        let mut offsets = HashMap::new();
        let mut all_known = HashMap::new();
        for (partition, seen) in self.group.offsets(partitions)? {
            let offset = seen.stored.unwrap_or_else(|reason| {
                let path = self.group.offset_path(&partition);
                self.stats.unusable_znodes.increment();
                self.events.send(Event::UnusableZnode { path, reason });
                None
            });
            let known = KnownNode {
                node: seen.node,
                offset,
                attempted: None,
            };
            all_known.insert(partition.clone(), known);
            offsets.extend(offset.map(|offset| (partition, offset)));
        }
        // Nothing is committed any more of what was owned before.
        *self.known.lock() = all_known;
        Ok(offsets)
    }

    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Results, OffsetStoreError> {
        Ok(match call.session() {
            Some(session) => self.commit_owned(offsets, session),
            None if call.is_given() => self.commit_any(offsets),
            None => self.commit_unowned(offsets),
        })
    }
}

#[cfg(feature = "embedded")]
#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::consumer::offset_store::OffsetCall;
    use crate::events::Events;
    use crate::events::event_channel;
    use crate::support::ZooKeeperShell;
    use crate::test_zookeeper::ServerKind;
    use crate::test_zookeeper::TestZooKeeper;
    use crate::thread::Stopper;
    use crate::zk::CreateMode;
    use crate::zk::ZkClient;
    use crate::zk::ZkConfig;

    use super::*;

    /// Owns partition 0.
    struct Bench {
        store: ZooKeeperOffsets,
        call: OffsetCall,
        events: Events,
        somebody_else: ZooKeeperShell,
        zk: Arc<ZkClient>,
        _stopper: Stopper,
        _server: Box<dyn TestZooKeeper>,
    }

    impl Bench {
        fn new() -> Self {
            let server = ServerKind::Embedded.start();
            let time = Duration::from_secs(20);
            let (zk, _) = ZkClient::connect(ZkConfig {
                connect: server.connect_string(),
                session_timeout: time,
                connection_timeout: time,
            })
            .unwrap();
            let owner = "/consumers/g/owners/orders/0";
            zk.create_with_parents(owner, b"g_m-0", CreateMode::Ephemeral)
                .unwrap();
            let (sender, events) = event_channel();
            let group = GroupRegistry::new(Arc::clone(&zk), "g");
            let stopper = Stopper::new();
            Self {
                store: ZooKeeperOffsets::new(group, Arc::default(), sender),
                call: OffsetCall::new(zk.session_id(), &stopper.signal()),
                events,
                somebody_else: ZooKeeperShell::connect(&server.connect_string()),
                zk,
                _stopper: stopper,
                _server: server,
            }
        }

        fn fetch(&self) -> Option<i64> {
            let fetched = self.store.fetch(&[partition()], &self.call).unwrap();
            fetched.get(&partition()).copied()
        }

        fn commit(&self, offset: i64) {
            let results = self.store.commit(&[(partition(), offset)], &self.call);
            results.unwrap().remove(0).unwrap();
            assert_eq!(self.fetch(), Some(offset));
        }

        fn put(&self, offset: &str) {
            self.somebody_else
                .put("/consumers/g/offsets/orders/0", offset)
                .unwrap();
        }
    }

    fn partition() -> TopicPartition {
        TopicPartition::new("orders", 0)
    }

    #[test]
    fn a_write_of_unknown_outcome_is_not_taken_for_somebody_elses() {
        let bench = Bench::new();
        assert_eq!(bench.fetch(), None);
        bench.commit(5);
        // As if the answer to a commit of 6 had not come.
        bench.put("6");
        let mut known = bench.store.known.lock();
        known.get_mut(&partition()).unwrap().attempted = Some(6);
        drop(known);
        bench.commit(7);
        assert_eq!(bench.events.try_next(), None);
        bench.put("3");
        bench.commit(8);
        let told = Event::OffsetOverwritten {
            topic_partition: partition(),
            found: Some(3),
            stored: 8,
        };
        assert_eq!(bench.events.try_next(), Some(told));
        bench.zk.close();
    }

    #[test]
    fn partitions_of_an_earlier_assignment_are_forgotten() {
        // Where topics came and went under a filter, this grew for as long as the member lived.
        let bench = Bench::new();
        for partition in [partition(), TopicPartition::new("bills", 3)] {
            let fetched = bench
                .store
                .fetch(std::slice::from_ref(&partition), &bench.call);
            assert!(fetched.unwrap().is_empty());
            let known = bench.store.known.lock();
            assert_eq!(known.keys().collect::<Vec<_>>(), [&partition]);
        }
        bench.zk.close();
    }

    #[test]
    fn an_offset_that_was_never_fetched_is_written_by_its_owner_without_ado() {
        let bench = Bench::new();
        bench.put("3");
        bench.commit(4);
        assert_eq!(bench.events.try_next(), None);
        bench.zk.close();
    }

    #[test]
    fn a_node_that_holds_no_offset_is_told_and_written_over() {
        let bench = Bench::new();
        bench.put("earliest");
        assert_eq!(bench.fetch(), None);
        let told = bench.events.try_next();
        assert!(
            matches!(told, Some(Event::UnusableZnode { .. })),
            "{told:?}"
        );
        bench.commit(1);
    }
}
