//! Whole consumers against embedded clusters that do nothing wrong.

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::protocol::Codec;
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

const PER_KIND: i32 = 50;

/// A set of each codec within another one. The other sets are those of `tests/scenarios/consuming.rs`.
fn produce_sets_within_sets(cluster: &EmbeddedCluster, topic: &str, partition: i32) -> i32 {
    let of = TopicPartition::new(topic, partition);
    let mut number = 0;
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        let mut inner = MessageSetBuilder::compressed(codec);
        for _ in 0..PER_KIND {
            let value = numbered(partition, number);
            inner.message(0, None, Some(value.as_bytes())).unwrap();
            number += 1;
        }
        let mut outer = MessageSetBuilder::compressed(Codec::Gzip);
        outer.entries(&inner.build().unwrap());
        let set = outer.build().unwrap();
        cluster.produce_set(&of, &set, RequiredAcks::All).unwrap();
    }
    number
}

#[test]
fn sets_within_sets_arrive_once_and_in_order_with_any_number_of_streams() {
    for version in [BrokerVersion::V0_8_2, BrokerVersion::V0_9_0] {
        let cluster = quick_cluster()
            .version(version)
            .brokers(2)
            .topic("orders", 4, 2)
            .start()
            .unwrap();
        let mut end = 0;
        for partition in 0..4 {
            end = produce_sets_within_sets(&cluster, "orders", partition);
        }
        for count in [1, 3, 6] {
            let connector = connect(config(&cluster, &format!("with-{count}")));
            let mut reading = Reading::start(streams(&connector, "orders", count));
            reading.until_numbers(4, end);
            connector.shutdown();
            reading.assert_once_in_order(4, end);
        }
    }
}

#[test]
fn a_new_member_goes_on_where_the_last_one_stopped() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..100);
    let read = |stream: &mut MessageStream, numbers: std::ops::Range<i32>| {
        for number in numbers {
            assert_eq!(value(&next(stream).unwrap()), numbered(0, number));
        }
        stream.mark_consumed();
    };
    let first = connect(config(&cluster, "g"));
    read(&mut streams(&first, "orders", 1)[0], 0..37);
    first.shutdown();
    let second = connect(config(&cluster, "g"));
    let mut stream = streams(&second, "orders", 1);
    read(&mut stream[0], 37..50);
    second.commit_offsets().unwrap();
    // What is read after the commit and not told as consumed comes again.
    assert_eq!(value(&next(&mut stream[0]).unwrap()), numbered(0, 50));
    second.shutdown();
    let third = connect(config(&cluster, "g"));
    read(&mut streams(&third, "orders", 1)[0], 50..100);
}

#[test]
fn offsets_out_of_range_are_reset_to_the_end_that_was_chosen() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..50);
    for (group, choice, kept) in [
        ("small", AutoOffsetReset::Smallest, 20),
        ("large", AutoOffsetReset::Largest, 10),
    ] {
        let first = connect(config(&cluster, group));
        let mut stream = streams(&first, "orders", 1);
        let consumed = next(&mut stream[0]).unwrap().offset() + 1;
        stream[0].mark_consumed();
        first.shutdown();
        let session = cluster.zookeeper().local_session();
        let path = format!("/consumers/{group}/offsets/orders/0");
        let stored = String::from_utf8(session.get(&path).unwrap().0).unwrap();
        assert_eq!(stored, consumed.to_string());
        let end = cluster.describe().partition("orders", 0).unwrap().log_end;
        cluster.set_log_start("orders", 0, end - kept).unwrap();
        let second = connect(config(&cluster, group).auto_offset_reset(choice));
        let mut stream = streams(&second, "orders", 1);
        let expected = match choice {
            AutoOffsetReset::Largest => {
                wait_until("the fetcher stands at the end", || {
                    let stats = second.stats();
                    let mut fetched = stats.partitions.iter().map(|p| p.fetched);
                    fetched.any(|fetched| fetched == Some(end))
                });
                produce_numbers(&cluster, "orders", 1, 50..51);
                end
            }
            _ => end - kept,
        };
        let message = next(&mut stream[0]).unwrap();
        assert_eq!(message.offset(), expected, "{group}");
    }
}

#[test]
fn a_reset_waits_behind_the_messages_that_are_queued() {
    // D44: the original moved the consumed offset at the reset, past the messages that were still in the queue.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..50);
    let connector = connect(
        config(&cluster, "g")
            .queued_max_message_chunks(2)
            .fetch_message_max_bytes(200),
    );
    let mut stream = streams(&connector, "orders", 1).remove(0);
    assert_eq!(next(&mut stream).unwrap().offset(), 0);
    wait_until("the queue is full", || {
        let fetched = connector.stats().partitions[0].fetched;
        fetched.is_some_and(|fetched| fetched >= 10)
    });
    cluster.set_log_start("orders", 0, 40).unwrap();
    let mut offsets = vec![0];
    while offsets.last() != Some(&49) {
        let message = next(&mut stream).unwrap();
        let before = offsets.last().copied().unwrap();
        connector.commit_offsets().unwrap();
        let consumed = connector.stats().partitions[0].consumed;
        // The message before this one is consumed, or the queue is through and the reset counts.
        assert!(
            consumed == Some(before + 1) || message.offset() == 40,
            "{consumed:?}"
        );
        offsets.push(message.offset());
    }
    let jumps: Vec<&[i64]> = offsets
        .windows(2)
        .filter(|two| two[1] != two[0] + 1)
        .collect();
    assert_eq!(jumps.len(), 1, "{offsets:?}");
    assert!(jumps[0][0] >= 9 && jumps[0][1] == 40, "{offsets:?}");
}

#[test]
fn a_log_that_was_cut_behind_the_consumer_is_gone_on_with() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(1, 10);
    cluster.truncate("orders", 0, 0).unwrap();
    produce_numbers(&cluster, "orders", 1, 10..15);
    // The position is beyond the new end, so the smallest offset is taken.
    reading.until_numbers(1, 15);
    reading.assert_once_in_order(1, 15);
}

#[test]
fn a_stream_that_is_dropped_is_told_with_the_partitions_that_nobody_reads_any_more() {
    // A thread that panicked or broke out of its loop took its stream along. The member kept the partitions, and
    // nothing said why no message of them came to anybody.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut streams = streams(&connector, "orders", 3);
    let dropped = |stream: MessageStream| {
        drop(stream);
        std::iter::from_fn(|| connector.events().try_next())
            .find(|event| matches!(event, Event::StreamDropped { .. }))
            .map(|event| event.to_string())
    };
    next(&mut streams[0]).unwrap();
    let texts: Vec<_> = streams.drain(..2).map(dropped).collect();
    let text = |partition| Some(format!("stream dropped: nobody reads orders/{partition}"));
    assert_eq!(texts, [text(0), text(1)]);
    let idle = "stream dropped: nobody reads what it may still get";
    assert_eq!(dropped(streams.remove(0)).as_deref(), Some(idle));
    connector.shutdown();

    let connector = connect(config(&cluster, "h"));
    let mut jobs = connector.create_bounded_streams([("orders", 1)]).unwrap();
    let job = jobs.remove("orders").unwrap().remove(0);
    assert_eq!(job.count(), 20);
    let unbounded = connect(config(&cluster, "i"));
    let streams = crate::reading::streams(&unbounded, "orders", 1);
    unbounded.shutdown();
    drop(streams);
    for connector in [connector, unbounded] {
        let mut told = std::iter::from_fn(|| connector.events().try_next());
        let is_dropped = |event: &Event| matches!(event, Event::StreamDropped { .. });
        assert!(!told.any(|event| is_dropped(&event)), "nothing was left");
    }
}
