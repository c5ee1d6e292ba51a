//! Commits, one at a time, of what the member owns.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use parking_lot::MutexGuard;

use crate::cluster::TopicPartition;
use crate::consumer::application_code::guarded;
use crate::consumer::offset_store::OffsetCall;
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

/// Tells the ZooKeeper session of the moment; `None` between two.
type PresentSession = Box<dyn Fn() -> Option<i64> + Send + Sync>;

/// Writes consumed offsets, and is the only one that changes what the member owns.
///
/// Each attempt reads the owned partitions and writes their offsets under one lock, and they are given up
/// under the same lock. So no commit reaches a partition after the member has released it, and an old
/// snapshot never follows a newer one (D21, D41).
pub(crate) struct Committer {
    store: Arc<dyn OffsetStore>,
    ownership: Arc<Ownership>,
    session: PresentSession,
    stats: Arc<Stats>,
    events: EventSender,
    /// Pause between two attempts: `offsets.channel.backoff.ms`.
    backoff: Duration,
    /// Held while the store is written; taken before any other lock.
    writing: Mutex<()>,
}

impl Committer {
    pub(crate) fn new(
        store: Arc<dyn OffsetStore>,
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
            writing: Mutex::default(),
        }
    }

    /// The stored offsets of partitions that were claimed in `session`, if they were claimed.
    pub(crate) fn fetch(
        &self,
        partitions: &[TopicPartition],
        session: Option<i64>,
        stop: &StopSignal,
    ) -> Result<HashMap<TopicPartition, i64>, Error> {
        let call = OffsetCall::new(session, stop);
        let fetched = guarded(|| self.store.fetch(partitions, &call));
        let mut offsets = fetched.map_err(|error| Error::of_store("fetching offsets", error))?;
        offsets.retain(|_, offset| *offset >= 0);
        Ok(offsets)
    }

    /// Commits how far each owned partition has been consumed, in up to `attempts` attempts, each with the
    /// offsets of its time.
    pub(crate) fn commit_owned(&self, attempts: u32, stop: &StopSignal) -> Result<Offsets, Error> {
        self.attempts(attempts, stop, |writing| self.write_owned(writing, stop))
    }

    /// Commits exactly `offsets`, also of partitions that are not owned.
    pub(crate) fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        attempts: u32,
        stop: &StopSignal,
    ) -> Result<Offsets, Error> {
        let call = OffsetCall::new(None, stop);
        self.attempts(attempts, stop, |writing| {
            self.write(writing, offsets, &call)
        })
    }

    /// Takes over what a rebalance has claimed.
    pub(crate) fn publish(&self, owned: OwnedPartitions) {
        let _writing = self.writing.lock();
        self.ownership.replace(owned);
    }

    /// Commits for the last time, then owns nothing, whatever became of the commit: what was not committed
    /// is delivered again.
    pub(crate) fn commit_and_withdraw(&self, attempts: u32, stop: &StopSignal) {
        let earlier = self.commit_owned(attempts, stop);
        let writing = self.writing.lock();
        let outcome = match earlier {
            // More was consumed meanwhile.
            Ok(committed) if committed != self.ownership.current().consumed() => {
                self.write_owned(&writing, stop)
            }
            outcome => outcome,
        };
        self.withdraw_from(&writing);
        drop(writing);
        self.report(outcome);
    }

    /// Owns nothing from now on, without a commit: others may own it by now.
    pub(crate) fn withdraw(&self) {
        self.withdraw_from(&self.writing.lock());
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
            error => {
                let owned = self.ownership.current();
                (owned.partitions.keys().cloned().collect(), error.chain())
            }
        };
        self.events.send(Event::CommitFailed { partitions, reason });
    }

    fn withdraw_from(&self, _writing: &MutexGuard<'_, ()>) {
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
        attempt: impl Fn(&MutexGuard<'_, ()>) -> Result<Offsets, Error>,
    ) -> Result<Offsets, Error> {
        let mut left = attempts;
        loop {
            let outcome = attempt(&self.writing.lock());
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

    fn write_owned(
        &self,
        writing: &MutexGuard<'_, ()>,
        stop: &StopSignal,
    ) -> Result<Offsets, Error> {
        let owned = self.ownership.current();
        if owned.partitions.is_empty() {
            return Ok(Offsets::new());
        }
        // In another session than the one that claimed them the partitions may be somebody else's. Those that were
        // chosen without a group are nobody's.
        if owned.session.is_some() && owned.session != (self.session)() {
            return Err(Error::SessionExpired);
        }
        let call = OffsetCall::new(owned.session, stop);
        self.write(writing, &owned.consumed(), &call)
    }

    fn write(
        &self,
        _writing: &MutexGuard<'_, ()>,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Offsets, Error> {
        let results = guarded(|| self.store.commit(offsets, call)).map_err(|error| {
            self.count_failures(offsets.len());
            Error::of_store("committing offsets", error)
        })?;
        let mut results = results.into_iter();
        let mut failed = Vec::new();
        for (partition, _) in offsets {
            let result = results.next();
            let result = result.unwrap_or_else(|| Err("it lacks a result".into()));
            if let Err(error) = result {
                let doing = format!("committing the offset of {partition}");
                failed.push((partition.clone(), Error::of_store(doing, error)));
            }
        }
        if failed.is_empty() {
            return Ok(offsets.to_vec());
        }
        self.count_failures(failed.len());
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

    fn count_failures(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.stats.commit_failures.add(count);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::VecDeque;
    use std::thread;

    use crossbeam_channel::RecvTimeoutError;
    use crossbeam_channel::bounded;

    use crate::consumer::offset_store::OffsetStoreError;
    use crate::consumer::owned_partitions::OwnedPartition;
    use crate::coordination::ConsumerThreadId;
    use crate::events::event_channel;
    use crate::fetch::ChunkQueue;
    use crate::fetch::PartitionTopicInfo;
    use crate::thread::Stopper;

    use super::*;

    const SESSION: i64 = 7;

    type Outcome = Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError>;

    /// Writes down what it is given, once it has no other outcome to tell.
    #[derive(Default)]
    struct Notebook {
        written: Mutex<Offsets>,
        /// Happens once, in the midst of a commit.
        meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
        outcomes: Mutex<VecDeque<Outcome>>,
        /// Panics once when it is asked to fetch, and once when it is asked to commit.
        panics: Mutex<Vec<&'static str>>,
    }

    impl Notebook {
        fn may_panic(&self, call: &str) {
            let mut panics = self.panics.lock();
            let panicking = panics.iter().position(|of| *of == call);
            if let Some(index) = panicking {
                panics.remove(index);
                drop(panics);
                panic!("in {call}");
            }
        }
    }

    impl OffsetStore for Notebook {
        fn fetch(
            &self,
            _partitions: &[TopicPartition],
            _call: &OffsetCall,
        ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
            self.may_panic("fetch");
            Ok(HashMap::new())
        }

        fn commit(
            &self,
            offsets: &[(TopicPartition, i64)],
            _call: &OffsetCall,
        ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError> {
            self.may_panic("commit");
            if let Some(meanwhile) = self.meanwhile.lock().take() {
                meanwhile();
            }
            if let Some(outcome) = self.outcomes.lock().pop_front() {
                return outcome;
            }
            self.written.lock().extend(offsets.iter().cloned());
            Ok(offsets.iter().map(|_| Ok(())).collect())
        }
    }

    struct Bench {
        committer: Arc<Committer>,
        notebook: Arc<Notebook>,
        session: Arc<Mutex<Option<i64>>>,
        stop: Stopper,
    }

    impl Bench {
        fn new() -> Self {
            let notebook = Arc::new(Notebook::default());
            let session = Arc::new(Mutex::new(Some(SESSION)));
            let present = Arc::clone(&session);
            let (events, _) = event_channel();
            let store: Arc<dyn OffsetStore> = notebook.clone();
            let committer = Committer::new(
                store,
                Arc::default(),
                Box::new(move || *present.lock()),
                Arc::default(),
                events,
                Duration::from_millis(1),
            );
            Self {
                committer: Arc::new(committer),
                notebook,
                session,
                stop: Stopper::new(),
            }
        }

        /// Owns partition 0 from offset 5 on.
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
            self.committer.publish(owned);
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

        fn meanwhile(&self, happens: impl FnOnce() + Send + 'static) {
            *self.notebook.meanwhile.lock() = Some(Box::new(happens));
        }

        fn fail(&self, outcome: Outcome) {
            self.notebook.outcomes.lock().push_back(outcome);
        }
    }

    fn partition(number: i32) -> TopicPartition {
        TopicPartition::new("orders", number)
    }

    #[test]
    fn a_store_is_given_all_positions_each_time() {
        // KAFKA-1510: brokers forget offsets that are not written again.
        let bench = Bench::new();
        bench.own();
        for _ in 0..2 {
            assert_eq!(bench.commit_owned(1).unwrap(), [(partition(0), 5)]);
            assert_eq!(bench.written(), [(partition(0), 5)]);
        }
    }

    #[test]
    fn an_error_of_a_store_reaches_the_caller_and_one_of_ours_decides_about_another_attempt() {
        let bench = Bench::new();
        bench.own();
        bench.fail(Err("disk full".into()));
        let error = bench.commit_owned(1).unwrap_err();
        assert_eq!(error.chain(), "offset store: committing offsets: disk full");
        bench.fail(Err("disk full".into()));
        bench.commit_owned(2).unwrap();
        assert_eq!(
            bench.written(),
            [(partition(0), 5)],
            "at the second attempt"
        );

        bench.fail(Err(Error::Closed.into()));
        let error = bench.commit_owned(2).unwrap_err();
        assert!(matches!(error, Error::Closed), "{error}");
        assert_eq!(bench.written(), []);
    }

    #[test]
    fn a_panic_of_a_store_is_an_error_and_ends_no_thread() {
        // It ended `auto-commit` or `rebalance`: nothing was committed any more, or nothing rebalanced, and only the
        // standard error told.
        let bench = Bench::new();
        bench.own();
        bench.notebook.panics.lock().extend(["fetch", "commit"]);
        let stop = bench.stop.signal();
        let fetch = || bench.committer.fetch(&[partition(0)], Some(SESSION), &stop);
        let error = fetch().unwrap_err();
        assert!(error.is_retriable());
        assert_eq!(
            error.chain(),
            "offset store: fetching offsets: panicked: in fetch"
        );
        assert!(fetch().unwrap().is_empty());
        let error = bench.commit_owned(1).unwrap_err();
        assert!(error.chain().ends_with("panicked: in commit"), "{error}");
        bench.commit_owned(1).unwrap();
        assert_eq!(bench.written(), [(partition(0), 5)]);
    }

    #[test]
    fn each_partition_has_its_own_result_and_a_missing_one_is_a_failure() {
        let bench = Bench::new();
        let both = [(partition(0), 1), (partition(1), 2), (partition(2), 3)];
        bench.fail(Ok(vec![Ok(()), Err("full".into())]));
        let Err(Error::CommitFailed { committed, failed }) = bench.commit(&both) else {
            panic!("two of three failed");
        };
        assert_eq!(committed, [(partition(0), 1)]);
        let reasons: Vec<String> = failed.iter().map(|(_, error)| error.chain()).collect();
        assert!(reasons[0].ends_with("orders/1: full"), "{reasons:?}");
        assert!(
            reasons[1].ends_with("orders/2: it lacks a result"),
            "{reasons:?}"
        );
        assert_eq!(bench.committer.stats.commit_failures.get(), 2);
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
        for _ in 0..2 {
            bench.fail(Ok(vec![Err(Error::GroupChanged.into())]));
        }
        let Err(Error::CommitFailed { committed, failed }) = bench.commit_owned(2) else {
            panic!("both attempts failed");
        };
        assert_eq!((committed.len(), failed.len()), (0, 1));
        // D41: the original wrote at its second attempt what it had read for the first.
        bench.fail(Ok(vec![Err(Error::GroupChanged.into())]));
        bench.meanwhile(move || info.mark_consumed(7, 0));
        bench.commit_owned(2).unwrap();
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

    #[test]
    fn partitions_are_not_given_up_in_the_midst_of_a_commit() {
        // D21: what was still on its way when the partitions were released overtook the next owner's commits.
        let bench = Bench::new();
        bench.own();
        let (given_up, is_given_up) = bounded(1);
        let (committer, early) = (Arc::clone(&bench.committer), is_given_up.clone());
        bench.meanwhile(move || {
            thread::spawn(move || {
                committer.withdraw();
                given_up.send(())
            });
            let quiet = Duration::from_millis(50);
            assert_eq!(early.recv_timeout(quiet), Err(RecvTimeoutError::Timeout));
        });
        bench.commit_owned(1).unwrap();
        assert_eq!(bench.written(), [(partition(0), 5)]);
        is_given_up.recv().unwrap();
        assert_eq!(bench.commit_owned(1).unwrap(), []);
    }
}
