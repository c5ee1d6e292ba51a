//! Members of ours and of the original consumer share one group: they agree on who owns what, and hand
//! partitions over to each other without losing a message.

use std::time::Duration;

use crate::scenarios::member::Numbers;
use crate::scenarios::member::OffsetWatch;
use crate::scenarios::member::Process;
use crate::scenarios::member::config;
use crate::scenarios::member::kzc_consume;
use crate::scenarios::member::missing;
use crate::scenarios::member::numbers;
use crate::scenarios::member::owners;
use crate::scenarios::member::wait_for_owners;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::topics_support::connect;
use crate::support::Cluster;
use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

const GROUP: &str = "mixed";
const TOPIC: &str = "orders";
const PARTITIONS: i32 = 4;
/// How often the group changes after its first member.
const CHANGES: usize = 6;

const LIMIT: Duration = Duration::from_secs(90);
const PACE: Duration = Duration::from_millis(10);

#[test]
fn members_of_0_8_2_2_share_a_group_with_ours_on_0_8_2_2() {
    share_a_group(KafkaVersion::V0_8_2_2, KafkaVersion::V0_8_2_2);
}

#[test]
fn members_of_0_8_2_2_share_a_group_with_ours_on_0_9_0_1() {
    share_a_group(KafkaVersion::V0_9_0_1, KafkaVersion::V0_8_2_2);
}

#[test]
fn members_of_0_9_0_1_share_a_group_with_ours_on_0_9_0_1() {
    share_a_group(KafkaVersion::V0_9_0_1, KafkaVersion::V0_9_0_1);
}

// The original was part of Kafka up to 1.1; clients must not be newer than their brokers.

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn members_of_0_10_2_2_share_a_group_with_ours_on_0_10_2_2() {
    share_a_group(KafkaVersion::V0_10_2_2, KafkaVersion::V0_10_2_2);
}

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn members_of_0_8_2_2_share_a_group_with_ours_on_0_11_0_3() {
    share_a_group(KafkaVersion::V0_11_0_3, KafkaVersion::V0_8_2_2);
}

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn members_of_1_1_1_share_a_group_with_ours_on_1_1_1() {
    share_a_group(KafkaVersion::V1_1_1, KafkaVersion::V1_1_1);
}

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn members_of_1_1_1_share_a_group_with_ours_on_2_3_1() {
    share_a_group(KafkaVersion::V2_3_1, KafkaVersion::V1_1_1);
}

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn members_of_0_8_2_2_share_a_group_with_ours_on_2_8_2() {
    share_a_group(KafkaVersion::V2_8_2, KafkaVersion::V0_8_2_2);
}

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn members_of_0_8_2_2_share_a_group_with_ours_on_3_9_2() {
    share_a_group(KafkaVersion::V3_9_2, KafkaVersion::V0_8_2_2);
}

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn members_of_1_1_1_share_a_group_with_ours_on_3_9_2() {
    share_a_group(KafkaVersion::V3_9_2, KafkaVersion::V1_1_1);
}

/// Joins and leaves of both sides while messages flow: ours `b`, the original `a`, ours `c`, then `a`
/// leaves, comes back as `d`, and ours leave. Ours are `kzc consume`.
fn share_a_group(brokers: KafkaVersion, original: KafkaVersion) {
    let cluster = RealCluster::start(brokers, 1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    let shell = cluster.shell();
    let settled = |threads: &[&str]| wait_for_owners(&shell, GROUP, TOPIC, PARTITIONS, threads);
    let flow = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, PACE);
    let guard = OffsetWatch::start(&cluster.connect_string(), GROUP, TOPIC, PARTITIONS);

    let mut b = join(&cluster, "b");
    settled(&["mixed_b-0"]);
    wait_for_progress("the first of ours", || b.lines().len());
    wait_for_offsets(&shell);

    let mut a = original_member(&cluster, original, "a");
    settled(&["mixed_a-0", "mixed_b-0"]);
    wait_for_progress("the original", || a.lines().len());
    wait_for_progress("ours beside the original", || b.lines().len());

    let mut c = join(&cluster, "c");
    settled(&["mixed_a-0", "mixed_b-0", "mixed_c-0"]);
    wait_for_progress("the original beside two of ours", || a.lines().len());
    wait_for_progress("the second of ours", || c.lines().len());

    a.stop();
    settled(&["mixed_b-0", "mixed_c-0"]);
    wait_for_progress("ours after the original", || b.lines().len());

    let mut d = original_member(&cluster, original, "d");
    settled(&["mixed_b-0", "mixed_c-0", "mixed_d-0"]);
    b.stop();
    let by_b = b.lines();
    settled(&["mixed_c-0", "mixed_d-0"]);
    c.stop();
    let by_c = c.lines();
    settled(&["mixed_d-0"]);
    wait_for_progress("the original after ours", || d.lines().len());

    let written = flow.stop();
    let lines_of_a = numbers(a.lines());
    let ours = [numbers(&by_b), numbers(&by_c)];
    let nothing_missing = || {
        let lines_of_d = numbers(d.lines());
        let seen = [&ours[0], &ours[1], &lines_of_a, &lines_of_d];
        missing(&seen, &written).is_empty()
    };
    wait_until(LIMIT, "every message to be seen", nothing_missing);
    d.stop();
    guard.finish();
    assert_eq!(owners(&shell, GROUP, TOPIC), Default::default());
    let lines_of_d = numbers(d.lines());
    for seen in [&ours[0], &ours[1], &lines_of_a, &lines_of_d] {
        assert_in_order(seen);
    }
    let total = by_b.len() + by_c.len() + a.lines().len() + d.lines().len();
    let sent = usize::try_from(written.iter().sum::<i64>()).unwrap();
    println!("{sent} messages, {} repeats", total - sent);
}

/// The tool subscribes by a regular expression, which ours have to read as Java does.
#[test]
fn a_filter_of_the_original_shares_only_what_it_lets_pass() {
    let cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    let topics = ["orders.eu", "orders.us", "bills"];
    for topic in topics {
        cluster.create_topic(topic, 2, 1);
    }
    let shell = cluster.shell();
    let ours = connect(config(&cluster.connect_string(), GROUP).consumer_id("b"));
    let _unread = ours.create_message_streams(topics.map(|topic| (topic, 1)));
    for topic in topics {
        wait_for_owners(&shell, GROUP, topic, 2, &["mixed_b-0"]);
    }

    let filter = r"orders\.(?!us$)[a-z]*+, \Qbills\E";
    let options = ConsoleConsumerOptions {
        properties: &original_properties("a"),
        ..ConsoleConsumerOptions::default()
    };
    let mut a = ConsoleConsumer::start_on_whitelist(
        cluster.version(),
        &cluster.connect_string(),
        filter,
        &options,
    );
    for topic in ["orders.eu", "bills"] {
        wait_for_owners(&shell, GROUP, topic, 2, &["mixed_a-0", "mixed_b-0"]);
    }
    wait_for_owners(&shell, GROUP, "orders.us", 2, &["mixed_b-0"]);

    // Its nodes stay until its session has expired.
    a.kill();
    for topic in topics {
        wait_for_owners(&shell, GROUP, topic, 2, &["mixed_b-0"]);
    }
}

/// A member of ours, in a process of its own.
fn join(cluster: &RealCluster, name: &str) -> Process {
    Process::start(
        kzc_consume(&cluster.connect_string(), GROUP, TOPIC)
            .args(["--property", &format!("consumer.id={name}")])
            .args(["--property", "auto.commit.interval.ms=500"]),
    )
}

/// It begins where the group has stored offsets, whatever its `auto.offset.reset`.
fn original_member(cluster: &RealCluster, version: KafkaVersion, name: &str) -> ConsoleConsumer {
    let properties = original_properties(name);
    let options = ConsoleConsumerOptions {
        properties: &properties,
        ..ConsoleConsumerOptions::default()
    };
    ConsoleConsumer::start(version, &cluster.connect_string(), TOPIC, &options)
}

fn original_properties(name: &str) -> [(&str, &str); 8] {
    [
        ("group.id", GROUP),
        ("consumer.id", name),
        ("zookeeper.session.timeout.ms", "4000"),
        ("zookeeper.sync.time.ms", "200"),
        ("rebalance.backoff.ms", "500"),
        ("rebalance.max.retries", "20"),
        ("auto.commit.interval.ms", "500"),
        ("refresh.leader.backoff.ms", "100"),
    ]
}

/// Waits until a member has seen some messages more.
#[track_caller]
fn wait_for_progress(who: &str, count: impl Fn() -> usize) {
    let before = count();
    wait_until(LIMIT, &format!("{who} to consume"), || {
        count() > before + 20
    });
}

/// Waits until every partition has a stored offset.
#[track_caller]
fn wait_for_offsets(shell: &ZooKeeperShell) {
    let path = format!("/consumers/{GROUP}/offsets/{TOPIC}");
    wait_until(LIMIT, "offsets of all partitions", || {
        shell.children(&path).is_ok_and(|stored| stored.len() == 4)
    });
}

/// Within one assignment a member sees a partition's messages without a gap. Between two, others may have
/// taken some, or have committed less than this member has seen.
#[track_caller]
fn assert_in_order(seen: &Numbers) {
    for (partition, numbers) in seen {
        let breaks: Vec<_> = numbers
            .windows(2)
            .filter(|pair| pair[1] != pair[0] + 1)
            .collect();
        assert!(breaks.len() <= CHANGES, "partition {partition}: {breaks:?}");
    }
}
