//! Whole consumers against embedded brokers of 0.10 and later, and while brokers become such ones.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::SimpleConsumer;
use kafka_zk_consumer::SimpleConsumerOptions;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::FetchRequest;
use kafka_zk_consumer::protocol::MessageFormat;
use kafka_zk_consumer::protocol::MessageSetBuilder;
use kafka_zk_consumer::protocol::NewMessage;
use kafka_zk_consumer::protocol::OffsetTime;
use kafka_zk_consumer::protocol::RequiredAcks;
use kafka_zk_consumer::protocol::TimestampType;

use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::wait_until;
use crate::scenarios::numbered::Journal;
use crate::scenarios::numbered::Member;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::numbered::TOPIC;
use crate::scenarios::numbered::member_config;
use crate::scenarios::topics_support;
use crate::support::Version;

const FIRST_TIME: i64 = 1_000_000;

fn orders() -> TopicPartition {
    TopicPartition::new("orders", 0)
}

fn cluster(version: BrokerVersion) -> EmbeddedCluster {
    let builder = quick_cluster().version(version).topic("orders", 1, 1);
    builder.log_segment_bytes(1_000).start().unwrap()
}

/// Appends messages one by one, each a second later than the one before.
fn produce_seconds(cluster: &EmbeddedCluster, count: i64) {
    for number in 0..count {
        let value = number.to_string();
        let message = NewMessage {
            value: Some(value.as_bytes()),
            timestamp: Some(FIRST_TIME + 1_000 * number),
            headers: &[("number", Some(value.as_bytes())), ("none", None)],
            ..NewMessage::default()
        };
        cluster.produce_messages("orders", 0, [message]).unwrap();
    }
}

fn only(connector: &ConsumerConnector) -> MessageStream {
    streams(connector, "orders", 1).remove(0)
}

fn find(connector: &ConsumerConnector, time: OffsetTime) -> i64 {
    connector.offsets_for_times([(orders(), time)]).unwrap()[0].1
}

#[test]
fn times_and_headers_reach_the_application_as_far_as_the_brokers_keep_them() {
    for version in BrokerVersion::ALL {
        let cluster = cluster(version);
        produce_seconds(&cluster, 3);
        let connector = connect(config(&cluster, "g"));
        let mut stream = only(&connector);
        for number in 0..3 {
            let message = next(&mut stream).unwrap();
            let time = message.timestamp().map(|it| (it.timestamp_type, it.millis));
            let sent = (TimestampType::CreateTime, FIRST_TIME + 1_000 * number);
            let keeps_times = version >= BrokerVersion::V0_10_0;
            assert_eq!(time, keeps_times.then_some(sent), "{version}");
            let headers: Vec<String> = message
                .headers()
                .map(|header| format!("{}={:?}", header.name, header.value))
                .collect();
            let value = number.to_string();
            let sent = [
                format!("number={:?}", Some(value.as_bytes())),
                String::from("none=None"),
            ];
            match version >= BrokerVersion::V0_11_0 {
                true => assert_eq!(headers, sent, "{version}"),
                false => assert_eq!(headers, [""; 0], "{version}"),
            }
        }
    }
}

#[test]
fn a_start_by_time_is_the_first_message_of_that_time_where_brokers_know_times() {
    for version in [
        BrokerVersion::V0_10_2,
        BrokerVersion::V0_11_0,
        BrokerVersion::V2_3,
    ] {
        let cluster = cluster(version);
        produce_seconds(&cluster, 30);
        let connector = connect(config(&cluster, "g"));
        let mut stream = only(&connector);
        assert_eq!(next(&mut stream).unwrap().offset(), 0);
        for (millis, offset) in [(0, 0), (9_000, 9), (9_001, 10), (29_000, 29), (29_001, 30)] {
            let time = OffsetTime::Timestamp(FIRST_TIME + millis);
            assert_eq!(find(&connector, time), offset, "{version}: {millis}");
        }
        assert_eq!(find(&connector, OffsetTime::Timestamp(0)), 0);
        assert_eq!(find(&connector, OffsetTime::Latest), 30);
        let time = OffsetTime::Timestamp(FIRST_TIME + 10_500);
        assert_eq!(connector.seek_to_time(&orders(), time).unwrap(), 11);
        let message = next(&mut stream).unwrap();
        assert_eq!(message.offset(), 11);
        assert_eq!(message.timestamp().unwrap().millis, FIRST_TIME + 11_000);
    }
}

#[test]
fn logs_whose_messages_have_no_times_are_asked_for_those_of_their_files() {
    // Brokers from 0.10.1 on refuse with error 43 where the log is in format 0.
    for (version, format) in [
        (BrokerVersion::V0_9_0, MessageFormat::V0),
        (BrokerVersion::V0_10_0, MessageFormat::V1),
        (BrokerVersion::V0_10_2, MessageFormat::V0),
        (BrokerVersion::V2_3, MessageFormat::V0),
    ] {
        let builder = quick_cluster().version(version).message_format(format);
        let cluster = builder.topic("orders", 1, 1).start().unwrap();
        produce_seconds(&cluster, 10);
        let connector = connect(config(&cluster, "g"));
        assert_eq!(next(&mut only(&connector)).unwrap().offset(), 0);
        let is_young = OffsetTime::Timestamp(FIRST_TIME);
        assert_eq!(find(&connector, is_young), 0, "{version}: all is younger");
        let far = OffsetTime::Timestamp(4_102_444_800_000);
        assert_eq!(find(&connector, far), 10, "{version}: all is older");
    }
}

#[test]
fn a_message_larger_than_a_fetch_is_told_by_old_brokers_and_given_by_later_ones() {
    let large = "x".repeat(5_000);
    for version in BrokerVersion::ALL {
        let cluster = quick_cluster().version(version).topic("orders", 1, 1);
        let cluster = cluster.start().unwrap();
        cluster.produce("orders", 0, ["first"]).unwrap();
        cluster.produce("orders", 0, [&large]).unwrap();
        cluster.produce("orders", 0, ["last"]).unwrap();
        let connector = connect(config(&cluster, "g").fetch_message_max_bytes(1_000));
        let mut stream = only(&connector);
        assert_eq!(next(&mut stream).unwrap().offset(), 0);
        match version < BrokerVersion::V0_10_2 {
            true => {
                let error = next(&mut stream).unwrap_err();
                let is_told = matches!(error, StreamError::TooLarge { offset: 1, .. });
                assert!(is_told, "{version}: {error}");
            }
            false => {
                let sizes = [0; 2].map(|_| next(&mut stream).unwrap().value().unwrap().len());
                assert_eq!(sizes, [5_000, 4], "{version}");
            }
        }
    }
}

/// As the documentation of Kafka wants upgrades: all brokers get the program, and then one by one the protocol among
/// them and the format of messages.
#[test]
fn brokers_upgraded_one_by_one_from_0_9_0_to_2_3_cost_neither_a_message_nor_a_partition() {
    const PARTITIONS: i32 = 2;
    let cluster = Version::start(BrokerVersion::V0_9_0, 2);
    cluster.create_topic(TOPIC, PARTITIONS, 2).unwrap();
    let journal = Journal::default();
    let config = member_config(&cluster.connect_string(), "a", Duration::from_secs(20));
    let member = Member::join(config, &journal);
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, Duration::from_millis(5));
    journal.wait_for_flow(PARTITIONS);
    let state = member.connector.state();

    let session = cluster.zookeeper().local_session();
    let mut registered = BTreeSet::new();
    for version in [
        BrokerVersion::V0_10_2,
        BrokerVersion::V0_10_2,
        BrokerVersion::V2_3,
        BrokerVersion::V2_3,
    ] {
        for id in [0, 1] {
            cluster.stop(id).unwrap();
            cluster.restart_as(id, version).unwrap();
            wait_until("replicas that are in sync", || {
                let partitions = cluster.describe().partitions;
                partitions.iter().all(|partition| partition.isr.len() == 2)
            });
            let node = session.get(&format!("/brokers/ids/{id}")).unwrap().0;
            let node: serde_json::Value = serde_json::from_slice(&node).unwrap();
            registered.insert(node["version"].as_i64().unwrap());
            journal.wait_for_flow(PARTITIONS);
        }
    }
    assert_eq!(registered, BTreeSet::from([2, 4]), "2 in the first round");

    let written = producer.stop();
    journal.wait_for_all(&written);
    assert_eq!(member.connector.state(), state, "the same generation");
    member.leave();
    journal.assert_without_gap(&written);
    journal.assert_without_repeats();
    mixed_log_is_read_as_one(&cluster);
}

/// By a consumer that takes the formats as they are, and by one that has all converted.
fn mixed_log_is_read_as_one(cluster: &EmbeddedCluster) {
    let description = cluster.describe();
    let partition = description.partition(TOPIC, 0).unwrap();
    let expected: Vec<i64> = (0..partition.log_end).collect();
    let config = topics_support::config(&cluster.connect_string(), "all");
    let (connector, reader) = topics_support::join(config, &[TOPIC]);
    wait_until("the whole log", || {
        reader.offsets(TOPIC, 0).len() >= expected.len()
    });
    assert_eq!(reader.offsets(TOPIC, 0), expected);
    let values = reader.values(TOPIC, 0);
    topics_support::shut_down(&connector);
    reader.finish();

    let leader = usize::try_from(partition.leader.unwrap()).unwrap();
    let address = cluster.bootstrap().swap_remove(leader);
    let consumer = SimpleConsumer::new(address, SimpleConsumerOptions::default()).unwrap();
    let of = TopicPartition::new(TOPIC, 0);
    let mut old = Vec::new();
    while old.len() < expected.len() {
        let offset = i64::try_from(old.len()).unwrap();
        let request = FetchRequest::default().fetch(of.clone(), offset, 10_000);
        let fetched = consumer.fetch(&request).unwrap().partitions.remove(0);
        assert_eq!(fetched.header.error, None);
        let before = old.len();
        for message in fetched.message_set.messages() {
            let message = message.unwrap();
            assert_eq!(message.timestamp, None, "format 0 has none");
            if message.offset >= offset {
                let value = message.value.unwrap().to_vec();
                old.push(String::from_utf8(value).unwrap());
            }
        }
        assert!(old.len() > before, "stuck at {offset}");
    }
    assert_eq!(old, values);
}

#[test]
fn every_codec_of_format_2_is_read_from_within_its_batches_too() {
    let cluster = cluster(BrokerVersion::V2_3);
    let mut end = 0;
    for codec in [
        Some(Codec::Gzip),
        Some(Codec::Snappy),
        Some(Codec::Lz4),
        #[cfg(feature = "zstd")]
        Some(Codec::Zstd),
        None,
    ] {
        let builder = match codec {
            Some(codec) => MessageSetBuilder::compressed(codec),
            None => MessageSetBuilder::new(),
        };
        let mut builder = builder.in_format(MessageFormat::V2);
        for offset in 0..5 {
            let value = (end + offset).to_string();
            builder
                .message(offset, None, Some(value.as_bytes()))
                .unwrap();
        }
        let set = builder.build().unwrap();
        cluster
            .produce_set(&orders(), &set, RequiredAcks::All)
            .unwrap();
        end += 5;
    }
    let session = cluster.zookeeper().local_session();
    for start in (3..end).step_by(5) {
        let group = format!("from-{start}");
        let path = format!("/consumers/{group}/offsets/orders/0");
        let mode = kafka_zk_consumer::embedded::CreateMode::Persistent;
        let stored = start.to_string();
        session
            .create_with_parents(&path, stored.as_bytes(), mode)
            .unwrap();
        let connector = connect(config(&cluster, &group));
        let mut stream = only(&connector);
        for offset in start..end {
            let message = next(&mut stream).unwrap();
            assert_eq!(message.offset(), offset);
            assert_eq!(message.value(), Some(offset.to_string().as_bytes()));
        }
    }
}
