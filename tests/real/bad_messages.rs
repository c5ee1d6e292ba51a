//! Messages that are damaged or larger than a fetch are told and can be passed; what stands beside them
//! arrives.

use std::fs;
use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::OnBadMessage;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSetBuilder;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::Reader;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::only_stream;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::scenarios::topics_support::wait_for_event;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_until;

const FETCH_SIZE: i32 = 1000;

#[test]
fn a_message_larger_than_the_fetch_tells_the_size_it_needs_and_holds_back_its_partition_only() {
    for version in KafkaVersion::BY_DEFAULT {
        let mut cluster = RealCluster::start(version, 1);
        cluster.create_topic("orders", 2, 1);
        produce_numbers(&cluster, "orders", 0, 0..5);
        let large = format!("5 {}", "x".repeat(5000));
        cluster.produce("orders", 0, &[&large]);
        produce_numbers(&cluster, "orders", 0, 6..10);
        produce_numbers(&cluster, "orders", 1, 0..100);
        // Framing, header and the value itself.
        let needed = 12 + 14 + u64::try_from(large.len()).unwrap();
        let expected = StreamError::TooLarge {
            topic_partition: TopicPartition::new("orders", 0),
            offset: 5,
            fetch_size: FETCH_SIZE,
            needed: Some(needed),
        };
        assert_stops_and_skips(&mut cluster, &expected, 10);

        // The size it names is enough, one byte less is not.
        let needed = i32::try_from(needed).unwrap();
        for (group, size, outcome) in [("enough", needed, 10), ("short", needed - 1, 9)] {
            let settings = settings(&cluster, group, OnBadMessage::Skip);
            let connector = connect(settings.fetch_message_max_bytes(size));
            let reader = Reader::start([only_stream(&connector, "orders")]);
            wait_until(LIMIT, "the last message", || {
                reader.offsets("orders", 0).last() == Some(&9)
            });
            assert_eq!(reader.offsets("orders", 0).len(), outcome);
            shut_down(&connector);
            reader.finish();
        }
    }
}

/// Brokers that speak of the size in words of another format than they send may name any size.
pub(crate) fn a_message_larger_than_the_fetch_is_told_or_arrives_and_the_rest_goes_on(
    version: KafkaVersion,
) {
    let cluster = RealCluster::start(version, 1);
    cluster.create_topic("orders", 2, 1);
    produce_numbers(&cluster, "orders", 0, 0..5);
    cluster.produce("orders", 0, &[&format!("5 {}", "x".repeat(5000))]);
    produce_numbers(&cluster, "orders", 0, 6..10);
    produce_numbers(&cluster, "orders", 1, 0..100);

    let connector = connect(settings(&cluster, "g", OnBadMessage::Skip));
    let reader = Reader::start([only_stream(&connector, "orders")]);
    reader.wait_for_numbers("orders", 1, 0..100);
    wait_until(LIMIT, "the last message", || {
        reader.offsets("orders", 0).last() == Some(&9)
    });
    let mut offsets = reader.offsets("orders", 0);
    let errors = reader.errors();
    println!("{version:?}: {errors:?}");
    match errors[..] {
        [] => {}
        [StreamError::TooLarge { offset: 5, .. }] => offsets.insert(5, 5),
        _ => panic!("{errors:?}"),
    }
    assert_eq!(offsets, (0..10).collect::<Vec<_>>());
    shut_down(&connector);
    reader.finish();
}

#[test]
fn a_compressed_set_larger_than_the_fetch_is_told_once_and_passed_as_a_whole() {
    // Skipping went on one offset behind the position, which was still inside of the same compressed
    // message: each of the messages in it cost an error and a fetch.
    let mut cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic("orders", 2, 1);
    produce_numbers(&cluster, "orders", 0, 0..5);
    let mut set = MessageSetBuilder::compressed(Codec::Gzip);
    for number in 5..15 {
        let value = format!("{number} {}", noise(2000, number));
        set.message(number - 5, None, Some(value.as_bytes()))
            .unwrap();
    }
    append(&mut cluster, set.build().unwrap().as_bytes());
    produce_numbers(&cluster, "orders", 0, 15..20);
    produce_numbers(&cluster, "orders", 1, 0..100);

    let connector = connect(settings(&cluster, "g", OnBadMessage::Skip));
    let reader = Reader::start([only_stream(&connector, "orders")]);
    wait_until(LIMIT, "the last message", || {
        reader.offsets("orders", 0).last() == Some(&19)
    });
    let expected: Vec<i64> = (0..5).chain(15..20).collect();
    assert_eq!(reader.offsets("orders", 0), expected);
    let errors = reader.errors();
    assert!(
        matches!(
            errors[..],
            [StreamError::TooLarge {
                offset: 5,
                needed: Some(2000..),
                ..
            }]
        ),
        "{errors:?}"
    );
    shut_down(&connector);
    reader.finish();
}

#[test]
fn a_message_damaged_on_the_brokers_disk_is_told_and_the_rest_of_the_stream_arrives() {
    for version in KafkaVersion::BY_DEFAULT {
        let mut cluster = RealCluster::start(version, 1);
        cluster.create_topic("orders", 2, 1);
        produce_numbers(&cluster, "orders", 0, 0..5);
        cluster.produce("orders", 0, &["damage-me"]);
        produce_numbers(&cluster, "orders", 0, 6..20);
        produce_numbers(&cluster, "orders", 1, 0..100);
        damage(&mut cluster, b"damage-me");
        let stops = |error: &StreamError| matches!(error, StreamError::Corrupt { offset: 5, reason, .. } if reason.contains("checksum"));
        assert_stops_and_skips_like(&mut cluster, stops, 20, &[5]);
    }
}

#[test]
fn a_compressed_message_damaged_on_the_brokers_disk_is_told_and_passed_as_a_whole() {
    let mut cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic("orders", 2, 1);
    produce_numbers(&cluster, "orders", 0, 0..5);
    let mut set = MessageSetBuilder::compressed(Codec::Snappy);
    for number in 5..8 {
        let value = format!("{number} damage-me-{number}");
        set.message(number - 5, None, Some(value.as_bytes()))
            .unwrap();
    }
    append(&mut cluster, set.build().unwrap().as_bytes());
    produce_numbers(&cluster, "orders", 0, 8..20);
    produce_numbers(&cluster, "orders", 1, 0..100);
    // Snappy leaves the first occurrence of a text as it is.
    damage(&mut cluster, b"damage-me-5");
    let stops = |error: &StreamError| matches!(error, StreamError::Corrupt { offset: 5..=7, reason, .. } if reason.contains("checksum"));
    assert_stops_and_skips_like(&mut cluster, stops, 20, &[5, 6, 7]);
}

#[test]
fn a_message_damaged_before_it_was_compressed_is_passed_alone() {
    for version in KafkaVersion::BY_DEFAULT {
        let mut cluster = RealCluster::start(version, 1);
        cluster.create_topic("orders", 2, 1);
        produce_numbers(&cluster, "orders", 0, 0..5);
        let set = gzip_with_damage(5..15, 9);
        append(&mut cluster, &set);
        produce_numbers(&cluster, "orders", 0, 15..20);
        produce_numbers(&cluster, "orders", 1, 0..100);
        let stops = |error: &StreamError| matches!(error, StreamError::Corrupt { offset: 9, reason, .. } if reason.contains("checksum"));
        assert_stops_and_skips_like(&mut cluster, stops, 20, &[9]);
    }
}

/// With `fail` the partition stops with this error and goes on after a skip; with `skip` by itself.
#[track_caller]
fn assert_stops_and_skips(cluster: &mut RealCluster, expected: &StreamError, end: i64) {
    assert_stops_and_skips_like(cluster, |error| error == expected, end, &[5]);
}

/// Partition 0 has the messages up to `end`, of which those in `lost` cannot be read; partition 1 has 100.
#[track_caller]
fn assert_stops_and_skips_like(
    cluster: &mut RealCluster,
    is_expected: impl Fn(&StreamError) -> bool,
    end: i64,
    lost: &[i64],
) {
    let readable: Vec<i64> = (0..end).filter(|offset| !lost.contains(offset)).collect();
    let before: Vec<i64> = (0..lost[0]).collect();
    let bad = TopicPartition::new("orders", 0);

    let connector = connect(settings(cluster, "fail", OnBadMessage::Fail));
    let mut stream = only_stream(&connector, "orders");
    let (offsets, errors) = until_silence(&mut stream, 100 + before.len());
    assert_eq!(offsets[0], before);
    assert_eq!(
        offsets[1],
        (0..100).collect::<Vec<_>>(),
        "the other partition goes on"
    );
    assert!(errors.len() == 1 && is_expected(&errors[0]), "{errors:?}");
    let reason =
        wait_for_event(
            &connector.events(),
            "the news of a bad message",
            |event| match event {
                Event::BadMessage {
                    topic_partition,
                    reason,
                    ..
                } if *topic_partition == bad => Some(reason.clone()),
                _ => None,
            },
        );
    assert!(reason.contains("orders/0 at offset"), "{reason}");
    let standing = connector.stats().partitions[0].stopped_at;
    assert!(
        standing.is_some_and(|offset| lost.contains(&offset)),
        "{standing:?}"
    );
    // It stays before the bad message, also after a commit and in the next life.
    connector.commit_offsets().unwrap();
    let stored = cluster
        .shell()
        .get("/consumers/fail/offsets/orders/0")
        .unwrap();
    assert_eq!(stored, lost[0].to_string());
    assert_eq!(stream.skip_bad_message(&bad), standing);
    assert_eq!(stream.skip_bad_message(&bad), None);
    let (offsets, errors) = until_silence(&mut stream, readable.len() - before.len());
    assert_eq!(offsets[0], readable[before.len()..]);
    assert_eq!(errors, []);
    shut_down(&connector);

    let connector = connect(settings(cluster, "skip", OnBadMessage::Skip));
    let mut stream = only_stream(&connector, "orders");
    let (offsets, errors) = until_silence(&mut stream, 100 + readable.len());
    assert_eq!(offsets[0], readable);
    assert_eq!(offsets[1].len(), 100);
    assert!(errors.len() == 1 && is_expected(&errors[0]), "{errors:?}");
    shut_down(&connector);
    let stored = cluster
        .shell()
        .get("/consumers/skip/offsets/orders/0")
        .unwrap();
    assert_eq!(stored, end.to_string());
}

/// Offsets of both partitions and errors, until so many messages and then nothing more came.
fn until_silence(stream: &mut MessageStream, count: usize) -> ([Vec<i64>; 2], Vec<StreamError>) {
    let (mut offsets, mut errors) = ([Vec::new(), Vec::new()], Vec::new());
    let mut limit = LIMIT;
    loop {
        match stream.next_timeout(limit).unwrap() {
            Ok(message) => {
                offsets[usize::try_from(message.partition()).unwrap()].push(message.offset());
            }
            Err(StreamError::Timeout) => return (offsets, errors),
            Err(error) => errors.push(error),
        }
        if offsets.iter().map(Vec::len).sum::<usize>() >= count {
            // What should not come has had its time once nothing comes.
            limit = Duration::from_millis(700);
        }
    }
}

fn settings(cluster: &RealCluster, group: &str, choice: OnBadMessage) -> ConsumerConfigBuilder {
    config(&cluster.connect_string(), group)
        .fetch_message_max_bytes(FETCH_SIZE)
        .on_bad_message(choice)
}

/// Appends a set to partition 0 as it is.
fn append(cluster: &mut RealCluster, set: &[u8]) {
    let mut broker = BrokerConnection::open(&cluster.broker(0).address()).unwrap();
    broker.produce_set("orders", 0, set).unwrap();
}

/// Changes one byte of this text in the log of partition 0, while the broker is down in good order, so
/// that it has no reason to look through its log when it starts.
fn damage(cluster: &mut RealCluster, text: &[u8]) {
    cluster.broker(0).stop();
    let folder = cluster.broker(0).partition_folder("orders", 0);
    let log = folder.join(format!("{:020}.log", 0));
    let mut bytes = fs::read(&log).unwrap();
    let at = bytes
        .windows(text.len())
        .position(|window| window == text)
        .expect("the text stands in the log");
    bytes[at] ^= 0x20;
    fs::write(&log, bytes).unwrap();
    cluster.broker(0).restart();
    cluster.wait_for_leaders("orders");
}

/// A gzip set of numbers; the checksum of `damaged` does not fit.
fn gzip_with_damage(numbers: std::ops::Range<i64>, damaged: i64) -> Vec<u8> {
    let mut inner = Vec::new();
    for number in numbers.clone() {
        let value = number.to_string();
        let mut entry = entry(number - numbers.start, 0, value.as_bytes());
        if number == damaged {
            *entry.last_mut().unwrap() ^= 1;
        }
        inner.extend(entry);
    }
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&inner).unwrap();
    entry(0, 1, &packed.finish().unwrap())
}

/// An entry of a message set, of format 0 and without a key.
fn entry(offset: i64, attributes: u8, value: &[u8]) -> Vec<u8> {
    let length = i32::try_from(value.len()).unwrap();
    let mut checked = vec![0, attributes];
    checked.extend((-1_i32).to_be_bytes());
    checked.extend(length.to_be_bytes());
    checked.extend(value);
    let mut entry = offset.to_be_bytes().to_vec();
    entry.extend((length + 14).to_be_bytes());
    entry.extend(crc32fast::hash(&checked).to_be_bytes());
    entry.extend(checked);
    entry
}

/// Text that gzip cannot make much smaller.
fn noise(length: usize, seed: i64) -> String {
    let mut state = seed.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            char::from(b'!' + u8::try_from(state % 90).unwrap())
        })
        .collect()
}
