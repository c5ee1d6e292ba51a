//! How a message becomes a line.

use std::io;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::ValueEnum;
use kafka_zk_consumer::Message;

/// A part of a message that can be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Field {
    Topic,
    Partition,
    Offset,
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
}

impl<'a> From<&'a Message> for Record<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            topic: message.topic(),
            partition: message.partition(),
            offset: message.offset(),
            key: message.key(),
            value: message.value(),
        }
    }
}

impl MessageFormat {
    /// Appends the line of one message.
    pub(crate) fn append(&self, record: Record<'_>, line: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Fields(fields) => append_fields(fields, record, line),
            Self::Json => append_json(record, line)?,
        }
        line.push(b'\n');
        Ok(())
    }
}

fn append_fields(fields: &[Field], record: Record<'_>, line: &mut Vec<u8>) {
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            line.push(b'\t');
        }
        match field {
            Field::Topic => line.extend_from_slice(record.topic.as_bytes()),
            Field::Partition => line.extend_from_slice(record.partition.to_string().as_bytes()),
            Field::Offset => line.extend_from_slice(record.offset.to_string().as_bytes()),
            // As in Kafka: null has a name.
            Field::Key => line.extend_from_slice(record.key.unwrap_or(b"null")),
            Field::Value => line.extend_from_slice(record.value.unwrap_or(b"null")),
        }
    }
}

fn append_json(record: Record<'_>, line: &mut Vec<u8>) -> io::Result<()> {
    line.extend_from_slice(b"{\"topic\":");
    serde_json::to_writer(&mut *line, record.topic)?;
    let place = format!(
        ",\"partition\":{},\"offset\":{}",
        record.partition, record.offset
    );
    line.extend_from_slice(place.as_bytes());
    append_bytes("key", record.key, line)?;
    append_bytes("value", record.value, line)?;
    line.push(b'}');
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
    use super::*;

    fn line(format: &MessageFormat, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
        let record = Record {
            topic: "orders",
            partition: 3,
            offset: 42,
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
}
