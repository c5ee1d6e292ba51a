//! Making of message sets.

use crate::error::Error;
use crate::protocol::message_set::codec::Codec;
use crate::protocol::message_set::outline::Outline;
use crate::protocol::message_set::set::MessageSet;

/// Makes a message set of format 0, as the Java producers of 0.8.2 and 0.9 do.
#[derive(Clone, Debug, Default)]
pub struct MessageSetBuilder {
    codec: Option<Codec>,
    entries: Vec<u8>,
    last_offset: i64,
}

impl MessageSetBuilder {
    /// A set of plain messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// A set that is one compressed message with all the others in it.
    pub fn compressed(codec: Codec) -> Self {
        Self {
            codec: Some(codec),
            ..Self::default()
        }
    }

    /// Adds a message. Brokers ignore the offsets that a producer gives, so it may count from 0.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a message of more than 2 GiB.
    pub fn message(
        &mut self,
        offset: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<&mut Self, Error> {
        write_entry(&mut self.entries, offset, 0, key, value)?;
        self.last_offset = offset;
        Ok(self)
    }

    /// Adds the whole entries of another set as they are; compressed ones stay so.
    pub fn entries(&mut self, set: &MessageSet) -> &mut Self {
        let outline = Outline::of(set.as_bytes());
        let entries = set.as_bytes().get(..outline.valid_bytes);
        self.entries.extend_from_slice(entries.unwrap_or_default());
        self.last_offset = outline.last_offset.unwrap_or(self.last_offset);
        self
    }

    /// The set. Without a message it is empty, compressed or not.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the compressed messages have more than 2 GiB.
    pub fn build(self) -> Result<MessageSet, Error> {
        let Some(codec) = self.codec.filter(|_| !self.entries.is_empty()) else {
            return Ok(MessageSet::from(self.entries));
        };
        let payload = codec.compress(&self.entries).map_err(refused)?;
        let mut wrapper = Vec::new();
        let attributes = codec.attributes();
        write_entry(
            &mut wrapper,
            self.last_offset,
            attributes,
            None,
            Some(&payload),
        )?;
        Ok(MessageSet::from(wrapper))
    }
}

fn write_entry(
    entries: &mut Vec<u8>,
    offset: i64,
    attributes: u8,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Result<(), Error> {
    let [key_length, value_length] = [length(key)?, length(value)?];
    let bytes = [key, value].into_iter().flatten().map(<[u8]>::len);
    let size = bytes.fold(14, usize::saturating_add);
    let too_large = |_| refused(format!("{size} bytes are more than 2 GiB"));
    let size = i32::try_from(size).map_err(too_large)?;

    let mut checked = crc32fast::Hasher::new();
    let parts: [&[u8]; 5] = [
        &[0, attributes],
        &key_length.to_be_bytes(),
        key.unwrap_or_default(),
        &value_length.to_be_bytes(),
        value.unwrap_or_default(),
    ];
    parts.iter().for_each(|part| checked.update(part));
    entries.extend_from_slice(&offset.to_be_bytes());
    entries.extend_from_slice(&size.to_be_bytes());
    entries.extend_from_slice(&checked.finalize().to_be_bytes());
    parts
        .iter()
        .for_each(|part| entries.extend_from_slice(part));
    Ok(())
}

/// The length field of a key or value.
fn length(bytes: Option<&[u8]>) -> Result<i32, Error> {
    let Some(bytes) = bytes else {
        return Ok(-1);
    };
    let length = bytes.len();
    i32::try_from(length).map_err(|_| refused(format!("{length} bytes are more than 2 GiB")))
}

fn refused(reason: String) -> Error {
    let name = "message";
    Error::InvalidArgument { name, reason }
}
