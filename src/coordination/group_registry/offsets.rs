//! How far the group has come, `/consumers/<group>/offsets`.

use std::collections::HashMap;

use crate::cluster::TopicPartition;
use crate::coordination::group_registry::GroupRegistry;
use crate::coordination::group_registry::redo;
use crate::error::Error;
use crate::zk::CreateMode;
use crate::zk::CreateOutcome;
use crate::zk::ZkError;
use crate::zk::Znode;

/// A stored offset, the next to consume; `None` when there is none. The error says what stands in
/// the node instead of an offset; it counts as none.
pub(crate) type StoredOffset = Result<Option<i64>, String>;

/// How much of a node that holds no offset is shown.
const SHOWN: usize = 40;

/// The node of an offset as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenOffset {
    pub(crate) stored: StoredOffset,
    pub(crate) node: SeenNode,
}

/// What is known of the node that an offset is to be written into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SeenNode {
    /// Nothing, as it was never read, or a write has had an unknown outcome.
    Unknown,
    /// That there is none.
    Absent,
    /// Its version.
    Version(i32),
}

/// An offset of a partition that the writer owns.
#[derive(Clone, Debug)]
pub(crate) struct OwnedOffset {
    pub(crate) partition: TopicPartition,
    pub(crate) offset: i64,
    /// The node as the writer last saw it.
    pub(crate) node: SeenNode,
}

/// An offset that was written by the owner of its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenOffset {
    /// Of the node, for the next write.
    pub(crate) version: i32,
    /// What was written over, if the node was not as the writer had last seen it.
    pub(crate) replaced: Option<StoredOffset>,
}

impl GroupRegistry {
    /// The stored offset of each partition, in one round trip.
    pub(crate) fn offsets(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<HashMap<TopicPartition, SeenOffset>, Error> {
        let paths: Vec<String> = partitions.iter().map(|p| self.paths.offset(p)).collect();
        let mut offsets = HashMap::with_capacity(partitions.len());
        for (partition, node) in partitions.iter().zip(self.zk.get_all(&paths)) {
            offsets.insert(partition.clone(), SeenOffset::of(node?.as_ref()));
        }
        Ok(offsets)
    }

    /// Stores an offset for each partition, whatever was stored before. The results are in the
    /// order of `offsets`: the versions of the nodes.
    ///
    /// Takes one round trip, a few more for partitions that had no offset.
    pub(crate) fn store_offsets(
        &self,
        offsets: &[(TopicPartition, i64)],
    ) -> Vec<Result<i32, Error>> {
        let nodes: Vec<(String, Vec<u8>)> = offsets
            .iter()
            .map(|(partition, offset)| (self.paths.offset(partition), offset.to_string().into()))
            .collect();
        let mut stored = self.overwrite(&nodes);
        redo(&nodes, &mut stored, is_missing, |new| {
            let created = self.create_all(new, CreateMode::Persistent).into_iter();
            created.map(first_version).collect()
        });
        // Somebody else was first to create the node.
        redo(&nodes, &mut stored, is_changed, |again| {
            self.overwrite(again)
        });
        let stored = stored.into_iter();
        stored.map(|result| result.map_err(Error::from)).collect()
    }

    /// Stores offsets for `session`, which owns the partitions, each over the node that the owner has seen. The
    /// results are in the order of `offsets`.
    ///
    /// Where somebody else has written meanwhile, the owner node decides: is it still of the session, the offset is
    /// written all the same, over what was found; if not, it is not written.
    /// Takes one round trip, a few more where it is not as it was seen.
    ///
    /// # Errors
    ///
    /// [`Error::OffsetFenced`] when the partition is owned by somebody else or nobody.
    pub(crate) fn store_owned_offsets(
        &self,
        session: i64,
        offsets: &[OwnedOffset],
    ) -> Vec<Result<WrittenOffset, Error>> {
        let owner = self.in_session(session);
        let nodes: Vec<Write> = offsets
            .iter()
            .map(|offset| Write {
                path: self.paths.offset(&offset.partition),
                data: offset.offset.to_string().into(),
                over: offset.node,
            })
            .collect();
        let mut written: Vec<Result<WrittenOffset, Error>> = Vec::with_capacity(offsets.len());
        let mut changed = Vec::new();
        for (index, result) in owner.write_over(&nodes).into_iter().enumerate() {
            if is_changed(&result) {
                changed.push(index);
            }
            written.push(result.map(WrittenOffset::as_seen).map_err(Error::from));
        }
        let again: Vec<&OwnedOffset> = changed.iter().filter_map(|it| offsets.get(*it)).collect();
        for (index, result) in changed.iter().zip(owner.store_over_found(session, &again)) {
            if let Some(place) = written.get_mut(*index) {
                *place = result;
            }
        }
        written
    }

    /// Looks at the nodes, then at who owns the partitions now. In this order: who has taken over since has either
    /// written already, and is seen, or will find its node changed, and write over it as its owner.
    fn store_over_found(
        &self,
        session: i64,
        offsets: &[&OwnedOffset],
    ) -> Vec<Result<WrittenOffset, Error>> {
        if offsets.is_empty() {
            return Vec::new();
        }
        let paths: Vec<String> = offsets
            .iter()
            .map(|it| self.paths.offset(&it.partition))
            .collect();
        let found = self.zk.get_all(&paths);
        let owner_paths = self.owner_paths(offsets.iter().map(|it| &it.partition));
        let owners = self.zk.get_all(&owner_paths);
        let looked = offsets
            .iter()
            .zip(found)
            .zip(owners.into_iter().zip(&owner_paths));
        let looked: Vec<Result<SeenOffset, Error>> = looked
            .map(|((offset, found), (owner, path))| {
                let found = SeenOffset::of(found?.as_ref());
                match owner? {
                    Some(node) if node.ephemeral_owner == Some(session) => Ok(found),
                    owner => Err(fenced(&offset.partition, path, owner.as_ref())),
                }
            })
            .collect();
        let still_owned = offsets.iter().zip(&looked).zip(paths);
        let nodes: Vec<Write> = still_owned
            .filter_map(|((offset, looked), path)| {
                Some(Write {
                    path,
                    data: offset.offset.to_string().into(),
                    over: looked.as_ref().ok()?.node,
                })
            })
            .collect();
        let mut results = self.write_over(&nodes).into_iter();
        let written = looked.into_iter().map(|looked| {
            let found = looked?;
            let version = results.next().unwrap_or(Err(ZkError::Cancelled))?;
            Ok(WrittenOffset {
                version,
                replaced: Some(found.stored),
            })
        });
        written.collect()
    }

    /// Writes each node if it is as it was seen; [`is_changed`] tells the others.
    fn write_over(&self, nodes: &[Write]) -> Vec<Result<i32, ZkError>> {
        let mut sets = Vec::new();
        let mut creates = Vec::new();
        for node in nodes {
            match node.over {
                SeenNode::Version(version) => {
                    sets.push((node.path.clone(), node.data.clone(), Some(version)));
                }
                SeenNode::Absent => creates.push((node.path.clone(), node.data.clone())),
                SeenNode::Unknown => {}
            }
        }
        let mut set = self.zk.set_all(&sets).into_iter();
        let created = self.create_all(&creates, CreateMode::Persistent);
        let mut created = created.into_iter().map(first_version);
        let results = nodes.iter().map(|node| {
            let result = match node.over {
                SeenNode::Version(_) => set.next(),
                SeenNode::Absent => created.next(),
                SeenNode::Unknown => None,
            };
            match result {
                // Deleted or created by somebody.
                None | Some(Err(ZkError::NoNode { .. } | ZkError::BadVersion { .. })) => {
                    Err(changed(&node.path))
                }
                Some(result) => result,
            }
        });
        results.collect()
    }

    fn overwrite(&self, nodes: &[(String, Vec<u8>)]) -> Vec<Result<i32, ZkError>> {
        let nodes: Vec<(String, Vec<u8>, Option<i32>)> = nodes
            .iter()
            .map(|(path, data)| (path.clone(), data.clone(), None))
            .collect();
        self.zk.set_all(&nodes)
    }
}

/// A node to write, if it is as it was seen.
struct Write {
    path: String,
    data: Vec<u8>,
    over: SeenNode,
}

impl SeenOffset {
    fn of(node: Option<&Znode>) -> Self {
        match node {
            None => Self {
                stored: Ok(None),
                node: SeenNode::Absent,
            },
            Some(node) => Self {
                stored: parse(&node.data),
                node: SeenNode::Version(node.version),
            },
        }
    }
}

impl WrittenOffset {
    fn as_seen(version: i32) -> Self {
        Self {
            version,
            replaced: None,
        }
    }
}

fn is_missing(stored: &Result<i32, ZkError>) -> bool {
    matches!(stored, Err(ZkError::NoNode { .. }))
}

fn is_changed(stored: &Result<i32, ZkError>) -> bool {
    matches!(stored, Err(ZkError::BadVersion { .. }))
}

fn changed(path: &str) -> ZkError {
    ZkError::BadVersion { path: path.into() }
}

/// The version of a node that was created; of one that was there already, another.
fn first_version(created: Result<CreateOutcome, ZkError>) -> Result<i32, ZkError> {
    match created? {
        CreateOutcome::Created => Ok(0),
        CreateOutcome::Exists => Err(changed("the node of an offset")),
    }
}

fn fenced(partition: &TopicPartition, path: &str, owner: Option<&Znode>) -> Error {
    let owner = owner.map(|node| String::from_utf8_lossy(&node.data).into_owned());
    Error::OffsetFenced {
        topic_partition: partition.clone(),
        path: path.to_owned(),
        owner: owner.unwrap_or_else(|| String::from("nobody")),
    }
}

/// As in Kafka, a negative offset means that there is none. Unlike Kafka, blanks around the number
/// are ignored: shells leave them behind.
fn parse(node: &[u8]) -> StoredOffset {
    let text = String::from_utf8_lossy(node);
    match text.trim().parse::<i64>() {
        Ok(offset) => Ok(Some(offset).filter(|offset| *offset >= 0)),
        Err(_) => {
            let shown: String = text.chars().take(SHOWN).collect();
            Err(format!(
                "holds `{}`, no decimal offset",
                shown.escape_debug()
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_a_decimal_number() {
        assert_eq!(parse(b"0"), Ok(Some(0)));
        assert_eq!(parse(b"9223372036854775807"), Ok(Some(i64::MAX)));
        assert_eq!(parse(b"42\n"), Ok(Some(42)));
        assert_eq!(parse(b"-1"), Ok(None), "not known");
    }

    #[test]
    fn what_is_no_offset_says_what_it_is() {
        for text in ["", "4x", "1.0", "9223372036854775808", "\u{1}"] {
            let reason = parse(text.as_bytes()).unwrap_err();
            assert!(
                reason.contains(&format!("`{}`", text.escape_debug())),
                "{reason}"
            );
        }
        assert!(parse(&[0xff; 100_000]).unwrap_err().len() < 200);
    }
}
