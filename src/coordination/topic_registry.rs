//! The topics and their partitions, `/brokers/topics`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::error::Error;
use crate::zk::ZkClient;
use crate::zk::ZkError;
use crate::zk::Znode;

const ROOT: &str = "/brokers/topics";

/// The topics that are to be deleted. A mark is there before anything of its topic goes, and until all has.
/// Brokers that do not delete may leave it for ever.
const DELETIONS: &str = "/admin/delete_topics";

/// Reads which partitions topics have. ZooKeeper knows of new ones before the brokers tell.
pub(crate) struct TopicRegistry {
    zk: Arc<ZkClient>,
}

impl TopicRegistry {
    pub(crate) fn new(zk: Arc<ZkClient>) -> Self {
        Self { zk }
    }

    /// The topic whose node `path` is, to tell what an event is about.
    pub(crate) fn topic_of(path: &str) -> Option<&str> {
        let name = path.strip_prefix(ROOT)?.strip_prefix('/')?;
        (!name.is_empty() && !name.contains('/')).then_some(name)
    }

    /// The node of a topic.
    pub(crate) fn path_of(topic: &str) -> String {
        format!("{ROOT}/{topic}")
    }

    /// The partitions of each of `topics`, in one round trip.
    pub(crate) fn partitions(&self, topics: &[String]) -> Result<TopicPartitions, Error> {
        TopicPartitions::read(topics, self.zk.get_all(&paths(topics)))
    }

    /// As [`partitions`](Self::partitions), and an event tells when a topic changes next, is
    /// created or deleted.
    pub(crate) fn watch_partitions(&self, topics: &[String]) -> Result<TopicPartitions, Error> {
        TopicPartitions::read(topics, self.zk.watch_data_all(&paths(topics)))
    }

    /// Those of `topics` that exist, in one round trip.
    pub(crate) fn existing(&self, topics: &[String]) -> Result<BTreeSet<String>, Error> {
        let mut existing = BTreeSet::new();
        for (topic, node) in topics.iter().zip(self.zk.get_all(&paths(topics))) {
            if node?.is_some() {
                existing.insert(topic.clone());
            }
        }
        Ok(existing)
    }

    /// Whether one of `topics` is marked for deletion, in one round trip.
    pub(crate) fn is_deleting(&self, topics: &[String]) -> Result<bool, Error> {
        let marks: Vec<String> = topics
            .iter()
            .map(|topic| format!("{DELETIONS}/{topic}"))
            .collect();
        for mark in self.zk.get_all(&marks) {
            if mark?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn paths(topics: &[String]) -> Vec<String> {
    topics
        .iter()
        .map(|topic| format!("{ROOT}/{topic}"))
        .collect()
}

/// The partitions of the topics that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicPartitions {
    /// Each topic, with its partitions in numerical order. Empty for a topic without a usable node.
    pub(crate) partitions: BTreeMap<String, Vec<i32>>,
    /// Topics that do not exist.
    pub(crate) missing: Vec<String>,
    /// Topics whose node cannot be used, with the reason.
    pub(crate) unusable: Vec<(String, String)>,
}

impl TopicPartitions {
    fn read(topics: &[String], nodes: Vec<Result<Option<Znode>, ZkError>>) -> Result<Self, Error> {
        let mut all = Self::default();
        for (topic, node) in topics.iter().zip(nodes) {
            let partitions = match node? {
                None => {
                    all.missing.push(topic.clone());
                    Vec::new()
                }
                Some(node) => parse(&node.data).unwrap_or_else(|reason| {
                    all.unusable.push((topic.clone(), reason));
                    Vec::new()
                }),
            };
            all.partitions.insert(topic.clone(), partitions);
        }
        Ok(all)
    }
}

/// Only the keys of `partitions` matter, whatever the version and the other fields.
fn parse(node: &[u8]) -> Result<Vec<i32>, String> {
    let json: Value = serde_json::from_slice(node).map_err(|error| error.to_string())?;
    let partitions = json
        .get("partitions")
        .and_then(Value::as_object)
        .ok_or_else(|| String::from("lacks `partitions`"))?;
    let mut partitions: Vec<i32> = partitions
        .keys()
        .map(|key| {
            key.parse()
                .ok()
                .filter(|partition| *partition >= 0)
                .ok_or_else(|| format!("`{key}` is no number of a partition"))
        })
        .collect::<Result<_, _>>()?;
    partitions.sort_unstable();
    partitions.dedup();
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_sorted_as_numbers_in_every_version() {
        for json in [
            r#"{"version":1,"partitions":{"10":[1],"2":[1,2],"0":[]}}"#,
            r#"{"version":2,"partitions":{"2":[1],"10":[1],"0":[1]},"adding_replicas":{},"removing_replicas":{}}"#,
            r#"{"topic_id":"x","partitions":{"0":[99999999999],"2":null,"10":[1]},"version":3}"#,
        ] {
            assert_eq!(parse(json.as_bytes()).unwrap(), [0, 2, 10], "{json}");
        }
        assert_eq!(parse(br#"{"partitions":{}}"#).unwrap(), Vec::<i32>::new());
    }

    #[test]
    fn a_node_that_cannot_be_used_says_why() {
        for (text, part) in [
            ("", "EOF"),
            ("{}", "lacks `partitions`"),
            (r#"{"partitions":[1]}"#, "lacks `partitions`"),
            (r#"{"partitions":{"a":[1]}}"#, "`a`"),
            (r#"{"partitions":{"-1":[1]}}"#, "`-1`"),
            (r#"{"partitions":{"2147483648":[1]}}"#, "`2147483648`"),
        ] {
            let reason = parse(text.as_bytes()).unwrap_err();
            assert!(reason.contains(part), "`{reason}` lacks `{part}`");
        }
    }

    #[test]
    fn a_topic_without_a_usable_node_has_no_partitions_and_is_reported() {
        let node = |data: &str| {
            Some(Znode {
                data: data.as_bytes().to_vec(),
                version: 0,
                ephemeral_owner: None,
            })
        };
        let topics = ["a", "b", "c"].map(String::from);
        let nodes = vec![
            Ok(None),
            Ok(node("{")),
            Ok(node(r#"{"partitions":{"0":[]}}"#)),
        ];
        let read = TopicPartitions::read(&topics, nodes).unwrap();
        let lists: Vec<_> = read.partitions.values().cloned().collect();
        assert_eq!(lists, [vec![], vec![], vec![0]]);
        assert_eq!(read.missing, ["a"]);
        assert_eq!(read.unusable[0].0, "b");
    }

    #[test]
    fn only_the_node_of_a_topic_names_a_topic() {
        assert_eq!(TopicRegistry::topic_of("/brokers/topics/t"), Some("t"));
        for path in [
            "/brokers/topics",
            "/brokers/topics/",
            "/brokers/topicst",
            "/brokers/topics/t/partitions",
        ] {
            assert_eq!(TopicRegistry::topic_of(path), None);
        }
    }
}
