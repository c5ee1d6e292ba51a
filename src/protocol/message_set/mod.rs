//! Message sets of format 0: what a partition's data is made of.
//!
//! ```text
//!  offset | size | crc | magic 0 | attributes | key | value       one entry, 12 bytes of framing and the message
//!
//!  outer set:   entry   entry   wrapper ........ entry   (cut)
//!                                  | decompress
//!  inner set:                   entry   entry   entry
//! ```
//!
//! A fetcher looks at the framing of the outer entries only ([`Outline`]); whoever delivers messages walks the entries
//! with an [`EntryCursor`], which checks them, and opens the wrappers.

mod codec;
mod corrupt_message;
mod gzip;
mod lz4;
mod snappy;

mod entry_cursor;
mod outline;

mod builder;
mod messages;
mod set;

#[cfg(test)]
mod tests;

pub use builder::MessageSetBuilder;
pub use codec::Codec;
pub use corrupt_message::CorruptMessage;
pub use corrupt_message::CorruptReason;
pub(crate) use entry_cursor::Entry;
pub(crate) use entry_cursor::EntryCursor;
pub(crate) use entry_cursor::RawMessage;
pub(crate) use entry_cursor::RawWrapper;
pub use messages::MessageAndOffset;
pub use messages::Messages;
#[cfg(test)]
pub(crate) use outline::OuterEntries;
#[cfg(test)]
pub(crate) use outline::OuterEntry;
pub(crate) use outline::Outline;
pub(crate) use outline::SetEnd;
pub use set::MessageSet;
