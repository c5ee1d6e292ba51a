//! The headers of a record (KIP-82).

use std::borrow::Cow;
use std::iter::FusedIterator;

use crate::protocol::message_set::corrupt_message::CorruptReason;
use crate::protocol::message_set::varint::varint;

/// One header of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name, which may be empty and may repeat. As in Kafka, bytes that are not UTF-8 are replaced by U+FFFD.
    pub name: Cow<'a, str>,
    /// Its value; `None` when it is null, which is not the same as empty.
    pub value: Option<&'a [u8]>,
}

/// The headers of one message in their order; none where its format has none.
#[derive(Clone, Debug, Default)]
pub struct Headers<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Those at `bytes`, which [`check`] has passed: their number, and then each.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut rest = bytes;
        let left = varint(&mut rest).and_then(|count| usize::try_from(count).ok());
        Self {
            left: left.unwrap_or(0),
            rest,
        }
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (name, value) = header(&mut self.rest).ok()?;
        Some(Header {
            name: String::from_utf8_lossy(name),
            value,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

impl FusedIterator for Headers<'_> {}

/// Checks that `count` headers stand at the start of `bytes`, each within them.
pub(super) fn check(count: i32, mut bytes: &[u8]) -> Result<(), CorruptReason> {
    // Each has two bytes at least, so a count that lies ends with the bytes.
    for _ in 0..count {
        header(&mut bytes)?;
    }
    Ok(())
}

/// Takes one header off the front of `bytes`.
fn header<'a>(bytes: &mut &'a [u8]) -> Result<(&'a [u8], Option<&'a [u8]>), CorruptReason> {
    let name = field("header name", bytes)?;
    let name = name.ok_or(CorruptReason::Length {
        field: "header name",
        length: -1,
        left: bytes.len(),
    })?;
    Ok((name, field("header value", bytes)?))
}

/// Takes a field and the varint of its length off the front of `bytes`; `None` for null.
#[inline]
pub(super) fn field<'a>(
    field: &'static str,
    bytes: &mut &'a [u8],
) -> Result<Option<&'a [u8]>, CorruptReason> {
    let length = varint(bytes).ok_or(CorruptReason::Varint { field })?;
    if length == -1 {
        return Ok(None);
    }
    let taken = usize::try_from(length)
        .ok()
        .and_then(|length| bytes.split_at_checked(length));
    let Some((taken, rest)) = taken else {
        let left = bytes.len();
        return Err(CorruptReason::Length {
            field,
            length,
            left,
        });
    };
    *bytes = rest;
    Ok(Some(taken))
}
