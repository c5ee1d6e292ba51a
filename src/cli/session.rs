//! One membership in a group, from the connection to ZooKeeper to the last commit.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use kafka_zk_consumer::BoundedStream;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::TopicFilter;
use kafka_zk_consumer::delete_group;

use crate::cli::ending::Ending;
use crate::cli::event_warnings::EventWarnings;
use crate::cli::failure::Failure;
use crate::cli::settings::Settings;

/// How long the watching thread waits for an event before it looks at the rest.
const SLICE: Duration = Duration::from_millis(50);

/// What to read, and with how many streams.
#[derive(Debug)]
pub(crate) enum Subscription {
    Topic(String, usize),
    Filter(TopicFilter, usize),
}

impl Subscription {
    /// Joins the group.
    pub(crate) fn join(&self, connector: &ConsumerConnector) -> Result<Vec<MessageStream>, Error> {
        match self {
            Self::Topic(topic, streams) => {
                let made = connector.create_message_streams([(topic.as_str(), *streams)])?;
                Ok(made.into_values().flatten().collect())
            }
            Self::Filter(filter, streams) => {
                connector.create_message_streams_by_filter(filter, *streams)
            }
        }
    }

    /// Joins the group to read up to where the logs end now.
    pub(crate) fn join_bounded(
        &self,
        connector: &ConsumerConnector,
    ) -> Result<Vec<BoundedStream>, Error> {
        match self {
            Self::Topic(topic, streams) => {
                let made = connector.create_bounded_streams([(topic.as_str(), *streams)])?;
                Ok(made.into_values().flatten().collect())
            }
            Self::Filter(filter, streams) => {
                connector.create_bounded_streams_by_filter(filter, *streams)
            }
        }
    }
}

/// A connector and how far its run has come.
struct Session<'a> {
    connector: ConsumerConnector,
    ending: &'a Ending,
    /// The group was joined: the streams' threads see by themselves that they have to end.
    joined: AtomicBool,
    closing: AtomicBool,
    closed: AtomicBool,
}

/// Joins the group, reads each stream in a thread of its own, leaves the group, and deletes a throw-away one.
/// `join` joins the group, by creating the streams.
pub(crate) fn run<S: Send>(
    settings: &Settings,
    join: impl FnOnce(&ConsumerConnector) -> Result<Vec<S>, Error>,
    ending: &Ending,
    read: impl Fn(usize, &mut S) + Sync,
) -> Result<(), Failure> {
    let connector = ConsumerConnector::connect(settings.config.clone())
        .map_err(|error| Failure::library("connecting", &error))?;
    ending.defer_signals();
    let session = Session {
        connector,
        ending,
        joined: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        closed: AtomicBool::new(false),
    };
    let uncommitted = thread::scope(|scope| {
        let watch = scope.spawn(|| session.watch());
        let streams = session.join_and_read(join, &read);
        session.closing.store(true, Ordering::SeqCst);
        session.connector.shutdown();
        drop(streams);
        session.closed.store(true, Ordering::SeqCst);
        watch.join().unwrap_or_default()
    });
    if settings.throw_away {
        delete(settings);
    } else if let Some(event) = uncommitted {
        ending.fail(Failure::Runtime(format!("at the end: {event}")));
    }
    ending.outcome()
}

impl Session<'_> {
    /// Returns the streams, for the member still has their partitions; none where it did not come so far.
    fn join_and_read<S: Send>(
        &self,
        join: impl FnOnce(&ConsumerConnector) -> Result<Vec<S>, Error>,
        read: &(impl Fn(usize, &mut S) + Sync),
    ) -> Vec<S> {
        let made = join(&self.connector);
        self.joined.store(true, Ordering::SeqCst);
        let mut streams = match made {
            Ok(streams) => streams,
            Err(error) => {
                // Else the watching thread has closed the connector.
                if !self.ending.is_due() {
                    let failure = Failure::library("joining the group", &error);
                    self.ending.fail(failure);
                }
                return Vec::new();
            }
        };
        thread::scope(|scope| {
            for (number, stream) in streams.iter_mut().enumerate() {
                let thread = thread::Builder::new().name(format!("stream-{number}"));
                if let Err(error) = thread.spawn_scoped(scope, move || read(number, stream)) {
                    let failure = Failure::runtime("starting a thread for a stream", &error);
                    return self.ending.fail(failure);
                }
            }
        });
        streams
    }

    /// Tells events until the connector is closed. Returns the failure of the last commit.
    fn watch(&self) -> Option<Event> {
        let events = self.connector.events();
        let mut warnings = EventWarnings::default();
        let mut uncommitted = None;
        loop {
            let closed = self.closed.load(Ordering::SeqCst);
            match events.next_timeout(SLICE) {
                Some(event) => {
                    warnings.tell(&event);
                    let last = self.closing.load(Ordering::SeqCst);
                    // Without ZooKeeper what was read last may not be committed, whether or not it was tried.
                    let failed = matches!(
                        event,
                        Event::CommitFailed { .. } | Event::ShutdownIncomplete { .. }
                    );
                    if last && failed {
                        uncommitted = Some(event);
                    }
                }
                None if closed => return uncommitted,
                None => {}
            }
            if self.ending.is_due() && !self.joined.load(Ordering::SeqCst) {
                // Ends the first rebalance, which may wait for others.
                self.connector.shutdown();
            }
        }
    }
}

fn delete(settings: &Settings) {
    let group = settings.config.group_id();
    match delete_group(&settings.config) {
        Ok(true) => log::info!("throw-away group {group} deleted"),
        Ok(false) => log::warn!("throw-away group {group} has other members and stays"),
        Err(error) => log::warn!("throw-away group {group} stays: {}", error.chain()),
    }
}
