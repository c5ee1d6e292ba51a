//! Pauses, seeks, starts by time, and partitions without an offset.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::protocol::OffsetTime;

use crate::control::orders;
use crate::control::stored;
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

/// The next so many values.
fn take(stream: &mut MessageStream, count: usize) -> Vec<String> {
    (0..count).map(|_| value(&next(stream).unwrap())).collect()
}

fn values(partition: i32, numbers: std::ops::Range<i32>) -> Vec<String> {
    numbers.map(|number| numbered(partition, number)).collect()
}

fn assert_silent(stream: &mut MessageStream) {
    let next = stream.next_timeout(Duration::from_millis(200)).unwrap();
    let next = next.map(|message| value(&message));
    assert_eq!(next, Err(StreamError::Timeout));
}

#[test]
fn a_paused_partition_gives_nothing_until_it_is_resumed_whatever_is_queued() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    assert_eq!(take(&mut stream, 3), values(0, 0..3));
    connector.pause(&[orders(0)]).unwrap();
    assert_eq!(connector.paused(), [orders(0)]);
    assert!(connector.stats().partitions[0].paused);
    assert_silent(&mut stream);
    assert_eq!(connector.commit_offsets().unwrap(), [(orders(0), 3)]);
    let requests = connector.stats().fetch_requests;
    produce_numbers(&cluster, "orders", 1, 10..20);
    assert_silent(&mut stream);
    assert_eq!(connector.stats().fetch_requests, requests, "nobody asks");
    connector.resume(&[orders(0)]).unwrap();
    assert_eq!(take(&mut stream, 17), values(0, 3..20));
    assert!(connector.paused().is_empty());

    connector.pause(&[orders(0)]).unwrap();
    connector.seek(&orders(0), 5).unwrap();
    assert_silent(&mut stream);
    assert_eq!(connector.paused(), [orders(0)], "a seek leaves it paused");
    connector.resume(&[orders(0)]).unwrap();
    assert_eq!(take(&mut stream, 15), values(0, 5..20));
}

#[test]
fn a_paused_partition_does_not_hold_up_the_others_of_its_stream() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..20);
    // Room for little more than one message set.
    let small = config(&cluster, "g")
        .fetch_message_max_bytes(200)
        .queued_max_bytes(400)
        .queued_max_message_chunks(1);
    let connector = connect(small);
    let stream = streams(&connector, "orders", 1);
    wait_until("both are known", || {
        connector
            .stats()
            .partitions
            .iter()
            .all(|it| it.consumed.is_some())
    });
    connector.pause(&[orders(0)]).unwrap();
    let mut reading = Reading::start(stream);
    reading.until("the other is read", |reading| {
        reading.seen.get(&1).is_some_and(|seen| seen.len() >= 20)
    });
    assert_eq!(reading.seen.get(&0), None);
    connector.resume(&[orders(0)]).unwrap();
    reading.until_numbers(2, 20);
    reading.assert_once_in_order(2, 20);
}

#[test]
fn a_pause_outlasts_a_leader_that_is_killed() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 2, 2)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(2, 10);
    let leader = cluster.describe().partition("orders", 0).unwrap().leader;
    connector.pause(&[orders(0)]).unwrap();
    cluster.kill(leader.unwrap()).unwrap();
    produce_numbers(&cluster, "orders", 2, 10..20);
    reading.until("the other partition goes on", |reading| {
        reading.seen[&1].len() >= 20
    });
    assert_eq!(reading.seen[&0].len(), 10);
    assert_eq!(connector.paused(), [orders(0)]);
    connector.resume(&[orders(0)]).unwrap();
    reading.until_numbers(2, 20);
    reading.assert_once_in_order(2, 20);
}

#[test]
fn what_is_not_owned_can_be_neither_paused_nor_sought() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let _streams = streams(&connector, "orders", 1);
    let both = [orders(0), orders(1)];
    for refused in [
        connector.pause(&both),
        connector.resume(&both),
        connector.seek(&orders(1), 0),
        connector
            .seek_to_time(&orders(1), OffsetTime::Latest)
            .map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(
            error.to_string().contains("orders/1 is not owned"),
            "{error}"
        );
    }
    assert!(connector.paused().is_empty(), "all or none");
    let negative = connector.seek(&orders(0), -7).unwrap_err();
    assert!(
        negative.to_string().contains("-7 of orders/0"),
        "{negative}"
    );
    connector.shutdown();
    assert!(connector.seek(&orders(0), 0).is_err());
}

#[test]
fn seeks_amid_rebalances_hold_or_are_refused() {
    // A seek is told to have happened only if what it set is delivered, or stored for the next owner.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = Arc::new(connect(config(&cluster, "g").consumer_id("a")));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(2, 10);
    let is_over = Arc::new(AtomicBool::new(false));
    let seeking = {
        let (connector, is_over) = (Arc::clone(&connector), Arc::clone(&is_over));
        std::thread::spawn(move || {
            let mut counts = (0, 0);
            while !is_over.load(Ordering::SeqCst) {
                match connector.seek(&orders(1), 10) {
                    Ok(()) => counts.0 += 1,
                    Err(Error::InvalidArgument { .. }) => counts.1 += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            counts
        })
    };
    for _ in 0..3 {
        let other = connect(config(&cluster, "g").consumer_id("b"));
        let other_streams = streams(&other, "orders", 1);
        wait_until("the other has its share", || {
            other.owned_partitions() == [orders(1)]
        });
        other.shutdown();
        drop(other_streams);
        wait_until("all are back", || connector.owned_partitions().len() == 2);
    }
    is_over.store(true, Ordering::SeqCst);
    let (held, refused) = seeking.join().unwrap();
    assert!(held > 0 && refused > 0, "{held} held, {refused} refused");
    wait_until("the last seek holds", || {
        connector.seek(&orders(1), 7).is_ok()
    });
    produce_numbers(&cluster, "orders", 2, 10..12);
    reading.until("what follows the seek", |reading| {
        reading.seen[&1].ends_with(&values(1, 7..12))
    });
    connector.shutdown();
    assert!(stored(&cluster, 1) >= Some(11));
}

#[test]
fn a_seek_from_another_thread_is_not_undone_by_the_stream() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    for round in 0..20 {
        let from = round % 10;
        connector.seek(&orders(0), from.into()).unwrap();
        assert_eq!(
            connector.commit_offsets().unwrap(),
            [(orders(0), from.into())]
        );
        assert_eq!(take(&mut stream, 1), values(0, from..from + 1));
    }
}

#[test]
fn without_a_rule_a_missing_offset_is_told_and_a_seek_goes_on() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    cluster.set_log_start("orders", 0, 2).unwrap();
    let settings = config(&cluster, "g").auto_offset_reset(AutoOffsetReset::None);
    let connector = connect(settings);
    connector.commit_offsets_for([(orders(1), 77)]).unwrap();
    let mut stream = streams(&connector, "orders", 1).remove(0);
    let mut told = Vec::new();
    for _ in 0..2 {
        told.push(next(&mut stream).unwrap_err());
    }
    told.sort_by_key(|error| error.to_string());
    let expected = |partition, offset, log| StreamError::NoOffset {
        topic_partition: orders(partition),
        offset,
        log: Some(log),
    };
    let missing = [expected(0, None, 2..10), expected(1, Some(77), 0..10)];
    assert_eq!(told, missing);
    assert_eq!(
        told[1].to_string(),
        "offset 77 of orders/1 is outside the log; the log goes from 0 to 10"
    );
    assert_silent(&mut stream);
    let standing: Vec<_> = connector.stats().partitions;
    assert_eq!(standing[1].stopped_at, Some(77));
    assert_eq!(connector.stats().offset_resets, 0);
    assert_eq!(stream.skip_bad_message(&orders(1)), None);
    stream.seek(&orders(0), 8).unwrap();
    assert_eq!(take(&mut stream, 2), values(0, 8..10));
    connector.seek(&orders(1), 9).unwrap();
    assert_eq!(take(&mut stream, 1), values(1, 9..10));
    let events = std::iter::from_fn(|| connector.events().try_next());
    let told = events.filter(|event| matches!(event, Event::NoOffset { .. }));
    assert_eq!(told.count(), 2);

    // A position that the log leaves behind.
    connector.seek(&orders(1), 3).unwrap();
    assert_eq!(take(&mut stream, 7), values(1, 3..10));
    cluster.set_log_start("orders", 1, 20).unwrap();
    let error = next(&mut stream).unwrap_err();
    assert_eq!(error, expected(1, Some(10), 20..20));
}

#[test]
fn a_missing_offset_is_told_again_after_a_pause() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let settings = config(&cluster, "g").auto_offset_reset(AutoOffsetReset::None);
    let connector = connect(settings);
    let mut stream = streams(&connector, "orders", 1).remove(0);
    let is_told = |event: Option<Event>| matches!(event, Some(Event::NoOffset { .. }));
    wait_until("the fetcher has found out", || {
        is_told(connector.events().try_next())
    });
    connector.pause(&[orders(0)]).unwrap();
    assert_silent(&mut stream);
    connector.resume(&[orders(0)]).unwrap();
    let error = next(&mut stream).unwrap_err();
    assert!(matches!(error, StreamError::NoOffset { offset: None, .. }));
}

#[test]
fn a_start_by_time_misses_no_message_of_that_time() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 2, 1)
        .log_segment_bytes(200)
        .start()
        .unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    let at_start = now();
    produce_numbers(&cluster, "orders", 2, 0..20);
    assert_eq!(take(&mut stream, 40).len(), 40);
    let between = loop {
        // Clocks tell milliseconds only.
        std::thread::sleep(Duration::from_millis(2));
        let now = now();
        if now > at_start {
            break now;
        }
    };
    produce_numbers(&cluster, "orders", 2, 20..40);
    assert_eq!(take(&mut stream, 40).len(), 40);
    let find = |time| -> Vec<i64> {
        let times = [(orders(0), time), (orders(1), time)];
        let found = connector.offsets_for_times(times).unwrap();
        assert_eq!([&found[0].0, &found[1].0], [&orders(0), &orders(1)]);
        found.into_iter().map(|(_, offset)| offset).collect()
    };
    assert_eq!(find(OffsetTime::Earliest), [0, 0]);
    assert_eq!(find(OffsetTime::Latest), [40, 40]);
    assert_eq!(find(OffsetTime::Timestamp(0)), [0, 0], "before the log");
    // Brokers are asked for a second earlier.
    let between = between + 1000;
    let found = find(OffsetTime::Timestamp(between));
    let is_near = |offset: &i64| (1..=20).contains(offset);
    assert!(found.iter().all(is_near), "{found:?}");
    let offset = connector
        .seek_to_time(&orders(0), OffsetTime::Timestamp(between))
        .unwrap();
    assert_eq!(offset, found[0]);
    let from = i32::try_from(offset).unwrap();
    let wanted = usize::try_from(40 - from).unwrap();
    assert_eq!(take(&mut stream, wanted), values(0, from..40));

    let negative = [(orders(0), OffsetTime::Timestamp(-1))];
    let error = connector.offsets_for_times(negative).unwrap_err();
    assert!(error.to_string().contains("-1 ms for orders/0"), "{error}");
    let nowhere = [(orders(9), OffsetTime::Latest)];
    let error = connector.offsets_for_times(nowhere).unwrap_err();
    assert!(matches!(error, Error::NoLeader { .. }), "{error}");
}

#[test]
fn a_start_by_time_finds_the_leader_that_has_moved() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 1, 2)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g"));
    let end = [(orders(0), OffsetTime::Latest)];
    for leader in [1, 0, 1] {
        cluster.move_leader("orders", 0, leader).unwrap();
        let found = connector.offsets_for_times(end.clone()).unwrap();
        assert_eq!(found, [(orders(0), 10)]);
    }
    connector.shutdown();
    let closed = connector.offsets_for_times(end);
    assert!(matches!(closed, Err(Error::Closed)));
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}
