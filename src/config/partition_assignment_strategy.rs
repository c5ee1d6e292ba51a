//! The values of `partition.assignment.strategy`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// `partition.assignment.strategy`: how partitions are dealt out to the threads of a group.
///
/// All members of a group must say the same, and nothing checks it: they would claim the same partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionAssignmentStrategy {
    /// `range`: each topic by itself, in runs of neighbouring partitions.
    Range,
    /// `roundrobin`: the partitions of all topics together, one after the other to each thread in turn; see
    /// [`RoundRobinVersion`](crate::RoundRobinVersion).
    RoundRobin,
}

impl fmt::Display for PartitionAssignmentStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
        })
    }
}

impl FromStr for PartitionAssignmentStrategy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "range" => Ok(Self::Range),
            "roundrobin" => Ok(Self::RoundRobin),
            _ => Err(Error::InvalidConfig {
                key: String::from("partition.assignment.strategy"),
                reason: format!("`{text}` is neither `range` nor `roundrobin`"),
            }),
        }
    }
}
