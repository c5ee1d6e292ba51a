//! How long to wait for a message.

use std::time::Duration;
use std::time::Instant;

/// How long a call may wait for a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    Not,
    Until(Instant),
    ForEver,
}

impl Wait {
    pub(crate) fn within(timeout: Duration) -> Self {
        if timeout.is_zero() {
            return Self::Not;
        }
        Instant::now()
            .checked_add(timeout)
            .map_or(Self::ForEver, Self::Until)
    }

    /// `None` waits for ever, as without `consumer.timeout.ms`.
    pub(crate) fn within_or_for_ever(timeout: Option<Duration>) -> Self {
        timeout.map_or(Self::ForEver, Self::within)
    }

    /// When the wait ends; `None` for never.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Self::Not => Some(Instant::now()),
            Self::Until(deadline) => Some(deadline),
            Self::ForEver => None,
        }
    }
}
