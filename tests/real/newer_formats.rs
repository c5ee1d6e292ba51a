//! What only messages of the formats 1 and 2 have: times, headers, zstd, and transactions that can be told apart.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use kafka_zk_consumer::IsolationLevel;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::protocol::Timestamp;
use kafka_zk_consumer::protocol::TimestampType;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::only_stream;
use crate::scenarios::topics_support::shut_down;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::ConsoleProducer;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::RecordBatch;
use crate::transactions::begin;
use crate::transactions::wait_for_end;

/// The time is that of the producer, or that of the broker, as the topic says. Format 0 has none.
pub(crate) fn messages_have_the_time_that_their_topic_wants(version: KafkaVersion) {
    let cluster = RealCluster::start(version, 1);
    let has_time = version >= KafkaVersion::V0_10_2_2;
    let topics = [
        ("made", TimestampType::CreateTime),
        ("appended", TimestampType::LogAppendTime),
    ];
    let topics = &topics[..if has_time { 2 } else { 1 }];
    for (topic, timestamp_type) in topics {
        let settings = match timestamp_type {
            TimestampType::CreateTime => [].as_slice(),
            TimestampType::LogAppendTime => &[("message.timestamp.type", "LogAppendTime")],
        };
        cluster.create_topic_with(topic, 1, 1, settings);
        let before = now();
        let brokers = cluster.broker_list();
        ConsoleProducer::produce(version, &brokers, topic, "gzip", &["a", "b"]);
        let after = now();
        let connector = connect(config(&cluster.connect_string(), topic));
        let mut stream = only_stream(&connector, topic);
        for _ in 0..2 {
            let message = stream.next_timeout(LIMIT).unwrap().unwrap();
            let Some(Timestamp {
                millis,
                timestamp_type: found,
            }) = message.timestamp()
            else {
                assert!(!has_time, "{message:?}");
                continue;
            };
            assert!(
                has_time && (before..=after).contains(&millis),
                "{message:?}"
            );
            assert_eq!(found, *timestamp_type);
        }
        shut_down(&connector);
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

pub(crate) fn headers_arrive_in_their_order(version: KafkaVersion) {
    let cluster = RealCluster::start(version, 1);
    cluster.create_topic("orders", 1, 1);
    let headers: [(&str, Option<&[u8]>); 4] = [
        ("trace", Some(b"1")),
        ("trace", Some(b"2")),
        ("null", None),
        ("", Some(b"")),
    ];
    let batch = RecordBatch::default()
        .record("with", &headers)
        .record("without", &[]);
    BrokerConnection::open(&cluster.broker_list())
        .and_then(|mut broker| broker.produce_batch("orders", 0, None, &batch.encode(None)))
        .unwrap();
    let connector = connect(config(&cluster.connect_string(), "g"));
    let mut stream = only_stream(&connector, "orders");
    let with = stream.next_timeout(LIMIT).unwrap().unwrap();
    let found: Vec<_> = with.headers().collect();
    let found: Vec<_> = found.iter().map(|h| (h.name.as_ref(), h.value)).collect();
    assert_eq!(found, headers);
    let without = stream.next_timeout(LIMIT).unwrap().unwrap();
    assert_eq!(without.headers().count(), 0);
    shut_down(&connector);
}

/// Of brokers from 2.1 on.
pub(crate) fn what_the_producer_compressed_with_zstd_arrives(version: KafkaVersion) {
    let cluster = RealCluster::start(version, 1);
    cluster.create_topic("words", 1, 1);
    let lines: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    let words: Vec<&str> = lines.iter().map(String::as_str).collect();
    ConsoleProducer::produce(version, &cluster.broker_list(), "words", "zstd", &words);
    let (connector, reader) = join(config(&cluster.connect_string(), "g"), &["words"]);
    reader.wait_for_numbers("words", 0, 0..50);
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
}

pub(crate) fn a_member_that_reads_what_is_committed_sees_neither_open_nor_aborted_transactions(
    version: KafkaVersion,
) {
    let cluster = RealCluster::start(version, 1);
    cluster.create_topic("orders", 1, 1);
    begin(&cluster, "aborted", &["x", "y"]).abort();
    wait_for_end(&cluster, 3);
    begin(&cluster, "committed", &["0", "1"]).commit();
    wait_for_end(&cluster, 6);
    cluster.produce("orders", 0, &["2"]);
    let open = begin(&cluster, "open", &["3"]);
    cluster.produce("orders", 0, &["4"]);

    let settings =
        config(&cluster.connect_string(), "g").isolation_level(IsolationLevel::ReadCommitted);
    let connector = connect(settings);
    let mut stream = only_stream(&connector, "orders");
    let mut take = |limit| {
        let next = stream.next_timeout(limit).unwrap();
        next.map(|message| (message.offset(), message.value().unwrap().to_vec()))
    };
    for expected in [(3, b"0"), (4, b"1"), (6, b"2")] {
        assert_eq!(take(LIMIT), Ok((expected.0, expected.1.to_vec())));
    }
    // What comes behind an open transaction waits for its end.
    assert_eq!(take(Duration::from_secs(1)), Err(StreamError::Timeout));
    open.commit();
    for expected in [(7, b"3"), (8, b"4")] {
        assert_eq!(take(LIMIT), Ok((expected.0, expected.1.to_vec())));
    }
    shut_down(&connector);
}
