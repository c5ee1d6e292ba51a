//! Where logs begin and end.

use std::io::Read;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::reader::Reader;
use crate::protocol::replica::Replica;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::topic_groups;
use crate::protocol::topic_groups::OfPartition;
use crate::protocol::writer::Writer;

/// Asks for offsets before a time ("Offset" in Kafka 0.8). Version 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOffsetsRequest {
    /// Who asks; for an ordinary consumer "latest" is the high watermark.
    pub replica: Replica,
    /// What is wanted. Neighbours of one topic share a group on the wire.
    pub partitions: Vec<ListOffsetsPartition>,
}

/// What is wanted of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOffsetsPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The time before which offsets are wanted.
    pub time: OffsetTime,
    /// Most offsets to return.
    pub max_offsets: i32,
}

/// A place in a log, given by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffsetTime {
    /// The first offset that the log still holds.
    Earliest,
    /// The offset that the next message will get.
    Latest,
    /// Milliseconds since 1970. Version 0 looks at segment files only and is no finer than they are.
    Timestamp(i64),
}

/// Answers a [`ListOffsetsRequest`], in the broker's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOffsetsResponse {
    /// One answer for each partition that the broker answered for.
    pub partitions: Vec<PartitionOffsets>,
}

/// The offsets of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOffsets {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// Why there are no offsets.
    pub error: Option<ErrorCode>,
    /// The offsets, newest first. May be empty without an error.
    pub offsets: Vec<i64>,
}

impl ListOffsetsRequest {
    /// Adds one partition of which a single offset is wanted, for making a request in one expression.
    #[must_use]
    pub fn list(mut self, topic_partition: TopicPartition, time: OffsetTime) -> Self {
        self.partitions.push(ListOffsetsPartition {
            topic_partition,
            time,
            max_offsets: 1,
        });
        self
    }
}

impl Request for ListOffsetsRequest {
    const API: &'static str = "ListOffsets";
    const KEY: i16 = 2;
    type Response = ListOffsetsResponse;

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded(version)?;
        body.i32(self.replica.to_wire());
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.i64(partition.time.to_wire());
            body.i32(partition.max_offsets);
            Ok(())
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded(version)?;
        Ok(Self {
            replica: Replica::from_wire(body.i32("replica_id")?),
            partitions: topic_groups::read(body, |body, topic_partition| {
                Ok(ListOffsetsPartition {
                    topic_partition,
                    time: OffsetTime::from_wire(body.i64("time")?),
                    max_offsets: body.i32("max_num_offsets")?,
                })
            })?,
        })
    }
}

impl Response for ListOffsetsResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded(version)?;
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.i16(partition.error.map_or(0, ErrorCode::code));
            body.array("offsets", &partition.offsets, |body, offset| {
                body.i64(*offset);
                Ok(())
            })
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded(version)?;
        let partitions = topic_groups::read(body, |body, topic_partition| {
            Ok(PartitionOffsets {
                topic_partition,
                error: ErrorCode::from_wire(body.i16("error_code")?),
                offsets: body.array("offsets", |body| body.i64("offset"))?,
            })
        })?;
        Ok(Self { partitions })
    }
}

impl OffsetTime {
    fn from_wire(time: i64) -> Self {
        match time {
            -1 => Self::Latest,
            -2 => Self::Earliest,
            time => Self::Timestamp(time),
        }
    }

    fn to_wire(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::Timestamp(time) => time,
        }
    }
}

impl OfPartition for ListOffsetsPartition {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}

impl OfPartition for PartitionOffsets {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}

fn check_encoded(version: i16) -> Result<(), EncodeError> {
    let api = ListOffsetsRequest::API;
    match version {
        0 => Ok(()),
        version => Err(EncodeError::Version { api, version }),
    }
}

fn check_decoded(version: i16) -> Result<(), DecodeError> {
    let api = ListOffsetsRequest::API;
    match version {
        0 => Ok(()),
        version => Err(DecodeError::Version { api, version }),
    }
}
