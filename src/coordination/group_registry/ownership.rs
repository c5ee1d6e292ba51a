//! Who owns which partition, `/consumers/<group>/owners`.

use std::collections::BTreeMap;

use crate::cluster::TopicPartition;
use crate::coordination::consumer_id::ConsumerThreadId;
use crate::coordination::group_registry::GroupRegistry;
use crate::coordination::group_registry::redo;
use crate::coordination::group_registry::replace;
use crate::error::Error;
use crate::zk::CreateMode;
use crate::zk::CreateOutcome;
use crate::zk::ZkError;
use crate::zk::Znode;

/// How often a claim is repeated because the owner vanished while it was looked at.
const VANISHED_LIMIT: usize = 3;

/// What became of the claim of one partition.
#[derive(Debug)]
pub(crate) enum Claim {
    /// The owner node was created.
    Created,
    /// The present session owned it already. A node that named another of its threads was rewritten.
    AlreadyMine,
    /// Another session owns it; the text is the thread id in the node.
    Conflict {
        /// The thread id in the node.
        owner: String,
    },
    /// Whether it is ours now is not known: it has to be released like one that is.
    Failed(Error),
}

impl Claim {
    #[cfg(all(test, any(feature = "embedded", feature = "real-brokers")))]
    /// Whether the partition is ours now.
    pub(crate) fn is_mine(&self) -> bool {
        matches!(self, Self::Created | Self::AlreadyMine)
    }
}

/// What an owner node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The thread id in the node, written `<member>-<n>`.
    pub(crate) thread: String,
    /// Whether it was created by the present session.
    pub(crate) is_mine: bool,
}

impl GroupRegistry {
    /// Tries to own each partition. The results are in the order of `claims`.
    ///
    /// Takes one round trip when all are free, a few more for conflicts and missing parents.
    pub(crate) fn claim(&self, claims: &[(TopicPartition, ConsumerThreadId)]) -> Vec<Claim> {
        let nodes: Vec<(String, Vec<u8>)> = claims
            .iter()
            .map(|(partition, thread)| (self.paths.owner(partition), thread.as_str().into()))
            .collect();
        let mut states = self.try_claim(&nodes);
        for _ in 0..VANISHED_LIMIT {
            let vanished = |state: &State| matches!(state, State::Vanished);
            redo(&nodes, &mut states, vanished, |again| self.try_claim(again));
        }
        states
            .into_iter()
            .map(|state| match state {
                State::Settled(claim) => claim,
                State::Exists | State::Stale(_) | State::Vanished => {
                    Claim::Failed(Error::GroupChanged)
                }
            })
            .collect()
    }

    /// Gives up each partition, if the present session owns it by that thread: somebody else's
    /// node is never deleted (D17). The results are in the order of `claims`: whether there was
    /// anything of ours to delete.
    ///
    /// Takes two round trips.
    pub(crate) fn release(
        &self,
        claims: &[(TopicPartition, ConsumerThreadId)],
    ) -> Vec<Result<bool, Error>> {
        let paths = self.owner_paths(claims.iter().map(|(partition, _)| partition));
        let mut ours = Vec::new();
        let mut results = Vec::with_capacity(claims.len());
        for ((path, node), (_, thread)) in paths.iter().zip(self.zk.get_all(&paths)).zip(claims) {
            let mine = |node: &Znode| self.is_ours(node) && node.data == thread.as_str().as_bytes();
            results.push(match node {
                Ok(Some(node)) if mine(&node) => {
                    ours.push((path.clone(), Some(node.version)));
                    Ok(true)
                }
                Ok(_) => Ok(false),
                Err(error) => Err(error.into()),
            });
        }
        let deleted = self
            .zk
            .delete_all(&ours)
            .into_iter()
            .map(|result| match result {
                Err(ZkError::BadVersion { .. }) => Ok(false),
                result => Ok(result?),
            });
        replace(
            &mut results,
            |result| matches!(result, Ok(true)),
            deleted.collect(),
        );
        results
    }

    /// The owner of each owned partition of `topics`, in two round trips.
    pub(crate) fn owners(
        &self,
        topics: &[String],
    ) -> Result<BTreeMap<TopicPartition, Owner>, Error> {
        let parents: Vec<String> = topics
            .iter()
            .map(|topic| self.paths.owners(topic))
            .collect();
        let mut partitions = Vec::new();
        for (topic, names) in topics.iter().zip(self.zk.children_all(&parents)) {
            let names = names?.unwrap_or_default();
            let numbers = names.iter().filter_map(|name| name.parse().ok());
            partitions.extend(numbers.map(|n| TopicPartition::new(topic.as_str(), n)));
        }
        let nodes = self.zk.get_all(&self.owner_paths(&partitions));
        let mut owners = BTreeMap::new();
        for (partition, node) in partitions.into_iter().zip(nodes) {
            if let Some(node) = node? {
                let is_mine = self.is_ours(&node);
                owners.insert(
                    partition,
                    Owner {
                        thread: text(&node),
                        is_mine,
                    },
                );
            }
        }
        Ok(owners)
    }

    fn try_claim(&self, nodes: &[(String, Vec<u8>)]) -> Vec<State> {
        let mut states: Vec<State> = self
            .create_all(nodes, CreateMode::Ephemeral)
            .into_iter()
            .map(|outcome| match outcome {
                Ok(CreateOutcome::Created) => State::Settled(Claim::Created),
                Ok(CreateOutcome::Exists) => State::Exists,
                Err(error) => State::failed(error),
            })
            .collect();
        let exists = |state: &State| matches!(state, State::Exists);
        redo(nodes, &mut states, exists, |taken| self.judge(taken));
        self.rewrite(nodes, &mut states);
        states
    }

    /// Finds out whose nodes these are that we wanted to create.
    fn judge(&self, taken: &[(String, Vec<u8>)]) -> Vec<State> {
        let paths: Vec<String> = taken.iter().map(|(path, _)| path.clone()).collect();
        taken
            .iter()
            .zip(self.zk.get_all(&paths))
            .map(|((_, wanted), node)| match node {
                Ok(None) => State::Vanished,
                Ok(Some(node)) if !self.is_ours(&node) => {
                    let owner = text(&node);
                    State::Settled(Claim::Conflict { owner })
                }
                Ok(Some(node)) if node.data == *wanted => State::Settled(Claim::AlreadyMine),
                Ok(Some(node)) => State::Stale(node.version),
                Err(error) => State::failed(error),
            })
            .collect()
    }

    /// Makes nodes of ours name the thread that we want: left behind by an earlier attempt, they
    /// may name another, with which Kafka 0.8.2.2 is in conflict for ever (D18).
    fn rewrite(&self, nodes: &[(String, Vec<u8>)], states: &mut [State]) {
        let stale: Vec<(String, Vec<u8>, Option<i32>)> = nodes
            .iter()
            .zip(states.iter())
            .filter_map(|((path, wanted), state)| match state {
                State::Stale(version) => Some((path.clone(), wanted.clone(), Some(*version))),
                _ => None,
            })
            .collect();
        if stale.is_empty() {
            return;
        }
        let results = self
            .zk
            .set_all(&stale)
            .into_iter()
            .map(|result| match result {
                Ok(_) => State::Settled(Claim::AlreadyMine),
                Err(ZkError::NoNode { .. } | ZkError::BadVersion { .. }) => State::Vanished,
                Err(error) => State::failed(error),
            });
        let stale = |state: &State| matches!(state, State::Stale(_));
        replace(states, stale, results.collect());
    }

    pub(super) fn owner_paths<'a>(
        &self,
        of: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Vec<String> {
        of.into_iter()
            .map(|partition| self.paths.owner(partition))
            .collect()
    }
}

/// How far a claim has got.
enum State {
    Settled(Claim),
    /// Somebody's node is there.
    Exists,
    /// A node of ours, of this version, names another thread.
    Stale(i32),
    /// A node was there and then was not, or not as it was.
    Vanished,
}

impl State {
    fn failed(error: ZkError) -> Self {
        Self::Settled(Claim::Failed(error.into()))
    }
}

fn text(node: &Znode) -> String {
    String::from_utf8_lossy(&node.data).into_owned()
}
