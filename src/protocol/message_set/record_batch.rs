//! Record batches: message format 2.

use std::ops::Range;

use crate::protocol::message_set::codec::Codec;
use crate::protocol::message_set::corrupt_message::CorruptReason;
use crate::protocol::message_set::headers;
use crate::protocol::message_set::raw_message::RawMessage;
use crate::protocol::message_set::raw_message::narrow;
use crate::protocol::message_set::raw_message::wide;
use crate::protocol::message_set::timestamp::Timestamp;
use crate::protocol::message_set::varint::varint;
use crate::protocol::message_set::varint::varlong;

/// Bytes of a batch before its records, offset and size not counted.
pub(super) const HEADER: usize = 49;

/// Bits of the attributes' low byte.
pub(super) const LOG_APPEND_TIME: u8 = 8;
pub(super) const TRANSACTIONAL: u8 = 0x10;
pub(super) const CONTROL: u8 = 0x20;

/// Type of the control record that ends an aborted transaction.
const ABORT: i16 = 0;

/// The header of a batch, framing not counted, whose checksum was found right.
pub(super) struct BatchHeader {
    /// Low byte; nothing is known of the other one.
    attributes: u8,
    last_offset_delta: i32,
    base_timestamp: i64,
    max_timestamp: i64,
    pub(super) producer_id: i64,
    record_count: i32,
}

/// The records that are left of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecordBatch {
    pub(super) base_offset: i64,
    last_offset_delta: u32,
    base_timestamp: i64,
    /// Where the broker set the time, which is then that of all records.
    log_append_time: Option<Timestamp>,
    record_count: i32,
    /// Records that have not been read.
    left: i32,
    /// Where the records end in their buffer.
    pub(super) end: usize,
}

impl BatchHeader {
    /// Reads the header of `batch`, which is what follows offset and size, and checks the sum over all of it.
    pub(super) fn checked(batch: &[u8]) -> Result<Self, CorruptReason> {
        let mut rest = batch.get(5..).unwrap_or_default();
        let stored = u32::from_be_bytes(*take(&mut rest)?);
        let computed = crc32c::crc32c(rest);
        if stored != computed {
            return Err(CorruptReason::Checksum { stored, computed });
        }
        let [_, attributes] = *take(&mut rest)?;
        let last_offset_delta = i32::from_be_bytes(*take(&mut rest)?);
        let base_timestamp = i64::from_be_bytes(*take(&mut rest)?);
        let max_timestamp = i64::from_be_bytes(*take(&mut rest)?);
        let producer_id = i64::from_be_bytes(*take(&mut rest)?);
        let _epoch_and_sequence: &[u8; 6] = take(&mut rest)?;
        let record_count = i32::from_be_bytes(*take(&mut rest)?);
        Ok(Self {
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            record_count,
        })
    }

    pub(super) fn codec(&self) -> Result<Option<Codec>, CorruptReason> {
        Codec::of_batch_attributes(self.attributes).map_err(CorruptReason::Codec)
    }

    pub(super) fn is_control(&self) -> bool {
        self.attributes & CONTROL != 0
    }

    pub(super) fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL != 0
    }

    /// The records, to be read from a buffer in which they end at `end`.
    pub(super) fn records(
        &self,
        base_offset: i64,
        end: usize,
    ) -> Result<RecordBatch, CorruptReason> {
        if self.record_count < 0 {
            let claimed = self.record_count;
            return Err(CorruptReason::RecordCount { claimed });
        }
        let last = self.last_offset_delta;
        let log_append_time = match self.attributes & LOG_APPEND_TIME {
            0 => None,
            _ => Timestamp::log_append_time(self.max_timestamp),
        };
        Ok(RecordBatch {
            base_offset,
            last_offset_delta: u32::try_from(last)
                .map_err(|_| CorruptReason::OffsetDelta { delta: 0, last })?,
            base_timestamp: self.base_timestamp,
            log_append_time,
            record_count: self.record_count,
            left: self.record_count,
            end,
        })
    }
}

impl RecordBatch {
    /// The same records in a buffer of their own, which has `size` bytes.
    pub(super) fn in_buffer_of(self, size: usize) -> Self {
        Self { end: size, ..self }
    }

    /// Whether all records have been read.
    #[inline]
    pub(super) fn is_read(&self) -> bool {
        self.left == 0
    }

    /// Offset of the last record that the batch was made with, which need not be there any more.
    pub(super) fn last_offset(&self) -> i64 {
        let last = i64::from(self.last_offset_delta);
        self.base_offset.saturating_add(last)
    }

    /// That the records do not come to what was announced.
    pub(super) fn wrong_count(&self) -> CorruptReason {
        let claimed = self.record_count;
        CorruptReason::RecordCount { claimed }
    }

    /// Takes the next record off the front of `rest`, which goes to the end of the batch.
    #[inline]
    pub(super) fn next(&mut self, rest: &mut &[u8]) -> Result<RawMessage, CorruptReason> {
        if rest.is_empty() {
            return Err(self.wrong_count());
        }
        let record = headers::field("record", rest)?.ok_or_else(|| self.wrong_count())?;
        self.left = self.left.saturating_sub(1);
        // Positions are told from where the record ends.
        let end = self.end.saturating_sub(rest.len());
        let mut fields = record.get(1..).unwrap_or_default();
        let timestamp = number("timestamp", varlong(&mut fields))?;
        let delta = number("offset", varint(&mut fields))?;
        let key = headers::field("key", &mut fields)?.map(<[u8]>::len);
        let key = place(end, fields, key);
        let value = headers::field("value", &mut fields)?.map(<[u8]>::len);
        let value = place(end, fields, value);
        let headers = headers(end, fields)?;
        match u32::try_from(delta) {
            Ok(delta) if delta <= self.last_offset_delta => {}
            _ => {
                let last = i32::try_from(self.last_offset_delta).unwrap_or(i32::MAX);
                return Err(CorruptReason::OffsetDelta { delta, last });
            }
        }
        let create_time = || Timestamp::create_time(self.base_timestamp.saturating_add(timestamp));
        Ok(RawMessage {
            offset: self.base_offset.saturating_add(i64::from(delta)),
            key,
            value,
            timestamp: self.log_append_time.or_else(create_time),
            headers,
        })
    }
}

/// Whether the records of a control batch, in the buffer `records`, begin with the marker of an aborted transaction.
///
/// Kinds that are not known are nothing to a consumer; neither is one that cannot be read.
pub(super) fn is_abort_marker(batch: RecordBatch, records: &[u8]) -> bool {
    let mut batch = batch.in_buffer_of(records.len());
    let key = batch
        .next(&mut &*records)
        .ok()
        .and_then(|marker| marker.key);
    let key = key
        .and_then(|key| records.get(wide(&key)))
        .unwrap_or_default();
    let version_and_type = key.first_chunk::<4>();
    version_and_type.is_some_and(|[_, _, high, low]| i16::from_be_bytes([*high, *low]) == ABORT)
}

#[inline]
fn number<T>(field: &'static str, number: Option<T>) -> Result<T, CorruptReason> {
    number.ok_or(CorruptReason::Varint { field })
}

/// Where a field of `length` bytes is behind which `rest` follows, up to position `end`.
#[inline]
fn place(end: usize, rest: &[u8], length: Option<usize>) -> Option<Range<u32>> {
    let end = end.saturating_sub(rest.len());
    Some(narrow(end.saturating_sub(length?)..end))
}

/// Where the headers are that `fields`, which go to position `end`, begin with. Bytes behind them are left alone.
#[inline]
fn headers(end: usize, fields: &[u8]) -> Result<Range<u32>, CorruptReason> {
    let mut rest = fields;
    match number("header count", varint(&mut rest))? {
        0 => Ok(0..0),
        count if count < 0 => Err(CorruptReason::Length {
            field: "header count",
            length: count,
            left: rest.len(),
        }),
        count => {
            headers::check(count, rest)?;
            Ok(narrow(end.saturating_sub(fields.len())..end))
        }
    }
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Result<&'a [u8; N], CorruptReason> {
    let (taken, after) = rest.split_first_chunk().ok_or(CorruptReason::Length {
        field: "record batch header",
        length: i32::try_from(N).unwrap_or(i32::MAX),
        left: rest.len(),
    })?;
    *rest = after;
    Ok(taken)
}
