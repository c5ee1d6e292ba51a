//! What an application is told, and may decide, when partitions come and go.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::consumer::committer::Committer;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::consumer::owned_partitions::seek;
use crate::error::Error;
use crate::fetch::PartitionTopicInfo;
use crate::thread::StopSignal;

/// What a listener returns: an error is told by [`Event::ListenerFailed`](crate::Event::ListenerFailed), and changes
/// nothing else.
pub type ListenerResult = Result<(), Box<dyn StdError + Send + Sync>>;

/// Told when partitions of a group are assigned to this member and taken from it.
///
/// Set with [`set_rebalance_listener`](crate::ConsumerConnector::set_rebalance_listener). Each set of partitions is
/// told by one [`on_assign`](Self::on_assign) and later either by one [`on_revoke`](Self::on_revoke) or by one
/// [`on_lost`](Self::on_lost). A rebalance that changes nothing for this member calls nothing, nor does an attempt
/// that fails before it has got that far.
///
/// The calls come one at a time: from the thread that creates the streams for the first rebalance, from the thread
/// `rebalance` for all later ones, and from the thread that calls
/// [`shutdown`](crate::ConsumerConnector::shutdown), or drops the connector, for the last. A listener that takes its
/// time delays this member's rebalance, and the members that wait for its partitions, but nobody's session: it may
/// wait for the application's own threads, as long as none of these waits for the listener, as one in `shutdown` does.
/// The streams deliver nothing meanwhile, so a thread that is blocked in one without a timeout does not come back.
///
/// An error that it returns and a panic are told by [`Event::ListenerFailed`](crate::Event::ListenerFailed), and the
/// rebalance goes on.
///
/// It may call the connector, e.g. to commit, to seek or to ask for offsets by time, with two exceptions, which are
/// refused: it cannot shut the connector down, and it cannot create streams. At the shutdown the connector's calls
/// fail with [`Error::Closed`]; what the call is given works. A listener that keeps an `Arc` of its
/// connector keeps it alive for ever; keep a [`Weak`](std::sync::Weak), or what the calls are given.
pub trait RebalanceListener: Send {
    /// These partitions are about to be released; nobody else owns them yet.
    ///
    /// The order: nothing is delivered any more and what was fetched is dropped; this call; the last commit, if
    /// `auto.commit.enable`; the owner nodes are deleted, and the next owner reads the offsets. So what is committed
    /// here is what the next owner begins with. The last commit writes the positions, though: set one with
    /// [`set_position`](RevokedPartitions::set_position) instead of committing another offset for it. At the shutdown
    /// it is the same, after the streams have ended.
    fn on_revoke(&mut self, revoked: &RevokedPartitions<'_>) -> ListenerResult {
        let _ = revoked;
        Ok(())
    }

    /// These partitions belong to this member from now on, which may be none. Nothing has been fetched yet, so they may
    /// be started elsewhere than at the stored offset.
    fn on_assign(&mut self, assigned: &AssignedPartitions) -> ListenerResult {
        let _ = assigned;
        Ok(())
    }

    /// These partitions were lost with the ZooKeeper session, or because ZooKeeper was out of reach for as long as a
    /// session: others may own them already, so nothing is committed, and what this member had not committed is
    /// delivered again. The member owns nothing when this is called.
    fn on_lost(&mut self, lost: &[TopicPartition]) -> ListenerResult {
        let _ = lost;
        Ok(())
    }
}

impl<L: RebalanceListener + ?Sized> RebalanceListener for Box<L> {
    fn on_revoke(&mut self, revoked: &RevokedPartitions<'_>) -> ListenerResult {
        (**self).on_revoke(revoked)
    }

    fn on_assign(&mut self, assigned: &AssignedPartitions) -> ListenerResult {
        (**self).on_assign(assigned)
    }

    fn on_lost(&mut self, lost: &[TopicPartition]) -> ListenerResult {
        (**self).on_lost(lost)
    }
}

/// Partitions that are about to be released, see [`RebalanceListener::on_revoke`].
pub struct RevokedPartitions<'a> {
    owned: Arc<OwnedPartitions>,
    committer: &'a Committer,
    /// Of a commit.
    attempts: u32,
    /// Ends the pauses between them.
    stop: &'a StopSignal,
}

impl<'a> RevokedPartitions<'a> {
    pub(crate) fn new(
        owned: Arc<OwnedPartitions>,
        committer: &'a Committer,
        attempts: u32,
        stop: &'a StopSignal,
    ) -> Self {
        Self {
            owned,
            committer,
            attempts,
            stop,
        }
    }

    /// The partitions, sorted.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.owned.partitions.keys()
    }

    /// The next offset to read of a partition, as a commit would store it; `None` where it is not known, or the
    /// partition is none of these.
    pub fn position(&self, topic_partition: &TopicPartition) -> Option<i64> {
        self.owned.partitions.get(topic_partition)?.info.consumed()
    }

    /// Sets the next offset to read of a partition, for the commits that follow: for an application that knows better
    /// than its streams what it is through with.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the partition is none of these, or `offset` is negative.
    pub fn set_position(&self, topic_partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        let refused = |reason| Error::InvalidArgument {
            name: "position",
            reason,
        };
        if offset < 0 {
            let reason = format!("offset {offset} of {topic_partition} is negative");
            return Err(refused(reason));
        }
        let owned = self.owned.partitions.get(topic_partition);
        let owned = owned.ok_or_else(|| refused(format!("{topic_partition} is not revoked")))?;
        owned.info.set_consumed(offset);
        Ok(())
    }

    /// Commits the positions of all these partitions and returns them, as
    /// [`commit_offsets`](crate::ConsumerConnector::commit_offsets) does. With `auto.commit.enable` that happens
    /// anyway, right after the call.
    ///
    /// # Errors
    /// [`Error::CommitFailed`] with a result for each partition, [`Error::SessionExpired`] when the partitions may
    /// belong to others by now.
    pub fn commit(&self) -> Result<Vec<(TopicPartition, i64)>, Error> {
        self.committer.commit_owned(self.attempts, self.stop)
    }
}

impl fmt::Debug for RevokedPartitions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RevokedPartitions")
            .field("owned", &self.owned)
            .finish_non_exhaustive()
    }
}

/// Partitions that this member owns from now on, see [`RebalanceListener::on_assign`].
#[derive(Debug)]
pub struct AssignedPartitions {
    owned: Arc<OwnedPartitions>,
}

impl AssignedPartitions {
    pub(crate) fn new(owned: Arc<OwnedPartitions>) -> Self {
        Self { owned }
    }

    /// Number of this assignment, from 1, as [`Event::RebalanceFinished`](crate::Event::RebalanceFinished) tells it.
    pub fn generation(&self) -> u64 {
        self.owned.generation
    }

    /// The partitions, sorted. There may be none.
    pub fn partitions(&self) -> impl Iterator<Item = &TopicPartition> {
        self.owned.partitions.keys()
    }

    /// Where a partition is going to start: the stored offset, or what [`start_at`](Self::start_at) has set. `None`
    /// where `auto.offset.reset` is going to choose, or the partition is none of these.
    pub fn start(&self, topic_partition: &TopicPartition) -> Option<i64> {
        self.info(topic_partition)?.consumed()
    }

    /// Has a partition start at `offset` instead. It counts as consumed so far, and gets committed. An offset outside
    /// the log is corrected by `auto.offset.reset`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the partition is none of these, or `offset` is negative.
    pub fn start_at(&self, topic_partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        seek(self.info(topic_partition), topic_partition, offset)
    }

    fn info(&self, topic_partition: &TopicPartition) -> Option<Arc<PartitionTopicInfo>> {
        let owned = self.owned.partitions.get(topic_partition)?;
        Some(Arc::clone(&owned.info))
    }
}
