//! Requests as the index of the vectors describes them.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::cluster::TopicPartition;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::FetchPartition;
use crate::protocol::FetchRequest;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::ListOffsetsPartition;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::MetadataRequest;
use crate::protocol::OffsetCommitPartition;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::OffsetTime;
use crate::protocol::ProducePartition;
use crate::protocol::ProduceRequest;
use crate::protocol::Replica;
use crate::protocol::Request;
use crate::protocol::RequiredAcks;

/// What the index knows about a kind of request.
pub(super) trait Indexed: Request + PartialEq + std::fmt::Debug {
    /// Whether the index says nothing that a request could be made of.
    fn is_left_open(index: &Value) -> bool {
        index["topics"].is_null()
    }

    /// What the index leaves open stands in `decoded`.
    fn from_index(index: &Value, decoded: &Self) -> Self;
}

fn partitions<T>(index: &Value, item: impl Fn(TopicPartition, &Value) -> T) -> Vec<T> {
    let mut items = Vec::new();
    for topic in index["topics"].as_array().unwrap() {
        for partition in topic["partitions"].as_array().unwrap() {
            let name = topic["topic"].as_str().unwrap();
            let number = int(&partition["partition"]);
            items.push(item(TopicPartition::new(name, number), partition));
        }
    }
    items
}

pub(super) fn int<T: TryFrom<i64>>(value: &Value) -> T {
    let number = value.as_i64().unwrap();
    T::try_from(number).ok().unwrap()
}

/// A field of the index, or what was decoded where the index does not name it.
fn optional<T>(index: &Value, field: &str, decoded: T, read: impl Fn(&Value) -> T) -> T {
    match &index[field] {
        Value::Null => decoded,
        value => read(value),
    }
}

fn replica(index: &Value) -> Replica {
    match int(&index["replica_id"]) {
        -1 => Replica::Consumer,
        -2 => Replica::Debugging,
        id => Replica::Broker(id),
    }
}

impl Indexed for MetadataRequest {
    fn from_index(index: &Value, decoded: &Self) -> Self {
        let topics = index["topics"].as_array().unwrap().iter();
        let topics = topics.map(|topic| topic.as_str().unwrap().to_owned());
        let is_everything = decoded.topics.is_none();
        Self {
            topics: Some(topics.collect())
                .filter(|it: &Vec<String>| !is_everything || !it.is_empty()),
            allow_auto_topic_creation: decoded.allow_auto_topic_creation,
        }
    }
}

impl Indexed for FetchRequest {
    fn from_index(index: &Value, decoded: &Self) -> Self {
        Self {
            replica: optional(index, "replica_id", decoded.replica, |_| replica(index)),
            max_wait: optional(index, "max_wait_ms", decoded.max_wait, |it| {
                Duration::from_millis(int(it))
            }),
            min_bytes: optional(index, "min_bytes", decoded.min_bytes, int),
            partitions: partitions(index, |topic_partition, partition| FetchPartition {
                topic_partition,
                current_leader_epoch: None,
                fetch_offset: int(&partition["fetch_offset"]),
                log_start_offset: None,
                max_bytes: int(&partition["max_bytes"]),
            }),
            ..decoded.clone()
        }
    }
}

impl Indexed for ListOffsetsRequest {
    fn from_index(index: &Value, decoded: &Self) -> Self {
        Self {
            replica: replica(index),
            isolation: decoded.isolation,
            partitions: partitions(index, |topic_partition, partition| ListOffsetsPartition {
                topic_partition,
                current_leader_epoch: None,
                time: match int(&partition["time"]) {
                    -1 => OffsetTime::Latest,
                    -2 => OffsetTime::Earliest,
                    time => OffsetTime::Timestamp(time),
                },
                max_offsets: int(&partition["max_num_offsets"]),
            }),
        }
    }
}

impl Indexed for ProduceRequest {
    fn from_index(index: &Value, decoded: &Self) -> Self {
        Self {
            transactional_id: decoded.transactional_id.clone(),
            acks: match int(&index["acks"]) {
                -1 => RequiredAcks::All,
                0 => RequiredAcks::None,
                1 => RequiredAcks::Leader,
                replicas => RequiredAcks::Replicas(replicas),
            },
            timeout: Duration::from_millis(int(&index["timeout_ms"])),
            partitions: partitions(index, |topic_partition, partition| {
                let set = partition["record_set"]["b64"].as_str().unwrap();
                ProducePartition {
                    topic_partition,
                    message_set: BASE64_STANDARD.decode(set).unwrap().into(),
                }
            }),
        }
    }
}

impl Indexed for ApiVersionsRequest {
    fn from_index(_index: &Value, decoded: &Self) -> Self {
        *decoded
    }
}

/// The index names the group, and mostly the partitions; where all is about one offset, only that one.
impl Indexed for OffsetCommitRequest {
    fn is_left_open(index: &Value) -> bool {
        index["group"].is_null()
    }

    fn from_index(index: &Value, decoded: &Self) -> Self {
        let mut described = Self {
            group: index["group"].as_str().unwrap().to_owned(),
            generation: index["gen"].as_i64().map(|it| it.try_into().unwrap()),
            member: index["member"].as_str().unwrap_or_default().to_owned(),
            retention: index["retention"].as_i64(),
            partitions: decoded.partitions.clone(),
        };
        if !index["topics"].is_null() {
            described.partitions = partitions(index, committed_partition);
        } else if !index["offset"].is_null() {
            for partition in &mut described.partitions {
                partition.offset = int(&index["offset"]);
                partition.metadata = index["metadata"].as_str().map(str::to_owned);
            }
        }
        described
    }
}

fn committed_partition(topic_partition: TopicPartition, index: &Value) -> OffsetCommitPartition {
    OffsetCommitPartition {
        topic_partition,
        offset: int(&index["offset"]),
        timestamp: index["timestamp"].as_i64().filter(|it| *it >= 0),
        metadata: index["metadata"].as_str().map(str::to_owned),
    }
}

impl Indexed for OffsetFetchRequest {
    fn is_left_open(index: &Value) -> bool {
        index["group"].is_null()
    }

    fn from_index(index: &Value, decoded: &Self) -> Self {
        let named = |topic: &Value| {
            let name = topic["topic"].as_str().unwrap();
            let numbers = topic["partitions"].as_array().unwrap().iter();
            let named = numbers.map(|number| TopicPartition::new(name, int(number)));
            named.collect::<Vec<_>>()
        };
        let topics = index["topics"].as_array();
        Self {
            group: index["group"].as_str().unwrap().to_owned(),
            partitions: match topics {
                Some(topics) => Some(topics.iter().flat_map(named).collect()),
                None => decoded.partitions.clone(),
            },
        }
    }
}

impl Indexed for FindCoordinatorRequest {
    fn is_left_open(index: &Value) -> bool {
        index["group"].is_null()
    }

    fn from_index(index: &Value, _decoded: &Self) -> Self {
        Self {
            group: index["group"].as_str().unwrap().to_owned(),
        }
    }
}
