//! Nodes as the journal keeps them.

use crate::embedded::zookeeper::change::Change;
use crate::embedded::zookeeper::data_tree::DataTree;
use crate::embedded::zookeeper::node::ChildrenBefore;
use crate::embedded::zookeeper::node::Node;
use crate::embedded::zookeeper::node::Written;
use crate::embedded::zookeeper::node_path;
use crate::embedded::zookeeper::record_reader::MalformedRecord;
use crate::embedded::zookeeper::record_reader::RecordReader;
use crate::embedded::zookeeper::record_writer::RecordWriter;
use crate::embedded::zookeeper::transaction::Moment;

const NODE: i32 = 1;
const CHILDREN: i32 = 2;
const DELETED: i32 = 3;

/// One thing that a transaction did to persistent nodes.
#[derive(Debug)]
pub(super) enum Part {
    /// The node is like this now.
    Node {
        path: String,
        node: Box<Node>,
    },
    /// Children of the node came or went.
    Children {
        path: String,
        children: ChildrenBefore,
    },
    Deleted {
        path: String,
    },
}

/// What has to be kept of a change, now that it is made. Ephemeral nodes only count as children.
pub(super) fn parts_of(tree: &DataTree, change: &Change) -> Vec<Part> {
    let mut parts = Vec::new();
    match change {
        Change::Created { path, .. } => {
            parts.extend(node_at(tree, path));
            parts.extend(children_of_parent(tree, path));
        }
        Change::Deleted { path, node, .. } => {
            let path = path.clone();
            parts.extend(children_of_parent(tree, &path));
            parts.extend(node.owner.is_none().then_some(Part::Deleted { path }));
        }
        Change::DataSet { path, .. } | Change::AclSet { path, .. } => {
            parts.extend(node_at(tree, path));
        }
        Change::Checked => {}
    }
    parts
}

/// All persistent nodes, parents before their children.
pub(super) fn parts_of_all(tree: &DataTree) -> Vec<Part> {
    let mut paths: Vec<&str> = tree.paths().collect();
    paths.sort_unstable();
    let nodes = paths.into_iter().filter_map(|path| node_at(tree, path));
    nodes.collect()
}

fn node_at(tree: &DataTree, path: &str) -> Option<Part> {
    let node = tree.get(path).ok().filter(|node| node.owner.is_none())?;
    Some(Part::Node {
        path: path.to_owned(),
        node: Box::new(node.clone()),
    })
}

fn children_of_parent(tree: &DataTree, path: &str) -> Option<Part> {
    let (parent, _) = node_path::split(path).ok()?;
    let children = tree.get(parent).ok()?.children_before();
    Some(Part::Children {
        path: parent.to_owned(),
        children,
    })
}

impl Part {
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Node { path, .. } | Self::Children { path, .. } | Self::Deleted { path } => path,
        }
    }

    pub(super) fn write(&self, record: RecordWriter) -> RecordWriter {
        match self {
            Self::Node { path, node } => {
                let record = record.i32(NODE).string(path).buffer(node.data.as_deref());
                let record = record.acl(&node.acl).i64(node.czxid).i64(node.ctime);
                let record = record.i64(node.written.zxid).i64(node.written.time);
                let record = record.i32(node.written.version).i32(node.aversion);
                record.i32(node.creates).i64(node.pzxid)
            }
            Self::Children { path, children } => {
                let record = record.i32(CHILDREN).string(path);
                record.i32(children.creates).i64(children.pzxid)
            }
            Self::Deleted { path } => record.i32(DELETED).string(path),
        }
    }

    pub(super) fn read(record: &mut RecordReader) -> Result<Self, MalformedRecord> {
        let kind = record.i32("kind")?;
        let path = record.string("path")?;
        match kind {
            NODE => {
                let node = Box::new(read_node(record)?);
                Ok(Self::Node { path, node })
            }
            CHILDREN => {
                let children = read_children(record)?;
                Ok(Self::Children { path, children })
            }
            DELETED => Ok(Self::Deleted { path }),
            _ => Err(MalformedRecord { field: "kind" }),
        }
    }

    /// `false` for a node without a parent, or one that cannot go.
    pub(super) fn apply(self, tree: &mut DataTree) -> bool {
        match self {
            Self::Node { path, node } => tree.restore(path, *node),
            Self::Children { path, children } => tree.restore_children(&path, children),
            Self::Deleted { path } => tree.forget(&path),
        }
    }
}

fn read_node(record: &mut RecordReader) -> Result<Node, MalformedRecord> {
    let data = record.buffer("data")?.map(<[u8]>::to_vec);
    let acl = record.acl("acl")?;
    let zxid = record.i64("czxid")?;
    let time = record.i64("ctime")?;
    let mut node = Node::new(data, acl, None, Moment { zxid, time });
    node.written = Written {
        zxid: record.i64("mzxid")?,
        time: record.i64("mtime")?,
        version: record.i32("version")?,
    };
    node.aversion = record.i32("aversion")?;
    let children = read_children(record)?;
    node.creates = children.creates;
    node.pzxid = children.pzxid;
    Ok(node)
}

fn read_children(record: &mut RecordReader) -> Result<ChildrenBefore, MalformedRecord> {
    Ok(ChildrenBefore {
        creates: record.i32("creates")?,
        pzxid: record.i64("pzxid")?,
    })
}
