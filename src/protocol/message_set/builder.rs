//! Making of message sets.

use crate::error::Error;
use crate::protocol::message_set::codec::Codec;
use crate::protocol::message_set::format::MessageFormat;
use crate::protocol::message_set::outline::Outline;
use crate::protocol::message_set::record_batch;
use crate::protocol::message_set::set::MessageSet;
use crate::protocol::message_set::timestamp::NO_TIMESTAMP;
use crate::protocol::message_set::varint;

/// What stands for no producer in a record batch: id, epoch and sequence of -1.
const NO_PRODUCER: [u8; 14] = [0xff; 14];

/// Makes a message set as the Java producers of its format do; of format 0, unless told otherwise.
#[derive(Clone, Debug, Default)]
pub struct MessageSetBuilder {
    format: MessageFormat,
    codec: Option<Codec>,
    /// Whole entries, or the records of a batch.
    entries: Vec<u8>,
    messages: i32,
    /// What relative offsets count from.
    first_offset: i64,
    last_offset: i64,
    /// What the times of records count from.
    first_timestamp: i64,
    max_timestamp: i64,
    log_append_time: Option<i64>,
    transaction_of: Option<i64>,
    has_foreign_entries: bool,
}

/// A message to be added to a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewMessage<'a> {
    /// The key; `None` for null.
    pub key: Option<&'a [u8]>,
    /// The value; `None` for null.
    pub value: Option<&'a [u8]>,
    /// Milliseconds since 1970; `None` for no timestamp. Lost in format 0.
    pub timestamp: Option<i64>,
    /// Name and value of each header. Lost in formats 0 and 1.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
}

impl MessageSetBuilder {
    /// A set of plain messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set that is one compressed message, or one compressed batch, with all the others in it.
    pub fn compressed(codec: Codec) -> Self {
        Self {
            codec: Some(codec),
            ..Self::default()
        }
    }

    /// Makes the set in another format. To be told before the first message; in format 2 all are one batch.
    #[must_use]
    pub fn in_format(mut self, format: MessageFormat) -> Self {
        self.format = format;
        self
    }

    /// Gives all messages the time at which they are appended, in milliseconds since 1970, as a broker does. To be told
    /// before the first message.
    #[must_use]
    pub fn log_append_time(mut self, millis: i64) -> Self {
        self.log_append_time = Some(millis);
        self
    }

    /// Makes the batch of format 2 a part of a transaction of `producer_id`.
    #[must_use]
    pub fn transaction_of(mut self, producer_id: i64) -> Self {
        self.transaction_of = Some(producer_id);
        self
    }

    /// Adds a message. Brokers ignore the offsets that a producer gives, so it may count from 0.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a message of more than 2 GiB.
    pub fn message(
        &mut self,
        offset: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<&mut Self, Error> {
        let message = NewMessage {
            key,
            value,
            ..NewMessage::default()
        };
        self.add(offset, &message)
    }

    /// Adds a message, with its time and headers as far as the format has them. Offsets have to increase in format 2,
    /// and in the compressed messages of format 1.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a message of more than 2 GiB, and for an offset out of order or too far behind the
    /// first one.
    pub fn add(&mut self, offset: i64, message: &NewMessage<'_>) -> Result<&mut Self, Error> {
        let timestamp = message.timestamp.unwrap_or(NO_TIMESTAMP);
        if self.messages == 0 {
            self.first_offset = offset;
            self.first_timestamp = timestamp;
            self.max_timestamp = timestamp;
        }
        let is_relative = match self.format {
            MessageFormat::V0 => false,
            MessageFormat::V1 => self.codec.is_some(),
            MessageFormat::V2 => true,
        };
        let relative = match is_relative {
            true => self.relative(offset)?,
            false => offset,
        };
        match self.format {
            MessageFormat::V2 => self.write_record(relative, message)?,
            format => {
                let attributes = self.attributes(None);
                let timestamp = self.log_append_time.unwrap_or(timestamp);
                let time = (format == MessageFormat::V1).then_some(timestamp);
                let NewMessage { key, value, .. } = *message;
                write_entry(&mut self.entries, relative, attributes, time, key, value)?;
            }
        }
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.last_offset = offset;
        self.messages = self.messages.saturating_add(1);
        Ok(self)
    }

    /// Adds the whole entries of another set as they are; compressed ones stay so. Not in format 2, whose batches hold
    /// nothing but records.
    pub fn entries(&mut self, set: &MessageSet) -> &mut Self {
        let outline = Outline::of(set.as_bytes());
        let entries = set.as_bytes().get(..outline.valid_bytes);
        self.entries.extend_from_slice(entries.unwrap_or_default());
        self.last_offset = outline.last_offset.unwrap_or(self.last_offset);
        self.has_foreign_entries = true;
        self
    }

    /// The set. Without a message it is empty, compressed or not.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the messages of one entry have more than 2 GiB, when the format lacks the codec,
    /// and for whole entries in format 2.
    pub fn build(self) -> Result<MessageSet, Error> {
        if self.entries.is_empty() {
            return Ok(MessageSet::default());
        }
        if self.format == MessageFormat::V2 {
            return self.build_batch();
        }
        let Some(codec) = self.codec else {
            return Ok(MessageSet::from(self.entries));
        };
        let payload = codec
            .compress(self.format, &self.entries)
            .map_err(refused)?;
        let mut wrapper = Vec::new();
        let attributes = self.attributes(Some(codec));
        let timestamp = self.log_append_time.unwrap_or(self.max_timestamp);
        let time = (self.format == MessageFormat::V1).then_some(timestamp);
        let offset = self.last_offset;
        write_entry(&mut wrapper, offset, attributes, time, None, Some(&payload))?;
        Ok(MessageSet::from(wrapper))
    }

    /// The offset behind the first one.
    fn relative(&self, offset: i64) -> Result<i64, Error> {
        let relative = offset.checked_sub(self.first_offset);
        let is_next = self.messages == 0 || offset > self.last_offset;
        match relative.filter(|relative| is_next && i32::try_from(*relative).is_ok()) {
            Some(relative) => Ok(relative),
            None => Err(refused(format!(
                "offset {offset} cannot follow {} in a set that begins at {}",
                self.last_offset, self.first_offset
            ))),
        }
    }

    fn attributes(&self, codec: Option<Codec>) -> u8 {
        let codec = codec.map_or(0, Codec::attributes);
        let is_set = self.format > MessageFormat::V0 && self.log_append_time.is_some();
        match is_set {
            true => codec | record_batch::LOG_APPEND_TIME,
            false => codec,
        }
    }

    fn write_record(&mut self, delta: i64, message: &NewMessage<'_>) -> Result<(), Error> {
        let timestamp = message.timestamp.unwrap_or(NO_TIMESTAMP);
        let mut record = vec![0];
        varint::write(timestamp.wrapping_sub(self.first_timestamp), &mut record);
        varint::write(delta, &mut record);
        write_field(&mut record, message.key)?;
        write_field(&mut record, message.value)?;
        let headers = length(message.headers.len())?;
        varint::write(i64::from(headers), &mut record);
        for (name, value) in message.headers {
            write_field(&mut record, Some(name.as_bytes()))?;
            write_field(&mut record, *value)?;
        }
        varint::write(i64::from(length(record.len())?), &mut self.entries);
        self.entries.append(&mut record);
        Ok(())
    }

    fn build_batch(self) -> Result<MessageSet, Error> {
        if self.has_foreign_entries {
            let reason = String::from("a record batch holds no whole entries");
            return Err(refused(reason));
        }
        let transactional = self
            .transaction_of
            .map_or(0, |_| record_batch::TRANSACTIONAL);
        let attributes = self.attributes(self.codec) | transactional;
        let records = match self.codec {
            None => self.entries,
            Some(codec) => codec
                .compress(self.format, &self.entries)
                .map_err(refused)?,
        };
        let mut checked = vec![0, attributes];
        let last_delta = self.last_offset.saturating_sub(self.first_offset);
        let last_delta = i32::try_from(last_delta).unwrap_or(i32::MAX);
        checked.extend_from_slice(&last_delta.to_be_bytes());
        checked.extend_from_slice(&self.first_timestamp.to_be_bytes());
        let max_timestamp = self.log_append_time.unwrap_or(self.max_timestamp);
        checked.extend_from_slice(&max_timestamp.to_be_bytes());
        match self.transaction_of {
            None => checked.extend_from_slice(&NO_PRODUCER),
            Some(producer_id) => {
                checked.extend_from_slice(&producer_id.to_be_bytes());
                checked.extend_from_slice(&[0; 6]);
            }
        }
        checked.extend_from_slice(&self.messages.to_be_bytes());
        checked.extend_from_slice(&records);
        let size = length(checked.len().saturating_add(9))?;
        let mut batch = self.first_offset.to_be_bytes().to_vec();
        batch.extend_from_slice(&size.to_be_bytes());
        batch.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, self.format.magic()]);
        batch.extend_from_slice(&crc32c::crc32c(&checked).to_be_bytes());
        batch.append(&mut checked);
        Ok(MessageSet::from(batch))
    }
}

fn write_field(record: &mut Vec<u8>, bytes: Option<&[u8]>) -> Result<(), Error> {
    let size = bytes.map_or(Ok(-1), |bytes| length(bytes.len()))?;
    varint::write(i64::from(size), record);
    record.extend_from_slice(bytes.unwrap_or_default());
    Ok(())
}

/// With a `timestamp` in format 1, without one in format 0.
fn write_entry(
    entries: &mut Vec<u8>,
    offset: i64,
    attributes: u8,
    timestamp: Option<i64>,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Result<(), Error> {
    let size_of = |bytes: Option<&[u8]>| bytes.map_or(Ok(-1), |bytes| length(bytes.len()));
    let [key_length, value_length] = [size_of(key)?, size_of(value)?];
    let format = timestamp.map_or(MessageFormat::V0, |_| MessageFormat::V1);
    let timestamp = timestamp.map(i64::to_be_bytes);
    let parts: [&[u8]; 6] = [
        &[format.magic(), attributes],
        timestamp.as_ref().map_or(&[], |millis| millis),
        &key_length.to_be_bytes(),
        key.unwrap_or_default(),
        &value_length.to_be_bytes(),
        value.unwrap_or_default(),
    ];
    let size = parts.iter().map(|part| part.len());
    let size = length(size.fold(4, usize::saturating_add))?;
    let mut checked = crc32fast::Hasher::new();
    parts.iter().for_each(|part| checked.update(part));
    entries.extend_from_slice(&offset.to_be_bytes());
    entries.extend_from_slice(&size.to_be_bytes());
    entries.extend_from_slice(&checked.finalize().to_be_bytes());
    parts
        .iter()
        .for_each(|part| entries.extend_from_slice(part));
    Ok(())
}

/// A length or count on the wire.
fn length(length: usize) -> Result<i32, Error> {
    i32::try_from(length).map_err(|_| refused(format!("{length} bytes are more than 2 GiB")))
}

fn refused(reason: String) -> Error {
    let name = "message";
    Error::InvalidArgument { name, reason }
}
