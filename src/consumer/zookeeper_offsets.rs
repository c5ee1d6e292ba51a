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
    /// Of the partitions that were fetched.
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
            self.known.lock().insert(partition.clone(), known);
            offsets.extend(offset.map(|offset| (partition, offset)));
        }
        Ok(offsets)
    }

    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Results, OffsetStoreError> {
        Ok(match call.session() {
            Some(session) => self.commit_owned(offsets, session),
            None => self.commit_any(offsets),
        })
    }
}
