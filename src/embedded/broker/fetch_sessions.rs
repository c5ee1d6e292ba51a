//! What readers ask for, remembered from one request to the next (KIP-227).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::FetchMetadata;
use crate::protocol::FetchPartition;
use crate::protocol::FetchRequest;
use crate::protocol::FetchedPartition;

/// `max.incremental.fetch.session.cache.slots`: who comes later has no session.
const MOST_SESSIONS: usize = 1000;

/// The sessions of one broker.
#[derive(Debug, Default)]
pub(super) struct FetchSessions {
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    /// The life of the broker; a new one knows nothing of those before.
    incarnation: u64,
    last_id: i32,
    open: BTreeMap<i32, Session>,
}

#[derive(Debug)]
struct Session {
    /// Of the next request.
    epoch: i32,
    /// In the order in which they are read.
    partitions: Vec<Remembered>,
}

#[derive(Debug)]
struct Remembered {
    wanted: FetchPartition,
    /// High watermark and start of the log as they were told last; `None` after a failure.
    told: Option<(Option<i64>, Option<i64>)>,
}

/// One request, with what its session adds.
#[derive(Debug)]
pub(super) struct Turn {
    /// `None` for a request without a session.
    pub(super) session_id: Option<i32>,
    /// All that is wanted, each partition once.
    pub(super) wanted: Vec<FetchPartition>,
    is_incremental: bool,
}

impl FetchSessions {
    /// What the request wants, of the broker in this life.
    pub(super) fn begin(
        &self,
        request: &FetchRequest,
        incarnation: u64,
    ) -> Result<Turn, ErrorCode> {
        let mut sessions = self.sessions.lock();
        if sessions.incarnation != incarnation {
            sessions.incarnation = incarnation;
            sessions.open.clear();
        }
        if !matches!(request.metadata, FetchMetadata::Incremental { .. }) {
            let closing = request.metadata.session_id();
            closing.and_then(|id| sessions.open.remove(&id));
        }
        let wanted = last_of_each(&request.partitions);
        match request.metadata {
            FetchMetadata::Sessionless { .. } => Ok(Turn::alone(wanted)),
            FetchMetadata::Full { .. } => match sessions.open(&wanted) {
                None => Ok(Turn::alone(wanted)),
                session_id => Ok(Turn {
                    session_id,
                    wanted,
                    is_incremental: false,
                }),
            },
            FetchMetadata::Incremental { session_id, epoch } => {
                let session = sessions.open.get_mut(&session_id);
                let session = session.ok_or(ErrorCode::FetchSessionIdNotFound)?;
                if session.epoch != epoch {
                    return Err(ErrorCode::InvalidFetchSessionEpoch);
                }
                session.go_on(wanted, request);
                Ok(Turn {
                    session_id: Some(session_id),
                    wanted: session.wanted(),
                    is_incremental: true,
                })
            }
        }
    }

    /// Leaves out of an answer what has not changed since the one before. Partitions that gave messages are read last
    /// the next time, so that a bound on the answer starves none.
    pub(super) fn end(&self, turn: &Turn, answered: &mut Vec<FetchedPartition>) {
        let mut sessions = self.sessions.lock();
        let session = turn.session_id.and_then(|id| sessions.open.get_mut(&id));
        let Some(session) = session else {
            return;
        };
        let mut has_given = BTreeSet::new();
        let places = session.places();
        answered.retain(|fetched| {
            let of = &fetched.topic_partition;
            let place = places.get(of).copied();
            let remembered = place.and_then(|place| session.partitions.get_mut(place));
            let is_news = remembered.is_none_or(|remembered| remembered.note(fetched));
            if !fetched.message_set.is_empty() {
                has_given.insert(of.clone());
            }
            is_news || !turn.is_incremental
        });
        let gave = |remembered: &Remembered| has_given.contains(&remembered.wanted.topic_partition);
        // The sort is stable.
        session.partitions.sort_by_key(gave);
    }
}

impl Sessions {
    fn open(&mut self, wanted: &[FetchPartition]) -> Option<i32> {
        if self.open.len() >= MOST_SESSIONS {
            return None;
        }
        let partitions = wanted.iter().cloned().map(Remembered::new).collect();
        self.last_id = self.last_id.checked_add(1).unwrap_or(1);
        let session = Session {
            epoch: 1,
            partitions,
        };
        self.open.insert(self.last_id, session);
        Some(self.last_id)
    }
}

impl Session {
    /// Takes up what the next request changes.
    fn go_on(&mut self, changed: Vec<FetchPartition>, request: &FetchRequest) {
        self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        let places = self.places();
        for wanted in changed {
            let place = places.get(&wanted.topic_partition).copied();
            match place.and_then(|place| self.partitions.get_mut(place)) {
                Some(remembered) => remembered.wanted = wanted,
                None => self.partitions.push(Remembered::new(wanted)),
            }
        }
        let forgotten: BTreeSet<&TopicPartition> = request.forgotten.iter().collect();
        let is_wanted = |of: &Remembered| !forgotten.contains(&of.wanted.topic_partition);
        self.partitions.retain(is_wanted);
    }

    /// Where each partition stands. Readers name as many as a request has room for, so nobody looks through all of
    /// them for each.
    fn places(&self) -> BTreeMap<TopicPartition, usize> {
        let partitions = self.partitions.iter().enumerate();
        let place = |(place, of): (usize, &Remembered)| (of.wanted.topic_partition.clone(), place);
        partitions.map(place).collect()
    }

    fn wanted(&self) -> Vec<FetchPartition> {
        let partitions = self.partitions.iter();
        partitions
            .map(|remembered| remembered.wanted.clone())
            .collect()
    }
}

impl Remembered {
    fn new(wanted: FetchPartition) -> Self {
        Self { wanted, told: None }
    }

    /// Whether the reader does not know that yet.
    fn note(&mut self, fetched: &FetchedPartition) -> bool {
        let header = &fetched.header;
        let now = match header.error {
            None => Some((header.high_watermark, header.log_start_offset)),
            Some(_) => None,
        };
        let before = std::mem::replace(&mut self.told, now);
        now.is_none() || before != now || !fetched.message_set.is_empty()
    }
}

impl Turn {
    fn alone(wanted: Vec<FetchPartition>) -> Self {
        Self {
            session_id: None,
            wanted,
            is_incremental: false,
        }
    }
}

/// As in Kafka 0.8.2.2: a partition that is asked for twice is answered once, by the last request.
fn last_of_each(wanted: &[FetchPartition]) -> Vec<FetchPartition> {
    let mut later = BTreeSet::new();
    let from_the_end = wanted.iter().rev();
    let lasting = from_the_end.filter(|wanted| later.insert(&wanted.topic_partition));
    let mut lasting: Vec<FetchPartition> = lasting.cloned().collect();
    lasting.reverse();
    lasting
}
