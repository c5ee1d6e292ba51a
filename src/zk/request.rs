use zookeeper_client::Acls;
use zookeeper_client::Error;
use zookeeper_client::Stat;

use crate::zk::client::CreateMode;
use crate::zk::client::CreateOutcome;
use crate::zk::client::Znode;
use crate::zk::error::ZkError;
use crate::zk::link::Link;

/// One request to a server, which can be repeated over another link.
pub(super) trait Request: Send + Sync + 'static {
    type Reply: Send + 'static;

    /// Whether it changes anything; then it belongs to the session in which it was asked for.
    const WRITES: bool;

    fn path(&self) -> &str;

    /// Puts the request on the wire *before* it returns; the future waits for the answer.
    /// (Only requests that never go into a pipeline may do so when first polled.)
    fn send<'a>(
        &'a self,
        attempt: Attempt<'a>,
    ) -> impl Future<Output = Result<Self::Reply, Failure>> + Send + 'a;
}

/// Over which link, and after what.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    pub(super) link: &'a Link,
    /// An earlier attempt may have been carried out without our learning of it.
    pub(super) uncertain: bool,
}

/// How an attempt can fail.
pub(super) enum Failure {
    /// No answer: what became of the request is unknown. Another attempt may succeed.
    Lost,
    /// The server's last word.
    Refused(ZkError),
}

impl Failure {
    pub(super) fn new(path: &str, error: Error) -> Self {
        let path = String::from(path);
        let error = match error {
            Error::NoNode => ZkError::NoNode { path },
            Error::BadVersion => ZkError::BadVersion { path },
            Error::NotEmpty => ZkError::NotEmpty { path },
            Error::NoAuth => ZkError::NoAuth { path },
            // The crate has many words for a broken connection. Whether the session is over as
            // well, the supervisor finds out by asking for it.
            Error::ConnectionLoss
            | Error::Custom(_)
            | Error::UnexpectedError(_)
            | Error::Timeout
            | Error::ClientClosed
            | Error::SessionExpired
            | Error::SessionMoved
            | Error::NotReadOnly
            | Error::Throttled => return Self::Lost,
            // ConnectionLoss and OperationTimeout of the server's own upstream.
            Error::UnexpectedErrorCode(-4 | -7) => return Self::Lost,
            error => ZkError::Other {
                path,
                source: Box::new(error),
            },
        };
        Self::Refused(error)
    }
}

/// Turns "no node" into `None`.
pub(super) fn optional<T>(result: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Refused(ZkError::NoNode { .. })) => Ok(None),
        Err(failure) => Err(failure),
    }
}

pub(super) fn znode(data: Vec<u8>, stat: &Stat) -> Znode {
    // The other sign of an owner is that of containers, which nobody owns.
    let owned = stat.ephemeral_owner != 0 && stat.ephemeral_owner != i64::MIN;
    Znode {
        data,
        version: stat.version,
        ephemeral_owner: owned.then_some(stat.ephemeral_owner),
    }
}

pub(super) struct Get(pub(super) String);

impl Request for Get {
    type Reply = Option<Znode>;
    const WRITES: bool = false;

    fn path(&self) -> &str {
        &self.0
    }

    fn send<'a>(
        &'a self,
        attempt: Attempt<'a>,
    ) -> impl Future<Output = Result<Option<Znode>, Failure>> + Send + 'a {
        let sent = attempt.link.client.get_data(&self.0);
        async move {
            let got = sent.await.map_err(|error| Failure::new(&self.0, error));
            Ok(optional(got)?.map(|(data, stat)| znode(data, &stat)))
        }
    }
}

#[cfg(test)]
pub(super) struct Exists(pub(super) String);

#[cfg(test)]
impl Request for Exists {
    type Reply = bool;
    const WRITES: bool = false;

    fn path(&self) -> &str {
        &self.0
    }

    fn send<'a>(
        &'a self,
        attempt: Attempt<'a>,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + 'a {
        let sent = attempt.link.client.check_stat(&self.0);
        async move {
            let stat = sent.await.map_err(|error| Failure::new(&self.0, error))?;
            Ok(stat.is_some())
        }
    }
}

pub(super) struct Children(pub(super) String);

impl Request for Children {
    type Reply = Option<Vec<String>>;
    const WRITES: bool = false;

    fn path(&self) -> &str {
        &self.0
    }

    fn send<'a>(
        &'a self,
        attempt: Attempt<'a>,
    ) -> impl Future<Output = Result<Option<Vec<String>>, Failure>> + Send + 'a {
        let sent = attempt.link.client.list_children(&self.0);
        async move {
            let listed = sent.await.map_err(|error| Failure::new(&self.0, error));
            Ok(optional(listed)?.map(sorted))
        }
    }
}

pub(super) fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names
}

pub(super) struct Create {
    pub(super) path: String,
    pub(super) data: Vec<u8>,
    pub(super) mode: CreateMode,
}

impl Request for Create {
    type Reply = CreateOutcome;
    const WRITES: bool = true;

    fn path(&self) -> &str {
        &self.path
    }

    fn send<'a>(
        &'a self,
        attempt: Attempt<'a>,
    ) -> impl Future<Output = Result<CreateOutcome, Failure>> + Send + 'a {
        let client = &attempt.link.client;
        let mode = match self.mode {
            CreateMode::Persistent => zookeeper_client::CreateMode::Persistent,
            CreateMode::Ephemeral => zookeeper_client::CreateMode::Ephemeral,
        };
        let options = mode.with_acls(Acls::anyone_all());
        let sent = client.create(&self.path, &self.data, &options);
        async move {
            match sent.await {
                Ok(_) => return Ok(CreateOutcome::Created),
                Err(Error::NodeExists) => {}
                Err(error) => return Err(Failure::new(&self.path, error)),
            }
            if !attempt.uncertain || self.mode == CreateMode::Persistent {
                return Ok(CreateOutcome::Exists);
            }
            // Perhaps it exists because the first attempt had come through after all.
            let stat = client.check_stat(&self.path).await;
            match stat.map_err(|error| Failure::new(&self.path, error))? {
                Some(stat) if stat.ephemeral_owner == attempt.link.session => {
                    Ok(CreateOutcome::Created)
                }
                Some(_) => Ok(CreateOutcome::Exists),
                // Gone in between; the next attempt creates it.
                None => Err(Failure::Lost),
            }
        }
    }
}

pub(super) struct Set {
    pub(super) path: String,
    pub(super) data: Vec<u8>,
    pub(super) version: Option<i32>,
}

impl Request for Set {
    /// The new version.
    type Reply = i32;
    const WRITES: bool = true;

    fn path(&self) -> &str {
        &self.path
    }

    fn send<'a>(
        &'a self,
        attempt: Attempt<'a>,
    ) -> impl Future<Output = Result<i32, Failure>> + Send + 'a {
        let client = &attempt.link.client;
        let sent = client.set_data(&self.path, &self.data, self.version);
        async move {
            let error = match sent.await {
                Ok(stat) => return Ok(stat.version),
                Err(error) => error,
            };
            if attempt.uncertain && error == Error::BadVersion {
                // Perhaps it differs because the first attempt had come through after all.
                let expected = self.version.map(|version| version.wrapping_add(1));
                let got = client.get_data(&self.path).await;
                let (data, stat) = got.map_err(|error| Failure::new(&self.path, error))?;
                if Some(stat.version) == expected && data == self.data {
                    return Ok(stat.version);
                }
            }
            Err(Failure::new(&self.path, error))
        }
    }
}

pub(super) struct Delete {
    pub(super) path: String,
    pub(super) version: Option<i32>,
}

impl Request for Delete {
    /// `false` when there was no node.
    type Reply = bool;
    const WRITES: bool = true;

    fn path(&self) -> &str {
        &self.path
    }

    fn send<'a>(
        &'a self,
        attempt: Attempt<'a>,
    ) -> impl Future<Output = Result<bool, Failure>> + Send + 'a {
        let sent = attempt.link.client.delete(&self.path, self.version);
        async move {
            match sent.await {
                Ok(()) => Ok(true),
                // After an attempt of unknown outcome the node is gone most likely because of it.
                Err(Error::NoNode) => Ok(attempt.uncertain),
                Err(error) => Err(Failure::new(&self.path, error)),
            }
        }
    }
}
