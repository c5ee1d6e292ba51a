//! Storing of a group's offsets.

use std::io::Read;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::reader::Reader;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::request::check_decoded;
use crate::protocol::request::check_encoded;
use crate::protocol::topic_groups;
use crate::protocol::topic_groups::OfPartition;
use crate::protocol::writer::Writer;

/// Stores offsets of a group. Version 0 stores them in ZooKeeper, versions 1 to 3 in Kafka, on the coordinator.
///
/// A group that ZooKeeper coordinates has neither a generation nor member ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCommitRequest {
    /// Name of the group.
    pub group: String,
    /// Generation of the group, `None` for a group that has none. Not in version 0.
    pub generation: Option<i32>,
    /// Id of the member, empty where there is none. Not in version 0.
    pub member: String,
    /// For how many milliseconds the offsets are kept; `None` leaves it to the broker. From version 2 on.
    pub retention: Option<i64>,
    /// The offsets. Neighbours of one topic share a group on the wire.
    pub partitions: Vec<OffsetCommitPartition>,
}

/// The offset of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetCommitPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The next message to consume.
    pub offset: i64,
    /// When it was consumed, in milliseconds since 1970; `None`: the broker's present. Version 1 only.
    pub timestamp: Option<i64>,
    /// Whatever the consumer wants to remember; version 0 forgets it.
    pub metadata: Option<String>,
}

/// Answers an [`OffsetCommitRequest`], in the broker's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCommitResponse {
    /// How long a quota held the answer back; `None` before version 3, which does not say.
    pub throttle_time: Option<Duration>,
    /// One answer for each partition.
    pub partitions: Vec<CommittedOffset>,
}

/// What became of the offset of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// Why it was not stored.
    pub error: Option<ErrorCode>,
}

impl Request for OffsetCommitRequest {
    const API: &'static str = "OffsetCommit";
    const KEY: i16 = 8;
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    type Response = OffsetCommitResponse;

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<OffsetCommitRequest>(version)?;
        body.string("group", &self.group)?;
        if version >= 1 {
            body.i32(self.generation.unwrap_or(-1));
            body.string("member_id", &self.member)?;
        }
        if version >= 2 {
            body.i64(self.retention.unwrap_or(-1));
        }
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.i64(partition.offset);
            if version == 1 {
                body.i64(partition.timestamp.unwrap_or(-1));
            }
            body.nullable_string("metadata", partition.metadata.as_deref())
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<OffsetCommitRequest>(version)?;
        let mut request = Self {
            group: body.string("group")?,
            ..Self::default()
        };
        if version >= 1 {
            request.generation = Some(body.i32("generation_id")?).filter(|it| *it >= 0);
            request.member = body.string("member_id")?;
        }
        if version >= 2 {
            request.retention = Some(body.i64("retention_time_ms")?).filter(|it| *it >= 0);
        }
        request.partitions = topic_groups::read(body, |body, topic_partition| {
            Ok(OffsetCommitPartition {
                topic_partition,
                offset: body.i64("offset")?,
                timestamp: match version {
                    1 => Some(body.i64("timestamp")?).filter(|it| *it >= 0),
                    _ => None,
                },
                metadata: body.nullable_string("metadata")?,
            })
        })?;
        Ok(request)
    }
}

impl Response for OffsetCommitResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<OffsetCommitRequest>(version)?;
        if version >= 3 {
            body.throttle_time(self.throttle_time)?;
        }
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.i16(partition.error.map_or(0, ErrorCode::code));
            Ok(())
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<OffsetCommitRequest>(version)?;
        let throttle_time = body.throttle_time(version >= 3)?;
        let partitions = topic_groups::read(body, |body, topic_partition| {
            Ok(CommittedOffset {
                topic_partition,
                error: ErrorCode::from_wire(body.i16("error_code")?),
            })
        })?;
        Ok(Self {
            throttle_time,
            partitions,
        })
    }
}

impl OfPartition for OffsetCommitPartition {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}

impl OfPartition for CommittedOffset {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}
