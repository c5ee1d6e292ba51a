//! The values of `auto.offset.reset`.

use crate::config::choices::choices;

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

choices!(AutoOffsetReset, "auto.offset.reset", any_case: false, {
    Smallest: "smallest" or "earliest",
    Largest: "largest" or "latest",
    None: "none" or "error",
});
