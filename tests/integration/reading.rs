//! A consumer of an embedded cluster, and what it has been given so far.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ConsumerConfig;
use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Message;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::embedded::ClusterBuilder;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::embedded::EmbeddedZooKeeperOptions;

/// Longest that anything here may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A cluster whose ZooKeeper grants short sessions.
pub(crate) fn quick_cluster() -> ClusterBuilder {
    EmbeddedCluster::builder().zookeeper(EmbeddedZooKeeperOptions {
        tick: Duration::from_millis(500),
        ..EmbeddedZooKeeperOptions::default()
    })
}

/// A consumer that begins at the start of the log and is quick to try again.
pub(crate) fn config(cluster: &EmbeddedCluster, group: &str) -> ConsumerConfigBuilder {
    ConsumerConfig::builder()
        .zookeeper_connect(cluster.connect_string())
        .zookeeper_session_timeout(Duration::from_secs(4))
        .group_id(group)
        .auto_offset_reset(AutoOffsetReset::Smallest)
        .auto_commit_interval(Duration::from_millis(200))
        .rebalance_backoff(Duration::from_millis(200))
        .refresh_leader_backoff(Duration::from_millis(50))
        .fetch_wait_max(Duration::from_millis(50))
        .socket_timeout(Duration::from_secs(2))
}

pub(crate) fn connect(builder: ConsumerConfigBuilder) -> ConsumerConnector {
    ConsumerConnector::connect(builder.build().unwrap()).unwrap()
}

pub(crate) fn streams(
    connector: &ConsumerConnector,
    topic: &str,
    count: usize,
) -> Vec<MessageStream> {
    let mut streams = connector.create_message_streams([(topic, count)]).unwrap();
    streams.remove(topic).unwrap()
}

/// The next thing of a stream that is not silence.
pub(crate) fn next(stream: &mut MessageStream) -> Result<Message, StreamError> {
    match stream.next_timeout(LIMIT).expect("the stream goes on") {
        Err(StreamError::Timeout) => panic!("nothing came"),
        next => next,
    }
}

pub(crate) fn value(message: &Message) -> String {
    String::from_utf8(message.value().unwrap().to_vec()).unwrap()
}

pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Appends `<partition>/<number>` for each number, as often as it takes.
pub(crate) fn produce_numbers(
    cluster: &EmbeddedCluster,
    topic: &str,
    partitions: i32,
    numbers: std::ops::Range<i32>,
) {
    for number in numbers {
        for partition in 0..partitions {
            let value = numbered(partition, number);
            wait_until("a leader takes the message", || {
                cluster.produce(topic, partition, [&value]).is_ok()
            });
        }
    }
}

pub(crate) fn numbered(partition: i32, number: i32) -> String {
    format!("{partition}/{number}")
}

/// Streams that are read in threads of their own until the connector is shut down.
pub(crate) struct Reading {
    received: mpsc::Receiver<Result<Message, StreamError>>,
    /// Values by partition, in the order of their delivery.
    pub(crate) seen: BTreeMap<i32, Vec<String>>,
    pub(crate) errors: Vec<StreamError>,
}

impl Reading {
    pub(crate) fn start(streams: Vec<MessageStream>) -> Self {
        let (sender, received) = mpsc::channel();
        for mut stream in streams {
            let sender = sender.clone();
            std::thread::spawn(move || {
                while let Some(next) = stream.next_timeout(Duration::from_millis(100)) {
                    let is_silence = matches!(next, Err(StreamError::Timeout));
                    if !is_silence && sender.send(next).is_err() {
                        return;
                    }
                }
            });
        }
        Self {
            received,
            seen: BTreeMap::new(),
            errors: Vec::new(),
        }
    }

    /// Takes what comes until there is enough.
    pub(crate) fn until(&mut self, what: &str, is_enough: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !is_enough(self) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.received.recv_timeout(left) {
                Ok(next) => self.take(next),
                Err(error) => panic!("{what}: {error}, after {}", self.summary()),
            }
        }
    }

    /// Takes what comes until each partition has given all numbers below `end`.
    pub(crate) fn until_numbers(&mut self, partitions: i32, end: i32) {
        self.until("all messages arrive", |reading| {
            (0..partitions).all(|partition| {
                let seen = reading.seen.get(&partition);
                let distinct: BTreeSet<&String> = seen.into_iter().flatten().collect();
                distinct.len() >= usize::try_from(end).unwrap()
            })
        });
    }

    /// Each number came exactly once, and in order.
    pub(crate) fn assert_once_in_order(&self, partitions: i32, end: i32) {
        for partition in 0..partitions {
            let expected: Vec<String> = (0..end).map(|n| numbered(partition, n)).collect();
            let seen = self.seen.get(&partition);
            assert_eq!(seen, Some(&expected), "partition {partition}");
        }
        assert!(self.errors.is_empty(), "{:?}", self.errors);
    }

    /// Each number came at least once, and for the first time in order.
    pub(crate) fn assert_nothing_lost(&self, partitions: i32, end: i32) {
        for partition in 0..partitions {
            let mut known = BTreeSet::new();
            let seen = &self.seen[&partition];
            let first_times = seen.iter().filter(|value| known.insert(value.as_str()));
            let first_times: Vec<&String> = first_times.collect();
            let expected: Vec<String> = (0..end).map(|n| numbered(partition, n)).collect();
            assert_eq!(
                first_times,
                expected.iter().collect::<Vec<_>>(),
                "partition {partition}"
            );
        }
    }

    fn take(&mut self, next: Result<Message, StreamError>) {
        match next {
            Ok(message) => {
                let seen = self.seen.entry(message.partition()).or_default();
                seen.push(value(&message));
            }
            Err(error) => self.errors.push(error),
        }
    }

    fn summary(&self) -> String {
        let counts: Vec<String> = self
            .seen
            .iter()
            .map(|(partition, seen)| format!("{partition}: {}", seen.len()))
            .collect();
        format!("{} and errors {:?}", counts.join(", "), self.errors)
    }
}
