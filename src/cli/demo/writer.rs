//! Writes numbered messages all the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::BrokerAddress;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::protocol::MessageSet;
use kafka_zk_consumer::protocol::MessageSetBuilder;
use kafka_zk_consumer::protocol::RequiredAcks;

use crate::cli::demo::ledger::Ledger;
use crate::cli::failure::Failure;
use crate::cli::producer::Producer;

/// Between two rounds.
const PAUSE: Duration = Duration::from_millis(20);

/// Messages for each partition and round.
const MESSAGES: usize = 8;

/// How long to insist, at the end, on what was not acknowledged yet.
const LAST_TRY: Duration = Duration::from_secs(5);

/// The thread that writes. What has not been acknowledged is sent again, before anything new for its partition.
#[derive(Debug)]
pub(super) struct Writer {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        topic: &str,
        brokers: Vec<BrokerAddress>,
        ledger: &Arc<Ledger>,
    ) -> Result<Self, Failure> {
        let mut producer = Producer::new(topic, brokers, RequiredAcks::All);
        producer
            .refresh()
            .map_err(|error| Failure::runtime("looking for leaders", &error))?;
        let mut rounds = Rounds {
            producer,
            pending: BTreeMap::new(),
            ledger: Arc::clone(ledger),
        };
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let thread = thread::Builder::new()
            .name(String::from("writer"))
            .spawn(move || rounds.write(&told))
            .map_err(|error| Failure::runtime("starting a thread", &error))?;
        Ok(Self {
            is_over,
            thread: Some(thread),
        })
    }

    /// Returns when the last message is acknowledged, or that does not happen.
    pub(super) fn finish(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the writer panicked");
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.finish();
    }
}

struct Rounds {
    producer: Producer,
    /// Numbers that are not acknowledged, by partition.
    pending: BTreeMap<i32, Vec<usize>>,
    ledger: Arc<Ledger>,
}

impl Rounds {
    fn write(&mut self, is_over: &AtomicBool) {
        while !is_over.load(Ordering::SeqCst) {
            let began = Instant::now();
            for partition in self.producer.partitions() {
                let pending = self.pending.entry(partition).or_default();
                if pending.is_empty() {
                    pending.extend(self.ledger.allot(MESSAGES));
                }
            }
            self.send();
            thread::sleep(PAUSE.saturating_sub(began.elapsed()));
        }
        let deadline = Instant::now() + LAST_TRY;
        while !self.pending.is_empty() && Instant::now() < deadline {
            self.send();
            if !self.pending.is_empty() {
                thread::sleep(PAUSE);
            }
        }
    }

    fn send(&mut self) {
        self.pending.retain(|_, numbers| !numbers.is_empty());
        let sets = self
            .pending
            .iter()
            .map(|(partition, numbers)| Ok((*partition, message_set(numbers)?)))
            .collect::<Result<_, Error>>();
        let refusals = match sets {
            Ok(sets) => self.producer.send(sets),
            Err(error) => return log::error!("making messages: {}", error.chain()),
        };
        let is_refused = |partition: &i32| refusals.iter().any(|it| it.partition == *partition);
        for (_, numbers) in self.pending.iter().filter(|(it, _)| !is_refused(it)) {
            self.ledger.written(numbers);
        }
        self.pending.retain(|partition, _| is_refused(partition));
        if let Some(refusal) = refusals.first() {
            log::info!("writing again: {}", refusal.reason);
            if let Err(error) = self.producer.refresh() {
                log::info!("looking for leaders: {}", error.chain());
            }
        }
    }
}

/// The value of a message is its number in digits.
fn message_set(numbers: &[usize]) -> Result<MessageSet, Error> {
    let mut builder = MessageSetBuilder::new();
    for (offset, number) in (0..).zip(numbers) {
        builder.message(offset, None, Some(number.to_string().as_bytes()))?;
    }
    builder.build()
}
