//! One member of a group, and one attempt to work out what it owns.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::config::ConsumerConfig;
use crate::consumer::bounds::Bounds;
use crate::consumer::committer::Committer;
use crate::consumer::committer::Offsets;
use crate::consumer::owned_partitions::OwnedPartition;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::consumer::owned_partitions::Ownership;
use crate::consumer::stream_queues::StreamQueues;
use crate::coordination::Assignment;
use crate::coordination::AssignmentContext;
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
    pub(crate) stats: Arc<Stats>,
    pub(crate) events: EventSender,
    pub(crate) stop: StopSignal,
    /// Every owner node that this member may hold: those of the registry, and those that a failed attempt
    /// left behind (D18). Nodes of a session that has ended are found to be not ours when they are released.
    pub(crate) claimed: BTreeMap<TopicPartition, ConsumerThreadId>,
    pub(crate) generation: u64,
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
        match self.take_over(&mine, session) {
            Ok(()) => {
                if let Some(bounds) = &self.bounds {
                    let exists = |partition: &_| assignment.owners().contains_key(partition);
                    bounds.note_generation(&self.ownership.current(), exists);
                }
                Ok(Rebalanced::Changed)
            }
            Err(error) => {
                self.fetchers.stop();
                self.committer.withdraw();
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

    /// Who gets what, by the present state of ZooKeeper.
    fn assign(&self, watched: &[String]) -> Result<Assignment, Error> {
        let topics: Vec<String> = self.topic_count.topics().map(str::to_owned).collect();
        let read = self.topics.watch_partitions(&topics)?;
        let exclude_internal = self.config.exclude_internal_topics();
        let members = self.group.members(&topics, exclude_internal)?;
        if !members.iter().map(|member| &member.id).eq(watched) {
            return Err(Error::GroupChanged);
        }
        for member in &members {
            if let Some(reason) = member.trouble.clone() {
                let path = format!("{}/{}", self.group.members_path(), member.id);
                self.tell_unusable(path, reason);
            }
        }
        for topic in read.missing {
            self.events.send(Event::NoPartitions { topic });
        }
        for (topic, reason) in read.unusable {
            self.tell_unusable(TopicRegistry::path_of(&topic), reason);
        }
        let counts = members
            .iter()
            .map(|member| (member.id.as_str(), &member.topic_count));
        let assignment = self
            .assignor
            .assign(&AssignmentContext::new(read.partitions, counts));
        for (topic, thread) in assignment.idle() {
            if thread.member() == self.id {
                self.events.send(Event::IdleThread {
                    thread: thread.to_string(),
                    topic: topic.clone(),
                });
            }
        }
        Ok(assignment)
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
        let topics: Vec<String> = self.topic_count.topics().map(str::to_owned).collect();
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

    /// Stops fetching, drops what is queued, commits, and owns nothing in memory any more. In this order:
    /// what was consumed is committed while nobody else can have taken over.
    fn give_up_partitions(&self) {
        self.stop_delivery();
        if self.config.auto_commit_enable() {
            let attempts = self.config.offsets_commit_max_retries().saturating_add(1);
            self.committer.commit_and_withdraw(attempts, &self.stop);
        } else {
            self.committer.withdraw();
        }
    }

    /// Owns nothing any more, without a commit, because others may own it by now.
    pub(crate) fn lose_partitions(&mut self) {
        self.stop_delivery();
        self.committer.withdraw();
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
    fn take_over(&mut self, mine: &[MyPartition], session: i64) -> Result<(), Error> {
        let partitions: Vec<TopicPartition> = mine
            .iter()
            .map(|(partition, _)| partition.clone())
            .collect();
        let mut stored = self.committer.store().fetch(&partitions)?;
        let generation = self.generation.saturating_add(1);
        let mut owned = OwnedPartitions {
            generation,
            session: Some(session),
            partitions: BTreeMap::new(),
        };
        let mut checkpoints = Offsets::new();
        for (partition, thread) in mine {
            let offset = match stored.remove(partition) {
                Some(Ok(offset)) => offset,
                Some(Err(reason)) => {
                    self.tell_unusable(self.group.offset_path(partition), reason);
                    None
                }
                None => None,
            };
            // Without a queue somebody has changed what we registered: the next attempt sets it right.
            let queue = self.queues.of(partition.topic(), thread).cloned();
            let queue = queue.ok_or(Error::GroupChanged)?;
            checkpoints.extend(offset.map(|offset| (partition.clone(), offset)));
            let end = self.bounds.as_ref().map(|bounds| bounds.end_of(partition));
            let info = PartitionTopicInfo::with_end(partition.clone(), queue, offset, end);
            let thread = thread.clone();
            owned
                .partitions
                .insert(partition.clone(), OwnedPartition { info, thread });
        }
        let infos: Vec<Arc<PartitionTopicInfo>> = owned.infos().cloned().collect();
        self.committer.publish(owned, checkpoints);
        self.generation = generation;
        self.fetchers.start(infos)
    }

    fn tell_unusable(&self, path: String, reason: String) {
        self.stats.unusable_znodes.increment();
        self.events.send(Event::UnusableZnode { path, reason });
    }
}
