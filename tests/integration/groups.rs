//! Several members of one group, and what becomes of their sessions.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::embedded::CreateMode;

use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::wait_until;

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
    let patient = config(&cluster, "g").rebalance_backoff(Duration::from_secs(600));
    let connector = connect(patient);
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    produce_numbers(&cluster, "orders", 1, 0..10);
    reading.until_numbers(1, 10);
    let stranger = cluster.zookeeper().local_session();
    let taken = "/consumers/g/owners/orders/1";
    stranger
        .create(taken, b"g_stranger-0", CreateMode::Ephemeral)
        .unwrap();
    cluster.add_partitions("orders", 2).unwrap();
    wait_until("an attempt has failed", || {
        let event = connector.events().try_next();
        matches!(event, Some(Event::RebalanceAttemptFailed { .. }))
    });
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
