//! What the scenarios share: members of ours, numbered messages, and who owns what.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ConsumerConfig;
use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::OffsetsStorage;
use parking_lot::Mutex;

use crate::scenarios::topics_support::Reader;
use crate::scenarios::topics_support::connect;
use crate::support::Cluster;
use crate::support::ZooKeeperShell;
use crate::support::wait_for;
use crate::support::wait_until;

/// How long a group may take to settle: a JVM may have to start meanwhile.
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_secs(120);

/// Pause between two looks at the stored offsets.
const WATCH_PAUSE: Duration = Duration::from_millis(20);

/// Starts at the smallest offset, and waits for nothing longer than a test should take. The timer commits
/// after its default of a minute, that is, in no test.
pub(crate) fn config(zookeeper: &str, group: &str) -> ConsumerConfigBuilder {
    ConsumerConfig::builder()
        .zookeeper_connect(zookeeper)
        .zookeeper_session_timeout(Duration::from_secs(4))
        .zookeeper_connection_timeout(Duration::from_secs(20))
        .group_id(group)
        .rebalance_backoff(Duration::from_millis(500))
        .rebalance_max_retries(20)
        .refresh_leader_backoff(Duration::from_millis(100))
        .auto_offset_reset(AutoOffsetReset::Smallest)
}

/// The same with the offsets in Kafka only, whose coordinator may restart meanwhile.
pub(crate) fn config_in_kafka(zookeeper: &str, group: &str) -> ConsumerConfigBuilder {
    config(zookeeper, group)
        .offsets_storage(OffsetsStorage::Kafka)
        .dual_commit_enabled(false)
        .offsets_channel_backoff(Duration::from_millis(300))
        .offsets_commit_max_retries(100)
}

/// The value of message `number` of a partition: tells both, whoever prints it.
pub(crate) fn value(partition: i32, number: i64) -> String {
    format!("{partition}/{number}")
}

/// Of each partition the numbers of its messages, in the order in which they were seen.
pub(crate) type Numbers = BTreeMap<i32, Vec<i64>>;

/// Reads [`value`]s back.
pub(crate) fn numbers<S: AsRef<str>>(values: impl IntoIterator<Item = S>) -> Numbers {
    let mut numbers = Numbers::new();
    for value in values {
        let (partition, number) = numbered(value.as_ref());
        numbers.entry(partition).or_default().push(number);
    }
    numbers
}

/// Partition and number of a [`value`].
pub(crate) fn numbered(value: &str) -> (i32, i64) {
    let (partition, number) = value.split_once('/').expect("a numbered message");
    (
        partition.parse().expect("number of a partition"),
        number.parse().expect("number of a message"),
    )
}

/// Appends the messages `from..to` to each partition.
pub(crate) fn produce(cluster: &impl Cluster, topic: &str, partitions: i32, from: i64, to: i64) {
    for partition in 0..partitions {
        let values: Vec<String> = (from..to).map(|number| value(partition, number)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        cluster.produce(topic, partition, &values);
    }
}

/// A member in this process, each of whose streams is read by a thread of its own.
pub(crate) struct InProcess {
    pub(crate) connector: Arc<ConsumerConnector>,
    reader: Reader,
}

impl InProcess {
    /// Joins the group of `config` with so many streams of one topic.
    pub(crate) fn join(config: ConsumerConfigBuilder, topic: &str, streams: usize) -> Self {
        let connector = connect(config);
        let topics = connector
            .create_message_streams([(topic, streams)])
            .unwrap();
        Self {
            connector: Arc::new(connector),
            reader: Reader::start(topics.into_values().flatten()),
        }
    }

    /// The messages seen so far, those of each partition in the order in which they came.
    pub(crate) fn values(&self) -> Vec<String> {
        self.reader.all_values()
    }

    /// As [`values`](Self::values), by partition.
    pub(crate) fn numbers(&self) -> Numbers {
        numbers(self.values())
    }

    pub(crate) fn count(&self) -> usize {
        self.values().len()
    }

    /// Leaves the group in order; returns all that was seen.
    #[track_caller]
    pub(crate) fn leave(self) -> Vec<String> {
        self.connector.shutdown();
        assert_eq!(self.reader.errors(), []);
        self.reader.finish()
    }
}

/// `kzc consume` with the settings of [`config`], for [`Process::start`].
pub(crate) fn kzc_consume(zookeeper: &str, group: &str, topic: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kzc"));
    command
        .env_remove("RUST_LOG")
        .args(["consume", "--zookeeper", zookeeper])
        .args(["--topic", topic, "--group", group, "--from-beginning"]);
    for property in [
        "zookeeper.session.timeout.ms=4000",
        "rebalance.backoff.ms=500",
        "rebalance.max.retries=20",
        "refresh.leader.backoff.ms=100",
    ] {
        command.args(["--property", property]);
    }
    command
}

/// A member in a process of its own, which prints a message a line; killed when dropped.
pub(crate) struct Process {
    child: KilledOnDrop,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    /// Keeps the messages that it prints.
    pub(crate) fn start(command: &mut Command) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let mut process = Self::start_with(command, move |line| {
            // Before the first message, and in lines of its own, a test binary talks of itself.
            let last = line.rsplit(' ').next().unwrap_or_default();
            if last.contains('/') {
                kept.lock().push(last.to_owned());
            }
        });
        process.lines = lines;
        process
    }

    /// Gives every line that it prints to `take`. One without an end was cut by a kill, and says nothing.
    pub(crate) fn start_with(
        command: &mut Command,
        mut take: impl FnMut(&str) + Send + 'static,
    ) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let reader = thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok() && line.ends_with('\n') {
                take(line.trim_end());
                line.clear();
            }
        });
        Self {
            child: KilledOnDrop(child),
            lines: Arc::default(),
            reader: Some(reader),
        }
    }

    /// The messages printed so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// Waits until it has printed so many messages.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, count: usize) {
        wait_until(SETTLE_LIMIT, &format!("{count} lines of a process"), || {
            self.lines.lock().len() >= count
        });
    }

    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        self.child.signal(name);
    }

    /// SIGTERM: it leaves the group in order. Returns when it has ended, well, and all that it has printed is
    /// read.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        self.signal("-TERM");
        let ended = wait_for(SETTLE_LIMIT, "a process to end", || {
            self.child.0.try_wait().unwrap()
        });
        assert!(ended.success(), "{ended}");
        self.read_to_end();
    }

    /// SIGKILL: its session lives on for a while, and with it its nodes. Returns when all that it has printed
    /// is read.
    pub(crate) fn kill(&mut self) {
        self.child.0.kill().unwrap();
        self.child.0.wait().unwrap();
        self.read_to_end();
    }

    fn read_to_end(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

/// Leaves no process behind when a test fails.
pub(crate) struct KilledOnDrop(pub(crate) Child);

impl KilledOnDrop {
    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // Fails if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Partitions of one topic with the threads that own them.
pub(crate) type Owners = BTreeMap<i32, String>;

/// What the owner nodes say.
pub(crate) fn owners(shell: &ZooKeeperShell, group: &str, topic: &str) -> Owners {
    let path = format!("/consumers/{group}/owners/{topic}");
    let partitions = shell.children(&path).unwrap_or_default();
    partitions
        .iter()
        .filter_map(|partition| {
            let owner = shell.get(&format!("{path}/{partition}")).ok()?;
            Some((partition.parse().expect("number of a partition"), owner))
        })
        .collect()
}

/// What the range rule says: written anew from its description, not taken from the library.
pub(crate) fn range(partitions: i32, threads: &[&str]) -> Owners {
    let mut threads = threads.to_vec();
    threads.sort_unstable();
    let count = i32::try_from(threads.len()).unwrap();
    let (least, rest) = (partitions / count, partitions % count);
    let mut owners = Owners::new();
    for (position, thread) in (0..).zip(threads) {
        let start = least * position + rest.min(position);
        let length = least + i32::from(position < rest);
        owners.extend((start..start + length).map(|partition| (partition, thread.to_owned())));
    }
    owners
}

/// Waits until exactly these threads own the partitions of a topic, by the range rule.
#[track_caller]
pub(crate) fn wait_for_owners(
    shell: &ZooKeeperShell,
    group: &str,
    topic: &str,
    partitions: i32,
    threads: &[&str],
) {
    wait_for_just_these(shell, group, topic, &range(partitions, threads));
}

/// Waits until the owner nodes say this.
#[track_caller]
pub(crate) fn wait_for_just_these(
    shell: &ZooKeeperShell,
    group: &str,
    topic: &str,
    expected: &Owners,
) {
    let what = format!("the owners {expected:?}");
    wait_until(SETTLE_LIMIT, &what, || {
        owners(shell, group, topic) == *expected
    });
}

fn offset_path(group: &str, topic: &str, partition: i32) -> String {
    format!("/consumers/{group}/offsets/{topic}/{partition}")
}

/// The offset that a group has stored in ZooKeeper: the next message to read.
pub(crate) fn stored_offset(
    shell: &ZooKeeperShell,
    group: &str,
    topic: &str,
    partition: i32,
) -> Option<i64> {
    let offset = shell.get(&offset_path(group, topic, partition)).ok()?;
    Some(offset.parse().expect("an offset"))
}

/// Looks all the time at the stored offsets, which must never go back.
pub(crate) struct OffsetWatch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Result<(), String>>,
}

impl OffsetWatch {
    pub(crate) fn start(zookeeper: &str, group: &str, topic: &str, partitions: i32) -> Self {
        let zookeeper = zookeeper.to_owned();
        let paths: Vec<String> = (0..partitions)
            .map(|partition| offset_path(group, topic, partition))
            .collect();
        let (stop, stopped) = mpsc::channel();
        let body = move || {
            let mut stored = BTreeMap::new();
            let mut shell = None;
            while stopped.recv_timeout(WATCH_PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
                // ZooKeeper may be away.
                let Some(open) = shell.take().or_else(|| open(&zookeeper)) else {
                    continue;
                };
                if look(&open, &paths, &mut stored)? {
                    shell = Some(open);
                }
            }
            Ok(())
        };
        Self {
            stop,
            thread: thread::spawn(body),
        }
    }

    /// # Panics
    /// When an offset has ever gone back.
    #[track_caller]
    pub(crate) fn finish(self) {
        drop(self.stop);
        assert_eq!(self.thread.join().unwrap(), Ok(()));
    }
}

fn open(zookeeper: &str) -> Option<ZooKeeperShell> {
    ZooKeeperShell::try_connect(zookeeper, Duration::from_secs(10)).ok()
}

/// `false` when the connection is broken.
fn look(
    shell: &ZooKeeperShell,
    paths: &[String],
    stored: &mut BTreeMap<String, i64>,
) -> Result<bool, String> {
    for path in paths {
        match shell.get(path) {
            Ok(text) => {
                let offset = text.parse().map_err(|_| format!("{path} holds {text}"))?;
                let before = stored.insert(path.clone(), offset).unwrap_or(-1);
                if offset < before {
                    return Err(format!("{path} went back from {before} to {offset}"));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return Ok(false),
        }
    }
    Ok(true)
}

/// Of each partition, the numbers from 0 to what was `written` that nobody has seen.
pub(crate) fn missing(seen: &[&Numbers], written: &[i64]) -> Numbers {
    let mut missing = Numbers::new();
    for (partition, count) in (0..).zip(written) {
        let present: BTreeSet<i64> = seen
            .iter()
            .filter_map(|numbers| numbers.get(&partition))
            .flatten()
            .copied()
            .collect();
        let gaps: Vec<i64> = (0..*count).filter(|n| !present.contains(n)).collect();
        if !gaps.is_empty() {
            missing.insert(partition, gaps);
        }
    }
    missing
}
