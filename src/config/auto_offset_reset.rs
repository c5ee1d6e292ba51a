//! The values of `auto.offset.reset`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// `auto.offset.reset`: where to begin when there is no usable offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AutoOffsetReset {
    /// `smallest`: at the oldest message that the broker still has.
    Smallest,
    /// `largest`: behind the newest message.
    Largest,
}

impl fmt::Display for AutoOffsetReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smallest => "smallest",
            Self::Largest => "largest",
        })
    }
}

impl FromStr for AutoOffsetReset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "smallest" => Ok(Self::Smallest),
            "largest" => Ok(Self::Largest),
            _ => Err(Error::InvalidConfig {
                key: String::from("auto.offset.reset"),
                reason: format!("`{text}` is neither `smallest` nor `largest`"),
            }),
        }
    }
}
