//! Offset stores of the application's own.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::OffsetCall;
use kafka_zk_consumer::OffsetStore;
use kafka_zk_consumer::OffsetStoreError;
use kafka_zk_consumer::TopicPartition;

use crate::offsets_with_results;
use crate::offsets_with_results::CountFiles;
use crate::reading::config;
use crate::reading::next;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::value;
use crate::reading::wait_until;

/// Set for the process that counts: where ZooKeeper is, and the folder of its files.
const COUNTER_OF: &str = "KZC_TEST_COUNTER_OF";
const COUNTER_FOLDER: &str = "KZC_TEST_COUNTER_FOLDER";

#[derive(Default)]
struct Memory {
    stored: Mutex<HashMap<TopicPartition, i64>>,
    /// Calls of `fetch` and `commit` that fail from now on.
    failures: Mutex<u32>,
    /// Of every call, the session.
    sessions: Mutex<BTreeSet<Option<i64>>>,
    /// The next commit says that it has begun, and then waits until it is cancelled.
    slow_commit: Mutex<Option<mpsc::Sender<()>>>,
}

impl Memory {
    fn begin(&self, call: &OffsetCall) -> Result<(), OffsetStoreError> {
        self.sessions.lock().unwrap().insert(call.session());
        let mut failures = self.failures.lock().unwrap();
        if *failures > 0 {
            *failures -= 1;
            return Err("the database is away".into());
        }
        Ok(())
    }
}

impl OffsetStore for Memory {
    fn fetch(
        &self,
        partitions: &[TopicPartition],
        call: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
        self.begin(call)?;
        let stored = self.stored.lock().unwrap();
        let found = partitions
            .iter()
            .filter_map(|it| Some((it.clone(), *stored.get(it)?)));
        Ok(found.collect())
    }

    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError> {
        self.begin(call)?;
        if let Some(begun) = self.slow_commit.lock().unwrap().take() {
            begun.send(())?;
            while call.pause(Duration::from_secs(1)) {}
            return Err("cut short".into());
        }
        self.stored.lock().unwrap().extend(offsets.iter().cloned());
        Ok(offsets.iter().map(|_| Ok(())).collect())
    }
}

fn connect(config: ConsumerConfigBuilder, store: &Arc<Memory>) -> ConsumerConnector {
    let config = config.build().unwrap();
    ConsumerConnector::connect_with_offset_store(config, Arc::clone(store)).unwrap()
}

#[test]
fn a_store_of_the_application_is_asked_instead_of_zookeeper() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let of = TopicPartition::new("orders", 0);
    let store = Arc::new(Memory::default());
    store.stored.lock().unwrap().insert(of.clone(), 4);

    let connector = connect(config(&cluster, "g"), &store);
    let mut stream = streams(&connector, "orders", 1).remove(0);
    assert_eq!(value(&next(&mut stream).unwrap()), "0/4");
    stream.mark_consumed();
    // The same of a failure that passes.
    *store.failures.lock().unwrap() = 1;
    let quick = connector.commit_offsets().unwrap();
    assert_eq!(quick, [(of.clone(), 5)]);
    assert_eq!(next(&mut stream).unwrap().offset(), 5);
    stream.mark_consumed();
    connector.shutdown();
    assert_eq!(store.stored.lock().unwrap()[&of], 6, "by the shutdown");
    let session = cluster.zookeeper().local_session();
    let node = session.exists("/consumers/g/offsets/orders").unwrap();
    assert_eq!(node, None, "nothing is in zookeeper");
    assert!(!store.sessions.lock().unwrap().contains(&None));

    let connector = connect(config(&cluster, "g"), &store);
    connector.commit_offsets_for([(of.clone(), 2)]).unwrap();
    assert_eq!(store.stored.lock().unwrap()[&of], 2);
    assert!(store.sessions.lock().unwrap().contains(&None));
}

#[test]
fn a_store_that_fails_is_asked_again_by_the_rebalance_and_its_error_is_told_in_the_end() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let store = Arc::new(Memory::default());
    *store.failures.lock().unwrap() = 2;
    let connector = connect(config(&cluster, "g"), &store);
    let _streams = streams(&connector, "orders", 1);
    assert_eq!(connector.owned_partitions().len(), 1);
    connector.shutdown();

    *store.failures.lock().unwrap() = u32::MAX;
    let connector = connect(config(&cluster, "g").rebalance_max_retries(2), &store);
    let failed = connector
        .create_message_streams([("orders", 1)])
        .unwrap_err();
    assert!(matches!(failed, Error::RebalanceFailed { .. }));
    assert!(
        failed.chain().ends_with("the database is away"),
        "{}",
        failed.chain()
    );
}

#[test]
fn a_commit_of_the_timer_that_the_shutdown_cuts_short_is_no_failed_commit() {
    // It was told as one, although the last commit had stored everything.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let store = Arc::new(Memory::default());
    let (begun, has_begun) = mpsc::channel();
    let connector = connect(config(&cluster, "g"), &store);
    let mut stream = streams(&connector, "orders", 1).remove(0);
    next(&mut stream).unwrap();
    stream.mark_consumed();
    *store.slow_commit.lock().unwrap() = Some(begun);
    has_begun.recv_timeout(Duration::from_secs(20)).unwrap();
    connector.shutdown();
    let events = connector.events();
    let failed = std::iter::from_fn(|| events.try_next())
        .find(|event| matches!(event, Event::CommitFailed { .. }));
    assert_eq!(failed, None);
    let of = TopicPartition::new("orders", 0);
    assert_eq!(store.stored.lock().unwrap()[&of], 1);
}

/// Takes its time over the first commit, and notes when each began and ended.
struct Stalling {
    stall: Duration,
    commits: Arc<Mutex<Vec<(Instant, Instant)>>>,
}

impl OffsetStore for Stalling {
    fn fetch(
        &self,
        partitions: &[TopicPartition],
        _: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
        Ok(partitions.iter().map(|it| (it.clone(), 0)).collect())
    }

    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError> {
        let began = Instant::now();
        if self.commits.lock().unwrap().is_empty() {
            call.pause(self.stall);
        }
        self.commits.lock().unwrap().push((began, Instant::now()));
        Ok(offsets.iter().map(|_| Ok(())).collect())
    }
}

#[test]
fn commits_of_the_timer_keep_their_pause_after_one_that_stalled() {
    // D80: the original's timer goes by the clock, and makes up for each time that it has missed: after a commit
    // that took a minute there was a burst of them.
    let interval = Duration::from_millis(50);
    let commits = Arc::default();
    let store = Stalling {
        stall: 20 * interval,
        commits: Arc::clone(&commits),
    };
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let config = config(&cluster, "g").auto_commit_interval(interval);
    let connector =
        ConsumerConnector::connect_with_offset_store(config.build().unwrap(), store).unwrap();
    let _streams = streams(&connector, "orders", 1);
    wait_until("commits follow the one that stalled", || {
        commits.lock().unwrap().len() >= 6
    });
    let commits: Vec<(Instant, Instant)> = commits.lock().unwrap().clone();
    assert!(commits[0].0 + 20 * interval <= commits[0].1, "it stalled");
    for pair in commits.windows(2) {
        let pause = pair[1].0 - pair[0].1;
        assert!(pause >= interval, "{pause:?}");
    }
}

#[test]
fn results_and_offsets_that_are_stored_together_count_each_message_once_however_often_the_process_is_killed()
 {
    const KILLS: i32 = 6;
    const BETWEEN: i32 = 60;
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for round in 0..KILLS {
        let mut process = start_counter(&cluster.connect_string(), folder.path());
        let from = round * BETWEEN;
        produce_numbers(&cluster, "orders", 2, from..from + BETWEEN);
        let enough = usize::try_from(from + 1).unwrap();
        wait_until("it counts", || counted(folder.path()).len() > enough);
        // SIGKILL, while it still has messages to count.
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let mut process = start_counter(&cluster.connect_string(), folder.path());
    let all = usize::try_from(2 * KILLS * BETWEEN).unwrap();
    wait_until("all is counted", || counted(folder.path()).len() == all);
    process.kill().unwrap();
    process.wait().unwrap();
    let counts = counted(folder.path());
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
}

fn counted(folder: &Path) -> BTreeMap<String, u64> {
    let files = CountFiles::new(folder).unwrap();
    let mut all = BTreeMap::new();
    for partition in 0..2 {
        let counts = files
            .read(&TopicPartition::new("orders", partition))
            .unwrap();
        all.extend(counts.values().clone());
    }
    all
}

fn start_counter(zookeeper: &str, folder: &Path) -> Child {
    // Files that a killed process has not renamed are never looked at.
    let left = fs::read_dir(folder).unwrap().count();
    assert!(left < 20, "{left} files");
    Command::new(env::current_exe().unwrap())
        .args(["offset_stores::the_counter_of_the_example", "--exact"])
        .env(COUNTER_OF, zookeeper)
        .env(COUNTER_FOLDER, folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// No test: the example, in a process that can be killed.
#[test]
fn the_counter_of_the_example() {
    let (Ok(zookeeper), Ok(folder)) = (env::var(COUNTER_OF), env::var(COUNTER_FOLDER)) else {
        return;
    };
    offsets_with_results::run(&zookeeper, "orders", Path::new(&folder)).unwrap();
}
