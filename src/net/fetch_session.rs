//! What a broker remembers between the fetches of one fetcher.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::RangeInclusive;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::FetchMetadata;
use crate::protocol::FetchPartition;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponseHeader;
use crate::protocol::Request;

/// The first version of Fetch that knows sessions.
const FIRST_VERSION: i16 = 7;

/// The versions of Fetch in which a leader cannot but give its messages itself.
const FROM_LEADERS: RangeInclusive<i16> = 0..=10;

/// One incremental fetch session (KIP-227), as `FetchSessionHandler` of Kafka keeps it.
///
/// The fetcher says each time all that it wants; over the wire goes only what differs from what the broker remembers.
/// A partition that is not wanted for a while, because its stream has no room, is forgotten and added again later,
/// and the session goes on. Sessions need no end: the broker drops them when it needs their place.
///
/// Once it has met all partitions, it allocates nothing more.
#[derive(Debug)]
pub(crate) struct FetchSession {
    /// What the next request says of the session.
    next: FetchMetadata,
    /// What the broker remembers, if the session goes on.
    told: HashMap<TopicPartition, Told>,
    /// The incremental request, whose memory is used again.
    request: FetchRequest,
    /// Counts the requests, which tells wishes of this one from older ones.
    round: u64,
    /// The connection that the session began on.
    connection: u64,
    /// The versions to ask in.
    versions: RangeInclusive<i16>,
}

#[derive(Debug)]
struct Told {
    wish: FetchPartition,
    round: u64,
}

impl FetchSession {
    pub(crate) fn new() -> Self {
        Self {
            next: FetchMetadata::Full { closing: None },
            told: HashMap::new(),
            request: FetchRequest::default(),
            round: 0,
            connection: 0,
            versions: FetchRequest::VERSIONS,
        }
    }

    /// The versions of Fetch in which the broker may be asked.
    pub(super) fn versions(&self) -> RangeInclusive<i16> {
        self.versions.clone()
    }

    /// The leader has named a follower to be asked in its place and given nothing (KIP-392), as its operator may have it
    /// do from version 11 on. Here the leader is read, so it is asked in a version from before that.
    pub(super) fn keep_to_leaders(&mut self) {
        self.versions = FROM_LEADERS;
    }

    /// Begins anew on another connection: the broker may be another one, or have restarted.
    pub(super) fn go_on_over(&mut self, connection: u64) {
        if self.connection != connection {
            self.connection = connection;
            self.next = FetchMetadata::Full { closing: None };
        }
    }

    /// The fetcher has the partition anew, and knows nothing of what it was told before. An answer that only tells
    /// changes would leave it at that, so the session begins anew if it has told of the partition.
    pub(crate) fn welcome(&mut self, topic_partition: &TopicPartition) {
        if self.is_incremental() && self.told.contains_key(topic_partition) {
            self.next = FetchMetadata::Full {
                closing: self.next.session_id(),
            };
        }
    }

    /// Whether the next request names changes only, so that the answer does, too.
    pub(super) fn is_incremental(&self) -> bool {
        self.next.is_incremental()
    }

    /// What to send in `version` for all that is `wanted`; what that says of sessions is overwritten.
    pub(super) fn request<'a>(
        &'a mut self,
        version: i16,
        wanted: &'a mut FetchRequest,
    ) -> &'a FetchRequest {
        wanted.forgotten.clear();
        if version < FIRST_VERSION {
            self.next = FetchMetadata::Full { closing: None };
            wanted.metadata = FetchMetadata::default();
            return wanted;
        }
        self.round = self.round.wrapping_add(1);
        if !self.is_incremental() {
            self.told.clear();
        }
        let request = &mut self.request;
        request.partitions.clear();
        request.forgotten.clear();
        for wish in &wanted.partitions {
            if is_news(&mut self.told, wish, self.round) && self.next.is_incremental() {
                request.partitions.push(wish.clone());
            }
        }
        if !self.next.is_incremental() {
            wanted.metadata = self.next;
            return wanted;
        }
        let round = self.round;
        self.told.retain(|topic_partition, told| {
            let is_wanted = told.round == round;
            if !is_wanted {
                request.forgotten.push(topic_partition.clone());
            }
            is_wanted
        });
        request.replica = wanted.replica;
        request.max_wait = wanted.max_wait;
        request.min_bytes = wanted.min_bytes;
        request.max_bytes = wanted.max_bytes;
        request.isolation = wanted.isolation;
        request.rack.clone_from(&wanted.rack);
        request.metadata = self.next;
        request
    }

    /// Takes note of what the answer to the last [`request`](Self::request) says of the session.
    pub(super) fn answered(&mut self, answer: &FetchResponseHeader) {
        let sent = self.next;
        self.next = match (answer.error, answer.session_id) {
            (None, Some(session_id)) => following(sent, session_id),
            (Some(ErrorCode::InvalidFetchSessionEpoch), _) => FetchMetadata::Full {
                closing: sent.session_id(),
            },
            (_, _) => FetchMetadata::Full { closing: None },
        };
    }
}

/// Whether a code says that only the session is lost, so that a full request gets an answer.
pub(super) fn ends_session(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::FetchSessionIdNotFound | ErrorCode::InvalidFetchSessionEpoch
    )
}

/// Notes the wish. `true` when the broker does not know it yet.
fn is_news(told: &mut HashMap<TopicPartition, Told>, wish: &FetchPartition, round: u64) -> bool {
    match told.entry(wish.topic_partition.clone()) {
        Entry::Occupied(mut known) => {
            let known = known.get_mut();
            known.round = round;
            let is_news = known.wish != *wish;
            if is_news {
                known.wish = wish.clone();
            }
            is_news
        }
        Entry::Vacant(place) => {
            let wish = wish.clone();
            place.insert(Told { wish, round });
            true
        }
    }
}

fn following(sent: FetchMetadata, given: i32) -> FetchMetadata {
    match sent {
        FetchMetadata::Incremental { session_id, epoch } if session_id == given => {
            FetchMetadata::Incremental {
                session_id,
                epoch: epoch.checked_add(1).unwrap_or(1),
            }
        }
        // Another session than ours: nobody knows what it holds.
        FetchMetadata::Incremental { .. } => FetchMetadata::Full { closing: None },
        FetchMetadata::Full { .. } | FetchMetadata::Sessionless { .. } => {
            FetchMetadata::Incremental {
                session_id: given,
                epoch: 1,
            }
        }
    }
}

#[cfg(test)]
mod tests;
