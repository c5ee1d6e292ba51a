//! Partitions that are consumed without the group.

use std::time::Duration;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;

use crate::control::orders;
use crate::control::stored;
use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::numbered;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::value;
use crate::reading::wait_until;

#[test]
fn chosen_partitions_are_consumed_without_the_group_and_outlive_a_leader_and_a_session() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 4, 2)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 4, 0..10);
    let connector = connect(config(&cluster, "g"));
    let streams = connector
        .create_message_streams_for([orders(0), orders(1), orders(2)], 2)
        .unwrap();
    assert_eq!(streams.len(), 2);
    assert_eq!(
        connector.owned_partitions(),
        [orders(0), orders(1), orders(2)]
    );
    let mut reading = Reading::start(streams);
    reading.until_numbers(3, 10);
    cluster.kill(0).unwrap();
    produce_numbers(&cluster, "orders", 4, 10..20);
    reading.until_numbers(3, 20);
    cluster.restart(0).unwrap();

    let sessions = cluster.zookeeper().sessions();
    for session in &sessions {
        // Those of the brokers come back as well.
        cluster.zookeeper().expire_session(session.id);
    }
    wait_until("the session is over", || {
        matches!(connector.events().try_next(), Some(Event::SessionExpired))
    });
    produce_numbers(&cluster, "orders", 4, 20..30);
    reading.until_numbers(3, 30);
    reading.assert_once_in_order(3, 30);
    assert!(!reading.seen.contains_key(&3), "nobody chose it");
    wait_until("the new session commits", || stored(&cluster, 2).is_some());
    wait_until("it goes on", || {
        let consuming = ConnectorState::Consuming {
            generation: 1,
            partitions: 3,
        };
        connector.state() == consuming
    });
    let session = cluster.zookeeper().local_session();
    for group_node in ["/consumers/g/ids", "/consumers/g/owners"] {
        assert!(
            session.exists(group_node).unwrap().is_none(),
            "{group_node}"
        );
    }
    assert_eq!(connector.stats().rebalances, 0);
    connector.shutdown();
    assert_eq!(connector.state(), ConnectorState::ShutDown);
}

#[test]
fn chosen_partitions_start_at_the_stored_offsets_or_where_they_are_sought() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let first = connect(config(&cluster, "g").auto_commit_enable(false));
    first.commit_offsets_for([(orders(0), 6)]).unwrap();
    let mut stream = first
        .create_message_streams_for([orders(0)], 1)
        .unwrap()
        .remove(0);
    assert_eq!(value(&next(&mut stream).unwrap()), numbered(0, 6));
    next(&mut stream).unwrap();
    assert_eq!(first.commit_offsets().unwrap(), [(orders(0), 7)]);
    assert_eq!(stored(&cluster, 0), Some(7));
    first.shutdown();
    assert!(stream.next().is_none());

    let second = connect(config(&cluster, "g"));
    let mut streams = second
        .create_message_streams_for([orders(0), orders(1)], 3)
        .unwrap();
    second.seek(&orders(1), 8).unwrap();
    assert_eq!(value(&next(&mut streams[0]).unwrap()), numbered(0, 7));
    assert_eq!(value(&next(&mut streams[1]).unwrap()), numbered(1, 8));
    let nothing = streams[2].next_timeout(Duration::from_millis(1)).unwrap();
    nothing.unwrap_err();
}

#[test]
fn a_partition_that_does_not_exist_cannot_be_chosen_and_the_choice_can_be_repeated_once() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..1);
    let connector = connect(config(&cluster, "g"));
    let missing = connector.create_message_streams_for([orders(0), orders(2)], 1);
    let error = missing.unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid partitions: orders/2 does not exist"
    );
    assert!(connector.owned_partitions().is_empty());
    let mut stream = connector
        .create_message_streams_for([orders(1)], 1)
        .unwrap()
        .remove(0);
    assert_eq!(value(&next(&mut stream).unwrap()), numbered(1, 0));
    let again = connector.create_message_streams_for([orders(0)], 1);
    assert!(matches!(again, Err(Error::MessageStreamsExist)));
    let joined = connector.create_message_streams([("orders", 1)]);
    assert!(matches!(joined, Err(Error::MessageStreamsExist)));
}

#[test]
fn an_offset_of_a_chosen_partition_that_stands_still_is_not_written_again_unless_it_is_given() {
    // D68, KAFKA-987: each commit wrote the offsets of all chosen partitions.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(config(&cluster, "g").auto_commit_enable(false));
    let mut streams = connector
        .create_message_streams_for([orders(0), orders(1)], 2)
        .unwrap();
    let mut moving = streams.remove(0);
    for count in 1..=3 {
        next(&mut moving).unwrap();
        moving.mark_consumed();
        for _ in 0..3 {
            let committed = connector.commit_offsets().unwrap();
            assert_eq!(committed[0], (orders(0), count));
        }
    }
    let writes = || connector.stats().zookeeper_commits;
    let before = writes();
    assert!(
        before <= 4,
        "{before}: each once, and the other when its start was known"
    );
    connector.commit_offsets_for([(orders(0), 3)]).unwrap();
    assert_eq!((writes(), stored(&cluster, 0)), (before + 1, Some(3)));
    connector.commit_offsets_for([(orders(0), 1)]).unwrap();
    connector.commit_offsets().unwrap();
    assert_eq!(stored(&cluster, 0), Some(3), "written over what was given");
}
