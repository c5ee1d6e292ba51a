//! A fetch response, taken apart while it arrives.

use std::io::Read;
use std::time::Duration;

use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::fetch::FetchRequest;
use crate::protocol::reader::Reader;
use crate::protocol::request::Request;

/// Receives each partition of a fetch response as soon as it has been read.
pub(crate) trait FetchSink {
    /// A buffer for the partition's message set, of which the peer says that it has `size` bytes.
    ///
    /// What it holds is overwritten, which costs less than filling an empty one.
    /// Its capacity is the sink's choice, never a promise of the peer's; the buffer grows as bytes arrive.
    fn buffer(&mut self, topic: &str, partition: i32, size: usize) -> Vec<u8>;

    /// Takes the partition. `message_set` is the buffer, now with exactly the bytes of the set.
    fn partition(
        &mut self,
        topic: &str,
        partition: i32,
        error: Option<ErrorCode>,
        high_watermark: Option<i64>,
        message_set: Vec<u8>,
    );
}

/// Reads a fetch response, gives each partition to `sink`, and returns the throttle time where the version has one.
///
/// Partitions that the sink has received are whole, even when a later one fails.
pub(crate) fn read_fetch_response<R: Read>(
    version: i16,
    body: &mut Reader<R>,
    sink: &mut dyn FetchSink,
) -> Result<Option<Duration>, DecodeError> {
    check_version(version)?;
    let throttle_time = match version {
        0 => None,
        _ => Some(body.milliseconds("throttle_time_ms")?),
    };
    for _ in 0..body.length("topics")? {
        let topic = body.string("topic")?;
        for _ in 0..body.length("partitions")? {
            read_partition(&topic, body, sink)?;
        }
    }
    Ok(throttle_time)
}

pub(super) fn check_version(version: i16) -> Result<(), DecodeError> {
    let api = FetchRequest::API;
    match version {
        0 | 1 => Ok(()),
        version => Err(DecodeError::Version { api, version }),
    }
}

fn read_partition<R: Read>(
    topic: &str,
    body: &mut Reader<R>,
    sink: &mut dyn FetchSink,
) -> Result<(), DecodeError> {
    let partition = body.i32("partition")?;
    let error = ErrorCode::from_wire(body.i16("error_code")?);
    let high_watermark = Some(body.i64("high_watermark")?).filter(|offset| *offset >= 0);
    let size = body.length("message_set")?;
    let mut message_set = sink.buffer(topic, partition, size);
    body.fill("message_set", size, &mut message_set)?;
    sink.partition(topic, partition, error, high_watermark, message_set);
    Ok(())
}
