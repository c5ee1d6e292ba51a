//! What is stored for a group, and what is not.

use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::ConnectionFault;
use kafka_zk_consumer::embedded::EmbeddedCluster;

use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::wait_until;

/// Of a partition of `orders` for the group `g`.
fn stored(cluster: &EmbeddedCluster, partition: i32) -> Option<String> {
    let session = cluster.zookeeper().local_session();
    let path = format!("/consumers/g/offsets/orders/{partition}");
    let (data, _) = session.get(&path).ok()?;
    Some(String::from_utf8(data).unwrap())
}

#[test]
fn a_position_that_is_not_known_yet_is_not_stored() {
    // D38: the original stored -1 for it.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    cluster.disturb(0, ConnectionFault::Silence).unwrap();
    let connector = connect(config(&cluster, "g").auto_commit_enable(true));
    let _streams = streams(&connector, "orders", 1);
    assert_eq!(connector.owned_partitions().len(), 2);
    assert_eq!(connector.commit_offsets().unwrap(), []);
    connector.shutdown();
    assert_eq!(stored(&cluster, 0), None);
    assert_eq!(stored(&cluster, 1), None);
}

#[test]
fn a_commit_that_fails_is_told_to_who_asked_for_it() {
    // D42: the original only logged it.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..5);
    let by_hand = config(&cluster, "g")
        .auto_commit_enable(false)
        .offsets_commit_max_retries(0);
    let connector = connect(by_hand);
    let mut stream = streams(&connector, "orders", 1).remove(0);
    next(&mut stream).unwrap();
    stream.mark_consumed();
    cluster.zookeeper().stop();
    let begun = Instant::now();
    connector.commit_offsets().unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(20));
    cluster.zookeeper().restart().unwrap();
    assert_eq!(stored(&cluster, 0), None);
    wait_until("the partition is there again, and can be committed", || {
        let _ = stream.try_next();
        stream.mark_consumed();
        connector.commit_offsets().is_ok_and(|all| !all.is_empty())
    });
    assert!(stored(&cluster, 0).is_some());
}

#[test]
fn an_offset_of_0_is_stored_like_any_other() {
    // D60: the original compared it with 0 where nothing was known to be stored, and left it out.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    let connector = connect(config(&cluster, "g").auto_commit_enable(false));
    let of = TopicPartition::new("orders", 0);
    let committed = connector.commit_offsets_for([(of.clone(), 0)]).unwrap();
    assert_eq!(committed, [(of, 0)]);
    assert_eq!(stored(&cluster, 0).as_deref(), Some("0"));
    // The same of a first position.
    let _streams = streams(&connector, "orders", 1);
    wait_until("the first positions are committed", || {
        connector.commit_offsets().unwrap().len() == 2
    });
    assert_eq!(stored(&cluster, 1).as_deref(), Some("0"));
}

#[test]
fn nothing_is_committed_unasked_where_automatic_commits_are_off() {
    // D67: the original committed in a rebalance all the same.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let by_hand = config(&cluster, "g").auto_commit_enable(false);
    let first = connect(by_hand.clone());
    let mut by_first = Reading::start(streams(&first, "orders", 1));
    by_first.until_numbers(2, 10);
    let second = connect(by_hand.clone());
    let _by_second = Reading::start(streams(&second, "orders", 1));
    wait_until("both have their share", || {
        [&first, &second].map(|member| member.owned_partitions().len()) == [1, 1]
    });
    first.shutdown();
    second.shutdown();
    assert_eq!(stored(&cluster, 0), None);
    assert_eq!(stored(&cluster, 1), None);
    let third = connect(by_hand);
    let mut by_third = Reading::start(streams(&third, "orders", 1));
    by_third.until_numbers(2, 10);
}
