//! One thread that reads all streams, and batches with limits.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::BatchLimits;
use kafka_zk_consumer::Message;
use kafka_zk_consumer::Poller;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicPartition;

use crate::reading::config;
use crate::reading::connect;
use crate::reading::numbered;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::value;
use crate::reading::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

/// A batch that is not empty.
fn poll(poller: &mut Poller) -> Vec<Message> {
    let batch = poller.poll(LIMIT).expect("it goes on").unwrap();
    assert!(!batch.is_empty(), "nothing came");
    batch
}

/// Polls until so many messages were given.
fn poll_all(poller: &mut Poller, count: usize) -> BTreeMap<(String, i32), Vec<String>> {
    let mut values: BTreeMap<(String, i32), Vec<String>> = BTreeMap::new();
    let mut read = 0;
    while read < count {
        for message in poll(poller) {
            let of = (message.topic().to_owned(), message.partition());
            values.entry(of).or_default().push(value(&message));
            read += 1;
        }
    }
    values
}

#[test]
fn all_topics_come_by_one_poller_in_order_and_no_more_at_a_time_than_was_said() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 3, 1)
        .topic("payments", 2, 1)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 3, 0..100);
    produce_numbers(&cluster, "payments", 2, 0..100);
    let connector = connect(config(&cluster, "g").max_poll_records(7));
    let mut poller = connector.create_poller(["orders", "payments"]).unwrap();
    let mut seen: BTreeMap<(String, i32), Vec<String>> = BTreeMap::new();
    let mut read = 0;
    while read < 500 {
        let batch = poll(&mut poller);
        assert!(batch.len() <= 7);
        read += batch.len();
        for message in batch {
            let of = (message.topic().to_owned(), message.partition());
            seen.entry(of).or_default().push(value(&message));
        }
    }
    assert_eq!(seen.len(), 5);
    for ((_, partition), values) in seen {
        let expected: Vec<String> = (0..100).map(|n| numbered(partition, n)).collect();
        assert_eq!(values, expected);
    }
    assert!(poller.poll(Duration::ZERO).unwrap().unwrap().is_empty());
}

#[test]
fn what_a_poll_gave_is_consumed_with_the_next_one() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g").max_poll_records(4));
    let mut poller = connector.create_poller(["orders"]).unwrap();
    let consumed = || connector.stats().partitions[0].consumed;
    assert_eq!(poll(&mut poller).len(), 4);
    assert_eq!(consumed(), Some(0));
    let second = poll(&mut poller);
    assert_eq!(consumed(), Some(4));
    poller.mark_consumed_through(&second[1]);
    assert_eq!(consumed(), Some(6));
    poller.mark_consumed();
    assert_eq!(consumed(), Some(8));
    let of = TopicPartition::new("orders", 0);
    poller.seek(&of, 2).unwrap();
    assert_eq!(poll(&mut poller)[0].offset(), 2);
    let strange = TopicPartition::new("orders", 7);
    assert!(poller.seek(&strange, 0).is_err());
}

#[test]
fn a_poll_that_waits_is_woken_by_any_stream() {
    let cluster = quick_cluster().topic("orders", 4, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut poller = Poller::new(streams(&connector, "orders", 4));
    for partition in [3, 0, 2, 1] {
        let text = format!("for {partition}");
        std::thread::scope(|scope| {
            let polling = scope.spawn(|| poll(&mut poller));
            cluster.produce("orders", partition, [&text]).unwrap();
            let batch = polling.join().unwrap();
            assert_eq!(value(&batch[0]), text);
        });
    }
}

#[test]
fn a_poll_without_messages_is_empty_when_its_time_is_over() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut poller = Poller::new(streams(&connector, "orders", 2));
    let begun = Instant::now();
    let wait = Duration::from_millis(300);
    assert!(poller.poll(wait).unwrap().unwrap().is_empty());
    assert!(begun.elapsed() >= wait);
}

#[test]
fn a_poll_that_waits_ends_with_the_shutdown() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut poller = connector.create_poller(["orders"]).unwrap();
    std::thread::scope(|scope| {
        let polling = scope.spawn(move || poller.poll(LIMIT));
        connector.shutdown();
        assert!(polling.join().unwrap().is_none());
    });
}

#[test]
fn streams_take_turns() {
    let cluster = quick_cluster().topic("orders", 4, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 4, 0..100);
    let connector = connect(config(&cluster, "g").max_poll_records(10));
    let mut poller = Poller::new(streams(&connector, "orders", 4));
    wait_until("all have been fetched", || {
        let stats = connector.stats();
        let mut partitions = stats.partitions.iter();
        stats.partitions.len() == 4 && partitions.all(|it| it.fetched == Some(100))
    });
    for round in 0..10 {
        let mut partitions = BTreeSet::new();
        for _ in 0..4 {
            let batch = poll(&mut poller);
            assert_eq!(batch.len(), 10);
            partitions.extend(batch.iter().map(Message::partition));
        }
        assert_eq!(partitions.len(), 4, "round {round}");
    }
}

#[test]
fn the_next_messages_are_fetched_while_the_application_works_on_those_it_got() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..100);
    let connector = connect(
        config(&cluster, "g")
            .queued_max_message_chunks(1)
            .fetch_message_max_bytes(400),
    );
    let mut poller = connector.create_poller(["orders"]).unwrap();
    let mut last = 0;
    while last < 80 {
        last = poll(&mut poller).last().unwrap().offset();
        // Nobody polls meanwhile.
        wait_until("more is fetched", || {
            let fetched = connector.stats().partitions[0].fetched;
            fetched.is_some_and(|fetched| fetched > last + 1)
        });
    }
}

#[test]
fn an_error_comes_by_itself_behind_the_messages_before_it() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    cluster.corrupt("orders", 1, 6).unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut poller = Poller::new(streams(&connector, "orders", 2));
    let mut seen: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    let mut errors = 0;
    while seen.values().map(Vec::len).sum::<usize>() < 19 {
        match poller.poll(LIMIT).unwrap() {
            Ok(batch) => {
                assert!(!batch.is_empty(), "nothing came");
                for message in batch {
                    seen.entry(message.partition())
                        .or_default()
                        .push(message.offset());
                }
            }
            Err(StreamError::Corrupt {
                topic_partition,
                offset,
                ..
            }) => {
                assert_eq!(offset, 6);
                assert_eq!(seen[&1], (0..6).collect::<Vec<i64>>());
                assert_eq!(poller.skip_bad_message(&topic_partition), Some(6));
                errors += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(errors, 1);
    assert_eq!(seen[&1], [0, 1, 2, 3, 4, 5, 7, 8, 9]);
}

#[test]
fn a_poll_follows_seeks_and_pauses_of_other_threads() {
    let cluster = quick_cluster()
        .topic("orders", 1, 1)
        .topic("payments", 1, 1)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 1, 0..20);
    produce_numbers(&cluster, "payments", 1, 0..20);
    let connector = connect(config(&cluster, "g").max_poll_records(5));
    let mut poller = connector.create_poller(["orders", "payments"]).unwrap();
    let orders = TopicPartition::new("orders", 0);
    connector.pause(std::slice::from_ref(&orders)).unwrap();
    let of = |topic: &str| (topic.to_owned(), 0);
    let values = |range: std::ops::Range<i32>| -> Vec<String> {
        range.map(|number| numbered(0, number)).collect()
    };
    let expected = BTreeMap::from([(of("payments"), values(0..20))]);
    assert_eq!(poll_all(&mut poller, 20), expected);
    let silent = poller.poll(Duration::from_millis(200)).unwrap().unwrap();
    assert!(silent.is_empty(), "what is paused is not given");
    // A poll that waits is woken by what a seek and the end of a pause bring.
    std::thread::scope(|scope| {
        let polling = scope.spawn(|| poll_all(&mut poller, 8));
        connector.seek(&orders, 12).unwrap();
        connector.resume(std::slice::from_ref(&orders)).unwrap();
        let expected = BTreeMap::from([(of("orders"), values(12..20))]);
        assert_eq!(polling.join().unwrap(), expected);
    });
    // In the middle of what has been fetched.
    connector.seek(&orders, 0).unwrap();
    assert_eq!(poll_all(&mut poller, 5)[&of("orders")], values(0..5));
    connector.pause(std::slice::from_ref(&orders)).unwrap();
    let silent = poller.poll(Duration::from_millis(200)).unwrap().unwrap();
    assert!(silent.is_empty());
    assert_eq!(connector.stats().partitions[0].consumed, Some(5));
    connector.resume(std::slice::from_ref(&orders)).unwrap();
    assert_eq!(poll_all(&mut poller, 15)[&of("orders")], values(5..20));
}

#[test]
fn a_missing_offset_comes_by_itself_and_the_others_go_on() {
    let cluster = quick_cluster()
        .topic("orders", 1, 1)
        .topic("payments", 1, 1)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 1, 0..20);
    produce_numbers(&cluster, "payments", 1, 0..20);
    let connector = connect(config(&cluster, "g").auto_offset_reset(AutoOffsetReset::None));
    let [orders, payments] = ["orders", "payments"].map(|topic| TopicPartition::new(topic, 0));
    connector.commit_offsets_for([(payments, 3)]).unwrap();
    let mut poller = connector.create_poller(["orders", "payments"]).unwrap();
    let mut errors = Vec::new();
    let mut read = 0;
    while read < 17 || errors.is_empty() {
        match poller.poll(LIMIT).expect("it goes on") {
            Ok(batch) => read += batch.len(),
            Err(error) => errors.push(error),
        }
    }
    assert_eq!(read, 17);
    assert!(
        matches!(&errors[..], [StreamError::NoOffset { topic_partition, .. }] if *topic_partition == orders)
    );
    poller.seek(&orders, 15).unwrap();
    assert_eq!(
        poll_all(&mut poller, 5)[&(String::from("orders"), 0)].len(),
        5
    );
}

#[test]
fn a_poller_gets_over_rebalances_restarts_and_added_partitions() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..20);
    let connector = connect(config(&cluster, "g"));
    let mut poller = connector.create_poller(["orders"]).unwrap();
    poll_all(&mut poller, 40);
    poller.mark_consumed();
    cluster.kill(0).unwrap();
    cluster.restart(0).unwrap();
    cluster.add_partitions("orders", 4).unwrap();
    wait_until("they are owned", || connector.owned_partitions().len() == 4);
    produce_numbers(&cluster, "orders", 4, 20..30);
    let seen = poll_all(&mut poller, 40);
    assert_eq!(seen.len(), 4);
    for ((_, partition), values) in seen {
        let expected: Vec<String> = (20..30).map(|n| numbered(partition, n)).collect();
        assert_eq!(values, expected);
    }
}

#[test]
fn batches_are_bounded_by_number_and_by_bytes() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 10..60);
    let connector = connect(config(&cluster, "g"));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    let by_number = BatchLimits {
        messages: 20,
        ..BatchLimits::default()
    };
    let batch = stream.next_batch_within(by_number).unwrap().unwrap();
    assert_eq!(batch.len(), 20);
    // Values have 4 bytes.
    let by_bytes = BatchLimits {
        bytes: 18,
        ..BatchLimits::default()
    };
    let sizes: Vec<usize> = stream
        .batches(by_bytes)
        .take(6)
        .map(|batch| batch.unwrap().len())
        .collect();
    assert_eq!(sizes, [5; 6]);
    for limits in [
        BatchLimits {
            messages: 0,
            ..by_number
        },
        BatchLimits {
            bytes: 0,
            ..by_number
        },
    ] {
        produce_numbers(&cluster, "orders", 1, 60..61);
        let batch = stream.next_batch_within(limits).unwrap().unwrap();
        assert_eq!(batch.len(), 1);
    }
    assert_eq!(connector.stats().partitions[0].consumed, Some(51));
}

#[test]
fn a_batch_that_is_not_full_waits_for_more_and_ends_in_time() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..1);
    let connector = connect(config(&cluster, "g").consumer_timeout(Some(LIMIT)));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    let full_with_two = BatchLimits {
        messages: 2,
        wait: LIMIT,
        ..BatchLimits::default()
    };
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| stream.next_batch_within(full_with_two));
        wait_until("the first is fetched", || {
            let fetched = connector
                .stats()
                .partitions
                .first()
                .and_then(|it| it.fetched);
            fetched == Some(1)
        });
        produce_numbers(&cluster, "orders", 1, 1..2);
        let batch = reading.join().unwrap().unwrap().unwrap();
        assert_eq!(batch.len(), 2);
    });
    produce_numbers(&cluster, "orders", 1, 2..3);
    let short = BatchLimits {
        wait: Duration::from_millis(50),
        ..BatchLimits::default()
    };
    let batch = stream.next_batch_within(short).unwrap().unwrap();
    assert_eq!(batch.len(), 1);
}

#[test]
fn an_error_cuts_a_batch_short_and_follows_it() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    cluster.corrupt("orders", 0, 6).unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    let patient = BatchLimits {
        wait: LIMIT,
        ..BatchLimits::default()
    };
    let mut batches = stream.batches(patient);
    assert_eq!(batches.next().unwrap().unwrap().len(), 6);
    let error = batches.next().unwrap().unwrap_err();
    assert!(matches!(error, StreamError::Corrupt { offset: 6, .. }));
}
