//! Where a bounded stream stopped in one partition.

use std::fmt;

use crate::cluster::TopicPartition;

/// Where a member that reads up to the ends stands, or stopped, in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BoundedPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// Where reading began: at the stored offset, at the one that `auto.offset.reset` chose, or where the
    /// application sought to. `None` while that is not known.
    pub start: Option<i64>,
    /// The first offset that is not read: the end of the log when the member took the partition over.
    /// `None` while no leader has told it.
    pub end: Option<i64>,
    /// The next offset to read: everything before it is consumed. May lie behind the end, if reading began
    /// there. `None` while it is not known.
    pub position: Option<i64>,
    /// How it ended.
    pub outcome: BoundedOutcome,
}

/// How the reading of one partition up to its end has ended, or what prevented it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BoundedOutcome {
    /// Everything before the end is consumed.
    Reached,
    /// Everything before `log_end` is consumed; the rest of the log up to the end was lost (unclean election).
    Truncated {
        /// Where the log ended when that was found.
        log_end: i64,
    },
    /// A rebalance gave the partition to another member before the end was reached.
    HandedOver,
    /// The partition, with its topic, was deleted before the end was reached.
    Deleted,
    /// A corrupt or too large message stands before the end, and the application did not skip it.
    BadMessage {
        /// Its offset.
        offset: i64,
    },
    /// There was no usable offset, `auto.offset.reset=none` chose none, and the application did not seek.
    NoOffset,
    /// Not there yet.
    Reading,
}

impl BoundedPartition {
    /// Whether everything that the partition holds before the end is consumed.
    pub fn is_reached(&self) -> bool {
        matches!(
            self.outcome,
            BoundedOutcome::Reached | BoundedOutcome::Truncated { .. }
        )
    }
}

impl fmt::Display for BoundedPartition {
    /// As `orders/0 from 5 to 25 of 25: end reached`, with `?` for what is not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known =
            |offset: Option<i64>| offset.map_or_else(|| String::from("?"), |it| it.to_string());
        write!(
            f,
            "{} from {} to {} of {}: {}",
            self.topic_partition,
            known(self.start),
            known(self.position),
            known(self.end),
            self.outcome
        )
    }
}

impl fmt::Display for BoundedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reached => f.write_str("end reached"),
            Self::Truncated { log_end } => write!(f, "the log was cut off at {log_end}"),
            Self::HandedOver => f.write_str("handed over to another member"),
            Self::Deleted => f.write_str("deleted"),
            Self::BadMessage { offset } => write!(f, "bad message at {offset}"),
            Self::NoOffset => f.write_str("no usable offset"),
            Self::Reading => f.write_str("not read to the end"),
        }
    }
}
