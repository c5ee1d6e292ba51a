//! The walk over the entries of a message set.

use crate::protocol::message_set::aborted_transactions::AbortedTransactions;
use crate::protocol::message_set::codec::Codec;
use crate::protocol::message_set::corrupt_message::CorruptMessage;
use crate::protocol::message_set::corrupt_message::CorruptReason;
use crate::protocol::message_set::format::MessageFormat;
use crate::protocol::message_set::outline::OuterEntries;
use crate::protocol::message_set::raw_message;
use crate::protocol::message_set::raw_message::Content;
use crate::protocol::message_set::raw_message::RawMessage;
use crate::protocol::message_set::raw_message::RawWrapper;
use crate::protocol::message_set::record_batch;
use crate::protocol::message_set::record_batch::BatchHeader;
use crate::protocol::message_set::record_batch::RecordBatch;
use crate::protocol::message_set::timestamp::Timestamp;

/// Bytes of offset and size before each entry.
pub(super) const FRAMING: usize = 12;

/// Where the magic byte is behind the framing, in all formats.
pub(super) const MAGIC: usize = 4;

/// What stands at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A message.
    Message(RawMessage),
    /// Compressed messages; [`EntryCursor::open`] opens it.
    Wrapper(RawWrapper),
}

/// Walks the entries of one buffer and checks each: an outer set, or what was compressed.
///
/// Of record batches it gives the records one by one, after one checksum over all of them; control batches, and those
/// of aborted transactions if these are known, it passes.
/// The cursor does not own the buffer, so that its owner may share it; it must be given the same one each time.
#[derive(Clone, Debug)]
pub(crate) struct EntryCursor {
    position: usize,
    level: Level,
    /// Whether messages of format 0 may be in the buffer and have the offsets that stand there.
    is_as_it_stands: bool,
    /// The batch whose records are being read.
    batch: Option<RecordBatch>,
    /// The offset behind the last batch, be there records of it or not.
    behind_batch: i64,
    aborted: AbortedTransactions,
}

/// What is around the buffer.
#[derive(Clone, Copy, Debug)]
enum Level {
    Outer,
    /// A wrapper, or the header of a batch.
    Inner(Around),
    /// A wrapper within a wrapper. 0.9 brokers store such sets, and only the inner wrapper has an offset of the log,
    /// which all its messages share.
    Nested(Around),
}

/// A wrapper that is around the buffer.
#[derive(Clone, Copy, Debug)]
struct Around {
    /// Its offset.
    offset: i64,
    format: MessageFormat,
    /// What is to be added to the offsets in the buffer: in format 1 they are relative.
    base: i64,
    /// Where the broker set the time, which is then that of all messages.
    log_append_time: Option<Timestamp>,
}

impl EntryCursor {
    /// At the start of a set as a broker sends it.
    pub(crate) fn outer() -> Self {
        Self::without(AbortedTransactions::default())
    }

    /// At the start of a set whose aborted transactions are to be left out.
    pub(crate) fn without(aborted: AbortedTransactions) -> Self {
        Self {
            aborted,
            ..Self::at_start(Level::Outer)
        }
    }

    /// Decompresses `wrapper`, which this cursor found in `set`, into `out`, and returns the cursor for `out`.
    ///
    /// The content of `out` is replaced and its memory is used again; after an error it means nothing. It never gets more
    /// than `limit` bytes.
    pub(crate) fn open(
        &self,
        wrapper: &RawWrapper,
        set: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<Self, CorruptMessage> {
        let corrupt = |reason| match &wrapper.content {
            Content::Records(batch) => of_batch(batch, reason),
            Content::V0 | Content::V1 { .. } => CorruptMessage::entry(wrapper.offset, reason),
        };
        if matches!(self.level, Level::Nested(_)) {
            return Err(corrupt(CorruptReason::NestedTooDeep));
        }
        let payload = set.get(wrapper.payload.clone()).unwrap_or_default();
        let decompressed = wrapper.codec.decompress(payload, limit, out);
        decompressed.map_err(corrupt)?;
        if out.is_empty() {
            return Err(corrupt(CorruptReason::EmptyWrapper));
        }
        let around = Around::of(wrapper, out).map_err(corrupt)?;
        let mut inner = Self::at_start(match self.level {
            Level::Outer => Level::Inner(around),
            Level::Inner(_) | Level::Nested(_) => Level::Nested(around),
        });
        if let Content::Records(batch) = &wrapper.content {
            inner.batch = Some(RecordBatch::clone(batch).in_buffer_of(out.len()));
        }
        Ok(inner)
    }

    /// Position of the next entry in the buffer.
    #[cfg(any(test, feature = "embedded"))]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The offset behind the record batches that were passed, with or without records; negative where there was none.
    ///
    /// A consumer's position has to move there although no message comes.
    pub(crate) fn behind_batches(&self) -> i64 {
        self.behind_batch
    }

    /// The next entry; `None` at the end of the set.
    ///
    /// The cursor has moved on after an error too, and the next call gives the next entry, or `None` where the error
    /// has no [`resume_at`](CorruptMessage::resume_at) or lost the framing of a wrapper's content.
    #[inline]
    pub(crate) fn next(&mut self, set: &[u8]) -> Option<Result<Entry, CorruptMessage>> {
        // Whole messages of format 0 whose offsets are as they stand take the short way.
        if self.is_as_it_stands && self.batch.is_none() {
            let rest = set.get(self.position..)?;
            if let Some((offset, size, rest)) = framing(rest)
                && size >= MessageFormat::V0.least_size()
                && let Some(message) = usize::try_from(size).ok().and_then(|size| rest.get(..size))
                && message.get(MAGIC) == Some(&0)
            {
                let start = self.position.saturating_add(FRAMING);
                self.position = start.saturating_add(message.len());
                let entry = raw_message::v0(offset, start, message);
                return Some(entry.map_err(|reason| CorruptMessage::entry(offset, reason)));
            }
        }
        self.next_of_any_format(set)
    }

    #[inline(never)]
    fn next_of_any_format(&mut self, set: &[u8]) -> Option<Result<Entry, CorruptMessage>> {
        loop {
            if self.batch.is_some() {
                match self.next_record(set) {
                    None => continue,
                    record => return record,
                }
            }
            let rest = set.get(self.position..)?;
            let Some((offset, size, rest)) = framing(rest) else {
                return self.cut(set, rest.len());
            };
            if size < MessageFormat::V0.least_size() {
                return Some(Err(self.too_short(set, offset, size, MessageFormat::V0)));
            }
            let message = usize::try_from(size).ok().and_then(|size| rest.get(..size));
            let Some(message) = message else {
                return self.cut(set, rest.len().saturating_add(FRAMING));
            };
            let start = self.position.saturating_add(FRAMING);
            let magic = message.get(MAGIC).copied().unwrap_or(u8::MAX);
            let (offset, inherited) = match &self.level {
                Level::Outer => (offset, None),
                Level::Inner(around) if around.format.magic() == magic => {
                    (around.base.saturating_add(offset), around.log_append_time)
                }
                Level::Nested(around) if around.format.magic() == magic => {
                    (around.offset, around.log_append_time)
                }
                Level::Inner(around) | Level::Nested(around) => {
                    let around = *around;
                    self.position = start.saturating_add(message.len());
                    return Some(Err(foreign(around, magic)));
                }
            };
            let entry = match magic {
                0 => raw_message::v0(offset, start, message),
                1 if size < MessageFormat::V1.least_size() => {
                    return Some(Err(self.too_short(set, offset, size, MessageFormat::V1)));
                }
                1 => raw_message::v1(offset, start, message, inherited),
                2 if size < MessageFormat::V2.least_size() => {
                    return Some(Err(self.too_short(set, offset, size, MessageFormat::V2)));
                }
                2 => match self.enter_batch(offset, start, message, rest) {
                    None => continue,
                    found => return found,
                },
                unknown => Err(CorruptReason::Magic(unknown)),
            };
            self.position = start.saturating_add(message.len());
            return Some(entry.map_err(|reason| CorruptMessage::entry(offset, reason)));
        }
    }

    fn at_start(level: Level) -> Self {
        Self {
            position: 0,
            is_as_it_stands: match level {
                Level::Outer => true,
                Level::Inner(around) => around.format == MessageFormat::V0,
                Level::Nested(_) => false,
            },
            level,
            batch: None,
            behind_batch: -1,
            aborted: AbortedTransactions::default(),
        }
    }

    /// Checks a batch and makes its records the next ones to be read. `None` also where there are none to be read.
    /// `rest` is the set from `batch` on.
    fn enter_batch(
        &mut self,
        base_offset: i64,
        start: usize,
        batch: &[u8],
        rest: &[u8],
    ) -> Option<Result<Entry, CorruptMessage>> {
        let end = start.saturating_add(batch.len());
        self.position = end;
        let read = BatchHeader::checked(batch)
            .and_then(|header| Ok((header.records(base_offset, end)?, header.codec()?, header)));
        let (records, codec, header) = match read {
            Ok(read) => read,
            Err(reason) => {
                let behind = rest.get(batch.len()..).unwrap_or_default();
                let last = last_of_damaged(base_offset, batch, behind);
                return Some(Err(CorruptMessage::batch(base_offset, last, reason)));
            }
        };
        self.behind_batch = records.last_offset().saturating_add(1);
        let at = start.saturating_add(record_batch::HEADER);
        if header.is_control() {
            let records_of = batch.get(record_batch::HEADER..).unwrap_or_default();
            if record_batch::is_abort_marker(records, records_of) {
                self.aborted.end(header.producer_id, base_offset);
            }
            return None;
        }
        let is_aborted =
            header.is_transactional() && self.aborted.has(header.producer_id, base_offset);
        if is_aborted || records.is_read() {
            return None;
        }
        let Some(codec) = codec else {
            self.position = at;
            self.batch = Some(records);
            return None;
        };
        Some(Ok(wrapper(codec, records, at)))
    }

    /// The next record of the batch, or what is wrong with it; `None` when the batch is through.
    #[inline]
    fn next_record(&mut self, set: &[u8]) -> Option<Result<Entry, CorruptMessage>> {
        let batch = self.batch.as_mut()?;
        let mut rest = set.get(self.position..batch.end).unwrap_or_default();
        if batch.is_read() {
            return self.end_batch(rest.is_empty());
        }
        match batch.next(&mut rest) {
            Ok(record) => {
                self.position = batch.end.saturating_sub(rest.len());
                Some(Ok(Entry::Message(record)))
            }
            Err(reason) => {
                let corrupt = of_batch(batch, reason);
                self.position = batch.end;
                self.batch = None;
                Some(Err(corrupt))
            }
        }
    }

    fn end_batch(&mut self, is_whole: bool) -> Option<Result<Entry, CorruptMessage>> {
        let batch = self.batch.take()?;
        self.position = batch.end;
        (!is_whole).then(|| Err(of_batch(&batch, batch.wrong_count())))
    }

    /// At the end, with `bytes` of a cut entry: what a fetch size does to outer sets and nothing to inner ones.
    #[cold]
    fn cut(&mut self, set: &[u8], bytes: usize) -> Option<Result<Entry, CorruptMessage>> {
        self.position = set.len();
        // Unlike Kafka 0.8.2.2: it ignores a cut end of an inner set too, and loses messages.
        match self.level {
            Level::Inner(around) | Level::Nested(around) if bytes > 0 => {
                let reason = CorruptReason::CutTail { bytes };
                Some(Err(CorruptMessage::entry(around.offset, reason)))
            }
            Level::Outer | Level::Inner(_) | Level::Nested(_) => None,
        }
    }

    /// The framing cannot be right, so the rest of the buffer is unusable.
    #[cold]
    fn too_short(
        &mut self,
        set: &[u8],
        offset: i64,
        size: i32,
        format: MessageFormat,
    ) -> CorruptMessage {
        self.position = set.len();
        let least = format.least_size();
        let reason = CorruptReason::EntrySize { size, least };
        match self.level {
            Level::Outer => CorruptMessage::rest(offset, reason),
            Level::Inner(around) | Level::Nested(around) => {
                CorruptMessage::entry(around.offset, reason)
            }
        }
    }
}

impl Around {
    /// What `wrapper` means for `content`, which was compressed in it.
    fn of(wrapper: &RawWrapper, content: &[u8]) -> Result<Self, CorruptReason> {
        let mut around = Self {
            offset: wrapper.offset,
            format: MessageFormat::V0,
            base: 0,
            log_append_time: None,
        };
        match wrapper.content {
            Content::V0 => {}
            Content::Records(_) => around.format = MessageFormat::V2,
            Content::V1 { log_append_time } => {
                around.format = MessageFormat::V1;
                around.log_append_time = log_append_time;
                around.base = base_of_relative(wrapper.offset, content)?;
            }
        }
        Ok(around)
    }
}

/// What is to be added to the relative offsets in `content`, of which the last is that of the wrapper.
fn base_of_relative(wrapper_offset: i64, content: &[u8]) -> Result<i64, CorruptReason> {
    let mut entries = OuterEntries::new(content);
    let mut last = 0;
    for entry in &mut entries {
        last = entry.offset;
    }
    // A piece at the end may be that of the last message.
    let bytes = entries.rest().len();
    if bytes > 0 {
        return Err(CorruptReason::CutTail { bytes });
    }
    match wrapper_offset {
        // As in Kafka: stored as a producer sent it, and then the offsets are not relative.
        0 => Ok(0),
        wrapper if wrapper < last => Err(CorruptReason::RelativeOffset { last }),
        wrapper => Ok(wrapper.saturating_sub(last)),
    }
}

fn wrapper(codec: Codec, records: RecordBatch, start: usize) -> Entry {
    Entry::Wrapper(RawWrapper {
        offset: records.last_offset(),
        codec,
        payload: start..records.end,
        content: Content::Records(Box::new(records)),
    })
}

#[cold]
fn of_batch(batch: &RecordBatch, reason: CorruptReason) -> CorruptMessage {
    CorruptMessage::batch(batch.base_offset, batch.last_offset(), reason)
}

#[cold]
fn foreign(around: Around, inner: u8) -> CorruptMessage {
    let outer = around.format;
    CorruptMessage::entry(around.offset, CorruptReason::ForeignFormat { inner, outer })
}

/// Offset of the last record of a batch whose header is not to be trusted: before that of the entry `behind` it.
#[cold]
fn last_of_damaged(base_offset: i64, batch: &[u8], behind: &[u8]) -> i64 {
    let claimed = claimed_last_offset(base_offset, batch);
    let next = framing(behind).map(|(next, ..)| next);
    match next.filter(|next| *next > base_offset) {
        Some(next) => claimed.min(next.saturating_sub(1)),
        None => claimed,
    }
}

/// Offset of the last record of a batch, as its header claims.
#[inline]
pub(super) fn claimed_last_offset(base_offset: i64, batch: &[u8]) -> i64 {
    let delta = batch.get(11..).and_then(<[u8]>::first_chunk);
    let delta = delta.map_or(0, |delta| i32::from_be_bytes(*delta));
    base_offset.saturating_add(i64::from(delta.max(0)))
}

/// Offset and size at the start of `bytes`, and what follows them.
#[inline]
pub(super) fn framing(bytes: &[u8]) -> Option<(i64, i32, &[u8])> {
    let (offset, rest) = bytes.split_first_chunk()?;
    let (size, rest) = rest.split_first_chunk()?;
    Some((i64::from_be_bytes(*offset), i32::from_be_bytes(*size), rest))
}
