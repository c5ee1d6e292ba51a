//! Messages of every kind arrive, each once and in order.

use std::collections::BTreeMap;
use std::time::Duration;

use kafka_zk_consumer::BrokerAddress;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::SyncProducer;
use kafka_zk_consumer::SyncProducerOptions;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSetBuilder;
use kafka_zk_consumer::protocol::ProducePartition;
use kafka_zk_consumer::protocol::ProduceRequest;
use kafka_zk_consumer::protocol::RequiredAcks;

use crate::scenarios::member::config;
use crate::scenarios::topics_support::connect;
use crate::support::Cluster;
use crate::support::Version;

const PARTITIONS: i32 = 4;
const PER_KIND: i32 = 100;

pub(crate) fn every_message_of_every_codec_arrives_once_and_in_order_with_any_number_of_streams(
    version: impl Version,
) {
    let cluster = version.start(1);
    cluster.create_topic("orders", PARTITIONS, 1);
    produce_all_kinds(&cluster, "orders");
    for streams in [1, 3, 6] {
        let group = format!("with-{streams}-streams");
        consume_all(&cluster, &group, streams);
    }
}

/// Each partition gets plain, gzip, snappy and lz4 messages, numbered from 0.
fn produce_all_kinds(cluster: &impl Cluster, topic: &str) {
    let address: BrokerAddress = cluster.address(0).parse().unwrap();
    let producer = SyncProducer::new(address, SyncProducerOptions::default()).unwrap();
    for partition in 0..PARTITIONS {
        let mut number = 0;
        for codec in [
            None,
            Some(Codec::Gzip),
            Some(Codec::Snappy),
            Some(Codec::Lz4),
        ] {
            let mut set = match codec {
                None => MessageSetBuilder::new(),
                Some(codec) => MessageSetBuilder::compressed(codec),
            };
            for _ in 0..PER_KIND {
                let key = format!("{partition}");
                let value = format!("message {number}");
                set.message(number, Some(key.as_bytes()), Some(value.as_bytes()))
                    .unwrap();
                number += 1;
            }
            let request = ProduceRequest {
                acks: RequiredAcks::Leader,
                timeout: Duration::from_secs(5),
                partitions: vec![ProducePartition {
                    topic_partition: TopicPartition::new(topic, partition),
                    message_set: set.build().unwrap(),
                }],
                ..ProduceRequest::default()
            };
            let response = producer.send(&request).unwrap().unwrap();
            assert_eq!(response.partitions[0].error, None, "{codec:?}");
        }
    }
}

fn consume_all(cluster: &impl Cluster, group: &str, streams: usize) {
    let config = config(&cluster.connect_string(), group);
    let connector = connect(config.consumer_timeout(Some(Duration::from_secs(3))));
    let mut topics = connector
        .create_message_streams([("orders", streams)])
        .unwrap();
    let streams = topics.remove("orders").unwrap();
    let threads: Vec<_> = streams
        .into_iter()
        .map(|stream| std::thread::spawn(move || read_until_silence(stream)))
        .collect();
    let mut seen = BTreeMap::new();
    for thread in threads {
        for (partition, values) in thread.join().unwrap() {
            assert!(
                seen.insert(partition, values).is_none(),
                "one partition, one stream"
            );
        }
    }
    let expected: Vec<String> = (0..4 * PER_KIND).map(|n| format!("message {n}")).collect();
    for partition in 0..PARTITIONS {
        assert_eq!(
            seen.get(&partition),
            Some(&expected),
            "partition {partition}"
        );
    }
}

fn read_until_silence(stream: MessageStream) -> BTreeMap<i32, Vec<String>> {
    let mut values: BTreeMap<i32, Vec<String>> = BTreeMap::new();
    for message in stream {
        match message {
            Ok(message) => {
                let value = String::from_utf8(message.value().unwrap().to_vec()).unwrap();
                assert_eq!(
                    message.key(),
                    Some(message.partition().to_string().as_bytes())
                );
                values.entry(message.partition()).or_default().push(value);
            }
            Err(StreamError::Timeout) => break,
            Err(error) => panic!("{error}"),
        }
    }
    values
}
