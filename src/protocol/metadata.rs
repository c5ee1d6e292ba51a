//! Which brokers there are, and who leads what.

use std::io::Read;

use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::reader::Reader;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::writer::Writer;

/// Asks about topics. Version 0.
///
/// A broker with `auto.create.topics.enable` creates the topics asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataRequest {
    /// Names of the topics; none at all asks for every topic.
    pub topics: Vec<String>,
}

/// Answers a [`MetadataRequest`], in the broker's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataResponse {
    /// The live brokers. May be empty when the whole request failed, or on an 0.8 cluster that never had a topic.
    pub brokers: Vec<Broker>,
    /// The topics. One that was asked for twice comes once.
    pub topics: Vec<TopicMetadata>,
}

/// What a broker knows about a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMetadata {
    /// What is wrong with the topic as a whole.
    pub error: Option<ErrorCode>,
    /// Name of the topic.
    pub topic: String,
    /// Its partitions, in any order and possibly with gaps.
    pub partitions: Vec<PartitionMetadata>,
}

/// What a broker knows about a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// What is wrong with the partition. [`ErrorCode::ReplicaNotAvailable`] says nothing against its leader.
    pub error: Option<ErrorCode>,
    /// Number of the partition.
    pub partition: i32,
    /// Id of the leader, which need not be among the brokers; `None` while there is no leader.
    pub leader: Option<i32>,
    /// Ids of the replicas; version 0 leaves dead ones out.
    pub replicas: Vec<i32>,
    /// Ids of the replicas in sync.
    pub isr: Vec<i32>,
}

impl Request for MetadataRequest {
    const API: &'static str = "Metadata";
    const KEY: i16 = 3;
    type Response = MetadataResponse;

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        if version != 0 {
            let api = Self::API;
            return Err(EncodeError::Version { api, version });
        }
        body.array("topics", &self.topics, |body, topic| {
            body.string("topic", topic)
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_version(version)?;
        let count = body.i32("topics")?;
        // Only answers may leave an array out; here null would mean all topics from version 1 on, and none before.
        let count = usize::try_from(count).map_err(|_| DecodeError::Length {
            field: "topics",
            length: i64::from(count),
            left: body.remaining(),
        })?;
        let mut topics = Vec::new();
        for _ in 0..count {
            topics.push(body.string("topic")?);
        }
        Ok(Self { topics })
    }
}

impl Response for MetadataResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        if version != 0 {
            let api = MetadataRequest::API;
            return Err(EncodeError::Version { api, version });
        }
        body.array("brokers", &self.brokers, |body, broker| {
            body.i32(broker.id);
            body.string("host", &broker.address.host)?;
            body.i32(i32::from(broker.address.port));
            Ok(())
        })?;
        body.array("topics", &self.topics, |body, topic| topic.encode(body))
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_version(version)?;
        Ok(Self {
            brokers: body
                .array("brokers", broker)?
                .into_iter()
                .flatten()
                .collect(),
            topics: body.array("topics", TopicMetadata::decode)?,
        })
    }
}

impl TopicMetadata {
    fn encode(&self, body: &mut Writer) -> Result<(), EncodeError> {
        body.i16(self.error.map_or(0, ErrorCode::code));
        body.string("topic", &self.topic)?;
        body.array("partitions", &self.partitions, |body, partition| {
            partition.encode(body)
        })
    }

    fn decode<R: Read>(body: &mut Reader<R>) -> Result<Self, DecodeError> {
        Ok(Self {
            error: ErrorCode::from_wire(body.i16("error_code")?),
            topic: body.string("topic")?,
            partitions: body.array("partitions", PartitionMetadata::decode)?,
        })
    }
}

impl PartitionMetadata {
    fn encode(&self, body: &mut Writer) -> Result<(), EncodeError> {
        body.i16(self.error.map_or(0, ErrorCode::code));
        body.i32(self.partition);
        body.i32(self.leader.unwrap_or(-1));
        for (field, ids) in [("replicas", &self.replicas), ("isr", &self.isr)] {
            body.array(field, ids, |body, id| {
                body.i32(*id);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn decode<R: Read>(body: &mut Reader<R>) -> Result<Self, DecodeError> {
        Ok(Self {
            error: ErrorCode::from_wire(body.i16("error_code")?),
            partition: body.i32("partition")?,
            leader: Some(body.i32("leader")?).filter(|leader| *leader >= 0),
            replicas: body.array("replicas", |body| body.i32("replica"))?,
            isr: body.array("isr", |body| body.i32("isr"))?,
        })
    }
}

/// `None` for a broker without a port to connect to, which must not cost the others (D28).
fn broker<R: Read>(body: &mut Reader<R>) -> Result<Option<Broker>, DecodeError> {
    let id = body.i32("node_id")?;
    let host = body.string("host")?;
    let port = u16::try_from(body.i32("port")?).ok();
    Ok(port.map(|port| Broker {
        id,
        address: BrokerAddress { host, port },
    }))
}

fn check_version(version: i16) -> Result<(), DecodeError> {
    let api = MetadataRequest::API;
    match version {
        0 => Ok(()),
        version => Err(DecodeError::Version { api, version }),
    }
}
