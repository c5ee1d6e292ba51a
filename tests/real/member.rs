//! What the scenarios share: members of ours, numbered messages, and who owns what.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ConsumerConfig;
use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::StreamError;
use parking_lot::Mutex;

use crate::support::BrokerConnection;
use crate::support::RealCluster;
use crate::support::ZooKeeperShell;
use crate::support::wait_for;
use crate::support::wait_until;

/// How long a group may take to settle: a JVM may have to start meanwhile.
pub(crate) const SETTLE_LIMIT: Duration = Duration::from_secs(40);

/// Pause between two rounds of a [`Flow`].
const FLOW_PAUSE: Duration = Duration::from_millis(10);

/// Pause between two looks at the stored offsets.
const GUARD_PAUSE: Duration = Duration::from_millis(20);

/// Starts at the smallest offset, and waits for nothing longer than a test should take.
pub(crate) fn config(cluster: &RealCluster, group: &str) -> ConsumerConfigBuilder {
    ConsumerConfig::builder()
        .zookeeper_connect(cluster.connect_string())
        .zookeeper_session_timeout(Duration::from_secs(4))
        .zookeeper_sync_time(Duration::from_millis(200))
        .group_id(group)
        .rebalance_backoff(Duration::from_millis(500))
        .rebalance_max_retries(20)
        .refresh_leader_backoff(Duration::from_millis(100))
        .auto_commit_interval(Duration::from_millis(500))
        .auto_offset_reset(AutoOffsetReset::Smallest)
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
        let (partition, number) = value.as_ref().split_once('/').expect("a numbered message");
        numbers
            .entry(partition.parse().expect("number of a partition"))
            .or_default()
            .push(number.parse().expect("number of a message"));
    }
    numbers
}

/// Appends the messages `from..to` to each partition.
pub(crate) fn produce(cluster: &RealCluster, topic: &str, partitions: i32, from: i64, to: i64) {
    for partition in 0..partitions {
        let values: Vec<String> = (from..to).map(|number| value(partition, number)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        cluster.produce(topic, partition, &values);
    }
}

/// Numbered messages that flow into every partition of a topic until it is stopped.
pub(crate) struct Flow {
    stop: mpsc::Sender<()>,
    sent: Arc<AtomicI64>,
    thread: JoinHandle<()>,
}

impl Flow {
    /// Goes on after message `from - 1`. Leaders must not move meanwhile.
    pub(crate) fn start(
        cluster: &mut RealCluster,
        topic: &str,
        partitions: i32,
        from: i64,
    ) -> Self {
        let mut leaders: Vec<BrokerConnection> = (0..partitions)
            .map(|partition| {
                let leader = cluster.leader(topic, partition);
                BrokerConnection::open(&cluster.broker(leader).address()).unwrap()
            })
            .collect();
        let (stop, stopped) = mpsc::channel();
        let sent = Arc::new(AtomicI64::new(from));
        let (count, topic) = (Arc::clone(&sent), topic.to_owned());
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(FLOW_PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
                let number = count.load(Ordering::SeqCst);
                for (partition, leader) in (0..).zip(&mut leaders) {
                    let value = value(partition, number);
                    leader
                        .produce(&topic, partition, &[(None, value.as_bytes())])
                        .expect("produce");
                }
                count.store(number + 1, Ordering::SeqCst);
            }
        });
        Self { stop, sent, thread }
    }

    /// How many messages each partition has got at least.
    pub(crate) fn sent(&self) -> i64 {
        self.sent.load(Ordering::SeqCst)
    }

    /// How many messages each partition has got in all.
    pub(crate) fn stop(self) -> i64 {
        drop(self.stop);
        self.thread.join().expect("the flow ran without an error");
        self.sent.load(Ordering::SeqCst)
    }
}

/// A member in this process, each of whose streams is read by a thread of its own.
pub(crate) struct InProcess {
    pub(crate) connector: Arc<ConsumerConnector>,
    values: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
}

impl InProcess {
    /// Joins the group of `config` with so many streams of one topic.
    pub(crate) fn join(config: ConsumerConfig, topic: &str, streams: usize) -> Self {
        let connector = ConsumerConnector::connect(config).unwrap();
        let topics = connector
            .create_message_streams([(topic, streams)])
            .unwrap();
        let values = Arc::new(Mutex::new(Vec::new()));
        let readers = topics
            .into_values()
            .flatten()
            .map(|stream| {
                let values = Arc::clone(&values);
                thread::spawn(move || collect(stream, &values))
            })
            .collect();
        Self {
            connector: Arc::new(connector),
            values,
            readers,
        }
    }

    /// The messages seen so far.
    pub(crate) fn values(&self) -> Vec<String> {
        self.values.lock().clone()
    }

    /// As [`values`](Self::values), by partition.
    pub(crate) fn numbers(&self) -> Numbers {
        numbers(self.values())
    }

    pub(crate) fn count(&self) -> usize {
        self.values.lock().len()
    }

    /// Leaves the group in order; returns all that was seen.
    pub(crate) fn leave(self) -> Vec<String> {
        self.connector.shutdown();
        for reader in self.readers {
            reader.join().expect("a reader without an error");
        }
        self.values.lock().clone()
    }
}

/// Takes every message, in order, until the stream ends.
fn collect(stream: MessageStream, values: &Mutex<Vec<String>>) {
    for message in stream {
        match message {
            Ok(message) => {
                let value = String::from_utf8(message.value().unwrap().to_vec()).unwrap();
                values.lock().push(value);
            }
            Err(StreamError::Timeout) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// `kzc consume` with the settings of [`config`], for [`Process::start`].
pub(crate) fn kzc_consume(cluster: &RealCluster, group: &str, topic: &str, id: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kzc"));
    command
        .env_remove("RUST_LOG")
        .args(["consume", "--zookeeper", &cluster.connect_string()])
        .args(["--topic", topic, "--group", group, "--from-beginning"])
        .args(["--property", &format!("consumer.id={id}")]);
    for property in [
        "zookeeper.session.timeout.ms=4000",
        "zookeeper.sync.time.ms=200",
        "rebalance.backoff.ms=500",
        "rebalance.max.retries=20",
        "refresh.leader.backoff.ms=100",
        "auto.commit.interval.ms=500",
    ] {
        command.args(["--property", property]);
    }
    command
}

/// A member in a process of its own, which prints a message a line; killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // Before the first message, and in lines of its own, a test binary talks of itself.
                let last = line.rsplit(' ').next().unwrap_or_default();
                if last.contains('/') {
                    kept.lock().push(last.to_owned());
                }
            }
        });
        Self {
            child,
            lines,
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

    /// SIGTERM: it leaves the group in order. Returns when it has ended, well, and all that it has printed is
    /// read.
    #[track_caller]
    pub(crate) fn stop(&mut self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(sent.success());
        let ended = wait_for(SETTLE_LIMIT, "a process to end", || {
            self.child.try_wait().unwrap()
        });
        assert!(ended.success(), "{ended}");
        self.read_to_end();
    }

    /// SIGKILL; returns when all that it has printed is read.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.read_to_end();
    }

    fn read_to_end(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let expected = range(partitions, threads);
    let what = format!("the owners {expected:?}");
    wait_until(SETTLE_LIMIT, &what, || {
        owners(shell, group, topic) == expected
    });
}

/// The offset that a group has stored in ZooKeeper: the next message to read.
pub(crate) fn stored_offset(
    shell: &ZooKeeperShell,
    group: &str,
    topic: &str,
    partition: i32,
) -> Option<i64> {
    let path = format!("/consumers/{group}/offsets/{topic}/{partition}");
    let offset = shell.get(&path).ok()?;
    Some(offset.parse().expect("an offset"))
}

/// Looks at the stored offsets all the time: none may ever go back.
pub(crate) struct OffsetGuard {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<String>>,
}

impl OffsetGuard {
    pub(crate) fn start(cluster: &RealCluster, group: &str, topic: &str, partitions: i32) -> Self {
        let shell = cluster.shell();
        let (group, topic) = (group.to_owned(), topic.to_owned());
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut last = BTreeMap::new();
            let mut steps_back = Vec::new();
            while stopped.recv_timeout(GUARD_PAUSE) == Err(mpsc::RecvTimeoutError::Timeout) {
                for partition in 0..partitions {
                    let Some(offset) = stored_offset(&shell, &group, &topic, partition) else {
                        continue;
                    };
                    if let Some(before) = last.insert(partition, offset)
                        && offset < before
                    {
                        steps_back.push(format!("{topic}-{partition}: {before} -> {offset}"));
                    }
                }
            }
            steps_back
        });
        Self { stop, thread }
    }

    /// # Panics
    /// When an offset has ever gone back.
    #[track_caller]
    pub(crate) fn finish(self) {
        drop(self.stop);
        let steps_back = self.thread.join().expect("the guard ran without an error");
        assert_eq!(steps_back, Vec::<String>::new(), "offsets went back");
    }
}

/// Of each partition, the numbers `0..count` that nobody has seen.
pub(crate) fn missing(seen: &[&Numbers], partitions: i32, count: i64) -> Numbers {
    let mut missing = Numbers::new();
    for partition in 0..partitions {
        let present: BTreeSet<i64> = seen
            .iter()
            .filter_map(|numbers| numbers.get(&partition))
            .flatten()
            .copied()
            .collect();
        let gaps: Vec<i64> = (0..count).filter(|n| !present.contains(n)).collect();
        if !gaps.is_empty() {
            missing.insert(partition, gaps);
        }
    }
    missing
}
