//! The values of `partition.assignment.strategy`.

use crate::config::choices::choices;

/// `partition.assignment.strategy`: how partitions are dealt out to the threads of a group.
///
/// All members of a group must say the same, and nothing checks it: they would claim the same partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PartitionAssignmentStrategy {
    /// `range`: each topic by itself, in runs of neighbouring partitions.
    Range,
    /// `roundrobin`: the partitions of all topics together, one after the other to each thread in turn; see
    /// [`RoundRobinVersion`](crate::RoundRobinVersion).
    RoundRobin,
}

choices!(PartitionAssignmentStrategy, "partition.assignment.strategy", any_case: false, {
    Range: "range",
    RoundRobin: "roundrobin",
});
