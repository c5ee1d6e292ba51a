//! Message sets: what a partition's data is made of, in the three message formats, which may be mixed in one set.
//!
//! ```text
//!  offset | size | crc | magic 0 | attributes | key | value                   one entry, 12 bytes of framing
//!  offset | size | crc | magic 1 | attributes | timestamp | key | value       and the message
//!
//!  outer set:   entry   entry   wrapper ........ entry   (cut)
//!                                  | decompress
//!  inner set:                   entry   entry   entry           format 1: their offsets are relative
//!
//!  base    | size | epoch | magic 2 | crc | attributes | last offset | times | producer | count | records
//!  offset                                                                                          |
//!                                                            compressed as one block, or as they are:
//!  record:   length | attributes | time delta | offset delta | key | value | headers     numbers of variable length
//! ```
//!
//! A batch has one checksum over all its records, messages of format 0 and 1 have one each.
//! Control batches mark where transactions end; they take up offsets and are never delivered.
//!
//! A fetcher looks at the framing of the outer entries only ([`Outline`]); whoever delivers messages walks the entries
//! with an [`EntryCursor`], which checks them, opens wrappers and batches, and passes control batches and, where it is
//! given them, [`AbortedTransactions`].

mod format;
mod timestamp;

mod codec;
mod corrupt_message;
mod gzip;
mod lz4;
mod snappy;
#[cfg(feature = "zstd")]
mod zstandard;

mod aborted_transactions;
mod entry_cursor;
mod headers;
mod outline;
mod raw_message;
mod record_batch;
mod varint;

mod builder;
#[cfg(feature = "embedded")]
mod conversion;
mod messages;
mod set;

#[cfg(test)]
mod tests;

pub(crate) use aborted_transactions::AbortedTransactions;
pub use builder::MessageSetBuilder;
pub use builder::NewMessage;
pub use codec::Codec;
#[cfg(feature = "embedded")]
pub(crate) use conversion::ConversionError;
#[cfg(feature = "embedded")]
pub(crate) use conversion::down_convert;
#[cfg(feature = "embedded")]
pub(crate) use conversion::rebuild;
#[cfg(feature = "embedded")]
pub(crate) use conversion::set_log_append_time;
pub use corrupt_message::CorruptMessage;
pub use corrupt_message::CorruptReason;
pub(crate) use entry_cursor::Entry;
pub(crate) use entry_cursor::EntryCursor;
pub use format::MessageFormat;
pub use headers::Header;
pub use headers::Headers;
pub use messages::MessageAndOffset;
pub use messages::Messages;
#[cfg(any(test, feature = "embedded"))]
pub(crate) use outline::OuterEntries;
#[cfg(test)]
pub(crate) use outline::OuterEntry;
pub(crate) use outline::Outline;
pub(crate) use outline::SetEnd;
pub(crate) use raw_message::RawMessage;
pub(crate) use raw_message::RawWrapper;
pub(crate) use raw_message::wide;
pub use set::MessageSet;
pub use timestamp::Timestamp;
pub use timestamp::TimestampType;
