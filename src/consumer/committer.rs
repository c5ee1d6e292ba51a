//! Commits, one at a time, of what the member owns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use parking_lot::MutexGuard;

use crate::cluster::TopicPartition;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::consumer::owned_partitions::Ownership;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::stats::Stats;
use crate::thread::StopSignal;

/// Offsets by partition, as committed.
pub(crate) type Offsets = Vec<(TopicPartition, i64)>;

/// What the store holds of the partitions that are owned, as far as we know, so that nothing is written
/// twice (KAFKA-987). Of the others somebody else may have moved it meanwhile.
type Checkpoints = BTreeMap<TopicPartition, i64>;

/// Tells the ZooKeeper session of the moment; `None` between two.
type PresentSession = Box<dyn Fn() -> Option<i64> + Send + Sync>;

/// Writes consumed offsets, and is the only one that changes what the member owns.
///
/// Each attempt reads the owned partitions and writes their offsets under one lock, and they are given up
/// under the same lock. So no commit reaches a partition after the member has released it, and an old
/// snapshot never follows a newer one (D21, D41).
pub(crate) struct Committer {
    store: Box<dyn OffsetStore>,
    ownership: Arc<Ownership>,
    session: PresentSession,
    stats: Arc<Stats>,
    events: EventSender,
    /// Pause between two attempts: `offsets.channel.backoff.ms`.
    backoff: Duration,
    /// Held while the store is written; taken before any other lock.
    checkpoints: Mutex<Checkpoints>,
}

impl Committer {
    pub(crate) fn new(
        store: Box<dyn OffsetStore>,
        ownership: Arc<Ownership>,
        session: PresentSession,
        stats: Arc<Stats>,
        events: EventSender,
        backoff: Duration,
    ) -> Self {
        Self {
            store,
            ownership,
            session,
            stats,
            events,
            backoff,
            checkpoints: Mutex::default(),
        }
    }

    pub(crate) fn store(&self) -> &dyn OffsetStore {
        &*self.store
    }

    /// Commits how far each owned partition has been consumed, in up to `attempts` attempts, each with the
    /// offsets of its time.
    pub(crate) fn commit_owned(&self, attempts: u32, stop: &StopSignal) -> Result<Offsets, Error> {
        self.attempts(attempts, stop, |mut checkpoints| {
            self.write_owned(&mut checkpoints)
        })
    }

    /// Commits exactly `offsets`, also of partitions that are not owned. What we once wrote there somebody
    /// else may have changed since, so that all of it is written.
    pub(crate) fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        attempts: u32,
        stop: &StopSignal,
    ) -> Result<Offsets, Error> {
        self.attempts(attempts, stop, |mut checkpoints| {
            for (partition, _) in offsets {
                checkpoints.remove(partition);
            }
            self.write(offsets, None, &mut checkpoints)
        })
    }

    /// Takes over what a rebalance has claimed; `stored` is what the store holds for it.
    pub(crate) fn publish(&self, owned: OwnedPartitions, stored: Offsets) {
        let mut checkpoints = self.checkpoints.lock();
        *checkpoints = stored.into_iter().collect();
        self.ownership.replace(owned);
    }

    /// Commits for the last time, then owns nothing, whatever became of the commit: what was not committed
    /// is delivered again.
    pub(crate) fn commit_and_withdraw(&self, attempts: u32, stop: &StopSignal) {
        let earlier = self.commit_owned(attempts, stop);
        let mut checkpoints = self.checkpoints.lock();
        // What was consumed meanwhile.
        let outcome = earlier.and_then(|_| self.write_owned(&mut checkpoints));
        self.withdraw_from(&mut checkpoints);
        drop(checkpoints);
        self.report(outcome);
    }

    /// Owns nothing from now on, without a commit: others may own it by now.
    pub(crate) fn withdraw(&self) {
        self.withdraw_from(&mut self.checkpoints.lock());
    }

    /// Tells the application of a commit that it did not ask for and that failed.
    pub(crate) fn report(&self, outcome: Result<Offsets, Error>) {
        let Err(error) = outcome else {
            return;
        };
        let (partitions, reason) = match &error {
            Error::CommitFailed { failed, .. } => {
                let first = failed.first().map(|(_, error)| error.chain());
                let partitions = failed.iter().map(|(partition, _)| partition.clone());
                (partitions.collect(), first.unwrap_or_default())
            }
            error => (Vec::new(), error.chain()),
        };
        self.events.send(Event::CommitFailed { partitions, reason });
    }

    fn withdraw_from(&self, checkpoints: &mut Checkpoints) {
        checkpoints.clear();
        let generation = self.ownership.current().generation;
        self.ownership.replace(OwnedPartitions {
            generation,
            ..OwnedPartitions::default()
        });
    }

    fn attempts(
        &self,
        attempts: u32,
        stop: &StopSignal,
        attempt: impl Fn(MutexGuard<'_, Checkpoints>) -> Result<Offsets, Error>,
    ) -> Result<Offsets, Error> {
        let mut left = attempts;
        loop {
            let outcome = attempt(self.checkpoints.lock());
            left = left.saturating_sub(1);
            let is_final = match &outcome {
                Ok(_) => true,
                Err(error) => left == 0 || !error.is_retriable(),
            };
            if is_final || !stop.pause(self.backoff) {
                return outcome;
            }
        }
    }

    fn write_owned(&self, checkpoints: &mut Checkpoints) -> Result<Offsets, Error> {
        let owned = self.ownership.current();
        if owned.partitions.is_empty() {
            return Ok(Offsets::new());
        }
        // In another session than the one that claimed them the partitions may be somebody else's. Those that were
        // chosen without a group are nobody's.
        if owned.session.is_some() && owned.session != (self.session)() {
            return Err(Error::SessionExpired);
        }
        self.write(&owned.consumed(), owned.session, checkpoints)
    }

    fn write(
        &self,
        offsets: &[(TopicPartition, i64)],
        session: Option<i64>,
        checkpoints: &mut Checkpoints,
    ) -> Result<Offsets, Error> {
        let changed: Offsets = offsets
            .iter()
            .filter(|(partition, offset)| checkpoints.get(partition) != Some(offset))
            .cloned()
            .collect();
        let owned = self.ownership.current();
        let mut failed = Vec::new();
        for ((partition, offset), result) in
            changed.iter().zip(self.store.commit(&changed, session))
        {
            match result {
                Ok(()) if owned.partitions.contains_key(partition) => {
                    checkpoints.insert(partition.clone(), *offset);
                }
                Ok(()) => {}
                Err(error) => {
                    // Unknown what is stored now.
                    checkpoints.remove(partition);
                    failed.push((partition.clone(), error));
                }
            }
        }
        if failed.is_empty() {
            return Ok(offsets.to_vec());
        }
        let count = u64::try_from(failed.len()).unwrap_or(u64::MAX);
        self.stats.commit_failures.add(count);
        let is_failed =
            |partition: &TopicPartition| failed.iter().any(|(other, _)| other == partition);
        let committed = offsets
            .iter()
            .filter(|(partition, _)| !is_failed(partition));
        Err(Error::CommitFailed {
            committed: committed.cloned().collect(),
            failed,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use crate::consumer::owned_partitions::OwnedPartition;
    use crate::coordination::ConsumerThreadId;
    use crate::coordination::StoredOffset;
    use crate::events::event_channel;
    use crate::fetch::ChunkQueue;
    use crate::fetch::PartitionTopicInfo;
    use crate::thread::Stopper;

    use super::*;

    const SESSION: i64 = 7;

    /// Writes down what it is given, and fails as long as it is told to.
    #[derive(Clone, Default)]
    struct Notebook {
        written: Arc<Mutex<Offsets>>,
        failures: Arc<Mutex<u32>>,
    }

    impl OffsetStore for Notebook {
        fn fetch(
            &self,
            _partitions: &[TopicPartition],
        ) -> Result<HashMap<TopicPartition, StoredOffset>, Error> {
            Ok(HashMap::new())
        }

        fn commit(
            &self,
            offsets: &[(TopicPartition, i64)],
            _session: Option<i64>,
        ) -> Vec<Result<(), Error>> {
            let mut failures = self.failures.lock();
            if *failures > 0 {
                *failures -= 1;
                return offsets.iter().map(|_| Err(Error::GroupChanged)).collect();
            }
            self.written.lock().extend(offsets.iter().cloned());
            offsets.iter().map(|_| Ok(())).collect()
        }
    }

    struct Bench {
        committer: Committer,
        notebook: Notebook,
        session: Arc<Mutex<Option<i64>>>,
        stop: Stopper,
    }

    impl Bench {
        fn new() -> Self {
            let notebook = Notebook::default();
            let session = Arc::new(Mutex::new(Some(SESSION)));
            let present = Arc::clone(&session);
            let (events, _) = event_channel();
            let committer = Committer::new(
                Box::new(notebook.clone()),
                Arc::default(),
                Box::new(move || *present.lock()),
                Arc::default(),
                events,
                Duration::from_millis(1),
            );
            Self {
                committer,
                notebook,
                session,
                stop: Stopper::new(),
            }
        }

        /// Owns partition 0 from offset 5 on, which the store knows.
        fn own(&self) -> Arc<PartitionTopicInfo> {
            self.own_in(Some(SESSION))
        }

        fn own_in(&self, session: Option<i64>) -> Arc<PartitionTopicInfo> {
            let info = PartitionTopicInfo::new(partition(0), ChunkQueue::new(1, 1), Some(5));
            let owned = OwnedPartition {
                info: Arc::clone(&info),
                thread: ConsumerThreadId::new("g_m", 0),
            };
            let owned = OwnedPartitions {
                generation: 1,
                session,
                partitions: BTreeMap::from([(partition(0), owned)]),
            };
            self.committer.publish(owned, vec![(partition(0), 5)]);
            info
        }

        fn commit_owned(&self, attempts: u32) -> Result<Offsets, Error> {
            self.committer.commit_owned(attempts, &self.stop.signal())
        }

        fn commit(&self, offsets: &[(TopicPartition, i64)]) -> Result<Offsets, Error> {
            self.committer.commit(offsets, 1, &self.stop.signal())
        }

        fn written(&self) -> Offsets {
            std::mem::take(&mut *self.notebook.written.lock())
        }
    }

    fn partition(number: i32) -> TopicPartition {
        TopicPartition::new("orders", number)
    }

    #[test]
    fn what_the_store_holds_already_is_not_written_again() {
        let bench = Bench::new();
        let info = bench.own();
        bench.commit_owned(1).unwrap();
        assert_eq!(bench.written(), [], "as read");
        info.mark_consumed(6, 0);
        for _ in 0..2 {
            assert_eq!(bench.commit_owned(1).unwrap(), [(partition(0), 6)]);
        }
        assert_eq!(bench.written(), [(partition(0), 6)]);
    }

    #[test]
    fn an_offset_of_a_partition_that_is_not_owned_is_written_each_time() {
        // The second commit was taken for done, although the owner had moved the offset in between.
        let bench = Bench::new();
        bench.own();
        for _ in 0..2 {
            bench.commit(&[(partition(1), 0)]).unwrap();
        }
        assert_eq!(bench.written(), [(partition(1), 0), (partition(1), 0)]);
    }

    #[test]
    fn a_given_offset_is_overwritten_by_the_next_commit_of_what_was_consumed() {
        let bench = Bench::new();
        bench.own();
        bench.commit(&[(partition(0), 0)]).unwrap();
        bench.commit_owned(1).unwrap();
        assert_eq!(bench.written(), [(partition(0), 0), (partition(0), 5)]);
    }

    #[test]
    fn each_attempt_commits_the_offsets_of_its_time_and_no_more_are_made_than_allowed() {
        let bench = Bench::new();
        let info = bench.own();
        info.mark_consumed(6, 0);
        *bench.notebook.failures.lock() = 2;
        let Err(Error::CommitFailed { committed, failed }) = bench.commit_owned(2) else {
            panic!("both attempts failed");
        };
        assert_eq!((committed.len(), failed.len()), (0, 1));
        info.mark_consumed(7, 0);
        bench.commit_owned(1).unwrap();
        assert_eq!(bench.written(), [(partition(0), 7)]);
    }

    #[test]
    fn nothing_is_committed_in_another_session_than_that_of_the_owner_nodes() {
        let bench = Bench::new();
        bench.own().mark_consumed(6, 0);
        for session in [None, Some(SESSION + 1)] {
            *bench.session.lock() = session;
            let refused = bench.commit_owned(1);
            assert!(matches!(refused, Err(Error::SessionExpired)));
        }
        assert_eq!(bench.written(), []);
    }

    #[test]
    fn what_was_chosen_without_the_group_is_committed_in_any_session() {
        let bench = Bench::new();
        let info = bench.own_in(None);
        for (session, offset) in [(None, 6), (Some(SESSION), 7), (Some(SESSION + 1), 8)] {
            *bench.session.lock() = session;
            info.mark_consumed(offset, 0);
            bench.commit_owned(1).unwrap();
            assert_eq!(bench.written(), [(partition(0), offset)]);
        }
    }

    #[test]
    fn nothing_is_committed_after_the_partitions_were_given_up() {
        // D21: a late timer moved the offset back behind the back of the next owner.
        let bench = Bench::new();
        let info = bench.own();
        info.mark_consumed(6, 0);
        bench.committer.commit_and_withdraw(1, &bench.stop.signal());
        assert_eq!(bench.written(), [(partition(0), 6)]);
        info.mark_consumed(7, 0);
        assert_eq!(bench.commit_owned(1).unwrap(), []);
        assert_eq!(bench.written(), []);
    }
}
