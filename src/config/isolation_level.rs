//! The values of `isolation.level`.

use crate::config::choices::choices;

/// `isolation.level`: which messages of transactions are delivered (KIP-98).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IsolationLevel {
    /// `read_uncommitted`: all of them, aborted ones too, as to every consumer of 0.8.
    #[default]
    ReadUncommitted,
    /// `read_committed`: those of committed transactions; the partition ends where the first open one begins.
    ReadCommitted,
}

choices!(IsolationLevel, "isolation.level", any_case: false, {
    ReadUncommitted: "read_uncommitted",
    ReadCommitted: "read_committed",
});
