//! What is stored for a group, and what is not.

use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::ConnectionFault;
use kafka_zk_consumer::embedded::CreateMode;
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
pub(crate) fn stored(cluster: &EmbeddedCluster, partition: i32) -> Option<String> {
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
fn a_member_that_has_lost_a_partition_does_not_overwrite_the_progress_of_the_next_owner() {
    // The original did: it wrote whatever it had, until it noticed, which it did only when a watch told it.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..60);
    let connector = connect(config(&cluster, "g").auto_commit_enable(false));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    next(&mut stream).unwrap();
    stream.mark_consumed();
    connector.commit_offsets().unwrap();
    let next_owner = cluster.zookeeper().local_session();
    let node = "/consumers/g/owners/orders/0";
    next_owner.delete(node, None).unwrap();
    next_owner
        .create(node, b"g_other-0", CreateMode::Ephemeral)
        .unwrap();
    let offset = "/consumers/g/offsets/orders/0";
    next_owner.set(offset, b"50", None).unwrap();

    next(&mut stream).unwrap();
    stream.mark_consumed();
    let refused = connector.commit_offsets().unwrap_err();
    let Error::CommitFailed { failed, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(
        matches!(failed[0].1, Error::OffsetFenced { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("g_other-0"), "{refused}");
    assert_eq!(stored(&cluster, 0).as_deref(), Some("50"));

    // It notices soon, gives the partition up, and takes it back where the other one has left it.
    wait_until("it has given the partition up", || {
        connector.owned_partitions().is_empty()
    });
    assert_eq!(stored(&cluster, 0).as_deref(), Some("50"));
    next_owner.close();
    assert_eq!(next(&mut stream).unwrap().offset(), 50);
}

#[test]
fn an_offset_that_a_tool_has_stored_for_an_owned_partition_is_overwritten_as_in_the_original_and_told()
 {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g").auto_commit_enable(false));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    let tool = cluster.zookeeper().local_session();
    let node = "/consumers/g/offsets/orders/0";
    let mut commit_one_more = || {
        next(&mut stream).unwrap();
        stream.mark_consumed();
        connector.commit_offsets().unwrap();
    };
    commit_one_more();
    tool.set(node, b"0", None).unwrap();
    commit_one_more();
    assert_eq!(stored(&cluster, 0).as_deref(), Some("2"));
    tool.delete(node, None).unwrap();
    commit_one_more();
    assert_eq!(stored(&cluster, 0).as_deref(), Some("3"));

    // By the application itself it is meant, and nothing is told.
    let of = TopicPartition::new("orders", 0);
    connector.commit_offsets_for([(of.clone(), 7)]).unwrap();
    assert_eq!(stored(&cluster, 0).as_deref(), Some("7"));
    connector.commit_offsets().unwrap();
    assert_eq!(stored(&cluster, 0).as_deref(), Some("3"));
    let events = std::iter::from_fn(|| connector.events().try_next());
    let told: Vec<Event> = events
        .filter(|event| matches!(event, Event::OffsetOverwritten { .. }))
        .collect();
    let overwritten = |found, stored| Event::OffsetOverwritten {
        topic_partition: of.clone(),
        found,
        stored,
    };
    assert_eq!(told, [overwritten(Some(0), 2), overwritten(None, 3)]);
    assert_eq!(connector.stats().offsets_overwritten, 2);
}

#[test]
fn an_offset_that_stands_still_is_not_written_again() {
    // D68, KAFKA-987: each commit wrote all of them.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g").auto_commit_enable(false));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    for count in 1..=3 {
        next(&mut stream).unwrap();
        stream.mark_consumed();
        for _ in 0..3 {
            connector.commit_offsets().unwrap();
        }
        assert_eq!(connector.stats().zookeeper_commits, count);
    }
    connector.shutdown();
    let connector = connect(config(&cluster, "g").auto_commit_enable(false));
    let _streams = streams(&connector, "orders", 1);
    connector.commit_offsets().unwrap();
    assert_eq!(connector.stats().zookeeper_commits, 0, "as it was read");
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
