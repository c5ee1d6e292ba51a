//! Commits beyond the plain one: in one attempt, with metadata, and through a client of one broker.

use std::time::Duration;

use kafka_zk_consumer::BrokerVersion;
use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::ErrorCode;
use kafka_zk_consumer::OffsetsStorage;
use kafka_zk_consumer::SimpleConsumer;
use kafka_zk_consumer::SimpleConsumerOptions;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded;
use kafka_zk_consumer::embedded::AnswerFault;
use kafka_zk_consumer::embedded::Api;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::protocol::FetchedOffset;
use kafka_zk_consumer::protocol::OffsetCommitPartition;
use kafka_zk_consumer::protocol::OffsetCommitRequest;
use kafka_zk_consumer::protocol::OffsetFetchRequest;

use crate::offsets::stored;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::wait_until;

/// What is known of a broker, and what it is.
const BROKERS: [(BrokerVersion, embedded::BrokerVersion); 5] = [
    (BrokerVersion::V0_8, embedded::BrokerVersion::V0_8_2),
    (BrokerVersion::V0_9, embedded::BrokerVersion::V0_9_0),
    (BrokerVersion::V0_10, embedded::BrokerVersion::V0_10_2),
    (BrokerVersion::V0_10, embedded::BrokerVersion::V2_3),
    (BrokerVersion::Probe, embedded::BrokerVersion::V0_8_2),
];

fn cluster(version: embedded::BrokerVersion) -> EmbeddedCluster {
    let cluster = quick_cluster().version(version).offsets_topic(1, 1);
    cluster.topic("orders", 2, 1).start().unwrap()
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn in_kafka(cluster: &EmbeddedCluster) -> ConsumerConfigBuilder {
    config(cluster, "g")
        .offsets_storage(OffsetsStorage::Kafka)
        .dual_commit_enabled(false)
        .offsets_channel_backoff(Duration::from_millis(50))
        .offsets_commit_max_retries(100)
        .auto_commit_enable(false)
}

/// A client of the broker that keeps the offsets of the group, which is found as a program would.
fn coordinator(cluster: &EmbeddedCluster, broker_version: BrokerVersion) -> SimpleConsumer {
    let options = || SimpleConsumerOptions {
        broker_version,
        ..SimpleConsumerOptions::default()
    };
    let any = SimpleConsumer::new(cluster.bootstrap().remove(0), options()).unwrap();
    let mut found = None;
    wait_until("the coordinator is known", || {
        found = any.find_coordinator("g").unwrap().coordinator;
        found.is_some()
    });
    SimpleConsumer::new(found.unwrap().address, options()).unwrap()
}

/// Of partition 0 and of partition 1.
fn fetched(client: &SimpleConsumer, storage: OffsetsStorage) -> Vec<FetchedOffset> {
    let request = OffsetFetchRequest {
        group: "g".to_owned(),
        partitions: Some(vec![orders(0), orders(1)]),
    };
    client.fetch_offsets(&request, storage).unwrap().partitions
}

fn offsets(client: &SimpleConsumer, storage: OffsetsStorage) -> [Option<i64>; 2] {
    let fetched = fetched(client, storage);
    [fetched[0].offset, fetched[1].offset]
}

#[test]
fn kafka_remembers_what_the_application_says_beside_an_offset() {
    for (known, version) in BROKERS {
        let cluster = cluster(version);
        let connector = connect(in_kafka(&cluster));
        let given = [
            (orders(0), 7, "after the invoice".to_owned()),
            (orders(1), 8, "x".repeat(4097)),
        ];
        // The coordinator refuses what is longer than it allows, and stores the rest.
        let error = connector.commit_offsets_with_metadata(given).unwrap_err();
        let Error::CommitFailed { committed, failed } = error else {
            panic!("{error}");
        };
        assert_eq!(committed, [(orders(0), 7)]);
        let too_large = ErrorCode::OffsetMetadataTooLarge;
        assert!(
            matches!(&failed[..], [(of, Error::Partition { code, .. })] if *of == orders(1) && *code == too_large),
            "{failed:?}"
        );

        let client = coordinator(&cluster, known);
        let found = fetched(&client, OffsetsStorage::Kafka);
        assert_eq!(found[0].offset, Some(7), "{version}");
        assert_eq!(found[0].metadata.as_deref(), Some("after the invoice"));
        assert_eq!(found[1].offset, None);

        connector.commit_offsets_for([(orders(0), 9)]).unwrap();
        let found = fetched(&client, OffsetsStorage::Kafka);
        assert_eq!(found[0].offset, Some(9));
        assert_eq!(found[0].metadata.as_deref(), Some(""));
    }
}

#[test]
fn a_client_of_one_broker_stores_and_finds_offsets_where_it_is_told_to() {
    for (known, version) in BROKERS {
        let cluster = cluster(version);
        let client = coordinator(&cluster, known);
        let commit = |number: i32, offset: i64, storage| {
            let request = OffsetCommitRequest {
                group: "g".to_owned(),
                partitions: vec![OffsetCommitPartition {
                    topic_partition: orders(number),
                    offset,
                    timestamp: None,
                    metadata: Some(String::new()),
                }],
                ..OffsetCommitRequest::default()
            };
            let answer = client.commit_offsets(&request, storage).unwrap();
            answer.partitions[0].error
        };
        assert_eq!(commit(0, 5, OffsetsStorage::ZooKeeper), None, "{version}");
        wait_until("the coordinator stores offsets", || {
            commit(1, 6, OffsetsStorage::Kafka).is_none()
        });
        assert_eq!(stored(&cluster, 0).as_deref(), Some("5"));
        assert_eq!(stored(&cluster, 1), None);
        assert_eq!(offsets(&client, OffsetsStorage::ZooKeeper), [Some(5), None]);
        assert_eq!(offsets(&client, OffsetsStorage::Kafka), [None, Some(6)]);
    }
}

#[test]
fn a_commit_of_one_attempt_is_not_repeated() {
    let cluster = cluster(embedded::BrokerVersion::V0_8_2);
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(in_kafka(&cluster));
    let mut stream = streams(&connector, "orders", 1).remove(0);
    next(&mut stream).unwrap();
    stream.mark_consumed();
    connector.commit_offsets().unwrap();
    let loading = AnswerFault::Error(ErrorCode::CoordinatorLoadInProgress);
    for _ in 0..2 {
        cluster.spoil_answer(0, Api::OffsetCommit, loading).unwrap();
    }
    for left in [1, 0] {
        let error = connector.commit_offsets_once().unwrap_err();
        assert!(matches!(error, Error::CommitFailed { .. }), "{error}");
        assert_eq!(cluster.answers_to_spoil(0).unwrap(), left);
    }
    assert!(!connector.commit_offsets_once().unwrap().is_empty());
}
