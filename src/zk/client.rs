use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use async_executor::Executor;
use async_executor::Task;
use async_io::Timer;
use crossbeam_channel::Receiver;
use crossbeam_channel::bounded;
use parking_lot::Mutex;

use crate::config::ConnectString;
use crate::error::Error;
use crate::thread::ShutdownableThread;
use crate::thread::StopSignal;
use crate::zk::call::call;
use crate::zk::call::call_all;
use crate::zk::caller::Caller;
use crate::zk::error::ZkError;
use crate::zk::event::ZkEvent;
use crate::zk::event_queue::EventQueue;
use crate::zk::request::Children;
use crate::zk::request::Create;
use crate::zk::request::Delete;
#[cfg(all(test, any(feature = "embedded", feature = "real-brokers")))]
use crate::zk::request::Exists;
use crate::zk::request::Get;
use crate::zk::request::Set;
use crate::zk::session::Session;
use crate::zk::supervisor;
use crate::zk::watch_request::WatchChildren;
use crate::zk::watch_request::WatchData;

/// How often parents that others delete are created again for one node.
const PARENT_ATTEMPTS: usize = 8;
/// How often a tree is deleted again into which others keep creating nodes.
const TREE_ATTEMPTS: usize = 8;

/// Where ZooKeeper is and how long to wait for it.
#[derive(Clone, Debug)]
pub(crate) struct ZkConfig {
    /// `host:port[,host:port][/chroot]`.
    pub(crate) connect: String,
    /// Asked for; the servers may grant another.
    pub(crate) session_timeout: Duration,
    /// For the first connection.
    pub(crate) connection_timeout: Duration,
}

/// A node as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Znode {
    pub(crate) data: Vec<u8>,
    /// Counts the changes of the data, from 0.
    pub(crate) version: i32,
    /// The session that an ephemeral node ends with; `None` for a persistent node.
    pub(crate) ephemeral_owner: Option<i64>,
}

/// How long a node lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreateMode {
    Persistent,
    /// Until the end of the session at the latest.
    Ephemeral,
}

/// What became of a node to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreateOutcome {
    Created,
    /// There is a node already, whosoever. (A persistent node may be the call's own when the
    /// connection broke on the way; an ephemeral one is recognised.)
    Exists,
}

/// One ZooKeeper session, and the next one after it has expired.
///
/// Paths are relative to the chroot. Calls block, may be made from any thread, and end at the
/// latest after the session timeout (or the connection timeout, if that is longer), or as soon as
/// the client is cancelled. Short disconnects only delay them. A write fails with
/// [`ZkError::SessionExpired`] when the session in which it was asked for ends.
pub(crate) struct ZkClient {
    pub(super) session: Arc<Session>,
    /// Ends the calls made through this handle.
    caller: Caller,
    /// `None` once closed, and in a handle that only [observes](Self::observing).
    thread: Mutex<Option<ShutdownableThread>>,
    /// Waits to cancel all calls.
    cancelling: Mutex<Option<Task<()>>>,
}

impl ZkClient {
    /// Connects within the connection timeout. The receiver ends when the client is closed.
    ///
    /// # Errors
    /// [`Error::MissingChroot`], as the chroot is never created (KAFKA-2088); [`Error::ZooKeeper`]
    /// when no server can be reached.
    pub(crate) fn connect(config: ZkConfig) -> Result<(Arc<Self>, Receiver<ZkEvent>), Error> {
        let connect = ConnectString::parse(&config.connect)?;
        check_timeouts(&config)?;
        let executor = Arc::new(Executor::new());
        let (events, receiver) = EventQueue::new(Arc::clone(&executor));
        let session = Arc::new(Session::new(config, connect, executor, events));
        let (report, connected) = bounded(1);
        let supervised = Arc::clone(&session);
        let thread = ShutdownableThread::start("zk-session", move |_| {
            supervisor::run(supervised, report);
        })?;
        // The supervisor keeps to the connection timeout; were it to die, the channel would end.
        connected.recv().unwrap_or(Err(Error::Closed))?;
        let caller = Caller {
            stop: session.cancel_signal(),
            within_lease: false,
            session: None,
        };
        let client = Self {
            caller,
            session,
            thread: Mutex::new(Some(thread)),
            cancelling: Mutex::default(),
        };
        Ok((Arc::new(client), receiver))
    }

    /// The same session, for calls that also end at `stop`. It cannot be closed through this handle.
    pub(crate) fn observing(&self, stop: &StopSignal) -> Arc<Self> {
        self.handle(Caller {
            stop: stop.clone(),
            ..self.caller.clone()
        })
    }

    /// For calls that write in this session or not at all: what was claimed in it may belong to others in the next.
    pub(crate) fn in_session(&self, session: i64) -> Arc<Self> {
        self.handle(Caller {
            session: Some(session),
            ..self.caller.clone()
        })
    }

    /// The same session, for calls that do not wait for a connection beyond
    /// [`lease_ends`](Self::lease_ends): for a thread that has to act then.
    pub(crate) fn within_lease(&self) -> Arc<Self> {
        self.handle(Caller {
            within_lease: true,
            ..self.caller.clone()
        })
    }

    /// `None` between the expiry of a session and the next session.
    pub(crate) fn session_id(&self) -> Option<i64> {
        self.session.id()
    }

    /// As granted by the servers.
    pub(crate) fn session_timeout(&self) -> Duration {
        self.session.timeout()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.session.is_connected()
    }

    /// Until when the session is certainly alive: last contact plus session timeout.
    ///
    /// In the future while connected, in the past once the session has expired.
    pub(crate) fn lease_ends(&self) -> Instant {
        self.session.lease_ends()
    }

    /// Whether `session` is the present one and certainly alive, so that nobody else has what it owns. Does not block.
    pub(crate) fn is_leased(&self, session: i64) -> bool {
        self.session_id() == Some(session) && Instant::now() < self.lease_ends()
    }

    /// `None` when there is no node.
    pub(crate) fn get(&self, path: &str) -> Result<Option<Znode>, ZkError> {
        call(&self.session, &self.caller, Get(path.into()))
    }

    #[cfg(all(test, any(feature = "embedded", feature = "real-brokers")))]
    pub(crate) fn exists(&self, path: &str) -> Result<bool, ZkError> {
        call(&self.session, &self.caller, Exists(path.into()))
    }

    /// Names, sorted; `None` when there is no node.
    pub(crate) fn children(&self, path: &str) -> Result<Option<Vec<String>>, ZkError> {
        call(&self.session, &self.caller, Children(path.into()))
    }

    /// Creates one node. [`ZkError::NoNode`] when its parent is missing.
    pub(crate) fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<CreateOutcome, ZkError> {
        let create = Create {
            path: path.into(),
            data: data.into(),
            mode,
        };
        call(&self.session, &self.caller, create)
    }

    /// Creates a node and those of its parents that are missing, which become persistent and empty.
    /// [`ZkError::NoNode`] when the chroot itself is missing.
    pub(crate) fn create_with_parents(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<CreateOutcome, ZkError> {
        for _ in 0..PARENT_ATTEMPTS {
            match self.create(path, data, mode) {
                Err(ZkError::NoNode { .. }) => {}
                result => return result,
            }
            let parents = path.match_indices('/').skip(1);
            for parent in parents.filter_map(|(end, _)| path.get(..end)) {
                match self.create(parent, &[], CreateMode::Persistent) {
                    // Its own parent was deleted just now, or is the chroot.
                    Err(ZkError::NoNode { .. }) => break,
                    result => result?,
                };
            }
        }
        Err(ZkError::NoNode { path: path.into() })
    }

    /// Replaces the data of a node, if it has `version` where one is given. Returns the new version.
    /// [`ZkError::NoNode`] and [`ZkError::BadVersion`] tell what was in the way.
    pub(crate) fn set(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> Result<i32, ZkError> {
        let set = Set {
            path: path.into(),
            data: data.into(),
            version,
        };
        call(&self.session, &self.caller, set)
    }

    /// Deletes a node, if it has `version` where one is given. `false` when there was no node.
    pub(crate) fn delete(&self, path: &str, version: Option<i32>) -> Result<bool, ZkError> {
        let delete = Delete {
            path: path.into(),
            version,
        };
        call(&self.session, &self.caller, delete)
    }

    /// Deletes a node and all below it. There may be no such node.
    pub(crate) fn delete_recursively(&self, path: &str) -> Result<(), ZkError> {
        if path == "/" {
            return Err(ZkError::Other {
                path: path.into(),
                source: "the root is never deleted".into(),
            });
        }
        let mut result = Ok(());
        for _ in 0..TREE_ATTEMPTS {
            result = self.delete_tree(path);
            if !matches!(result, Err(ZkError::NotEmpty { .. })) {
                break;
            }
        }
        result
    }

    /// [`get`](Self::get) of many nodes in one pipeline.
    pub(crate) fn get_all(&self, paths: &[String]) -> Vec<Result<Option<Znode>, ZkError>> {
        let requests = paths.iter().cloned().map(Get).collect();
        call_all(&self.session, &self.caller, requests)
    }

    /// [`children`](Self::children) of many nodes in one pipeline.
    pub(crate) fn children_all(
        &self,
        paths: &[String],
    ) -> Vec<Result<Option<Vec<String>>, ZkError>> {
        let requests = paths.iter().cloned().map(Children).collect();
        call_all(&self.session, &self.caller, requests)
    }

    /// [`create`](Self::create) of many nodes (path, data) in one pipeline.
    pub(crate) fn create_all(
        &self,
        nodes: &[(String, Vec<u8>)],
        mode: CreateMode,
    ) -> Vec<Result<CreateOutcome, ZkError>> {
        let nodes = nodes.iter().cloned();
        let requests = nodes.map(|(path, data)| Create { path, data, mode });
        call_all(&self.session, &self.caller, requests.collect())
    }

    /// [`set`](Self::set) of many nodes (path, data, version) in one pipeline.
    pub(crate) fn set_all(
        &self,
        nodes: &[(String, Vec<u8>, Option<i32>)],
    ) -> Vec<Result<i32, ZkError>> {
        let nodes = nodes.iter().cloned();
        let requests = nodes.map(|(path, data, version)| Set {
            path,
            data,
            version,
        });
        call_all(&self.session, &self.caller, requests.collect())
    }

    /// [`delete`](Self::delete) of many nodes (path, version) in one pipeline, in this order.
    pub(crate) fn delete_all(&self, nodes: &[(String, Option<i32>)]) -> Vec<Result<bool, ZkError>> {
        let nodes = nodes.iter().cloned();
        let requests = nodes.map(|(path, version)| Delete { path, version });
        call_all(&self.session, &self.caller, requests.collect())
    }

    /// Lists children, and has the next change of them told once: [`ZkEvent::ChildrenChanged`], or
    /// [`ZkEvent::NodeDeleted`]. Where there is no node (`None`), its creation is told:
    /// [`ZkEvent::NodeCreated`].
    ///
    /// After any event of the path the caller asks again. Asking while a watch is waiting is
    /// harmless; the watches survive all but the end of the session.
    pub(crate) fn watch_children(&self, path: &str) -> Result<Option<Vec<String>>, ZkError> {
        call(&self.session, &self.caller, WatchChildren(path.into()))
    }

    /// Reads a node, and has the next change of it told once: [`ZkEvent::DataChanged`],
    /// [`ZkEvent::NodeDeleted`] or [`ZkEvent::NodeCreated`]. Otherwise as
    /// [`watch_children`](Self::watch_children).
    pub(crate) fn watch_data(&self, path: &str) -> Result<Option<Znode>, ZkError> {
        call(&self.session, &self.caller, WatchData(path.into()))
    }

    /// [`watch_data`](Self::watch_data) of many nodes in one pipeline.
    pub(crate) fn watch_data_all(&self, paths: &[String]) -> Vec<Result<Option<Znode>, ZkError>> {
        let requests = paths.iter().cloned().map(WatchData).collect();
        call_all(&self.session, &self.caller, requests)
    }

    /// From now on every call, also one that waits, ends at once with [`ZkError::Cancelled`]. The
    /// session goes on until [`close`](Self::close).
    pub(crate) fn cancel(&self) {
        self.session.cancel();
    }

    /// [`cancel`](Self::cancel)s at that time, if the client is not closed before.
    pub(crate) fn cancel_at(&self, when: Instant) {
        let session = Arc::downgrade(&self.session);
        let cancelling = self.session.executor.spawn(async move {
            Timer::at(when).await;
            if let Some(session) = session.upgrade() {
                session.cancel();
            }
        });
        *self.cancelling.lock() = Some(cancelling);
    }

    /// Takes a [`cancel_at`](Self::cancel_at) back whose time has not come.
    pub(crate) fn cancel_later(&self) {
        drop(self.cancelling.lock().take());
    }

    /// Stopped when all calls are cancelled.
    pub(crate) fn cancel_signal(&self) -> StopSignal {
        self.session.cancel_signal()
    }

    /// Cancels all calls and ends the session, whereupon the servers delete its ephemeral nodes.
    ///
    /// Takes as long as the servers need to confirm, at most 1.5 s. Harmless when
    /// called again.
    pub(crate) fn close(&self) {
        let thread = self.thread.lock().take();
        if let Some(mut thread) = thread {
            drop(self.cancelling.lock().take());
            self.cancel();
            self.session.closing.ring();
            thread.stop();
        }
    }

    /// Another handle of the same session.
    fn handle(&self, caller: Caller) -> Arc<Self> {
        Arc::new(Self {
            session: Arc::clone(&self.session),
            caller,
            thread: Mutex::new(None),
            cancelling: Mutex::default(),
        })
    }

    fn delete_tree(&self, path: &str) -> Result<(), ZkError> {
        let mut tree = vec![String::from(path)];
        let mut level = tree.clone();
        while !level.is_empty() {
            let mut below = Vec::new();
            for (parent, children) in level.iter().zip(self.children_all(&level)) {
                let children = children?.unwrap_or_default();
                below.extend(children.iter().map(|child| format!("{parent}/{child}")));
            }
            tree.extend(below.iter().cloned());
            level = below;
        }
        let nodes: Vec<_> = tree.into_iter().rev().map(|path| (path, None)).collect();
        self.delete_all(&nodes)
            .into_iter()
            .try_for_each(|deleted| deleted.map(drop))
    }
}

impl Drop for ZkClient {
    fn drop(&mut self) {
        self.close();
    }
}

fn check_timeouts(config: &ZkConfig) -> Result<(), Error> {
    let timeouts = [
        ("zookeeper.session.timeout.ms", config.session_timeout),
        ("zookeeper.connection.timeout.ms", config.connection_timeout),
    ];
    for (key, timeout) in timeouts {
        let millis = timeout.as_millis();
        if millis == 0 || i32::try_from(millis).is_err() {
            return Err(Error::InvalidConfig {
                key: key.into(),
                reason: format!("{millis} is not between 1 and {}", i32::MAX),
            });
        }
    }
    Ok(())
}
