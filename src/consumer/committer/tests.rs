use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::thread;

use crossbeam_channel::RecvTimeoutError;
use crossbeam_channel::bounded;

use crate::consumer::offset_store::OffsetStoreError;
use crate::consumer::owned_partitions::OwnedPartition;
use crate::coordination::ConsumerThreadId;
use crate::events::Events;
use crate::events::event_channel;
use crate::fetch::ChunkQueue;
use crate::fetch::PartitionTopicInfo;
use crate::thread::Stopper;

use super::*;

const SESSION: i64 = 7;

type Outcome = Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError>;

type Interruption = Box<dyn FnOnce() + Send>;

/// Writes down what it is given, once it has no other outcome to tell.
#[derive(Default)]
struct Notebook {
    /// What happens in the middle of the next commit.
    interruption: Mutex<Option<Interruption>>,
    written: Mutex<Offsets>,
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
        let interruption = self.interruption.lock().take();
        interruption.into_iter().for_each(|interrupt| interrupt());
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
    ownership: Arc<Ownership>,
    session: Arc<Mutex<Option<i64>>>,
    events: Events,
    stop: Stopper,
}

impl Bench {
    fn new() -> Self {
        let notebook = Arc::new(Notebook::default());
        let session = Arc::new(Mutex::new(Some(SESSION)));
        let present = Arc::clone(&session);
        let (sender, events) = event_channel();
        let store: Arc<dyn OffsetStore> = notebook.clone();
        let ownership = Arc::new(Ownership::default());
        let committer = Committer::new(
            store,
            Arc::clone(&ownership),
            Box::new(move || *present.lock()),
            Arc::default(),
            sender,
            Duration::from_millis(1),
        );
        Self {
            committer: Arc::new(committer),
            notebook,
            ownership,
            session,
            events,
            stop: Stopper::new(),
        }
    }

    /// Owns partition 0 from offset 5 on.
    fn own(&self) -> Arc<PartitionTopicInfo> {
        self.own_in(Some(SESSION))
    }

    fn own_in(&self, session: Option<i64>) -> Arc<PartitionTopicInfo> {
        self.committer.publish(owning(session, 5));
        self.ownership.info(&partition(0)).unwrap()
    }

    fn commit_owned(&self, attempts: u32) -> Result<Offsets, Error> {
        self.committer.commit_owned(attempts, &self.stop.signal())
    }

    fn commit(&self, offsets: &[(TopicPartition, i64)]) -> Result<Offsets, Error> {
        self.committer
            .commit(offsets, Vec::new(), 1, &self.stop.signal())
    }

    fn written(&self) -> Offsets {
        std::mem::take(&mut *self.notebook.written.lock())
    }

    fn interrupt(&self, by: impl FnOnce() + Send + 'static) {
        *self.notebook.interruption.lock() = Some(Box::new(by));
    }

    fn fail(&self, outcome: Outcome) {
        self.notebook.outcomes.lock().push_back(outcome);
    }
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new("orders", number)
}

/// Partition 0 from `offset` on.
fn owning(session: Option<i64>, offset: i64) -> OwnedPartitions {
    let owned = OwnedPartition {
        info: PartitionTopicInfo::new(partition(0), ChunkQueue::new(1, 1), Some(offset)),
        thread: ConsumerThreadId::new("g_m", 0),
    };
    OwnedPartitions {
        generation: 1,
        session,
        partitions: BTreeMap::from([(partition(0), owned)]),
    }
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
    bench.interrupt(move || info.mark_consumed(7, 0));
    bench.commit_owned(2).unwrap();
    assert_eq!(bench.written(), [(partition(0), 7)]);
}

#[test]
fn a_commit_that_failed_is_not_called_good_because_a_rebalance_followed() {
    // ZooKeeper hung, the commit failed, and its second attempt came after the partitions had been lost: it found
    // nothing to commit, and the application was told that all was well.
    for owned_next in [OwnedPartitions::default(), owning(Some(SESSION), 3)] {
        let bench = Bench::new();
        bench.own();
        bench.fail(Err("out of reach".into()));
        let ownership = Arc::clone(&bench.ownership);
        bench.interrupt(move || drop(ownership.replace(owned_next)));
        let error = bench.commit_owned(5).unwrap_err();
        assert!(error.chain().ends_with("out of reach"), "{error}");
        assert_eq!(bench.written(), []);
    }
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
fn a_last_commit_that_fails_as_a_whole_names_the_partitions_that_it_was_for() {
    // They had been given up by then: the event named none, and the log said `commit of  failed`.
    let bench = Bench::new();
    bench.own();
    bench.fail(Err("disk full".into()));
    bench.committer.commit_and_withdraw(1, &bench.stop.signal());
    let told = bench.events.try_next().map(|event| event.to_string());
    assert_eq!(
        told.as_deref(),
        Some("commit of orders/0 failed: offset store: committing offsets: disk full")
    );
}

#[test]
fn partitions_are_not_given_up_in_the_midst_of_a_commit() {
    // D21: what was still on its way when the partitions were released overtook the next owner's commits.
    let bench = Bench::new();
    bench.own();
    let (given_up, is_given_up) = bounded(1);
    let (committer, early) = (Arc::clone(&bench.committer), is_given_up.clone());
    bench.interrupt(move || {
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
