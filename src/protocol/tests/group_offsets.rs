//! What the requests of groups for their offsets can say in which version.

use std::time::Duration;

use crate::error::ErrorCode;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::OffsetFetchResponse;
use crate::protocol::Reader;
use crate::protocol::Request;
use crate::protocol::RequestHeader;
use crate::protocol::Response;
use crate::protocol::request_frame;

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
        throttle_time: Some(Duration::from_millis(7)),
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
