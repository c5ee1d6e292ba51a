//! What a write did.

use crate::embedded::zookeeper::node::ChildrenBefore;
use crate::embedded::zookeeper::node::Node;
use crate::embedded::zookeeper::node::Written;
use crate::embedded::zookeeper::transaction::Acl;

/// What a write did, with all that is needed to undo it.
#[derive(Debug)]
pub(super) enum Change {
    Created {
        path: String,
        parent: ChildrenBefore,
    },
    Deleted {
        path: String,
        node: Box<Node>,
        parent: ChildrenBefore,
    },
    DataSet {
        path: String,
        before: DataBefore,
    },
    AclSet {
        path: String,
        acl: Vec<Acl>,
    },
    Checked,
}

/// The data of a node, and when it was written, before it was written again.
#[derive(Debug)]
pub(super) struct DataBefore {
    pub(super) data: Option<Vec<u8>>,
    pub(super) written: Written,
}
