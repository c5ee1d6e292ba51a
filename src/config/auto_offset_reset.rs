//! The values of `auto.offset.reset`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// `auto.offset.reset`: where to begin when there is no usable offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AutoOffsetReset {
    /// `smallest`, also written `earliest`: at the oldest message that the broker still has.
    Smallest,
    /// `largest`, also written `latest`: behind the newest message.
    Largest,
    /// `none`, also written `error`: nowhere. The stream tells it with
    /// [`StreamError::NoOffset`](crate::StreamError::NoOffset), and the partition waits for a
    /// [`seek`](crate::ConsumerConnector::seek).
    None,
}

impl fmt::Display for AutoOffsetReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Smallest => "smallest",
            Self::Largest => "largest",
            Self::None => "none",
        })
    }
}

impl FromStr for AutoOffsetReset {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "smallest" | "earliest" => Ok(Self::Smallest),
            "largest" | "latest" => Ok(Self::Largest),
            "none" | "error" => Ok(Self::None),
            _ => Err(Error::InvalidConfig {
                key: String::from("auto.offset.reset"),
                reason: format!(
                    "`{text}` is neither `smallest` (`earliest`) nor `largest` (`latest`) nor `none` (`error`)"
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_both_consumers_are_taken_and_the_older_ones_written() {
        for (choice, words) in [
            (AutoOffsetReset::Smallest, ["smallest", "earliest"]),
            (AutoOffsetReset::Largest, ["largest", "latest"]),
            (AutoOffsetReset::None, ["none", "error"]),
        ] {
            for word in words {
                assert_eq!(word.parse::<AutoOffsetReset>().unwrap(), choice);
            }
            assert_eq!(choice.to_string(), words[0]);
        }
    }
}
