//! The messages of a set, one by one.

use bytes::Bytes;

use crate::protocol::message_set::corrupt_message::CorruptMessage;
use crate::protocol::message_set::entry_cursor::Entry;
use crate::protocol::message_set::entry_cursor::EntryCursor;
use crate::protocol::message_set::headers::Headers;
use crate::protocol::message_set::raw_message::RawMessage;
use crate::protocol::message_set::raw_message::wide;
use crate::protocol::message_set::timestamp::Timestamp;

/// A message and where it stands in its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageAndOffset {
    /// The message's offset.
    pub offset: i64,
    /// Its key; `None` when it is null, which is not the same as empty.
    pub key: Option<Bytes>,
    /// Its value; `None` when it is null, which is not the same as empty.
    pub value: Option<Bytes>,
    /// Its time; `None` in message format 0, and where the producer gave none.
    pub timestamp: Option<Timestamp>,
    /// As they stand in the record, their number in front.
    headers: Bytes,
}

impl MessageAndOffset {
    /// Its headers, which only message format 2 has.
    pub fn headers(&self) -> Headers<'_> {
        Headers::new(&self.headers)
    }
}

/// All messages of a set, decompressed and checked; those of aborted transactions too. A cut last entry is left out.
///
/// After a corrupt message the iteration goes on with the next one, where there is one to be found.
#[derive(Clone, Debug)]
pub struct Messages {
    /// The set, and the wrappers that are open in it.
    open: Vec<(Bytes, EntryCursor)>,
    limit: usize,
}

impl Messages {
    pub(super) fn new(set: Bytes, cursor: EntryCursor, limit: usize) -> Self {
        Self {
            open: vec![(set, cursor)],
            limit,
        }
    }
}

impl Iterator for Messages {
    type Item = Result<MessageAndOffset, CorruptMessage>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (set, cursor) = self.open.last_mut()?;
            let wrapper = match cursor.next(set) {
                None => {
                    self.open.pop();
                    continue;
                }
                Some(Err(corrupt)) => return Some(Err(corrupt)),
                Some(Ok(Entry::Message(message))) => return Some(Ok(owned(message, set))),
                Some(Ok(Entry::Wrapper(wrapper))) => wrapper,
            };
            let mut inner = Vec::new();
            match cursor.open(&wrapper, set, self.limit, &mut inner) {
                Ok(cursor) => self.open.push((Bytes::from(inner), cursor)),
                Err(corrupt) => return Some(Err(corrupt)),
            }
        }
    }
}

fn owned(message: RawMessage, set: &Bytes) -> MessageAndOffset {
    MessageAndOffset {
        offset: message.offset,
        key: message.key.map(|range| set.slice(wide(&range))),
        value: message.value.map(|range| set.slice(wide(&range))),
        timestamp: message.timestamp,
        headers: set.slice(wide(&message.headers)),
    }
}
