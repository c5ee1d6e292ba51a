//! Offsets in Kafka, shared with members of the original.

use std::fs;
use std::fs::File;
use std::time::Duration;

use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::java_hash;

use crate::scenarios::member::InProcess;
use crate::scenarios::member::Numbers;
use crate::scenarios::member::Process;
use crate::scenarios::member::config_in_kafka;
use crate::scenarios::member::kzc_consume;
use crate::scenarios::member::numbers;
use crate::scenarios::member::produce;
use crate::scenarios::member::stored_offset;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::only_stream;
use crate::support::Cluster;
use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_until;

const GROUP: &str = "kept-by-brokers";
const TOPIC: &str = "orders";
const PARTITIONS: i32 = 3;
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn members_of_0_8_2_2_and_ours_go_on_where_the_others_stopped_on_0_8_2_2() {
    take_turns(KafkaVersion::V0_8_2_2, KafkaVersion::V0_8_2_2);
}

#[test]
fn members_of_0_8_2_2_and_ours_go_on_where_the_others_stopped_on_0_9_0_1() {
    take_turns(KafkaVersion::V0_9_0_1, KafkaVersion::V0_8_2_2);
}

#[test]
fn members_of_0_9_0_1_and_ours_go_on_where_the_others_stopped_on_0_9_0_1() {
    take_turns(KafkaVersion::V0_9_0_1, KafkaVersion::V0_9_0_1);
}

/// Ours, the original, ours again, and `kzc consume`, one after the other; nobody loses or repeats a message.
fn take_turns(brokers: KafkaVersion, original: KafkaVersion) {
    let cluster = RealCluster::start(brokers, 1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    let zookeeper = cluster.connect_string();

    produce(&cluster, TOPIC, PARTITIONS, 0, 100);
    assert_eq!(read_by_ours(&zookeeper, 300), each(0, 100));

    produce(&cluster, TOPIC, PARTITIONS, 100, 200);
    let properties = [
        ("group.id", GROUP),
        ("offsets.storage", "kafka"),
        ("dual.commit.enabled", "false"),
        ("zookeeper.session.timeout.ms", "4000"),
        ("auto.commit.interval.ms", "300"),
    ];
    let options = ConsoleConsumerOptions {
        properties: &properties,
        ..ConsoleConsumerOptions::default()
    };
    let mut theirs = ConsoleConsumer::start(original, &zookeeper, TOPIC, &options);
    theirs.wait_for_lines(300, LIMIT);
    theirs.stop();
    assert_eq!(numbers(theirs.lines()), each(100, 200));

    produce(&cluster, TOPIC, PARTITIONS, 200, 300);
    assert_eq!(read_by_ours(&zookeeper, 300), each(200, 300));

    produce(&cluster, TOPIC, PARTITIONS, 300, 400);
    let mut kzc = Process::start(
        kzc_consume(&zookeeper, GROUP, TOPIC)
            .args(["--property", "offsets.storage=kafka"])
            .args(["--property", "dual.commit.enabled=false"]),
    );
    kzc.wait_for(300);
    kzc.stop();
    assert_eq!(numbers(kzc.lines()), each(300, 400));
    assert_eq!(stored_offset(&cluster.shell(), GROUP, TOPIC, 0), None);
}

/// The numbers `from..to` of each partition.
fn each(from: i64, to: i64) -> Numbers {
    (0..PARTITIONS)
        .map(|partition| (partition, (from..to).collect()))
        .collect()
}

fn read_by_ours(zookeeper: &str, count: usize) -> Numbers {
    let member = InProcess::join(config_in_kafka(zookeeper, GROUP), TOPIC, 1);
    wait_until(LIMIT, "all messages", || member.count() >= count);
    numbers(member.leave())
}

#[test]
fn a_member_that_joins_right_after_a_restart_of_its_coordinator_is_not_reset() {
    // D36: just after its start a broker of 0.8.2 knows no partition, then it coordinates nothing, then it loads; the
    // original began at an end of the log.
    for version in KafkaVersion::BY_DEFAULT {
        let mut cluster = RealCluster::start(version, 1);
        cluster.create_topic(TOPIC, PARTITIONS, 1);
        let zookeeper = cluster.connect_string();
        produce(&cluster, TOPIC, PARTITIONS, 0, 100);
        assert_eq!(read_by_ours(&zookeeper, 300), each(0, 100));
        for round in 1..=3 {
            cluster.broker(0).restart();
            let member = InProcess::join(config_in_kafka(&zookeeper, GROUP), TOPIC, 1);
            cluster.wait_for_leaders(TOPIC);
            let (from, to) = (round * 100, round * 100 + 100);
            produce(&cluster, TOPIC, PARTITIONS, from, to);
            wait_until(LIMIT, "all messages", || member.count() >= 300);
            assert_eq!(numbers(member.leave()), each(from, to));
        }
    }
}

pub(crate) fn offsets_are_asked_for_in_the_version_that_tells_errors_of_the_group_where_it_is_served(
    version: KafkaVersion,
) {
    let cluster = RealCluster::start(version, 1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    produce(&cluster, TOPIC, PARTITIONS, 0, 10);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("kzc.log");
    let mut kzc = Process::start(
        kzc_consume(&cluster.connect_string(), GROUP, TOPIC)
            .env("RUST_LOG", "kafka_zk_consumer::net=debug")
            .stderr(File::create(&log).unwrap())
            .args(["--property", "offsets.storage=kafka"])
            .args(["--property", "dual.commit.enabled=false"]),
    );
    kzc.wait_for(30);
    kzc.stop();
    let log = fs::read_to_string(log).unwrap();
    let (commit, fetch) = match version {
        KafkaVersion::V0_8_2_2 => (1, 1),
        KafkaVersion::V0_9_0_1 => (2, 1),
        _ => (2, 2),
    };
    for (api, wanted) in [("OffsetCommit", commit), ("OffsetFetch", fetch)] {
        let sent = (0..10).filter(|version| log.contains(&format!("{api} v{version} goes to")));
        assert_eq!(sent.collect::<Vec<_>>(), [wanted], "{api}: {log}");
    }
}

#[test]
fn commits_survive_the_death_of_the_coordinator_on_0_8_2_2() {
    lose_the_coordinator(KafkaVersion::V0_8_2_2);
}

#[test]
fn commits_survive_the_death_of_the_coordinator_on_0_9_0_1() {
    lose_the_coordinator(KafkaVersion::V0_9_0_1);
}

fn lose_the_coordinator(version: KafkaVersion) {
    let replicated = [("offsets.topic.replication.factor", "2")];
    let mut cluster = RealCluster::start_with(version, 2, &replicated);
    cluster.create_topic(TOPIC, 1, 2);
    let zookeeper = cluster.connect_string();
    produce(&cluster, TOPIC, 1, 0, 10);
    let of = TopicPartition::new(TOPIC, 0);

    let connector = connect(config_in_kafka(&zookeeper, GROUP).auto_commit_enable(false));
    let mut stream = only_stream(&connector, TOPIC);
    let mut commit_next = |next: i64| {
        stream.next_timeout(LIMIT).unwrap().unwrap();
        stream.mark_consumed();
        assert_eq!(connector.commit_offsets().unwrap(), [(of.clone(), next)]);
    };
    commit_next(1);
    let partition = i32::try_from(java_hash(GROUP).unsigned_abs() % 4).unwrap();
    let coordinator = cluster.leader("__consumer_offsets", partition);
    cluster.broker(coordinator).kill();
    commit_next(2);
    // Back, it knows nothing of the group until it has been elected and has read the log.
    cluster.broker(coordinator).restart();
    commit_next(3);
    let other = 1 - coordinator;
    wait_until(LIMIT, "both brokers to have the offsets", || {
        let state = cluster.partition_state("__consumer_offsets", partition);
        state.is_some_and(|state| state.isr.len() == 2)
    });
    cluster.broker(other).kill();
    commit_next(4);
    connector.shutdown();
    drop(stream);

    let connector = connect(config_in_kafka(&zookeeper, GROUP));
    let mut stream = only_stream(&connector, TOPIC);
    let first = stream.next_timeout(LIMIT).unwrap().unwrap();
    assert_eq!(first.offset(), 4);
}
