//! Several members of one group, and what becomes of their sessions.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::TopicFilter;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::CreateMode;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::embedded::LocalSession;

use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::wait_until;

/// Fails, and leaves the connector behind, when the shutdown takes long.
#[track_caller]
fn assert_shuts_down(connector: ConsumerConnector) {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        connector.shutdown();
        tell.send(())
    });
    let is_over = told.recv_timeout(Duration::from_secs(20));
    assert_eq!(is_over, Ok(()), "the shutdown does not end");
}

fn wait_for_event(connector: &ConsumerConnector, what: &str, is_it: impl Fn(&Event) -> bool) {
    wait_until(what, || {
        std::iter::from_fn(|| connector.events().try_next()).any(|event| is_it(&event))
    });
}

fn wait_for_failed_attempt(connector: &ConsumerConnector) {
    wait_for_event(connector, "an attempt has failed", |event| {
        matches!(event, Event::RebalanceAttemptFailed { .. })
    });
}

/// A member that has read partition 0, and pauses for long before it tries again to get partition 1.
fn in_a_long_pause(cluster: &EmbeddedCluster) -> (ConsumerConnector, Reading, LocalSession) {
    let patient = config(cluster, "g").rebalance_backoff(Duration::from_secs(600));
    let connector = connect(patient);
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    produce_numbers(cluster, "orders", 1, 0..10);
    reading.until_numbers(1, 10);
    let stranger = cluster.zookeeper().local_session();
    let taken = "/consumers/g/owners/orders/1";
    stranger
        .create(taken, b"g_stranger-0", CreateMode::Ephemeral)
        .unwrap();
    cluster.add_partitions("orders", 2).unwrap();
    wait_for_failed_attempt(&connector);
    (connector, reading, stranger)
}

#[test]
fn a_start_that_fails_returns_and_can_be_repeated() {
    // The thread of the automatic commit heeded only the end of the connector, and the call that gave up the start
    // waited for that thread for ever.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    let stranger = cluster.zookeeper().local_session();
    let taken = "/consumers/g/owners/orders/1";
    stranger
        .create_with_parents(taken, b"g_stranger-0", CreateMode::Ephemeral)
        .unwrap();
    let builder = config(&cluster, "g").auto_commit_enable(true);
    let connector = Arc::new(connect(builder));
    let (tell, told) = mpsc::channel();
    let starting = Arc::clone(&connector);
    std::thread::spawn(move || tell.send(starting.create_message_streams([("orders", 1)])));
    let outcome = told.recv_timeout(Duration::from_secs(30));
    match outcome.expect("the start ends") {
        Err(Error::RebalanceFailed { .. }) => (),
        other => panic!("{:?}", other.map(|streams| streams.len())),
    }
    stranger.close();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(2, 10);
    reading.assert_once_in_order(2, 10);
}

#[test]
fn a_shutdown_amid_changes_of_its_topic_returns() {
    // D5: in the original the shutdown and the event of the topic took their locks in opposite orders.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    for round in 0..10 {
        let connector = connect(config(&cluster, "g"));
        let _reading = Reading::start(streams(&connector, "orders", 1));
        for more in 0..=round % 3 {
            cluster
                .add_partitions("orders", 2 + 3 * round + more)
                .unwrap();
        }
        let begun = Instant::now();
        connector.shutdown();
        assert!(begun.elapsed() < Duration::from_secs(5), "a slow shutdown");
    }
}

#[test]
fn a_shutdown_while_the_topics_of_a_filter_are_read_returns() {
    // D5 (KAFKA-4409): the event of new topics held its lock while it read them, and went on to that of the rebalance,
    // which the shutdown held while it waited for the first.
    let cluster = quick_cluster().topic("orders-0", 1, 1).start().unwrap();
    let delay = Duration::from_millis(60);
    for round in 0..10_u32 {
        let connector = connect(config(&cluster, "g"));
        let filter = TopicFilter::whitelist("orders-.*").unwrap();
        let streams = connector.create_message_streams_by_filter(&filter, 1);
        let _reading = Reading::start(streams.unwrap());
        cluster.zookeeper().delay(delay);
        let topic = format!("orders-{}", round + 1);
        cluster.create_topic(&topic, 1, 1).unwrap();
        // In another moment each time: before the event, while the topics are read, and behind that.
        std::thread::sleep(delay / 3 * round);
        assert_shuts_down(connector);
        cluster.zookeeper().delay(Duration::ZERO);
    }
}

#[test]
fn a_shutdown_in_the_pause_between_two_attempts_does_not_wait_for_the_next_one() {
    // D7: the original came back from a shutdown only when all attempts were through, each after its pause.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let (connector, _reading, _stranger) = in_a_long_pause(&cluster);
    assert_shuts_down(connector);
}

#[test]
fn a_rebalance_that_fails_in_a_new_session_is_tried_again() {
    // D11: the original wrote the error into its log, and the member owned nothing from then on, without a word.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    produce_numbers(&cluster, "orders", 1, 0..10);
    reading.until_numbers(1, 10);
    let zookeeper = cluster.zookeeper();
    let stranger = zookeeper.local_session();
    let id = format!("/consumers/g/ids/{}", connector.member_id());
    let session = stranger.exists(&id).unwrap().unwrap().ephemeral_owner;
    zookeeper.refuse_connections(true).unwrap();
    assert!(zookeeper.expire_session(session.unwrap()));
    // Somebody is faster.
    let owner = "/consumers/g/owners/orders/0";
    stranger
        .create(owner, b"g_stranger-0", CreateMode::Ephemeral)
        .unwrap();
    zookeeper.refuse_connections(false).unwrap();
    wait_for_failed_attempt(&connector);
    stranger.close();
    produce_numbers(&cluster, "orders", 1, 10..20);
    reading.until_numbers(1, 20);
}

#[test]
fn a_rebalance_that_meets_an_error_of_zookeeper_is_tried_again() {
    // D9: in the original such an error left the loop of the attempts, and the member waited, owning nothing, for the
    // next change of the group.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let asked = [("bills", 1), ("orders", 1)];
    let streams = connector.create_message_streams(asked).unwrap();
    let mut reading = Reading::start(streams.into_values().flatten().collect());
    produce_numbers(&cluster, "orders", 1, 0..10);
    reading.until_numbers(1, 10);
    let stranger = cluster.zookeeper().local_session();
    // Where ZooKeeper allows no nodes below.
    stranger
        .create("/consumers/g/owners/bills", b"", CreateMode::Ephemeral)
        .unwrap();
    cluster.create_topic("bills", 1, 1).unwrap();
    wait_for_failed_attempt(&connector);
    stranger.close();
    wait_until("everything is owned", || {
        connector.owned_partitions().len() == 2
    });
}

#[test]
fn partitions_that_were_claimed_before_an_unexpected_error_are_given_back() {
    // D18: the original forgot the owner nodes that it had made before the error, and nobody else could have the
    // partitions until its process ended.
    let cluster = quick_cluster()
        .topic("orders", 2, 1)
        .topic("bills", 1, 1)
        .start()
        .unwrap();
    let stranger = cluster.zookeeper().local_session();
    // Where ZooKeeper allows no nodes below.
    stranger
        .create_with_parents("/consumers/g/owners/bills", b"", CreateMode::Ephemeral)
        .unwrap();
    let member = |id| {
        connect(
            config(&cluster, "g")
                .consumer_id(id)
                .rebalance_max_retries(50),
        )
    };
    let (first, second) = (member("a"), member("b"));
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| {
            let streams = first.create_message_streams([("bills", 1), ("orders", 1)]);
            streams.map(drop)
        });
        wait_for_failed_attempt(&first);
        let by_second = second.create_message_streams([("orders", 1)]);
        assert!(by_second.is_ok(), "{:?}", by_second.map(drop));
        assert_eq!(
            second.owned_partitions(),
            [TopicPartition::new("orders", 1)]
        );
        stranger.close();
        starting.join().unwrap().unwrap();
    });
    assert_eq!(first.owned_partitions().len(), 2);
}

#[test]
fn a_shutdown_without_zookeeper_ends_and_leaves_no_member_behind() {
    // D20: in the original a last commit that failed kept the session open, and with it the nodes of the member.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    produce_numbers(&cluster, "orders", 2, 0..10);
    reading.until_numbers(2, 10);
    cluster.zookeeper().stop();
    let begun = Instant::now();
    connector.shutdown();
    assert!(begun.elapsed() < Duration::from_secs(8), "a slow shutdown");
    cluster.zookeeper().restart().unwrap();
    let session = cluster.zookeeper().local_session();
    wait_until("the nodes of the member are gone", || {
        let ids = session.children("/consumers/g/ids").unwrap();
        let owners = session.children("/consumers/g/owners/orders").unwrap();
        ids.is_empty() && owners.is_empty()
    });
}

#[test]
fn a_change_during_a_long_pause_between_attempts_is_looked_at_at_once() {
    // D12: the original handled events one after the other, and each waited for all attempts of the rebalance before it.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let (connector, mut reading, stranger) = in_a_long_pause(&cluster);
    stranger.close();
    cluster.add_partitions("orders", 3).unwrap();
    produce_numbers(&cluster, "orders", 3, 10..20);
    let deadline = Instant::now() + Duration::from_secs(30);
    wait_until("all partitions are owned", || {
        assert!(Instant::now() < deadline, "the pause was waited out");
        connector.owned_partitions().len() == 3
    });
    reading.until("all partitions are read", |reading| {
        let counts: Vec<usize> = reading.seen.values().map(Vec::len).collect();
        counts == [20, 10, 10]
    });
}

#[test]
fn a_commit_and_a_shutdown_end_while_zookeeper_hangs() {
    // D83: the original's waited for as long as ZooKeeper took to come back.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let settings = config(&cluster, "g").offsets_commit_max_retries(0);
    let connector = Arc::new(connect(settings.auto_commit_enable(false)));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    next(&mut stream).unwrap();
    stream.mark_consumed();
    cluster.zookeeper().silence(true);
    // Not in a scope, which would wait for what never ends.
    let (tell, told) = mpsc::channel();
    let used = Arc::clone(&connector);
    std::thread::spawn(move || {
        tell.send(used.commit_offsets().map(drop)).unwrap();
        used.shutdown();
        tell.send(Ok(())).unwrap();
    });
    let committed = told.recv_timeout(Duration::from_secs(30));
    assert!(committed.expect("the commit ends").is_err());
    let shut_down = told.recv_timeout(Duration::from_secs(8));
    assert!(shut_down.expect("the shutdown ends").is_ok());
    assert_eq!(connector.state(), ConnectorState::ShutDown);
}
