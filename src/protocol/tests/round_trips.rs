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
use crate::protocol::DecodeError;
use crate::protocol::FetchPartition;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::FetchedPartition;
use crate::protocol::ListOffsetsPartition;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MetadataRequest;
use crate::protocol::MetadataResponse;
use crate::protocol::OffsetTime;
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
        topics: vec!["x".repeat(32768)],
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
    let error = request_frame(&FetchRequest::default(), 2, 1, None, Vec::new()).unwrap_err();
    let api = "Fetch";
    let version = 2;
    assert_eq!(error, EncodeError::Version { api, version });
    let error = FetchResponse::decode(2, &mut Reader::new(&[])).unwrap_err();
    assert!(matches!(error, DecodeError::Version { .. }), "{error}");
    assert_eq!(error.to_string(), "version 2 of Fetch is not supported");
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
    fn metadata_survives(topics in vec(name(), 0..4), response in metadata()) {
        let request = MetadataRequest { topics };
        prop_assert_eq!(again(&request, 0), request);
        prop_assert_eq!(answered(&response, 0), response);
    }

    #[test]
    fn fetch_survives(request in fetch_request(), response in fetch_response()) {
        for version in [0, 1] {
            prop_assert_eq!(&again(&request, version), &request);
        }
        prop_assert_eq!(&answered(&response, 1), &response);
        let unthrottled = FetchResponse { throttle_time: None, ..response };
        prop_assert_eq!(answered(&unthrottled, 0), unthrottled);
    }

    #[test]
    fn list_offsets_survives(request in list_offsets_request(), response in list_offsets_response()) {
        prop_assert_eq!(again(&request, 0), request);
        prop_assert_eq!(answered(&response, 0), response);
    }

    #[test]
    fn produce_survives(request in produce_request(), response in produce_response()) {
        for version in [0, 1] {
            prop_assert_eq!(&again(&request, version), &request);
        }
        prop_assert_eq!(&answered(&response, 1), &response);
        let unthrottled = ProduceResponse { throttle_time: None, ..response };
        prop_assert_eq!(answered(&unthrottled, 0), unthrottled);
    }
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
    let partition = (error(), any::<i32>(), leader, ids(), ids()).prop_map(
        |(error, partition, leader, replicas, isr)| PartitionMetadata {
            error,
            partition,
            leader,
            replicas,
            isr,
        },
    );
    let topic = (error(), name(), vec(partition, 0..3)).prop_map(|(error, topic, partitions)| {
        TopicMetadata {
            error,
            topic,
            partitions,
        }
    });
    (vec(broker, 0..3), vec(topic, 0..3))
        .prop_map(|(brokers, topics)| MetadataResponse { brokers, topics })
}

fn fetch_request() -> impl Strategy<Value = FetchRequest> {
    let partition = (topic_partition(), any::<i64>(), any::<i32>()).prop_map(
        |(topic_partition, fetch_offset, max_bytes)| FetchPartition {
            topic_partition,
            fetch_offset,
            max_bytes,
        },
    );
    (
        replica(),
        milliseconds(),
        any::<i32>(),
        vec(partition, 0..5),
    )
        .prop_map(|(replica, max_wait, min_bytes, partitions)| FetchRequest {
            replica,
            max_wait,
            min_bytes,
            partitions,
        })
}

fn fetch_response() -> impl Strategy<Value = FetchResponse> {
    let high_watermark = option::of(0..i64::MAX);
    let set = vec(any::<u8>(), 0..40);
    let partition = (topic_partition(), error(), high_watermark, set).prop_map(
        |(topic_partition, error, high_watermark, set)| FetchedPartition {
            topic_partition,
            error,
            high_watermark,
            message_set: set.into(),
        },
    );
    (milliseconds().prop_map(Some), vec(partition, 0..5)).prop_map(|(throttle_time, partitions)| {
        FetchResponse {
            throttle_time,
            partitions,
        }
    })
}

fn list_offsets_request() -> impl Strategy<Value = ListOffsetsRequest> {
    let time = prop_oneof![
        Just(OffsetTime::Earliest),
        Just(OffsetTime::Latest),
        (0..i64::MAX).prop_map(OffsetTime::Timestamp)
    ];
    let partition =
        (topic_partition(), time, any::<i32>()).prop_map(|(topic_partition, time, max_offsets)| {
            ListOffsetsPartition {
                topic_partition,
                time,
                max_offsets,
            }
        });
    (replica(), vec(partition, 0..5)).prop_map(|(replica, partitions)| ListOffsetsRequest {
        replica,
        partitions,
    })
}

fn list_offsets_response() -> impl Strategy<Value = ListOffsetsResponse> {
    let offsets = vec(any::<i64>(), 0..4);
    let partition =
        (topic_partition(), error(), offsets).prop_map(|(topic_partition, error, offsets)| {
            PartitionOffsets {
                topic_partition,
                error,
                offsets,
            }
        });
    vec(partition, 0..5).prop_map(|partitions| ListOffsetsResponse { partitions })
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
    (acks, milliseconds(), vec(partition, 0..5)).prop_map(|(acks, timeout, partitions)| {
        ProduceRequest {
            acks,
            timeout,
            partitions,
        }
    })
}

fn produce_response() -> impl Strategy<Value = ProduceResponse> {
    let base_offset = option::of(0..i64::MAX);
    let partition = (topic_partition(), error(), base_offset).prop_map(
        |(topic_partition, error, base_offset)| ProducedPartition {
            topic_partition,
            error,
            base_offset,
        },
    );
    (vec(partition, 0..5), milliseconds().prop_map(Some)).prop_map(|(partitions, throttle_time)| {
        ProduceResponse {
            partitions,
            throttle_time,
        }
    })
}
