//! Every recorded frame is read to exactly what its index says, and written again to exactly its bytes.

use serde_json::Value;
use serde_json::json;

use crate::protocol::ApiVersionsRequest;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MessageSet;
use crate::protocol::MetadataRequest;
use crate::protocol::MetadataResponse;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetCommitResponse;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::OffsetFetchResponse;
use crate::protocol::ProduceRequest;
use crate::protocol::ProduceResponse;
use crate::protocol::Reader;
use crate::protocol::Request;
use crate::protocol::RequestHeader;
use crate::protocol::Response;
use crate::protocol::request_frame;
use crate::protocol::response_frame;
use crate::protocol::tests::indexed_request::Indexed;
use crate::protocol::tests::indexed_response::InIndex;
use crate::protocol::tests::indexed_set::check_set;
use crate::protocol::tests::recorded;
use crate::protocol::tests::recorded::Vector;

/// Responses that are not written as they came: an empty set is written as such, and not as null.
const WRITTEN_DIFFERENTLY: [&str; 1] = ["made-fetch-v4-null-records"];

/// Indexes that describe only a part of the request.
const INCOMPLETE_INDEX: [&str; 2] = ["k082-produce-v0-timed-out", "k090-produce-v0-timed-out"];

#[test]
fn the_index_is_complete() {
    assert_eq!(recorded::all().len(), 398);
}

#[test]
fn every_recorded_request_survives_the_round_trip_byte_by_byte() {
    for vector in recorded::all().iter().filter(|v| v.is_exchange()) {
        for frame in vector.requests() {
            let mut reader = Reader::new(&frame);
            let header = RequestHeader::decode(&mut reader).unwrap();
            let index = match vector.requests().len() {
                1 if !INCOMPLETE_INDEX.contains(&vector.name()) => &vector.entry["request"],
                _ => &Value::Null,
            };
            match header.api_key {
                0 => check_request::<ProduceRequest>(vector, &header, reader, &frame, index),
                1 => check_request::<FetchRequest>(vector, &header, reader, &frame, index),
                2 => check_request::<ListOffsetsRequest>(vector, &header, reader, &frame, index),
                3 => check_request::<MetadataRequest>(vector, &header, reader, &frame, index),
                8 => check_request::<OffsetCommitRequest>(vector, &header, reader, &frame, index),
                9 => check_request::<OffsetFetchRequest>(vector, &header, reader, &frame, index),
                10 => {
                    check_request::<FindCoordinatorRequest>(vector, &header, reader, &frame, index);
                }
                18 => check_request::<ApiVersionsRequest>(vector, &header, reader, &frame, index),
                key => panic!("{}: key {key}", vector.name()),
            }
        }
    }
}

#[test]
fn every_recorded_response_is_what_its_index_says_and_survives_the_round_trip() {
    let mut checked = 0;
    for vector in recorded::all().iter().filter(|v| v.has_frames()) {
        let expected = vector.expected();
        let responses = vector.responses();
        assert_eq!(expected.len(), responses.len(), "{}", vector.name());
        let mut requests = vector.requests().into_iter();
        for (response, expected) in responses.iter().zip(&expected) {
            let request = requests.next();
            let mut request = request.as_deref().map(Reader::new);
            let header = request
                .as_mut()
                .map(|it| RequestHeader::decode(it).unwrap());
            let (key, version) = vector.layout(header.as_ref());
            match key {
                0 => check_response::<ProduceResponse>(vector, version, response, expected, None),
                1 => {
                    let asked = request.zip(header).map(|(mut request, header)| {
                        FetchRequest::decode(header.api_version, &mut request).unwrap()
                    });
                    let asked = asked.as_ref();
                    check_response::<FetchResponse>(vector, version, response, expected, asked);
                }
                2 => {
                    check_response::<ListOffsetsResponse>(
                        vector, version, response, expected, None,
                    );
                }
                3 => check_response::<MetadataResponse>(vector, version, response, expected, None),
                8 => {
                    check_response::<OffsetCommitResponse>(
                        vector, version, response, expected, None,
                    );
                }
                9 => {
                    check_response::<OffsetFetchResponse>(
                        vector, version, response, expected, None,
                    );
                }
                10 => {
                    check_response::<FindCoordinatorResponse>(
                        vector, version, response, expected, None,
                    );
                }
                18 => {
                    check_response::<ApiVersionsResponse>(
                        vector, version, response, expected, None,
                    );
                }
                key => panic!("{}: key {key}", vector.name()),
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 308);
}

#[test]
fn every_made_message_set_is_what_its_index_says() {
    let mut checked = 0;
    for vector in recorded::all().iter().filter(|v| !v.has_frames()) {
        let set = MessageSet::from(vector.message_set());
        check_set(vector.name(), &set, &vector.entry["expected"]);
        checked += 1;
    }
    assert_eq!(checked, 76);
}

#[test]
fn aborted_transactions_that_come_with_a_partition_tell_what_is_committed() {
    let named = |name: &str| recorded::all().iter().find(|v| v.name() == name).unwrap();
    let answer = named("made-fetch-v4-aborted").responses();
    let mut body = Reader::new(&answer[0]);
    body.i32("correlation_id").unwrap();
    let response = FetchResponse::decode(4, &mut body).unwrap();
    let partition = &response.partitions[0];
    let aborted = partition.header.aborted_transactions.as_deref().unwrap();
    let committed = partition.message_set.committed_messages(aborted);
    let offsets: Vec<i64> = committed.map(|message| message.unwrap().offset).collect();
    let expected = &named("made-m2-transactions").entry["expected"];
    assert_eq!(json!(offsets), expected["deliver_read_committed"]);
}

fn check_request<Q: Indexed>(
    vector: &Vector,
    header: &RequestHeader,
    mut body: Reader<&[u8]>,
    frame: &[u8],
    index: &Value,
) {
    let name = vector.name();
    let version = header.api_version;
    assert_eq!(header.api_key, Q::KEY);
    let request = Q::decode(version, &mut body).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(body.remaining(), 0, "{name}");
    let is_silent = Q::KEY == ProduceRequest::KEY && vector.entry["outcome"] != "response";
    assert_eq!(request.is_answered(), !is_silent, "{name}");
    let encode = |request: &Q| {
        let client_id = header.client_id.as_deref();
        let buffer = vec![1; 3];
        request_frame(request, version, header.correlation_id, client_id, buffer).unwrap()
    };
    assert_eq!(encode(&request)[4..], *frame, "{name}");
    if !Q::is_left_open(index) {
        let described = Q::from_index(index, &request);
        assert_eq!(described, request, "{name}");
        assert_eq!(encode(&described)[4..], *frame, "{name}");
    }
}

fn check_response<P: InIndex>(
    vector: &Vector,
    version: i16,
    frame: &[u8],
    expected: &Value,
    asked: Option<&FetchRequest>,
) {
    let name = vector.name();
    let mut expected = expected.clone();
    let mut body = Reader::new(frame);
    let correlation_id = body.i32("correlation_id").unwrap();
    let fields = expected.as_object_mut().unwrap();
    assert_eq!(
        fields.remove("correlation_id"),
        Some(json!(correlation_id)),
        "{name}"
    );
    let response = P::decode(version, &mut body).unwrap();
    assert_eq!(body.remaining(), 0, "{name}");
    response.check_more(name, &mut expected, asked);
    assert_eq!(response.to_index(version), expected, "{name}");
    if WRITTEN_DIFFERENTLY.contains(&name) {
        return;
    }
    let again = response_frame(&response, version, correlation_id, Vec::new()).unwrap();
    assert_eq!(again[4..], *frame, "{name}");
}
