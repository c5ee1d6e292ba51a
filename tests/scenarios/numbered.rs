//! Numbered messages: what writes them, and what proves that they arrived.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::TopicPartition;

use crate::scenarios::member::config;
use crate::scenarios::member::numbered;
use crate::scenarios::member::value;
use crate::scenarios::member::wait_for_just_these;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

pub(crate) const TOPIC: &str = "orders";
pub(crate) const GROUP: &str = "g";
/// For whatever should be a matter of moments, on a machine that may be busy.
pub(crate) const SOON: Duration = Duration::from_secs(90);

/// A configuration with short times, for the member `<GROUP>_<id>`.
pub(crate) fn member_config(zookeeper: &str, id: &str, session: Duration) -> ConsumerConfigBuilder {
    group_config(zookeeper, session).consumer_id(id)
}

/// The same for a member that makes up its id.
pub(crate) fn group_config(zookeeper: &str, session: Duration) -> ConsumerConfigBuilder {
    config(zookeeper, GROUP)
        .zookeeper_session_timeout(session)
        .auto_commit_interval(Duration::from_millis(200))
}

/// Threads that append numbered messages to each partition, one at a time and each acknowledged by all replicas
/// in sync.
///
/// When a broker fails, the message is sent to the next one: a number may stand twice in a row in the log.
pub(crate) struct NumberedProducer {
    stop: Vec<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    /// Of each partition.
    sent: Vec<Arc<AtomicI64>>,
}

impl NumberedProducer {
    pub(crate) fn start(
        cluster: &impl Cluster,
        topic: &'static str,
        partitions: i32,
        pause: Duration,
    ) -> Self {
        Self::start_from(cluster, topic, partitions, 0, pause)
    }

    /// As [`start`](Self::start); in the values the partitions count from `first`, so that those of several topics
    /// can be told apart.
    pub(crate) fn start_from(
        cluster: &impl Cluster,
        topic: &'static str,
        partitions: i32,
        first: i32,
        pause: Duration,
    ) -> Self {
        let brokers: Vec<String> = cluster.addresses();
        let mut producer = Self {
            stop: Vec::new(),
            threads: Vec::new(),
            sent: Vec::new(),
        };
        for partition in 0..partitions {
            let (stop, stopped) = mpsc::channel();
            let sent = Arc::new(AtomicI64::new(0));
            producer.sent.push(Arc::clone(&sent));
            let mut leader = Leader::new(brokers.clone());
            let body = move || {
                while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    let value = value(first + partition, sent.load(Ordering::SeqCst));
                    leader.append(topic, partition, &value);
                    sent.fetch_add(1, Ordering::SeqCst);
                }
            };
            producer.stop.push(stop);
            producer.threads.push(thread::spawn(body));
        }
        producer
    }

    /// How many messages each partition has got at least.
    pub(crate) fn sent(&self) -> Vec<i64> {
        let sent = self.sent.iter();
        sent.map(|sent| sent.load(Ordering::SeqCst)).collect()
    }

    /// How many messages each partition has got in all.
    pub(crate) fn stop(mut self) -> Vec<i64> {
        self.stop.clear();
        for thread in self.threads.drain(..) {
            thread.join().expect("it ran without an error");
        }
        self.sent()
    }
}

/// Whoever leads a partition, found by trying.
struct Leader {
    brokers: Vec<String>,
    tried: usize,
    connection: Option<BrokerConnection>,
}

impl Leader {
    fn new(brokers: Vec<String>) -> Self {
        Self {
            brokers,
            tried: 0,
            connection: None,
        }
    }

    fn append(&mut self, topic: &str, partition: i32, value: &str) {
        wait_until(SOON, "a leader that takes a message", || {
            if self.connection.is_none() {
                self.tried += 1;
                let address = &self.brokers[self.tried % self.brokers.len()];
                self.connection = BrokerConnection::open(address).ok();
            }
            let appended = self.connection.as_mut().is_some_and(|connection| {
                let message = (None, value.as_bytes());
                connection.produce(topic, partition, &[message]).is_ok()
            });
            if !appended {
                self.connection = None;
            }
            appended
        });
    }
}

/// One message that one member got.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) member: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) number: i64,
    pub(crate) at: Instant,
}

/// What all members of a test got, in the order in which they got it.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<Delivery>>>);

impl Journal {
    pub(crate) fn note(&self, delivery: Delivery) {
        self.0.lock().unwrap().push(delivery);
    }

    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Deliveries of one partition after `since`.
    pub(crate) fn count_since(&self, partition: i32, since: Instant) -> usize {
        let deliveries = self.0.lock().unwrap();
        deliveries
            .iter()
            .filter(|delivery| delivery.partition == partition && delivery.at > since)
            .count()
    }

    /// Waits until every partition delivers again.
    #[track_caller]
    pub(crate) fn wait_for_flow(&self, partitions: i32) {
        let since = Instant::now();
        wait_until(SOON, "messages of every partition", || {
            (0..partitions).all(|partition| self.count_since(partition, since) >= 5)
        });
    }

    /// Waits until every number was seen: the last ones of each partition are the last to come.
    #[track_caller]
    pub(crate) fn wait_for_all(&self, written: &[i64]) {
        wait_until(SOON, "all numbers", || {
            let mut seen: BTreeMap<i32, i64> = BTreeMap::new();
            for delivery in self.0.lock().unwrap().iter() {
                let next = seen.entry(delivery.partition).or_default();
                *next = (*next).max(delivery.number + 1);
            }
            let next = |partition| seen.get(&partition).copied().unwrap_or_default();
            (0..).zip(written).all(|(p, written)| next(p) >= *written)
        });
    }

    /// Every message was delivered, and none before the one before it. Repeats may go back, never ahead.
    #[track_caller]
    pub(crate) fn assert_without_gap(&self, written: &[i64]) {
        let mut logs: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
        for delivery in self.deliveries() {
            let log = logs.entry(delivery.partition).or_default();
            let offset = usize::try_from(delivery.offset).unwrap();
            assert!(offset <= log.len(), "a gap before {delivery:?}");
            if offset == log.len() {
                log.push(delivery.number);
            } else {
                assert_eq!(log[offset], delivery.number, "{delivery:?}");
            }
        }
        for (partition, written) in (0..).zip(written) {
            let mut numbers = logs.remove(&partition).unwrap_or_default();
            // What the producer had to repeat stands twice in a row.
            numbers.dedup();
            let expected: Vec<i64> = (0..*written).collect();
            assert_eq!(numbers, expected, "partition {partition}");
        }
    }

    /// Each partition was delivered by the member with this consumer id, and by nobody else.
    #[track_caller]
    pub(crate) fn assert_delivered_by(&self, ids: &[&str]) {
        for delivery in self.deliveries() {
            let id = ids[usize::try_from(delivery.partition).unwrap()];
            assert_eq!(delivery.member, format!("{GROUP}_{id}"), "{delivery:?}");
        }
    }

    /// No message was delivered twice.
    #[track_caller]
    pub(crate) fn assert_without_repeats(&self) {
        let mut next: BTreeMap<i32, i64> = BTreeMap::new();
        for delivery in self.deliveries() {
            let next = next.entry(delivery.partition).or_default();
            assert_eq!(delivery.offset, *next, "a repeat: {delivery:?}");
            *next += 1;
        }
    }
}

/// A member in this process, whose streams are read into a journal.
pub(crate) struct Member {
    pub(crate) connector: Arc<ConsumerConnector>,
    events: Arc<Mutex<Vec<(Instant, Event)>>>,
    collector: (Sender<()>, JoinHandle<()>),
    readers: Vec<JoinHandle<()>>,
}

impl Member {
    /// Joins the group with one stream.
    #[track_caller]
    pub(crate) fn join(config: ConsumerConfigBuilder, journal: &Journal) -> Self {
        let config = config.build().unwrap();
        let connector = Arc::new(ConsumerConnector::connect(config).unwrap());
        let mut streams = connector.create_message_streams([(TOPIC, 1)]).unwrap();
        let streams = streams.remove(TOPIC).unwrap();
        Self::of(connector, streams, journal)
    }

    /// A member that has joined already.
    pub(crate) fn of(
        connector: Arc<ConsumerConnector>,
        streams: Vec<MessageStream>,
        journal: &Journal,
    ) -> Self {
        let readers = streams.into_iter().map(|stream| {
            let (journal, member) = (journal.clone(), connector.member_id().to_owned());
            thread::spawn(move || read(stream, &member, &journal))
        });
        let events = Arc::default();
        Self {
            readers: readers.collect(),
            collector: collect(&connector, &events),
            connector,
            events,
        }
    }

    pub(crate) fn events(&self) -> Vec<(Instant, Event)> {
        self.events.lock().unwrap().clone()
    }

    /// When the first such event after `since` was told.
    pub(crate) fn event(&self, since: Instant, wanted: impl Fn(&Event) -> bool) -> Option<Instant> {
        let events = self.events.lock().unwrap();
        let found = events
            .iter()
            .find(|(at, event)| *at > since && wanted(event));
        found.map(|(at, _)| *at)
    }

    #[track_caller]
    pub(crate) fn wait_for_event(
        &self,
        since: Instant,
        what: &str,
        wanted: impl Fn(&Event) -> bool,
    ) -> Instant {
        crate::support::wait_for(SOON, what, || self.event(since, &wanted))
    }

    /// Rebalances that have begun so far.
    pub(crate) fn rebalances(&self) -> usize {
        let events = self.events.lock().unwrap();
        events
            .iter()
            .filter(|(_, event)| matches!(event, Event::RebalanceStarted { .. }))
            .count()
    }

    /// The partitions that the member thinks it owns.
    pub(crate) fn partitions(&self) -> Vec<i32> {
        let owned = self.connector.owned_partitions();
        owned.iter().map(TopicPartition::partition).collect()
    }

    /// Leaves the group, and waits for the streams to end.
    pub(crate) fn leave(self) {
        self.connector.shutdown();
        for reader in self.readers {
            reader.join().unwrap();
        }
        drop(self.collector.0);
        self.collector.1.join().unwrap();
    }
}

fn read(stream: MessageStream, member: &str, journal: &Journal) {
    for message in stream {
        let message = message.unwrap();
        let value = std::str::from_utf8(message.value().unwrap()).unwrap();
        let (partition, number) = numbered(value);
        assert_eq!(message.partition(), partition);
        journal.note(Delivery {
            member: member.to_owned(),
            partition,
            offset: message.offset(),
            number,
            at: Instant::now(),
        });
    }
}

fn collect(
    connector: &ConsumerConnector,
    into: &Arc<Mutex<Vec<(Instant, Event)>>>,
) -> (Sender<()>, JoinHandle<()>) {
    let (events, into) = (connector.events(), Arc::clone(into));
    let started = Instant::now();
    let member = connector.member_id().to_owned();
    let (stop, stopped) = mpsc::channel::<()>();
    let body = move || {
        loop {
            let is_last = stopped.try_recv() == Err(mpsc::TryRecvError::Disconnected);
            while let Some(event) = events.next_timeout(Duration::from_millis(20)) {
                let at = Instant::now();
                println!("{:>7.3?} {member}: {event}", at - started);
                into.lock().unwrap().push((at, event));
            }
            if is_last {
                return;
            }
        }
    };
    (stop, thread::spawn(body))
}

/// Looks all the time whether two members think that they own the same partition.
pub(crate) struct OwnershipWatch {
    stop: Sender<()>,
    thread: JoinHandle<Option<String>>,
}

impl OwnershipWatch {
    pub(crate) fn start(members: [&Member; 2]) -> Self {
        let [left, right] = members.map(|member| Arc::clone(&member.connector));
        let (stop, stopped) = mpsc::channel();
        let body = move || {
            while stopped.recv_timeout(Duration::from_millis(2)) == Err(RecvTimeoutError::Timeout) {
                // Looked at one after the other: what one has before and after the other is looked at, it
                // has at the same time.
                let before = left.owned_partitions();
                let other = right.owned_partitions();
                let after = left.owned_partitions();
                let twice = |partition: &&TopicPartition| {
                    before.contains(partition) && after.contains(partition)
                };
                if let Some(partition) = other.iter().find(twice) {
                    return Some(format!("two members own {partition}"));
                }
            }
            None
        };
        Self {
            stop,
            thread: thread::spawn(body),
        }
    }

    #[track_caller]
    pub(crate) fn finish(self) {
        drop(self.stop);
        assert_eq!(self.thread.join().unwrap(), None);
    }
}

pub(crate) fn offset_path(partition: i32) -> String {
    format!("/consumers/{GROUP}/offsets/{TOPIC}/{partition}")
}

pub(crate) fn owner_path(partition: i32) -> String {
    format!("/consumers/{GROUP}/owners/{TOPIC}/{partition}")
}

pub(crate) fn id_path(id: &str) -> String {
    format!("/consumers/{GROUP}/ids/{GROUP}_{id}")
}

/// Waits until the owner nodes name exactly these consumer ids, of partition 0, 1, ...
#[track_caller]
pub(crate) fn wait_for_owners(shell: &ZooKeeperShell, ids: &[&str]) {
    let threads = ids.iter().map(|id| format!("{GROUP}_{id}-0"));
    wait_for_just_these(shell, GROUP, TOPIC, &(0..).zip(threads).collect());
}
