use crate::error::Error;

/// Why a call to ZooKeeper failed. Paths are relative to the chroot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ZkError {
    /// The node, or the parent of a node to create, does not exist.
    #[error("no node at or above {path}")]
    NoNode { path: String },

    /// The node's data has another version than the call named.
    #[error("{path} was changed by somebody else")]
    BadVersion { path: String },

    /// A node with children cannot be deleted.
    #[error("{path} has children")]
    NotEmpty { path: String },

    /// The node's access list forbids the operation.
    #[error("not authorized for {path}")]
    NoAuth { path: String },

    /// The connection broke during a write and did not come back in time: the write may or may not
    /// have been carried out.
    #[error("connection lost, what became of {path} is unknown")]
    ConnectionLost { path: String },

    /// No connection, or no answer, until the deadline; nothing was changed.
    #[error("no answer about {path} in time")]
    Timeout { path: String },

    /// The session in which a write was asked for has ended.
    #[error("session expired")]
    SessionExpired,

    /// The client was cancelled or closed.
    #[error("cancelled")]
    Cancelled,

    /// Anything else, e.g. a malformed path or a child of an ephemeral node.
    #[error("{path} was refused")]
    Other {
        path: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<ZkError> for Error {
    fn from(error: ZkError) -> Self {
        match &error {
            ZkError::SessionExpired => Self::SessionExpired,
            ZkError::Cancelled => Self::Closed,
            ZkError::NoNode { path }
            | ZkError::BadVersion { path }
            | ZkError::NotEmpty { path }
            | ZkError::NoAuth { path }
            | ZkError::ConnectionLost { path }
            | ZkError::Timeout { path }
            | ZkError::Other { path, .. } => Self::ZooKeeper {
                doing: format!("accessing {path}"),
                source: Box::new(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_and_the_reason_reach_the_caller() {
        let path = String::from("/consumers");
        assert_eq!(
            Error::from(ZkError::NoNode { path }).chain(),
            "zookeeper: accessing /consumers: no node at or above /consumers"
        );
        assert!(matches!(Error::from(ZkError::Cancelled), Error::Closed));
        assert!(matches!(
            Error::from(ZkError::SessionExpired),
            Error::SessionExpired
        ));
    }
}
