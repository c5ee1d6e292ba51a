//! Several members of one group, and what becomes of their sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::CreateMode;
use kafka_zk_consumer::embedded::EmbeddedCluster;

use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::wait_until;

fn shares(members: &[&ConsumerConnector]) -> Vec<usize> {
    let owned = members.iter().map(|member| member.owned_partitions().len());
    owned.collect()
}

/// The session that holds the member's node.
fn session_of(cluster: &EmbeddedCluster, group: &str, member: &ConsumerConnector) -> Option<i64> {
    let session = cluster.zookeeper().local_session();
    let path = format!("/consumers/{group}/ids/{}", member.member_id());
    session.exists(&path).unwrap()?.ephemeral_owner
}

#[test]
fn two_members_share_the_partitions_and_one_that_leaves_gives_its_share_back() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 6, 2)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 6, 0..10);
    let first = connect(config(&cluster, "g"));
    let mut by_first = Reading::start(streams(&first, "orders", 1));
    by_first.until_numbers(6, 10);

    let second = connect(config(&cluster, "g"));
    let mut by_second = Reading::start(streams(&second, "orders", 1));
    wait_until("both have their share", || {
        shares(&[&first, &second]) == [3, 3]
    });
    let all: BTreeSet<TopicPartition> = [&first, &second]
        .iter()
        .flat_map(|member| member.owned_partitions())
        .collect();
    assert_eq!(all.len(), 6, "no partition has two owners");
    produce_numbers(&cluster, "orders", 6, 10..20);
    let has_share = |reading: &Reading| {
        let new = reading.seen.values().flatten().filter(|value| {
            let number: i32 = value.rsplit('/').next().unwrap().parse().unwrap();
            number >= 10
        });
        new.collect::<BTreeSet<_>>().len() >= 30
    };
    by_first.until("the first reads its share", has_share);
    by_second.until("the second reads its share", has_share);

    second.shutdown();
    wait_until("the first has all again", || shares(&[&first]) == [6]);
    produce_numbers(&cluster, "orders", 6, 20..30);
    by_first.until("all new messages come to the first", |reading| {
        reading.seen.values().all(|seen| {
            let numbers = seen.iter().map(|value| value.rsplit('/').next().unwrap());
            numbers
                .filter(|number| number.len() == 2 && number.starts_with('2'))
                .count()
                >= 10
        })
    });
}

#[test]
fn a_member_whose_session_expires_comes_back_and_loses_nothing() {
    // D11, D63: an error while coming back was only logged, and the member sat there owning nothing.
    let cluster = quick_cluster().topic("orders", 3, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut reading = Reading::start(streams(&connector, "orders", 2));
    produce_numbers(&cluster, "orders", 3, 0..10);
    reading.until_numbers(3, 10);
    for round in 1..3 {
        let expired = session_of(&cluster, "g", &connector).unwrap();
        assert!(cluster.zookeeper().expire_session(expired));
        wait_until("the member is registered under a new session", || {
            session_of(&cluster, "g", &connector).is_some_and(|session| session != expired)
        });
        produce_numbers(&cluster, "orders", 3, round * 10..round * 10 + 10);
        reading.until_numbers(3, round * 10 + 10);
    }
    reading.assert_nothing_lost(3, 30);
}

#[test]
fn a_zookeeper_that_goes_away_for_a_while_stops_nobody_who_has_partitions() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    produce_numbers(&cluster, "orders", 2, 0..10);
    reading.until_numbers(2, 10);
    cluster.zookeeper().stop();
    produce_numbers(&cluster, "orders", 2, 10..20);
    reading.until_numbers(2, 20);
    cluster.zookeeper().restart().unwrap();
    produce_numbers(&cluster, "orders", 2, 20..30);
    reading.until_numbers(2, 30);
    reading.assert_once_in_order(2, 30);
    // ZooKeeper learns late what happened meanwhile.
    cluster.create_topic("later", 1, 1).unwrap();
    let session = cluster.zookeeper().local_session();
    assert!(session.exists("/brokers/topics/later").unwrap().is_some());
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
fn a_member_goes_on_trying_to_get_the_partition_of_somebody_else() {
    // D8: after as many attempts as configured, the original waited for the next change in the group, and owned nothing.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let connector = connect(config(&cluster, "g").rebalance_max_retries(2));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    let stranger = cluster.zookeeper().local_session();
    let taken = "/consumers/g/owners/orders/1";
    stranger
        .create(taken, b"g_stranger-0", CreateMode::Ephemeral)
        .unwrap();
    cluster.add_partitions("orders", 2).unwrap();
    wait_until("more attempts than configured have failed", || {
        let event = connector.events().try_next();
        matches!(event, Some(Event::RebalanceAttemptFailed { attempt, .. }) if attempt > 3)
    });
    stranger.close();
    produce_numbers(&cluster, "orders", 2, 0..10);
    reading.until_numbers(2, 10);
    assert_eq!(shares(&[&connector]), [2]);
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
fn a_zookeeper_that_hangs_for_longer_than_a_session_stops_the_delivery_until_it_is_back() {
    // D9, D83: the original waited without end, and an error on the way back ended its rebalances.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    let quick = config(&cluster, "g").zookeeper_session_timeout(Duration::from_secs(1));
    let connector = connect(quick);
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    produce_numbers(&cluster, "orders", 2, 0..10);
    reading.until_numbers(2, 10);
    let lost = session_of(&cluster, "g", &connector).unwrap();
    cluster.zookeeper().silence(true);
    wait_until("the member gives its partitions up", || {
        connector.owned_partitions().is_empty()
    });
    wait_until("the session is over", || {
        let sessions = cluster.zookeeper().sessions();
        sessions.iter().all(|session| session.id != lost)
    });
    produce_numbers(&cluster, "orders", 2, 10..20);
    cluster.zookeeper().silence(false);
    reading.until_numbers(2, 20);
    reading.assert_nothing_lost(2, 20);
    assert_eq!(shares(&[&connector]), [2]);
}
