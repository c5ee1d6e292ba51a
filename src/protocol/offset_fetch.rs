//! Reading of a group's offsets.

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

/// Asks for offsets of a group. Version 0 reads ZooKeeper, versions 1 to 3 Kafka, on the coordinator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetFetchRequest {
    /// Name of the group.
    pub group: String,
    /// What is wanted; `None` asks for all that the group has, from version 2 on. Neighbours of one topic share a group
    /// on the wire.
    pub partitions: Option<Vec<TopicPartition>>,
}

/// Answers an [`OffsetFetchRequest`], in the broker's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetFetchResponse {
    /// How long a quota held the answer back; `None` before version 3, which does not say.
    pub throttle_time: Option<Duration>,
    /// One answer for each partition; partitions may be missing where there is an error for all.
    pub partitions: Vec<FetchedOffset>,
    /// Why nothing is known of the group. From version 2 on.
    pub error: Option<ErrorCode>,
}

/// The offset of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedOffset {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The next message to consume; `None` where nothing was committed, which version 0 answers with
    /// [`ErrorCode::UnknownTopicOrPartition`], or with an error.
    pub offset: Option<i64>,
    /// What the consumer wanted to remember.
    pub metadata: Option<String>,
    /// Why nothing is known.
    pub error: Option<ErrorCode>,
}

impl Request for OffsetFetchRequest {
    const API: &'static str = "OffsetFetch";
    const KEY: i16 = 9;
    const VERSIONS: RangeInclusive<i16> = 0..=3;
    type Response = OffsetFetchResponse;

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<OffsetFetchRequest>(version)?;
        body.string("group", &self.group)?;
        match &self.partitions {
            Some(partitions) => topic_groups::write(body, partitions, |_, _| Ok(())),
            None if version >= 2 => {
                body.i32(-1);
                Ok(())
            }
            None => Err(EncodeError::Inexpressible {
                api: Self::API,
                version,
                field: "all partitions",
            }),
        }
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<OffsetFetchRequest>(version)?;
        let group = body.string("group")?;
        let each = |_: &mut Reader<R>, topic_partition| Ok(topic_partition);
        let partitions = match version {
            2.. => topic_groups::read_nullable(body, each)?,
            _ => Some(topic_groups::read(body, each)?),
        };
        Ok(Self { group, partitions })
    }
}

impl Response for OffsetFetchResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<OffsetFetchRequest>(version)?;
        if version >= 3 {
            body.throttle_time(self.throttle_time)?;
        }
        topic_groups::write(body, &self.partitions, |body, partition| {
            body.i64(partition.offset.unwrap_or(-1));
            body.nullable_string("metadata", partition.metadata.as_deref())?;
            body.i16(partition.error.map_or(0, ErrorCode::code));
            Ok(())
        })?;
        if version >= 2 {
            body.i16(self.error.map_or(0, ErrorCode::code));
        }
        Ok(())
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<OffsetFetchRequest>(version)?;
        let throttle_time = body.throttle_time(version >= 3)?;
        let partitions = topic_groups::read(body, |body, topic_partition| {
            Ok(FetchedOffset {
                topic_partition,
                offset: Some(body.i64("offset")?).filter(|offset| *offset >= 0),
                metadata: body.nullable_string("metadata")?,
                error: ErrorCode::from_wire(body.i16("error_code")?),
            })
        })?;
        let error = match version {
            2.. => ErrorCode::from_wire(body.i16("error_code")?),
            _ => None,
        };
        Ok(Self {
            throttle_time,
            partitions,
            error,
        })
    }
}

impl OfPartition for TopicPartition {
    fn topic_partition(&self) -> &TopicPartition {
        self
    }
}

impl OfPartition for FetchedOffset {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}
