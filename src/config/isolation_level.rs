//! The values of `isolation.level`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// `isolation.level`: which messages of transactions are delivered (KIP-98).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// `read_uncommitted`: all of them, aborted ones too, as to every consumer of 0.8.
    #[default]
    ReadUncommitted,
    /// `read_committed`: those of committed transactions; the partition ends where the first open one begins.
    ReadCommitted,
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadUncommitted => "read_uncommitted",
            Self::ReadCommitted => "read_committed",
        })
    }
}

impl FromStr for IsolationLevel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "read_uncommitted" => Ok(Self::ReadUncommitted),
            "read_committed" => Ok(Self::ReadCommitted),
            _ => Err(Error::InvalidConfig {
                key: String::from("isolation.level"),
                reason: format!("`{text}` is neither `read_uncommitted` nor `read_committed`"),
            }),
        }
    }
}
