//! The values of `on.bad.message`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// `on.bad.message`: what follows a corrupt or too large message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnBadMessage {
    /// `fail`: it is an error of the stream, which stays before it until the application skips or seeks.
    Fail,
    /// `skip`: it is reported once, as an error of the stream and as an event, and then skipped.
    Skip,
}

impl fmt::Display for OnBadMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fail => "fail",
            Self::Skip => "skip",
        })
    }
}

impl FromStr for OnBadMessage {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "fail" => Ok(Self::Fail),
            "skip" => Ok(Self::Skip),
            _ => Err(Error::InvalidConfig {
                key: String::from("on.bad.message"),
                reason: format!("`{text}` is neither `fail` nor `skip`"),
            }),
        }
    }
}
