//! Decides when to rebalance, and goes on until it has worked.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::select;

use crate::consumer::connector_state::ConnectorState;
use crate::consumer::connector_state::StateCell;
use crate::consumer::member::Member;
use crate::consumer::member::Rebalanced;
use crate::coordination::BrokerRegistry;
use crate::coordination::TopicRegistry;
use crate::error::Error;
use crate::events::Event;
use crate::stats::Stats;
use crate::zk::SessionEvent;
use crate::zk::ZkEvent;

/// Least pause before an attempt that an event brings forward; doubles with every failure.
const SHORTEST_BACKOFF: Duration = Duration::from_millis(50);

/// How long a change of the topics that a filter looks at is left alone: where topics are created or deleted by
/// the dozen, one rebalance serves many.
const TOPICS_PAUSE: Duration = Duration::from_millis(200);

/// Where topics come and go without end, there is so many times as long between two rebalances for their sake as the
/// last one took, but no longer than the second number: without it a member with thousands of partitions would do
/// little but rebalance.
const TOPICS_REST: (u32, Duration) = (4, Duration::from_secs(2));

/// Turns events into rebalances. Several that come together make one rebalance, and no work is done in the
/// thread that delivers them (D12).
pub(crate) struct Rebalancer {
    member: Member,
    zk_events: Receiver<ZkEvent>,
    state: Arc<StateCell>,
    stats: Arc<Stats>,
    pending: Option<Pending>,
    /// Topics came or went, which may not concern this member.
    topics_changed: bool,
    /// Until then no rebalance begins only because topics came or went.
    topics_rest_ends: Instant,
    next_check: Instant,
}

/// A rebalance that has not succeeded yet.
struct Pending {
    since: Instant,
    next_attempt: Instant,
    failed_attempts: u32,
    /// A node whose change brings the next attempt forward: that of the owner who stands in the way.
    obstacle: Option<String>,
    last_failure: Option<String>,
}

impl Rebalancer {
    pub(crate) fn new(
        member: Member,
        zk_events: Receiver<ZkEvent>,
        state: Arc<StateCell>,
        stats: Arc<Stats>,
    ) -> Self {
        Self {
            member,
            zk_events,
            state,
            stats,
            pending: None,
            topics_changed: false,
            topics_rest_ends: Instant::now(),
            next_check: Instant::now(),
        }
    }

    /// The first rebalance, in the thread that creates the streams. Fails after `rebalance.max.retries`
    /// attempts that took at least as many times `rebalance.backoff.ms`; then the member has left the group.
    pub(crate) fn first(&mut self) -> Result<(), Error> {
        let started = Instant::now();
        self.trigger("streams were created");
        loop {
            let outcome = self.turn();
            if self.pending.is_none() {
                return Ok(());
            }
            if self.member.stop.is_stopped() {
                return Err(Error::Closed);
            }
            if let Some(error) = self.final_error(outcome, started) {
                self.leave();
                return Err(error);
            }
        }
    }

    /// Why the first rebalance has to be given up; `None` while it goes on.
    fn final_error(&self, outcome: Result<(), Error>, started: Instant) -> Option<Error> {
        let config = &self.member.config;
        let patience = config
            .rebalance_backoff()
            .saturating_mul(config.rebalance_max_retries());
        let attempts = self
            .pending
            .as_ref()
            .map_or(0, |pending| pending.failed_attempts);
        let is_patient = started.elapsed() < patience;
        match outcome {
            Err(error) if !error.is_retriable() => Some(error),
            Err(error) if !is_patient && attempts >= config.rebalance_max_retries() => {
                Some(Error::RebalanceFailed {
                    member: self.member.id.clone(),
                    attempts,
                    source: Box::new(error),
                })
            }
            Ok(()) if !is_patient && !self.member.zk.is_connected() => Some(Error::ZooKeeper {
                doing: String::from("the first rebalance"),
                source: "disconnected".into(),
            }),
            Ok(()) | Err(_) => None,
        }
    }

    /// Gives back what a later try needs.
    pub(crate) fn into_zk_events(self) -> Receiver<ZkEvent> {
        self.zk_events
    }

    /// The body of the `rebalance` thread: never gives up (D8, D9, D11).
    pub(crate) fn run(mut self) {
        while !self.member.stop.is_stopped() {
            // A failed attempt has been told, and the next one is due.
            let _ = self.turn();
        }
    }

    /// Leaves the group after a failed start, so that nobody counts on this member.
    fn leave(&mut self) {
        self.member.lose_partitions();
        let left = self
            .member
            .release_claimed()
            .and_then(|()| self.member.group.unregister(&self.member.id));
        if let Err(error) = left {
            log::warn!(
                "member {} could not leave: {}",
                self.member.id,
                error.chain()
            );
        }
        self.state.set(ConnectorState::Created);
    }

    /// Waits for the next thing to do, and does it. The error is that of a failed attempt.
    fn turn(&mut self) -> Result<(), Error> {
        self.wait();
        if self.member.stop.is_stopped() {
            return Ok(());
        }
        let now = Instant::now();
        if !self.member.zk.is_connected() {
            self.lose_partitions_after_lease(now);
            return Ok(());
        }
        if std::mem::take(&mut self.topics_changed) {
            self.look_at_topics();
        }
        if self
            .pending
            .as_ref()
            .is_some_and(|pending| pending.next_attempt <= now)
        {
            return self.attempt();
        }
        if self.pending.is_none() && self.next_check <= now {
            self.check();
        }
        Ok(())
    }

    /// Waits until an attempt or a check is due, the lease ends, or an event changes that.
    fn wait(&mut self) {
        let zk = &self.member.zk;
        let mut until = self.next_check;
        if let Some(pending) = &self.pending {
            until = pending.next_attempt;
        }
        if !zk.is_connected() {
            until = until
                .max(Instant::now() + SHORTEST_BACKOFF)
                .min(self.lease_end());
        }
        let timer = crossbeam_channel::at(until);
        let event = select! {
            recv(self.zk_events) -> event => event.map_err(|_| self.member.stop.pause_until(until)).ok(),
            recv(self.member.stop.receiver()) -> _ => None,
            recv(timer) -> _ => None,
        };
        event.into_iter().for_each(|event| self.note(event));
        while let Ok(event) = self.zk_events.try_recv() {
            self.note(event);
        }
    }

    /// When delivery has to stop, or, without anything to deliver, some time later.
    fn lease_end(&self) -> Instant {
        if self.member.ownership.current().partitions.is_empty() {
            return Instant::now() + self.member.zk.session_timeout();
        }
        self.member.zk.lease_ends()
    }

    fn note(&mut self, event: ZkEvent) {
        match event {
            ZkEvent::Session(event) => self.note_session(&event),
            ZkEvent::NodeCreated(path)
            | ZkEvent::NodeDeleted(path)
            | ZkEvent::DataChanged(path)
            | ZkEvent::ChildrenChanged(path) => self.note_node(&path),
        }
    }

    fn note_node(&mut self, path: &str) {
        let is_obstacle = |pending: &Pending| pending.obstacle.as_deref() == Some(path);
        if path == self.member.group.members_path() {
            self.trigger("members changed");
        } else if path == BrokerRegistry::PATH {
            // Asked for only while there was no broker (D14).
            self.trigger("brokers changed");
        } else if path == TopicRegistry::PATH {
            self.topics_changed = true;
        } else if let Some(topic) = TopicRegistry::topic_of(path) {
            let pause = match self.member.topic_count.regex() {
                Some(_) => self.topics_pause(),
                None => Duration::ZERO,
            };
            self.trigger_after(&format!("topic {topic} changed"), pause);
        } else if self.pending.as_ref().is_some_and(is_obstacle) {
            self.trigger("the owner of a partition changed");
        }
    }

    /// Tells each event when it is true: who reads it may look at the state next.
    fn note_session(&mut self, event: &SessionEvent) {
        match event {
            SessionEvent::Disconnected => {
                if !self.member.ownership.current().partitions.is_empty() {
                    self.state.set(ConnectorState::Disconnected);
                }
                self.stats.zookeeper_disconnects.increment();
                self.member.events.send(Event::ZooKeeperDisconnected);
            }
            SessionEvent::Reconnected => {
                self.member.events.send(Event::ZooKeeperReconnected);
                self.trigger("zookeeper is back");
            }
            SessionEvent::Expired => {
                // The nodes went with the session. `claimed` stays: an attempt that was under way may have
                // created some in the next session, which the next attempt will find and release (D18).
                self.lose_partitions(Event::SessionExpired);
            }
            SessionEvent::Established { session } => {
                let session = *session;
                self.member
                    .events
                    .send(Event::SessionEstablished { session });
                self.trigger("there is a new session");
            }
        }
    }

    fn lose_partitions_after_lease(&mut self, now: Instant) {
        let owns = !self.member.ownership.current().partitions.is_empty();
        if owns && self.member.zk.lease_ends() <= now {
            self.lose_partitions(Event::LeaseEnded);
            self.trigger("zookeeper was out of reach");
        }
    }

    fn lose_partitions(&mut self, why: Event) {
        // The lease that has ended and the session that is then found to be over are one loss.
        if !self.member.ownership.current().partitions.is_empty() {
            self.stats.sessions_lost.increment();
        }
        self.member.lose_partitions();
        self.state.set(ConnectorState::SessionLost);
        self.member.events.send(why);
    }

    /// Where other topics pass now, or that cannot be told, there is a rebalance. One that is under way looks itself.
    fn look_at_topics(&mut self) {
        if self.pending.is_none() && !matches!(self.member.is_concerned_by_topics(), Ok(false)) {
            self.trigger_after("topics came or went", self.topics_pause());
        }
    }

    /// The pause before a rebalance whose only reason are topics that come and go.
    fn topics_pause(&self) -> Duration {
        let rest = self.topics_rest_ends;
        rest.saturating_duration_since(Instant::now())
            .max(TOPICS_PAUSE)
    }

    /// Asks for a rebalance, or brings forward the next attempt of one that fails.
    fn trigger(&mut self, reason: &str) {
        self.trigger_after(reason, Duration::ZERO);
    }

    /// As [`trigger`](Self::trigger), for a rebalance that may begin after a pause.
    fn trigger_after(&mut self, reason: &str, pause: Duration) {
        let now = Instant::now();
        let backoff = self.member.config.rebalance_backoff();
        match &mut self.pending {
            Some(pending) => {
                let doubled = 2_u32.saturating_pow(pending.failed_attempts.saturating_sub(1));
                let pause = match pending.failed_attempts {
                    0 => pause,
                    _ => SHORTEST_BACKOFF.saturating_mul(doubled).min(backoff),
                };
                pending.next_attempt = pending.next_attempt.min(now + pause);
            }
            None => {
                let trigger = reason.to_owned();
                self.member.events.send(Event::RebalanceStarted { trigger });
                self.pending = Some(Pending {
                    since: now,
                    next_attempt: now + pause,
                    failed_attempts: 0,
                    obstacle: None,
                    last_failure: None,
                });
            }
        }
    }

    fn attempt(&mut self) -> Result<(), Error> {
        self.tell_rebalancing();
        let started = Instant::now();
        match self.member.rebalance() {
            Ok(outcome) => {
                let (times, longest) = TOPICS_REST;
                let rest = started.elapsed().saturating_mul(times).min(longest);
                self.topics_rest_ends = Instant::now() + rest;
                self.succeeded(outcome);
                Ok(())
            }
            Err(_) if self.member.stop.is_stopped() => Err(Error::Closed),
            Err(error) => {
                self.failed(&error);
                Err(error)
            }
        }
    }

    fn tell_rebalancing(&self) {
        let (failed_attempts, last_failure) = match &self.pending {
            Some(pending) => (pending.failed_attempts, pending.last_failure.clone()),
            None => (0, None),
        };
        self.state.set(ConnectorState::Rebalancing {
            failed_attempts,
            last_failure,
        });
    }

    fn succeeded(&mut self, outcome: Rebalanced) {
        let since = self.pending.take().map(|pending| pending.since);
        let owned = self.member.ownership.current();
        self.schedule_check();
        self.state.set(match outcome {
            Rebalanced::NoBrokers => ConnectorState::WaitingForBrokers,
            Rebalanced::Changed | Rebalanced::Unchanged => ConnectorState::Consuming {
                generation: owned.generation,
                partitions: owned.partitions.len(),
            },
        });
        match outcome {
            Rebalanced::NoBrokers => self.member.events.send(Event::NoBrokers),
            Rebalanced::Changed | Rebalanced::Unchanged => {
                self.stats.rebalances.increment();
                self.member.events.send(Event::RebalanceFinished {
                    generation: owned.generation,
                    owned: owned.partitions.keys().cloned().collect(),
                    took: since.map(|since| since.elapsed()).unwrap_or_default(),
                });
            }
        }
    }

    fn failed(&mut self, error: &Error) {
        self.stats.rebalance_failures.increment();
        let reason = error.chain();
        let obstacle = self.watch_obstacle(error);
        let config = &self.member.config;
        let Some(pending) = &mut self.pending else {
            return;
        };
        pending.failed_attempts = pending.failed_attempts.saturating_add(1);
        pending.last_failure = Some(reason.clone());
        let attempts = pending.failed_attempts;
        let pause = match (error, &obstacle) {
            // The present view is not the one that failed: no reason to wait.
            (Error::GroupChanged, _) | (_, Some(Obstacle::Gone)) => SHORTEST_BACKOFF,
            _ => config.rebalance_backoff(),
        };
        pending.next_attempt = Instant::now() + pause.min(config.rebalance_backoff());
        pending.obstacle = match obstacle {
            Some(Obstacle::At(path)) => Some(path),
            Some(Obstacle::Gone) | None => None,
        };
        self.tell_rebalancing();
        self.member.events.send(Event::RebalanceAttemptFailed {
            attempt: attempts,
            reason: reason.clone(),
        });
        if attempts == config.rebalance_max_retries() {
            self.member
                .events
                .send(Event::RebalanceFailed { attempts, reason });
        }
    }

    /// Has the next change of the owner node that stands in the way told, instead of only waiting.
    fn watch_obstacle(&self, error: &Error) -> Option<Obstacle> {
        let Error::OwnershipConflict { path, .. } = error else {
            return None;
        };
        match self.member.group.watch_owner(path) {
            Ok(true) => Some(Obstacle::At(path.clone())),
            Ok(false) => Some(Obstacle::Gone),
            Err(_) => None,
        }
    }

    fn schedule_check(&mut self) {
        self.next_check = Instant::now() + self.member.zk.session_timeout();
    }

    /// Looks whether the member's nodes are still there: somebody may have deleted them (3.8).
    fn check(&mut self) {
        self.schedule_check();
        match self.member.first_missing_node() {
            Ok(None) => {}
            Ok(Some(path)) => {
                self.stats.nodes_lost.increment();
                self.trigger(&format!("{path} is gone or taken"));
                self.member.events.send(Event::NodesLost { path });
            }
            Err(error) => log::debug!("nodes not checked: {}", error.chain()),
        }
    }
}

/// What an attempt ran into.
enum Obstacle {
    /// Somebody else's owner node.
    At(String),
    /// It has gone meanwhile.
    Gone,
}
