/// Why an operation on a node was refused; nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The node, or the parent of a node to create, does not exist.
    #[error("no such node")]
    NoNode,
    /// The node to create is there already.
    #[error("node exists")]
    NodeExists,
    /// The node has another version than the one named.
    #[error("node has another version")]
    BadVersion,
    /// A node with children cannot be deleted.
    #[error("node has children")]
    NotEmpty,
    /// The parent of the node to create is ephemeral.
    #[error("ephemeral nodes have no children")]
    NoChildrenForEphemerals,
    /// The path or the kind of node makes no sense, or the node is one of the server's own.
    #[error("bad arguments")]
    BadArguments,
    /// An access list without entries.
    #[error("invalid access list")]
    InvalidAcl,
    /// The session has expired or was closed.
    #[error("session expired")]
    SessionExpired,
    /// The server is stopped.
    #[error("server is stopped")]
    ConnectionLoss,
    /// The change cannot be kept on disk.
    #[error("cannot be kept on disk")]
    Storage,
}

impl NodeError {
    pub(super) fn wire_code(self) -> i32 {
        match self {
            // As a server says it that fails within.
            Self::Storage => -1,
            Self::ConnectionLoss => -4,
            Self::BadArguments => -8,
            Self::NoNode => -101,
            Self::BadVersion => -103,
            Self::NoChildrenForEphemerals => -108,
            Self::NodeExists => -110,
            Self::NotEmpty => -111,
            Self::SessionExpired => -112,
            Self::InvalidAcl => -114,
        }
    }
}
