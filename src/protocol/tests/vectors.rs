//! Every recorded frame is read to exactly what its index says, and written again to exactly its bytes.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use serde_json::json;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::AbortedTransaction;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::Codec;
use crate::protocol::CommittedOffset;
use crate::protocol::CorruptReason;
use crate::protocol::FetchPartition;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::FetchedOffset;
use crate::protocol::FetchedPartition;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::ListOffsetsPartition;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MessageAndOffset;
use crate::protocol::MessageSet;
use crate::protocol::MetadataRequest;
use crate::protocol::MetadataResponse;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetCommitResponse;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::OffsetFetchResponse;
use crate::protocol::OffsetTime;
use crate::protocol::Outline;
use crate::protocol::PartitionHeader;
use crate::protocol::PartitionOffsets;
use crate::protocol::ProducePartition;
use crate::protocol::ProduceRequest;
use crate::protocol::ProduceResponse;
use crate::protocol::ProducedPartition;
use crate::protocol::Reader;
use crate::protocol::Replica;
use crate::protocol::Request;
use crate::protocol::RequestHeader;
use crate::protocol::RequiredAcks;
use crate::protocol::Response;
use crate::protocol::SetEnd;
use crate::protocol::TimestampType;
use crate::protocol::message_set::OuterEntries;
use crate::protocol::request_frame;
use crate::protocol::response_frame;
use crate::protocol::tests::recorded;
use crate::protocol::tests::recorded::Vector;

/// Responses that are not written as they came: an empty set is written as such, and not as null.
const WRITTEN_DIFFERENTLY: [&str; 1] = ["made-fetch-v4-null-records"];

/// Indexes that describe only a part of the request.
const INCOMPLETE_INDEX: [&str; 2] = ["k082-produce-v0-timed-out", "k090-produce-v0-timed-out"];

#[test]
fn the_index_is_complete() {
    assert_eq!(recorded::all().len(), 341);
}

#[test]
fn every_recorded_request_survives_the_round_trip_byte_by_byte() {
    for vector in recorded::all().iter().filter(|v| v.is_exchange()) {
        for frame in vector.requests() {
            let mut reader = Reader::new(&frame);
            let header = RequestHeader::decode(&mut reader).unwrap();
            let index = match vector.requests().len() {
                1 if !INCOMPLETE_INDEX.contains(&vector.name()) => &vector.entry["request"],
                _ => &Value::Null,
            };
            match header.api_key {
                0 => check_request::<ProduceRequest>(vector, &header, reader, &frame, index),
                1 => check_request::<FetchRequest>(vector, &header, reader, &frame, index),
                2 => check_request::<ListOffsetsRequest>(vector, &header, reader, &frame, index),
                3 => check_request::<MetadataRequest>(vector, &header, reader, &frame, index),
                8 => check_request::<OffsetCommitRequest>(vector, &header, reader, &frame, index),
                9 => check_request::<OffsetFetchRequest>(vector, &header, reader, &frame, index),
                10 => {
                    check_request::<FindCoordinatorRequest>(vector, &header, reader, &frame, index);
                }
                18 => check_request::<ApiVersionsRequest>(vector, &header, reader, &frame, index),
                key => panic!("{}: key {key}", vector.name()),
            }
        }
    }
}

#[test]
fn every_recorded_response_is_what_its_index_says_and_survives_the_round_trip() {
    let mut checked = 0;
    for vector in recorded::all().iter().filter(|v| v.has_frames()) {
        let expected = vector.expected();
        let responses = vector.responses();
        assert_eq!(expected.len(), responses.len(), "{}", vector.name());
        let mut requests = vector.requests().into_iter();
        for (response, expected) in responses.iter().zip(&expected) {
            let request = requests.next();
            let mut request = request.as_deref().map(Reader::new);
            let header = request
                .as_mut()
                .map(|it| RequestHeader::decode(it).unwrap());
            let (key, version) = vector.layout(header.as_ref());
            match key {
                0 => check_response::<ProduceResponse>(vector, version, response, expected, None),
                1 => {
                    let asked = request.zip(header).map(|(mut request, header)| {
                        FetchRequest::decode(header.api_version, &mut request).unwrap()
                    });
                    let asked = asked.as_ref();
                    check_response::<FetchResponse>(vector, version, response, expected, asked);
                }
                2 => {
                    check_response::<ListOffsetsResponse>(
                        vector, version, response, expected, None,
                    );
                }
                3 => check_response::<MetadataResponse>(vector, version, response, expected, None),
                8 => {
                    check_response::<OffsetCommitResponse>(
                        vector, version, response, expected, None,
                    );
                }
                9 => {
                    check_response::<OffsetFetchResponse>(
                        vector, version, response, expected, None,
                    );
                }
                10 => {
                    check_response::<FindCoordinatorResponse>(
                        vector, version, response, expected, None,
                    );
                }
                18 => {
                    check_response::<ApiVersionsResponse>(
                        vector, version, response, expected, None,
                    );
                }
                key => panic!("{}: key {key}", vector.name()),
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 254);
}

#[test]
fn every_made_message_set_is_what_its_index_says() {
    let mut checked = 0;
    for vector in recorded::all().iter().filter(|v| !v.has_frames()) {
        let set = MessageSet::from(vector.message_set());
        check_set(vector.name(), &set, &vector.entry["expected"]);
        checked += 1;
    }
    assert_eq!(checked, 76);
}

#[test]
fn aborted_transactions_that_come_with_a_partition_tell_what_is_committed() {
    let named = |name: &str| recorded::all().iter().find(|v| v.name() == name).unwrap();
    let answer = named("made-fetch-v4-aborted").responses();
    let mut body = Reader::new(&answer[0]);
    body.i32("correlation_id").unwrap();
    let response = FetchResponse::decode(4, &mut body).unwrap();
    let partition = &response.partitions[0];
    let aborted = partition.header.aborted_transactions.as_deref().unwrap();
    let committed = partition.message_set.committed_messages(aborted);
    let offsets: Vec<i64> = committed.map(|message| message.unwrap().offset).collect();
    let expected = &named("made-m2-transactions").entry["expected"];
    assert_eq!(json!(offsets), expected["deliver_read_committed"]);
}

/// What the index knows about a kind of request.
trait Indexed: Request + PartialEq + std::fmt::Debug {
    /// Whether the index says nothing that a request could be made of.
    fn is_left_open(index: &Value) -> bool {
        index["topics"].is_null()
    }

    /// What the index leaves open stands in `decoded`.
    fn from_index(index: &Value, decoded: &Self) -> Self;
}

/// What the index says of a kind of response.
trait InIndex: Response + PartialEq + std::fmt::Debug {
    fn to_index(&self, version: i16) -> Value;

    /// Checks what the index says beside the fields.
    fn check_more(&self, _name: &str, _expected: &mut Value, _asked: Option<&FetchRequest>) {}
}

fn check_request<Q: Indexed>(
    vector: &Vector,
    header: &RequestHeader,
    mut body: Reader<&[u8]>,
    frame: &[u8],
    index: &Value,
) {
    let name = vector.name();
    let version = header.api_version;
    assert_eq!(header.api_key, Q::KEY);
    let request = Q::decode(version, &mut body).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(body.remaining(), 0, "{name}");
    let is_silent = Q::KEY == ProduceRequest::KEY && vector.entry["outcome"] != "response";
    assert_eq!(request.is_answered(), !is_silent, "{name}");
    let encode = |request: &Q| {
        let client_id = header.client_id.as_deref();
        let buffer = vec![1; 3];
        request_frame(request, version, header.correlation_id, client_id, buffer).unwrap()
    };
    assert_eq!(encode(&request)[4..], *frame, "{name}");
    if !Q::is_left_open(index) {
        let described = Q::from_index(index, &request);
        assert_eq!(described, request, "{name}");
        assert_eq!(encode(&described)[4..], *frame, "{name}");
    }
}

fn check_response<P: InIndex>(
    vector: &Vector,
    version: i16,
    frame: &[u8],
    expected: &Value,
    asked: Option<&FetchRequest>,
) {
    let name = vector.name();
    let mut expected = expected.clone();
    let mut body = Reader::new(frame);
    let correlation_id = body.i32("correlation_id").unwrap();
    let fields = expected.as_object_mut().unwrap();
    assert_eq!(
        fields.remove("correlation_id"),
        Some(json!(correlation_id)),
        "{name}"
    );
    let response = P::decode(version, &mut body).unwrap();
    assert_eq!(body.remaining(), 0, "{name}");
    response.check_more(name, &mut expected, asked);
    assert_eq!(response.to_index(version), expected, "{name}");
    if WRITTEN_DIFFERENTLY.contains(&name) {
        return;
    }
    let again = response_frame(&response, version, correlation_id, Vec::new()).unwrap();
    assert_eq!(again[4..], *frame, "{name}");
}

fn check_set(name: &str, set: &MessageSet, expected: &Value) {
    let bytes = set.as_bytes();
    assert_eq!(json!(bytes.len()), expected["size"], "{name}");
    let outline = Outline::of(bytes);
    if expected["error"] == "corrupt-size" {
        // The index takes the short entry for whole; here nothing of it is believed.
        let end = SetEnd::TooShort {
            offset: 0,
            size: 5,
            least: 14,
        };
        assert_eq!((outline.valid_bytes, outline.end), (0, end), "{name}");
    } else {
        let outer: Vec<Value> = OuterEntries::new(bytes).map(outer_entry).collect();
        assert_eq!(json!(outer), expected["outer"], "{name}");
        let trailing = bytes.len() - outline.valid_bytes;
        assert_eq!(json!(trailing), expected["trailing_bytes"], "{name}");
        let last = outer.last().map(last_offset);
        assert_eq!(outline.last_offset, last, "{name}");
        if let Some(next) = expected["next_fetch_offset"].as_i64() {
            assert_eq!(outline.last_offset, Some(next - 1), "{name}");
        }
        assert_eq!(outline.end == SetEnd::Whole, trailing == 0, "{name}");
        let oversize = outer.is_empty() && trailing > 0 && outline.end != SetEnd::Filler;
        assert_eq!(outline.is_oversize(), oversize, "{name}");
    }
    let mut messages = set.messages();
    let mut records = Vec::new();
    let mut error = None;
    for message in &mut messages {
        match message {
            Ok(message) => records.push(message),
            Err(corrupt) => {
                error = Some(corrupt);
                break;
            }
        }
    }
    let found = json!(records.iter().map(record).collect::<Vec<_>>());
    match expected["nested"].as_array() {
        None => assert_eq!(found, complete(&expected["records"]), "{name}"),
        Some(nested) => assert_eq!(found, flattened(nested), "{name}"),
    }
    if !expected["deliver_read_committed"].is_null() {
        check_committed(name, set, expected);
    }
    let kind = error.as_ref().map(|corrupt| kind(corrupt.reason()));
    assert_eq!(json!(kind), expected["error"], "{name}");
    let offset = error.as_ref().map(|corrupt| corrupt.offset());
    assert_eq!(json!(offset), expected["error_at_offset"], "{name}");
    let resume = match kind {
        Some("corrupt-size") | None => None,
        Some(_) => {
            let mut outer = expected["outer"].as_array().unwrap().iter();
            let bad = outer.find(|entry| offset == entry_offset(entry));
            bad.map_or(offset, |bad| Some(last_offset(bad)))
                .map(|last| last + 1)
        }
    };
    assert_eq!(error.and_then(|corrupt| corrupt.resume_at()), resume);
    assert_eq!(messages.next(), None, "{name}");
}

/// What is delivered with `isolation.level=read_committed`.
fn check_committed(name: &str, set: &MessageSet, expected: &Value) {
    let aborted = expected["aborted_transactions"].as_array().unwrap().iter();
    let aborted = aborted.map(|transaction| AbortedTransaction {
        producer_id: int(&transaction["producer_id"]),
        first_offset: int(&transaction["first_offset"]),
    });
    let committed = set.committed_messages(&aborted.collect::<Vec<_>>());
    let offsets: Vec<i64> = committed.map(|message| message.unwrap().offset).collect();
    assert_eq!(json!(offsets), expected["deliver_read_committed"], "{name}");
}

/// The offset of an outer entry of the index.
fn entry_offset(entry: &Value) -> Option<i64> {
    entry["offset"].as_i64().or(entry["base_offset"].as_i64())
}

/// The last offset that an outer entry of the index takes up.
fn last_offset(entry: &Value) -> i64 {
    let delta = entry["last_offset_delta"].as_i64().unwrap_or(0);
    entry_offset(entry).unwrap_or(0) + delta
}

fn outer_entry(entry: crate::protocol::message_set::OuterEntry<'_>) -> Value {
    let mut found = json!({
        "position": entry.position,
        "size": entry.size(),
        "magic": entry.magic(),
    });
    let codec = match entry.magic() {
        2 => Codec::of_batch_attributes(entry.message[10]),
        _ => Codec::of_attributes(entry.message[5]),
    };
    let codec = match codec {
        Ok(None) => String::from("none"),
        Ok(Some(codec)) => codec.to_string(),
        Err(_) => String::from("?"),
    };
    let mut body = Reader::new(entry.message);
    match entry.magic() {
        magic @ (0 | 1) => {
            found["offset"] = json!(entry.offset);
            found["crc"] = json!(body.i32("crc").unwrap().cast_unsigned());
            found["attributes"] = json!(entry.message[5]);
            body.i16("magic and attributes").unwrap();
            if magic == 1 {
                found["timestamp"] = json!(body.i64("timestamp").unwrap());
            }
            found["codec"] = json!(codec);
        }
        2 => {
            found["base_offset"] = json!(entry.offset);
            found["partition_leader_epoch"] = json!(body.i32("epoch").unwrap());
            let mut body = Reader::new(&entry.message[5..]);
            found["crc"] = json!(body.i32("crc").unwrap().cast_unsigned());
            let attributes = body.i16("attributes").unwrap();
            found["attributes"] = json!(attributes);
            found["timestamp_type"] = json!(attributes >> 3 & 1);
            found["transactional"] = json!(attributes & 16 != 0);
            found["control"] = json!(attributes & 32 != 0);
            found["last_offset_delta"] = json!(body.i32("delta").unwrap());
            found["base_timestamp"] = json!(body.i64("base_timestamp").unwrap());
            found["max_timestamp"] = json!(body.i64("max_timestamp").unwrap());
            found["producer_id"] = json!(body.i64("producer_id").unwrap());
            found["producer_epoch"] = json!(body.i16("producer_epoch").unwrap());
            found["base_sequence"] = json!(body.i32("base_sequence").unwrap());
            found["record_count"] = json!(body.i32("record_count").unwrap());
            found["codec"] = json!(codec);
        }
        _ => found["unknown_magic"] = json!(true),
    }
    found
}

fn record(message: &MessageAndOffset) -> Value {
    let text = |bytes: Option<&[u8]>| bytes.map(|bytes| BASE64_STANDARD.encode(bytes));
    let mut found = json!({
        "offset": message.offset,
        "key": text(message.key.as_deref()),
        "value": text(message.value.as_deref()),
    });
    if let Some(timestamp) = message.timestamp {
        found["timestamp"] = json!(timestamp.millis);
        let is_append = timestamp.timestamp_type == TimestampType::LogAppendTime;
        found["timestamp_type"] = json!(u8::from(is_append));
    }
    let headers: Vec<Value> = message
        .headers()
        .map(|header| json!([header.name, text(header.value)]))
        .collect();
    if !headers.is_empty() {
        found["headers"] = json!(headers);
    }
    found
}

/// Records of the index with what it leaves out: no timestamp is none, and the usual type goes without saying.
fn complete(records: &Value) -> Value {
    let mut records = records.clone();
    for record in records.as_array_mut().unwrap() {
        let record = record.as_object_mut().unwrap();
        if record.get("timestamp") == Some(&json!(-1)) {
            record.remove("timestamp");
            record.remove("timestamp_type");
        } else if record.contains_key("timestamp") {
            record.entry("timestamp_type").or_insert(json!(0));
        }
    }
    records
}

/// Messages of inner wrappers get the offset of their wrapper.
fn flattened(nested: &[Value]) -> Value {
    let mut records = Vec::new();
    for entry in nested {
        let plain = vec![entry.clone()];
        for record in entry["records"].as_array().unwrap_or(&plain) {
            records.push(json!({
                "offset": entry["inner_offset"],
                "key": record["key"],
                "value": record["value"],
            }));
        }
    }
    json!(records)
}

fn kind(reason: &CorruptReason) -> &'static str {
    match reason {
        CorruptReason::Checksum { .. } => "corrupt-crc",
        CorruptReason::EntrySize { .. } => "corrupt-size",
        CorruptReason::Length { .. } => "corrupt-length",
        CorruptReason::Codec(_) => "unknown-codec",
        CorruptReason::Magic(_) => "unknown-magic",
        CorruptReason::RecordCount { .. } => "corrupt-record-count",
        other => panic!("{other}"),
    }
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

fn int<T: TryFrom<i64>>(value: &Value) -> T {
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

fn code(error: Option<ErrorCode>) -> i16 {
    error.map_or(0, ErrorCode::code)
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

/// The index names the group, and where all is about one offset, that one.
impl Indexed for OffsetCommitRequest {
    fn is_left_open(index: &Value) -> bool {
        index["group"].is_null()
    }

    fn from_index(index: &Value, decoded: &Self) -> Self {
        let mut described = Self {
            group: index["group"].as_str().unwrap().to_owned(),
            ..decoded.clone()
        };
        for partition in &mut described.partitions {
            partition.offset = int(&index["offset"]);
            partition.metadata = index["metadata"].as_str().map(str::to_owned);
        }
        described
    }
}

impl Indexed for OffsetFetchRequest {
    fn is_left_open(index: &Value) -> bool {
        index["group"].is_null()
    }

    fn from_index(index: &Value, decoded: &Self) -> Self {
        Self {
            group: index["group"].as_str().unwrap().to_owned(),
            partitions: decoded.partitions.clone(),
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
