//! The values of `roundrobin.version`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// `roundrobin.version`: as the members of which Kafka `roundrobin` deals out.
///
/// The rules changed twice, and members that go by different ones claim the same partitions for ever. So all
/// members of a group must go by the same; the default fits all members from 0.8.2 to 0.11 whose subscriptions are
/// equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoundRobinVersion {
    /// `0.8.2`: up to 0.10.1. Every member must ask for the same topics with as many threads for each; where one
    /// does not, nobody's rebalance succeeds.
    V0_8_2,
    /// `0.10.2`: from 0.10.2 to 0.11. The same order of partitions, and subscriptions may differ (KAFKA-2434).
    V0_10_2,
    /// `1.0`: from 1.0 to 1.1. Subscriptions may differ, and the partitions are in another order, since
    /// KAFKA-5822 changed their names.
    V1_0,
}

impl fmt::Display for RoundRobinVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V0_8_2 => "0.8.2",
            Self::V0_10_2 => "0.10.2",
            Self::V1_0 => "1.0",
        })
    }
}

impl FromStr for RoundRobinVersion {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "0.8.2" => Ok(Self::V0_8_2),
            "0.10.2" => Ok(Self::V0_10_2),
            "1.0" => Ok(Self::V1_0),
            _ => Err(Error::InvalidConfig {
                key: String::from("roundrobin.version"),
                reason: format!("`{text}` is none of `0.8.2`, `0.10.2` and `1.0`"),
            }),
        }
    }
}
