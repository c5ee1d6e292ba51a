//! Commits, one at a time, of what the member owns.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use parking_lot::MutexGuard;

use crate::cluster::TopicPartition;
use crate::consumer::application_code::guarded;
use crate::consumer::offset_store::OffsetCall;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::consumer::owned_partitions::Ownership;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::stats::Stats;
use crate::thread::StopSignal;

/// Offsets by partition, as committed.
pub(crate) type Offsets = Vec<(TopicPartition, i64)>;

/// Tells the ZooKeeper session of the moment; `None` between two.
type PresentSession = Box<dyn Fn() -> Option<i64> + Send + Sync>;

/// Writes consumed offsets, and is the only one that changes what the member owns.
///
/// Each attempt reads the owned partitions and writes their offsets under one lock, and they are given up
/// under the same lock. So no commit reaches a partition after the member has released it, and an old
/// snapshot never follows a newer one (D21, D41).
pub(crate) struct Committer {
    store: Arc<dyn OffsetStore>,
    ownership: Arc<Ownership>,
    session: PresentSession,
    stats: Arc<Stats>,
    events: EventSender,
    /// Pause between two attempts: `offsets.channel.backoff.ms`.
    backoff: Duration,
    /// Held while the store is written; taken before any other lock.
    writing: Mutex<()>,
}

impl Committer {
    pub(crate) fn new(
        store: Arc<dyn OffsetStore>,
        ownership: Arc<Ownership>,
        session: PresentSession,
        stats: Arc<Stats>,
        events: EventSender,
        backoff: Duration,
    ) -> Self {
        Self {
            store,
            ownership,
            session,
            stats,
            events,
            backoff,
            writing: Mutex::default(),
        }
    }

    /// The stored offsets of partitions that were claimed in `session`, if they were claimed.
    pub(crate) fn fetch(
        &self,
        partitions: &[TopicPartition],
        session: Option<i64>,
        stop: &StopSignal,
    ) -> Result<HashMap<TopicPartition, i64>, Error> {
        let call = OffsetCall::new(session, stop);
        let fetched = guarded(|| self.store.fetch(partitions, &call));
        let mut offsets = fetched.map_err(|error| Error::of_store("fetching offsets", error))?;
        offsets.retain(|_, offset| *offset >= 0);
        Ok(offsets)
    }

    /// Commits how far each owned partition has been consumed, in up to `attempts` attempts, each with the
    /// offsets of its time.
    ///
    /// What is owned after a rebalance is not what the caller meant: then the failure before it is the outcome.
    pub(crate) fn commit_owned(&self, attempts: u32, stop: &StopSignal) -> Result<Offsets, Error> {
        let mut meant = None;
        self.attempts(attempts, stop, |writing| {
            let owned = self.ownership.current();
            let meant = meant.get_or_insert_with(|| Arc::clone(&owned));
            Arc::ptr_eq(meant, &owned).then(|| self.write_owned(writing, stop))
        })
    }

    /// Commits exactly `offsets`, also of partitions that are not owned, with one text of `metadata` for each, or none
    /// at all.
    pub(crate) fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        metadata: Vec<String>,
        attempts: u32,
        stop: &StopSignal,
    ) -> Result<Offsets, Error> {
        let call = OffsetCall::given(metadata, stop);
        self.attempts(attempts, stop, |writing| {
            Some(self.write(writing, offsets, &call))
        })
    }

    /// Takes over what a rebalance has claimed.
    pub(crate) fn publish(&self, owned: OwnedPartitions) {
        let _writing = self.writing.lock();
        self.ownership.replace(owned);
    }

    /// Commits for the last time, then owns nothing, whatever became of the commit: what was not committed
    /// is delivered again.
    pub(crate) fn commit_and_withdraw(&self, attempts: u32, stop: &StopSignal) {
        let owned = self.ownership.current();
        let earlier = self.commit_owned(attempts, stop);
        let writing = self.writing.lock();
        let outcome = match earlier {
            // More was consumed meanwhile.
            Ok(committed) if committed != owned.consumed() => self.write_owned(&writing, stop),
            outcome => outcome,
        };
        self.withdraw_from(&writing);
        drop(writing);
        self.report(&owned, outcome);
    }

    /// Owns nothing from now on, without a commit: others may own it by now.
    pub(crate) fn withdraw(&self) {
        self.withdraw_from(&self.writing.lock());
    }

    /// Tells the application of a commit that it did not ask for and that failed: one of what was `owned` when it
    /// began, since others may own that by now.
    pub(crate) fn report(&self, owned: &OwnedPartitions, outcome: Result<Offsets, Error>) {
        let Err(error) = outcome else {
            return;
        };
        let (partitions, reason) = match &error {
            Error::CommitFailed { failed, .. } => {
                let first = failed.first().map(|(_, error)| error.chain());
                let partitions = failed.iter().map(|(partition, _)| partition.clone());
                (partitions.collect(), first.unwrap_or_default())
            }
            error => (owned.partitions.keys().cloned().collect(), error.chain()),
        };
        self.events.send(Event::CommitFailed { partitions, reason });
    }

    fn withdraw_from(&self, _writing: &MutexGuard<'_, ()>) {
        let generation = self.ownership.current().generation;
        self.ownership.replace(OwnedPartitions {
            generation,
            ..OwnedPartitions::default()
        });
    }

    /// `None` of an attempt: there is none to make any more, and what the last one said stands.
    fn attempts(
        &self,
        attempts: u32,
        stop: &StopSignal,
        mut attempt: impl FnMut(&MutexGuard<'_, ()>) -> Option<Result<Offsets, Error>>,
    ) -> Result<Offsets, Error> {
        let mut left = attempts;
        let mut outcome = Ok(Offsets::new());
        loop {
            let next = attempt(&self.writing.lock());
            let Some(next) = next else {
                return outcome;
            };
            outcome = next;
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

    fn write_owned(
        &self,
        writing: &MutexGuard<'_, ()>,
        stop: &StopSignal,
    ) -> Result<Offsets, Error> {
        let owned = self.ownership.current();
        if owned.partitions.is_empty() {
            return Ok(Offsets::new());
        }
        // In another session than the one that claimed them the partitions may be somebody else's. Those that were
        // chosen without a group are nobody's.
        if owned.session.is_some() && owned.session != (self.session)() {
            return Err(Error::SessionExpired);
        }
        let call = OffsetCall::new(owned.session, stop);
        self.write(writing, &owned.consumed(), &call)
    }

    fn write(
        &self,
        _writing: &MutexGuard<'_, ()>,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Offsets, Error> {
        let results = guarded(|| self.store.commit(offsets, call)).map_err(|error| {
            self.count_failures(offsets.len());
            Error::of_store("committing offsets", error)
        })?;
        let mut results = results.into_iter();
        let mut failed = Vec::new();
        for (partition, _) in offsets {
            let result = results.next();
            let result = result.unwrap_or_else(|| Err("it lacks a result".into()));
            if let Err(error) = result {
                let doing = format!("committing the offset of {partition}");
                failed.push((partition.clone(), Error::of_store(doing, error)));
            }
        }
        if failed.is_empty() {
            return Ok(offsets.to_vec());
        }
        self.count_failures(failed.len());
        let lost: HashSet<&TopicPartition> =
            failed.iter().map(|(partition, _)| partition).collect();
        let committed = offsets
            .iter()
            .filter(|(partition, _)| !lost.contains(partition));
        let committed = committed.cloned().collect();
        Err(Error::CommitFailed { committed, failed })
    }

    fn count_failures(&self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.stats.commit_failures.add(count);
    }
}

#[cfg(test)]
mod tests;
