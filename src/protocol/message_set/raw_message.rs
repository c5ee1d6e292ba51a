//! Messages of formats 0 and 1, and what a sound message of any format comes down to.

use std::ops::Range;

use crate::protocol::message_set::codec::Codec;
use crate::protocol::message_set::corrupt_message::CorruptReason;
use crate::protocol::message_set::entry_cursor::Entry;
use crate::protocol::message_set::format::MessageFormat;
use crate::protocol::message_set::record_batch::RecordBatch;
use crate::protocol::message_set::timestamp::Timestamp;

/// Bytes of a message before its timestamp or key: checksum, magic and attributes.
const HEADER: usize = 6;

/// Bytes of the timestamp.
const TIMESTAMP: usize = 8;

/// Set in the attributes of format 1 where the broker set the timestamp.
const LOG_APPEND_TIME: u8 = 8;

/// A message that was found sound, as positions within the buffer that holds it.
///
/// The positions are narrow, because this is made for each message: a message set has an i32 for its size, and what it
/// unpacks to is bounded as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawMessage {
    /// The message's offset in the partition.
    pub(crate) offset: i64,
    /// Where the key is; `None` when it is null.
    pub(crate) key: Option<Range<u32>>,
    /// Where the value is; `None` when it is null.
    pub(crate) value: Option<Range<u32>>,
    /// `None` in format 0, and where the producer gave none.
    pub(crate) timestamp: Option<Timestamp>,
    /// Where the headers are, their number in front; empty without headers.
    pub(crate) headers: Range<u32>,
}

/// The same positions as slices take them.
#[inline]
pub(crate) fn wide(range: &Range<u32>) -> Range<usize> {
    let wide = |position| usize::try_from(position).unwrap_or(usize::MAX);
    wide(range.start)..wide(range.end)
}

/// The same positions as messages hold them.
#[inline]
pub(super) fn narrow(range: Range<usize>) -> Range<u32> {
    let narrow = |position| u32::try_from(position).unwrap_or(u32::MAX);
    narrow(range.start)..narrow(range.end)
}

/// A message with a codec or a compressed record batch, whose checksum was found right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawWrapper {
    /// Offset of the last message in it.
    pub(crate) offset: i64,
    /// How the messages are compressed.
    pub(crate) codec: Codec,
    /// Where they are.
    pub(crate) payload: Range<usize>,
    /// What they are.
    pub(super) content: Content,
}

/// What is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Messages of format 0.
    V0,
    /// Messages of format 1, which all have the timestamp of the wrapper if the broker set it.
    V1 { log_append_time: Option<Timestamp> },
    /// Records. Boxed, so that no message has to carry the room for it.
    Records(Box<RecordBatch>),
}

/// Checks a message of format 0 that begins at `start` of its buffer.
#[inline]
pub(super) fn v0(offset: i64, start: usize, message: &[u8]) -> Result<Entry, CorruptReason> {
    let Some((header, fields)) = message.split_first_chunk::<HEADER>() else {
        return Err(too_short(MessageFormat::V0, message));
    };
    let attributes = checked(header, message)?;
    let codec = Codec::of_attributes(attributes).map_err(CorruptReason::Codec)?;
    let (key, value) = key_and_value(start.saturating_add(HEADER), fields)?;
    entry(offset, codec, key, value, None, Content::V0)
}

/// Checks a message of format 1 that begins at `start` of its buffer. `inherited`: the timestamp of the wrapper around
/// it, where the broker set that.
#[inline]
pub(super) fn v1(
    offset: i64,
    start: usize,
    message: &[u8],
    inherited: Option<Timestamp>,
) -> Result<Entry, CorruptReason> {
    let Some((header, rest)) = message.split_first_chunk::<HEADER>() else {
        return Err(too_short(MessageFormat::V1, message));
    };
    let Some((timestamp, fields)) = rest.split_first_chunk::<TIMESTAMP>() else {
        return Err(too_short(MessageFormat::V1, message));
    };
    let attributes = checked(header, message)?;
    let codec = Codec::of_attributes(attributes).map_err(CorruptReason::Codec)?;
    let start = start.saturating_add(HEADER).saturating_add(TIMESTAMP);
    let (key, value) = key_and_value(start, fields)?;
    let millis = i64::from_be_bytes(*timestamp);
    let log_append_time = match attributes & LOG_APPEND_TIME {
        0 => inherited,
        _ => inherited.or(Timestamp::log_append_time(millis)),
    };
    let timestamp = log_append_time.or(Timestamp::create_time(millis));
    let content = Content::V1 { log_append_time };
    entry(offset, codec, key, value, timestamp, content)
}

/// The attributes of a message whose checksum is right.
#[inline]
fn checked(header: &[u8; HEADER], message: &[u8]) -> Result<u8, CorruptReason> {
    let [c0, c1, c2, c3, _magic, attributes] = *header;
    let stored = u32::from_be_bytes([c0, c1, c2, c3]);
    let computed = crc32fast::hash(message.get(4..).unwrap_or_default());
    match stored == computed {
        true => Ok(attributes),
        false => Err(CorruptReason::Checksum { stored, computed }),
    }
}

#[inline]
fn entry(
    offset: i64,
    codec: Option<Codec>,
    key: Option<Range<usize>>,
    value: Option<Range<usize>>,
    timestamp: Option<Timestamp>,
    content: Content,
) -> Result<Entry, CorruptReason> {
    let Some(codec) = codec else {
        return Ok(Entry::Message(RawMessage {
            offset,
            key: key.map(narrow),
            value: value.map(narrow),
            timestamp,
            headers: 0..0,
        }));
    };
    let payload = value.ok_or(CorruptReason::EmptyWrapper)?;
    Ok(Entry::Wrapper(RawWrapper {
        offset,
        codec,
        payload,
        content,
    }))
}

/// Where a field is; `None` when it is null.
type Field = Option<Range<usize>>;

/// Where key and value are that begin at position `at`.
#[inline]
fn key_and_value(mut at: usize, fields: &[u8]) -> Result<(Field, Field), CorruptReason> {
    let (key, fields) = field("key", fields, &mut at)?;
    let (value, _) = field("value", fields, &mut at)?;
    Ok((key, value))
}

/// Where the field is whose length stands at the start of `bytes`, which is position `at`, and the bytes after it.
#[inline]
fn field<'a>(
    field: &'static str,
    bytes: &'a [u8],
    at: &mut usize,
) -> Result<(Field, &'a [u8]), CorruptReason> {
    let Some((length, rest)) = bytes.split_first_chunk() else {
        let left = bytes.len();
        return Err(CorruptReason::Length {
            field: "length field",
            length: 4,
            left,
        });
    };
    let length = i32::from_be_bytes(*length);
    let start = at.saturating_add(4);
    if length == -1 {
        *at = start;
        return Ok((None, rest));
    }
    let Some(after) = usize::try_from(length)
        .ok()
        .and_then(|size| rest.get(size..))
    else {
        let left = rest.len();
        return Err(CorruptReason::Length {
            field,
            length,
            left,
        });
    };
    let end = start.saturating_add(rest.len().saturating_sub(after.len()));
    *at = end;
    Ok((Some(start..end), after))
}

#[cold]
fn too_short(format: MessageFormat, message: &[u8]) -> CorruptReason {
    CorruptReason::EntrySize {
        size: i32::try_from(message.len()).unwrap_or(i32::MAX),
        least: format.least_size(),
    }
}
