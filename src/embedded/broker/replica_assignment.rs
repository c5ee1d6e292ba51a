//! Which brokers hold the replicas of new partitions.

use std::collections::BTreeSet;

use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::partition::Partition;
use crate::embedded::broker::partition_store::PartitionStore;
use crate::error::Error;

/// Replicas of the partitions from `first` up to `partitions`, one broker after the other.
pub(super) fn spread(
    state: &ClusterState,
    partitions: i32,
    replicas: usize,
    first: usize,
) -> Result<Vec<Vec<i32>>, Error> {
    let refused = |name, reason| Err(Error::InvalidArgument { name, reason });
    let brokers: Vec<i32> = state.registered().iter().map(|broker| broker.id).collect();
    if partitions < 1 {
        return refused("partitions", format!("{partitions} is less than 1"));
    }
    if replicas < 1 || replicas > brokers.len() {
        let most = brokers.len();
        return refused("replicas", format!("{replicas} is not within 1 to {most}"));
    }
    let partitions = usize::try_from(partitions).unwrap_or(0);
    let replicas_of = |number| {
        let ids = brokers.iter().copied().cycle();
        ids.skip(number).take(replicas).collect()
    };
    Ok((first..partitions)
        .map(|n| replicas_of(n % brokers.len()))
        .collect())
}

/// Lets pass what names brokers that exist, each once in a partition.
pub(super) fn check(state: &ClusterState, assignment: &[Vec<i32>]) -> Result<(), Error> {
    let is_good = |ids: &Vec<i32>| {
        let known = ids.iter().filter(|id| state.brokers.contains_key(id));
        let distinct: BTreeSet<&i32> = known.collect();
        !ids.is_empty() && distinct.len() == ids.len()
    };
    match !assignment.is_empty() && assignment.iter().all(is_good) {
        true => Ok(()),
        false => Err(Error::InvalidArgument {
            name: "replicas",
            reason: format!("{assignment:?} are not distinct known brokers for each partition"),
        }),
    }
}

/// Empty partitions, numbered from `first` on.
pub(super) fn new_partitions(
    state: &ClusterState,
    topic: &str,
    first: usize,
    assignment: Vec<Vec<i32>>,
) -> Result<Vec<Partition>, Error> {
    let settings = &state.settings;
    let numbered = (first..).zip(assignment);
    let partitions = numbered.map(|(number, replicas)| {
        let segment_bytes = state.segment_bytes(topic);
        let mut partition = Partition::new(replicas, segment_bytes, |id| state.is_running(id));
        if let Some(folder) = &settings.log_dir {
            let folder = folder.join(topic).join(number.to_string());
            let store = PartitionStore::create(&folder);
            let failed = |source| Error::DataFolder {
                path: folder.clone(),
                source,
            };
            partition.keep_in(store.map_err(failed)?);
            partition.save().map_err(failed)?;
        }
        Ok(partition)
    });
    partitions.collect()
}
