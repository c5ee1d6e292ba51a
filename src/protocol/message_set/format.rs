//! The three message formats.

use std::fmt;

/// How the messages of a partition are laid out; Kafka calls its number "magic".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MessageFormat {
    /// Kafka 0.8.0 to 0.9.0: key and value.
    #[default]
    V0,
    /// Kafka 0.10: a timestamp as well (KIP-31, KIP-32).
    V1,
    /// Kafka 0.11 and later: batches of records with headers, of producers that may be transactional (KIP-82, KIP-98).
    V2,
}

impl MessageFormat {
    /// The number on the wire.
    pub fn magic(self) -> u8 {
        match self {
            Self::V0 => 0,
            Self::V1 => 1,
            Self::V2 => 2,
        }
    }

    /// The format with this number.
    pub(crate) fn of_magic(magic: u8) -> Option<Self> {
        match magic {
            0 => Some(Self::V0),
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            _ => None,
        }
    }

    /// Least size that an entry can claim: what of it follows the size field.
    pub(crate) fn least_size(self) -> i32 {
        match self {
            Self::V0 => 14,
            Self::V1 => 22,
            Self::V2 => 49,
        }
    }
}

impl fmt::Display for MessageFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.magic())
    }
}
