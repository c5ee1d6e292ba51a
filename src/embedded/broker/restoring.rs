//! Topics as an earlier life of the cluster left them.

use std::path::Path;

use serde_json::Value;

use crate::embedded::broker::partition::Partition;
use crate::embedded::broker::partition_store::PartitionStore;
use crate::embedded::broker::registry::Registry;
use crate::embedded::topic_name;
use crate::error::Error;

/// What ZooKeeper still knows of a topic.
#[derive(Debug)]
pub(super) struct KeptTopic {
    pub(super) name: String,
    /// Of each partition, by its number.
    partitions: Vec<KeptPartition>,
}

#[derive(Debug)]
struct KeptPartition {
    replicas: Vec<i32>,
    leader_epoch: i32,
}

impl KeptTopic {
    /// Reads the logs below `folder`. All replicas get what the leader had.
    pub(super) fn restore(
        &self,
        folder: &Path,
        segment_bytes: usize,
        is_coming: impl Fn(i32) -> bool,
    ) -> Result<Vec<Partition>, Error> {
        let numbered = (0..).zip(&self.partitions);
        let restored = numbered.map(|(number, kept): (usize, _)| {
            let folder = folder.join(&self.name).join(number.to_string());
            let opened = PartitionStore::open(&folder, segment_bytes);
            let (store, log) = opened.map_err(|source| Error::DataFolder {
                path: folder.clone(),
                source,
            })?;
            let replicas = kept.replicas.clone();
            let mut partition = Partition::with_log(replicas, log, &is_coming);
            partition.continue_epoch(kept.leader_epoch);
            partition.keep_in(store);
            Ok(partition)
        });
        restored.collect()
    }
}

/// The epoch of the last controller, and all topics.
pub(super) fn kept_topics(registry: &mut Registry) -> Result<(i32, Vec<KeptTopic>), Error> {
    let epoch = read(registry, "/controller_epoch")?;
    let epoch = epoch.as_i64().and_then(|epoch| i32::try_from(epoch).ok());
    let path = "/brokers/topics";
    let names = registry.children(path);
    let names = names.map_err(|error| unusable(path, error.into()))?;
    let topics = names.into_iter().map(|name| kept_topic(registry, name));
    Ok((epoch.unwrap_or(0), topics.collect::<Result<_, _>>()?))
}

fn kept_topic(registry: &mut Registry, name: String) -> Result<KeptTopic, Error> {
    topic_name::check(&name)?;
    let path = format!("/brokers/topics/{name}");
    let topic = read(registry, &path)?;
    let assignment = topic.get("partitions").and_then(Value::as_object);
    let assignment = assignment.ok_or_else(|| unusable(&path, "it lacks partitions".into()))?;
    let mut partitions = Vec::new();
    for number in 0..assignment.len() {
        let replicas = assignment.get(&number.to_string()).and_then(broker_ids);
        let replicas = replicas.filter(|replicas| !replicas.is_empty());
        let missing = || unusable(&path, format!("it lacks partition {number}").into());
        let state = read(registry, &format!("{path}/partitions/{number}/state"))?;
        let epoch = state.get("leader_epoch").and_then(Value::as_i64);
        partitions.push(KeptPartition {
            replicas: replicas.ok_or_else(missing)?,
            leader_epoch: epoch.and_then(|n| i32::try_from(n).ok()).unwrap_or(0),
        });
    }
    Ok(KeptTopic { name, partitions })
}

/// `null` for a node that is missing or empty.
fn read(registry: &mut Registry, path: &str) -> Result<Value, Error> {
    let data = registry.read(path);
    let data = data.map_err(|error| unusable(path, error.into()))?;
    match data.as_deref() {
        None | Some([]) => Ok(Value::Null),
        Some(data) => serde_json::from_slice(data).map_err(|error| unusable(path, error.into())),
    }
}

fn broker_ids(value: &Value) -> Option<Vec<i32>> {
    let ids = value.as_array()?.iter();
    ids.map(|id| i32::try_from(id.as_i64()?).ok()).collect()
}

fn unusable(path: &str, source: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::ZooKeeper {
        doing: format!("restoring {path}"),
        source,
    }
}
