//! All nodes, and the writes that change them.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::mem;

use crate::embedded::zookeeper::change::Change;
use crate::embedded::zookeeper::change::DataBefore;
use crate::embedded::zookeeper::create_mode::CreateMode;
use crate::embedded::zookeeper::node::ChildrenBefore;
use crate::embedded::zookeeper::node::Node;
use crate::embedded::zookeeper::node::Written;
use crate::embedded::zookeeper::node_error::NodeError;
use crate::embedded::zookeeper::node_path;
use crate::embedded::zookeeper::node_path::OWN_NODES;
use crate::embedded::zookeeper::transaction::Acl;
use crate::embedded::zookeeper::transaction::Moment;
use crate::embedded::zookeeper::transaction::Operation;
use crate::embedded::zookeeper::transaction::Outcome;

/// All nodes by their full path, the root included.
#[derive(Clone, Debug)]
pub(super) struct DataTree {
    nodes: HashMap<String, Node>,
    /// Paths of ephemeral nodes by session.
    ephemerals: HashMap<i64, BTreeSet<String>>,
}

impl DataTree {
    pub(super) fn new() -> Self {
        let mut tree = Self {
            nodes: HashMap::new(),
            ephemerals: HashMap::new(),
        };
        for (path, child) in OWN_NODES.iter().zip(["zookeeper", "quota", ""]) {
            let moment = Moment { zxid: 0, time: 0 };
            let mut node = Node::new(Some(Vec::new()), Acl::open(), None, moment);
            node.children
                .extend((!child.is_empty()).then(|| child.to_owned()));
            tree.nodes.insert((*path).to_owned(), node);
        }
        tree
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The root goes by an empty path, too.
    pub(super) fn get(&self, path: &str) -> Result<&Node, NodeError> {
        let path = if path.is_empty() { "/" } else { path };
        self.nodes.get(path).ok_or(NodeError::NoNode)
    }

    pub(super) fn ephemerals(&self, session: i64) -> Vec<String> {
        let paths = self.ephemerals.get(&session);
        paths.into_iter().flatten().cloned().collect()
    }

    /// Carries out a write of a session, or changes nothing.
    pub(super) fn apply(
        &mut self,
        operation: Operation,
        session: i64,
        moment: Moment,
    ) -> Result<(Outcome, Change), NodeError> {
        match operation {
            Operation::Create {
                path,
                data,
                acl,
                flags,
            } => self.create(path, flags, (data, acl), session, moment),
            Operation::Delete { path, version } => {
                let change = self.delete(path, version, moment)?;
                Ok((Outcome::Deleted, change))
            }
            Operation::SetData {
                path,
                data,
                version,
            } => self.set_data(path, data, version, moment),
            Operation::SetAcl { path, acl, version } => {
                if acl.is_empty() {
                    return Err(NodeError::InvalidAcl);
                }
                let node = self.get_mut(&path)?;
                matches(version, node.aversion)?;
                let acl = mem::replace(&mut node.acl, acl);
                node.aversion = node.aversion.wrapping_add(1);
                let outcome = Outcome::AclSet(node.stat());
                Ok((outcome, Change::AclSet { path, acl }))
            }
            Operation::Check { path, version } => {
                matches(version, self.get(&path)?.written.version)?;
                Ok((Outcome::Checked, Change::Checked))
            }
        }
    }

    /// Takes back the last change that was made and not taken back yet.
    pub(super) fn undo(&mut self, change: Change) {
        match change {
            Change::Created { path, parent } => {
                self.remove(&path);
                self.restore_parent(&path, parent);
            }
            Change::Deleted { path, node, parent } => {
                self.insert(path.clone(), *node);
                self.restore_parent(&path, parent);
            }
            Change::DataSet { path, before } => {
                if let Some(node) = self.nodes.get_mut(&path) {
                    node.data = before.data;
                    node.written = before.written;
                }
            }
            Change::AclSet { path, acl } => {
                if let Some(node) = self.nodes.get_mut(&path) {
                    node.acl = acl;
                    node.aversion = node.aversion.wrapping_sub(1);
                }
            }
            Change::Checked => {}
        }
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.nodes.keys().map(String::as_str)
    }

    /// Puts a persistent node in its place as it once was; one that is there keeps its children. `false` when it has no
    /// parent.
    pub(super) fn restore(&mut self, path: String, mut node: Node) -> bool {
        if let Some(present) = self.nodes.get_mut(&path) {
            node.children = mem::take(&mut present.children);
            *present = node;
            return true;
        }
        let has_parent = self.parent_mut(&path).is_some();
        if has_parent {
            self.insert(path, node);
        }
        has_parent
    }

    /// `false` when there is no such node.
    pub(super) fn restore_children(&mut self, path: &str, children: ChildrenBefore) -> bool {
        let node = self.nodes.get_mut(path);
        let is_there = node.is_some();
        if let Some(node) = node {
            node.creates = children.creates;
            node.pzxid = children.pzxid;
        }
        is_there
    }

    /// Takes a node out that once was deleted, if it is there. `false` when it has children or is the server's own.
    pub(super) fn forget(&mut self, path: &str) -> bool {
        let is_free = self.get(path).map_or(true, |node| node.children.is_empty());
        let can_go = is_free && !OWN_NODES.contains(&path);
        if can_go {
            self.remove(path);
        }
        can_go
    }

    /// The order of the checks decides which error is seen; it is that of ZooKeeper 3.4.
    fn create(
        &mut self,
        mut path: String,
        flags: i32,
        (data, acl): (Option<Vec<u8>>, Vec<Acl>),
        session: i64,
        moment: Moment,
    ) -> Result<(Outcome, Change), NodeError> {
        let (parent_path, _) = node_path::split(&path)?;
        if acl.is_empty() {
            return Err(NodeError::InvalidAcl);
        }
        let parent = self.get(parent_path)?;
        let mode = CreateMode::from_flags(flags).ok_or(NodeError::BadArguments)?;
        if mode.is_sequential() {
            path.push_str(&format!("{:010}", parent.creates));
        }
        if !node_path::is_valid(&path) {
            return Err(NodeError::BadArguments);
        }
        if self.nodes.contains_key(&path) {
            return Err(NodeError::NodeExists);
        }
        if parent.owner.is_some() {
            return Err(NodeError::NoChildrenForEphemerals);
        }
        let owner = mode.is_ephemeral().then_some(session);
        let node = Node::new(data, acl, owner, moment);
        let before = self.insert(path.clone(), node);
        self.touch_parent(&path, 1, moment);
        let change = Change::Created {
            path: path.clone(),
            parent: before,
        };
        Ok((Outcome::Created(path), change))
    }

    fn delete(
        &mut self,
        path: String,
        version: Option<i32>,
        moment: Moment,
    ) -> Result<Change, NodeError> {
        let (parent, _) = node_path::split(&path)?;
        if OWN_NODES.contains(&path.as_str()) {
            return Err(NodeError::BadArguments);
        }
        let parent = self.get(parent)?.children_before();
        let node = self.get(&path)?;
        matches(version, node.written.version)?;
        if !node.children.is_empty() {
            return Err(NodeError::NotEmpty);
        }
        let node = self.remove(&path).ok_or(NodeError::NoNode)?;
        self.touch_parent(&path, 0, moment);
        let node = Box::new(node);
        Ok(Change::Deleted { path, node, parent })
    }

    fn set_data(
        &mut self,
        path: String,
        data: Option<Vec<u8>>,
        version: Option<i32>,
        moment: Moment,
    ) -> Result<(Outcome, Change), NodeError> {
        let node = self.get_mut(&path)?;
        matches(version, node.written.version)?;
        let written = Written {
            zxid: moment.zxid,
            time: moment.time,
            version: node.written.version.wrapping_add(1),
        };
        let before = DataBefore {
            data: mem::replace(&mut node.data, data),
            written: mem::replace(&mut node.written, written),
        };
        let outcome = Outcome::DataSet(node.stat());
        Ok((outcome, Change::DataSet { path, before }))
    }

    fn get_mut(&mut self, path: &str) -> Result<&mut Node, NodeError> {
        let path = if path.is_empty() { "/" } else { path };
        self.nodes.get_mut(path).ok_or(NodeError::NoNode)
    }

    /// Puts a node below its parent, and returns how the parent was before.
    fn insert(&mut self, path: String, node: Node) -> ChildrenBefore {
        let mut before = ChildrenBefore {
            creates: 0,
            pzxid: 0,
        };
        if let Some((parent, name)) = self.parent_mut(&path) {
            before = parent.children_before();
            parent.children.insert(name);
        }
        if let Some(owner) = node.owner {
            let owned = self.ephemerals.entry(owner).or_default();
            owned.insert(path.clone());
        }
        self.nodes.insert(path, node);
        before
    }

    fn remove(&mut self, path: &str) -> Option<Node> {
        let node = self.nodes.remove(path)?;
        if let Some((parent, name)) = self.parent_mut(path) {
            parent.children.remove(&name);
        }
        if let Some(owner) = node.owner
            && let Some(owned) = self.ephemerals.get_mut(&owner)
        {
            owned.remove(path);
            if owned.is_empty() {
                self.ephemerals.remove(&owner);
            }
        }
        Some(node)
    }

    fn touch_parent(&mut self, path: &str, creates: i32, moment: Moment) {
        if let Some((parent, _)) = self.parent_mut(path) {
            parent.creates = parent.creates.wrapping_add(creates);
            parent.pzxid = moment.zxid;
        }
    }

    fn restore_parent(&mut self, path: &str, before: ChildrenBefore) {
        if let Some((parent, _)) = self.parent_mut(path) {
            parent.creates = before.creates;
            parent.pzxid = before.pzxid;
        }
    }

    fn parent_mut(&mut self, path: &str) -> Option<(&mut Node, String)> {
        let (parent, name) = node_path::split(path).ok()?;
        Some((self.get_mut(parent).ok()?, name.to_owned()))
    }
}

fn matches(expected: Option<i32>, version: i32) -> Result<(), NodeError> {
    match expected {
        Some(expected) if expected != version => Err(NodeError::BadVersion),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const SESSION: i64 = 7;

    fn operation() -> impl Strategy<Value = Operation> {
        let path = "/[ab](/[ab](/[ab])?)?";
        let version = proptest::option::of(0..2_i32);
        let kind = prop_oneof![4 => Just(0), 3 => Just(1), 2 => Just(2), 1 => Just(3)];
        (kind, path, version, 0..4_i32, any::<u8>()).prop_map(
            |(kind, path, version, flags, byte)| match kind {
                0 => Operation::Create {
                    path,
                    data: Some(vec![byte]),
                    acl: Acl::open(),
                    flags,
                },
                1 => Operation::Delete { path, version },
                2 => Operation::SetData {
                    path,
                    data: (byte > 9).then(|| vec![byte, byte]),
                    version,
                },
                _ => Operation::Check { path, version },
            },
        )
    }

    fn moment(zxid: i64) -> Moment {
        let time = zxid * 10;
        Moment { zxid, time }
    }

    /// All that can be seen of a tree.
    fn look(tree: &DataTree) -> Vec<String> {
        let mut lines: Vec<_> = tree
            .nodes
            .iter()
            .map(|(path, node)| format!("{path} {node:?} {:?}", node.stat()))
            .collect();
        lines.sort();
        lines.extend(tree.ephemerals(SESSION));
        lines.push(tree.ephemerals.len().to_string());
        lines
    }

    proptest! {
        #[test]
        fn what_is_undone_never_happened(
            before in vec(operation(), 0..20),
            undone in vec(operation(), 0..20),
        ) {
            let mut tree = DataTree::new();
            for (zxid, operation) in (1..).zip(before) {
                let _ = tree.apply(operation, SESSION, moment(zxid));
            }
            let seen = look(&tree);
            let operations = undone.into_iter();
            let changes: Vec<_> = operations
                .filter_map(|operation| tree.apply(operation, SESSION, moment(1000)).ok())
                .collect();
            for (_, change) in changes.into_iter().rev() {
                tree.undo(change);
            }
            prop_assert_eq!(look(&tree), seen);
        }

        #[test]
        fn parents_and_owners_agree_with_the_nodes(operations in vec(operation(), 0..40)) {
            let mut tree = DataTree::new();
            for (zxid, operation) in (1..).zip(operations) {
                let seen = look(&tree);
                if tree.apply(operation, SESSION, moment(zxid)).is_err() {
                    prop_assert_eq!(look(&tree), seen, "a refused write changes nothing");
                }
            }
            let mut children = 0;
            for (path, node) in &tree.nodes {
                for name in &node.children {
                    let child = format!("{}/{name}", path.trim_end_matches('/'));
                    prop_assert!(tree.nodes.contains_key(&child));
                }
                children += node.children.len();
                prop_assert!(node.owner.is_none() || node.children.is_empty());
                let is_owned = tree.ephemerals(SESSION).contains(path);
                prop_assert_eq!(is_owned, node.owner.is_some());
            }
            prop_assert_eq!(children + 1, tree.len(), "every node but the root has a parent");
        }
    }
}
