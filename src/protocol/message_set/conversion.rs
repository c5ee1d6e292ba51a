//! Messages made anew in another format, as brokers do for clients and logs that know only that one.

use crate::error::Error;
use crate::protocol::message_set::builder::MessageSetBuilder;
use crate::protocol::message_set::builder::NewMessage;
use crate::protocol::message_set::codec::Codec;
use crate::protocol::message_set::corrupt_message::CorruptMessage;
use crate::protocol::message_set::entry_cursor::Entry;
use crate::protocol::message_set::entry_cursor::EntryCursor;
use crate::protocol::message_set::format::MessageFormat;
use crate::protocol::message_set::messages::MessageAndOffset;
use crate::protocol::message_set::outline::OuterEntries;
use crate::protocol::message_set::record_batch;
use crate::protocol::message_set::set::MessageSet;
use crate::protocol::message_set::timestamp::TimestampType;

/// Why messages cannot be made anew.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversionError {
    /// They are damaged.
    #[error("a message cannot be converted: {0}")]
    Corrupt(#[from] CorruptMessage),
    /// The format has no such codec.
    #[error("an older message format has no {0}")]
    Codec(Codec),
    /// They do not fit into it.
    #[error("the converted messages are refused: {0}")]
    Refused(Error),
}

/// The whole entries of `set`, those of a later format than `format` made anew in it.
///
/// Offsets stay what they are. Times and headers that the format lacks are lost, and control batches left out; of
/// batches that are not compressed, so are records before `first_offset`. A batch in zstd ends what is given.
///
/// # Errors
///
/// [`ConversionError::Codec`] when that batch is the first.
pub(crate) fn down_convert(
    set: &[u8],
    format: MessageFormat,
    first_offset: i64,
) -> Result<Vec<u8>, ConversionError> {
    let mut converted = Vec::with_capacity(set.len());
    for entry in OuterEntries::new(set) {
        let end = entry.position.saturating_add(entry.size());
        let bytes = set.get(entry.position..end).unwrap_or_default();
        if entry.magic() <= format.magic() {
            converted.extend_from_slice(bytes);
            continue;
        }
        let codec = codec_of(bytes)?;
        match codec {
            Some(Codec::Zstd) if converted.is_empty() => {
                return Err(ConversionError::Codec(Codec::Zstd));
            }
            Some(Codec::Zstd) => break,
            _ => (),
        }
        let entry = MessageSet::from(bytes.to_vec());
        let rebuilt = rebuild(&entry, codec, format, None, |offset| {
            (codec.is_some() || offset >= first_offset).then_some(offset)
        })?;
        converted.extend_from_slice(rebuilt.as_bytes());
    }
    Ok(converted)
}

/// The messages of `set` in `format` and in one compressed message or batch where there is a codec, each with the
/// offset that `numbered` gives it; `None` leaves it out.
pub(crate) fn rebuild(
    set: &MessageSet,
    codec: Option<Codec>,
    format: MessageFormat,
    log_append_time: Option<i64>,
    mut numbered: impl FnMut(i64) -> Option<i64>,
) -> Result<MessageSet, ConversionError> {
    let mut builder: Option<MessageSetBuilder> = None;
    for message in set.messages() {
        let message = message?;
        let Some(offset) = numbered(message.offset) else {
            continue;
        };
        let builder = builder.get_or_insert_with(|| {
            let time = log_append_time.or_else(|| time_of_broker(&message));
            empty(codec, format, time)
        });
        let headers: Vec<_> = message.headers().collect();
        let headers: Vec<(&str, Option<&[u8]>)> = headers
            .iter()
            .map(|header| (header.name.as_ref(), header.value))
            .collect();
        let message = NewMessage {
            key: message.key.as_deref(),
            value: message.value.as_deref(),
            timestamp: message.timestamp.map(|timestamp| timestamp.millis),
            headers: &headers,
        };
        let added = builder.add(offset, &message);
        added.map_err(ConversionError::Refused)?;
    }
    match builder {
        Some(builder) => builder.build().map_err(ConversionError::Refused),
        None => Ok(MessageSet::default()),
    }
}

/// Gives a whole entry the time at which it is appended, in milliseconds since 1970. Format 0 has no room for it.
pub(crate) fn set_log_append_time(entry: &mut [u8], format: MessageFormat, time: i64) {
    let (attributes, time_at, checksum_at, checked_from) = match format {
        MessageFormat::V0 => return,
        MessageFormat::V1 => (17, 18, 12, 16),
        MessageFormat::V2 => (22, 35, 17, 21),
    };
    if let Some(attributes) = entry.get_mut(attributes) {
        *attributes |= record_batch::LOG_APPEND_TIME;
    }
    put(entry, time_at, &time.to_be_bytes());
    let checked = entry.get(checked_from..).unwrap_or_default();
    let checksum = match format {
        MessageFormat::V2 => crc32c::crc32c(checked),
        MessageFormat::V0 | MessageFormat::V1 => crc32fast::hash(checked),
    };
    put(entry, checksum_at, &checksum.to_be_bytes());
}

fn put(entry: &mut [u8], at: usize, bytes: &[u8]) {
    let place = entry.get_mut(at..at.saturating_add(bytes.len()));
    if let Some(place) = place {
        place.copy_from_slice(bytes);
    }
}

/// How the entry at the start of `set` is compressed.
fn codec_of(set: &[u8]) -> Result<Option<Codec>, CorruptMessage> {
    match EntryCursor::outer().next(set).transpose()? {
        Some(Entry::Wrapper(wrapper)) => Ok(Some(wrapper.codec)),
        Some(Entry::Message(_)) | None => Ok(None),
    }
}

fn empty(
    codec: Option<Codec>,
    format: MessageFormat,
    log_append_time: Option<i64>,
) -> MessageSetBuilder {
    let builder = match codec {
        Some(codec) => MessageSetBuilder::compressed(codec),
        None => MessageSetBuilder::new(),
    };
    let builder = builder.in_format(format);
    match log_append_time {
        Some(time) => builder.log_append_time(time),
        None => builder,
    }
}

/// The time of the message if a broker set it, which is then that of its whole entry.
fn time_of_broker(message: &MessageAndOffset) -> Option<i64> {
    let timestamp = message.timestamp?;
    (timestamp.timestamp_type == TimestampType::LogAppendTime).then_some(timestamp.millis)
}
