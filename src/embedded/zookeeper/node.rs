//! One node of the tree.

use std::collections::BTreeSet;

use crate::embedded::zookeeper::stat::Stat;
use crate::embedded::zookeeper::transaction::Acl;
use crate::embedded::zookeeper::transaction::Moment;

/// A node without its path, which it is found by.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) data: Option<Vec<u8>>,
    pub(super) acl: Vec<Acl>,
    pub(super) children: BTreeSet<String>,
    pub(super) czxid: i64,
    pub(super) pzxid: i64,
    pub(super) ctime: i64,
    pub(super) written: Written,
    pub(super) aversion: i32,
    /// Children ever created; numbers the sequential ones.
    pub(super) creates: i32,
    pub(super) owner: Option<i64>,
}

/// The last write of a node's data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) zxid: i64,
    pub(super) time: i64,
    pub(super) version: i32,
}

/// The last change to the children of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChildrenBefore {
    pub(super) creates: i32,
    pub(super) pzxid: i64,
}

impl Node {
    pub(super) fn new(
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        owner: Option<i64>,
        Moment { zxid, time }: Moment,
    ) -> Self {
        Self {
            data,
            acl,
            children: BTreeSet::new(),
            czxid: zxid,
            pzxid: zxid,
            ctime: time,
            written: Written {
                zxid,
                time,
                version: 0,
            },
            aversion: 0,
            creates: 0,
            owner,
        }
    }

    pub(super) fn stat(&self) -> Stat {
        let count = |length: usize| i32::try_from(length).unwrap_or(i32::MAX);
        let num_children = count(self.children.len());
        Stat {
            czxid: self.czxid,
            mzxid: self.written.zxid,
            pzxid: self.pzxid,
            ctime: self.ctime,
            mtime: self.written.time,
            version: self.written.version,
            // As in ZooKeeper 3.4: every child that is gone was created and deleted.
            cversion: self.creates.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: self.owner,
            data_length: count(self.data.as_ref().map_or(0, Vec::len)),
            num_children,
        }
    }

    pub(super) fn children_before(&self) -> ChildrenBefore {
        ChildrenBefore {
            creates: self.creates,
            pzxid: self.pzxid,
        }
    }
}
