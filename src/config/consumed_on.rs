//! The values of `consumed.on`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// `consumed.on`: when a message counts as consumed, so that its offset may be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConsumedOn {
    /// `next`: when the application comes back for the next one; a crash repeats the message.
    Next,
    /// `return`: as soon as it is handed out, as in Kafka; a crash loses the message.
    Return,
}

impl fmt::Display for ConsumedOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Next => "next",
            Self::Return => "return",
        })
    }
}

impl FromStr for ConsumedOn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "next" => Ok(Self::Next),
            "return" => Ok(Self::Return),
            _ => Err(Error::InvalidConfig {
                key: String::from("consumed.on"),
                reason: format!("`{text}` is neither `next` nor `return`"),
            }),
        }
    }
}
