//! What is wrong with a message.

use crate::protocol::message_set::codec::Codec;
use crate::protocol::message_set::format::MessageFormat;

/// A message, or a whole rest of a message set, that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message at offset {offset} is corrupt: {reason}")]
pub struct CorruptMessage {
    offset: i64,
    resume_at: Option<i64>,
    reason: CorruptReason,
}

/// Why a message cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptReason {
    /// The CRC does not fit the bytes.
    #[error("its checksum is {computed:#010x}, it claims {stored:#010x}")]
    Checksum {
        /// What the message says.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// No message is as short as this one claims to be.
    #[error("it claims a size of {size}, the least is {least}")]
    EntrySize {
        /// The size field.
        size: i32,
        /// What its format needs.
        least: i32,
    },
    /// A part of the message reaches past its end.
    #[error("its {field} claims {length} bytes of {left}")]
    Length {
        /// Which part, such as "key" or "value"; "length field" where not even the length of the two has room.
        field: &'static str,
        /// The length field.
        length: i32,
        /// Bytes of the message after that field.
        left: usize,
    },
    /// A number of variable length in a record is cut or too long.
    #[error("its {field} is no number of variable length, or not all of it")]
    Varint {
        /// Which number, such as "record length", or the part whose length it is.
        field: &'static str,
    },
    /// Not one of the message formats 0, 1 and 2.
    #[error("unknown message format {0}")]
    Magic(u8),
    /// Compressed messages of another format than the message around them.
    #[error("a message of format {inner} within a compressed one of format {outer}")]
    ForeignFormat {
        /// Number of the message within.
        inner: u8,
        /// Of the message around it.
        outer: MessageFormat,
    },
    /// A codec that the message format does not have.
    #[error("unknown codec {0}")]
    Codec(u8),
    /// A codec that was left out of this build.
    #[error(
        "it is compressed with {0}, which this build cannot read: it lacks the cargo feature `{0}`"
    )]
    CodecLeftOut(Codec),
    /// The compressed messages cannot be decompressed.
    #[error("cannot decompress {codec}: {reason}")]
    Decompression {
        /// How they are compressed.
        codec: Codec,
        /// What the decompressor says.
        reason: String,
    },
    /// There is nothing among the compressed messages.
    #[error("it has a codec and holds no message")]
    EmptyWrapper,
    /// The compressed messages take more room than is granted.
    #[error("decompressed, it has more than the limit of {limit} bytes")]
    OverLimit {
        /// The limit.
        limit: usize,
    },
    /// A record batch holds more or fewer records than it says, or a negative number of them.
    #[error("its number of records, {claimed}, is not what it holds")]
    RecordCount {
        /// The number it claims.
        claimed: i32,
    },
    /// A record batch ends before it begins, or a record lies outside its batch.
    #[error(
        "its offset, {delta} behind the first of its batch, is outside the batch, which ends at {last}"
    )]
    OffsetDelta {
        /// Offset of the record in the batch.
        delta: i32,
        /// Of the last one.
        last: i32,
    },
    /// The compressed messages of format 1 take up more offsets than there are before the one around them.
    #[error("its offset is less than that of the last of its compressed messages, {last}")]
    RelativeOffset {
        /// The last message's offset, relative to the first.
        last: i64,
    },
    /// Compressed messages within compressed messages within compressed messages.
    #[error("compressed three times over")]
    NestedTooDeep,
    /// The decompressed messages end in a piece of one.
    #[error("its compressed messages end in a piece of {bytes} bytes")]
    CutTail {
        /// Size of the piece.
        bytes: usize,
    },
}

impl CorruptMessage {
    /// Trouble with one entry whose neighbours are fine.
    pub(crate) fn entry(offset: i64, reason: CorruptReason) -> Self {
        Self {
            offset,
            resume_at: Some(offset.saturating_add(1)),
            reason,
        }
    }

    /// Trouble with a record batch, or something in it that cannot be told apart, whose neighbours are fine.
    pub(crate) fn batch(base_offset: i64, last_offset: i64, reason: CorruptReason) -> Self {
        Self {
            offset: base_offset,
            resume_at: Some(last_offset.max(base_offset).saturating_add(1)),
            reason,
        }
    }

    /// Trouble after which nothing of the set can be found any more.
    pub(crate) fn rest(offset: i64, reason: CorruptReason) -> Self {
        Self {
            offset,
            resume_at: None,
            reason,
        }
    }

    /// Offset of the bad message. Where no message can be told from its neighbours it is that of the compressed
    /// message around them, or the first one of their record batch.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// What is wrong.
    pub fn reason(&self) -> &CorruptReason {
        &self.reason
    }

    /// Where to go on when the bad message is to be skipped.
    ///
    /// `None` when the rest of the set cannot be told apart, so that nobody knows which offset comes next. Fetching
    /// again may help.
    pub fn resume_at(&self) -> Option<i64> {
        self.resume_at
    }

    /// Whether a reader that wants the messages from `position` on has to care.
    pub(crate) fn concerns(&self, position: i64) -> bool {
        let behind = self
            .resume_at
            .map_or(self.offset, |next| next.saturating_sub(1));
        behind >= position
    }
}
