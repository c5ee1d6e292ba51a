//! How a broker stores what is produced.

use bytes::Bytes;

use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::offset_assignment::AssignedSet;
use crate::embedded::broker::offset_assignment::assign_offsets;
use crate::embedded::broker::offset_assignment::check_size;
use crate::embedded::broker::partition_log::StoredEntry;
use crate::error::ErrorCode;
use crate::protocol::Codec;
use crate::protocol::ConversionError;
use crate::protocol::Entry;
use crate::protocol::EntryCursor;
use crate::protocol::MessageFormat;
use crate::protocol::MessageSet;
use crate::protocol::OuterEntries;
use crate::protocol::SetEnd;
use crate::protocol::rebuild;
use crate::protocol::set_log_append_time;

/// What one broker makes of a produced set.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppendRules {
    /// `message.max.bytes`.
    pub(super) most: usize,
    /// As what messages are stored.
    pub(super) format: MessageFormat,
    /// The latest format that can be read.
    pub(super) known: MessageFormat,
    pub(super) has_zstd: bool,
    /// Whether a set is stored as 0.8 and 0.9 do.
    pub(super) flattens: bool,
    /// The time that messages get, if not that of the producer: milliseconds since 1970.
    pub(super) log_append_time: Option<i64>,
}

/// What was found in one entry, all of it sound.
struct Inspected {
    codec: Option<Codec>,
    messages: i64,
    /// Whether the messages need no other bytes for their new offsets.
    is_relative: bool,
}

impl AppendRules {
    /// Those of a broker, at the time `now` in milliseconds since 1970.
    pub(super) fn of(state: &ClusterState, broker: i32, now: i64) -> Self {
        let behaviour = state.behaviour(broker);
        let format = state.message_format(broker);
        let stamps = state.settings.has_log_append_time && format > MessageFormat::V0;
        Self {
            most: state.settings.message_max_bytes,
            format,
            known: behaviour.message_format,
            has_zstd: behaviour.has_zstd,
            flattens: behaviour.flattens_produced_sets,
            log_append_time: stamps.then_some(now),
        }
    }

    /// Gives the messages of `set` their offsets, the first one `next_offset`, and checks all of them.
    ///
    /// From 0.10 on each entry keeps its bytes but for the offset if it is in the right format and its messages count
    /// from 0 (KIP-31); else it is made anew. A cut end is dropped, and control batches are refused: the brokers here
    /// play no transactions.
    pub(super) fn assign(
        &self,
        set: &MessageSet,
        next_offset: i64,
    ) -> Result<AssignedSet, ErrorCode> {
        if self.flattens {
            return assign_offsets(set, next_offset, self.most);
        }
        let mut assigned = AssignedSet {
            entries: Vec::new(),
            log_end: next_offset,
        };
        // Plain messages in another format, which become one batch if they can.
        let mut plain = Vec::new();
        let mut entries = OuterEntries::new(set.as_bytes());
        for entry in &mut entries {
            let end = entry.position.saturating_add(entry.size());
            let bytes = set.as_bytes().get(entry.position..end);
            let bytes = bytes.unwrap_or_default();
            check_size(bytes.len(), self.most)?;
            let format = MessageFormat::of_magic(entry.magic());
            let format = format.filter(|format| *format <= self.known);
            let format = format.ok_or(ErrorCode::CorruptMessage)?;
            let found = self.inspect(bytes, entry.offset, format)?;
            if found.codec.is_none() && format != self.format && format < MessageFormat::V2 {
                plain.extend_from_slice(bytes);
                continue;
            }
            self.make_anew(std::mem::take(&mut plain), None, &mut assigned)?;
            match format == self.format && found.is_relative {
                true => self.keep(bytes, format, found.messages, &mut assigned),
                false => self.make_anew(bytes.to_vec(), found.codec, &mut assigned)?,
            }
        }
        if matches!(entries.end(), SetEnd::TooShort { .. }) {
            return Err(ErrorCode::CorruptMessage);
        }
        self.make_anew(plain, None, &mut assigned)?;
        Ok(assigned)
    }

    /// Checks one entry, which begins with `offset`.
    fn inspect(
        &self,
        entry: &[u8],
        offset: i64,
        format: MessageFormat,
    ) -> Result<Inspected, ErrorCode> {
        let corrupt = |_| ErrorCode::CorruptMessage;
        let mut cursor = EntryCursor::outer();
        let first = cursor.next(entry).transpose().map_err(corrupt)?;
        let first = first.ok_or(ErrorCode::CorruptMessage)?;
        let Entry::Wrapper(wrapper) = first else {
            let relative = count_from(&mut EntryCursor::outer(), entry, offset)?;
            return found(None, relative, format, entry);
        };
        if wrapper.codec == Codec::Zstd && !self.has_zstd {
            return Err(ErrorCode::UnsupportedCompressionType);
        }
        let mut inner = Vec::new();
        let limit = MessageSet::DEFAULT_LIMIT;
        let opened = cursor.open(&wrapper, entry, limit, &mut inner);
        let counted = count_from(&mut opened.map_err(corrupt)?, &inner, offset)?;
        let relative = match format {
            // Theirs are absolute, whatever they are.
            MessageFormat::V0 => (counted.0, false),
            MessageFormat::V1 => {
                let mut offsets = OuterEntries::new(&inner).map(|entry| entry.offset);
                (counted.0, (0..counted.0).all(|n| offsets.next() == Some(n)))
            }
            MessageFormat::V2 => counted,
        };
        found(Some(wrapper.codec), relative, format, entry)
    }

    fn keep(&self, entry: &[u8], format: MessageFormat, messages: i64, assigned: &mut AssignedSet) {
        let first = assigned.log_end;
        assigned.log_end = first.saturating_add(messages);
        let last_offset = assigned.log_end.saturating_sub(1);
        let mut bytes = entry.to_vec();
        let offset = match format {
            MessageFormat::V0 | MessageFormat::V1 => last_offset,
            MessageFormat::V2 => first,
        };
        if let Some(place) = bytes.first_chunk_mut() {
            *place = offset.to_be_bytes();
        }
        if let Some(time) = self.log_append_time {
            set_log_append_time(&mut bytes, format, time);
        }
        assigned.entries.push(StoredEntry {
            last_offset,
            bytes: Bytes::from(bytes),
        });
    }

    fn make_anew(
        &self,
        entries: Vec<u8>,
        codec: Option<Codec>,
        assigned: &mut AssignedSet,
    ) -> Result<(), ErrorCode> {
        let entries = MessageSet::from(entries);
        let next = &mut assigned.log_end;
        let rebuilt = rebuild(&entries, codec, self.format, self.log_append_time, |_| {
            let offset = *next;
            *next = next.saturating_add(1);
            Some(offset)
        });
        let rebuilt = rebuilt.map_err(|error| {
            log::debug!("a produced set is refused: {error}");
            match error {
                ConversionError::Corrupt(_) => ErrorCode::CorruptMessage,
                ConversionError::Codec(_) => ErrorCode::UnsupportedCompressionType,
                ConversionError::Refused(_) => ErrorCode::MessageTooLarge,
            }
        })?;
        let bytes = Bytes::copy_from_slice(rebuilt.as_bytes());
        for entry in OuterEntries::new(&bytes) {
            check_size(entry.size(), self.most)?;
            let end = entry.position.saturating_add(entry.size());
            assigned.entries.push(StoredEntry {
                last_offset: entry.last_offset(),
                bytes: bytes.slice(entry.position..end),
            });
        }
        Ok(())
    }
}

/// How many messages there are, and whether their offsets count on from `first`.
fn count_from(cursor: &mut EntryCursor, set: &[u8], first: i64) -> Result<(i64, bool), ErrorCode> {
    let mut messages = 0_i64;
    let mut is_in_order = true;
    while let Some(entry) = cursor.next(set) {
        match entry.map_err(|_| ErrorCode::CorruptMessage)? {
            Entry::Message(message) => {
                is_in_order &= message.offset == first.saturating_add(messages);
                messages = messages.saturating_add(1);
            }
            // Only brokers up to 0.9 took them.
            Entry::Wrapper(_) => return Err(ErrorCode::CorruptMessage),
        }
    }
    Ok((messages, is_in_order))
}

/// A batch has to be as a producer makes it: its records are what it takes offsets for.
fn found(
    codec: Option<Codec>,
    (messages, is_relative): (i64, bool),
    format: MessageFormat,
    entry: &[u8],
) -> Result<Inspected, ErrorCode> {
    let found = Inspected {
        codec,
        messages,
        is_relative,
    };
    if format < MessageFormat::V2 {
        return Ok(found);
    }
    let mut outer = OuterEntries::new(entry);
    let taken = outer.next().map(|batch| {
        let taken = batch.last_offset().saturating_sub(batch.offset);
        taken.saturating_add(1)
    });
    match is_relative && taken == Some(messages) {
        true => Ok(found),
        false => Err(ErrorCode::CorruptMessage),
    }
}
