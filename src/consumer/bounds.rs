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
    records: Mutex<Records>,
    /// All ends were reached: for good, whatever a rebalance brings later.
    over: AtomicBool,
    /// Queues of streams that nobody reads any more.
    abandoned: Mutex<Vec<Arc<ChunkQueue>>>,
}

#[derive(Debug, Default)]
struct Records {
    /// Of the partitions that a generation has owned.
    owned: BTreeMap<TopicPartition, Record>,
    /// The new ends of partitions that an attempt is about to own, which may fail.
    new_ends: BTreeMap<TopicPartition, Arc<PartitionEnd>>,
}

#[derive(Debug)]
struct Record {
    end: Arc<PartitionEnd>,
    /// Of the last generation that owned it.
    info: Arc<PartitionTopicInfo>,
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
        let Records { owned, new_ends } = &mut *records;
        let kept = owned.get(topic_partition);
        if let Some(record) = kept.filter(|record| record.lost.is_none()) {
            return Arc::clone(&record.end);
        }
        let new = new_ends.entry(topic_partition.clone());
        Arc::clone(new.or_insert_with(|| PartitionEnd::new(Arc::clone(&self.bell))))
    }

    /// There is a new generation. Partitions that were owned and are not any more have been handed over,
    /// or are gone if they do not `exist`.
    pub(crate) fn note_generation(
        &self,
        owned: &OwnedPartitions,
        exists: impl Fn(&TopicPartition) -> bool,
    ) {
        let mut records = self.records.lock();
        for (partition, record) in &mut records.owned {
            let is_owned = owned.partitions.contains_key(partition);
            if !is_owned && record.lost.is_none() {
                record.lost = Some(match exists(partition) {
                    true => Lost::HandedOver,
                    false => Lost::Deleted,
                });
            }
        }
        // Without those that an attempt without success was about to own.
        let mut new_ends = std::mem::take(&mut records.new_ends);
        for (partition, of_thread) in &owned.partitions {
            let info = Arc::clone(&of_thread.info);
            if let Some(end) = new_ends.remove(partition) {
                let lost = None;
                let record = Record { end, info, lost };
                records.owned.insert(partition.clone(), record);
            } else if let Some(record) = records.owned.get_mut(partition) {
                record.info = info;
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
        owned.infos_of(queue).for_each(|info| info.leave());
        // Between two generations nothing is owned, and nothing is known. What is owned without a session was chosen
        // without the group.
        let is_known = owned.session.is_some() || !owned.partitions.is_empty();
        let is_through =
            |info: &Arc<PartitionTopicInfo>| info.is_done() || self.is_abandoned(info.queue());
        let is_over = is_known && owned.infos().all(is_through);
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
        owned.infos_of(queue).all(|info| info.is_all_fetched())
    }

    pub(crate) fn report(&self) -> Vec<BoundedPartition> {
        let records = self.records.lock();
        let partitions = records.owned.iter();
        partitions
            .map(|(partition, record)| record.report(partition))
            .collect()
    }
}

impl Record {
    fn report(&self, topic_partition: &TopicPartition) -> BoundedPartition {
        let end = self.end.state();
        let position = self.info.consumed();
        let standstill = self.info.standstill();
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

#[cfg(test)]
mod tests {
    use crate::consumer::owned_partitions::OwnedPartition;
    use crate::coordination::ConsumerThreadId;

    use super::*;

    fn orders(partition: i32) -> TopicPartition {
        TopicPartition::new("orders", partition)
    }

    struct Bench {
        queue: Arc<ChunkQueue>,
        bounds: Arc<Bounds>,
    }

    impl Bench {
        fn new() -> Self {
            let queue = ChunkQueue::new(2, 100);
            let bounds = Bounds::new([&queue].into_iter(), Arc::default());
            Self { queue, bounds }
        }

        /// A generation that owns these partitions, from offset 5 on.
        fn own(&self, partitions: &[i32]) {
            let of_thread = |partition: i32| {
                let end = Some(self.bounds.end_of(&orders(partition)));
                let queue = Arc::clone(&self.queue);
                let info = PartitionTopicInfo::with_end(orders(partition), queue, Some(5), end);
                let thread = ConsumerThreadId::new("g_m", 0);
                (orders(partition), OwnedPartition { info, thread })
            };
            let owned = OwnedPartitions {
                partitions: partitions.iter().copied().map(of_thread).collect(),
                ..OwnedPartitions::default()
            };
            self.bounds.note_generation(&owned, |_| true);
        }

        fn report(&self) -> Vec<String> {
            let report = self.bounds.report();
            report.iter().map(BoundedPartition::to_string).collect()
        }
    }

    #[test]
    fn a_partition_that_an_attempt_in_vain_wanted_back_stays_in_the_report() {
        // It was forgotten: the report said nothing of a partition that the member had read and handed over.
        let bench = Bench::new();
        bench.own(&[0, 1]);
        bench.own(&[1]);
        let handed_over = "orders/0 from 5 to 5 of ?: handed over to another member";
        let reading = "orders/1 from 5 to 5 of ?: not read to the end";
        assert_eq!(bench.report(), [handed_over, reading]);
        bench.bounds.end_of(&orders(0));
        bench.bounds.end_of(&orders(2));
        bench.own(&[1]);
        assert_eq!(bench.report(), [handed_over, reading]);
    }

    #[test]
    fn a_partition_keeps_its_end_until_it_is_handed_over_and_gets_a_new_one_when_it_comes_back() {
        let bench = Bench::new();
        bench.own(&[0]);
        let first = bench.bounds.end_of(&orders(0));
        bench.own(&[0]);
        assert!(Arc::ptr_eq(&first, &bench.bounds.end_of(&orders(0))));
        bench.own(&[]);
        let second = bench.bounds.end_of(&orders(0));
        assert!(!Arc::ptr_eq(&first, &second));
        bench.own(&[0]);
        assert!(Arc::ptr_eq(&second, &bench.bounds.end_of(&orders(0))));
        assert_eq!(
            bench.report(),
            ["orders/0 from 5 to 5 of ?: not read to the end"]
        );
    }
}
