//! The plan of docs/migration.md, step by step, on a group at work: from the JVM's members to ours and back, then its
//! offsets from ZooKeeper to Kafka and back.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::scenarios::member::OffsetWatch;
use crate::scenarios::member::Process;
use crate::scenarios::member::kzc_consume;
use crate::scenarios::member::missing;
use crate::scenarios::member::numbers;
use crate::scenarios::member::stored_offset;
use crate::scenarios::member::value;
use crate::scenarios::member::wait_for_owners;
use crate::scenarios::numbered::NumberedProducer;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::ConsumerOffsetChecker;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

const GROUP: &str = "moving";
const TOPIC: &str = "orders";
/// Partitions that get messages all the time.
const BUSY: i32 = 4;
/// The one that gets a message rarely. Being the last one it belongs to the last thread.
const QUIET: i32 = BUSY;
const PARTITIONS: i32 = BUSY + 1;
const PACE: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(60);
/// Pause between two looks at the offsets in Kafka.
const WATCH_PAUSE: Duration = Duration::from_millis(50);

/// The settings that say where offsets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storage {
    ZooKeeper,
    Dual,
    Kafka,
}

impl Storage {
    fn properties(self) -> [(&'static str, &'static str); 2] {
        match self {
            Self::ZooKeeper => [
                ("offsets.storage", "zookeeper"),
                ("dual.commit.enabled", "false"),
            ],
            Self::Dual => [
                ("offsets.storage", "kafka"),
                ("dual.commit.enabled", "true"),
            ],
            Self::Kafka => [
                ("offsets.storage", "kafka"),
                ("dual.commit.enabled", "false"),
            ],
        }
    }
}

/// A member, or one that has left: what it has printed stays.
enum Member {
    Theirs(ConsoleConsumer),
    Ours(Process),
}

impl Member {
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Theirs(member) => member.lines(),
            Self::Ours(member) => member.lines(),
        }
    }

    fn stop(&mut self) {
        match self {
            Self::Theirs(member) => member.stop(),
            Self::Ours(member) => member.stop(),
        }
    }
}

/// A step that changed the group. A message that is read twice because of it has an offset in this window, or one
/// that was committed has been read again.
struct Change {
    what: String,
    /// Of each partition, the offset that was stored when the change began.
    stored_before: Vec<i64>,
    /// Of each partition, the end of its log when the owners had settled.
    end: Vec<i64>,
}

impl Change {
    fn explains(&self, partition: i32, number: i64) -> bool {
        let index = usize::try_from(partition).unwrap();
        (self.stored_before[index]..self.end[index]).contains(&number)
    }
}

/// The group while it is moved.
struct Moving<'a> {
    cluster: &'a RealCluster,
    shell: ZooKeeperShell,
    flow: &'a NumberedProducer,
    /// Messages of the quiet partition.
    quiet: i64,
    present: BTreeMap<String, Member>,
    left: Vec<Member>,
    changes: Vec<Change>,
}

impl Moving<'_> {
    fn start_member(&mut self, id: &str, storage: Storage) {
        let member = if id.starts_with("ours") {
            Member::Ours(ours(self.cluster, id, storage))
        } else {
            Member::Theirs(theirs(self.cluster, id, storage))
        };
        self.present.insert(id.to_owned(), member);
    }

    fn stop_member(&mut self, id: &str) {
        let mut member = self.present.remove(id).unwrap();
        member.stop();
        self.left.push(member);
    }

    fn join(&mut self, id: &str, storage: Storage) {
        self.change(&format!("{id} joins ({storage:?})"), |group| {
            group.start_member(id, storage);
        });
    }

    fn leave(&mut self, id: &str) {
        self.change(&format!("{id} leaves"), |group| group.stop_member(id));
    }

    /// Changes the group, and looks at what the plan says to look at: the owners are those that are present, and the
    /// stored offsets of every partition get past where the log ended meanwhile.
    fn change(&mut self, what: &str, act: impl FnOnce(&mut Self)) {
        println!("{what}");
        let stored_before = self.stored();
        if let Some(last) = self.changes.last() {
            let went_back = stored_before
                .iter()
                .zip(&last.stored_before)
                .any(|(now, before)| now < before);
            assert!(!went_back, "{stored_before:?} before {what}");
        }
        act(self);
        let threads: Vec<String> = self
            .present
            .keys()
            .map(|id| format!("{GROUP}_{id}-0"))
            .collect();
        let threads: Vec<&str> = threads.iter().map(String::as_str).collect();
        wait_for_owners(&self.shell, GROUP, TOPIC, PARTITIONS, &threads);
        let end = self.written();
        self.wait_until_stored(&end, what);
        self.changes.push(Change {
            what: what.to_owned(),
            stored_before,
            end,
        });
    }

    /// Each member in turn leaves and comes back with other settings, the JVM's first.
    fn restart_all(&mut self, storage: Storage) {
        let ids: Vec<String> = self.present.keys().rev().cloned().collect();
        for id in ids {
            self.leave(&id);
            self.join(&id, storage);
        }
    }

    /// How many messages each partition has got.
    fn written(&self) -> Vec<i64> {
        let mut written = self.flow.sent();
        written.push(self.quiet);
        written
    }

    fn in_zookeeper(&self) -> Vec<i64> {
        let offset = |partition| stored_offset(&self.shell, GROUP, TOPIC, partition).unwrap_or(-1);
        (0..PARTITIONS).map(offset).collect()
    }

    fn in_kafka(&self) -> Vec<i64> {
        let offsets = offsets_in_kafka(&self.cluster.broker_list()).unwrap();
        let offsets = offsets.into_iter();
        offsets.map(|offset| offset.unwrap_or(-1)).collect()
    }

    /// In whichever place is ahead.
    fn stored(&self) -> Vec<i64> {
        let both = self.in_zookeeper().into_iter().zip(self.in_kafka());
        both.map(|(left, right)| left.max(right)).collect()
    }

    fn wait_until_stored(&self, offsets: &[i64], why: &str) {
        let what = format!("offsets beyond {offsets:?} after: {why}");
        wait_until(LIMIT, &what, || reach(&self.stored(), offsets));
    }

    /// All members are set to `storage`: their commits arrive there, and nowhere else.
    fn expect_commits_in(&self, storage: Storage) {
        let (zookeeper, kafka) = (self.in_zookeeper(), self.in_kafka());
        let busy = usize::try_from(BUSY).unwrap();
        let end = &self.written()[..busy];
        self.wait_until_stored(end, "all members are restarted");
        match storage {
            Storage::ZooKeeper => assert_eq!(self.in_kafka(), kafka, "offsets in Kafka move"),
            Storage::Kafka => assert_eq!(self.in_zookeeper(), zookeeper, "znodes move"),
            Storage::Dual => wait_until(LIMIT, "offsets in both places", || {
                reach(&self.in_zookeeper(), end) && reach(&self.in_kafka(), end)
            }),
        }
    }

    /// The quiet partition gets some messages, which are read and committed.
    fn write_to_the_quiet_partition(&mut self) {
        let numbers = self.quiet..self.quiet + 10;
        self.quiet = numbers.end;
        let values: Vec<String> = numbers.map(|number| value(QUIET, number)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        self.cluster.produce(TOPIC, QUIET, &values);
        self.wait_until_stored(&self.written(), "messages of the quiet partition");
    }

    /// The JVM's own tool sees an owner and an offset of each partition.
    fn expect_of_the_offset_checker(&self, owner: &str) {
        let least = self.stored();
        let zookeeper = self.cluster.connect_string();
        let lines = ConsumerOffsetChecker::check(self.cluster.version(), &zookeeper, GROUP, TOPIC);
        assert_eq!(lines.len(), least.len());
        for (line, least) in lines.iter().zip(least) {
            assert!(line.offset.unwrap() >= least, "{line:?}, {least}");
            assert!(line.log_size >= line.offset, "{line:?}");
            let owned_by = line.owner.as_deref().unwrap_or_default();
            assert!(owned_by.contains(owner), "{line:?}");
        }
    }

    /// Every message was read. One that was read twice had not been committed when a change began.
    fn finish(mut self) {
        let written = self.written();
        wait_until(LIMIT, "every message to be seen", || {
            let members = self.left.iter().chain(self.present.values());
            let seen: Vec<_> = members.map(|member| numbers(member.lines())).collect();
            missing(&seen.iter().collect::<Vec<_>>(), &written).is_empty()
        });
        let ids: Vec<String> = self.present.keys().cloned().collect();
        let (last, others) = ids.split_last().unwrap();
        for id in others {
            self.leave(id);
        }
        self.stop_member(last);
        let mut times: BTreeMap<(i32, i64), usize> = BTreeMap::new();
        for member in &self.left {
            for (partition, numbers) in numbers(member.lines()) {
                for number in numbers {
                    *times.entry((partition, number)).or_default() += 1;
                }
            }
        }
        let mut repeats = vec![0; self.changes.len()];
        for ((partition, number), times) in times.iter().filter(|(_, times)| **times > 1) {
            let cause = self
                .changes
                .iter()
                .position(|change| change.explains(*partition, *number));
            let cause = cause.unwrap_or_else(|| {
                panic!("{partition}/{number} was committed and read {times} times")
            });
            repeats[cause] += times - 1;
        }
        for (change, repeats) in self.changes.iter().zip(&repeats) {
            println!("{repeats:>4} repeats when {}", change.what);
        }
        let repeats: usize = repeats.iter().sum();
        println!("{} messages, {repeats} repeats", times.len());
    }
}

/// Whether each partition of `wanted` has got that far.
fn reach(offsets: &[i64], wanted: &[i64]) -> bool {
    offsets
        .iter()
        .zip(wanted)
        .all(|(offset, wanted)| offset >= wanted)
}

/// The plan says: start one of ours, stop one of theirs, and look, until all are ours; back the same way; then
/// restart the members one by one with `offsets.storage=kafka`, which commits to both places, then with
/// `dual.commit.enabled=false`; back the same way, but for a look at partitions that are quiet.
#[test]
fn a_live_group_moves_to_ours_and_back_and_its_offsets_to_kafka_and_back() {
    let cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    let flow = NumberedProducer::start(&cluster, TOPIC, BUSY, PACE);
    let shell = cluster.shell();
    for partition in 0..PARTITIONS {
        // The original's tool begins a new group at the end of the log, or refuses to go on.
        shell.put(&node(partition), "0").unwrap();
    }
    let zookeeper_watch = OffsetWatch::start(&cluster.connect_string(), GROUP, TOPIC, PARTITIONS);
    let kafka_watch = KafkaOffsetWatch::start(cluster.broker_list());
    let mut group = Moving {
        cluster: &cluster,
        shell,
        flow: &flow,
        quiet: 0,
        present: BTreeMap::new(),
        left: Vec::new(),
        changes: Vec::new(),
    };
    group.join("theirs-1", Storage::ZooKeeper);
    group.join("theirs-2", Storage::ZooKeeper);
    group.write_to_the_quiet_partition();

    to_ours_and_back(&mut group);
    group.join("ours-1", Storage::ZooKeeper);
    group.leave("theirs-2");
    offsets_to_kafka_and_back(&mut group);

    group.finish();
    flow.stop();
    zookeeper_watch.finish();
    kafka_watch.finish();
}

fn to_ours_and_back(group: &mut Moving<'_>) {
    for (ours, theirs) in [("ours-1", "theirs-1"), ("ours-2", "theirs-2")] {
        group.join(ours, Storage::ZooKeeper);
        group.leave(theirs);
    }
    group.expect_of_the_offset_checker("ours");
    for (theirs, ours) in [("theirs-1", "ours-1"), ("theirs-2", "ours-2")] {
        group.join(theirs, Storage::ZooKeeper);
        group.leave(ours);
    }
    group.expect_of_the_offset_checker("theirs");
}

fn offsets_to_kafka_and_back(group: &mut Moving<'_>) {
    for storage in [Storage::Dual, Storage::Kafka] {
        group.restart_all(storage);
        group.expect_commits_in(storage);
    }
    group.write_to_the_quiet_partition();
    group.expect_of_the_offset_checker("s-1");
    group.restart_all(Storage::Dual);
    group.expect_commits_in(Storage::Dual);
    // Members of 0.8.2 write only what has moved since they took the partition over, so this node is still as old as
    // the time before Kafka: whoever reads only ZooKeeper would begin there.
    let quiet = usize::try_from(QUIET).unwrap();
    let is = group.in_kafka()[quiet];
    assert_eq!((group.in_zookeeper()[quiet], is), (10, 20));
    group.shell.set(&node(QUIET), &is.to_string()).unwrap();
    group.restart_all(Storage::ZooKeeper);
    group.expect_commits_in(Storage::ZooKeeper);
}

fn node(partition: i32) -> String {
    format!("/consumers/{GROUP}/offsets/{TOPIC}/{partition}")
}

fn ours(cluster: &RealCluster, id: &str, storage: Storage) -> Process {
    let mut command = kzc_consume(&cluster.connect_string(), GROUP, TOPIC);
    let id = ("consumer.id", id);
    let interval = ("auto.commit.interval.ms", "500");
    for (key, value) in storage.properties().into_iter().chain([id, interval]) {
        command.args(["--property", &format!("{key}={value}")]);
    }
    Process::start(&mut command)
}

fn theirs(cluster: &RealCluster, id: &str, storage: Storage) -> ConsoleConsumer {
    let mut properties = vec![
        ("group.id", GROUP),
        ("consumer.id", id),
        ("zookeeper.session.timeout.ms", "4000"),
        ("zookeeper.sync.time.ms", "200"),
        ("rebalance.backoff.ms", "500"),
        ("rebalance.max.retries", "20"),
        ("auto.commit.interval.ms", "500"),
        ("refresh.leader.backoff.ms", "100"),
    ];
    properties.extend(storage.properties());
    let options = ConsoleConsumerOptions {
        properties: &properties,
        ..ConsoleConsumerOptions::default()
    };
    let zookeeper = cluster.connect_string();
    ConsoleConsumer::start(cluster.version(), &zookeeper, TOPIC, &options)
}

/// Of each partition, the next offset as the only broker knows it.
fn offsets_in_kafka(broker: &str) -> std::io::Result<Vec<Option<i64>>> {
    BrokerConnection::open(broker)?.offsets_in_kafka(GROUP, TOPIC, PARTITIONS)
}

/// As [`OffsetWatch`], for the offsets in Kafka: they must neither go back nor vanish.
struct KafkaOffsetWatch {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Result<(), String>>,
}

impl KafkaOffsetWatch {
    fn start(broker: String) -> Self {
        let (stop, stopped) = mpsc::channel();
        let body = move || {
            let mut before = vec![None; usize::try_from(PARTITIONS).unwrap()];
            while stopped.recv_timeout(WATCH_PAUSE) == Err(RecvTimeoutError::Timeout) {
                let now = offsets_in_kafka(&broker).map_err(|error| error.to_string())?;
                if now.iter().zip(&before).any(|(now, before)| now < before) {
                    return Err(format!("went back in Kafka from {before:?} to {now:?}"));
                }
                before = now;
            }
            Ok(())
        };
        Self {
            stop,
            thread: thread::spawn(body),
        }
    }

    #[track_caller]
    fn finish(self) {
        drop(self.stop);
        assert_eq!(self.thread.join().unwrap(), Ok(()));
    }
}
