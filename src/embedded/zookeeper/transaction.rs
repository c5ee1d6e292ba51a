use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use crate::embedded::zookeeper::create_mode::CreateMode;
use crate::embedded::zookeeper::stat::Stat;

/// Who is allowed what; stored and shown, not enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acl {
    pub(super) permissions: i32,
    pub(super) scheme: String,
    pub(super) id: String,
}

impl Acl {
    pub(super) fn open() -> Vec<Self> {
        vec![Self {
            permissions: 31,
            scheme: String::from("world"),
            id: String::from("anyone"),
        }]
    }
}

/// When, in the order of the server and in the world, something was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) zxid: i64,
    /// Milliseconds since 1970.
    pub(super) time: i64,
}

impl Moment {
    pub(super) fn now(zxid: i64) -> Self {
        Self {
            zxid,
            time: i64::try_from(milliseconds()).unwrap_or(i64::MAX),
        }
    }
}

/// Milliseconds since 1970.
pub(super) fn milliseconds() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| {
        u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
    })
}

/// One write. A version of `None` is any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Create {
        path: String,
        data: Option<Vec<u8>>,
        acl: Vec<Acl>,
        /// See [`CreateMode::from_flags`].
        flags: i32,
    },
    Delete {
        path: String,
        version: Option<i32>,
    },
    SetData {
        path: String,
        data: Option<Vec<u8>>,
        version: Option<i32>,
    },
    SetAcl {
        path: String,
        acl: Vec<Acl>,
        version: Option<i32>,
    },
    Check {
        path: String,
        version: Option<i32>,
    },
}

impl Operation {
    /// A create with an access list that is open to all.
    pub(super) fn create(path: &str, data: &[u8], mode: CreateMode) -> Self {
        Self::Create {
            path: path.to_owned(),
            data: Some(data.to_vec()),
            acl: Acl::open(),
            flags: mode.flags(),
        }
    }
}

/// What a write came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With the path, which is longer than asked for when the node is sequential.
    Created(String),
    Deleted,
    DataSet(Stat),
    AclSet(Stat),
    Checked,
}
