//! The recorded requests of groups for their offsets, and the answers: read and written again to the same bytes.

use std::fs;
use std::path::PathBuf;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::OffsetFetchResponse;
use crate::protocol::Reader;
use crate::protocol::Request;
use crate::protocol::RequestHeader;
use crate::protocol::Response;
use crate::protocol::request_frame;
use crate::protocol::response_frame;

fn folder() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.extend(["tests", "fixtures", "vectors"]);
    path
}

/// The bytes of a frame, its size in front; `None` where there was no answer.
fn recorded(name: &str, side: &str) -> Option<Vec<u8>> {
    let hex = fs::read_to_string(folder().join(format!("{name}.{side}.hex"))).ok()?;
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16);
    Some(digits.chunks(2).map(|pair| byte(pair).unwrap()).collect())
}

fn check<Q: Request + std::fmt::Debug>(name: &str) -> Q {
    let frame = recorded(name, "request").unwrap();
    let mut body = Reader::new(&frame[4..]);
    let header = RequestHeader::decode(&mut body).unwrap();
    assert_eq!(header.api_key, Q::KEY, "{name}");
    let request = Q::decode(header.api_version, &mut body).unwrap();
    assert_eq!(body.remaining(), 0, "{name}");
    let again = request_frame(
        &request,
        header.api_version,
        header.correlation_id,
        header.client_id.as_deref(),
        Vec::new(),
    );
    assert_eq!(again.unwrap(), frame, "{name}");
    if let Some(frame) = recorded(name, "response") {
        let response = response::<Q>(name, header.api_version, &frame);
        let id = header.correlation_id;
        let again = response_frame(&response, header.api_version, id, Vec::new());
        assert_eq!(again.unwrap(), frame, "{name}");
    }
    request
}

fn response<Q: Request>(name: &str, version: i16, frame: &[u8]) -> Q::Response {
    let mut body = Reader::new(&frame[8..]);
    let response = Q::Response::decode(version, &mut body).unwrap();
    assert_eq!(body.remaining(), 0, "{name}");
    response
}

#[test]
fn every_recorded_exchange_survives_the_round_trip_byte_by_byte() {
    let mut checked = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".request.hex") else {
            continue;
        };
        if name.contains("offset-commit") {
            check::<OffsetCommitRequest>(name);
        } else if name.contains("offset-fetch") {
            check::<OffsetFetchRequest>(name);
        } else if name.contains("find-coordinator-v0") || name.starts_with("mock-find-coordinator")
        {
            check::<FindCoordinatorRequest>(name);
        } else {
            continue;
        }
        checked += 1;
    }
    assert_eq!(checked, 34);
}

#[test]
fn the_fields_are_those_that_were_sent() {
    let request = check::<OffsetCommitRequest>("k082-offset-commit-v1-generation");
    assert_eq!(
        (request.group.as_str(), request.generation),
        ("g2", Some(5))
    );
    assert_eq!(request.member, "consumer-1");
    assert_eq!(
        (
            request.partitions[0].offset,
            request.partitions[0].timestamp
        ),
        (8, None)
    );

    let name = "k082-offset-fetch-v1";
    let frame = recorded(name, "response").unwrap();
    let answer: OffsetFetchResponse = response::<OffsetFetchRequest>(name, 1, &frame);
    let found = &answer.partitions[0];
    assert_eq!(found.topic_partition, TopicPartition::new("plain", 0));
    assert_eq!(
        (found.offset, found.metadata.as_deref()),
        (Some(6), Some("hello"))
    );
    assert_eq!(answer.partitions[2].metadata, None);

    let name = "k082-find-coordinator-v0-creating";
    let frame = recorded(name, "response").unwrap();
    let answer: FindCoordinatorResponse = response::<FindCoordinatorRequest>(name, 0, &frame);
    assert_eq!(answer.error, Some(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(answer.coordinator, None);
}

#[test]
fn all_partitions_of_a_group_are_asked_for_from_version_2_on() {
    let request = OffsetFetchRequest {
        group: String::from("g"),
        partitions: None,
    };
    for version in [0, 1] {
        let error = request_frame(&request, version, 1, None, Vec::new()).unwrap_err();
        let text = format!("version {version} of OffsetFetch cannot say all partitions");
        assert_eq!(error.to_string(), text);
    }
    let none = OffsetFetchRequest {
        partitions: Some(Vec::new()),
        ..request.clone()
    };
    for request in [request, none] {
        let frame = request_frame(&request, 2, 1, None, Vec::new()).unwrap();
        let mut body = Reader::new(&frame[4..]);
        RequestHeader::decode(&mut body).unwrap();
        assert_eq!(OffsetFetchRequest::decode(2, &mut body).unwrap(), request);
        assert_eq!(body.remaining(), 0);
    }
}

#[test]
fn an_error_of_the_whole_group_stands_behind_its_partitions() {
    let body = [0, 0, 0, 7, 0, 0, 0, 0, 0, 16];
    let answer = OffsetFetchResponse::decode(3, &mut Reader::new(&body)).unwrap();
    let expected = OffsetFetchResponse {
        throttle_time: Some(std::time::Duration::from_millis(7)),
        partitions: Vec::new(),
        error: Some(ErrorCode::NotCoordinator),
    };
    assert_eq!(answer, expected);
}

#[test]
fn the_coordinator_of_a_transaction_is_not_looked_for_here() {
    let error = FindCoordinatorRequest::decode(1, &mut Reader::new(&[0, 1, b'g', 1])).unwrap_err();
    assert_eq!(error.to_string(), "key_type has the unknown value 1");
}
