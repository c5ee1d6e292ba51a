//! One member of the group, with an application that reads, stalls and ends as it is told.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Message;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::StreamError;
use parking_lot::Mutex;

use crate::random_run::CALL_LIMIT;
use crate::random_run::TOPIC;
use crate::random_run::record::Delivery;
use crate::random_run::record::Record;

/// What a member's threads are told.
#[derive(Default)]
struct Orders {
    /// The application is dead: it reads nothing any more.
    is_crashed: AtomicBool,
    is_leaving: AtomicBool,
    is_stalled: Vec<AtomicBool>,
}

pub(super) struct Member {
    /// As it stands in ZooKeeper.
    pub(super) id: String,
    pub(super) connector: ConsumerConnector,
    orders: Arc<Orders>,
    readers: Mutex<Vec<JoinHandle<()>>>,
    record: Arc<Record>,
}

impl Member {
    /// Joins the group; as long as that takes. Its application takes `pace` for each message.
    pub(super) fn join(
        config: ConsumerConfigBuilder,
        streams: usize,
        pace: Duration,
        record: &Arc<Record>,
    ) -> Result<Self, Error> {
        let connector = ConsumerConnector::connect(config.build()?)?;
        let id = connector.member_id().to_owned();
        let orders = Arc::new(Orders {
            is_stalled: (0..streams).map(|_| AtomicBool::new(false)).collect(),
            ..Orders::default()
        });
        let mut readers = vec![tell_events(&connector, &id, &orders, record)];
        let outcome = connector.create_message_streams([(TOPIC, streams)]);
        let mut streams = match outcome {
            Ok(streams) => streams,
            Err(error) => {
                orders.is_leaving.store(true, Ordering::Relaxed);
                connector.shutdown();
                return Err(error);
            }
        };
        for (index, stream) in streams.remove(TOPIC).unwrap().into_iter().enumerate() {
            let reader = Reader {
                member: id.clone(),
                index,
                pace,
                orders: Arc::clone(&orders),
                record: Arc::clone(record),
            };
            readers.push(std::thread::spawn(move || reader.run(stream)));
        }
        Ok(Self {
            id,
            connector,
            orders,
            readers: Mutex::new(readers),
            record: Arc::clone(record),
        })
    }

    /// How many streams it has.
    pub(super) fn streams(&self) -> usize {
        self.orders.is_stalled.len()
    }

    pub(super) fn stall(&self, stream: usize, is_stalled: bool) {
        self.orders.is_stalled[stream].store(is_stalled, Ordering::Relaxed);
    }

    pub(super) fn resume(&self) {
        for stream in 0..self.streams() {
            self.stall(stream, false);
        }
        for partition in self.connector.paused() {
            // In between a rebalance may have ended the pause.
            let _ = self.connector.resume(&[partition]);
        }
    }

    /// Its application is gone from now on.
    pub(super) fn crash(&self) {
        self.orders.is_crashed.store(true, Ordering::Relaxed);
    }

    /// Shuts down, and waits for the ends of the streams.
    pub(super) fn leave(&self) {
        self.resume();
        self.connector.shutdown();
        self.orders.is_leaving.store(true, Ordering::Relaxed);
        for reader in self.readers.lock().drain(..) {
            if reader.join().is_err() {
                self.record
                    .violation(format!("a thread of {} panicked", self.id));
            }
        }
    }
}

fn tell_events(
    connector: &ConsumerConnector,
    id: &str,
    orders: &Arc<Orders>,
    record: &Arc<Record>,
) -> JoinHandle<()> {
    let (events, id) = (connector.events(), id.to_owned());
    let (orders, record) = (Arc::clone(orders), Arc::clone(record));
    std::thread::spawn(move || {
        loop {
            let is_last = orders.is_leaving.load(Ordering::Relaxed);
            match events.next_timeout(Duration::from_millis(50)) {
                Some(event) => record.note(format!("{id}: {event}")),
                None if is_last => return,
                None => {}
            }
        }
    })
}

/// One thread of the application.
struct Reader {
    member: String,
    index: usize,
    pace: Duration,
    orders: Arc<Orders>,
    record: Arc<Record>,
}

impl Reader {
    fn run(&self, mut stream: MessageStream) {
        let wait = Duration::from_millis(50);
        while !self.orders.is_crashed.load(Ordering::Relaxed) {
            if self.orders.is_stalled[self.index].load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2));
                continue;
            }
            let asked = Instant::now();
            let next = match self.index % 2 {
                0 => stream
                    .next_timeout(wait)
                    .map(|next| next.map(|one| vec![one])),
                _ => stream.next_batch(20, wait),
            };
            let took = asked.elapsed();
            if took > wait + CALL_LIMIT {
                let what = format!("a stream of {} took {took:?} for {wait:?}", self.member);
                self.record.violation(what);
            }
            match next {
                Some(Ok(messages)) => self.keep(messages, asked),
                Some(Err(StreamError::Timeout)) => {}
                Some(Err(error)) => self.record.violation(format!("{}: {error}", self.member)),
                None => return,
            }
        }
    }

    fn keep(&self, messages: Vec<Message>, asked: Instant) {
        let given = Instant::now();
        let work = self.pace * u32::try_from(messages.len()).unwrap();
        let deliveries = messages.into_iter().map(|message| Delivery {
            member: self.member.clone(),
            partition: message.partition(),
            offset: message.offset(),
            value: String::from_utf8_lossy(message.value().unwrap_or_default()).into_owned(),
            asked,
            given,
        });
        self.record.delivered(deliveries.collect());
        std::thread::sleep(work);
    }
}
