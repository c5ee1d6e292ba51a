//! One member of a group, and one attempt to work out what it owns.

mod assigning;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::config::ConsumerConfig;
use crate::consumer::bounds::Bounds;
use crate::consumer::committer::Committer;
use crate::consumer::listener_calls::ListenerCalls;
use crate::consumer::owned_partitions::Ownership;
use crate::consumer::starting_positions::StartingPositions;
use crate::consumer::stream_queues::StreamQueues;
use crate::coordination::Assignment;
use crate::coordination::BrokerRegistry;
use crate::coordination::Claim;
use crate::coordination::ConsumerThreadId;
use crate::coordination::GroupRegistry;
use crate::coordination::PartitionAssignor;
use crate::coordination::TopicCount;
use crate::coordination::TopicRegistry;
use crate::coordination::epoch_millis;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::fetch::FetcherManager;
use crate::fetch::PartitionTopicInfo;
use crate::stats::Stats;
use crate::thread::StopSignal;
use crate::zk::ZkClient;

/// What takes part in a rebalance. Used by one thread at a time: first by the one that creates the streams,
/// then by `rebalance`.
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) config: Arc<ConsumerConfig>,
    pub(crate) topic_count: TopicCount,
    pub(crate) queues: StreamQueues,
    /// Of a member that reads no further than to the ends.
    pub(crate) bounds: Option<Arc<Bounds>>,
    /// Its calls end when the rebalance is told to stop.
    pub(crate) zk: Arc<ZkClient>,
    pub(crate) brokers: BrokerRegistry,
    pub(crate) topics: TopicRegistry,
    pub(crate) group: GroupRegistry,
    pub(crate) assignor: Box<dyn PartitionAssignor>,
    pub(crate) fetchers: Arc<FetcherManager>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) listener: Arc<ListenerCalls>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) events: EventSender,
    pub(crate) stop: StopSignal,
    /// Every owner node that this member may hold: those of the registry, and those that a failed attempt
    /// left behind (D18). Nodes of a session that has ended are found to be not ours when they are released.
    pub(crate) claimed: BTreeMap<TopicPartition, ConsumerThreadId>,
    pub(crate) generation: u64,
    /// The topics that it asked for at the last assignment, in order: by name, or those that passed its filter.
    pub(crate) passing: Vec<String>,
}

/// A partition of this member and its thread.
type MyPartition = (TopicPartition, ConsumerThreadId);

/// How an attempt to rebalance ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rebalanced {
    /// There is a new generation, and fetching has begun.
    Changed,
    /// What the member owns is what it should own: nothing was stopped.
    Unchanged,
    /// Nobody to fetch from; the first broker that registers calls for the next attempt (KAFKA-969).
    NoBrokers,
}

impl Member {
    /// One attempt to rebalance. Watches are set before the state is read, so that no change is missed.
    pub(crate) fn rebalance(&mut self) -> Result<Rebalanced, Error> {
        let session = self.zk.session_id().ok_or(Error::SessionExpired)?;
        self.ensure_registered()?;
        let members = self.group.watch_members()?;
        if self.brokers.is_empty()? && self.brokers.watch()? {
            return Ok(Rebalanced::NoBrokers);
        }
        let assignment = self.assign(&members)?;
        let mine = assignment.of_member(&self.id);
        if self.owns_already(&mine, session)? {
            return Ok(Rebalanced::Unchanged);
        }
        self.give_up_partitions();
        self.release_claimed()?;
        self.claim(&mine)?;
        match self.take_over(&mine, &assignment, session) {
            Ok(()) => Ok(Rebalanced::Changed),
            Err(error) => {
                self.lose_partitions();
                Err(error)
            }
        }
    }

    /// Registers the member, also when somebody deleted or changed its node.
    fn ensure_registered(&self) -> Result<(), Error> {
        if self.group.is_registered(&self.id, &self.topic_count)? {
            return Ok(());
        }
        let registration = self.topic_count.registration(epoch_millis());
        self.group.register(&self.id, &registration, &self.stop)?;
        self.events.send(Event::Registered {
            member: self.id.clone(),
        });
        Ok(())
    }

    /// Whether this is what the member owns in this session, its nodes included.
    fn owns_already(&self, mine: &[MyPartition], session: i64) -> Result<bool, Error> {
        let owned = self.ownership.current();
        if owned.generation == 0 || owned.session != Some(session) || owned.claims() != mine {
            return Ok(false);
        }
        Ok(self.first_lost_node()?.is_none())
    }

    /// The first owner node of ours that is gone, or names somebody else.
    fn first_lost_node(&self) -> Result<Option<String>, Error> {
        let owned = self.ownership.current();
        let topics: BTreeSet<&str> = owned.partitions.keys().map(TopicPartition::topic).collect();
        let topics: Vec<String> = topics.into_iter().map(str::to_owned).collect();
        let owners = self.group.owners(&topics)?;
        let lost = owned.claims().into_iter().find(|(partition, thread)| {
            !owners
                .get(partition)
                .is_some_and(|owner| owner.is_mine && owner.thread == thread.as_str())
        });
        Ok(lost.map(|(partition, _)| self.group.owner_path(&partition)))
    }

    /// The first node of this member that should be there and is not. Called between rebalances.
    pub(crate) fn first_missing_node(&self) -> Result<Option<String>, Error> {
        if !self.group.is_registered(&self.id, &self.topic_count)? {
            return Ok(Some(format!("{}/{}", self.group.members_path(), self.id)));
        }
        self.first_lost_node()
    }

    /// Stops fetching, drops what is queued, tells the listener, commits, and owns nothing in memory any more. In
    /// this order: what was consumed is committed while nobody else can have taken over, the listener's word included.
    fn give_up_partitions(&self) {
        self.stop_delivery();
        let attempts = self.config.offsets_commit_max_retries().saturating_add(1);
        let owned = self.ownership.current();
        self.listener
            .revoke(owned, &self.committer, attempts, &self.stop);
        if self.config.auto_commit_enable() {
            self.committer.commit_and_withdraw(attempts, &self.stop);
        } else {
            self.committer.withdraw();
        }
    }

    /// Owns nothing any more, without a commit, because others may own it by now.
    pub(crate) fn lose_partitions(&mut self) {
        self.stop_delivery();
        let lost = self.ownership.current();
        self.committer.withdraw();
        self.listener.lose(&lost);
    }

    fn stop_delivery(&self) {
        for info in self.ownership.current().infos() {
            info.revoke();
        }
        self.fetchers.stop();
        for queue in self.queues.all() {
            queue.clear();
        }
    }

    /// Deletes every owner node that this session may hold.
    pub(crate) fn release_claimed(&mut self) -> Result<(), Error> {
        let claimed: Vec<MyPartition> = self.claimed.clone().into_iter().collect();
        let mut outcome = Ok(());
        for ((partition, _), released) in claimed.iter().zip(self.group.release(&claimed)) {
            match released {
                Ok(_) => {
                    self.claimed.remove(partition);
                }
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    /// Creates the owner nodes; with a conflict, none.
    fn claim(&mut self, mine: &[MyPartition]) -> Result<(), Error> {
        let mut outcome = Ok(());
        for ((partition, thread), claim) in mine.iter().zip(self.group.claim(mine)) {
            let refused = match claim {
                Claim::Created | Claim::AlreadyMine => None,
                Claim::Conflict { owner } => Some(Error::OwnershipConflict {
                    path: self.group.owner_path(partition),
                    owner,
                }),
                Claim::Failed(error) => Some(error),
            };
            if !matches!(refused, Some(Error::OwnershipConflict { .. })) {
                self.claimed.insert(partition.clone(), thread.clone());
            }
            if let (Ok(()), Some(error)) = (&outcome, refused) {
                outcome = Err(error);
            }
        }
        if outcome.is_err() {
            // What cannot be deleted now is remembered in `claimed`.
            let _ = self.release_claimed();
        }
        outcome
    }

    /// Reads the offsets, which nobody else moves any more (D22), and starts to fetch.
    fn take_over(
        &mut self,
        mine: &[MyPartition],
        assignment: &Assignment,
        session: i64,
    ) -> Result<(), Error> {
        let mut shares = Vec::with_capacity(mine.len());
        for (partition, thread) in mine {
            // Without a queue somebody has changed what we registered: the next attempt sets it right.
            let queue = self.queues.of(partition.topic(), thread).cloned();
            let queue = queue.ok_or(Error::GroupChanged)?;
            shares.push((partition.clone(), thread.clone(), queue));
        }
        let generation = self.generation.saturating_add(1);
        let starting = StartingPositions {
            committer: &self.committer,
            bounds: self.bounds.as_deref(),
            session: Some(session),
            stop: &self.stop,
        };
        let owned = starting.read(shares, generation)?;
        let infos: Vec<Arc<PartitionTopicInfo>> = owned.infos().cloned().collect();
        self.committer.publish(owned);
        self.generation = generation;
        if let Some(bounds) = &self.bounds {
            let exists = |partition: &_| assignment.owners().contains_key(partition);
            bounds.note_generation(&self.ownership.current(), exists);
        }
        self.listener.assign(self.ownership.current());
        self.check_session(session)?;
        self.fetchers.start(infos)
    }

    /// After a call of the listener, which takes as long as it likes: somebody else may fetch by now.
    fn check_session(&self, session: i64) -> Result<(), Error> {
        match self.zk.is_leased(session) {
            true => Ok(()),
            false => Err(Error::SessionExpired),
        }
    }

    fn tell_unusable(&self, path: String, reason: String) {
        self.stats.unusable_znodes.increment();
        self.events.send(Event::UnusableZnode { path, reason });
    }
}
