//! Who comes next in a group goes on where the one before has committed.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;

use kafka_zk_consumer::ConsumerConfigBuilder;

use crate::scenarios::member::InProcess;
use crate::scenarios::member::Numbers;
use crate::scenarios::member::Process;
use crate::scenarios::member::config;
use crate::scenarios::member::config_in_kafka;
use crate::scenarios::member::kzc_consume;
use crate::scenarios::member::numbers;
use crate::scenarios::member::owners;
use crate::scenarios::member::produce;
use crate::scenarios::member::stored_offset;
use crate::scenarios::member::value;
use crate::scenarios::member::wait_for_owners;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::topics_support::connect;
use crate::support::Cluster;
use crate::support::Version;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

pub(crate) const GROUP: &str = "resuming";
pub(crate) const TOPIC: &str = "orders";
pub(crate) const PARTITIONS: i32 = 3;
pub(crate) const LIMIT: Duration = Duration::from_secs(90);
const PACE: Duration = Duration::from_millis(10);

pub(crate) fn cluster<V: Version>(version: V) -> V::Cluster {
    let cluster = version.start(1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    cluster
}

/// The numbers `from..to` of each partition.
fn each(from: i64, to: i64) -> Numbers {
    (0..PARTITIONS)
        .map(|partition| (partition, (from..to).collect()))
        .collect()
}

pub(crate) fn stored(shell: &ZooKeeperShell) -> BTreeMap<i32, i64> {
    (0..PARTITIONS)
        .filter_map(|partition| Some((partition, stored_offset(shell, GROUP, TOPIC, partition)?)))
        .collect()
}

pub(crate) fn after_a_shutdown_the_next_member_goes_on_without_loss_or_repeat(
    version: impl Version,
) {
    let cluster = cluster(version);
    let shell = cluster.shell();
    produce(&cluster, TOPIC, PARTITIONS, 0, 400);
    let mut seen = Numbers::new();
    for stop_after in [1, 77, 150, 333] {
        let config = config(&cluster.connect_string(), GROUP);
        for (partition, numbers) in read_some(config, stop_after) {
            seen.entry(partition).or_default().extend(numbers);
        }
        for (partition, offset) in stored(&shell) {
            let count = seen.get(&partition).map_or(0, Vec::len);
            assert_eq!(usize::try_from(offset).unwrap(), count, "{partition}");
        }
    }
    let last = InProcess::join(config(&cluster.connect_string(), GROUP), TOPIC, 2);
    let taken: usize = seen.values().map(Vec::len).sum();
    wait_until(LIMIT, "the rest", || last.count() + taken >= 1_200);
    for (partition, numbers) in numbers(last.leave()) {
        seen.entry(partition).or_default().extend(numbers);
    }
    assert_eq!(seen, each(0, 400));
    assert_eq!(stored(&shell), (0..PARTITIONS).map(|p| (p, 400)).collect());
}

pub(crate) fn offsets_in_kafka_are_gone_on_from_also_after_a_restart_of_their_coordinator(
    version: impl Version,
) {
    let mut cluster = cluster(version);
    produce(&cluster, TOPIC, PARTITIONS, 0, 200);
    let mut seen = Numbers::new();
    for stop_after in [1, 77, 150] {
        let config = config_in_kafka(&cluster.connect_string(), GROUP);
        for (partition, numbers) in read_some(config, stop_after) {
            seen.entry(partition).or_default().extend(numbers);
        }
        cluster.restart_broker(0);
    }
    let last = InProcess::join(config_in_kafka(&cluster.connect_string(), GROUP), TOPIC, 2);
    let taken: usize = seen.values().map(Vec::len).sum();
    wait_until(LIMIT, "the rest", || last.count() + taken >= 600);
    cluster.restart_broker(0);
    assert_eq!(last.connector.commit_offsets().unwrap().len(), 3);
    for (partition, numbers) in numbers(last.leave()) {
        seen.entry(partition).or_default().extend(numbers);
    }
    assert_eq!(seen, each(0, 200));
    assert_eq!(stored(&cluster.shell()), BTreeMap::new());
}

/// Takes `count` messages with one of two streams, and leaves the group.
fn read_some(config: ConsumerConfigBuilder, count: usize) -> Numbers {
    let connector = connect(config);
    let mut streams = connector.create_message_streams([(TOPIC, 2)]).unwrap();
    let mut stream = streams.remove(TOPIC).unwrap().remove(0);
    let mut values = Vec::new();
    while values.len() < count {
        let message = stream.next_timeout(LIMIT).unwrap().unwrap();
        values.push(String::from_utf8(message.value().unwrap().to_vec()).unwrap());
    }
    stream.mark_consumed();
    connector.shutdown();
    assert!(stream.next().is_none(), "a stream ends with its connector");
    numbers(values)
}

pub(crate) fn a_shutdown_amid_reading_repeats_at_most_the_message_in_hand_of_each_stream(
    version: impl Version,
) {
    const MEMBERS: usize = 10;
    let cluster = cluster(version);
    let flow = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, PACE);
    let mut all = Vec::new();
    let mut sent = Vec::new();
    for number in 1..=MEMBERS {
        let config = config(&cluster.connect_string(), GROUP);
        let member = InProcess::join(config, TOPIC, 2);
        wait_until(LIMIT, "some messages", || member.count() >= 50);
        if number == MEMBERS {
            sent = flow.sent();
            let goal = numbers_up_to(&sent);
            wait_until(LIMIT, "the rest", || {
                let values = member.values();
                let seen: BTreeSet<&String> = all.iter().chain(&values).collect();
                goal.iter().all(|value| seen.contains(value))
            });
        }
        all.extend(member.leave());
    }
    flow.stop();
    let mut repeats = 0;
    for (partition, mut seen) in numbers(&all) {
        let count = seen.len();
        seen.dedup();
        repeats += count - seen.len();
        let end = i64::try_from(seen.len()).unwrap();
        let sent = sent[usize::try_from(partition).unwrap()];
        assert!(end >= sent, "partition {partition}");
        assert_eq!(seen, (0..end).collect::<Vec<_>>(), "repeated only at once");
    }
    println!("{repeats} repeats");
    assert!(repeats <= 2 * MEMBERS);
}

fn numbers_up_to(ends: &[i64]) -> Vec<String> {
    (0..)
        .zip(ends)
        .flat_map(|(partition, end)| (0..*end).map(move |number| value(partition, number)))
        .collect()
}

pub(crate) fn after_kill_9_of_kzc_only_what_was_not_committed_is_repeated(version: impl Version) {
    let cluster = cluster(version);
    let shell = cluster.shell();
    produce(&cluster, TOPIC, PARTITIONS, 0, 100);
    let mut kzc = Process::start(
        kzc_consume(&cluster.connect_string(), GROUP, TOPIC)
            .args(["--property", "consumer.id=killed"]),
    );
    kzc.wait_for(300);
    assert_eq!(stored(&shell), BTreeMap::new());

    // A rebalance makes it commit.
    let guest = join(&cluster, "guest");
    wait_for_owners(
        &shell,
        GROUP,
        TOPIC,
        PARTITIONS,
        &["resuming_guest-0", "resuming_killed-0"],
    );
    assert_eq!(guest.leave(), Vec::<String>::new());
    wait_for_owners(&shell, GROUP, TOPIC, PARTITIONS, &["resuming_killed-0"]);
    assert_eq!(stored(&shell), (0..PARTITIONS).map(|p| (p, 100)).collect());

    produce(&cluster, TOPIC, PARTITIONS, 100, 200);
    kzc.wait_for(600);
    kzc.kill();
    assert_eq!(numbers(kzc.lines()), each(0, 200));
    assert_eq!(
        owners(&shell, GROUP, TOPIC).len(),
        3,
        "the dead one's nodes"
    );

    let next = join(&cluster, "next");
    wait_for_owners(&shell, GROUP, TOPIC, PARTITIONS, &["resuming_next-0"]);
    wait_until(LIMIT, "what was not committed", || next.count() >= 300);
    assert_eq!(numbers(next.leave()), each(100, 200));
}

pub(crate) fn join(cluster: &impl Cluster, name: &str) -> InProcess {
    let config = config(&cluster.connect_string(), GROUP).consumer_id(name);
    InProcess::join(config, TOPIC, 1)
}
