//! The members of a group, what they own and how far they have come: `/consumers/<group>`.

mod offsets;
mod ownership;
mod paths;

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::cluster::TopicPartition;
use crate::coordination::consumer_id::utf16_order;
use crate::coordination::group_registry::paths::GroupPaths;
use crate::coordination::topic_count::TopicCount;
use crate::error::Error;
use crate::thread::StopSignal;
use crate::zk::CreateMode;
use crate::zk::CreateOutcome;
use crate::zk::ZkClient;
use crate::zk::ZkError;
use crate::zk::Znode;

pub(crate) use offsets::OwnedOffset;
pub(crate) use offsets::SeenNode;
pub(crate) use ownership::Claim;
#[cfg(all(test, any(feature = "embedded", feature = "real-brokers")))]
pub(crate) use ownership::Owner;

/// How long to wait before looking again whether a member id has become free.
const REGISTRATION_STEP: Duration = Duration::from_millis(100);

/// Everything that one group keeps in ZooKeeper.
///
/// A node counts as ours only if the session that made it is the present one: what an expired
/// session left says the same, but will disappear (D16).
pub(crate) struct GroupRegistry {
    zk: Arc<ZkClient>,
    paths: GroupPaths,
}

/// A registered member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// The member's id.
    pub(crate) id: String,
    /// What it asks for; nothing, if its registration cannot be used.
    pub(crate) topic_count: TopicCount,
    /// Why it counts as asking for nothing although it may ask for something; worth a warning.
    pub(crate) trouble: Option<String>,
}

impl GroupRegistry {
    pub(crate) fn new(zk: Arc<ZkClient>, group: &str) -> Self {
        Self {
            zk,
            paths: GroupPaths::new(group),
        }
    }

    /// The same group, for writes of this ZooKeeper session or none.
    pub(crate) fn in_session(&self, session: i64) -> Self {
        Self {
            zk: self.zk.in_session(session),
            paths: self.paths.clone(),
        }
    }

    /// The node whose children are the ids of the members, to tell what an event is about.
    pub(crate) fn members_path(&self) -> String {
        self.paths.members()
    }

    /// The node of a partition's owner.
    pub(crate) fn owner_path(&self, partition: &TopicPartition) -> String {
        self.paths.owner(partition)
    }

    /// The node of a partition's offset.
    pub(crate) fn offset_path(&self, partition: &TopicPartition) -> String {
        self.paths.offset(partition)
    }

    /// An event tells when the owner node at `path` changes next or goes away. `false` when there is none now.
    pub(crate) fn watch_owner(&self, path: &str) -> Result<bool, Error> {
        Ok(self.zk.watch_data(path)?.is_some())
    }

    /// Registers this member. Waits while the id is held by another session, which may be our own
    /// dead one, for twice the session timeout at most.
    ///
    /// # Errors
    ///
    /// [`Error::MemberIdTaken`] when the other session lives on; [`Error::Closed`] at the stop.
    pub(crate) fn register(
        &self,
        member: &str,
        registration: &str,
        stop: &StopSignal,
    ) -> Result<(), Error> {
        let path = self.paths.member(member);
        let mut give_up = None;
        loop {
            match self.try_register(&path, registration.as_bytes())? {
                Attempt::Registered => return Ok(()),
                Attempt::Vanished => {}
                Attempt::HeldBy(session) => {
                    let wait = self.zk.session_timeout().saturating_mul(2);
                    let end = *give_up.get_or_insert_with(|| {
                        log::info!("{path} is held by session {session:#x}, waiting for it to end");
                        Instant::now() + wait
                    });
                    if Instant::now() >= end {
                        return Err(Error::MemberIdTaken { path, session });
                    }
                    stop.pause(REGISTRATION_STEP);
                }
            }
            if stop.is_stopped() {
                return Err(Error::Closed);
            }
        }
    }

    /// Removes this member, if it is ours.
    pub(crate) fn unregister(&self, member: &str) -> Result<(), Error> {
        let path = self.paths.member(member);
        match self.zk.get(&path)? {
            Some(node) if self.is_ours(&node) => match self.zk.delete(&path, Some(node.version)) {
                Ok(_) | Err(ZkError::BadVersion { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            },
            _ => Ok(()),
        }
    }

    /// Whether the present session has registered the member, for just what `topic_count` asks for.
    pub(crate) fn is_registered(
        &self,
        member: &str,
        topic_count: &TopicCount,
    ) -> Result<bool, Error> {
        let node = self.zk.get(&self.paths.member(member))?;
        Ok(node.is_some_and(|node| {
            self.is_ours(&node) && TopicCount::parse(&node.data).as_ref() == Ok(topic_count)
        }))
    }

    /// The ids of all members, in order.
    pub(crate) fn member_ids(&self) -> Result<Vec<String>, Error> {
        Ok(sorted(self.zk.children(&self.paths.members())?))
    }

    /// As [`member_ids`](Self::member_ids), and an event tells when a member comes or goes next.
    pub(crate) fn watch_members(&self) -> Result<Vec<String>, Error> {
        Ok(sorted(self.zk.watch_children(&self.paths.members())?))
    }

    /// All members with what they ask for, in order, in two round trips.
    pub(crate) fn members(&self) -> Result<Vec<Member>, Error> {
        let ids = self.member_ids()?;
        let paths: Vec<String> = ids.iter().map(|id| self.paths.member(id)).collect();
        let mut members = Vec::with_capacity(ids.len());
        for (id, node) in ids.into_iter().zip(self.zk.get_all(&paths)) {
            if let Some(node) = node? {
                members.push(Member::new(id, TopicCount::parse(&node.data)));
            }
        }
        Ok(members)
    }

    /// Deletes everything of the group, for groups that nobody will use again.
    pub(crate) fn delete_group(&self) -> Result<(), Error> {
        Ok(self.zk.delete_recursively(self.paths.group())?)
    }

    fn try_register(&self, path: &str, registration: &[u8]) -> Result<Attempt, Error> {
        let mode = CreateMode::Ephemeral;
        if self.zk.create_with_parents(path, registration, mode)? == CreateOutcome::Created {
            return Ok(Attempt::Registered);
        }
        match self.zk.get(path)? {
            None => Ok(Attempt::Vanished),
            Some(node) if !self.is_ours(&node) => {
                Ok(Attempt::HeldBy(node.ephemeral_owner.unwrap_or_default()))
            }
            Some(node) if node.data == registration => Ok(Attempt::Registered),
            Some(node) => match self.zk.set(path, registration, Some(node.version)) {
                Ok(_) => Ok(Attempt::Registered),
                Err(ZkError::NoNode { .. } | ZkError::BadVersion { .. }) => Ok(Attempt::Vanished),
                Err(error) => Err(error.into()),
            },
        }
    }

    fn is_ours(&self, node: &Znode) -> bool {
        node.ephemeral_owner.is_some() && node.ephemeral_owner == self.zk.session_id()
    }

    /// Creates `nodes` in one round trip, or in three where parents are missing.
    fn create_all(&self, nodes: &[(String, Vec<u8>)], mode: CreateMode) -> Vec<Created> {
        let mut outcomes = self.zk.create_all(nodes, mode);
        redo(nodes, &mut outcomes, lacks_parent, |orphans| {
            let parents: Vec<(String, Vec<u8>)> =
                paths::parents(orphans.iter().map(|(path, _)| path.as_str()))
                    .into_iter()
                    .map(|path| (path, Vec::new()))
                    .collect();
            // What goes wrong here shows in the second attempt.
            self.zk.create_all(&parents, CreateMode::Persistent);
            self.zk.create_all(orphans, mode)
        });
        outcomes
    }
}

type Created = Result<CreateOutcome, ZkError>;

/// What became of one attempt to register.
enum Attempt {
    Registered,
    /// The node was there and is not any more, or not as it was.
    Vanished,
    /// Of another session; 0 is none, that is, a node that somebody made by hand.
    HeldBy(i64),
}

impl Member {
    /// The same member, asking for topics by name: its filter is evaluated for `topics`, without the internal ones
    /// if `exclude_internal`. `is_over` is as in [`TopicCount::narrowed`].
    pub(crate) fn narrowed(
        self,
        topics: &[String],
        exclude_internal: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Self {
        if self.topic_count.regex().is_none() {
            return self;
        }
        let narrowed = self.topic_count.narrowed(topics, exclude_internal, is_over);
        Self::new(self.id, narrowed)
    }

    /// Unlike Kafka: a registration that cannot be used stops nobody but its member (D31).
    fn new(id: String, read: Result<TopicCount, String>) -> Self {
        let (topic_count, trouble) = match read {
            Ok(topic_count) => (topic_count, None),
            Err(reason) => {
                let trouble = format!("has an unusable registration: {reason}");
                log::error!("member {id} {trouble}; it counts as subscribed to nothing");
                (TopicCount::empty(), Some(trouble))
            }
        };
        Self {
            id,
            topic_count,
            trouble,
        }
    }
}

fn sorted(ids: Option<Vec<String>>) -> Vec<String> {
    let mut ids = ids.unwrap_or_default();
    ids.sort_by(|left, right| utf16_order(left, right));
    ids
}

fn lacks_parent(outcome: &Created) -> bool {
    matches!(outcome, Err(ZkError::NoNode { .. }))
}

/// Makes a second attempt for those nodes whose result calls for one, and replaces these results.
fn redo<N: Clone, T>(
    nodes: &[N],
    results: &mut [T],
    called_for: impl Fn(&T) -> bool,
    attempt: impl FnOnce(&[N]) -> Vec<T>,
) {
    let again: Vec<N> = nodes
        .iter()
        .zip(results.iter())
        .filter(|(_, result)| called_for(result))
        .map(|(node, _)| node.clone())
        .collect();
    if !again.is_empty() {
        replace(results, called_for, attempt(&again));
    }
}

/// Puts the results of a second attempt into the places of those that called for it.
fn replace<T>(results: &mut [T], called_for: impl Fn(&T) -> bool, second: Vec<T>) {
    let places = results.iter_mut().filter(|result| called_for(result));
    for (place, result) in places.zip(second) {
        *place = result;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_second_attempt_take_the_places_of_those_that_called_for_it() {
        let mut results = vec!["ok", "again", "ok", "again"];
        redo(
            &[1, 2, 3, 4],
            &mut results,
            |result| *result == "again",
            |nodes| {
                assert_eq!(nodes, [2, 4]);
                vec!["second", "again"]
            },
        );
        assert_eq!(results, ["ok", "second", "ok", "again"]);
    }

    #[test]
    fn nothing_is_attempted_again_when_no_result_calls_for_it() {
        let mut results = vec![1, 2];
        redo(
            &["a", "b"],
            &mut results,
            |result| *result > 2,
            |_| unreachable!(),
        );
        assert_eq!(results, [1, 2]);
    }
}
