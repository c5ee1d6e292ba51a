//! A run of entries in one buffer.

use bytes::Bytes;

/// The bytes of a message set, as a broker sends them or a producer makes them; nothing in them is checked yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageSet {
    bytes: Bytes,
}

impl MessageSet {
    /// The whole set, as it stands on the wire.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes, those of a cut last entry included.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is not a single byte.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl From<Bytes> for MessageSet {
    fn from(bytes: Bytes) -> Self {
        Self { bytes }
    }
}

impl From<Vec<u8>> for MessageSet {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Bytes::from(bytes),
        }
    }
}
