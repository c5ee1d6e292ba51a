//! What the messages of the offsets topic hold.

use crate::cluster::TopicPartition;
use crate::protocol::DecodeError;
use crate::protocol::Reader;
use crate::protocol::Writer;

/// Whose offset a message is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OffsetKey {
    pub(super) group: String,
    pub(super) topic_partition: TopicPartition,
}

/// An offset as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredOffset {
    pub(super) offset: i64,
    /// The log has no null: it becomes empty there.
    pub(super) metadata: Option<String>,
    /// Milliseconds since 1970.
    pub(super) commit_timestamp: i64,
    /// When it may be forgotten; only values of version 1 say so.
    pub(super) expire_timestamp: i64,
}

impl OffsetKey {
    /// In version `schema` of keys. `None` when a part of it is too long for its length field.
    pub(super) fn encode(&self, schema: i16) -> Option<Vec<u8>> {
        let mut record = Writer::frame(Vec::new());
        record.i16(schema);
        record.string("group", &self.group).ok()?;
        record.string("topic", self.topic_partition.topic()).ok()?;
        record.i32(self.topic_partition.partition());
        without_size(record)
    }

    /// `None` for a key of another kind, e.g. of a group's members.
    pub(super) fn decode(key: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut record = Reader::of_frame(key, key.len());
        match record.i16("key version")? {
            0 | 1 => {
                let group = record.string("group")?;
                let topic = record.string("topic")?;
                let partition = record.i32("partition")?;
                Ok(Some(Self {
                    group,
                    topic_partition: TopicPartition::new(topic, partition),
                }))
            }
            _ => Ok(None),
        }
    }
}

impl StoredOffset {
    /// In version `schema` of values. `None` when the metadata is too long for its length field.
    pub(super) fn encode(&self, schema: i16) -> Option<Vec<u8>> {
        let mut record = Writer::frame(Vec::new());
        record.i16(schema);
        record.i64(self.offset);
        let metadata = self.metadata.as_deref().unwrap_or_default();
        record.string("metadata", metadata).ok()?;
        record.i64(self.commit_timestamp);
        if schema == 1 {
            record.i64(self.expire_timestamp);
        }
        without_size(record)
    }

    /// `None` for a version that is not known.
    pub(super) fn decode(value: &[u8]) -> Result<Option<Self>, DecodeError> {
        let mut record = Reader::of_frame(value, value.len());
        let version = record.i16("value version")?;
        if !(0..=3).contains(&version) {
            return Ok(None);
        }
        let offset = record.i64("offset")?;
        if version == 3 {
            record.i32("leader_epoch")?;
        }
        Ok(Some(Self {
            offset,
            metadata: Some(record.string("metadata")?),
            commit_timestamp: record.i64("commit_timestamp")?,
            expire_timestamp: match version {
                1 => record.i64("expire_timestamp")?,
                _ => i64::MAX,
            },
        }))
    }
}

/// A record is no frame of its own.
fn without_size(record: Writer) -> Option<Vec<u8>> {
    let frame = record.finish().ok()?;
    frame.get(4..).map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests {
    use crate::protocol::tests::recorded;

    use super::*;

    fn key() -> OffsetKey {
        OffsetKey {
            group: "g2".into(),
            topic_partition: TopicPartition::new("plain", 3),
        }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        for schema in [0, 1] {
            let encoded = key().encode(schema).unwrap();
            assert_eq!(OffsetKey::decode(&encoded).unwrap(), Some(key()));
            let value = StoredOffset {
                offset: 7,
                metadata: Some("why".into()),
                commit_timestamp: 1000,
                expire_timestamp: if schema == 0 { i64::MAX } else { 2000 },
            };
            let encoded = value.encode(schema).unwrap();
            assert_eq!(StoredOffset::decode(&encoded).unwrap(), Some(value));
        }
    }

    #[test]
    fn a_key_has_the_bytes_of_the_original() {
        let bytes = [
            0, 0, 0, 2, b'g', b'2', 0, 5, b'p', b'l', b'a', b'i', b'n', 0, 0, 0, 3,
        ];
        assert_eq!(key().encode(0).unwrap(), bytes);
    }

    #[test]
    fn records_of_every_version_are_read_as_their_index_says() {
        let index = include_str!("../../../tests/fixtures/vectors/offsets-topic-records.json");
        let index: serde_json::Value = serde_json::from_str(index).unwrap();
        for entry in index.as_array().unwrap() {
            let (name, meaning) = (&entry["name"], &entry["meaning"]);
            let key = OffsetKey::decode(&bytes(&entry["key_hex"]).unwrap()).unwrap();
            let Some(topic) = meaning["topic"].as_str() else {
                assert_eq!(key, None, "{name}");
                continue;
            };
            let key = key.unwrap();
            assert_eq!(key.group, meaning["group"], "{name}");
            assert_eq!(key.topic_partition.topic(), topic, "{name}");
            assert_eq!(key.topic_partition.partition(), meaning["partition"]);
            let Some(value) = bytes(&entry["value_hex"]) else {
                assert_eq!(meaning["deleted"], true, "{name}");
                continue;
            };
            let stored = StoredOffset::decode(&value).unwrap().unwrap();
            assert_eq!(stored.offset, meaning["offset"], "{name}");
            assert_eq!(stored.metadata.unwrap(), meaning["metadata"], "{name}");
            let committed = meaning
                .get("commit_timestamp")
                .unwrap_or(&meaning["timestamp"]);
            assert_eq!(stored.commit_timestamp, *committed, "{name}");
            let expiry = meaning["expire_timestamp"].as_i64();
            assert_eq!(
                stored.expire_timestamp,
                expiry.unwrap_or(i64::MAX),
                "{name}"
            );
        }
    }

    fn bytes(hex: &serde_json::Value) -> Option<Vec<u8>> {
        Some(recorded::from_hex(hex.as_str()?))
    }

    #[test]
    fn records_of_other_kinds_are_skipped_and_damaged_ones_refused() {
        assert_eq!(OffsetKey::decode(&[0, 2, 0, 1, b'g']).unwrap(), None);
        assert_eq!(StoredOffset::decode(&[0, 9]).unwrap(), None);
        assert!(OffsetKey::decode(&[0, 0, 0, 9, b'g']).is_err());
        assert!(StoredOffset::decode(&[0]).is_err());
    }
}
