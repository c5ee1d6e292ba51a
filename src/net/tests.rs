//! The clients against recorded answers of a real 0.8.2.2 broker.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Broker;
use crate::cluster::TopicPartition;
use crate::config::BrokerAddressMap;
use crate::error::Error;
use crate::error::ErrorCode;
use crate::net::BrokerDirectory;
use crate::net::ClusterMetadata;
use crate::net::ClusterMetadataOptions;
use crate::net::RegisteredBrokers;
use crate::net::SimpleConsumer;
use crate::net::SimpleConsumerOptions;
use crate::net::SyncProducer;
use crate::net::SyncProducerOptions;
use crate::net::fake_broker::FakeBroker;
use crate::net::fake_broker::Then;
use crate::protocol::FetchRequest;
use crate::protocol::ListOffsetsPartition;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::MetadataRequest;
use crate::protocol::OffsetTime;
use crate::protocol::ProduceRequest;
use crate::protocol::Reader;
use crate::protocol::Request;
use crate::protocol::RequestHeader;
use crate::protocol::tests::recorded;
use crate::thread::StopSignal;
use crate::thread::Stopper;

/// A broker that expects the recorded request, byte for byte, and gives the recorded answer.
fn replaying<Q: Request>(name: &'static str) -> FakeBroker {
    FakeBroker::handling::<Q>(move |received, stream| {
        let request = recorded::frame(name, "request");
        let mut frame = Reader::new(&request[4..]);
        let header = RequestHeader::decode(&mut frame).unwrap();
        assert_eq!(header.api_version, received.header.api_version);
        let body = request.len() - frame.remaining();
        assert_eq!(received.body(), &request[body..]);
        let mut answer = recorded::frame(name, "response");
        answer[4..8].copy_from_slice(&received.header.correlation_id.to_be_bytes());
        stream.write_all(&answer).unwrap();
        Then::GoOn
    })
}

fn consumer_of(broker: &FakeBroker) -> SimpleConsumer {
    SimpleConsumer::new(broker.address(), SimpleConsumerOptions::default()).unwrap()
}

fn at(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

#[test]
fn a_fetch_of_four_partitions_brings_data_for_three_and_the_code_of_the_fourth() {
    let broker = replaying::<FetchRequest>("k082-fetch-v0-multi");
    let request = FetchRequest::default()
        .fetch(at("multi", 0), 0, 1 << 20)
        .fetch(at("multi", 1), 0, 1 << 20)
        .fetch(at("multi", 2), 1, 1 << 20)
        .fetch(at("plain", 0), 6, 1 << 20);
    let answer = consumer_of(&broker).fetch(&request).unwrap();
    let found: Vec<_> = answer
        .partitions
        .iter()
        .map(|it| {
            (
                it.topic_partition.to_string(),
                it.header.error,
                it.message_set.as_bytes().len(),
            )
        })
        .collect();
    let not_here = Some(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(
        found,
        [
            (String::from("plain/0"), None, 137),
            (String::from("multi/0"), None, 111),
            (String::from("multi/1"), not_here, 0),
            (String::from("multi/2"), None, 74),
        ]
    );
}

#[test]
fn a_fetch_of_an_empty_partition_brings_neither_error_nor_data() {
    let broker = replaying::<FetchRequest>("k082-fetch-v0-empty-partition");
    let request = FetchRequest::default().fetch(at("empty", 0), 0, 1 << 20);
    let answer = consumer_of(&broker).fetch(&request).unwrap();
    let partition = &answer.partitions[0];
    let header = &partition.header;
    assert_eq!((header.error, header.high_watermark), (None, Some(0)));
    assert!(partition.message_set.as_bytes().is_empty());
}

#[test]
fn the_latest_offset_is_the_high_watermark() {
    let broker = replaying::<ListOffsetsRequest>("k082-list-offsets-v0-latest");
    let offset =
        consumer_of(&broker).earliest_or_latest_offset(&at("plain", 0), OffsetTime::Latest);
    assert_eq!(offset.unwrap(), 11);
}

#[test]
fn offsets_of_segments_come_newest_first() {
    let broker = replaying::<ListOffsetsRequest>("k082-list-offsets-v0-latest-many");
    let request = ListOffsetsRequest {
        partitions: vec![ListOffsetsPartition {
            current_leader_epoch: None,
            topic_partition: at("seg", 0),
            time: OffsetTime::Latest,
            max_offsets: 100,
        }],
        ..ListOffsetsRequest::default()
    };
    let answer = consumer_of(&broker).offsets_before(&request).unwrap();
    assert_eq!(answer.partitions[0].offsets, [12, 9, 6, 3, 0]);
}

#[test]
fn an_offset_of_an_unknown_topic_is_refused_with_code_3() {
    let broker = replaying::<ListOffsetsRequest>("k082-list-offsets-v0-unknown");
    let error = consumer_of(&broker)
        .earliest_or_latest_offset(&at("nope", 0), OffsetTime::Latest)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "broker {} refused ListOffsets of nope/0: UnknownTopicOrPartition (code 3)",
            broker.address()
        )
    );
}

#[test]
fn no_topic_at_all_asks_for_every_topic() {
    let broker = replaying::<MetadataRequest>("k082-metadata-v0-all");
    let answer = consumer_of(&broker).topic_metadata(&[]).unwrap();
    assert_eq!(answer.brokers.len(), 2);
    assert!(answer.topics.len() > 10);
}

#[test]
fn messages_for_a_broker_that_does_not_lead_are_refused_with_code_6() {
    let broker = replaying::<ProduceRequest>("k082-produce-v0-not-leader");
    let producer = SyncProducer::new(broker.address(), SyncProducerOptions::default()).unwrap();
    let recorded = recorded::frame("k082-produce-v0-not-leader", "request");
    let mut frame = Reader::new(&recorded[4..]);
    RequestHeader::decode(&mut frame).unwrap();
    let request = ProduceRequest::decode(0, &mut frame).unwrap();
    let answer = producer.send(&request).unwrap().unwrap();
    let partition = &answer.partitions[0];
    assert_eq!(partition.error, Some(ErrorCode::NotLeaderOrFollower));
    assert_eq!(partition.base_offset, None);
}

/// Knows one broker, and every topic.
struct OneBroker(Broker);

impl BrokerDirectory for OneBroker {
    fn brokers(&self, _stop: &StopSignal) -> Result<RegisteredBrokers, Error> {
        Ok(RegisteredBrokers::in_version(1, vec![self.0.clone()]))
    }

    fn existing_topics(&self, topics: &[String], _stop: &StopSignal) -> Result<Vec<String>, Error> {
        Ok(topics.to_vec())
    }
}

#[test]
fn a_dead_broker_takes_its_leaders_away_and_leaves_those_that_only_miss_a_replica() {
    let leaders = |name, topics: [&str; 2], partitions: [TopicPartition; 3]| {
        let broker = replaying::<MetadataRequest>(name);
        let options = ClusterMetadataOptions {
            client_id: String::new(),
            socket_timeout: Duration::from_secs(20),
            backoff: Duration::ZERO,
            max_age: Duration::from_secs(20),
            address_map: BrokerAddressMap::default(),
        };
        let metadata = ClusterMetadata::new(Arc::new(OneBroker(broker.as_broker(0))), options);
        let topics = topics.map(String::from);
        let view = metadata.refresh(&topics, &Stopper::new().signal()).unwrap();
        partitions.map(|it| view.leader(&it).map(|broker| broker.id))
    };
    assert_eq!(
        leaders(
            "k082-metadata-v0-leader-unavailable",
            ["only1", "multi"],
            [at("only1", 0), at("multi", 1), at("multi", 2)],
        ),
        [None, None, Some(0)]
    );
    assert_eq!(
        leaders(
            "k082-metadata-v0-replica-unavailable",
            ["repl", "follow"],
            [at("repl", 0), at("follow", 0), at("follow", 1)],
        ),
        [Some(0), Some(0), None]
    );
}
