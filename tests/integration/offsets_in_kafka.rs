//! Offsets that are kept by the brokers.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::ErrorCode;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::OffsetsStorage;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::AnswerFault;
use kafka_zk_consumer::embedded::Api;
use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::ClusterBuilder;
use kafka_zk_consumer::embedded::ConnectionFault;
use kafka_zk_consumer::embedded::EmbeddedCluster;

use crate::offsets::stored;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::wait_until;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(3600);

/// Whose coordinators are asked in different versions, or answer what they have not loaded in different ways.
const VERSIONS: [BrokerVersion; 4] = [
    BrokerVersion::V0_8_2,
    BrokerVersion::V0_9_0,
    BrokerVersion::V0_10_2,
    BrokerVersion::V2_3,
];

/// One partition `orders`, and one for the offsets.
fn cluster(brokers: i32) -> ClusterBuilder {
    let replicas = usize::try_from(brokers).unwrap();
    let cluster = quick_cluster().brokers(brokers);
    let cluster = cluster.topic("orders", 1, replicas);
    cluster.offsets_topic(1, replicas)
}

/// Offsets in Kafka only, committed by hand.
fn in_kafka(cluster: &EmbeddedCluster) -> ConsumerConfigBuilder {
    dual(cluster).dual_commit_enabled(false)
}

/// Offsets in Kafka and ZooKeeper, committed by hand.
fn dual(cluster: &EmbeddedCluster) -> ConsumerConfigBuilder {
    config(cluster, "g")
        .offsets_storage(OffsetsStorage::Kafka)
        .offsets_channel_backoff(Duration::from_millis(100))
        .offsets_channel_socket_timeout(Duration::from_secs(2))
        .offsets_commit_max_retries(50)
        .auto_commit_enable(false)
}

fn coordinator(cluster: &EmbeddedCluster) -> i32 {
    let description = cluster.describe();
    let offsets = description.partition("__consumer_offsets", 0);
    offsets.unwrap().leader.expect("a coordinator")
}

/// Joins, reads so many messages, commits, and leaves. Returns the offset of the first.
fn read_some(config: ConsumerConfigBuilder, count: i64) -> i64 {
    read_some_of(&connect(config), count)
}

fn read_some_of(connector: &ConsumerConnector, count: i64) -> i64 {
    let mut stream = streams(connector, "orders", 1).remove(0);
    let first = next(&mut stream).unwrap().offset();
    for _ in 1..count {
        next(&mut stream).unwrap();
    }
    stream.mark_consumed();
    let of = TopicPartition::new("orders", 0);
    assert_eq!(connector.commit_offsets().unwrap(), [(of, first + count)]);
    first
}

#[test]
fn the_next_member_goes_on_where_the_one_before_has_committed_and_zookeeper_knows_nothing() {
    for version in VERSIONS {
        let cluster = cluster(1).version(version).start().unwrap();
        produce_numbers(&cluster, "orders", 1, 0..20);
        assert_eq!(read_some(in_kafka(&cluster), 4), 0);
        assert_eq!(read_some(in_kafka(&cluster), 3), 4);

        let connector = connect(in_kafka(&cluster).auto_commit_enable(true));
        let mut stream = streams(&connector, "orders", 1).remove(0);
        assert_eq!(next(&mut stream).unwrap().offset(), 7);
        stream.mark_consumed();
        connector.shutdown();
        assert!(connector.stats().kafka_commits > 0);
        assert_eq!(connector.stats().zookeeper_commits, 0);
        assert_eq!(read_some(in_kafka(&cluster), 1), 8, "after the shutdown");
        assert_eq!(stored(&cluster, 0), None);
    }
}

#[test]
fn commits_survive_the_death_of_their_coordinator() {
    let cluster = cluster(3).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(in_kafka(&cluster));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    let mut commit_next = || {
        let offset = next(&mut stream).unwrap().offset();
        stream.mark_consumed();
        assert_eq!(connector.commit_offsets().unwrap()[0].1, offset + 1);
    };
    for _ in 0..3 {
        commit_next();
        let dead = coordinator(&cluster);
        cluster.kill(dead).unwrap();
        commit_next();
        cluster.restart(dead).unwrap();
        wait_until("the broker has caught up", || {
            let description = cluster.describe();
            let mut partitions = description.partitions.iter();
            partitions.all(|partition| partition.isr.len() == 3)
        });
    }
    connector.shutdown();
    assert_eq!(read_some(in_kafka(&cluster), 1), 6);
}

/// Ends those who commit all the time, also when the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Commits one offset after the other. Each has to be stored.
fn commit_all_the_time(
    cluster: &EmbeddedCluster,
    group: &str,
    last: &AtomicI64,
    stop: &AtomicBool,
) {
    let _stop = StopAtEnd(stop);
    let connector = connect(in_kafka(cluster).group_id(group));
    while !stop.load(Ordering::SeqCst) {
        let next = last.load(Ordering::SeqCst) + 1;
        let offset = (TopicPartition::new("orders", 0), next);
        let committed = connector.commit_offsets_for([offset.clone()]).unwrap();
        assert_eq!(committed, [offset], "of {group}");
        last.store(next, Ordering::SeqCst);
    }
}

#[test]
fn groups_that_commit_all_the_time_lose_nothing_when_each_coordinator_dies() {
    let cluster = quick_cluster().brokers(3).topic("orders", 1, 3);
    let cluster = cluster.offsets_topic(3, 3).start().unwrap();
    let groups: Vec<(String, AtomicI64)> = (0..8)
        .map(|number| (format!("group-{number}"), AtomicI64::new(0)))
        .collect();
    let stop = AtomicBool::new(false);
    let go_on = || {
        let before: Vec<i64> = groups
            .iter()
            .map(|it| it.1.load(Ordering::SeqCst))
            .collect();
        wait_until("every group commits", || {
            let mut pairs = groups.iter().zip(&before);
            assert!(!stop.load(Ordering::SeqCst), "a commit has failed");
            pairs.all(|((_, last), before)| last.load(Ordering::SeqCst) > before + 5)
        });
    };
    thread::scope(|scope| {
        let (cluster, stop) = (&cluster, &stop);
        let _stop = StopAtEnd(stop);
        for (group, last) in &groups {
            scope.spawn(move || commit_all_the_time(cluster, group, last, stop));
        }
        for broker in 0..3 {
            go_on();
            cluster.kill(broker).unwrap();
            go_on();
            cluster.restart(broker).unwrap();
            wait_until("the broker has caught up", || {
                let description = cluster.describe();
                let mut partitions = description.partitions.iter();
                partitions.all(|partition| partition.isr.len() == 3)
            });
        }
    });
    let furthest = groups.iter().map(|it| it.1.load(Ordering::SeqCst)).max();
    for _ in 0..=furthest.unwrap() / 500 {
        cluster.produce("orders", 0, ["x"; 500]).unwrap();
    }
    for (group, last) in groups {
        let first = read_some(in_kafka(&cluster).group_id(&group), 1);
        assert_eq!(first, last.into_inner(), "of {group}");
    }
}

#[test]
fn a_coordinator_that_moves_and_loads_its_log_resets_nobody() {
    // D36, D37: the original took the errors of that time for "nothing was committed", or failed its rebalance.
    for version in VERSIONS {
        let cluster = cluster(2)
            .version(version)
            .offsets_load_time(Duration::from_millis(700))
            .start()
            .unwrap();
        produce_numbers(&cluster, "orders", 1, 0..10);
        for round in 0..3 {
            let connector = connect(in_kafka(&cluster));
            assert_eq!(read_some_of(&connector, 2), 2 * round);
            let failed = std::iter::from_fn(|| connector.events().try_next())
                .find(|event| matches!(event, Event::RebalanceAttemptFailed { .. }));
            assert_eq!(failed, None, "in round {round} of {version}");
            let other = 1 - coordinator(&cluster);
            cluster.move_leader("__consumer_offsets", 0, other).unwrap();
        }
    }
}

#[test]
fn a_member_keeps_its_offsets_while_its_coordinator_is_upgraded_and_taken_back() {
    // With one broker the same coordinator comes back as another version, with two another one takes its place.
    for brokers in [1, 2] {
        let cluster = cluster(brokers).version(VERSIONS[0]).start().unwrap();
        produce_numbers(&cluster, "orders", 1, 0..30);
        let connector = connect(in_kafka(&cluster));
        let mut stream = streams(&connector, "orders", 1).remove(0);
        let mut read = 0;
        let there_and_back = VERSIONS.into_iter().chain(VERSIONS.into_iter().rev());
        for (version, broker) in there_and_back.flat_map(|version| each_of(version, brokers)) {
            assert_eq!(next(&mut stream).unwrap().offset(), read, "{version}");
            stream.mark_consumed();
            read += 1;
            assert_eq!(connector.commit_offsets().unwrap()[0].1, read, "{version}");
            cluster.stop(broker).unwrap();
            cluster.restart_as(broker, version).unwrap();
            wait_until("the broker has caught up", || {
                let description = cluster.describe();
                let mut partitions = description.partitions.iter();
                let all = usize::try_from(brokers).unwrap();
                partitions.all(|partition| partition.isr.len() == all)
            });
        }
        connector.shutdown();
        assert_eq!(read_some(in_kafka(&cluster), 1), read);
    }
}

fn each_of(version: BrokerVersion, brokers: i32) -> impl Iterator<Item = (BrokerVersion, i32)> {
    (0..brokers).map(move |broker| (version, broker))
}

#[test]
fn no_answer_but_an_offset_is_taken_for_one() {
    for version in VERSIONS {
        let cluster = cluster(1).version(version).start().unwrap();
        produce_numbers(&cluster, "orders", 1, 0..10);
        assert_eq!(read_some(in_kafka(&cluster), 4), 0);
        for fault in [
            AnswerFault::Error(ErrorCode::UnknownTopicOrPartition),
            AnswerFault::Error(ErrorCode::CoordinatorLoadInProgress),
            AnswerFault::Error(ErrorCode::CoordinatorNotAvailable),
            AnswerFault::Error(ErrorCode::NotCoordinator),
            AnswerFault::Error(ErrorCode::UnknownServerError),
            AnswerFault::HalfFrame,
            AnswerFault::NoAnswer,
            AnswerFault::WrongCorrelationId,
        ] {
            cluster.spoil_answer(0, Api::OffsetFetch, fault).unwrap();
            if !matches!(
                fault,
                AnswerFault::Error(ErrorCode::UnknownTopicOrPartition)
            ) {
                cluster
                    .spoil_answer(0, Api::FindCoordinator, fault)
                    .unwrap();
            }
        }
        assert_eq!(read_some(in_kafka(&cluster), 1), 4, "{version}");
        assert_eq!(cluster.answers_to_spoil(0).unwrap(), 0);
    }
}

#[test]
fn an_unknown_partition_has_no_offset_only_after_a_second_look_at_another_coordinator() {
    // D36: just after its start a broker of 0.8.2 says so of every partition.
    let cluster = cluster(1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    assert_eq!(read_some(in_kafka(&cluster), 4), 0);
    let unknown = AnswerFault::Error(ErrorCode::UnknownTopicOrPartition);
    let spoil = |times| {
        (0..times).for_each(|_| cluster.spoil_answer(0, Api::OffsetFetch, unknown).unwrap());
    };
    let hasty = || in_kafka(&cluster).offsets_commit_max_retries(1);
    spoil(2);
    assert_eq!(read_some(hasty(), 1), 4);
    spoil(3);
    assert_eq!(read_some(hasty(), 1), 0, "nobody knows better");
}

#[test]
fn a_refusal_that_will_not_pass_fails_the_start_with_its_code() {
    for version in [BrokerVersion::V0_8_2, BrokerVersion::V2_3] {
        let cluster = cluster(1).version(version).start().unwrap();
        let refused = AnswerFault::Error(ErrorCode::GroupAuthorizationFailed);
        read_nothing(&cluster);
        cluster.spoil_answer(0, Api::OffsetFetch, refused).unwrap();
        let connector = connect(in_kafka(&cluster));
        let error = connector
            .create_message_streams([("orders", 1)])
            .unwrap_err();
        assert!(error.to_string().contains("code 30"), "{error}");
        connector.shutdown();

        cluster
            .spoil_answer(0, Api::FindCoordinator, refused)
            .unwrap();
        let connector = connect(in_kafka(&cluster));
        let error = connector
            .create_message_streams([("orders", 1)])
            .unwrap_err();
        assert!(matches!(error, Error::Coordinator { .. }), "{error}");
        assert!(!error.is_retriable());
    }
}

/// Has the topic of the offsets created.
fn read_nothing(cluster: &EmbeddedCluster) {
    let connector = connect(in_kafka(cluster));
    let _streams = streams(&connector, "orders", 1);
}

#[test]
fn a_group_that_moves_from_zookeeper_to_kafka_and_back_goes_on_where_it_was() {
    let cluster = cluster(1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..20);
    let in_zookeeper = || config(&cluster, "g").auto_commit_enable(false);
    assert_eq!(read_some(in_zookeeper(), 3), 0);
    assert_eq!(read_some(dual(&cluster), 2), 3, "from zookeeper to both");
    assert_eq!(stored(&cluster, 0).as_deref(), Some("5"));
    assert_eq!(read_some(in_zookeeper(), 2), 5, "back");
    assert_eq!(read_some(dual(&cluster), 1), 7, "the larger one counts");
    assert_eq!(read_some(in_kafka(&cluster), 2), 8, "to kafka alone");
    assert_eq!(stored(&cluster, 0).as_deref(), Some("8"), "left behind");
    assert_eq!(read_some(dual(&cluster), 1), 10);
    assert_eq!(stored(&cluster, 0).as_deref(), Some("11"));
}

#[test]
fn an_offset_that_stands_still_is_brought_to_zookeeper_by_the_first_commit_to_both() {
    // Members of 0.8.2 wrote only what had moved since they took the partition over: after a time with offsets in Kafka
    // only, a quiet partition kept its old znode, and was read again once offsets were in ZooKeeper only.
    let cluster = cluster(1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    assert_eq!(read_some(dual(&cluster), 2), 0);
    assert_eq!(read_some(in_kafka(&cluster), 8), 2);
    assert_eq!(stored(&cluster, 0).as_deref(), Some("2"));

    let connector = connect(dual(&cluster));
    let _unread = streams(&connector, "orders", 1);
    let of = TopicPartition::new("orders", 0);
    assert_eq!(connector.commit_offsets().unwrap(), [(of, 10)]);
    assert_eq!(stored(&cluster, 0).as_deref(), Some("10"));
}

#[test]
fn commits_by_hand_and_the_last_one_are_repeated_and_the_timer_waits_for_its_next_turn() {
    // D39: the original had it the wrong way round.
    let cluster = cluster(1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    read_nothing(&cluster);
    let loading = AnswerFault::Error(ErrorCode::CoordinatorLoadInProgress);
    let spoil = |times| {
        (0..times).for_each(|_| cluster.spoil_answer(0, Api::OffsetCommit, loading).unwrap());
    };
    let all_spoilt = || cluster.answers_to_spoil(0).unwrap() == 0;

    spoil(2);
    assert_eq!(read_some(in_kafka(&cluster), 2), 0);
    assert!(all_spoilt());

    let connector = connect(
        in_kafka(&cluster)
            .auto_commit_enable(true)
            .auto_commit_interval(LONG),
    );
    let mut stream = streams(&connector, "orders", 1).remove(0);
    assert_eq!(next(&mut stream).unwrap().offset(), 2);
    stream.mark_consumed();
    spoil(2);
    connector.shutdown();
    assert!(all_spoilt());

    // A timer that paused for another attempt would stand still.
    let timed = in_kafka(&cluster)
        .auto_commit_enable(true)
        .offsets_channel_backoff(LONG);
    let connector = connect(timed);
    let mut stream = streams(&connector, "orders", 1).remove(0);
    assert_eq!(next(&mut stream).unwrap().offset(), 3);
    stream.mark_consumed();
    let before = connector.stats().kafka_commits;
    spoil(3);
    wait_until("the timer has come through", || {
        all_spoilt() && connector.stats().kafka_commits > before
    });
    assert!(connector.stats().commit_failures >= 3);
    connector.shutdown();
    assert_eq!(read_some(in_kafka(&cluster), 1), 4);
}

#[test]
fn a_shutdown_ends_a_search_for_the_coordinator_and_does_not_wait_for_a_silent_one() {
    // D33: the original searched without end, holding its locks.
    let cluster = cluster(1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let nobody = AnswerFault::Error(ErrorCode::CoordinatorNotAvailable);
    cluster
        .spoil_answer(0, Api::FindCoordinator, nobody)
        .unwrap();
    let connector = connect(in_kafka(&cluster).offsets_channel_backoff(LONG));
    let offsets = [(TopicPartition::new("orders", 0), 1)];
    thread::scope(|scope| {
        let commit = scope.spawn(|| connector.commit_offsets_for(offsets));
        wait_until("it pauses before it asks again", || {
            cluster.answers_to_spoil(0).unwrap() == 0
        });
        connector.shutdown();
        let ended = commit.join().unwrap().unwrap_err();
        assert!(
            matches!(ended, Error::Closed | Error::Coordinator { .. }),
            "{ended}"
        );
    });

    let connector = connect(
        in_kafka(&cluster)
            .auto_commit_enable(true)
            .auto_commit_interval(LONG),
    );
    let mut stream = streams(&connector, "orders", 1).remove(0);
    next(&mut stream).unwrap();
    stream.mark_consumed();
    cluster.disturb(0, ConnectionFault::Silence).unwrap();
    let begun = Instant::now();
    connector.shutdown();
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_commit_waits_for_a_silent_coordinator_no_longer_than_the_lease_of_the_owner_nodes() {
    let cluster = cluster(1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(in_kafka(&cluster).offsets_channel_socket_timeout(LONG));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    next(&mut stream).unwrap();
    stream.mark_consumed();
    cluster.disturb(0, ConnectionFault::Silence).unwrap();
    thread::scope(|scope| {
        let commit = scope.spawn(|| connector.commit_offsets());
        cluster.zookeeper().silence(true);
        // Once the partitions are given up there is nothing left to commit.
        assert_eq!(commit.join().unwrap().unwrap_or_default(), []);
    });
    wait_until("the partitions are given up", || {
        connector.owned_partitions().is_empty()
    });
    cluster.zookeeper().silence(false);
    cluster.heal(0).unwrap();
}
