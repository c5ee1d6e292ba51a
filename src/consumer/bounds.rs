//! How far a member that reads up to the ends has come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::consumer::bounded_partition::BoundedOutcome;
use crate::consumer::bounded_partition::BoundedPartition;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::consumer::owned_partitions::Ownership;
use crate::fetch::ChunkQueue;
use crate::fetch::EndBell;
use crate::fetch::PartitionEnd;
use crate::fetch::PartitionTopicInfo;
use crate::fetch::Standstill;

/// The ends of all partitions of a member, those that it owns and those that it has owned.
#[derive(Debug)]
pub(crate) struct Bounds {
    bell: Arc<EndBell>,
    ownership: Arc<Ownership>,
    records: Mutex<BTreeMap<TopicPartition, Record>>,
    /// All ends were reached: for good, whatever a rebalance brings later.
    over: AtomicBool,
    /// Queues of streams that nobody reads any more.
    abandoned: Mutex<Vec<Arc<ChunkQueue>>>,
}

#[derive(Debug)]
struct Record {
    end: Arc<PartitionEnd>,
    /// Of the last generation that owned it; `None` before the first.
    info: Option<Arc<PartitionTopicInfo>>,
    lost: Option<Lost>,
}

#[derive(Clone, Copy, Debug)]
enum Lost {
    HandedOver,
    Deleted,
}

impl Bounds {
    /// `queues` are those of all streams of the member.
    pub(crate) fn new<'a>(
        queues: impl Iterator<Item = &'a Arc<ChunkQueue>>,
        ownership: Arc<Ownership>,
    ) -> Arc<Self> {
        Arc::new(Self {
            bell: EndBell::new(queues.cloned().collect()),
            ownership,
            records: Mutex::default(),
            over: AtomicBool::new(false),
            abandoned: Mutex::default(),
        })
    }

    /// The end of a partition that the member is about to own: the one it has, or if it did not own the
    /// partition until now, a new one.
    pub(crate) fn end_of(&self, topic_partition: &TopicPartition) -> Arc<PartitionEnd> {
        let mut records = self.records.lock();
        if let Some(record) = records.get(topic_partition)
            && record.lost.is_none()
        {
            return Arc::clone(&record.end);
        }
        let end = PartitionEnd::new(Arc::clone(&self.bell));
        let record = Record {
            end: Arc::clone(&end),
            info: None,
            lost: None,
        };
        records.insert(topic_partition.clone(), record);
        end
    }

    /// There is a new generation. Partitions that were owned and are not any more have been handed over,
    /// or are gone if they do not `exist`.
    pub(crate) fn note_generation(
        &self,
        owned: &OwnedPartitions,
        exists: impl Fn(&TopicPartition) -> bool,
    ) {
        let mut records = self.records.lock();
        // Those that an attempt without success was about to own.
        records.retain(|partition, record| {
            record.info.is_some() || owned.partitions.contains_key(partition)
        });
        for (partition, record) in &mut *records {
            if let Some(owned) = owned.partitions.get(partition) {
                record.info = Some(Arc::clone(&owned.info));
            } else if record.lost.is_none() {
                record.lost = Some(if exists(partition) {
                    Lost::HandedOver
                } else {
                    Lost::Deleted
                });
            }
        }
        drop(records);
        self.bell.ring();
    }

    /// Whether every partition that the member owns and still reads is at its end; from then on for ever.
    ///
    /// Called by the stream of `queue`, whose application has come back: what it was told of a bad message, or of
    /// an offset that is missing, and did not decide on, it has left.
    pub(crate) fn are_reached(&self, queue: &Arc<ChunkQueue>) -> bool {
        if self.over.load(Ordering::Acquire) {
            return true;
        }
        let owned = self.ownership.current();
        for info in owned.infos() {
            if Arc::ptr_eq(info.queue(), queue) {
                info.leave();
            }
        }
        // Between two generations nothing is owned, and nothing is known.
        let is_over = owned.session.is_some()
            && owned
                .infos()
                .all(|info| info.is_done() || self.is_abandoned(info.queue()));
        if is_over {
            self.over.store(true, Ordering::Release);
            self.bell.ring();
        }
        is_over
    }

    /// The stream of `queue` was dropped: what it has not read it never will.
    pub(crate) fn abandon(&self, queue: &Arc<ChunkQueue>) {
        self.abandoned.lock().push(Arc::clone(queue));
        self.bell.ring();
    }

    fn is_abandoned(&self, queue: &Arc<ChunkQueue>) -> bool {
        let abandoned = self.abandoned.lock();
        abandoned.iter().any(|other| Arc::ptr_eq(other, queue))
    }

    /// Whether everything that will ever come by `queue` is in it, or was, as far as is known now.
    pub(crate) fn is_all_fetched(&self, queue: &Arc<ChunkQueue>) -> bool {
        let owned = self.ownership.current();
        let mut own = owned.infos().filter(|it| Arc::ptr_eq(it.queue(), queue));
        own.all(|info| info.is_all_fetched())
    }

    pub(crate) fn report(&self) -> Vec<BoundedPartition> {
        let records = self.records.lock();
        let partitions = records.iter();
        partitions
            .map(|(partition, record)| record.report(partition))
            .collect()
    }
}

impl Record {
    fn report(&self, topic_partition: &TopicPartition) -> BoundedPartition {
        let end = self.end.state();
        let position = self.info.as_ref().and_then(|info| info.consumed());
        let standstill = self.info.as_ref().and_then(|info| info.standstill());
        let is_reached = self.end.is_reached(position);
        let outcome = match (is_reached, self.lost, standstill) {
            (true, _, _) => match end.lowered_to {
                None => BoundedOutcome::Reached,
                Some(log_end) => BoundedOutcome::Truncated { log_end },
            },
            (false, Some(Lost::HandedOver), _) => BoundedOutcome::HandedOver,
            (false, Some(Lost::Deleted), _) => BoundedOutcome::Deleted,
            (false, None, Some(Standstill::BadMessage(at))) => {
                BoundedOutcome::BadMessage { offset: at.offset }
            }
            (false, None, Some(Standstill::NoOffset)) => BoundedOutcome::NoOffset,
            (false, None, None) => BoundedOutcome::Reading,
        };
        BoundedPartition {
            topic_partition: topic_partition.clone(),
            start: end.start,
            end: end.end,
            position,
            outcome,
        }
    }
}
