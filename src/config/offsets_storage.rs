//! The values of `offsets.storage`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// `offsets.storage`: where a group keeps its offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffsetsStorage {
    /// `zookeeper`: in the nodes `/consumers/<group>/offsets`.
    ZooKeeper,
    /// `kafka`: in the topic `__consumer_offsets`, through the broker that coordinates the group. Brokers from
    /// 0.8.2 on keep offsets.
    Kafka,
}

impl fmt::Display for OffsetsStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZooKeeper => "zookeeper",
            Self::Kafka => "kafka",
        })
    }
}

impl FromStr for OffsetsStorage {
    type Err = Error;

    /// As in Kafka, in any case.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text.to_lowercase().as_str() {
            "zookeeper" => Ok(Self::ZooKeeper),
            "kafka" => Ok(Self::Kafka),
            _ => Err(Error::InvalidConfig {
                key: String::from("offsets.storage"),
                reason: format!("`{text}` is neither `zookeeper` nor `kafka`"),
            }),
        }
    }
}
