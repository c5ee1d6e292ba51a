//! Messages for partitions.

use std::io::Read;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::message_set::MessageSet;
use crate::protocol::reader::Reader;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::request::check_decoded;
use crate::protocol::request::check_encoded;
use crate::protocol::topic_groups;
use crate::protocol::topic_groups::OfPartition;
use crate::protocol::writer::Writer;

/// Appends messages to partitions. Versions 0 to 3.
///
/// The version goes by the messages: formats 0 and 1 fit into versions 0 to 2, format 2 needs version 3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceRequest {
    /// The transaction that the messages belong to; version 3 only, not written in others.
    pub transactional_id: Option<String>,
    /// When the broker answers.
    pub acks: RequiredAcks,
    /// How long the broker waits for the replicas that `acks` asks for.
    pub timeout: Duration,
    /// What to append. Neighbours of one topic share a group on the wire.
    pub partitions: Vec<ProducePartition>,
}

/// When a broker answers a [`ProduceRequest`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequiredAcks {
    /// Never (0).
    None,
    /// When its own log has the messages (1).
    #[default]
    Leader,
    /// When all replicas in sync have them (-1).
    All,
    /// When so many replicas have them; refused from 0.9 on.
    Replicas(i16),
}

/// What to append to one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducePartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The messages. The broker gives them their offsets.
    pub message_set: MessageSet,
}

/// Answers a [`ProduceRequest`], in the broker's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceResponse {
    /// One answer for each partition.
    pub partitions: Vec<ProducedPartition>,
    /// How long a quota held the answer back; `None` in version 0, which does not say.
    pub throttle_time: Option<Duration>,
}

/// What became of the messages for one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducedPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// Why they were not appended, or not acknowledged.
    pub error: Option<ErrorCode>,
    /// Offset of the first message; `None` when there is none.
    pub base_offset: Option<i64>,
    /// When the broker appended them, in milliseconds since 1970; `None` where the messages keep the producer's
    /// times, and before version 2.
    pub log_append_time: Option<i64>,
}

impl Request for ProduceRequest {
    const API: &'static str = "Produce";
    const KEY: i16 = 0;
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    type Response = ProduceResponse;

    fn is_answered(&self) -> bool {
        self.acks != RequiredAcks::None
    }

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<ProduceRequest>(version)?;
        if version >= 3 {
            body.nullable_string("transactional_id", self.transactional_id.as_deref())?;
        }
        body.i16(self.acks.to_wire());
        body.milliseconds("timeout_ms", self.timeout)?;
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.bytes("message_set", partition.message_set.as_bytes())
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<ProduceRequest>(version)?;
        let transactional_id = match version {
            3.. => body.nullable_string("transactional_id")?,
            _ => None,
        };
        Ok(Self {
            transactional_id,
            acks: RequiredAcks::from_wire(body.i16("acks")?),
            timeout: body.milliseconds("timeout_ms")?,
            partitions: topic_groups::read(body, |body, topic_partition| {
                Ok(ProducePartition {
                    topic_partition,
                    message_set: body.bytes("message_set")?.into(),
                })
            })?,
        })
    }
}

impl Response for ProduceResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<ProduceRequest>(version)?;
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.i16(partition.error.map_or(0, ErrorCode::code));
            body.i64(partition.base_offset.unwrap_or(-1));
            if version >= 2 {
                body.i64(partition.log_append_time.unwrap_or(-1));
            }
            Ok(())
        })?;
        if version >= 1 {
            body.throttle_time(self.throttle_time)?;
        }
        Ok(())
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<ProduceRequest>(version)?;
        let partitions = topic_groups::read(body, |body, topic_partition| {
            Ok(ProducedPartition {
                topic_partition,
                error: ErrorCode::from_wire(body.i16("error_code")?),
                base_offset: Some(body.i64("base_offset")?).filter(|offset| *offset >= 0),
                log_append_time: match version {
                    2.. => Some(body.i64("log_append_time_ms")?).filter(|time| *time >= 0),
                    _ => None,
                },
            })
        })?;
        let throttle_time = body.throttle_time(version >= 1)?;
        Ok(Self {
            partitions,
            throttle_time,
        })
    }
}

impl RequiredAcks {
    fn from_wire(acks: i16) -> Self {
        match acks {
            0 => Self::None,
            1 => Self::Leader,
            -1 => Self::All,
            replicas => Self::Replicas(replicas),
        }
    }

    fn to_wire(self) -> i16 {
        match self {
            Self::None => 0,
            Self::Leader => 1,
            Self::All => -1,
            Self::Replicas(replicas) => replicas,
        }
    }
}

impl OfPartition for ProducePartition {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}

impl OfPartition for ProducedPartition {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}
