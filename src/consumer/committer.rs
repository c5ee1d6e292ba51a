//! Commits, one at a time, of what the member owns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use parking_lot::MutexGuard;

use crate::cluster::TopicPartition;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::consumer::owned_partitions::Ownership;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::stats::Stats;
use crate::thread::StopSignal;
use crate::zk::ZkClient;

/// Offsets by partition, as committed.
pub(crate) type Offsets = Vec<(TopicPartition, i64)>;

/// What the store holds as far as we know, so that nothing is written twice (KAFKA-987).
type Checkpoints = BTreeMap<TopicPartition, i64>;

/// Writes consumed offsets, and is the only one that changes what the member owns.
///
/// Each attempt reads the owned partitions and writes their offsets under one lock, and they are given up
/// under the same lock. So no commit reaches a partition after the member has released it, and an old
/// snapshot never follows a newer one (D21, D41).
pub(crate) struct Committer {
    store: Box<dyn OffsetStore>,
    ownership: Arc<Ownership>,
    zk: Arc<ZkClient>,
    stats: Arc<Stats>,
    events: EventSender,
    /// Pause between two attempts: `offsets.channel.backoff.ms`.
    backoff: Duration,
    /// Held while the store is written; taken before any other lock.
    checkpoints: Mutex<Checkpoints>,
}

impl Committer {
    pub(crate) fn new(
        store: Box<dyn OffsetStore>,
        ownership: Arc<Ownership>,
        zk: Arc<ZkClient>,
        stats: Arc<Stats>,
        events: EventSender,
        backoff: Duration,
    ) -> Self {
        Self {
            store,
            ownership,
            zk,
            stats,
            events,
            backoff,
            checkpoints: Mutex::default(),
        }
    }

    pub(crate) fn store(&self) -> &dyn OffsetStore {
        &*self.store
    }

    /// Commits how far each owned partition has been consumed, in up to `attempts` attempts, each with the
    /// offsets of its time.
    pub(crate) fn commit_owned(&self, attempts: u32, stop: &StopSignal) -> Result<Offsets, Error> {
        self.attempts(attempts, stop, |mut checkpoints| {
            self.write_owned(&mut checkpoints)
        })
    }

    /// Commits exactly `offsets`, also of partitions that are not owned. What we once wrote there somebody
    /// else may have changed since, so that all of it is written.
    pub(crate) fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        attempts: u32,
        stop: &StopSignal,
    ) -> Result<Offsets, Error> {
        self.attempts(attempts, stop, |mut checkpoints| {
            for (partition, _) in offsets {
                checkpoints.remove(partition);
            }
            self.write(offsets, &mut checkpoints)
        })
    }

    /// Takes over what a rebalance has claimed; `stored` is what the store holds for it.
    pub(crate) fn publish(&self, owned: OwnedPartitions, stored: Offsets) {
        let mut checkpoints = self.checkpoints.lock();
        *checkpoints = stored.into_iter().collect();
        self.ownership.replace(owned);
    }

    /// Commits for the last time, then owns nothing, whatever became of the commit: what was not committed
    /// is delivered again.
    pub(crate) fn commit_and_withdraw(&self, attempts: u32, stop: &StopSignal) {
        let earlier = self.commit_owned(attempts, stop);
        let mut checkpoints = self.checkpoints.lock();
        // What was consumed meanwhile.
        let outcome = earlier.and_then(|_| self.write_owned(&mut checkpoints));
        self.withdraw_from(&mut checkpoints);
        drop(checkpoints);
        self.report(outcome);
    }

    /// Owns nothing from now on, without a commit: others may own it by now.
    pub(crate) fn withdraw(&self) {
        self.withdraw_from(&mut self.checkpoints.lock());
    }

    /// Tells the application of a commit that it did not ask for and that failed.
    pub(crate) fn report(&self, outcome: Result<Offsets, Error>) {
        let Err(error) = outcome else {
            return;
        };
        let (partitions, reason) = match &error {
            Error::CommitFailed { failed, .. } => {
                let first = failed.first().map(|(_, error)| error.chain());
                let partitions = failed.iter().map(|(partition, _)| partition.clone());
                (partitions.collect(), first.unwrap_or_default())
            }
            error => (Vec::new(), error.chain()),
        };
        self.events.send(Event::CommitFailed { partitions, reason });
    }

    fn withdraw_from(&self, checkpoints: &mut Checkpoints) {
        checkpoints.clear();
        let generation = self.ownership.current().generation;
        self.ownership.replace(OwnedPartitions {
            generation,
            ..OwnedPartitions::default()
        });
    }

    fn attempts(
        &self,
        attempts: u32,
        stop: &StopSignal,
        attempt: impl Fn(MutexGuard<'_, Checkpoints>) -> Result<Offsets, Error>,
    ) -> Result<Offsets, Error> {
        let mut left = attempts;
        loop {
            let outcome = attempt(self.checkpoints.lock());
            left = left.saturating_sub(1);
            let is_final = match &outcome {
                Ok(_) => true,
                Err(error) => left == 0 || !error.is_retriable(),
            };
            if is_final || !stop.pause(self.backoff) {
                return outcome;
            }
        }
    }

    fn write_owned(&self, checkpoints: &mut Checkpoints) -> Result<Offsets, Error> {
        let owned = self.ownership.current();
        if owned.partitions.is_empty() {
            return Ok(Offsets::new());
        }
        // In another session than the one that claimed them the partitions may be somebody else's.
        if owned.session != self.zk.session_id() {
            return Err(Error::SessionExpired);
        }
        self.write(&owned.consumed(), checkpoints)
    }

    fn write(
        &self,
        offsets: &[(TopicPartition, i64)],
        checkpoints: &mut Checkpoints,
    ) -> Result<Offsets, Error> {
        let changed: Offsets = offsets
            .iter()
            .filter(|(partition, offset)| checkpoints.get(partition) != Some(offset))
            .cloned()
            .collect();
        let mut failed = Vec::new();
        for ((partition, offset), result) in changed.iter().zip(self.store.commit(&changed)) {
            match result {
                Ok(()) => {
                    checkpoints.insert(partition.clone(), *offset);
                }
                Err(error) => {
                    // Unknown what is stored now.
                    checkpoints.remove(partition);
                    failed.push((partition.clone(), error));
                }
            }
        }
        if failed.is_empty() {
            return Ok(offsets.to_vec());
        }
        let count = u64::try_from(failed.len()).unwrap_or(u64::MAX);
        self.stats.commit_failures.add(count);
        let is_failed =
            |partition: &TopicPartition| failed.iter().any(|(other, _)| other == partition);
        let committed = offsets
            .iter()
            .filter(|(partition, _)| !is_failed(partition));
        Err(Error::CommitFailed {
            committed: committed.cloned().collect(),
            failed,
        })
    }
}
