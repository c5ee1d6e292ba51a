//! Responses as the index of the vectors describes them.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::CommittedOffset;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::FetchedOffset;
use crate::protocol::FetchedPartition;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MetadataResponse;
use crate::protocol::OffsetCommitResponse;
use crate::protocol::OffsetFetchResponse;
use crate::protocol::PartitionHeader;
use crate::protocol::PartitionOffsets;
use crate::protocol::ProduceResponse;
use crate::protocol::ProducedPartition;
use crate::protocol::Response;
use crate::protocol::tests::indexed_set::check_set;

/// What the index says of a kind of response.
pub(super) trait InIndex: Response + PartialEq + std::fmt::Debug {
    fn to_index(&self, version: i16) -> Value;

    /// Checks what the index says beside the fields.
    fn check_more(&self, _name: &str, _expected: &mut Value, _asked: Option<&FetchRequest>) {}
}

fn grouped<T>(
    items: &[T],
    of: impl Fn(&T) -> &TopicPartition,
    item: impl Fn(&T) -> Value,
) -> Value {
    let groups = items.chunk_by(|left, right| of(left).topic() == of(right).topic());
    let topics = groups.map(|group| {
        let partitions = group.iter().map(|each| {
            let mut value = item(each);
            value["partition"] = json!(of(each).partition());
            value
        });
        json!({ "topic": of(&group[0]).topic(), "partitions": partitions.collect::<Vec<_>>() })
    });
    json!(topics.collect::<Vec<_>>())
}

fn code(error: Option<ErrorCode>) -> i16 {
    error.map_or(0, ErrorCode::code)
}

impl InIndex for OffsetCommitResponse {
    fn to_index(&self, _version: i16) -> Value {
        let partition = |p: &CommittedOffset| json!({ "error_code": code(p.error) });
        let topics = grouped(&self.partitions, |p| &p.topic_partition, partition);
        throttled(json!({ "topics": topics }), self.throttle_time)
    }
}

impl InIndex for OffsetFetchResponse {
    fn to_index(&self, version: i16) -> Value {
        let partition = |p: &FetchedOffset| {
            json!({
                "offset": p.offset.unwrap_or(-1),
                "metadata": p.metadata,
                "error_code": code(p.error),
            })
        };
        let topics = grouped(&self.partitions, |p| &p.topic_partition, partition);
        let mut index = throttled(json!({ "topics": topics }), self.throttle_time);
        if version >= 2 {
            index["error_code"] = json!(code(self.error));
        }
        index
    }
}

impl InIndex for FindCoordinatorResponse {
    fn to_index(&self, version: i16) -> Value {
        let found = self.coordinator.as_ref();
        let address = found.map(|broker| &broker.address);
        let mut index = json!({
            "error_code": code(self.error),
            "coordinator_id": found.map_or(-1, |broker| broker.id),
            "host": address.map_or("", |address| &address.host),
            "port": address.map_or(-1, |address| i32::from(address.port)),
        });
        if version >= 1 {
            index["error_message"] = json!(self.error_message);
        }
        throttled(index, self.throttle_time)
    }
}

impl InIndex for ApiVersionsResponse {
    fn to_index(&self, _version: i16) -> Value {
        let apis = self.api_versions.iter().map(|api| {
            json!({
                "api_key": api.api_key,
                "min_version": api.min_version,
                "max_version": api.max_version,
            })
        });
        let apis: Vec<Value> = apis.collect();
        let index = json!({ "error_code": code(self.error), "api_versions": apis });
        throttled(index, self.throttle_time)
    }
}

impl InIndex for MetadataResponse {
    fn to_index(&self, version: i16) -> Value {
        let brokers = self.brokers.iter().map(|broker| {
            let address = &broker.address;
            let mut index =
                json!({ "node_id": broker.id, "host": address.host, "port": address.port });
            if version >= 1 {
                index["rack"] = json!(self.racks.get(&broker.id));
            }
            index
        });
        let topics = self.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|partition| {
                let mut index = json!({
                    "error_code": code(partition.error),
                    "partition": partition.partition,
                    "leader": partition.leader.unwrap_or(-1),
                    "replicas": partition.replicas,
                    "isr": partition.isr,
                });
                if version >= 5 {
                    index["offline_replicas"] = json!(partition.offline_replicas);
                }
                index
            });
            let mut index = json!({
                "error_code": code(topic.error),
                "topic": topic.topic,
                "partitions": partitions.collect::<Vec<_>>(),
            });
            if version >= 1 {
                index["is_internal"] = json!(topic.is_internal);
            }
            index
        });
        let mut index =
            json!({ "brokers": brokers.collect::<Vec<_>>(), "topics": topics.collect::<Vec<_>>() });
        if version >= 1 {
            index["controller_id"] = json!(self.controller.unwrap_or(-1));
        }
        if version >= 2 {
            index["cluster_id"] = json!(self.cluster_id);
        }
        throttled(index, self.throttle_time)
    }
}

impl InIndex for ListOffsetsResponse {
    fn to_index(&self, version: i16) -> Value {
        let partition = |p: &PartitionOffsets| match version {
            0 => json!({ "error_code": code(p.error), "offsets": p.offsets }),
            _ => {
                let mut index = json!({
                    "error_code": code(p.error),
                    "timestamp": p.timestamp.unwrap_or(-1),
                    "offset": p.offset().unwrap_or(-1),
                });
                if version >= 4 {
                    index["leader_epoch"] = json!(p.leader_epoch.unwrap_or(-1));
                }
                index
            }
        };
        let topics = grouped(&self.partitions, |p| &p.topic_partition, partition);
        throttled(json!({ "topics": topics }), self.throttle_time)
    }
}

impl InIndex for ProduceResponse {
    fn to_index(&self, _version: i16) -> Value {
        let partition = |p: &ProducedPartition| json!({ "error_code": code(p.error), "offset": p.base_offset.unwrap_or(-1) });
        let topics = grouped(&self.partitions, |p| &p.topic_partition, partition);
        throttled(json!({ "topics": topics }), self.throttle_time)
    }
}

fn throttled(mut index: Value, throttle_time: Option<Duration>) -> Value {
    if let Some(time) = throttle_time {
        index["throttle_time_ms"] = json!(time.as_millis());
    }
    index
}

fn header(version: i16, header: &PartitionHeader) -> Value {
    let offset = |offset: Option<i64>| json!(offset.unwrap_or(-1));
    let mut index = json!({
        "error_code": code(header.error),
        "highwater_offset": offset(header.high_watermark),
    });
    if version >= 4 {
        index["last_stable_offset"] = offset(header.last_stable_offset);
        let aborted = header.aborted_transactions.as_ref();
        let aborted = aborted.map(|aborted| {
            let aborted = aborted.iter().map(|transaction| {
                let producer_id = transaction.producer_id;
                json!({ "producer_id": producer_id, "first_offset": transaction.first_offset })
            });
            aborted.collect::<Vec<_>>()
        });
        index["aborted_transactions"] = json!(aborted);
    }
    if version >= 5 {
        index["log_start_offset"] = offset(header.log_start_offset);
    }
    if version >= 11 {
        index["preferred_read_replica"] = json!(header.preferred_read_replica.unwrap_or(-1));
    }
    index
}

impl InIndex for FetchResponse {
    fn to_index(&self, version: i16) -> Value {
        let partition = |p: &FetchedPartition| header(version, &p.header);
        let topics = grouped(&self.partitions, |p| &p.topic_partition, partition);
        let mut index = throttled(json!({ "topics": topics }), self.throttle_time);
        if version >= 7 {
            index["error_code"] = json!(code(self.error));
            index["session_id"] = json!(self.session_id.unwrap_or(0));
        }
        index
    }

    fn check_more(&self, name: &str, expected: &mut Value, asked: Option<&FetchRequest>) {
        let mut fetched = self.partitions.iter();
        for topic in expected["topics"].as_array_mut().unwrap() {
            for partition in topic["partitions"].as_array_mut().unwrap() {
                let fetched = fetched.next().unwrap();
                let asked = asked.iter().flat_map(|asked| &asked.partitions);
                let mut asked = asked.filter(|p| p.topic_partition == fetched.topic_partition);
                let from = asked.next().map(|asked| asked.fetch_offset);
                let partition = partition.as_object_mut().unwrap();
                match partition.remove("record_set") {
                    Some(Value::Null) | None => assert!(fetched.message_set.is_empty(), "{name}"),
                    Some(set) => check_set(name, &fetched.message_set, &set),
                }
                if let Some(offsets) = partition.remove("deliver_offsets") {
                    let messages = fetched.message_set.messages().map(Result::unwrap);
                    let delivered = messages.map(|message| message.offset);
                    let delivered = delivered.filter(|o| Some(*o) >= from);
                    let delivered: Vec<i64> = delivered.collect();
                    assert_eq!(json!(delivered), offsets, "{name}");
                }
            }
        }
        assert!(fetched.next().is_none(), "{name}");
    }
}
