//! Where logs begin and end.

use std::io::Read;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::isolation_level::IsolationLevel;
use crate::protocol::reader::Reader;
use crate::protocol::replica::Replica;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::request::check_decoded;
use crate::protocol::request::check_encoded;
use crate::protocol::topic_groups;
use crate::protocol::topic_groups::OfPartition;
use crate::protocol::writer::Writer;

/// Asks for offsets by time ("Offset" in Kafka 0.8). Versions 0 to 5.
///
/// Version 0 asks for offsets *before* a time, in the coarse grain of segment files, and may get several; from
/// version 1 on the answer is the first message *from* that time on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListOffsetsRequest {
    /// Who asks; for an ordinary consumer "latest" is the high watermark.
    pub replica: Replica,
    /// Whether "latest" ends before the first open transaction; from version 2 on.
    pub isolation: IsolationLevel,
    /// What is wanted. Neighbours of one topic share a group on the wire.
    pub partitions: Vec<ListOffsetsPartition>,
}

/// What is wanted of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListOffsetsPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The epoch of the leader that is meant (KIP-320); `None` for whichever there is. From version 4 on.
    pub current_leader_epoch: Option<i32>,
    /// The time before which offsets are wanted.
    pub time: OffsetTime,
    /// Most offsets to return; from version 1 on it is always one.
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
    /// How long a quota held the answer back; `None` before version 2, which does not say.
    pub throttle_time: Option<Duration>,
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
    /// Time of the message at the offset, in milliseconds since 1970. `None` for [`OffsetTime::Earliest`] and
    /// [`OffsetTime::Latest`], where there is no such message, and in version 0, which does not say.
    pub timestamp: Option<i64>,
    /// The offsets, newest first; from version 1 on one or none. May be empty without an error.
    pub offsets: Vec<i64>,
    /// The epoch of the leader that wrote the message at the offset (KIP-320), where it is known. From version 4 on.
    pub leader_epoch: Option<i32>,
}

impl PartitionOffsets {
    /// The offset asked for; of several the newest. No log has a negative one: on the wire that stands for none.
    pub fn offset(&self) -> Option<i64> {
        self.offsets.first().copied().filter(|offset| *offset >= 0)
    }
}

impl ListOffsetsRequest {
    /// Adds one partition of which a single offset is wanted, for making a request in one expression.
    #[must_use]
    pub fn list(mut self, topic_partition: TopicPartition, time: OffsetTime) -> Self {
        self.partitions.push(ListOffsetsPartition {
            topic_partition,
            current_leader_epoch: None,
            time,
            max_offsets: 1,
        });
        self
    }
}

impl Request for ListOffsetsRequest {
    const API: &'static str = "ListOffsets";
    const KEY: i16 = 2;
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    type Response = ListOffsetsResponse;

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<ListOffsetsRequest>(version)?;
        body.i32(self.replica.to_wire());
        if version >= 2 {
            body.i8(self.isolation.to_wire());
        }
        topic_groups::write(body, &self.partitions, |body, partition| {
            if version >= 4 {
                body.i32(partition.current_leader_epoch.unwrap_or(-1));
            }
            body.i64(partition.time.to_wire());
            if version == 0 {
                body.i32(partition.max_offsets);
            }
            Ok(())
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<ListOffsetsRequest>(version)?;
        Ok(Self {
            replica: Replica::from_wire(body.i32("replica_id")?),
            isolation: match version {
                2.. => IsolationLevel::from_wire(body.i8("isolation_level")?),
                _ => IsolationLevel::default(),
            },
            partitions: topic_groups::read(body, |body, topic_partition| {
                Ok(ListOffsetsPartition {
                    topic_partition,
                    current_leader_epoch: leader_epoch("current_leader_epoch", version, body)?,
                    time: OffsetTime::from_wire(body.i64("time")?),
                    max_offsets: match version {
                        0 => body.i32("max_num_offsets")?,
                        _ => 1,
                    },
                })
            })?,
        })
    }
}

impl Response for ListOffsetsResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<ListOffsetsRequest>(version)?;
        if version >= 2 {
            body.throttle_time(self.throttle_time)?;
        }
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.i16(partition.error.map_or(0, ErrorCode::code));
            if version >= 1 {
                body.i64(partition.timestamp.unwrap_or(-1));
                body.i64(partition.offset().unwrap_or(-1));
                if version >= 4 {
                    body.i32(partition.leader_epoch.unwrap_or(-1));
                }
                return Ok(());
            }
            body.array("offsets", &partition.offsets, |body, offset| {
                body.i64(*offset);
                Ok(())
            })
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<ListOffsetsRequest>(version)?;
        let throttle_time = body.throttle_time(version >= 2)?;
        let partitions = topic_groups::read(body, |body, topic_partition| {
            PartitionOffsets::decode(version, body, topic_partition)
        })?;
        Ok(Self {
            throttle_time,
            partitions,
        })
    }
}

impl PartitionOffsets {
    fn decode<R: Read>(
        version: i16,
        body: &mut Reader<R>,
        topic_partition: TopicPartition,
    ) -> Result<Self, DecodeError> {
        let error = ErrorCode::from_wire(body.i16("error_code")?);
        let timestamp = match version {
            0 => None,
            _ => Some(body.i64("timestamp")?).filter(|time| *time >= 0),
        };
        let offsets = match version {
            0 => body.array("offsets", |body| body.i64("offset"))?,
            _ => {
                let offset = body.i64("offset")?;
                Vec::from_iter(Some(offset).filter(|offset| *offset >= 0))
            }
        };
        Ok(Self {
            topic_partition,
            error,
            timestamp,
            offsets,
            leader_epoch: leader_epoch("leader_epoch", version, body)?,
        })
    }
}

/// `None` where it is not known, and before version 4, which has none.
fn leader_epoch<R: Read>(
    field: &'static str,
    version: i16,
    body: &mut Reader<R>,
) -> Result<Option<i32>, DecodeError> {
    match version {
        4.. => Ok(Some(body.i32(field)?).filter(|epoch| *epoch >= 0)),
        _ => Ok(None),
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
