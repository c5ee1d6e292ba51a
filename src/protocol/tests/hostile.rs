//! Bytes that no honest peer sends: nothing panics, nothing is allocated by the peer's word.

use proptest::collection::vec;
use proptest::prelude::any;
use proptest::prop_assert;
use proptest::prop_assert_eq;
use proptest::proptest;

use crate::protocol::ApiVersionsRequest;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::Codec;
use crate::protocol::CorruptReason;
use crate::protocol::DecodeError;
use crate::protocol::EntryCursor;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::FetchSink;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MessageFormat;
use crate::protocol::MessageSet;
use crate::protocol::MetadataRequest;
use crate::protocol::MetadataResponse;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetCommitResponse;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::OffsetFetchResponse;
use crate::protocol::Outline;
use crate::protocol::PartitionHeader;
use crate::protocol::ProduceRequest;
use crate::protocol::ProduceResponse;
use crate::protocol::Reader;
use crate::protocol::Request;
use crate::protocol::RequestHeader;
use crate::protocol::Response;
use crate::protocol::read_fetch_response;
use crate::protocol::request_frame;
use crate::protocol::response_frame;
use crate::protocol::tests::recorded;
use crate::protocol::tests::recorded::Vector;

#[test]
fn a_frame_that_is_cut_anywhere_is_an_error_that_names_a_field() {
    for vector in recorded::all().iter().filter(|v| v.has_frames()) {
        for request in vector.requests() {
            let header = RequestHeader::decode(&mut Reader::new(&request)).unwrap();
            for length in 0..request.len() {
                let error = decode_request(header.api_key, &request[..length]).unwrap_err();
                check(vector.name(), length, &error);
            }
        }
        for (key, version, response) in answers(vector) {
            for length in 0..response.len() {
                let mut body = Reader::new(&response[..length]);
                let error = decode_response(key, version, &mut body).unwrap_err();
                check(vector.name(), length, &error);
            }
        }
    }
}

#[test]
fn a_stream_that_ends_anywhere_is_told_from_malformed_bytes() {
    for vector in recorded::all().iter().filter(|v| v.has_frames()) {
        for (key, version, response) in answers(vector) {
            for length in (0..response.len()).step_by(7) {
                let mut body = Reader::of_frame(&response[..length], response.len());
                let error = decode_response(key, version, &mut body).unwrap_err();
                assert!(error.is_io(), "{} at {length}: {error}", vector.name());
                assert!(!error.field().is_empty());
            }
        }
    }
}

/// The answers of a vector, with number and version of each.
fn answers(vector: &Vector) -> Vec<(i16, i16, Vec<u8>)> {
    let mut requests = vector.requests().into_iter();
    let responses = vector.responses().into_iter().map(|response| {
        let asked = requests
            .next()
            .map(|request| RequestHeader::decode(&mut Reader::new(&request)).unwrap());
        let (key, version) = vector.layout(asked.as_ref());
        (key, version, response)
    });
    responses.collect()
}

#[test]
fn a_set_that_is_cut_anywhere_gives_its_whole_entries_and_no_error() {
    for vector in recorded::all().iter().filter(|v| !v.has_frames()) {
        if !vector.entry["expected"]["error"].is_null() {
            continue;
        }
        let whole = vector.message_set();
        for length in 0..whole.len() {
            let cut = MessageSet::from(whole[..length].to_vec());
            let outline = Outline::of(cut.as_bytes());
            assert!(outline.valid_bytes <= length);
            let messages: Result<Vec<_>, _> = cut.messages().collect();
            let messages = messages.unwrap_or_else(|error| panic!("{error} at {length}"));
            let all = MessageSet::from(whole.clone()).messages();
            let all: Vec<_> = all.take(messages.len()).map(Result::unwrap).collect();
            assert_eq!(messages, all, "{} at {length}", vector.name());
            if outline.last_offset.is_none() {
                assert!(messages.is_empty(), "{} at {length}", vector.name());
            }
        }
    }
}

#[test]
fn a_payload_that_is_cut_anywhere_is_no_whole_payload() {
    let content: Vec<u8> = (0..2000u32).flat_map(|n| (n / 3).to_be_bytes()).collect();
    for codec in codecs() {
        let payload = codec.compress(MessageFormat::V2, &content).unwrap();
        for length in 0..payload.len() {
            let mut out = Vec::new();
            match codec.decompress(&payload[..length], usize::MAX, &mut out) {
                Ok(()) => assert!(out.len() < content.len(), "{codec} at {length}"),
                Err(CorruptReason::Decompression { .. }) => {}
                Err(reason) => panic!("{codec} at {length}: {reason}"),
            }
        }
    }
}

#[test]
fn no_size_that_a_peer_claims_is_allocated() {
    // Snappy that claims 4 GiB less one byte; an lz4 block of 4 MiB; a gzip member that grows a thousandfold.
    let snappy = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
    let lz4 = [
        0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73, 3, 0, 0, 0, 0x1f, 1, 0,
    ];
    // A frame of zstd whose header claims 1 GiB in one piece, and an empty block.
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0x40, 0x01, 0, 0];
    let gzip = Codec::Gzip
        .compress(MessageFormat::V0, &vec![7; 1 << 20])
        .unwrap();
    for (codec, payload, limit, most) in [
        (Codec::Snappy, &snappy[..], usize::MAX, 0),
        (Codec::Lz4, &lz4[..], usize::MAX, 1 << 16),
        (Codec::Gzip, &gzip[..], 1000, 1 << 16),
        (Codec::Zstd, &zstd[..], usize::MAX, 1 << 16),
    ] {
        let mut out = Vec::new();
        assert!(codec.decompress(payload, limit, &mut out).is_err());
        assert!(out.capacity() <= most, "{codec}: {}", out.capacity());
    }
    let mut claims = Reader::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]);
    let error = claims.bytes("message_set").unwrap_err();
    let text = "message_set claims a length of 2147483647, the frame has 4 bytes left";
    assert_eq!(error.to_string(), text);
}

#[test]
fn partitions_before_a_broken_one_reach_the_sink() {
    #[derive(Default)]
    struct Kept(Vec<(i32, Vec<u8>)>, Vec<usize>);
    impl FetchSink for Kept {
        fn buffer(&mut self, _: &str, _: i32, size: usize) -> Vec<u8> {
            self.1.push(size);
            // What a careless pool leaves in a buffer must not show.
            vec![9; 3]
        }

        fn partition(&mut self, _: &str, partition: i32, _: PartitionHeader, message_set: Vec<u8>) {
            self.0.push((partition, message_set));
        }
    }
    let mut body = vec![0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 2];
    body.extend([0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 11, 12]);
    body.extend([0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 11, 12]);
    let mut kept = Kept::default();
    let error = read_fetch_response(0, &mut Reader::new(&body), &mut kept).unwrap_err();
    assert_eq!(error.field(), "message_set");
    assert_eq!(kept.0, [(5, vec![11, 12])]);
    assert_eq!(kept.1, [2]);

    let mut kept = Kept::default();
    let mut stream = Reader::of_frame(&body[..], body.len() + 1);
    let error = read_fetch_response(0, &mut stream, &mut kept).unwrap_err();
    assert!(error.is_io());
    assert_eq!(kept.1, [2, 3]);
}

proptest! {
    #[test]
    fn arbitrary_bodies_are_read_or_refused(key in 0..8i16, version in -1..13i16, bytes in vec(any::<u8>(), 0..200)) {
        let _ = decode_response(key, version, &mut Reader::new(&bytes));
        let mut request = key.to_be_bytes().to_vec();
        request.extend(version.to_be_bytes());
        request.extend(bytes);
        let _ = decode_request(key, &request);
    }

    #[test]
    fn damaged_frames_are_read_or_refused(which in any::<usize>(), at in any::<usize>(), byte in any::<u8>()) {
        let vectors = recorded::all();
        let exchanges: Vec<_> = vectors.iter().filter(|v| v.is_exchange()).collect();
        let vector = exchanges[which % exchanges.len()];
        for (request, mut response) in vector.requests().into_iter().zip(vector.responses()) {
            let header = RequestHeader::decode(&mut Reader::new(&request)).unwrap();
            let at = at % response.len();
            response[at] = byte;
            let _ = decode_response(header.api_key, header.api_version, &mut Reader::new(&response));
            let _ = decode_response(header.api_key, 0, &mut Reader::new(&response));
        }
    }

    #[test]
    fn arbitrary_sets_are_read_or_refused(bytes in vec(any::<u8>(), 0..200)) {
        walk(&bytes)?;
    }

    #[test]
    fn damaged_sets_are_read_or_refused(which in 0..76usize, at in any::<usize>(), byte in any::<u8>()) {
        let vectors = recorded::all();
        let mut sets = vectors.iter().filter(|v| !v.has_frames());
        let mut set = sets.nth(which).unwrap().message_set();
        let at = at % set.len();
        set[at] = byte;
        walk(&set)?;
    }

    #[test]
    fn arbitrary_payloads_stay_within_the_limit(codec in 0..4usize, limit in 0..300usize, bytes in vec(any::<u8>(), 0..200)) {
        let codecs = codecs();
        payload(codecs[codec % codecs.len()], limit, &bytes)?;
    }

    #[test]
    fn damaged_payloads_stay_within_the_limit(
        codec in 0..4usize,
        limit in 0..5000usize,
        content in vec(0..4u8, 1..4000),
        at in any::<usize>(),
        byte in any::<u8>(),
    ) {
        let codecs = codecs();
        let codec = codecs[codec % codecs.len()];
        let mut bytes = codec.compress(MessageFormat::V2, &content).unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        payload(codec, limit, &bytes)?;
    }
}

fn check(name: &str, length: usize, error: &DecodeError) {
    let refused = matches!(error, DecodeError::Version { .. });
    let cut = matches!(
        error,
        DecodeError::Truncated { .. } | DecodeError::Length { .. }
    );
    assert!(cut || refused, "{name} at {length}: {error}");
    assert!(error.to_string().contains(error.field()) || refused);
}

fn payload(
    codec: Codec,
    limit: usize,
    bytes: &[u8],
) -> Result<(), proptest::test_runner::TestCaseError> {
    let mut out = Vec::new();
    match codec.decompress(bytes, limit, &mut out) {
        Ok(()) => prop_assert!(out.len() <= limit),
        Err(reason) => prop_assert!(!reason.to_string().is_empty()),
    }
    // A block of lz4 may be made room for before it is read; that room too keeps to the limit.
    prop_assert!(out.capacity() <= 2 * limit + 8192);
    Ok(())
}

/// Those that this build has.
fn codecs() -> Vec<Codec> {
    let mut codecs = vec![Codec::Gzip, Codec::Snappy, Codec::Lz4];
    if cfg!(feature = "zstd") {
        codecs.push(Codec::Zstd);
    }
    codecs
}

/// Walks a set in each way there is.
fn walk(bytes: &[u8]) -> Result<(), proptest::test_runner::TestCaseError> {
    let outline = Outline::of(bytes);
    prop_assert!(outline.valid_bytes <= bytes.len());
    let mut cursor = EntryCursor::outer();
    let mut entries = 0;
    while let Some(entry) = cursor.next(bytes) {
        prop_assert!(cursor.position() <= bytes.len());
        entries += 1;
        // The least record has seven bytes.
        prop_assert!(entries <= bytes.len() / 7 + 1);
        if let Err(corrupt) = entry {
            prop_assert!(!corrupt.to_string().is_empty());
        }
    }
    prop_assert_eq!(cursor.position() >= outline.valid_bytes, true);
    prop_assert!(
        MessageSet::from(bytes.to_vec())
            .messages_within(1 << 16)
            .count()
            < 100_000
    );
    Ok(())
}

fn decode_request(key: i16, frame: &[u8]) -> Result<(), DecodeError> {
    let mut body = Reader::new(frame);
    let header = RequestHeader::decode(&mut body)?;
    match key {
        0 => request::<ProduceRequest>(header.api_version, &mut body),
        1 => request::<FetchRequest>(header.api_version, &mut body),
        2 => request::<ListOffsetsRequest>(header.api_version, &mut body),
        4 | 18 => request::<ApiVersionsRequest>(header.api_version, &mut body),
        5 | 8 => request::<OffsetCommitRequest>(header.api_version, &mut body),
        6 | 9 => request::<OffsetFetchRequest>(header.api_version, &mut body),
        7 | 10 => request::<FindCoordinatorRequest>(header.api_version, &mut body),
        _ => request::<MetadataRequest>(header.api_version, &mut body),
    }
}

fn request<Q: Request>(version: i16, body: &mut Reader<&[u8]>) -> Result<(), DecodeError> {
    let request = Q::decode(version, body)?;
    request_frame(&request, version, 1, None, Vec::new()).unwrap();
    Ok(())
}

fn decode_response(key: i16, version: i16, body: &mut Reader<&[u8]>) -> Result<(), DecodeError> {
    body.i32("correlation_id")?;
    match key {
        0 => response::<ProduceResponse>(version, body),
        1 => response::<FetchResponse>(version, body),
        2 => response::<ListOffsetsResponse>(version, body),
        4 | 18 => response::<ApiVersionsResponse>(version, body),
        5 | 8 => response::<OffsetCommitResponse>(version, body),
        6 | 9 => response::<OffsetFetchResponse>(version, body),
        7 | 10 => response::<FindCoordinatorResponse>(version, body),
        _ => response::<MetadataResponse>(version, body),
    }
}

fn response<P: Response>(version: i16, body: &mut Reader<&[u8]>) -> Result<(), DecodeError> {
    let response = P::decode(version, body)?;
    response_frame(&response, version, 1, Vec::new()).unwrap();
    Ok(())
}
