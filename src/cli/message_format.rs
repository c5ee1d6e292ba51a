//! How a message becomes a line.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::ValueEnum;
use kafka_zk_consumer::Headers;
use kafka_zk_consumer::Message;
use kafka_zk_consumer::Timestamp;
use kafka_zk_consumer::TimestampType;

/// A part of a message that can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Field {
    Topic,
    Partition,
    Offset,
    Timestamp,
    Headers,
    Key,
    Value,
}

/// How a message becomes a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MessageFormat {
    /// As they are, separated by tabs.
    Fields(Vec<Field>),
    /// One object.
    Json,
}

/// What there is to print of a message.
#[derive(Clone, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) headers: Headers<'a>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
}

impl<'a> From<&'a Message> for Record<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            topic: message.topic(),
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message.timestamp(),
            headers: message.headers(),
            key: message.key(),
            value: message.value(),
        }
    }
}

impl MessageFormat {
    /// Appends the line of one message.
    pub(crate) fn append(&self, record: Record<'_>, line: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Fields(fields) => append_fields(fields, &record, line),
            Self::Json => append_json(&record, line)?,
        }
        line.push(b'\n');
        Ok(())
    }
}

fn append_fields(fields: &[Field], record: &Record<'_>, line: &mut Vec<u8>) {
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            line.push(b'\t');
        }
        match field {
            Field::Topic => line.extend_from_slice(record.topic.as_bytes()),
            Field::Partition => line.extend_from_slice(record.partition.to_string().as_bytes()),
            Field::Offset => line.extend_from_slice(record.offset.to_string().as_bytes()),
            Field::Timestamp => append_timestamp(record.timestamp, line),
            Field::Headers => append_headers(record.headers.clone(), line),
            // As in Kafka: null has a name.
            Field::Key => line.extend_from_slice(record.key.unwrap_or(b"null")),
            Field::Value => line.extend_from_slice(record.value.unwrap_or(b"null")),
        }
    }
}

/// As Kafka's tool with `print.timestamp=true`.
fn append_timestamp(timestamp: Option<Timestamp>, line: &mut Vec<u8>) {
    let text = match timestamp {
        None => String::from("NO_TIMESTAMP"),
        Some(timestamp) => format!("{}:{}", type_name(timestamp), timestamp.millis),
    };
    line.extend_from_slice(text.as_bytes());
}

/// As Kafka's tool with `print.headers=true`.
fn append_headers(headers: Headers<'_>, line: &mut Vec<u8>) {
    if headers.len() == 0 {
        line.extend_from_slice(b"NO_HEADERS");
    }
    for (index, header) in headers.enumerate() {
        if index > 0 {
            line.push(b',');
        }
        line.extend_from_slice(header.name.as_bytes());
        line.push(b':');
        line.extend_from_slice(header.value.unwrap_or(b"null"));
    }
}

fn type_name(timestamp: Timestamp) -> &'static str {
    match timestamp.timestamp_type {
        TimestampType::CreateTime => "CreateTime",
        TimestampType::LogAppendTime => "LogAppendTime",
    }
}

fn append_json(record: &Record<'_>, line: &mut Vec<u8>) -> io::Result<()> {
    line.extend_from_slice(b"{\"topic\":");
    serde_json::to_writer(&mut *line, record.topic)?;
    let place = format!(
        ",\"partition\":{},\"offset\":{}",
        record.partition, record.offset
    );
    line.extend_from_slice(place.as_bytes());
    if let Some(timestamp) = record.timestamp {
        let kind = type_name(timestamp);
        let time = format!(
            ",\"timestamp\":{},\"timestamp_type\":\"{kind}\"",
            timestamp.millis
        );
        line.extend_from_slice(time.as_bytes());
    }
    append_json_headers(record.headers.clone(), line)?;
    append_bytes("key", record.key, line)?;
    append_bytes("value", record.value, line)?;
    line.push(b'}');
    Ok(())
}

/// Nothing without headers, so that lines of messages that cannot have any stay short.
fn append_json_headers(headers: Headers<'_>, line: &mut Vec<u8>) -> io::Result<()> {
    if headers.len() == 0 {
        return Ok(());
    }
    line.extend_from_slice(b",\"headers\":[");
    for (index, header) in headers.enumerate() {
        let begin: &[u8] = if index > 0 {
            b",{\"name\":"
        } else {
            b"{\"name\":"
        };
        line.extend_from_slice(begin);
        serde_json::to_writer(&mut *line, &header.name)?;
        append_bytes("value", header.value, line)?;
        line.push(b'}');
    }
    line.push(b']');
    Ok(())
}

/// Text as text; other bytes in base64, under a name that says so.
fn append_bytes(name: &str, bytes: Option<&[u8]>, line: &mut Vec<u8>) -> io::Result<()> {
    line.extend_from_slice(b",\"");
    line.extend_from_slice(name.as_bytes());
    match bytes.map(|bytes| str::from_utf8(bytes).map_err(|_| bytes)) {
        None => line.extend_from_slice(b"\":null"),
        Some(Ok(text)) => {
            line.extend_from_slice(b"\":");
            serde_json::to_writer(&mut *line, text)?;
        }
        Some(Err(bytes)) => {
            line.extend_from_slice(b"_base64\":\"");
            line.extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes());
            line.push(b'"');
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use kafka_zk_consumer::protocol;
    use kafka_zk_consumer::protocol::MessageSetBuilder;
    use kafka_zk_consumer::protocol::NewMessage;

    use super::*;

    fn line(format: &MessageFormat, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
        let record = Record {
            topic: "orders",
            partition: 3,
            offset: 42,
            timestamp: None,
            headers: Headers::default(),
            key,
            value,
        };
        let mut line = Vec::new();
        format.append(record, &mut line).unwrap();
        line
    }

    #[test]
    fn bytes_are_printed_as_they_are_and_null_has_a_name() {
        let value = MessageFormat::Fields(vec![Field::Value]);
        assert_eq!(line(&value, None, Some(b"a\xff\0b")), b"a\xff\0b\n");
        assert_eq!(line(&value, None, Some(b"")), b"\n");
        assert_eq!(line(&value, None, None), b"null\n");
    }

    #[test]
    fn fields_stand_in_the_order_asked_for_between_tabs() {
        let fields = [Field::Offset, Field::Key, Field::Topic, Field::Partition];
        let format = MessageFormat::Fields(fields.to_vec());
        assert_eq!(line(&format, None, Some(b"v")), b"42\tnull\torders\t3\n");
        assert_eq!(line(&format, Some(b"k"), None), b"42\tk\torders\t3\n");
    }

    #[test]
    fn json_keeps_text_null_and_any_other_bytes_apart() {
        let text = line(&MessageFormat::Json, None, Some("\u{e9}\"\n".as_bytes()));
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "{\"topic\":\"orders\",\"partition\":3,\"offset\":42,\"key\":null,\"value\":\"\u{e9}\\\"\\n\"}\n"
        );
        let bytes = line(&MessageFormat::Json, Some(b"\xff\xfe"), None);
        let parsed: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(parsed["key_base64"], "//4=");
        assert_eq!(parsed.get("key"), None);
        assert!(parsed["value"].is_null());
    }

    /// Time and headers of a message, on one line.
    fn with_headers(format: &MessageFormat, timestamp_type: TimestampType) -> String {
        let headers: [(&str, Option<&[u8]>); 3] =
            [("a", Some(b"1")), ("a", None), ("\"", Some(b"\xff"))];
        let mut set = MessageSetBuilder::new().in_format(protocol::MessageFormat::V2);
        let message = NewMessage {
            timestamp: Some(7),
            headers: &headers,
            ..NewMessage::default()
        };
        let set = set.add(42, &message).unwrap().clone().build().unwrap();
        let message = set.messages().next().unwrap().unwrap();
        let record = Record {
            topic: "orders",
            partition: 3,
            offset: 42,
            timestamp: Some(Timestamp {
                timestamp_type,
                ..message.timestamp.unwrap()
            }),
            headers: message.headers(),
            key: None,
            value: None,
        };
        let mut line = Vec::new();
        format.append(record, &mut line).unwrap();
        String::from_utf8_lossy(&line).into_owned()
    }

    #[test]
    fn time_and_headers_are_printed_as_by_kafka() {
        let format = MessageFormat::Fields(vec![Field::Timestamp, Field::Headers]);
        assert_eq!(line(&format, None, None), b"NO_TIMESTAMP\tNO_HEADERS\n");
        assert_eq!(
            with_headers(&format, TimestampType::CreateTime),
            "CreateTime:7\ta:1,a:null,\":\u{fffd}\n"
        );
    }

    #[test]
    fn json_has_time_and_headers_where_the_message_has_them() {
        let line = with_headers(&MessageFormat::Json, TimestampType::LogAppendTime);
        assert_eq!(
            line,
            "{\"topic\":\"orders\",\"partition\":3,\"offset\":42,\"timestamp\":7,\
             \"timestamp_type\":\"LogAppendTime\",\"headers\":[{\"name\":\"a\",\"value\":\"1\"},\
             {\"name\":\"a\",\"value\":null},{\"name\":\"\\\"\",\"value_base64\":\"/w==\"}],\
             \"key\":null,\"value\":null}\n"
        );
    }
}
