//! Messages of partitions, from given offsets on.

use std::io::Read;
use std::time::Duration;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::fetch_stream;
use crate::protocol::fetch_stream::FetchSink;
use crate::protocol::message_set::MessageSet;
use crate::protocol::reader::Reader;
use crate::protocol::replica::Replica;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::topic_groups;
use crate::protocol::topic_groups::OfPartition;
use crate::protocol::writer::Writer;

/// Asks for messages. Versions 0 and 1, whose requests are the same.
///
/// Its list of partitions can be cleared and filled again, so that a loop of fetches allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchRequest {
    /// Who asks; an ordinary consumer leaves the default.
    pub replica: Replica,
    /// How long the broker may wait for `min_bytes`; zero asks for an answer at once.
    pub max_wait: Duration,
    /// How many bytes, over all partitions, the broker waits for.
    pub min_bytes: i32,
    /// What is wanted. Neighbours of one topic share a group on the wire.
    pub partitions: Vec<FetchPartition>,
}

/// What is wanted of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The first offset wanted. The answer may begin before it.
    pub fetch_offset: i64,
    /// Most bytes of the answer's message set, which is cut there.
    pub max_bytes: i32,
}

/// Answers a [`FetchRequest`], in the broker's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchResponse {
    /// How long a quota held the answer back; `None` in version 0, which does not say.
    pub throttle_time: Option<Duration>,
    /// One answer for each partition that the broker answered for.
    pub partitions: Vec<FetchedPartition>,
}

/// What a broker gave of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// Why there is no data.
    pub error: Option<ErrorCode>,
    /// The offset after the last message that consumers may see; `None` where the broker failed.
    pub high_watermark: Option<i64>,
    /// Whole entries and possibly a piece of one. Empty does not say that the end was reached.
    pub message_set: MessageSet,
}

impl FetchRequest {
    /// Adds one partition, for making a request in one expression.
    #[must_use]
    pub fn fetch(
        mut self,
        topic_partition: TopicPartition,
        fetch_offset: i64,
        max_bytes: i32,
    ) -> Self {
        self.partitions.push(FetchPartition {
            topic_partition,
            fetch_offset,
            max_bytes,
        });
        self
    }
}

impl Request for FetchRequest {
    const API: &'static str = "Fetch";
    const KEY: i16 = 1;
    type Response = FetchResponse;

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded(version)?;
        body.i32(self.replica.to_wire());
        body.milliseconds("max_wait_ms", self.max_wait)?;
        body.i32(self.min_bytes);
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.i64(partition.fetch_offset);
            body.i32(partition.max_bytes);
            Ok(())
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        fetch_stream::check_version(version)?;
        Ok(Self {
            replica: Replica::from_wire(body.i32("replica_id")?),
            max_wait: body.milliseconds("max_wait_ms")?,
            min_bytes: body.i32("min_bytes")?,
            partitions: topic_groups::read(body, |body, topic_partition| {
                Ok(FetchPartition {
                    topic_partition,
                    fetch_offset: body.i64("fetch_offset")?,
                    max_bytes: body.i32("max_bytes")?,
                })
            })?,
        })
    }
}

impl Response for FetchResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded(version)?;
        if version >= 1 {
            let throttle_time = self.throttle_time.unwrap_or_default();
            body.milliseconds("throttle_time_ms", throttle_time)?;
        }
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.i16(partition.error.map_or(0, ErrorCode::code));
            body.i64(partition.high_watermark.unwrap_or(-1));
            body.bytes("message_set", partition.message_set.as_bytes())
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        let mut collected = Collected::default();
        let throttle_time = fetch_stream::read_fetch_response(version, body, &mut collected)?;
        Ok(Self {
            throttle_time,
            partitions: collected.partitions,
        })
    }
}

impl OfPartition for FetchPartition {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}

impl OfPartition for FetchedPartition {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}

/// Keeps all partitions.
#[derive(Default)]
struct Collected {
    partitions: Vec<FetchedPartition>,
}

impl FetchSink for Collected {
    fn buffer(&mut self, _topic: &str, _partition: i32, _size: usize) -> Vec<u8> {
        Vec::new()
    }

    fn partition(
        &mut self,
        topic: &str,
        partition: i32,
        error: Option<ErrorCode>,
        high_watermark: Option<i64>,
        message_set: Vec<u8>,
    ) {
        self.partitions.push(FetchedPartition {
            topic_partition: TopicPartition::new(topic, partition),
            error,
            high_watermark,
            message_set: MessageSet::from(message_set),
        });
    }
}

fn check_encoded(version: i16) -> Result<(), EncodeError> {
    let api = FetchRequest::API;
    match version {
        0 | 1 => Ok(()),
        version => Err(EncodeError::Version { api, version }),
    }
}
