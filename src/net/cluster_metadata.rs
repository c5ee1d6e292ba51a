//! The cached view of the cluster and its refreshing.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::select;
use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::config::BrokerAddressMap;
use crate::error::Error;
use crate::error::ErrorCode;
use crate::net::broker_directory::BrokerDirectory;
use crate::net::broker_directory::RegisteredBrokers;
use crate::net::canceller::Canceller;
use crate::net::cluster_view::ClusterView;
use crate::net::metadata_round::MetadataRound;
use crate::net::metadata_round::Question;
use crate::protocol::MetadataResponse;
use crate::thread::StopSignal;
use crate::thread::Stopper;

/// How [`ClusterMetadata`] asks.
#[derive(Clone, Debug)]
pub(crate) struct ClusterMetadataOptions {
    /// `client.id`.
    pub(crate) client_id: String,
    /// `socket.timeout.ms`: for connecting to one broker, and again for its answer.
    pub(crate) socket_timeout: Duration,
    /// `refresh.leader.backoff.ms`: the least time between the beginnings of two tries.
    pub(crate) backoff: Duration,
    /// `metadata.max.age.ms`: how old a view may be before [`ClusterMetadata::view_of`] asks again.
    pub(crate) max_age: Duration,
    /// `broker.address.map`.
    pub(crate) address_map: BrokerAddressMap,
}

/// Knows brokers, partitions and leaders, as immutable [`ClusterView`]s with rising version numbers.
///
/// A refresh runs in the thread that wants it; whoever wants one meanwhile waits for its result, so
/// there is at most one in flight.
pub(crate) struct ClusterMetadata {
    directory: Arc<dyn BrokerDirectory>,
    options: ClusterMetadataOptions,
    state: Mutex<State>,
}

struct State {
    view: Arc<ClusterView>,
    /// The topics of the last successful refresh, those that do not exist included.
    answered: BTreeSet<String>,
    /// The topics of which the next view keeps what it is not told anew; `None`: all.
    kept: Option<BTreeSet<String>>,
    /// Somebody knows that the view is out of date.
    is_stale: bool,
    last_try: Option<Instant>,
    last_success: Option<Instant>,
    /// Some thread is asking.
    in_flight: bool,
    /// Stopped, and replaced by a new one, at the end of every refresh.
    finished: Stopper,
    /// Of the next metadata request.
    correlation_id: i32,
}

/// Whether a code says that the brokers' state has changed since the metadata was asked for.
///
/// Codes that nobody knows count too: asking again is cheap, staying with the wrong broker is not.
pub(crate) fn means_stale(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::UnknownServerError
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::BrokerNotAvailable
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::NetworkException
            | ErrorCode::KafkaStorageError
            | ErrorCode::ListenerNotFound
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::Other(_)
    )
}

impl ClusterMetadata {
    pub(crate) fn new(
        directory: Arc<dyn BrokerDirectory>,
        options: ClusterMetadataOptions,
    ) -> Self {
        let state = State {
            view: Arc::default(),
            answered: BTreeSet::new(),
            kept: None,
            is_stale: false,
            last_try: None,
            last_success: None,
            in_flight: false,
            finished: Stopper::new(),
            correlation_id: 0,
        };
        Self {
            directory,
            options,
            state: Mutex::new(state),
        }
    }

    /// What is known now, however old.
    pub(crate) fn view(&self) -> Arc<ClusterView> {
        Arc::clone(&self.state.lock().view)
    }

    /// When a refresh last began.
    pub(crate) fn last_try(&self) -> Option<Instant> {
        self.state.lock().last_try
    }

    /// When a refresh last succeeded.
    pub(crate) fn last_success(&self) -> Option<Instant> {
        self.state.lock().last_success
    }

    /// Makes the next [`view_of`](Self::view_of) ask the brokers: after a lost connection, a timeout,
    /// or a code that [`means_stale`].
    pub(crate) fn request_refresh(&self) {
        self.state.lock().is_stale = true;
    }

    /// From the next refresh on views forget all topics but these and those that it asks about: topics come and go, and
    /// nobody asks about one that has gone.
    pub(crate) fn keep_only(&self, topics: BTreeSet<String>) {
        self.state.lock().kept = Some(topics);
    }

    /// What is known of `partitions`; asks about their topics only where a leader is not known, or the
    /// view is out of date or too old.
    ///
    /// # Errors
    ///
    /// As [`refresh`](Self::refresh).
    pub(crate) fn view_of(
        &self,
        partitions: &[TopicPartition],
        stop: &StopSignal,
    ) -> Result<Arc<ClusterView>, Error> {
        if let Some(view) = self.fresh_view_of(partitions) {
            return Ok(view);
        }
        let topics: BTreeSet<&str> = partitions.iter().map(TopicPartition::topic).collect();
        let topics: Vec<String> = topics.into_iter().map(str::to_owned).collect();
        self.refresh(&topics, stop)
    }

    /// Asks the brokers about `topics`, those of them that exist, and returns the view with their answer.
    ///
    /// Waits out the back-off since the last try before it asks. Each broker is tried once, in random
    /// order, over a connection of its own; the first answer that can be read is taken.
    ///
    /// # Errors
    ///
    /// [`Error::Metadata`] when no broker answered, [`Error::Closed`] when stopped or cancelled, and
    /// what the directory said if that failed.
    pub(crate) fn refresh(
        &self,
        topics: &[String],
        stop: &StopSignal,
    ) -> Result<Arc<ClusterView>, Error> {
        match self.take_turn(topics, stop)? {
            Turn::Own(flight) => self.ask(topics, flight, stop),
            Turn::Done(view) => Ok(view),
        }
    }

    /// Waits at most `timeout`, which may be endless, for a view newer than `version`. `None` when there is
    /// none by then or at the stop.
    pub(crate) fn await_update(
        &self,
        version: u64,
        timeout: Duration,
        stop: &StopSignal,
    ) -> Option<Arc<ClusterView>> {
        let deadline = Instant::now().checked_add(timeout);
        let timer = deadline.map_or_else(crossbeam_channel::never, crossbeam_channel::at);
        loop {
            let finished = {
                let state = self.state.lock();
                if state.view.version() > version {
                    return Some(Arc::clone(&state.view));
                }
                state.finished.signal()
            };
            let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
            if is_late || stop.is_stopped() {
                return None;
            }
            select! {
                recv(finished.receiver()) -> _ => {}
                recv(stop.receiver()) -> _ => {}
                recv(timer) -> _ => {}
            }
        }
    }

    fn fresh_view_of(&self, partitions: &[TopicPartition]) -> Option<Arc<ClusterView>> {
        let state = self.state.lock();
        let is_young = state
            .last_success
            .is_some_and(|then| then.elapsed() < self.options.max_age);
        let is_fresh = is_young && !state.is_stale && state.view.is_complete_for(partitions);
        is_fresh.then(|| Arc::clone(&state.view))
    }

    /// Waits until nobody else asks and the back-off is over, or somebody else has asked for all `topics`.
    fn take_turn(&self, topics: &[String], stop: &StopSignal) -> Result<Turn<'_>, Error> {
        let known = self.view().version();
        while !stop.is_stopped() {
            match self.next_step(topics, known, stop) {
                Step::Turn(turn) => return Ok(turn),
                Step::Pause(until) => {
                    stop.pause_until(until);
                }
                Step::Await(finished) => {
                    select! {
                        recv(finished.receiver()) -> _ => {}
                        recv(stop.receiver()) -> _ => {}
                    }
                }
            }
        }
        Err(Error::Closed)
    }

    fn next_step(&self, topics: &[String], known: u64, stop: &StopSignal) -> Step<'_> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let has_all = || topics.iter().all(|topic| state.answered.contains(topic));
        if state.view.version() > known && has_all() {
            return Step::Turn(Turn::Done(Arc::clone(&state.view)));
        }
        if state.in_flight {
            return Step::Await(state.finished.signal());
        }
        let due = state.last_try.map(|last| last + self.options.backoff);
        if let Some(due) = due.filter(|due| *due > now) {
            return Step::Pause(due);
        }
        state.in_flight = true;
        state.last_try = Some(now);
        // Who finds the view out of date from now on means the answer that we shall get, too.
        state.is_stale = false;
        Step::Turn(Turn::Own(Flight {
            metadata: self,
            canceller: Canceller::observing(stop),
            has_landed: false,
        }))
    }

    fn ask(
        &self,
        topics: &[String],
        flight: Flight<'_>,
        stop: &StopSignal,
    ) -> Result<Arc<ClusterView>, Error> {
        let is_deleting = self.directory.is_deleting(topics, stop)?;
        let existing = self.directory.existing_topics(topics, stop)?;
        let (registered, answer) = if existing.is_empty() {
            (RegisteredBrokers::default(), MetadataResponse::default())
        } else {
            let mut registered = self.directory.brokers(stop)?;
            let question = match is_deleting {
                true => Question::All(&existing),
                false => Question::Named(&existing),
            };
            let mut answer = self.ask_brokers(&registered, question, &flight.canceller)?;
            // All others, of all that there are or of a broker's own accord, would never be forgotten.
            let wanted: BTreeSet<&String> = existing.iter().collect();
            answer.topics.retain(|topic| wanted.contains(&topic.topic));
            if names_stranger(&answer, &registered) {
                // It has registered since, and its registration tells how it may be spoken to.
                registered = self.directory.brokers(stop)?;
            }
            (registered, answer)
        };
        let asked: BTreeSet<String> = topics.iter().cloned().collect();
        let view = {
            let mut state = self.state.lock();
            let kept = state.kept.as_ref();
            let is_kept = |topic: &str| kept.is_none_or(|kept| kept.contains(topic));
            let is_kept = |topic: &str| !asked.contains(topic) && is_kept(topic);
            let view = Arc::new(state.view.updated(answer, &registered, is_kept));
            state.view = Arc::clone(&view);
            state.answered = asked;
            state.last_success = Some(Instant::now());
            view
        };
        flight.land();
        Ok(view)
    }

    fn ask_brokers(
        &self,
        registered: &RegisteredBrokers,
        question: Question<'_>,
        canceller: &Canceller,
    ) -> Result<MetadataResponse, Error> {
        let correlation_id = self.state.lock().correlation_id;
        let mut round = MetadataRound::new(&self.options, canceller, correlation_id);
        let answer = round.run(registered, question);
        self.state.lock().correlation_id = round.correlation_id();
        answer
    }
}

/// Whether a leader of the answer was not registered when the registrations were read.
fn names_stranger(answer: &MetadataResponse, registered: &RegisteredBrokers) -> bool {
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    let mut leaders = partitions.filter_map(|partition| partition.leader);
    leaders.any(|leader| !registered.versions.contains_key(&leader))
}

/// What to do next on the way to a new view.
enum Step<'a> {
    Turn(Turn<'a>),
    Pause(Instant),
    Await(StopSignal),
}

/// Whose answer it will be.
enum Turn<'a> {
    /// The caller asks the brokers.
    Own(Flight<'a>),
    /// Another thread has asked for the same topics meanwhile.
    Done(Arc<ClusterView>),
}

/// The refresh in flight. However it ends, those who wait for it hear of it.
struct Flight<'a> {
    metadata: &'a ClusterMetadata,
    canceller: Canceller,
    has_landed: bool,
}

impl Flight<'_> {
    fn land(mut self) {
        self.has_landed = true;
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut state = self.metadata.state.lock();
        state.in_flight = false;
        state.is_stale |= !self.has_landed;
        mem::replace(&mut state.finished, Stopper::new()).stop();
    }
}

#[cfg(test)]
mod tests;
