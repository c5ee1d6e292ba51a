//! What the framing of a message set tells, without a look into the messages.

use crate::protocol::message_set::entry_cursor::FRAMING;
use crate::protocol::message_set::entry_cursor::MAGIC;
use crate::protocol::message_set::entry_cursor::claimed_last_offset;
use crate::protocol::message_set::entry_cursor::framing;
use crate::protocol::message_set::format::MessageFormat;

/// Magic of a record batch, whose offset is that of its first record.
const BATCH: u8 = 2;

/// The offset of a filler: -1.
const FILLER: [u8; 8] = [0xff; 8];

/// What a fetcher has to know of a set: one pass over the framing of its outer entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    /// Bytes of the whole entries, which all stand at the front.
    pub(crate) valid_bytes: usize,
    /// The last offset that a whole entry takes up; the next fetch is for the offset after it. `None` without a whole
    /// entry.
    ///
    /// That of the last entry, unless its offset goes back, which no sound log does.
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
        /// Its last offset, where the piece is long enough to tell.
        offset: Option<i64>,
        /// Size of the whole entry, framing included, where the piece is long enough to tell. The peer's word only.
        needed: Option<usize>,
    },
    /// In the filler with which brokers from 2.0 on keep the promised size after converting to an older format.
    Filler,
    /// In an entry that claims an offset which no message of the log has yet.
    Beyond {
        /// The last offset it claims.
        last: i64,
        /// Where the record batch behind it begins, if one is there and sane.
        next: Option<i64>,
    },
    /// In an entry that claims to be shorter than any message: the set is corrupt from here on.
    TooShort {
        /// The offset it claims.
        offset: i64,
        /// The size it claims.
        size: i32,
        /// The least size of its format.
        least: i32,
    },
}

impl Outline {
    /// Outline of the set.
    pub(crate) fn of(set: &[u8]) -> Self {
        Self::within(set, None)
    }

    /// Outline of a set from a log that is shown up to offset `limit`: an entry that reaches beyond it is damaged, as
    /// its checksum would tell, and ends the whole entries.
    pub(crate) fn within(set: &[u8], limit: Option<i64>) -> Self {
        let mut entries = OuterEntries::new(set);
        let mut last_offset = None;
        while let Some(entry) = entries.next() {
            let last = entry.last_offset();
            if limit.is_some_and(|limit| last >= limit) {
                let following = entries.next().filter(|next| next.magic() == BATCH);
                let next = following.map(|next| next.offset);
                return Self {
                    valid_bytes: entry.position,
                    last_offset,
                    end: SetEnd::Beyond {
                        last,
                        next: next.filter(|next| limit.is_some_and(|limit| *next < limit)),
                    },
                };
            }
            // Unlike Kafka 0.8.2.2: it goes on behind the last one, and fetches again what it has delivered.
            last_offset = last_offset.max(Some(last));
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
    /// Its offset; of a wrapper that of the last message in it, of a record batch that of the first.
    pub(crate) offset: i64,
    /// Where it begins in the set.
    pub(crate) position: usize,
    /// The message or record batch, without the framing.
    pub(crate) message: &'a [u8],
}

impl OuterEntry<'_> {
    /// Bytes of the entry, framing included.
    pub(crate) fn size(&self) -> usize {
        self.message.len().saturating_add(FRAMING)
    }

    /// The last offset that it takes up. Of a record batch it is the header's word, and there need not be a record of
    /// this offset any more.
    #[inline]
    pub(crate) fn last_offset(&self) -> i64 {
        match self.magic() {
            2 => claimed_last_offset(self.offset, self.message),
            _ => self.offset,
        }
    }

    /// Number of the message format.
    #[inline]
    pub(crate) fn magic(&self) -> u8 {
        self.message.get(MAGIC).copied().unwrap_or_default()
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

    /// What has not been passed.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// What stands where the iteration is, told as if no whole entry followed.
    pub(crate) fn end(&self) -> SetEnd {
        let cut = |offset, needed| SetEnd::Cut { offset, needed };
        let Some((offset, size, message)) = framing(self.rest) else {
            return match self.rest.is_empty() {
                true => SetEnd::Whole,
                false if self.rest.starts_with(&FILLER) => SetEnd::Filler,
                false => cut(None, None),
            };
        };
        let least = least_size(message);
        if size < least {
            return SetEnd::TooShort {
                offset,
                size,
                least,
            };
        }
        if offset == -1 {
            return SetEnd::Filler;
        }
        let needed = usize::try_from(size).ok();
        let needed = needed.map(|size| size.saturating_add(FRAMING));
        cut(last_offset_of_piece(offset, message), needed)
    }
}

impl<'a> Iterator for OuterEntries<'a> {
    type Item = OuterEntry<'a>;

    #[inline]
    fn next(&mut self) -> Option<OuterEntry<'a>> {
        let (offset, size, rest) = framing(self.rest)?;
        if size < MessageFormat::V0.least_size() {
            return None;
        }
        let (message, rest) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        let entry = OuterEntry {
            offset,
            position: self.position,
            message,
        };
        if entry.magic() != 0 && size < least_size(message) {
            return None;
        }
        self.rest = rest;
        self.position = self.position.saturating_add(entry.size());
        Some(entry)
    }
}

/// Least size of an entry of which `message` has come. Of formats that are not known it is that of format 0.
fn least_size(message: &[u8]) -> i32 {
    let magic = message.get(MAGIC).copied();
    let format = magic.and_then(MessageFormat::of_magic);
    format.unwrap_or(MessageFormat::V0).least_size()
}

/// The last offset of an entry of which only the piece `message` has come.
fn last_offset_of_piece(offset: i64, message: &[u8]) -> Option<i64> {
    match message.get(MAGIC) {
        Some(2) if message.len() < 15 => None,
        Some(2) => Some(claimed_last_offset(offset, message)),
        _ => Some(offset),
    }
}
