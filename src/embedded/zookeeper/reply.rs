use std::cmp::Ordering;
use std::time::Duration;

use crate::embedded::zookeeper::database::Rejected;
use crate::embedded::zookeeper::record_writer::RecordWriter;
use crate::embedded::zookeeper::request::op_code;
use crate::embedded::zookeeper::session::password_of;
use crate::embedded::zookeeper::transaction::Outcome;
use crate::embedded::zookeeper::watch_manager::EventKind;

pub(super) const OK: i32 = 0;
/// Of an operation that was not tried because one before it failed.
const RUNTIME_INCONSISTENCY: i32 = -2;
pub(super) const MARSHALLING_ERROR: i32 = -5;
pub(super) const UNIMPLEMENTED: i32 = -6;
pub(super) const AUTH_FAILED: i32 = -115;

pub(super) const PING_XID: i32 = -2;
const EVENT_XID: i32 = -1;
const SYNC_CONNECTED: i32 = 3;

/// A reply up to where its body begins.
pub(super) fn begin(xid: i32, zxid: i64, error: i32) -> RecordWriter {
    RecordWriter::new().i32(xid).i64(zxid).i32(error)
}

/// The answer to the first frame of a connection.
pub(super) fn connected(session: i64, timeout: Duration, speaks_of_read_only: bool) -> Vec<u8> {
    let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    connect_response(timeout, session, &password_of(session), speaks_of_read_only)
}

/// ... when there is no such session.
pub(super) fn refused(speaks_of_read_only: bool) -> Vec<u8> {
    connect_response(0, 0, &[0; 16], speaks_of_read_only)
}

fn connect_response(timeout: i32, session: i64, password: &[u8], read_only: bool) -> Vec<u8> {
    let writer = RecordWriter::new().i32(0).i32(timeout).i64(session);
    let writer = writer.buffer(Some(password));
    match read_only {
        true => writer.bool(false).finish(),
        false => writer.finish(),
    }
}

pub(super) fn event(kind: EventKind, path: &str) -> Vec<u8> {
    begin(EVENT_XID, -1, OK)
        .i32(kind.wire_code())
        .i32(SYNC_CONNECTED)
        .string(path)
        .finish()
}

/// The body of the answer to a write.
pub(super) fn outcome(writer: RecordWriter, outcome: &Outcome) -> RecordWriter {
    match outcome {
        Outcome::Created(path) => writer.string(path),
        Outcome::DataSet(stat) | Outcome::AclSet(stat) => writer.stat(stat),
        Outcome::Deleted | Outcome::Checked => writer,
    }
}

/// The body of the answer to a multi that was carried out.
pub(super) fn multi(writer: RecordWriter, outcomes: &[Outcome]) -> RecordWriter {
    let writer = outcomes.iter().fold(writer, |writer, one| {
        let op_code = match one {
            Outcome::Created(_) => op_code::CREATE,
            Outcome::Deleted => op_code::DELETE,
            Outcome::DataSet(_) => op_code::SET_DATA,
            Outcome::AclSet(_) => op_code::SET_ACL,
            Outcome::Checked => op_code::CHECK,
        };
        outcome(multi_header(writer, op_code, false, OK), one)
    });
    end_of_multi(writer)
}

/// The body of the answer to a multi of `count` operations of which one was rejected.
pub(super) fn rejected_multi(
    writer: RecordWriter,
    count: usize,
    rejected: Rejected,
) -> RecordWriter {
    let writer = (0..count).fold(writer, |writer, index| {
        let code = match index.cmp(&rejected.index) {
            Ordering::Less => OK,
            Ordering::Equal => rejected.error.wire_code(),
            Ordering::Greater => RUNTIME_INCONSISTENCY,
        };
        multi_header(writer, op_code::ERROR, false, code).i32(code)
    });
    end_of_multi(writer)
}

fn end_of_multi(writer: RecordWriter) -> RecordWriter {
    multi_header(writer, op_code::ERROR, true, -1)
}

fn multi_header(writer: RecordWriter, op_code: i32, is_done: bool, error: i32) -> RecordWriter {
    writer.i32(op_code).bool(is_done).i32(error)
}
