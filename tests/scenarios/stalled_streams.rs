//! Streams that are not read, and queues that are small, hold back nobody else.

use std::time::Duration;

use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSetBuilder;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::Reader;
use crate::scenarios::topics_support::SHUTDOWN_LIMIT;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::only_stream;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::scenarios::topics_support::timed;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::Version;
use crate::support::wait_until;

const TOPIC: &str = "orders";

pub(crate) fn a_stream_that_is_never_read_holds_back_neither_the_others_nor_the_group(
    version: impl Version,
) {
    // In the original the fetcher blocked on the full queue, and with it every partition of the same
    // broker, the next rebalance and the shutdown (D6, D46).
    let cluster = version.start(1);
    cluster.create_topic(TOPIC, 4, 1);
    produce_to_all(&cluster, 0..500);
    let settings = |member: &str| {
        config(&cluster.connect_string(), "g")
            .consumer_id(member)
            .fetch_message_max_bytes(1000)
    };
    let a = connect(settings("a"));
    let [stalled, read] = two_streams(a.create_message_streams([(TOPIC, 2)]).unwrap());
    let reader = Reader::start([read]);
    for partition in [2, 3] {
        reader.wait_for_numbers(TOPIC, partition, 0..500);
    }
    produce_to_all(&cluster, 500..600);
    for partition in [2, 3] {
        reader.wait_for_numbers(TOPIC, partition, 0..600);
    }
    let stats = a.stats();
    for partition in [0, 1] {
        let fetched = stats.partitions[partition].fetched;
        assert!(
            fetched.is_some_and(|next| next < 200),
            "the queue is full: {fetched:?}"
        );
    }

    // A second member joins: each thread gets one partition, and each partition goes on.
    let b = connect(settings("b"));
    let (streams, took) = timed(|| b.create_message_streams([(TOPIC, 2)]).unwrap());
    assert!(took < SHUTDOWN_LIMIT, "joining took {took:?}");
    let reader_of_b = Reader::start(two_streams(streams));
    reader.wait_for_numbers(TOPIC, 1, 0..600);
    produce_to_all(&cluster, 600..700);
    reader.wait_for_numbers(TOPIC, 1, 0..700);
    for partition in [2, 3] {
        reader_of_b.wait_for_numbers(TOPIC, partition, 600..700);
        assert_eq!(reader.values(TOPIC, partition).len(), 600);
    }
    shut_down(&b);
    reader_of_b.finish();
    wait_until(LIMIT, "the partitions of the member that left", || {
        a.owned_partitions().len() == 4
    });
    produce_to_all(&cluster, 700..800);
    for partition in [2, 3] {
        wait_until(LIMIT, "what came since", || {
            reader
                .values(TOPIC, partition)
                .last()
                .is_some_and(|last| last == "799")
        });
    }

    let late = Reader::start([stalled]);
    late.wait_for_numbers(TOPIC, 0, 0..800);
    late.wait_for_numbers(TOPIC, 1, 700..800);
    assert_eq!(late.errors(), []);
    assert_eq!(reader.errors(), []);
    shut_down(&a);
    reader.finish();
    late.finish();
}

pub(crate) fn a_member_that_reads_nothing_leaves_at_once_and_has_fetched_no_more_than_its_bound(
    version: impl Version,
) {
    let cluster = version.start(1);
    cluster.create_topic(TOPIC, 4, 1);
    for partition in 0..4 {
        produce_large(&cluster, partition, 0..40);
    }
    let settings = config(&cluster.connect_string(), "idle")
        .fetch_message_max_bytes(100_000)
        .queued_max_bytes(400_000)
        .queued_max_message_chunks(1000);
    let idle = connect(settings);
    let streams = idle.create_message_streams([(TOPIC, 2)]).unwrap();
    wait_until(LIMIT, "both queues to be filled", || {
        idle.stats().bytes > 230_000
    });
    // Somebody else reads everything meanwhile.
    let other = connect(config(&cluster.connect_string(), "other"));
    let reader = Reader::start([only_stream(&other, TOPIC)]);
    for partition in 0..4 {
        reader.wait_for_numbers(TOPIC, partition, 0..40);
    }
    let bytes = idle.stats().bytes;
    assert!(bytes <= 400_000, "{bytes} bytes in the queues");
    shut_down(&idle);
    for mut stream in streams.into_values().flatten() {
        assert!(stream.next().is_none());
    }
    shut_down(&other);
    reader.finish();
}

pub(crate) fn large_messages_flow_through_queues_that_hold_one_of_them(version: impl Version) {
    let cluster = version.start(1);
    cluster.create_topic(TOPIC, 8, 1);
    let settings = config(&cluster.connect_string(), "g")
        .fetch_message_max_bytes(100_000)
        .queued_max_bytes(100_000);
    let connector = connect(settings);
    let streams = connector.create_message_streams([(TOPIC, 2)]).unwrap();
    let reader = Reader::start(streams.into_values().flatten());
    // First one partition of each stream has something, while the others wait in vain.
    for partition in [3, 7, 0, 5] {
        produce_large(&cluster, partition, 0..10);
        reader.wait_for_numbers(TOPIC, partition, 0..10);
    }
    for partition in 0..8 {
        let from = i64::try_from(reader.values(TOPIC, partition).len()).unwrap();
        produce_large(&cluster, partition, from..30);
    }
    for partition in 0..8 {
        reader.wait_for_numbers(TOPIC, partition, 0..30);
    }
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
}

pub(crate) fn compressed_messages_that_unpack_to_more_than_the_queues_hold_arrive(
    version: impl Version,
) {
    let cluster = version.start(1);
    cluster.create_topic(TOPIC, 2, 1);
    let mut broker = BrokerConnection::open(&cluster.address(0)).unwrap();
    for partition in 0..2 {
        for first in (0..40).step_by(10) {
            let mut set = MessageSetBuilder::compressed(Codec::Gzip);
            for number in first..first + 10 {
                let value = large(number);
                set.message(number - first, None, Some(value.as_bytes()))
                    .unwrap();
            }
            let set = set.build().unwrap();
            broker
                .produce_set(TOPIC, partition, set.as_bytes())
                .unwrap();
        }
    }
    let settings = config(&cluster.connect_string(), "g")
        .fetch_message_max_bytes(10_000)
        .queued_max_bytes(20_000);
    let connector = connect(settings);
    let reader = Reader::start([only_stream(&connector, TOPIC)]);
    for partition in 0..2 {
        reader.wait_for_numbers(TOPIC, partition, 0..40);
    }
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
}

pub(crate) fn a_member_with_many_quiet_partitions_asks_no_more_often_than_its_longest_wait_calls_for(
    version: impl Version,
) {
    // With more partitions than fit into a request, the room that the request itself had reserved counted
    // as a stream that does not read, and the broker was asked without any wait, again and again.
    let cluster = version.start(1);
    cluster.create_topic(TOPIC, 8, 1);
    let settings = config(&cluster.connect_string(), "g")
        .fetch_message_max_bytes(5000)
        .queued_max_bytes(5000)
        .fetch_wait_max(Duration::from_millis(400));
    let connector = connect(settings);
    let reader = Reader::start([only_stream(&connector, TOPIC)]);
    wait_until(LIMIT, "all positions", || {
        connector
            .stats()
            .partitions
            .iter()
            .all(|partition| partition.fetched.is_some())
    });
    let before = connector.stats().fetch_requests;
    let ((), took) = timed(|| {
        // Passing time is what this is about: eight messages, each of which may take a round.
        for number in 0..8_i32 {
            produce_numbers(&cluster, TOPIC, number, 0..1);
            reader.wait_for_numbers(TOPIC, number, 0..1);
        }
        wait_until(LIMIT, "a round without messages", || {
            connector.stats().fetch_requests >= before + 40
        });
    });
    assert!(took > Duration::from_secs(1), "40 requests in {took:?}");
    shut_down(&connector);
    reader.finish();
}

fn two_streams(
    mut topics: std::collections::HashMap<String, Vec<MessageStream>>,
) -> [MessageStream; 2] {
    topics.remove(TOPIC).unwrap().try_into().unwrap()
}

/// Ten at a time: from 0.11 on what is written at once is one batch, which comes whole whatever the fetch size.
fn produce_to_all(cluster: &impl Cluster, numbers: std::ops::Range<i64>) {
    for partition in 0..4 {
        for first in numbers.clone().step_by(10) {
            let end = numbers.end.min(first + 10);
            produce_numbers(cluster, TOPIC, partition, first..end);
        }
    }
}

fn produce_large(cluster: &impl Cluster, partition: i32, numbers: std::ops::Range<i64>) {
    for number in numbers {
        cluster.produce(TOPIC, partition, &[&large(number)]);
    }
}

/// Starts with its number; of 60,000 bytes and more, never two in one fetch of 100,000.
fn large(number: i64) -> String {
    format!(
        "{number} {}",
        "x".repeat(60_000 + usize::try_from(number).unwrap() * 100)
    )
}
