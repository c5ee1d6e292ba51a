//! What is written is read again.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::Just;
use proptest::prelude::Strategy;
use proptest::prelude::any;
use proptest::prop_assert_eq;
use proptest::prop_oneof;
use proptest::proptest;

use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::AbortedTransaction;
use crate::protocol::ApiVersion;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::DecodeError;
use crate::protocol::FetchMetadata;
use crate::protocol::FetchPartition;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::FetchedPartition;
use crate::protocol::IsolationLevel;
use crate::protocol::ListOffsetsPartition;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MetadataRequest;
use crate::protocol::MetadataResponse;
use crate::protocol::OffsetTime;
use crate::protocol::PartitionHeader;
use crate::protocol::PartitionMetadata;
use crate::protocol::PartitionOffsets;
use crate::protocol::ProducePartition;
use crate::protocol::ProduceRequest;
use crate::protocol::ProduceResponse;
use crate::protocol::ProducedPartition;
use crate::protocol::Reader;
use crate::protocol::Replica;
use crate::protocol::Request;
use crate::protocol::RequestHeader;
use crate::protocol::RequiredAcks;
use crate::protocol::Response;
use crate::protocol::TopicMetadata;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::request_frame;
use crate::protocol::response_frame;

/// `PrimitiveApiTest` of Kafka 0.7.
#[test]
fn the_fetch_request_of_kafkas_own_test_survives_the_round_trip() {
    let request = FetchRequest {
        max_wait: Duration::from_millis(10001),
        min_bytes: 4444,
        ..FetchRequest::default()
    };
    let request = request
        .fetch(TopicPartition::new("topic1", 0), 0, 10000)
        .fetch(TopicPartition::new("topic2", 1), 1024, 9999)
        .fetch(TopicPartition::new("topic1", 1), 256, 444);
    assert_eq!(again(&request, 0), request);
    assert_eq!(again(&request, 1), request);
}

#[test]
fn neighbours_of_one_topic_share_a_group() {
    let request = FetchRequest::default()
        .fetch(TopicPartition::new("a", 0), 0, 1)
        .fetch(TopicPartition::new("a", 1), 0, 1)
        .fetch(TopicPartition::new("b", 0), 0, 1);
    let frame = request_frame(&request, 0, 1, None, Vec::new()).unwrap();
    let mut body = Reader::new(&frame);
    body.fill(
        "size, header and all before the topics",
        26,
        &mut Vec::new(),
    )
    .unwrap();
    assert_eq!(body.i32("topics").unwrap(), 2);
}

#[test]
fn a_name_that_does_not_fit_its_length_field_is_refused() {
    let request = MetadataRequest {
        topics: Some(vec!["x".repeat(32768)]),
        ..MetadataRequest::default()
    };
    let error = request_frame(&request, 0, 1, None, Vec::new()).unwrap_err();
    let text = "topic has a length of 32768, the most is 32767";
    assert_eq!(error.to_string(), text);
    let error = request_frame(
        &MetadataRequest::default(),
        0,
        1,
        Some(&"x".repeat(40000)),
        Vec::new(),
    );
    let text = "client_id has a length of 40000, the most is 32767";
    assert_eq!(error.unwrap_err().to_string(), text);
}

#[test]
fn a_wait_of_more_than_an_int_of_milliseconds_is_refused() {
    let request = FetchRequest {
        max_wait: Duration::from_millis(1 << 31),
        ..FetchRequest::default()
    };
    let error = request_frame(&request, 0, 1, None, Vec::new()).unwrap_err();
    let text = "max_wait_ms of 2147483648 ms is too long";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_version_that_is_not_known_is_refused_both_ways() {
    let error = request_frame(&FetchRequest::default(), 12, 1, None, Vec::new()).unwrap_err();
    let api = "Fetch";
    let version = 12;
    assert_eq!(error, EncodeError::Version { api, version });
    let error = FetchResponse::decode(12, &mut Reader::new(&[])).unwrap_err();
    assert!(matches!(error, DecodeError::Version { .. }), "{error}");
    assert_eq!(error.to_string(), "version 12 of Fetch is not supported");
}

#[test]
fn bytes_after_a_response_are_no_error() {
    let response = ListOffsetsResponse::default();
    let mut frame = response_frame(&response, 0, 1, Vec::new()).unwrap();
    frame.extend([1, 2, 3]);
    let mut body = Reader::new(&frame[8..]);
    assert_eq!(ListOffsetsResponse::decode(0, &mut body).unwrap(), response);
    assert_eq!(body.remaining(), 3);
    body.skip_rest().unwrap();
    assert_eq!(body.remaining(), 0);
}

#[test]
fn a_broker_with_an_impossible_port_is_left_out_and_costs_the_others_nothing() {
    let body = [
        0, 0, 0, 2, 0, 0, 0, 7, 0, 1, b'h', 0, 1, 0x11, 0x70, // 70000
        0, 0, 0, 8, 0, 1, b'g', 0, 0, 0, 99, 0, 0, 0, 0,
    ];
    let response = MetadataResponse::decode(0, &mut Reader::new(&body)).unwrap();
    let ids: Vec<i32> = response.brokers.iter().map(|broker| broker.id).collect();
    assert_eq!(ids, [8]);
}

proptest! {
    #[test]
    fn metadata_survives(
        topics in option::of(vec(name(), 0..4)),
        allow_auto_topic_creation in any::<bool>(),
        response in metadata(),
    ) {
        for version in MetadataRequest::VERSIONS {
            let allow_auto_topic_creation = allow_auto_topic_creation || version < 4;
            let request = MetadataRequest { topics: topics.clone(), allow_auto_topic_creation };
            if version > 0 || topics.as_ref().is_none_or(|topics| !topics.is_empty()) {
                prop_assert_eq!(again(&request, version), request);
            }
            prop_assert_eq!(answered(&response, version), described_in(version, response.clone()));
        }
    }

    #[test]
    fn fetch_survives(request in fetch_request(), response in fetch_response()) {
        for version in FetchRequest::VERSIONS {
            prop_assert_eq!(again(&request, version), known_to(version, request.clone()));
            prop_assert_eq!(answered(&response, version), told_in(version, response.clone()));
        }
    }

    #[test]
    fn list_offsets_survives(request in list_offsets_request(), response in list_offsets_response()) {
        for version in ListOffsetsRequest::VERSIONS {
            prop_assert_eq!(again(&request, version), wanted_in(version, request.clone()));
            prop_assert_eq!(answered(&response, version), listed_in(version, response.clone()));
        }
    }

    #[test]
    fn produce_survives(request in produce_request(), response in produce_response()) {
        let plain = ProduceRequest { transactional_id: None, ..request.clone() };
        for version in [0, 1, 2] {
            prop_assert_eq!(&again(&request, version), &plain);
        }
        prop_assert_eq!(again(&request, 3), request);
        prop_assert_eq!(&answered(&response, 2), &response);
        prop_assert_eq!(&answered(&response, 3), &response);
        let mut timeless = response;
        for partition in &mut timeless.partitions {
            partition.log_append_time = None;
        }
        prop_assert_eq!(&answered(&timeless, 1), &timeless);
        let unthrottled = ProduceResponse { throttle_time: None, ..timeless };
        prop_assert_eq!(answered(&unthrottled, 0), unthrottled);
    }

    #[test]
    fn api_versions_survive(code in error(), time in milliseconds(), apis in vec((any::<i16>(), any::<i16>(), any::<i16>()), 0..9)) {
        let apis = apis.into_iter().map(|(api_key, min_version, max_version)| ApiVersion {
            api_key,
            min_version,
            max_version,
        });
        let api_versions = apis.collect();
        let response = ApiVersionsResponse { error: code, throttle_time: None, api_versions };
        prop_assert_eq!(&answered(&response, 0), &response);
        let response = ApiVersionsResponse { throttle_time: Some(time), ..response };
        for version in 1..=2 {
            prop_assert_eq!(&answered(&response, version), &response);
            prop_assert_eq!(again(&ApiVersionsRequest, version), ApiVersionsRequest);
        }
    }
}

#[test]
fn no_topics_at_all_cannot_be_asked_for_in_version_0() {
    let request = MetadataRequest {
        topics: Some(Vec::new()),
        allow_auto_topic_creation: true,
    };
    let error = request_frame(&request, 0, 1, None, Vec::new()).unwrap_err();
    let text = "version 0 of Metadata cannot say an empty list of topics";
    assert_eq!(error.to_string(), text);
    assert_eq!(again(&request, 1), request);
}

/// What metadata of `version` says of all that is in `response`.
fn described_in(version: i16, mut response: MetadataResponse) -> MetadataResponse {
    response.throttle_time = response.throttle_time.filter(|_| version >= 3);
    response.cluster_id = response.cluster_id.filter(|_| version >= 2);
    if version < 1 {
        response.racks.clear();
        response.controller = None;
    }
    for topic in &mut response.topics {
        topic.is_internal &= version >= 1;
        for partition in &mut topic.partitions {
            partition.offline_replicas.retain(|_| version >= 5);
        }
    }
    response
}

/// What a request of `version` says of all that is in `request`.
fn known_to(version: i16, mut request: FetchRequest) -> FetchRequest {
    let plain = FetchRequest::default();
    if version < 3 {
        request.max_bytes = plain.max_bytes;
    }
    if version < 4 {
        request.isolation = plain.isolation;
    }
    for partition in &mut request.partitions {
        partition.log_start_offset = partition.log_start_offset.filter(|_| version >= 5);
        partition.current_leader_epoch = partition.current_leader_epoch.filter(|_| version >= 9);
    }
    if version < 7 {
        request.metadata = plain.metadata;
        request.forgotten.clear();
    }
    if version < 11 {
        request.rack.clear();
    }
    request
}

/// What a response of `version` says of all that is in `response`.
fn told_in(version: i16, mut response: FetchResponse) -> FetchResponse {
    response.throttle_time = response.throttle_time.filter(|_| version >= 1);
    response.error = response.error.filter(|_| version >= 7);
    response.session_id = response.session_id.filter(|_| version >= 7);
    for partition in &mut response.partitions {
        let header = &mut partition.header;
        header.last_stable_offset = header.last_stable_offset.filter(|_| version >= 4);
        header.log_start_offset = header.log_start_offset.filter(|_| version >= 5);
        header.preferred_read_replica = header.preferred_read_replica.filter(|_| version >= 11);
        header.aborted_transactions = header.aborted_transactions.take().filter(|_| version >= 4);
    }
    response
}

/// What a request for offsets of `version` says of all that is in `request`.
fn wanted_in(version: i16, mut request: ListOffsetsRequest) -> ListOffsetsRequest {
    if version < 2 {
        request.isolation = IsolationLevel::default();
    }
    for partition in &mut request.partitions {
        if version >= 1 {
            partition.max_offsets = 1;
        }
        partition.current_leader_epoch = partition.current_leader_epoch.filter(|_| version >= 4);
    }
    request
}

/// What offsets of `version` say of all that is in `response`.
fn listed_in(version: i16, mut response: ListOffsetsResponse) -> ListOffsetsResponse {
    response.throttle_time = response.throttle_time.filter(|_| version >= 2);
    for partition in &mut response.partitions {
        partition.timestamp = partition.timestamp.filter(|_| version >= 1);
        partition.leader_epoch = partition.leader_epoch.filter(|_| version >= 4);
        if version >= 1 {
            partition.offsets.truncate(1);
            partition.offsets.retain(|offset| *offset >= 0);
        }
    }
    response
}

fn again<Q: Request>(request: &Q, version: i16) -> Q {
    let frame = request_frame(request, version, 77, Some("test-client"), Vec::new()).unwrap();
    let mut body = Reader::next_frame(&frame[..], 14, 1 << 20).unwrap();
    let header = RequestHeader::decode(&mut body).unwrap();
    let expected = RequestHeader {
        api_key: Q::KEY,
        api_version: version,
        correlation_id: 77,
        client_id: Some(String::from("test-client")),
    };
    assert_eq!(header, expected);
    let request = Q::decode(version, &mut body).unwrap();
    assert_eq!(body.remaining(), 0);
    request
}

fn answered<P: Response>(response: &P, version: i16) -> P {
    let frame = response_frame(response, version, -5, vec![1, 2, 3]).unwrap();
    let mut body = Reader::next_frame(&frame[..], 4, 1 << 20).unwrap();
    assert_eq!(body.i32("correlation_id").unwrap(), -5);
    let response = P::decode(version, &mut body).unwrap();
    assert_eq!(body.remaining(), 0);
    response
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "[a-c]", "\\PC{1,9}"]
}

fn topic_partition() -> impl Strategy<Value = TopicPartition> {
    (name(), any::<i32>()).prop_map(|(topic, partition)| TopicPartition::new(topic, partition))
}

fn error() -> impl Strategy<Value = Option<ErrorCode>> {
    any::<i16>().prop_map(ErrorCode::from_wire)
}

fn replica() -> impl Strategy<Value = Replica> {
    prop_oneof![
        Just(Replica::Consumer),
        Just(Replica::Debugging),
        (0..9).prop_map(Replica::Broker)
    ]
}

fn milliseconds() -> impl Strategy<Value = Duration> {
    (0..=0x7fff_ffffu64).prop_map(Duration::from_millis)
}

fn metadata() -> impl Strategy<Value = MetadataResponse> {
    let broker = (any::<i32>(), name(), any::<u16>()).prop_map(|(id, host, port)| Broker {
        id,
        address: BrokerAddress { host, port },
    });
    let ids = || vec(any::<i32>(), 0..3);
    let leader = option::of(0..i32::MAX);
    let partition = (error(), any::<i32>(), leader, ids(), ids(), ids()).prop_map(
        |(error, partition, leader, replicas, isr, offline_replicas)| PartitionMetadata {
            error,
            partition,
            leader,
            replicas,
            isr,
            offline_replicas,
        },
    );
    let topic = (error(), name(), any::<bool>(), vec(partition, 0..3)).prop_map(
        |(error, topic, is_internal, partitions)| TopicMetadata {
            error,
            topic,
            is_internal,
            partitions,
        },
    );
    let racks = vec(option::of(name()), 3);
    let controller = option::of(0..i32::MAX);
    let of_cluster = (milliseconds(), option::of(name()), controller);
    (vec(broker, 0..3), racks, of_cluster, vec(topic, 0..3)).prop_map(
        |(brokers, racks, (throttle_time, cluster_id, controller), topics)| {
            let racks = brokers.iter().zip(racks);
            MetadataResponse {
                throttle_time: Some(throttle_time),
                cluster_id,
                racks: racks
                    .filter_map(|(broker, rack)| Some((broker.id, rack?)))
                    .collect(),
                brokers,
                controller,
                topics,
            }
        },
    )
}

fn isolation() -> impl Strategy<Value = IsolationLevel> {
    prop_oneof![
        Just(IsolationLevel::ReadUncommitted),
        Just(IsolationLevel::ReadCommitted)
    ]
}

fn session() -> impl Strategy<Value = FetchMetadata> {
    prop_oneof![
        option::of(1..i32::MAX).prop_map(|closing| FetchMetadata::Sessionless { closing }),
        option::of(1..i32::MAX).prop_map(|closing| FetchMetadata::Full { closing }),
        (1..i32::MAX, 1..=i32::MAX)
            .prop_map(|(session_id, epoch)| FetchMetadata::Incremental { session_id, epoch }),
    ]
}

fn fetch_request() -> impl Strategy<Value = FetchRequest> {
    let epoch = option::of(0..i32::MAX);
    let start = option::of(0..i64::MAX);
    let partition = (topic_partition(), epoch, any::<i64>(), start, any::<i32>()).prop_map(
        |(topic_partition, current_leader_epoch, fetch_offset, log_start_offset, max_bytes)| {
            FetchPartition {
                topic_partition,
                current_leader_epoch,
                fetch_offset,
                log_start_offset,
                max_bytes,
            }
        },
    );
    let limits = (milliseconds(), any::<i32>(), any::<i32>());
    let partitions = (vec(partition, 0..5), vec(topic_partition(), 0..3));
    (
        replica(),
        limits,
        isolation(),
        session(),
        partitions,
        name(),
    )
        .prop_map(
            |(replica, limits, isolation, metadata, (partitions, forgotten), rack)| FetchRequest {
                replica,
                max_wait: limits.0,
                min_bytes: limits.1,
                max_bytes: limits.2,
                isolation,
                metadata,
                partitions,
                forgotten,
                rack,
            },
        )
}

fn partition_header() -> impl Strategy<Value = PartitionHeader> {
    let offset = || option::of(0..i64::MAX);
    let aborted =
        (any::<i64>(), any::<i64>()).prop_map(|(producer_id, first_offset)| AbortedTransaction {
            producer_id,
            first_offset,
        });
    let aborted = option::of(vec(aborted, 0..3));
    (
        error(),
        offset(),
        offset(),
        offset(),
        aborted,
        option::of(0..i32::MAX),
    )
        .prop_map(
            |(error, high_watermark, last_stable_offset, log_start_offset, aborted, replica)| {
                PartitionHeader {
                    error,
                    high_watermark,
                    last_stable_offset,
                    log_start_offset,
                    aborted_transactions: aborted,
                    preferred_read_replica: replica,
                }
            },
        )
}

fn fetch_response() -> impl Strategy<Value = FetchResponse> {
    let set = vec(any::<u8>(), 0..40);
    let partition =
        (topic_partition(), partition_header(), set).prop_map(|(topic_partition, header, set)| {
            FetchedPartition {
                topic_partition,
                header,
                message_set: set.into(),
            }
        });
    let session_id = option::of(1..i32::MAX);
    (milliseconds(), error(), session_id, vec(partition, 0..5)).prop_map(
        |(throttle_time, error, session_id, partitions)| FetchResponse {
            throttle_time: Some(throttle_time),
            error,
            session_id,
            partitions,
        },
    )
}

fn list_offsets_request() -> impl Strategy<Value = ListOffsetsRequest> {
    let time = prop_oneof![
        Just(OffsetTime::Earliest),
        Just(OffsetTime::Latest),
        (0..i64::MAX).prop_map(OffsetTime::Timestamp)
    ];
    let partition = (
        topic_partition(),
        option::of(0..i32::MAX),
        time,
        any::<i32>(),
    )
        .prop_map(
            |(topic_partition, current_leader_epoch, time, max_offsets)| ListOffsetsPartition {
                topic_partition,
                current_leader_epoch,
                time,
                max_offsets,
            },
        );
    (replica(), isolation(), vec(partition, 0..5)).prop_map(|(replica, isolation, partitions)| {
        ListOffsetsRequest {
            replica,
            isolation,
            partitions,
        }
    })
}

fn list_offsets_response() -> impl Strategy<Value = ListOffsetsResponse> {
    let offsets = vec(any::<i64>(), 0..4);
    let timestamp = option::of(0..i64::MAX);
    let epoch = option::of(0..i32::MAX);
    let partition = (topic_partition(), error(), timestamp, offsets, epoch).prop_map(
        |(topic_partition, error, timestamp, offsets, leader_epoch)| PartitionOffsets {
            topic_partition,
            error,
            timestamp,
            offsets,
            leader_epoch,
        },
    );
    (milliseconds(), vec(partition, 0..5)).prop_map(|(throttle_time, partitions)| {
        ListOffsetsResponse {
            throttle_time: Some(throttle_time),
            partitions,
        }
    })
}

fn produce_request() -> impl Strategy<Value = ProduceRequest> {
    let acks = prop_oneof![
        Just(RequiredAcks::None),
        Just(RequiredAcks::Leader),
        Just(RequiredAcks::All),
        (2..9i16).prop_map(RequiredAcks::Replicas)
    ];
    let set = vec(any::<u8>(), 0..40);
    let partition = (topic_partition(), set).prop_map(|(topic_partition, set)| ProducePartition {
        topic_partition,
        message_set: set.into(),
    });
    let request = (
        option::of(name()),
        acks,
        milliseconds(),
        vec(partition, 0..5),
    );
    request.prop_map(
        |(transactional_id, acks, timeout, partitions)| ProduceRequest {
            transactional_id,
            acks,
            timeout,
            partitions,
        },
    )
}

fn produce_response() -> impl Strategy<Value = ProduceResponse> {
    let base_offset = option::of(0..i64::MAX);
    let time = option::of(0..i64::MAX);
    let partition = (topic_partition(), error(), base_offset, time).prop_map(
        |(topic_partition, error, base_offset, log_append_time)| ProducedPartition {
            topic_partition,
            error,
            base_offset,
            log_append_time,
        },
    );
    (vec(partition, 0..5), milliseconds().prop_map(Some)).prop_map(|(partitions, throttle_time)| {
        ProduceResponse {
            partitions,
            throttle_time,
        }
    })
}
