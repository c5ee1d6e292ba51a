//! Partitions that the application has chosen itself: consumed without the group.

use std::collections::BTreeSet;
use std::sync::Arc;

use crossbeam_channel::Receiver;
use crossbeam_channel::select;

use crate::cluster::TopicPartition;
use crate::config::ConsumerConfig;
use crate::consumer::bounds::Bounds;
use crate::consumer::connector_parts::ConnectorParts;
use crate::consumer::connector_state::ConnectorState;
use crate::consumer::connector_state::StateCell;
use crate::consumer::starting_positions::Share;
use crate::consumer::starting_positions::StartingPositions;
use crate::consumer::stream_queues::queues;
use crate::coordination::ConsumerThreadId;
use crate::coordination::TopicRegistry;
use crate::coordination::check_topic;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::fetch::ChunkQueue;
use crate::stats::Stats;
use crate::thread::ShutdownableThread;
use crate::thread::StopSignal;
use crate::zk::SessionEvent;
use crate::zk::ZkEvent;

/// There is one assignment, the first.
const GENERATION: u64 = 1;

/// A choice that makes sense by itself.
pub(crate) struct ChosenPartitions {
    /// Sorted.
    partitions: Vec<TopicPartition>,
    streams: usize,
}

/// What consumes the choice.
pub(crate) struct Chosen {
    pub(crate) session_events: ShutdownableThread,
    pub(crate) auto_commit: Option<ShutdownableThread>,
}

impl ChosenPartitions {
    pub(crate) fn new(
        partitions: impl IntoIterator<Item = TopicPartition>,
        streams: usize,
    ) -> Result<Self, Error> {
        let refused = |reason| Error::InvalidArgument {
            name: "partitions",
            reason,
        };
        let mut chosen = BTreeSet::new();
        for partition in partitions {
            check_topic(partition.topic())?;
            if partition.partition() < 0 {
                return Err(refused(format!("the number of {partition} is negative")));
            }
            if let Some(twice) = chosen.replace(partition) {
                return Err(refused(format!("{twice} is named twice")));
            }
        }
        if chosen.is_empty() {
            return Err(refused(String::from("none is named")));
        }
        if streams == 0 {
            return Err(refused(String::from("there is no stream for them")));
        }
        Ok(Self {
            partitions: chosen.into_iter().collect(),
            streams,
        })
    }

    /// One for each stream.
    pub(crate) fn queues(&self, config: &ConsumerConfig) -> Vec<Arc<ChunkQueue>> {
        queues(self.streams, config).collect()
    }

    /// Reads the stored offsets and begins to fetch into `queues`; with `bounds`, no further than to the ends.
    pub(crate) fn start(
        &self,
        parts: &ConnectorParts,
        queues: &[Arc<ChunkQueue>],
        bounds: Option<&Bounds>,
        zk_events: Receiver<ZkEvent>,
    ) -> Result<Chosen, Error> {
        let stop = parts.closing.signal();
        let zk = parts.zk.observing(&stop);
        self.check_existence(&TopicRegistry::new(Arc::clone(&zk)))?;
        let shares = self.shares(&parts.member_id, queues);
        let starting = StartingPositions {
            committer: &parts.committer,
            bounds,
            session: None,
            stop: &stop,
        };
        let owned = starting.read(shares, GENERATION)?;
        let auto_commit = parts.start_auto_commit()?;
        let consuming = ConnectorState::Consuming {
            generation: GENERATION,
            partitions: owned.partitions.len(),
        };
        let infos: Vec<_> = owned.infos().cloned().collect();
        parts.committer.publish(owned);
        if let Some(bounds) = bounds {
            bounds.note_generation(&parts.ownership.current(), |_| true);
        }
        // Before anybody looks at the session, whose state may be another one by then.
        parts.state.set(consuming.clone());
        let session = SessionEvents {
            zk_events,
            consuming,
            state: Arc::clone(&parts.state),
            stats: Arc::clone(&parts.stats),
            events: parts.sender.clone(),
        };
        let started = parts.fetchers.start(infos).and_then(|()| {
            ShutdownableThread::start("session-events", move |stop| session.run(&stop))
        });
        match started {
            Ok(session_events) => Ok(Chosen {
                session_events,
                auto_commit,
            }),
            Err(error) => {
                // What is taken over already must not be fetched by the next start.
                parts.fetchers.stop();
                parts.committer.withdraw();
                parts.state.set(ConnectorState::Created);
                Err(error)
            }
        }
    }

    /// A partition that nobody can fetch is a typing error more often than one that comes later.
    fn check_existence(&self, registry: &TopicRegistry) -> Result<(), Error> {
        let topics: BTreeSet<&str> = self.partitions.iter().map(|it| it.topic()).collect();
        let topics: Vec<String> = topics.into_iter().map(String::from).collect();
        let existing = registry.partitions(&topics)?;
        for partition in &self.partitions {
            let topic = partition.topic();
            let of_topic = existing.partitions.get(topic);
            if of_topic.is_some_and(|numbers| numbers.contains(&partition.partition())) {
                continue;
            }
            let unusable = existing.unusable.iter().find(|(name, _)| name == topic);
            let reason = match unusable {
                Some((_, reason)) => format!("the partitions of {topic} cannot be read: {reason}"),
                None => format!("{partition} does not exist"),
            };
            return Err(Error::InvalidArgument {
                name: "partitions",
                reason,
            });
        }
        Ok(())
    }

    /// Deals the partitions out to the streams in turn.
    fn shares(&self, member: &str, queues: &[Arc<ChunkQueue>]) -> Vec<Share> {
        let in_turn = queues.iter().enumerate().cycle();
        let partitions = self.partitions.iter().zip(in_turn);
        partitions
            .map(|(partition, (number, queue))| {
                let thread = ConsumerThreadId::new(member, number);
                (partition.clone(), thread, Arc::clone(queue))
            })
            .collect()
    }
}

/// Tells what becomes of the ZooKeeper session. Nothing depends on it: these partitions are owned by nobody.
struct SessionEvents {
    zk_events: Receiver<ZkEvent>,
    consuming: ConnectorState,
    state: Arc<StateCell>,
    stats: Arc<Stats>,
    events: EventSender,
}

impl SessionEvents {
    /// The body of the thread `session-events`.
    fn run(&self, stop: &StopSignal) {
        loop {
            let event = select! {
                recv(self.zk_events) -> event => event.ok(),
                recv(stop.receiver()) -> _ => None,
            };
            match event {
                Some(ZkEvent::Session(event)) => self.note(&event),
                Some(_) => {}
                None => return,
            }
        }
    }

    fn note(&self, event: &SessionEvent) {
        let event = match event {
            SessionEvent::Disconnected => {
                self.stats.zookeeper_disconnects.increment();
                self.state.set(ConnectorState::Disconnected);
                Event::ZooKeeperDisconnected
            }
            SessionEvent::Reconnected => {
                self.state.set(self.consuming.clone());
                Event::ZooKeeperReconnected
            }
            SessionEvent::Expired => Event::SessionExpired,
            SessionEvent::Established { session } => {
                self.state.set(self.consuming.clone());
                Event::SessionEstablished { session: *session }
            }
        };
        self.events.send(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(partitions: &[(&str, i32)], streams: usize) -> String {
        let partitions = partitions
            .iter()
            .map(|(topic, partition)| TopicPartition::new(*topic, *partition));
        match ChosenPartitions::new(partitions, streams) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("taken"),
        }
    }

    #[test]
    fn a_choice_that_makes_no_sense_is_refused_by_name() {
        for (partitions, streams, part) in [
            (&[][..], 1, "none is named"),
            (&[("orders", 0)], 0, "no stream"),
            (&[("orders", -1)], 1, "orders/-1"),
            (&[("or/ders", 0)], 1, "`or/ders`"),
            (
                &[("orders", 0), ("orders", 0)],
                1,
                "orders/0 is named twice",
            ),
        ] {
            let refusal = refusal(partitions, streams);
            assert!(refusal.contains(part), "{refusal}");
        }
    }

    #[test]
    fn partitions_are_dealt_out_in_turn_and_surplus_streams_get_none() {
        let partitions = (0..3).rev().map(|it| TopicPartition::new("orders", it));
        let chosen = ChosenPartitions::new(partitions, 2).unwrap();
        let queues = [ChunkQueue::new(1, 1), ChunkQueue::new(1, 1)];
        let shares = chosen.shares("m", &queues);
        let threads: Vec<String> = shares
            .iter()
            .map(|(partition, thread, _)| format!("{partition} {thread}"))
            .collect();
        assert_eq!(threads, ["orders/0 m-0", "orders/1 m-1", "orders/2 m-0"]);
        assert!(Arc::ptr_eq(&shares[2].2, &queues[0]));
    }
}
