//! How far the group has come, `/consumers/<group>/offsets`.

use std::collections::HashMap;

use crate::cluster::TopicPartition;
use crate::coordination::group_registry::GroupRegistry;
use crate::coordination::group_registry::redo;
use crate::error::Error;
use crate::zk::CreateMode;
use crate::zk::CreateOutcome;
use crate::zk::ZkError;

/// A stored offset, the next to consume; `None` when there is none. The error says what stands in
/// the node instead of an offset; it counts as none.
pub(crate) type StoredOffset = Result<Option<i64>, String>;

/// How much of a node that holds no offset is shown.
const SHOWN: usize = 40;

impl GroupRegistry {
    /// The stored offset of each partition, in one round trip.
    pub(crate) fn offsets(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<HashMap<TopicPartition, StoredOffset>, Error> {
        let paths: Vec<String> = partitions.iter().map(|p| self.paths.offset(p)).collect();
        let mut offsets = HashMap::with_capacity(partitions.len());
        for (partition, node) in partitions.iter().zip(self.zk.get_all(&paths)) {
            let offset = node?.map_or(Ok(None), |node| parse(&node.data));
            offsets.insert(partition.clone(), offset);
        }
        Ok(offsets)
    }

    /// Stores an offset for each partition, whatever was stored before. The results are in the
    /// order of `offsets`.
    ///
    /// Takes one round trip, a few more for partitions that had no offset.
    pub(crate) fn store_offsets(
        &self,
        offsets: &[(TopicPartition, i64)],
    ) -> Vec<Result<(), Error>> {
        let nodes: Vec<(String, Vec<u8>)> = offsets
            .iter()
            .map(|(partition, offset)| (self.paths.offset(partition), offset.to_string().into()))
            .collect();
        let mut stored = self.overwrite(&nodes);
        redo(&nodes, &mut stored, is_missing, |new| {
            self.create_all(new, CreateMode::Persistent)
                .into_iter()
                .map(|outcome| outcome.map(|outcome| outcome == CreateOutcome::Created))
                .collect()
        });
        // Somebody else was first to create the node.
        let raced = |stored: &Result<bool, ZkError>| matches!(stored, Ok(false));
        redo(&nodes, &mut stored, raced, |again| self.overwrite(again));
        let stored = stored.into_iter();
        stored
            .map(|result| result.map(|_| ()).map_err(Error::from))
            .collect()
    }

    /// `true` for what is stored now, for the sake of those who have to tell.
    fn overwrite(&self, nodes: &[(String, Vec<u8>)]) -> Vec<Result<bool, ZkError>> {
        let nodes: Vec<(String, Vec<u8>, Option<i32>)> = nodes
            .iter()
            .map(|(path, data)| (path.clone(), data.clone(), None))
            .collect();
        let results = self.zk.set_all(&nodes).into_iter();
        results.map(|result| result.map(|_| true)).collect()
    }
}

fn is_missing(stored: &Result<bool, ZkError>) -> bool {
    matches!(stored, Err(ZkError::NoNode { .. }))
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
