//! Who gets which partitions by round robin.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::PartitionAssignmentStrategy;
use kafka_zk_consumer::RoundRobinVersion;
use kafka_zk_consumer::TopicFilter;
use kafka_zk_consumer::embedded::EmbeddedCluster;

use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::wait_until;

fn round_robin(
    cluster: &EmbeddedCluster,
    group: &str,
    member: &str,
    version: RoundRobinVersion,
) -> ConsumerConfigBuilder {
    config(cluster, group)
        .consumer_id(member)
        .partition_assignment_strategy(PartitionAssignmentStrategy::RoundRobin)
        .round_robin_version(version)
}

/// `<topic>/<partition>` of each owner node of a group, with the thread in it.
fn owners(cluster: &EmbeddedCluster, group: &str) -> BTreeMap<String, String> {
    let session = cluster.zookeeper().local_session();
    let root = format!("/consumers/{group}/owners");
    let mut owners = BTreeMap::new();
    for topic in session.children(&root).unwrap_or_default() {
        for partition in session
            .children(&format!("{root}/{topic}"))
            .unwrap_or_default()
        {
            let name = format!("{topic}/{partition}");
            if let Ok((thread, _)) = session.get(&format!("{root}/{name}")) {
                owners.insert(name, String::from_utf8(thread).unwrap());
            }
        }
    }
    owners
}

#[track_caller]
fn settles(cluster: &EmbeddedCluster, group: &str, expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> = expected
        .iter()
        .map(|(partition, thread)| ((*partition).to_owned(), format!("{group}_{thread}")))
        .collect();
    let begun = Instant::now();
    while owners(cluster, group) != expected {
        let now = owners(cluster, group);
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{now:?} instead of {expected:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn round_robin_goes_by_the_order_of_the_version_that_was_chosen() {
    // D57: 1.0 changed the order, and members that go by different ones are in conflict for ever.
    let cluster = quick_cluster()
        .topic("orders", 1, 1)
        .topic("clicks", 2, 1)
        .start()
        .unwrap();
    let topics = [("orders", 1), ("clicks", 1)];
    for (group, version, clicks) in [
        ("old", RoundRobinVersion::V0_8_2, ["b-0", "a-0"]),
        ("later", RoundRobinVersion::V0_10_2, ["b-0", "a-0"]),
        ("new", RoundRobinVersion::V1_0, ["a-0", "b-0"]),
    ] {
        let a = connect(round_robin(&cluster, group, "a", version));
        let _by_a = a.create_message_streams(topics).unwrap();
        let b = connect(round_robin(&cluster, group, "b", version));
        let _by_b = b.create_message_streams(topics).unwrap();
        let expected = [
            ("orders/0", "a-0"),
            ("clicks/0", clicks[0]),
            ("clicks/1", clicks[1]),
        ];
        settles(&cluster, group, &expected);
        b.shutdown();
        settles(
            &cluster,
            group,
            &expected.map(|(partition, _)| (partition, "a-0")),
        );
    }
}

/// Nothing checks that all members deal alike: two that do not want the same partition, and nobody wants the other one.
#[test]
fn members_that_deal_by_different_versions_tell_who_is_in_the_way_until_they_deal_alike() {
    let cluster = quick_cluster()
        .topic("orders", 1, 1)
        .topic("clicks", 1, 1)
        .start()
        .unwrap();
    let topics = [("orders", 1), ("clicks", 1)];
    let a = connect(round_robin(&cluster, "g", "a", RoundRobinVersion::V1_0));
    let _streams_of_a = a.create_message_streams(topics).unwrap();
    let alone = [("orders/0", "a-0"), ("clicks/0", "a-0")];
    settles(&cluster, "g", &alone);

    let other = round_robin(&cluster, "g", "b", RoundRobinVersion::V0_8_2);
    let b = connect(other.rebalance_max_retries(1_000));
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| b.create_message_streams(topics));
        let tells = |member: &ConsumerConnector| match member.state() {
            ConnectorState::Rebalancing { last_failure, .. } => {
                last_failure.is_some_and(|failure| failure.contains("is owned by g_"))
            }
            _ => false,
        };
        wait_until("one of them tells of the other", || tells(&a) || tells(&b));
        b.shutdown();
        // Whoever was there first has it, so both ends are possible.
        let _ = joining.join().unwrap();
    });
    settles(&cluster, "g", &alone);
}

#[test]
fn differing_subscriptions_fail_the_newcomer_and_stop_nobody_who_reads() {
    let cluster = quick_cluster()
        .topic("orders", 2, 1)
        .topic("bills", 2, 1)
        .start()
        .unwrap();
    let version = RoundRobinVersion::V0_8_2;
    let a = connect(round_robin(&cluster, "g", "a", version));
    let mut streams = a.create_message_streams([("orders", 2)]).unwrap();
    let mut reading = Reading::start(streams.remove("orders").unwrap());
    produce_numbers(&cluster, "orders", 2, 0..10);
    reading.until_numbers(2, 10);

    let reason = "round robin needs equal subscriptions";
    let b = connect(round_robin(&cluster, "g", "b", version).rebalance_max_retries(1_000));
    let b = Arc::new(b);
    let joiner = Arc::clone(&b);
    // Not in a scope, which would wait for it if something fails here.
    let joining =
        std::thread::spawn(move || joiner.create_message_streams([("orders", 2), ("bills", 2)]));
    for member in [&a, &*b] {
        wait_until("both tell what they wait for", || match member.state() {
            ConnectorState::Rebalancing { last_failure, .. } => {
                last_failure.is_some_and(|failure| failure.contains(reason))
            }
            _ => false,
        });
    }
    // What it owns it goes on reading.
    produce_numbers(&cluster, "orders", 2, 10..20);
    reading.until_numbers(2, 20);
    b.shutdown();
    assert!(matches!(joining.join().unwrap(), Err(Error::Closed)));
    wait_until("the group is repaired", || {
        matches!(a.state(), ConnectorState::Consuming { partitions: 2, .. })
    });
    reading.assert_once_in_order(2, 20);

    let c = connect(round_robin(&cluster, "g", "c", version).rebalance_max_retries(1));
    match c.create_message_streams([("bills", 2)]) {
        Err(error @ Error::RebalanceFailed { .. }) => {
            let text = error.chain();
            assert!(text.contains(reason) && text.contains("bills"), "{text}");
        }
        other => panic!("{:?}", other.map(|streams| streams.len())),
    }
    produce_numbers(&cluster, "orders", 2, 20..30);
    reading.until_numbers(2, 30);
    reading.assert_once_in_order(2, 30);
}

#[test]
fn differing_subscriptions_are_dealt_out_as_since_0_10_2() {
    let cluster = quick_cluster()
        .topic("orders", 3, 1)
        .topic("payments", 3, 1)
        .start()
        .unwrap();
    let version = RoundRobinVersion::V0_10_2;
    let a = connect(round_robin(&cluster, "g", "a", version));
    let _by_a = a.create_message_streams([("orders", 1)]).unwrap();
    let b = connect(round_robin(&cluster, "g", "b", version));
    let _by_b = b
        .create_message_streams([("orders", 1), ("payments", 1)])
        .unwrap();
    settles(
        &cluster,
        "g",
        &[
            ("orders/0", "a-0"),
            ("orders/1", "b-0"),
            ("orders/2", "a-0"),
            ("payments/0", "b-0"),
            ("payments/1", "b-0"),
            ("payments/2", "b-0"),
        ],
    );
}

#[test]
fn members_by_filter_deal_a_new_topic_out_among_all_their_threads() {
    let cluster = quick_cluster().topic("orders", 3, 1).start().unwrap();
    let version = RoundRobinVersion::V0_8_2;
    let filter = TopicFilter::whitelist("orders|payments").unwrap();
    let members = ["a", "b"].map(|name| connect(round_robin(&cluster, "g", name, version)));
    let _streams = members
        .each_ref()
        .map(|member| member.create_message_streams_by_filter(&filter, 1).unwrap());
    settles(
        &cluster,
        "g",
        &[
            ("orders/0", "a-0"),
            ("orders/1", "b-0"),
            ("orders/2", "a-0"),
        ],
    );
    cluster.create_topic("payments", 3, 1).unwrap();
    settles(
        &cluster,
        "g",
        &[
            ("orders/0", "a-0"),
            ("orders/1", "b-0"),
            ("orders/2", "a-0"),
            ("payments/0", "b-0"),
            ("payments/1", "a-0"),
            ("payments/2", "b-0"),
        ],
    );
    cluster.delete_topic("orders").unwrap();
    settles(
        &cluster,
        "g",
        &[
            ("payments/0", "a-0"),
            ("payments/1", "b-0"),
            ("payments/2", "a-0"),
        ],
    );
}
