//! Message sets as the index of the vectors describes them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use serde_json::json;

use crate::protocol::AbortedTransaction;
use crate::protocol::Codec;
use crate::protocol::CorruptReason;
use crate::protocol::MessageAndOffset;
use crate::protocol::MessageSet;
use crate::protocol::Outline;
use crate::protocol::Reader;
use crate::protocol::SetEnd;
use crate::protocol::TimestampType;
use crate::protocol::message_set::OuterEntries;
use crate::protocol::tests::indexed_request::int;

pub(super) fn check_set(name: &str, set: &MessageSet, expected: &Value) {
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
