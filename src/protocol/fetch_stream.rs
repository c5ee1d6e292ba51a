//! A fetch response, taken apart while it arrives.

use std::io::Read;
use std::time::Duration;

use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::fetch::FetchRequest;
use crate::protocol::partition_header::PartitionHeader;
use crate::protocol::reader::Reader;
use crate::protocol::request::check_decoded;

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
        header: PartitionHeader,
        message_set: Vec<u8>,
    );
}

/// What stands before the partitions of a fetch response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FetchResponseHeader {
    /// `None` in version 0, which does not say.
    pub(crate) throttle_time: Option<Duration>,
    /// Why nothing is answered at all. From version 7 on.
    pub(crate) error: Option<ErrorCode>,
    /// `None` where the broker keeps no session, and before version 7.
    pub(crate) session_id: Option<i32>,
}

/// Reads a fetch response, gives each partition to `sink`, and returns what stands before them.
///
/// Partitions that the sink has received are whole, even when a later one fails.
pub(crate) fn read_fetch_response<R: Read>(
    version: i16,
    body: &mut Reader<R>,
    sink: &mut dyn FetchSink,
) -> Result<FetchResponseHeader, DecodeError> {
    check_decoded::<FetchRequest>(version)?;
    let mut header = FetchResponseHeader {
        throttle_time: None,
        error: None,
        session_id: None,
    };
    if version >= 1 {
        header.throttle_time = Some(body.milliseconds("throttle_time_ms")?);
    }
    if version >= 7 {
        header.error = ErrorCode::from_wire(body.i16("error_code")?);
        header.session_id = Some(body.i32("session_id")?).filter(|id| *id != 0);
    }
    for _ in 0..body.length("topics")? {
        let topic = body.string("topic")?;
        for _ in 0..body.length("partitions")? {
            read_partition(version, &topic, body, sink)?;
        }
    }
    Ok(header)
}

fn read_partition<R: Read>(
    version: i16,
    topic: &str,
    body: &mut Reader<R>,
    sink: &mut dyn FetchSink,
) -> Result<(), DecodeError> {
    let partition = body.i32("partition")?;
    let header = PartitionHeader::decode(version, body)?;
    let size = body.length("message_set")?;
    let mut message_set = sink.buffer(topic, partition, size);
    body.fill("message_set", size, &mut message_set)?;
    sink.partition(topic, partition, header, message_set);
    Ok(())
}
