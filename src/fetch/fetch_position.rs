//! What a fetcher may do with a partition, and why it may not.

use crate::fetch::partition_end::EndLookUp;

/// A bad message, before which fetching stopped until the application decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoppedAt {
    pub(crate) offset: i64,
    /// Where to go on to leave the bad message out.
    pub(crate) resume: i64,
}

/// Why nothing more is fetched of a partition until the application decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standstill {
    BadMessage(StoppedAt),
    /// There is no usable offset, and `auto.offset.reset=none` chooses none.
    NoOffset,
}

/// What a fetcher may do with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FetchPosition {
    At {
        offset: i64,
        epoch: u64,
    },
    /// Ask the broker for an offset by `auto.offset.reset` first.
    Unresolved {
        epoch: u64,
    },
    /// Ask the broker for an end of the log first.
    EndWanted(EndLookUp),
    /// Everything up to the end has been fetched.
    AtEnd,
    /// Nothing until the queue wakes the fetcher: paused, or at a [`Standstill`].
    Waiting,
    /// The partition belongs to somebody else by now.
    Revoked,
}

/// What the first sight of corruption at an offset calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Fetch it once more: a cut or a race on the broker can look the same.
    FetchAgain,
    /// It was bad twice.
    Confirmed,
}
