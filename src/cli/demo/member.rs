//! One member of the group, with an application that only counts.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ConsumerConfig;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::Events;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::TopicPartition;

use crate::cli::demo::ledger::Ledger;
use crate::cli::demo::screen::Screen;
use crate::cli::demo::status::numbers;
use crate::cli::demo::verdict::Rebalance;
use crate::cli::failure::Failure;

const GROUP: &str = "demo";

/// Longest wait before a thread looks whether it has to end.
const SLICE: Duration = Duration::from_millis(50);

/// Most messages that are read before they are counted as consumed.
const BATCH: usize = 500;

/// A connector with one stream, the thread that reads it, and the thread that tells its events.
pub(super) struct Member {
    name: String,
    connector: ConsumerConnector,
    read: Arc<AtomicU64>,
    is_closed: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Member {
    /// Returns when the first rebalance is over.
    pub(super) fn join(
        number: usize,
        zookeeper: &str,
        topic: &str,
        (ledger, screen): (&Arc<Ledger>, &Arc<Screen>),
    ) -> Result<Self, Failure> {
        let name = format!("member-{number}");
        screen.tell(&format!("{name} joins the group"));
        let config = config(&name, zookeeper).map_err(|error| Failure::usage(&error))?;
        let connector = ConsumerConnector::connect(config)
            .map_err(|error| Failure::runtime("connecting", &error))?;
        let mut member = Self {
            name,
            connector,
            read: Arc::default(),
            is_closed: Arc::default(),
            threads: Vec::new(),
        };
        member.start_telling(ledger, screen)?;
        let streams = member.connector.create_message_streams([(topic, 1)]);
        let streams = streams.map_err(|error| Failure::runtime("joining the group", &error))?;
        for stream in streams.into_values().flatten() {
            member.start_reading(stream, ledger)?;
        }
        Ok(member)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn connector(&self) -> &ConsumerConnector {
        &self.connector
    }

    /// Messages so far.
    pub(super) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn start_telling(&mut self, ledger: &Arc<Ledger>, screen: &Arc<Screen>) -> Result<(), Failure> {
        let mut teller = Teller {
            member: self.name.clone(),
            trigger: String::new(),
            ledger: Arc::clone(ledger),
            screen: Arc::clone(screen),
        };
        let events = self.connector.events();
        let is_closed = Arc::clone(&self.is_closed);
        self.start("events", move || teller.tell_all(&events, &is_closed))
    }

    fn start_reading(
        &mut self,
        mut stream: MessageStream,
        ledger: &Arc<Ledger>,
    ) -> Result<(), Failure> {
        let ledger = Arc::clone(ledger);
        let read = Arc::clone(&self.read);
        self.start("stream", move || {
            while let Some(batch) = stream.next_batch(BATCH, SLICE) {
                // Neither a timeout nor a message that is no message: the ledger misses what does not come.
                let Ok(batch) = batch else { continue };
                for message in &batch {
                    let number = message.value().and_then(parse);
                    ledger.read(number, message.partition(), message.offset());
                }
                stream.mark_consumed();
                read.fetch_add(
                    u64::try_from(batch.len()).unwrap_or(u64::MAX),
                    Ordering::Relaxed,
                );
            }
        })
    }

    fn start(&mut self, what: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
        let thread = thread::Builder::new()
            .name(format!("{}-{what}", self.name))
            .spawn(body)
            .map_err(|error| Failure::runtime("starting a thread", &error))?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Member {
    /// Leaves the group, with a last commit.
    fn drop(&mut self) {
        self.connector.shutdown();
        self.is_closed.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a thread of {} panicked", self.name);
            }
        }
    }
}

/// Short times, so that something happens; all else as it is by default.
fn config(name: &str, zookeeper: &str) -> Result<ConsumerConfig, kafka_zk_consumer::Error> {
    ConsumerConfig::builder()
        .zookeeper_connect(zookeeper)
        .group_id(GROUP)
        .consumer_id(name)
        .client_id(name)
        .auto_offset_reset(AutoOffsetReset::Smallest)
        .auto_commit_interval(Duration::from_secs(1))
        .rebalance_backoff(Duration::from_millis(250))
        .build()
}

fn parse(value: &[u8]) -> Option<usize> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Puts the events of one member on the screen.
struct Teller {
    member: String,
    /// Of the rebalance that is going on.
    trigger: String,
    ledger: Arc<Ledger>,
    screen: Arc<Screen>,
}

impl Teller {
    fn tell_all(&mut self, events: &Events, is_closed: &AtomicBool) {
        loop {
            let is_last = is_closed.load(Ordering::SeqCst);
            match events.next_timeout(SLICE) {
                Some(event) => self.tell(event),
                None if is_last => return,
                None => {}
            }
        }
    }

    fn tell(&mut self, event: Event) {
        self.screen.tell(&format!("{}: {event}", self.member));
        match event {
            Event::RebalanceStarted { trigger } => self.trigger = trigger,
            Event::RebalanceFinished {
                generation,
                owned,
                took,
            } => {
                let owned: Vec<i32> = owned.iter().map(TopicPartition::partition).collect();
                let owns = format!("{}: owns {}", self.member, numbers(&owned));
                self.screen.tell(&owns);
                self.ledger.rebalanced(Rebalance {
                    member: self.member.clone(),
                    generation,
                    trigger: self.trigger.clone(),
                    partitions: owned.len(),
                    took,
                });
            }
            _ => {}
        }
    }
}
