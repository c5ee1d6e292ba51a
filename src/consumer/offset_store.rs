//! Where a group keeps its offsets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::TopicPartition;
use crate::thread::StopSignal;

/// Why an [`OffsetStore`] failed: the application's own error, which becomes the source of
/// [`Error::OffsetStore`](crate::Error::OffsetStore).
///
/// An [`Error`](crate::Error) of this crate stays what it is, so that a store can say by it whether another attempt
/// makes sense ([`is_retriable`](crate::Error::is_retriable)); every other error is tried again.
pub type OffsetStoreError = Box<dyn std::error::Error + Send + Sync>;

/// Keeps, for each partition, the next offset that the group has to read.
///
/// The built-in stores are chosen by `offsets.storage` and `dual.commit.enabled`; an application brings its own with
/// [`ConsumerConnector::connect_with_offset_store`](crate::ConsumerConnector::connect_with_offset_store), for example
/// to keep offsets beside its results, in one transaction with them.
///
/// # Threads and waiting
///
/// [`fetch`](Self::fetch) is called in the thread that creates the streams, and for later rebalances in the
/// connector's thread `rebalance`. [`commit`](Self::commit) is called in the thread that calls
/// [`commit_offsets`](crate::ConsumerConnector::commit_offsets), in `auto-commit`, in `rebalance`, and in the thread
/// that shuts down; one call at a time, as a lock of the connector is held. Therefore a store must not call the
/// connector. A panic counts as an error.
///
/// A call may block, but the rebalance, other commits and the shutdown wait for it. It should end soon after
/// [`OffsetCall::is_cancelled`] says so, and pause with [`OffsetCall::pause`] only. A shutdown cancels the calls under
/// way at once, and the last commit, which follows, two seconds after its own begin.
pub trait OffsetStore: Send + Sync {
    /// The stored offsets of `partitions`, which this member has just claimed; of partitions without one, nothing.
    /// They begin as `auto.offset.reset` says. Negative offsets count as none.
    ///
    /// # Errors
    ///
    /// An error fails the attempt to rebalance, which is made again after `rebalance.backoff.ms`.
    fn fetch(
        &self,
        partitions: &[TopicPartition],
        call: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError>;

    /// Stores offsets, at each commit those of all owned partitions whose position is known. The results are in the
    /// order of `offsets`.
    ///
    /// # Errors
    ///
    /// An error instead of results says that nothing is known to be stored. A commit that failed in whole or in part is
    /// made again, with the positions of that time, up to `offsets.commit.max.retries` times; by the timer at its next
    /// turn.
    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError>;
}

impl<S: OffsetStore + ?Sized> OffsetStore for Arc<S> {
    fn fetch(
        &self,
        partitions: &[TopicPartition],
        call: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
        (**self).fetch(partitions, call)
    }

    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError> {
        (**self).commit(offsets, call)
    }
}

/// What an [`OffsetStore`] has to know about one call of it.
#[derive(Clone, Debug)]
pub struct OffsetCall {
    stop: StopSignal,
    session: Option<i64>,
    is_given: bool,
    /// In the order of the offsets; empty where nobody has named any.
    metadata: Vec<String>,
}

impl OffsetCall {
    pub(crate) fn new(session: Option<i64>, stop: &StopSignal) -> Self {
        Self {
            stop: stop.clone(),
            session,
            is_given: false,
            metadata: Vec::new(),
        }
    }

    /// A commit of offsets that the application has named itself, each with what it wants to remember.
    pub(crate) fn given(metadata: Vec<String>, stop: &StopSignal) -> Self {
        Self {
            is_given: true,
            metadata,
            ..Self::new(None, stop)
        }
    }

    /// The ZooKeeper session that holds the owner nodes of the partitions; when it has ended, they may belong to other
    /// members. `None` for offsets that the application has named itself
    /// ([`commit_offsets_for`](crate::ConsumerConnector::commit_offsets_for)), and for partitions that it reads without
    /// the group: to be stored whoever owns the partitions.
    pub fn session(&self) -> Option<i64> {
        self.session
    }

    /// Whether nobody waits for the result any more, because the connector shuts down.
    pub fn is_cancelled(&self) -> bool {
        self.stop.is_stopped()
    }

    /// Waits for `time`. `false`, and at once, when the call [is cancelled](Self::is_cancelled).
    pub fn pause(&self, time: Duration) -> bool {
        self.stop.pause(time)
    }

    /// What the application wants to have remembered beside the offsets
    /// ([`commit_offsets_with_metadata`](crate::ConsumerConnector::commit_offsets_with_metadata)): one text for each,
    /// in the order of the offsets; of all other commits nothing.
    pub fn metadata(&self) -> &[String] {
        &self.metadata
    }

    /// Whether the application has named the offsets itself, so that they are written whatever was written before.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given
    }

    pub(crate) fn stop(&self) -> &StopSignal {
        &self.stop
    }
}
