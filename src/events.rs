//! What happens in the background, told to the application instead of only to the log.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::TrySendError;
use crossbeam_channel::bounded;

use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::error::Few;

/// Events kept for an application that does not read them; beyond that the oldest is dropped.
const CAPACITY: usize = 1024;

/// One thing that happened in a background thread of a connector.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The connection to ZooKeeper broke; the session may still be alive.
    ZooKeeperDisconnected,
    /// The connection to ZooKeeper is back within the same session.
    ZooKeeperReconnected,
    /// The session ended; every partition of the group was given up without a commit. Those that were chosen without
    /// the group go on.
    SessionExpired,
    /// There is a new session.
    SessionEstablished {
        /// Its id.
        session: i64,
    },
    /// ZooKeeper was out of reach for a whole session timeout: delivery stopped, since others may own the partitions by
    /// now.
    LeaseEnded,
    /// The member's node stands in `/consumers/<group>/ids`.
    Registered {
        /// The member's id.
        member: String,
    },
    /// A rebalance begins.
    RebalanceStarted {
        /// What asked for it.
        trigger: String,
    },
    /// A rebalance succeeded.
    RebalanceFinished {
        /// Number of this assignment, from 1.
        generation: u64,
        /// The partitions owned from now on, sorted.
        owned: Vec<TopicPartition>,
        /// From the trigger to the start of the fetchers.
        took: Duration,
    },
    /// One attempt of a rebalance failed; it is tried again after `rebalance.backoff.ms`.
    RebalanceAttemptFailed {
        /// Number of the attempt, from 1.
        attempt: u32,
        /// Why.
        reason: String,
    },
    /// `rebalance.max.retries` attempts failed; the rebalance goes on all the same.
    RebalanceFailed {
        /// Attempts so far.
        attempts: u32,
        /// Why the last one failed.
        reason: String,
    },
    /// A stream of this member gets no partition of a topic: there are more threads than partitions.
    IdleThread {
        /// The thread's id.
        thread: String,
        /// The topic. Where the thread gets nothing at all of several topics, these, or the filter's expression.
        topic: String,
    },
    /// No topic passes the filter that this member subscribes by; consumed is what comes later and does.
    NoTopics {
        /// The filter's regular expression.
        regex: String,
    },
    /// No broker is registered in ZooKeeper; the rebalance waits for one.
    NoBrokers,
    /// A subscribed topic has no partitions, because it does not exist or its node cannot be read.
    NoPartitions {
        /// The topic.
        topic: String,
    },
    /// A znode of a broker, topic, member or offset cannot be used; it was left out.
    UnusableZnode {
        /// The node.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// The member's own id or owner nodes were gone or taken; a rebalance repairs it.
    NodesLost {
        /// The first such node.
        path: String,
    },
    /// Leaders were found: these partitions are fetched from this broker from now on.
    FetchingFrom {
        /// The leader.
        broker: Broker,
        /// The partitions.
        partitions: Vec<TopicPartition>,
    },
    /// Partitions were taken from their fetcher, to find their leader again. Of a leader that serves no version of a
    /// request that is known here it is told once, and [`FetchingFrom`](Self::FetchingFrom) tells the end.
    FetchFailed {
        /// The broker that was asked.
        address: BrokerAddress,
        /// The partitions.
        partitions: Vec<TopicPartition>,
        /// Why.
        reason: String,
    },
    /// Leaders could not be looked up; tried again after `refresh.leader.backoff.ms`.
    LeaderLookupFailed {
        /// Why.
        reason: String,
    },
    /// Partitions cannot be fetched because no leader of theirs is known. Told once; it is looked for every
    /// `refresh.leader.backoff.ms`, and [`FetchingFrom`](Self::FetchingFrom) tells the end.
    NoLeader {
        /// The partitions.
        partitions: Vec<TopicPartition>,
        /// What the brokers say instead.
        reason: String,
    },
    /// The position was outside the log; `auto.offset.reset` chose another one.
    OffsetReset {
        /// The partition.
        topic_partition: TopicPartition,
        /// The offset out of range.
        from: i64,
        /// Where fetching goes on.
        to: i64,
    },
    /// There is no usable offset, and `auto.offset.reset=none`: the partition waits for a seek.
    NoOffset {
        /// The partition.
        topic_partition: TopicPartition,
        /// The offset out of range; `None` where none is stored.
        offset: Option<i64>,
        /// First offset of the log and the one behind its last, where known.
        log: Option<Range<i64>>,
    },
    /// The application's rebalance listener returned an error or panicked; the rebalance goes on.
    ListenerFailed {
        /// The call, e.g. `on_revoke`.
        call: &'static str,
        /// What it said.
        reason: String,
    },
    /// The application dropped a stream and the member goes on: it keeps the stream's partitions, those too that later
    /// rebalances bring, and nobody reads them until it leaves.
    StreamDropped {
        /// The partitions that the stream has now.
        partitions: Vec<TopicPartition>,
    },
    /// A message was corrupt or larger than `fetch.message.max.bytes`; its partition waits for the
    /// application, or goes on behind it with `on.bad.message=skip`.
    BadMessage {
        /// The partition.
        topic_partition: TopicPartition,
        /// The message's offset.
        offset: i64,
        /// What is wrong with it.
        reason: String,
    },
    /// Offsets could not be committed by the timer, a rebalance or the shutdown.
    CommitFailed {
        /// The partitions concerned.
        partitions: Vec<TopicPartition>,
        /// Why the first of them failed.
        reason: String,
    },
    /// Somebody else, such as a tool, had stored an offset for a partition that this member owns; it was written over.
    OffsetOverwritten {
        /// The partition.
        topic_partition: TopicPartition,
        /// What was stored; `None` where the node was deleted or held no offset.
        found: Option<i64>,
        /// What is stored now.
        stored: i64,
    },
    /// A step of the shutdown failed; the others were done all the same.
    ShutdownIncomplete {
        /// The step and why.
        reason: String,
    },
}

impl Event {
    /// `error`: a message or a partition waits for somebody; `warn`: it is tried again, or left out;
    /// `info`: a session, a rebalance or a leader that changed.
    fn level(&self) -> log::Level {
        match self {
            Self::BadMessage { .. }
            | Self::NoOffset { .. }
            | Self::ListenerFailed { .. }
            | Self::RebalanceFailed { .. } => log::Level::Error,
            Self::ZooKeeperDisconnected
            | Self::SessionExpired
            | Self::LeaseEnded
            | Self::RebalanceAttemptFailed { .. }
            | Self::IdleThread { .. }
            | Self::NoTopics { .. }
            | Self::NoBrokers
            | Self::NoPartitions { .. }
            | Self::UnusableZnode { .. }
            | Self::NodesLost { .. }
            | Self::FetchFailed { .. }
            | Self::LeaderLookupFailed { .. }
            | Self::NoLeader { .. }
            | Self::OffsetReset { .. }
            | Self::StreamDropped { .. }
            | Self::CommitFailed { .. }
            | Self::OffsetOverwritten { .. }
            | Self::ShutdownIncomplete { .. } => log::Level::Warn,
            Self::ZooKeeperReconnected
            | Self::SessionEstablished { .. }
            | Self::Registered { .. }
            | Self::RebalanceStarted { .. }
            | Self::RebalanceFinished { .. }
            | Self::FetchingFrom { .. } => log::Level::Info,
        }
    }

    /// How far a rebalance is. No other event has anything to say here.
    fn fmt_rebalance(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RebalanceStarted { trigger } => write!(f, "rebalance started: {trigger}"),
            Self::RebalanceFinished {
                generation,
                owned,
                took,
            } => write!(
                f,
                "rebalance finished: generation {generation}, {} partitions, {} ms",
                owned.len(),
                took.as_millis()
            ),
            Self::RebalanceAttemptFailed { attempt, reason } => {
                write!(f, "rebalance attempt {attempt} failed: {reason}")
            }
            Self::RebalanceFailed { attempts, reason } => {
                write!(f, "rebalance failed {attempts} times and goes on: {reason}")
            }
            _ => Ok(()),
        }
    }

    /// What has become of the position in one partition. No other event has anything to say here.
    fn fmt_position(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OffsetReset {
                topic_partition,
                from,
                to,
            } => write!(f, "offset of {topic_partition} reset from {from} to {to}"),
            Self::NoOffset {
                topic_partition,
                offset,
                log,
            } => {
                let text = NoOffsetText(topic_partition, *offset, log.as_ref());
                write!(f, "{text}")
            }
            Self::BadMessage {
                topic_partition,
                offset,
                reason,
            } => write!(f, "bad message {topic_partition} at {offset}: {reason}"),
            Self::OffsetOverwritten {
                topic_partition,
                found,
                stored,
            } => {
                let found = found.map_or_else(|| String::from("none"), |it| it.to_string());
                write!(
                    f,
                    "offset {found} of somebody else for {topic_partition} overwritten by {stored}"
                )
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZooKeeperDisconnected => f.write_str("zookeeper disconnected"),
            Self::ZooKeeperReconnected => f.write_str("zookeeper reconnected"),
            Self::SessionExpired => f.write_str("zookeeper session expired"),
            Self::SessionEstablished { session } => {
                write!(f, "zookeeper session {session:#x} established")
            }
            Self::LeaseEnded => f.write_str("zookeeper out of reach for a session: delivery stops"),
            Self::Registered { member } => write!(f, "registered as {member}"),
            Self::RebalanceStarted { .. }
            | Self::RebalanceFinished { .. }
            | Self::RebalanceAttemptFailed { .. }
            | Self::RebalanceFailed { .. } => self.fmt_rebalance(f),
            Self::IdleThread { thread, topic } => {
                write!(f, "no partition of {} for thread {thread}", Shown(topic))
            }
            Self::NoTopics { regex } => {
                write!(f, "no topic passes the filter `{}`", Shown(regex))
            }
            Self::NoBrokers => f.write_str("no brokers in zookeeper"),
            Self::NoPartitions { topic } => write!(f, "topic {topic} has no partitions"),
            Self::UnusableZnode { path, reason } => write!(f, "unusable znode {path}: {reason}"),
            Self::NodesLost { path } => write!(f, "own node {path} is gone or taken"),
            Self::FetchingFrom { broker, partitions } => {
                write!(f, "broker {broker} leads {}", Few(partitions))
            }
            Self::FetchFailed {
                address,
                partitions,
                reason,
            } => write!(f, "{address} fails for {}: {reason}", Few(partitions)),
            Self::LeaderLookupFailed { reason } => write!(f, "leaders not found: {reason}"),
            Self::NoLeader { partitions, reason } => {
                write!(f, "no leader of {}: {reason}", Few(partitions))
            }
            Self::ListenerFailed { call, reason } => {
                write!(f, "rebalance listener failed in {call}: {reason}")
            }
            Self::StreamDropped { partitions } if partitions.is_empty() => {
                f.write_str("stream dropped: nobody reads what it may still get")
            }
            Self::StreamDropped { partitions } => {
                write!(f, "stream dropped: nobody reads {}", Few(partitions))
            }
            Self::CommitFailed { partitions, reason } => {
                write!(f, "commit of {} failed: {reason}", Few(partitions))
            }
            Self::OffsetReset { .. }
            | Self::NoOffset { .. }
            | Self::BadMessage { .. }
            | Self::OffsetOverwritten { .. } => self.fmt_position(f),
            Self::ShutdownIncomplete { reason } => write!(f, "shutdown incomplete: {reason}"),
        }
    }
}

/// What there is to say where `auto.offset.reset=none` chooses no offset: the offset out of range and the log.
pub(crate) struct NoOffsetText<'a>(
    pub(crate) &'a TopicPartition,
    pub(crate) Option<i64>,
    pub(crate) Option<&'a Range<i64>>,
);

impl fmt::Display for NoOffsetText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(topic_partition, offset, log) = self;
        match offset {
            Some(offset) => write!(f, "offset {offset} of {topic_partition} is outside the log")?,
            None => write!(f, "no offset of {topic_partition} is stored")?,
        }
        match log {
            Some(log) => write!(f, "; the log goes from {} to {}", log.start, log.end),
            None => Ok(()),
        }
    }
}

/// What is shown of a text, its first characters: a filter that lists thousands of topics makes no line of a log.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 200;
        match self.0.char_indices().nth(LONGEST) {
            Some((end, _)) => write!(f, "{}...", self.0.get(..end).unwrap_or_default()),
            None => f.write_str(self.0),
        }
    }
}

/// Where the threads of a connector tell their events. Never blocks.
#[derive(Clone, Debug)]
pub(crate) struct EventSender {
    sender: Sender<Event>,
    /// Takes the oldest event out when the channel is full.
    oldest: Receiver<Event>,
    dropped: Arc<AtomicU64>,
}

impl EventSender {
    pub(crate) fn send(&self, event: Event) {
        log::log!(event.level(), "{event}");
        let mut event = event;
        while let Err(TrySendError::Full(back)) = self.sender.try_send(event) {
            if self.oldest.try_recv().is_ok() {
                self.dropped.fetch_add(1, Ordering::Relaxed);
            }
            event = back;
        }
    }

    /// Events that nobody read before they were too many.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The events of a connector, oldest first. Clones share one queue: each event goes to one of them.
///
/// Up to 1,024 unread events are kept; then the oldest is dropped and counted in
/// [`StatsSnapshot::events_dropped`](crate::StatsSnapshot::events_dropped).
#[derive(Clone, Debug)]
pub struct Events {
    receiver: Receiver<Event>,
}

impl Events {
    /// The next event, waiting at most `timeout` for it.
    pub fn next_timeout(&self, timeout: Duration) -> Option<Event> {
        self.receiver.recv_timeout(timeout).ok()
    }

    /// The next event, if one is there.
    pub fn try_next(&self) -> Option<Event> {
        self.receiver.try_recv().ok()
    }
}

pub(crate) fn event_channel() -> (EventSender, Events) {
    let (sender, receiver) = bounded(CAPACITY);
    let events = Events {
        receiver: receiver.clone(),
    };
    let sender = EventSender {
        sender,
        oldest: receiver,
        dropped: Arc::default(),
    };
    (sender, events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_event_makes_room_for_the_newest() {
        let (sender, events) = event_channel();
        for session in 0..1030 {
            sender.send(Event::SessionEstablished { session });
        }
        assert_eq!(sender.dropped(), 6);
        assert_eq!(
            events.try_next(),
            Some(Event::SessionEstablished { session: 6 })
        );
        assert_eq!(std::iter::from_fn(|| events.try_next()).count(), 1023);
    }

    #[test]
    fn of_a_filter_that_lists_thousands_of_topics_the_beginning_is_told() {
        // Each idle stream told all of it, with each rebalance: a hundred kilobytes a line.
        let list = |count: usize| vec!["orders-of-somebody"; count].join("|");
        let text = |regex: String| Event::NoTopics { regex }.to_string();
        let told = text(list(5000));
        assert!(told.len() < 300 && told.ends_with("...`"), "{told}");
        assert_eq!(
            text(list(2)),
            format!("no topic passes the filter `{}`", list(2))
        );
    }
}
