//! What the framing of a message set tells, without a look into the messages.

use crate::protocol::message_set::entry_cursor::FRAMING;
use crate::protocol::message_set::entry_cursor::LEAST_SIZE;
use crate::protocol::message_set::entry_cursor::framing;

/// The offset of a filler: -1.
const FILLER: [u8; 8] = [0xff; 8];

/// What a fetcher has to know of a set: one pass over the framing of its outer entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Bytes of the whole entries, which all stand at the front.
    pub(crate) valid_bytes: usize,
    /// Offset of the last whole entry; the next fetch is for the offset after it. `None` without a whole entry.
    pub(crate) last_offset: Option<i64>,
    /// What follows the whole entries.
    pub(crate) end: SetEnd,
}

/// How a set ends after its whole entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetEnd {
    /// With the last whole entry.
    Whole,
    /// In a piece of an entry, which is no trouble if there are whole entries before it.
    Cut {
        /// Its offset, of a wrapper that of the last message in it, where the piece is long enough to tell.
        offset: Option<i64>,
        /// Size of the whole entry, framing included, where the piece is long enough to tell. The peer's word only.
        needed: Option<usize>,
    },
    /// In the filler with which brokers from 2.0 on keep the promised size after converting to format 0.
    Filler,
    /// In an entry that claims to be shorter than any message: the set is corrupt from here on.
    TooShort {
        /// The offset it claims.
        offset: i64,
        /// The size it claims.
        size: i32,
    },
}

impl Outline {
    /// Outline of the set.
    pub(crate) fn of(set: &[u8]) -> Self {
        let mut entries = OuterEntries::new(set);
        let mut last_offset = None;
        for entry in &mut entries {
            last_offset = Some(entry.offset);
        }
        Self {
            valid_bytes: entries.position,
            last_offset,
            end: entries.end(),
        }
    }

    #[cfg(test)]
    /// Whether the first message is larger than the fetch: there are bytes and no whole entry.
    pub(crate) fn is_oversize(&self) -> bool {
        self.last_offset.is_none() && matches!(self.end, SetEnd::Cut { .. })
    }
}

/// One outer entry, with nothing checked but its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OuterEntry<'a> {
    /// Its offset; of a wrapper, that of the last message in it.
    pub(crate) offset: i64,
    /// Where it begins in the set.
    pub(crate) position: usize,
    /// The message, without the framing.
    pub(crate) message: &'a [u8],
}

impl OuterEntry<'_> {
    /// Bytes of the entry, framing included.
    pub(crate) fn size(&self) -> usize {
        self.message.len().saturating_add(FRAMING)
    }

    #[cfg(test)]
    /// The checksum that the message claims.
    pub(crate) fn checksum(&self) -> u32 {
        let checksum = self.message.first_chunk();
        checksum.map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    #[cfg(test)]
    /// Number of the message format.
    pub(crate) fn magic(&self) -> u8 {
        self.message.get(4).copied().unwrap_or_default()
    }

    #[cfg(test)]
    /// Attributes of the message; the low three bits are the codec.
    pub(crate) fn attributes(&self) -> u8 {
        self.message.get(5).copied().unwrap_or_default()
    }
}

/// The whole outer entries of a set, in order.
#[derive(Clone, Debug)]
pub(crate) struct OuterEntries<'a> {
    rest: &'a [u8],
    position: usize,
}

impl<'a> OuterEntries<'a> {
    /// From the start of the set.
    pub(crate) fn new(set: &'a [u8]) -> Self {
        Self {
            rest: set,
            position: 0,
        }
    }

    /// What stands where the iteration is, told as if no whole entry followed.
    pub(crate) fn end(&self) -> SetEnd {
        match framing(self.rest) {
            _ if self.rest.is_empty() => SetEnd::Whole,
            None if self.rest.starts_with(&FILLER) => SetEnd::Filler,
            None => SetEnd::Cut {
                offset: None,
                needed: None,
            },
            Some((offset, size, _)) if size < LEAST_SIZE => SetEnd::TooShort { offset, size },
            Some((-1, ..)) => SetEnd::Filler,
            Some((offset, size, _)) => SetEnd::Cut {
                offset: Some(offset),
                needed: usize::try_from(size)
                    .ok()
                    .map(|size| size.saturating_add(FRAMING)),
            },
        }
    }
}

impl<'a> Iterator for OuterEntries<'a> {
    type Item = OuterEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<OuterEntry<'a>> {
        let (offset, size, rest) = framing(self.rest)?;
        if size < LEAST_SIZE {
            return None;
        }
        let (message, rest) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        let entry = OuterEntry {
            offset,
            position: self.position,
            message,
        };
        self.rest = rest;
        self.position = self.position.saturating_add(entry.size());
        Some(entry)
    }
}
