//! Whole consumers against brokers that fail in every way.

use std::iter;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ErrorCode;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::AnswerFault;
use kafka_zk_consumer::embedded::Api;
use kafka_zk_consumer::embedded::ConnectionFault;
use kafka_zk_consumer::embedded::CreateMode;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::protocol::MessageSetBuilder;
use kafka_zk_consumer::protocol::RequiredAcks;

use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::numbered;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::value;
use crate::reading::wait_until;

/// Reads while `disturb` is done to broker 0, and asserts that every message comes once and in order all the same.
fn assert_undisturbed(disturb: impl FnOnce(&EmbeddedCluster)) {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 4, 2)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 4, 0..10);
    let connector = connect(config(&cluster, "g").socket_timeout(Duration::from_millis(500)));
    let mut reading = Reading::start(streams(&connector, "orders", 2));
    reading.until_numbers(4, 10);
    disturb(&cluster);
    produce_numbers(&cluster, "orders", 4, 10..30);
    reading.until_numbers(4, 30);
    reading.assert_once_in_order(4, 30);
    let begun = Instant::now();
    connector.shutdown();
    assert!(begun.elapsed() < Duration::from_secs(5), "a slow shutdown");
}

/// Spoils one answer after the other to a kind of request, and waits until each has gone out.
fn spoil(cluster: &EmbeddedCluster, api: Api, faults: &[AnswerFault]) {
    for fault in faults {
        cluster.spoil_answer(0, api, *fault).unwrap();
        wait_until("the spoilt answer has gone out", || {
            cluster.answers_to_spoil(0).unwrap() == 0
        });
    }
}

#[test]
fn a_fetch_answer_that_ends_in_the_middle_loses_nothing() {
    assert_undisturbed(|cluster| {
        spoil(cluster, Api::Fetch, &[AnswerFault::HalfFrame; 3]);
    });
}

#[test]
fn a_fetch_answer_to_another_request_is_not_taken() {
    // The client hangs up, as its own tests show; the consumer loses nothing by it.
    assert_undisturbed(|cluster| {
        spoil(cluster, Api::Fetch, &[AnswerFault::WrongCorrelationId; 3]);
    });
}

#[test]
fn a_fetch_answer_that_lies_about_its_length_loses_nothing() {
    assert_undisturbed(|cluster| {
        let lies = [-1, 0, 3, 20, 1 << 20, i32::MAX].map(AnswerFault::LyingLength);
        spoil(cluster, Api::Fetch, &lies);
    });
}

#[test]
fn fetches_that_are_refused_are_tried_again() {
    // D24, D26: the original's fetcher died, or dropped partitions.
    assert_undisturbed(|cluster| {
        let codes = [
            ErrorCode::UnknownServerError,
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::LeaderNotAvailable,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::ReplicaNotAvailable,
            ErrorCode::Other(4242),
        ];
        spoil(cluster, Api::Fetch, &codes.map(AnswerFault::Error));
    });
}

#[test]
fn a_connection_that_ends_instead_of_an_answer_loses_nothing() {
    assert_undisturbed(|cluster| {
        spoil(cluster, Api::Fetch, &[AnswerFault::NoAnswer; 3]);
        cluster.cut_connections(0).unwrap();
    });
}

#[test]
fn answers_that_are_late_are_waited_for() {
    assert_undisturbed(|cluster| {
        let delay = ConnectionFault::Delay(Duration::from_millis(150));
        cluster.disturb(0, delay).unwrap();
    });
}

#[test]
fn a_broker_that_falls_silent_is_left_and_come_back_to() {
    assert_undisturbed(|cluster| {
        cluster.disturb(0, ConnectionFault::Silence).unwrap();
        // Longer than the socket timeout, so that fetches are given up.
        std::thread::sleep(Duration::from_millis(800));
        cluster.heal(0).unwrap();
    });
}

#[test]
fn a_broker_that_refuses_connections_is_come_back_to() {
    assert_undisturbed(|cluster| {
        cluster.disturb(0, ConnectionFault::Refuse).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        cluster.heal(0).unwrap();
    });
}

#[test]
fn a_shutdown_does_not_wait_for_a_silent_broker() {
    // D76, D77: the original stopped one fetcher after the other, each when its socket timed out.
    let cluster = quick_cluster()
        .brokers(3)
        .topic("orders", 6, 1)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 6, 0..5);
    let connector = connect(config(&cluster, "g").socket_timeout(Duration::from_secs(30)));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(6, 5);
    for broker in 0..3 {
        cluster.disturb(broker, ConnectionFault::Silence).unwrap();
    }
    let begun = Instant::now();
    connector.shutdown();
    assert!(begun.elapsed() < Duration::from_secs(3));
}

/// A member that meets these answers, one after the other, when it starts reads everything all the same.
fn assert_start_is_undisturbed(api: Api, faults: &[AnswerFault]) {
    let cluster = quick_cluster().topic("orders", 4, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 4, 0..10);
    for fault in faults {
        cluster.spoil_answer(0, api, *fault).unwrap();
    }
    let connector = connect(config(&cluster, "g"));
    let mut reading = Reading::start(streams(&connector, "orders", 2));
    reading.until_numbers(4, 10);
    assert_eq!(cluster.answers_to_spoil(0).unwrap(), 0);
    reading.assert_once_in_order(4, 10);
}

#[test]
fn a_first_position_that_is_refused_is_looked_up_again() {
    // D71: the original gave the rebalance up when the first position could not be had.
    let faults = [
        AnswerFault::Error(ErrorCode::UnknownServerError),
        AnswerFault::Error(ErrorCode::UnknownTopicOrPartition),
        AnswerFault::Error(ErrorCode::NotLeaderOrFollower),
        AnswerFault::HalfFrame,
        AnswerFault::WrongCorrelationId,
        AnswerFault::LyingLength(-7),
        AnswerFault::NoAnswer,
    ];
    assert_start_is_undisturbed(Api::ListOffsets, &faults);
}

#[test]
fn leaders_that_nobody_tells_are_asked_for_again() {
    // D27, D29: metadata that failed or could not be decoded stalled everything.
    let faults = [
        AnswerFault::Error(ErrorCode::UnknownServerError),
        AnswerFault::Error(ErrorCode::LeaderNotAvailable),
        AnswerFault::Error(ErrorCode::InvalidTopic),
        AnswerFault::HalfFrame,
        AnswerFault::WrongCorrelationId,
        AnswerFault::LyingLength(7),
        AnswerFault::NoAnswer,
    ];
    assert_start_is_undisturbed(Api::Metadata, &faults);
}

#[test]
fn a_leader_that_is_killed_and_comes_back_loses_nothing() {
    // D3, D4, D10: the original lost partitions, or itself, when a broker died.
    let cluster = quick_cluster()
        .brokers(3)
        .topic("orders", 6, 3)
        .start()
        .unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut reading = Reading::start(streams(&connector, "orders", 3));
    produce_numbers(&cluster, "orders", 6, 0..10);
    for round in 1..4 {
        let victim = round % 3;
        cluster.kill(victim).unwrap();
        produce_numbers(&cluster, "orders", 6, round * 10..round * 10 + 5);
        match round {
            1 => cluster.restart(victim).unwrap(),
            _ => cluster.restart_on_new_port(victim).unwrap(),
        }
        produce_numbers(&cluster, "orders", 6, round * 10 + 5..round * 10 + 10);
        reading.until_numbers(6, round * 10 + 10);
    }
    reading.assert_nothing_lost(6, 40);
}

#[test]
fn a_position_above_the_high_watermark_is_kept() {
    // A new leader that has not caught up answers -1; a reset would repeat or lose the log.
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 1, 2)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let first = connect(config(&cluster, "g"));
    let mut reading = Reading::start(streams(&first, "orders", 1));
    reading.until_numbers(1, 10);
    cluster.set_replicating(1, false).unwrap();
    let mut set = MessageSetBuilder::new();
    for number in 10..15 {
        let value = numbered(0, number);
        set.message(0, None, Some(value.as_bytes())).unwrap();
    }
    let of = TopicPartition::new("orders", 0);
    let set = set.build().unwrap();
    cluster
        .produce_set(&of, &set, RequiredAcks::Leader)
        .unwrap();
    cluster.lower_high_watermark("orders", 0, 5).unwrap();
    wait_until("the fetch from above the high watermark fails", || {
        let event = first.events().try_next();
        assert!(!matches!(event, Some(Event::OffsetReset { .. })));
        matches!(event, Some(Event::FetchFailed { .. }))
    });
    cluster.set_replicating(1, true).unwrap();
    reading.until_numbers(1, 15);
    reading.assert_once_in_order(1, 15);
}

#[test]
fn a_corrupt_message_is_told_and_the_stream_goes_on() {
    // D45, D49: the original's stream was dead afterwards, or fetched again and again without a pause.
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 1, 2)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    cluster.corrupt("orders", 0, 4).unwrap();
    cluster.corrupt("orders", 0, 7).unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    let of = TopicPartition::new("orders", 0);
    for number in 0..4 {
        assert_eq!(value(&next(&mut stream).unwrap()), numbered(0, number));
    }
    match next(&mut stream).unwrap_err() {
        StreamError::Corrupt { offset: 4, .. } => (),
        other => panic!("{other}"),
    }
    assert_eq!(stream.skip_bad_message(&of), Some(4));
    for number in 5..7 {
        assert_eq!(value(&next(&mut stream).unwrap()), numbered(0, number));
    }
    assert!(next(&mut stream).is_err());
    // The other replica is sound.
    cluster.move_leader("orders", 0, 1).unwrap();
    stream.seek(&of, 7).unwrap();
    for number in 7..10 {
        assert_eq!(value(&next(&mut stream).unwrap()), numbered(0, number));
    }
}

#[test]
fn a_message_larger_than_the_fetch_size_is_told_and_the_stream_goes_on() {
    // D47: the original put the same marker into the queue again and again.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    cluster.produce("orders", 0, ["first"]).unwrap();
    cluster.produce("orders", 0, ["x".repeat(5000)]).unwrap();
    cluster.produce("orders", 0, ["last"]).unwrap();
    let connector = connect(config(&cluster, "g").fetch_message_max_bytes(1000));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    assert_eq!(value(&next(&mut stream).unwrap()), "first");
    match next(&mut stream).unwrap_err() {
        StreamError::TooLarge {
            offset: 1, needed, ..
        } => assert_eq!(needed, Some(5026)),
        other => panic!("{other}"),
    }
    let of = TopicPartition::new("orders", 0);
    assert_eq!(stream.skip_bad_message(&of), Some(1));
    assert_eq!(value(&next(&mut stream).unwrap()), "last");
}

#[test]
fn a_broker_that_comes_and_goes_all_the_time_fails_no_rebalance() {
    // D10: the original listed the brokers and then read each; one that was gone by then failed the rebalance.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let session = cluster.zookeeper().local_session();
            let (path, data) = (
                "/brokers/ids/77",
                br#"{"version":1,"host":"127.0.0.1","port":1}"#,
            );
            while !is_over.load(Ordering::SeqCst) {
                session.create(path, data, CreateMode::Ephemeral).unwrap();
                session.delete(path, None).unwrap();
            }
        });
        for round in 0..30 {
            let connector = connect(config(&cluster, &format!("g{round}")));
            let mut reading = Reading::start(streams(&connector, "orders", 1));
            reading.until_numbers(2, 10);
            let failed = iter::from_fn(|| connector.events().try_next())
                .find(|event| matches!(event, Event::RebalanceAttemptFailed { .. }));
            is_over.fetch_or(failed.is_some(), Ordering::SeqCst);
            assert_eq!(failed, None, "in round {round}");
            connector.shutdown();
            reading.assert_once_in_order(2, 10);
        }
        is_over.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_broker_that_is_slow_to_tell_leaders_stalls_nobody_whose_leader_is_known() {
    // D27: the original's finder held the lock that the fetchers needed while it waited for metadata.
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 2, 1)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(config(&cluster, "g").socket_timeout(Duration::from_secs(600)));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(2, 10);
    // So many brokers that take connections and say nothing that one of them is asked.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let session = cluster.zookeeper().local_session();
    for id in 100..200 {
        let data = format!(r#"{{"version":1,"host":"127.0.0.1","port":{port}}}"#);
        let path = format!("/brokers/ids/{id}");
        session
            .create(&path, data.as_bytes(), CreateMode::Ephemeral)
            .unwrap();
    }
    let description = cluster.describe();
    let led_by = |id| {
        let leader = |partition| description.partition("orders", partition).unwrap().leader;
        (0..2)
            .find(|partition| leader(*partition) == Some(id))
            .unwrap()
    };
    cluster.disturb(1, ConnectionFault::Refuse).unwrap();
    silent.set_nonblocking(true).unwrap();
    let mut asking = None;
    wait_until("a silent broker is asked", || {
        asking = silent.accept().ok();
        asking.is_some()
    });
    for number in 10..100 {
        cluster
            .produce("orders", led_by(0), [numbered(led_by(0), number)])
            .unwrap();
        cluster
            .produce("orders", led_by(1), [numbered(led_by(1), number)])
            .unwrap();
    }
    reading.until("the partition with a leader goes on", |reading| {
        reading.seen[&led_by(0)].len() == 100
    });
    assert_eq!(
        reading.seen[&led_by(1)].len(),
        10,
        "its leader is asked for"
    );
    cluster.heal(1).unwrap();
    session.close();
    drop((silent, asking));
    reading.until_numbers(2, 100);
    reading.assert_once_in_order(2, 100);
}
