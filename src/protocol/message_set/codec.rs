//! How message sets are compressed.

use std::fmt;

use crate::protocol::message_set::corrupt_message::CorruptReason;
use crate::protocol::message_set::format::MessageFormat;
use crate::protocol::message_set::gzip;
use crate::protocol::message_set::lz4;
use crate::protocol::message_set::snappy;
#[cfg(feature = "zstd")]
use crate::protocol::message_set::zstandard;

/// How messages are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// RFC 1952.
    Gzip,
    /// Snappy blocks, bare or in xerial framing.
    Snappy,
    /// An LZ4 frame (Kafka 0.8.2 and later).
    Lz4,
    /// RFC 8878 (KIP-110, Kafka 2.1 and later): in message format 2 only, and needs the cargo feature `zstd`.
    Zstd,
}

impl Codec {
    const MASK: u8 = 7;

    /// The codec of a message of format 0 or 1; `None` where it is not compressed, the number of the codec where it
    /// is unknown.
    #[inline]
    pub(crate) fn of_attributes(attributes: u8) -> Result<Option<Self>, u8> {
        match attributes & Self::MASK {
            0 => Ok(None),
            1 => Ok(Some(Self::Gzip)),
            2 => Ok(Some(Self::Snappy)),
            3 => Ok(Some(Self::Lz4)),
            unknown => Err(unknown),
        }
    }

    /// The same for a record batch, of whose attributes this is the low byte.
    pub(crate) fn of_batch_attributes(attributes: u8) -> Result<Option<Self>, u8> {
        match Self::of_attributes(attributes) {
            Err(4) => Ok(Some(Self::Zstd)),
            others => others,
        }
    }

    pub(crate) fn attributes(self) -> u8 {
        match self {
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Replaces the content of `out`, whose memory is used again, by what `payload` holds. After an error it means
    /// nothing.
    ///
    /// Never makes more than `limit` bytes. What the payload claims about its size is believed only as far as its own
    /// length makes it possible.
    pub(crate) fn decompress(
        self,
        payload: &[u8],
        limit: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CorruptReason> {
        // Snappy overwrites what is there.
        if self != Self::Snappy {
            out.clear();
        }
        let result = match self {
            Self::Gzip => gzip::decompress(payload, limit, out),
            Self::Snappy => snappy::decompress(payload, limit, out),
            Self::Lz4 => lz4::decompress(payload, limit, out),
            #[cfg(feature = "zstd")]
            Self::Zstd => zstandard::decompress(payload, limit, out),
            #[cfg(not(feature = "zstd"))]
            Self::Zstd => return Err(CorruptReason::CodecLeftOut(self)),
        };
        result.map_err(|failure| match failure {
            Failure::OverLimit => CorruptReason::OverLimit { limit },
            Failure::Malformed(reason) => CorruptReason::Decompression {
                codec: self,
                reason,
            },
        })
    }

    /// Compresses as the Java clients that write this format do.
    pub(crate) fn compress(self, format: MessageFormat, set: &[u8]) -> Result<Vec<u8>, String> {
        match self {
            Self::Gzip => gzip::compress(set).map_err(|error| error.to_string()),
            Self::Snappy => snappy::compress(set).map_err(|error| error.to_string()),
            Self::Lz4 => Ok(lz4::compress(format, set)),
            Self::Zstd if format < MessageFormat::V2 => {
                Err(format!("message format {format} has no zstd"))
            }
            #[cfg(feature = "zstd")]
            Self::Zstd => zstandard::compress(set).map_err(|error| error.to_string()),
            #[cfg(not(feature = "zstd"))]
            Self::Zstd => Err(CorruptReason::CodecLeftOut(self).to_string()),
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}

/// Why a payload cannot be decompressed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It holds more than is wanted.
    OverLimit,
    /// It is not what its codec makes.
    Malformed(String),
}

impl Failure {
    pub(super) fn malformed(reason: impl fmt::Display) -> Self {
        Self::Malformed(reason.to_string())
    }
}
