//! The isolation level on the wire.

pub use crate::config::IsolationLevel;

impl IsolationLevel {
    /// As in Kafka: everything but 1 is read uncommitted.
    pub(super) fn from_wire(level: i8) -> Self {
        match level {
            1 => Self::ReadCommitted,
            _ => Self::ReadUncommitted,
        }
    }

    pub(super) fn to_wire(self) -> i8 {
        match self {
            Self::ReadUncommitted => 0,
            Self::ReadCommitted => 1,
        }
    }
}
