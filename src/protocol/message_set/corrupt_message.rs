//! What is wrong with a message.

use crate::protocol::message_set::codec::Codec;

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
    #[error("it claims a size of {size}, the least is 14")]
    EntrySize {
        /// The size field.
        size: i32,
    },
    /// The key or the value reaches past the end of the message.
    #[error("its {field} claims {length} bytes of {left}")]
    Length {
        /// "key", "value", or "length field" where not even the length of the two has room.
        field: &'static str,
        /// The length field.
        length: i32,
        /// Bytes of the message after that field.
        left: usize,
    },
    /// Not message format 0.
    #[error("unknown message format {0}")]
    Magic(u8),
    /// A codec that message format 0 does not have.
    #[error("unknown codec {0}")]
    Codec(u8),
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

    /// Trouble after which nothing of the set can be found any more.
    pub(crate) fn rest(offset: i64, reason: CorruptReason) -> Self {
        Self {
            offset,
            resume_at: None,
            reason,
        }
    }

    /// Offset of the bad message. Where no message can be told from its neighbours it is that of the compressed
    /// message around them.
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
}
