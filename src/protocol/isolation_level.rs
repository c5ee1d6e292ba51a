//! Which messages of transactions are shown.

/// Whether a reader is shown messages of transactions that are not over, or were aborted (KIP-98).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// All of them, up to the high watermark (0).
    #[default]
    ReadUncommitted,
    /// None of those still open: the log ends at the last stable offset. A broker also says which of what it gives
    /// was aborted (1).
    ReadCommitted,
}

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
