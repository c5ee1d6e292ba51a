//! Whatever a client sends, the server goes on serving the others.

use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::embedded::EmbeddedZooKeeper;
use crate::embedded::zookeeper::record_reader::RecordReader;
use crate::embedded::zookeeper::record_writer::RecordWriter;
use crate::embedded::zookeeper::request::ConnectRequest;
use crate::embedded::zookeeper::request::Request;
use crate::embedded::zookeeper::request::RequestHeader;
use crate::embedded::zookeeper::tests::start;
use crate::embedded::zookeeper::tests::wire_client::ask;
use crate::embedded::zookeeper::tests::wire_client::connect_request;
use crate::embedded::zookeeper::tests::wire_client::socket;

static SERVER: LazyLock<EmbeddedZooKeeper> = LazyLock::new(start);

/// Sends all of it, and reads until the server has had enough.
fn throw(bytes: &[u8]) {
    let mut socket = socket(&SERVER.connect_string());
    // Fails when the server hangs up in the middle.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(Shutdown::Write);
    let _ = socket.read_to_end(&mut Vec::new());
}

fn op_code() -> impl Strategy<Value = i32> {
    prop_oneof![1..16_i32, 100..104_i32, Just(-11), any::<i32>()]
}

/// What could stand in a body, in any order.
fn field() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<i32>().prop_map(|value| value.to_be_bytes().to_vec()),
        (-2..4_i32).prop_map(|value| value.to_be_bytes().to_vec()),
        any::<bool>().prop_map(|value| vec![u8::from(value)]),
        "/[a-b./]{0,4}".prop_map(|text| RecordWriter::new().string(&text).finish()[4..].to_vec()),
        vec(any::<u8>(), 0..20),
    ]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    vec(field(), 0..12).prop_map(|fields| fields.concat())
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    RecordWriter::new().buffer(Some(bytes)).finish()[4..].to_vec()
}

proptest! {
    #[test]
    fn no_frame_makes_decoding_panic(op_code in op_code(), body in body()) {
        let _ = Request::decode(op_code, &mut RecordReader::new(&body));
        let _ = RequestHeader::decode(&mut RecordReader::new(&body));
        let _ = ConnectRequest::decode(&body);
    }

    #[test]
    fn no_requests_of_a_session_harm_the_server(
        requests in vec((op_code(), body()), 1..8),
    ) {
        let mut bytes = connect_request(0, 0, 1000, &[0; 16]);
        for (op_code, body) in requests {
            let header = [1_i32.to_be_bytes(), op_code.to_be_bytes()].concat();
            bytes.extend(framed(&[header, body].concat()));
        }
        throw(&bytes);
        assert_eq!(ask(&SERVER.connect_string(), "ruok"), "imok");
    }

    #[test]
    fn no_bytes_harm_the_server(bytes in vec(any::<u8>(), 0..100), connects in any::<bool>()) {
        let mut sent = Vec::new();
        if connects {
            sent = connect_request(0, 0, 1000, &[0; 16]);
        }
        sent.extend(bytes);
        throw(&sent);
        assert_eq!(ask(&SERVER.connect_string(), "ruok"), "imok");
    }
}

#[test]
fn a_vector_that_lies_about_its_length_takes_no_memory() {
    let mut reader = RecordReader::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    assert!(reader.strings("paths").is_err());
    let mut reader = RecordReader::new(&[0x80, 0, 0, 0, 0, 0, 0, 0]);
    assert!(reader.strings("paths").is_err());
    let mut reader = RecordReader::new(&[0xff, 0xff, 0xff, 0xff]);
    assert_eq!(reader.strings("paths"), Ok(vec![]));
}
