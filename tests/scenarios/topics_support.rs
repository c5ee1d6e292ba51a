//! What the scenarios about topics, offsets and bad input share: a member with short waits, and threads
//! that keep what its streams hand out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::Events;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicPartition;

use crate::support::Cluster;
use crate::support::wait_until;

/// Longest wait for something that should happen soon, on a machine with a lot to do.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// How long a shutdown may take.
pub(crate) const SHUTDOWN_LIMIT: Duration = Duration::from_secs(5);

/// As that of all members, and gives brokers up soon.
pub(crate) fn config(zookeeper: &str, group: &str) -> ConsumerConfigBuilder {
    crate::scenarios::member::config(zookeeper, group).socket_timeout(Duration::from_secs(5))
}

/// A connector of this configuration.
pub(crate) fn connect(config: ConsumerConfigBuilder) -> ConsumerConnector {
    ConsumerConnector::connect(config.build().unwrap()).unwrap()
}

/// A connector with one stream for each topic, all of them read by threads.
pub(crate) fn join(config: ConsumerConfigBuilder, topics: &[&str]) -> (ConsumerConnector, Reader) {
    let connector = connect(config);
    let streams = connector
        .create_message_streams(topics.iter().map(|topic| (*topic, 1)))
        .unwrap();
    (connector, Reader::start(streams.into_values().flatten()))
}

/// The only stream of a connector that reads one topic with one stream.
pub(crate) fn only_stream(connector: &ConsumerConnector, topic: &str) -> MessageStream {
    let mut streams = connector.create_message_streams([(topic, 1)]).unwrap();
    streams.remove(topic).unwrap().remove(0)
}

/// Appends the numbers of the range, in ASCII.
pub(crate) fn produce_numbers(
    cluster: &impl Cluster,
    topic: &str,
    partition: i32,
    numbers: std::ops::Range<i64>,
) {
    let texts: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let values: Vec<&str> = texts.iter().map(String::as_str).collect();
    cluster.produce(topic, partition, &values);
}

/// The time that a call takes.
pub(crate) fn timed<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let outcome = call();
    (outcome, start.elapsed())
}

/// Shuts down within the limit.
#[track_caller]
pub(crate) fn shut_down(connector: &ConsumerConnector) {
    let ((), took) = timed(|| connector.shutdown());
    println!("shut down in {took:?}");
    assert!(took < SHUTDOWN_LIMIT, "the shutdown took {took:?}");
}

/// Reads events until one fits.
#[track_caller]
pub(crate) fn wait_for_event<T>(
    events: &Events,
    what: &str,
    mut fits: impl FnMut(&Event) -> Option<T>,
) -> T {
    let deadline = Instant::now() + LIMIT;
    let mut others = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(event) = events.next_timeout(left) else {
            panic!("waited in vain for {what}; came: {others:#?}");
        };
        if let Some(found) = fits(&event) {
            return found;
        }
        others.push(event.to_string());
    }
}

/// Threads that read streams and keep what comes, in order.
pub(crate) struct Reader {
    seen: Arc<Mutex<Seen>>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Seen {
    /// Offset and first word of the value, so that large values can be told apart without being kept.
    messages: BTreeMap<TopicPartition, Vec<(i64, String)>>,
    errors: Vec<StreamError>,
}

impl Reader {
    pub(crate) fn start(streams: impl IntoIterator<Item = MessageStream>) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let threads = streams
            .into_iter()
            .map(|stream| {
                let seen = Arc::clone(&seen);
                thread::spawn(move || keep(stream, &seen))
            })
            .collect();
        Self { seen, threads }
    }

    /// Values of a partition so far, in the order in which they came.
    pub(crate) fn values(&self, topic: &str, partition: i32) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let messages = seen.messages.get(&TopicPartition::new(topic, partition));
        messages
            .into_iter()
            .flatten()
            .map(|(_, value)| value.clone())
            .collect()
    }

    /// Offsets of a partition so far, in the order in which they came.
    pub(crate) fn offsets(&self, topic: &str, partition: i32) -> Vec<i64> {
        let seen = self.seen.lock().unwrap();
        let messages = seen.messages.get(&TopicPartition::new(topic, partition));
        messages
            .into_iter()
            .flatten()
            .map(|(offset, _)| *offset)
            .collect()
    }

    /// Values of all partitions so far, those of each in the order in which they came.
    pub(crate) fn all_values(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let messages = seen.messages.values().flatten();
        messages.map(|(_, value)| value.clone()).collect()
    }

    pub(crate) fn errors(&self) -> Vec<StreamError> {
        self.seen.lock().unwrap().errors.clone()
    }

    /// Waits until a partition has given exactly these numbers, in this order, each once.
    #[track_caller]
    pub(crate) fn wait_for_numbers(
        &self,
        topic: &str,
        partition: i32,
        numbers: std::ops::Range<i64>,
    ) {
        let expected: Vec<String> = numbers.map(|number| number.to_string()).collect();
        wait_until(
            LIMIT,
            &format!("{expected:?} of {topic}/{partition}"),
            || {
                let values = self.values(topic, partition);
                assert!(
                    expected.starts_with(&values),
                    "{topic}/{partition} gave {values:?} instead of {expected:?}"
                );
                values.len() == expected.len()
            },
        );
    }

    /// Whether every stream has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// After the shutdown: waits for the threads, and returns all values.
    pub(crate) fn finish(mut self) -> Vec<String> {
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
        self.all_values()
    }
}

fn keep(stream: MessageStream, seen: &Mutex<Seen>) {
    for message in stream {
        let mut seen = seen.lock().unwrap();
        match message {
            Ok(message) => {
                let value = message.value().unwrap_or_default();
                let word = value.split(|byte| *byte == b' ').next().unwrap_or_default();
                let word = String::from_utf8_lossy(word).into_owned();
                seen.messages
                    .entry(message.topic_partition().clone())
                    .or_default()
                    .push((message.offset(), word));
            }
            Err(StreamError::Timeout) => {}
            Err(error) => seen.errors.push(error),
        }
    }
}
