//! Which brokers there are, and who leads what.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::reader::Reader;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::request::check_decoded;
use crate::protocol::request::check_encoded;
use crate::protocol::writer::Writer;

/// Asks about topics. Versions 0 to 5.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataRequest {
    /// Names of the topics; `None` asks for every topic. An empty list, which asks for none, has no form in version 0.
    pub topics: Option<Vec<String>>,
    /// Whether a broker with `auto.create.topics.enable` creates the topics asked for. Before version 4 it does in any
    /// case.
    pub allow_auto_topic_creation: bool,
}

/// Answers a [`MetadataRequest`], in the broker's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataResponse {
    /// How long a quota held the answer back; `None` before version 3, which does not say.
    pub throttle_time: Option<Duration>,
    /// The live brokers. May be empty when the whole request failed, or on an 0.8 cluster that never had a topic.
    pub brokers: Vec<Broker>,
    /// Racks of those brokers that have one, by their ids; version 0 does not tell.
    pub racks: BTreeMap<i32, String>,
    /// Id of the cluster (KIP-78); `None` where it has none, and before version 2, which does not tell.
    pub cluster_id: Option<String>,
    /// Id of the controller; `None` while there is none, and in version 0, which does not tell.
    pub controller: Option<i32>,
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
    /// Whether the brokers keep it for themselves, as they do with `__consumer_offsets`; version 0 does not tell.
    pub is_internal: bool,
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
    /// Ids of the replicas whose brokers or disks are down (KIP-112). From version 5 on.
    pub offline_replicas: Vec<i32>,
}

impl Request for MetadataRequest {
    const API: &'static str = "Metadata";
    const KEY: i16 = 3;
    const VERSIONS: RangeInclusive<i16> = 0..=5;
    type Response = MetadataResponse;

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<MetadataRequest>(version)?;
        let topics = match (version, self.topics.as_deref()) {
            (0, None) => Some(&[][..]),
            (0, Some([])) => {
                let (api, field) = (Self::API, "an empty list of topics");
                return Err(EncodeError::Inexpressible {
                    api,
                    version,
                    field,
                });
            }
            (_, topics) => topics,
        };
        body.nullable_array("topics", topics, |body, topic| body.string("topic", topic))?;
        if version >= 4 {
            body.i8(i8::from(self.allow_auto_topic_creation));
        }
        Ok(())
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<MetadataRequest>(version)?;
        let topics = body.nullable_array("topics", |body| body.string("topic"))?;
        let allow_auto_topic_creation = version < 4 || body.i8("allow_auto_topic_creation")? != 0;
        if version >= 1 {
            return Ok(Self {
                topics,
                allow_auto_topic_creation,
            });
        }
        // All topics are asked for by an empty list here, and null was never allowed.
        let topics = topics.ok_or(DecodeError::Length {
            field: "topics",
            length: -1,
            left: body.remaining(),
        })?;
        Ok(Self {
            topics: Some(topics).filter(|topics| !topics.is_empty()),
            allow_auto_topic_creation,
        })
    }
}

impl Response for MetadataResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<MetadataRequest>(version)?;
        if version >= 3 {
            body.throttle_time(self.throttle_time)?;
        }
        body.array("brokers", &self.brokers, |body, broker| {
            body.i32(broker.id);
            body.string("host", &broker.address.host)?;
            body.i32(i32::from(broker.address.port));
            match version {
                0 => Ok(()),
                _ => body.nullable_string("rack", self.racks.get(&broker.id).map(String::as_str)),
            }
        })?;
        if version >= 2 {
            body.nullable_string("cluster_id", self.cluster_id.as_deref())?;
        }
        if version >= 1 {
            body.i32(self.controller.unwrap_or(-1));
        }
        body.array("topics", &self.topics, |body, topic| {
            topic.encode(version, body)
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<MetadataRequest>(version)?;
        let throttle_time = body.throttle_time(version >= 3)?;
        let mut racks = BTreeMap::new();
        let brokers = body.array("brokers", |body| broker(version, body, &mut racks))?;
        let cluster_id = match version {
            2.. => body.nullable_string("cluster_id")?,
            _ => None,
        };
        let controller = match version {
            0 => None,
            _ => Some(body.i32("controller_id")?).filter(|id| *id >= 0),
        };
        Ok(Self {
            throttle_time,
            brokers: brokers.into_iter().flatten().collect(),
            racks,
            cluster_id,
            controller,
            topics: body.array("topics", |body| TopicMetadata::decode(version, body))?,
        })
    }
}

impl TopicMetadata {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        body.i16(self.error.map_or(0, ErrorCode::code));
        body.string("topic", &self.topic)?;
        if version >= 1 {
            body.i8(i8::from(self.is_internal));
        }
        body.array("partitions", &self.partitions, |body, partition| {
            partition.encode(version, body)
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        Ok(Self {
            error: ErrorCode::from_wire(body.i16("error_code")?),
            topic: body.string("topic")?,
            is_internal: version >= 1 && body.i8("is_internal")? != 0,
            partitions: body.array("partitions", |body| {
                PartitionMetadata::decode(version, body)
            })?,
        })
    }
}

impl PartitionMetadata {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        body.i16(self.error.map_or(0, ErrorCode::code));
        body.i32(self.partition);
        body.i32(self.leader.unwrap_or(-1));
        for (field, ids, since) in [
            ("replicas", &self.replicas, 0),
            ("isr", &self.isr, 0),
            ("offline_replicas", &self.offline_replicas, 5),
        ] {
            if version < since {
                continue;
            }
            body.array(field, ids, |body, id| {
                body.i32(*id);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        Ok(Self {
            error: ErrorCode::from_wire(body.i16("error_code")?),
            partition: body.i32("partition")?,
            leader: Some(body.i32("leader")?).filter(|leader| *leader >= 0),
            replicas: body.array("replicas", |body| body.i32("replica"))?,
            isr: body.array("isr", |body| body.i32("isr"))?,
            offline_replicas: match version {
                5.. => body.array("offline_replicas", |body| body.i32("offline_replica"))?,
                _ => Vec::new(),
            },
        })
    }
}

/// `None` for a broker without a port to connect to, which must not cost the others (D28).
fn broker<R: Read>(
    version: i16,
    body: &mut Reader<R>,
    racks: &mut BTreeMap<i32, String>,
) -> Result<Option<Broker>, DecodeError> {
    let id = body.i32("node_id")?;
    let host = body.string("host")?;
    let port = u16::try_from(body.i32("port")?).ok();
    if version >= 1
        && let Some(rack) = body.nullable_string("rack")?
    {
        racks.insert(id, rack);
    }
    Ok(port.map(|port| Broker {
        id,
        address: BrokerAddress { host, port },
    }))
}
