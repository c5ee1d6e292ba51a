//! The walk over the entries of a message set.

use std::ops::Range;

use crate::protocol::message_set::codec::Codec;
use crate::protocol::message_set::corrupt_message::CorruptMessage;
use crate::protocol::message_set::corrupt_message::CorruptReason;

/// Bytes of offset and size before each message.
pub(super) const FRAMING: usize = 12;

/// Least size of a message of format 0.
pub(super) const LEAST_SIZE: i32 = 14;

/// Bytes of a message before its key: checksum, magic and attributes.
const MESSAGE_HEADER: usize = 6;

/// What stands at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A message.
    Message(RawMessage),
    /// Compressed messages; [`EntryCursor::open`] opens it.
    Wrapper(RawWrapper),
}

/// A message that was found sound, as positions within the buffer that holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawMessage {
    /// The message's offset in the partition.
    pub(crate) offset: i64,
    /// Where the key is; `None` when it is null.
    pub(crate) key: Option<Range<usize>>,
    /// Where the value is; `None` when it is null.
    pub(crate) value: Option<Range<usize>>,
}

/// A message with a codec, whose checksum was found right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawWrapper {
    /// Offset of the last message in it.
    pub(crate) offset: i64,
    /// How the messages are compressed.
    pub(crate) codec: Codec,
    /// Where they are.
    pub(crate) payload: Range<usize>,
}

/// Walks the entries of one buffer and checks each: an outer set, or the content of a wrapper.
///
/// The cursor does not own the buffer, so that its owner may share it; it must be given the same one each time.
#[derive(Clone, Debug)]
pub(crate) struct EntryCursor {
    position: usize,
    level: Level,
}

/// How many wrappers are around the buffer.
#[derive(Clone, Copy, Debug)]
enum Level {
    Outer,
    /// In a wrapper with this offset.
    Inner(i64),
    /// In a wrapper within a wrapper; the inner one's offset. 0.9 brokers store such sets, and only the inner wrapper
    /// has an offset of the log, which all its messages share.
    Nested(i64),
}

impl EntryCursor {
    /// At the start of a set as a broker sends it.
    pub(crate) fn outer() -> Self {
        Self::at_start(Level::Outer)
    }

    /// Decompresses `wrapper`, which this cursor found in `set`, into `out`, and returns the cursor for `out`.
    ///
    /// The content of `out` is replaced and its memory is used again; after an error it means nothing. It never gets more than `limit` bytes.
    pub(crate) fn open(
        &self,
        wrapper: &RawWrapper,
        set: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<Self, CorruptMessage> {
        let corrupt = |reason| CorruptMessage::entry(wrapper.offset, reason);
        let level = match self.level {
            Level::Outer => Level::Inner(wrapper.offset),
            Level::Inner(_) => Level::Nested(wrapper.offset),
            Level::Nested(_) => return Err(corrupt(CorruptReason::NestedTooDeep)),
        };
        let payload = set.get(wrapper.payload.clone()).unwrap_or_default();
        let decompressed = wrapper.codec.decompress(payload, limit, out);
        decompressed.map_err(corrupt)?;
        match out.is_empty() {
            true => Err(corrupt(CorruptReason::EmptyWrapper)),
            false => Ok(Self::at_start(level)),
        }
    }

    /// Position of the next entry in the buffer.
    #[cfg(any(test, feature = "embedded"))]
    pub(crate) fn position(&self) -> usize {
        self.position
    }

    /// The next entry; `None` at the end of the set.
    ///
    /// The cursor has moved on after an error too, and the next call gives the next entry, or `None` where the error
    /// has no [`resume_at`](CorruptMessage::resume_at) or lost the framing of a wrapper's content.
    #[inline]
    pub(crate) fn next(&mut self, set: &[u8]) -> Option<Result<Entry, CorruptMessage>> {
        let rest = set.get(self.position..)?;
        let Some((offset, size, rest)) = framing(rest) else {
            return self.cut(set, rest.len());
        };
        if size < LEAST_SIZE {
            return Some(Err(self.lost(
                set,
                offset,
                CorruptReason::EntrySize { size },
            )));
        }
        let message = usize::try_from(size).ok().and_then(|size| rest.get(..size));
        let Some(message) = message else {
            return self.cut(set, rest.len().saturating_add(FRAMING));
        };
        let start = self.position.saturating_add(FRAMING);
        self.position = start.saturating_add(message.len());
        let offset = match self.level {
            Level::Nested(wrapper) => wrapper,
            Level::Outer | Level::Inner(_) => offset,
        };
        Some(parse(offset, start, message).map_err(|reason| CorruptMessage::entry(offset, reason)))
    }

    fn at_start(level: Level) -> Self {
        Self { position: 0, level }
    }

    /// At the end, with `bytes` of a cut entry: what a fetch size does to outer sets and nothing to inner ones.
    #[cold]
    fn cut(&mut self, set: &[u8], bytes: usize) -> Option<Result<Entry, CorruptMessage>> {
        self.position = set.len();
        // Unlike Kafka 0.8.2.2: it ignores a cut end of an inner set too, and loses messages.
        match self.level {
            Level::Inner(offset) | Level::Nested(offset) if bytes > 0 => {
                let reason = CorruptReason::CutTail { bytes };
                Some(Err(CorruptMessage::entry(offset, reason)))
            }
            Level::Outer | Level::Inner(_) | Level::Nested(_) => None,
        }
    }

    /// The framing cannot be right, so the rest of the buffer is unusable.
    #[cold]
    fn lost(&mut self, set: &[u8], offset: i64, reason: CorruptReason) -> CorruptMessage {
        self.position = set.len();
        match self.level {
            Level::Outer => CorruptMessage::rest(offset, reason),
            Level::Inner(wrapper) | Level::Nested(wrapper) => {
                CorruptMessage::entry(wrapper, reason)
            }
        }
    }
}

/// Offset and size at the start of `bytes`, and what follows them.
#[inline]
pub(super) fn framing(bytes: &[u8]) -> Option<(i64, i32, &[u8])> {
    let (offset, rest) = bytes.split_first_chunk()?;
    let (size, rest) = rest.split_first_chunk()?;
    Some((i64::from_be_bytes(*offset), i32::from_be_bytes(*size), rest))
}

/// Checks a message that begins at `start` of its buffer.
#[inline]
fn parse(offset: i64, start: usize, message: &[u8]) -> Result<Entry, CorruptReason> {
    let Some((header, fields)) = message.split_first_chunk::<MESSAGE_HEADER>() else {
        return Err(CorruptReason::EntrySize { size: 0 });
    };
    let [c0, c1, c2, c3, magic, attributes] = *header;
    if magic != 0 {
        return Err(CorruptReason::Magic(magic));
    }
    let stored = u32::from_be_bytes([c0, c1, c2, c3]);
    let computed = crc32fast::hash(message.get(4..).unwrap_or_default());
    if stored != computed {
        return Err(CorruptReason::Checksum { stored, computed });
    }
    let codec = Codec::of_attributes(attributes).map_err(CorruptReason::Codec)?;
    let mut at = start.saturating_add(MESSAGE_HEADER);
    let (key, fields) = field("key", fields, &mut at)?;
    let (value, _) = field("value", fields, &mut at)?;
    match codec {
        None => Ok(Entry::Message(RawMessage { offset, key, value })),
        Some(codec) => match value {
            Some(payload) => Ok(Entry::Wrapper(RawWrapper {
                offset,
                codec,
                payload,
            })),
            None => Err(CorruptReason::EmptyWrapper),
        },
    }
}

/// Where the field is whose length stands at the start of `bytes`, which is position `at`, and the bytes after it.
#[inline]
fn field<'a>(
    field: &'static str,
    bytes: &'a [u8],
    at: &mut usize,
) -> Result<(Option<Range<usize>>, &'a [u8]), CorruptReason> {
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
