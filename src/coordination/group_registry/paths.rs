//! Where a group keeps what in ZooKeeper.

use crate::cluster::TopicPartition;

/// The paths of one group.
#[derive(Clone)]
pub(super) struct GroupPaths {
    group: String,
}

impl GroupPaths {
    pub(super) fn new(group: &str) -> Self {
        Self {
            group: format!("/consumers/{group}"),
        }
    }

    pub(super) fn group(&self) -> &str {
        &self.group
    }

    pub(super) fn members(&self) -> String {
        format!("{}/ids", self.group)
    }

    pub(super) fn member(&self, member: &str) -> String {
        format!("{}/ids/{member}", self.group)
    }

    pub(super) fn owners(&self, topic: &str) -> String {
        format!("{}/owners/{topic}", self.group)
    }

    pub(super) fn owner(&self, partition: &TopicPartition) -> String {
        format!("{}/owners/{partition}", self.group)
    }

    pub(super) fn offset(&self, partition: &TopicPartition) -> String {
        format!("{}/offsets/{partition}", self.group)
    }
}

/// All nodes above `paths`, each once, parents before their children.
pub(super) fn parents<'a>(paths: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut parents: Vec<String> = paths
        .into_iter()
        .flat_map(|path| path.match_indices('/').map(|(end, _)| path.split_at(end).0))
        .filter(|parent| !parent.is_empty())
        .map(str::to_owned)
        .collect();
    parents.sort();
    parents.dedup();
    parents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_are_those_of_kafka() {
        let paths = GroupPaths::new("g");
        let partition = TopicPartition::new("t", 3);
        assert_eq!(paths.group(), "/consumers/g");
        assert_eq!(paths.members(), "/consumers/g/ids");
        assert_eq!(paths.member("g_m"), "/consumers/g/ids/g_m");
        assert_eq!(paths.owners("t"), "/consumers/g/owners/t");
        assert_eq!(paths.owner(&partition), "/consumers/g/owners/t/3");
        assert_eq!(paths.offset(&partition), "/consumers/g/offsets/t/3");
    }

    #[test]
    fn parents_come_before_their_children_and_once() {
        assert_eq!(
            parents(["/a/o/t/0", "/a/o/t/1", "/a/o/u/0", "/x"]),
            ["/a", "/a/o", "/a/o/t", "/a/o/u"]
        );
    }
}
