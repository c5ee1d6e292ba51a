use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;

use crate::embedded::zookeeper::create_mode::CreateMode;
use crate::embedded::zookeeper::database::Database;
use crate::embedded::zookeeper::local_event::LocalEvent;
use crate::embedded::zookeeper::local_event::LocalEvents;
use crate::embedded::zookeeper::node::Node;
use crate::embedded::zookeeper::node_error::NodeError;
use crate::embedded::zookeeper::server::Server;
use crate::embedded::zookeeper::session::Outlet;
use crate::embedded::zookeeper::stat::Stat;
use crate::embedded::zookeeper::transaction::Operation;
use crate::embedded::zookeeper::transaction::Outcome;
use crate::embedded::zookeeper::watch_manager::WatchKind;
use crate::embedded::zookeeper::watch_manager::WatcherId;

/// A session inside the server's process: it owns ephemeral nodes and sets watches, but has no
/// connection, hence no timeout, and no fault of the network concerns it.
///
/// It ends when it is closed or dropped, or when
/// [`expire_session`](crate::embedded::EmbeddedZooKeeper::expire_session) ends it; then calls fail
/// with [`NodeError::SessionExpired`]. While the server is stopped they fail with
/// [`NodeError::ConnectionLoss`]; the session and its watches outlive that.
#[derive(Debug)]
pub struct LocalSession {
    server: Arc<Server>,
    id: i64,
    watcher: WatcherId,
    events: Arc<LocalEvents>,
}

impl LocalSession {
    pub(super) fn open(server: &Arc<Server>) -> Self {
        let events = Arc::new(LocalEvents::new());
        let mut database = server.database();
        let watcher = database.watcher(Outlet::Local(Arc::clone(&events)));
        let id = database.open_session(None, watcher);
        drop(database);
        Self {
            server: Arc::clone(server),
            id,
            watcher,
            events,
        }
    }

    /// Owner of its ephemeral nodes.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Creates a node and returns its path, which is longer than `path` when the node is
    /// sequential.
    ///
    /// # Errors
    /// [`NodeError::NodeExists`], or [`NodeError::NoNode`] when there is no parent.
    pub fn create(&self, path: &str, data: &[u8], mode: CreateMode) -> Result<String, NodeError> {
        match self.write(Operation::create(path, data, mode))? {
            Outcome::Created(path) => Ok(path),
            _ => Err(NodeError::BadArguments),
        }
    }

    /// As [`create`](Self::create), with persistent parents where they are missing.
    ///
    /// # Errors
    /// [`NodeError::NodeExists`]
    pub fn create_with_parents(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<String, NodeError> {
        for (end, _) in path.match_indices('/').skip(1) {
            let parent = path.get(..end).unwrap_or(path);
            match self.create(parent, b"", CreateMode::Persistent) {
                Ok(_) | Err(NodeError::NodeExists) => {}
                Err(error) => return Err(error),
            }
        }
        self.create(path, data, mode)
    }

    /// Data and state of a node.
    ///
    /// # Errors
    /// [`NodeError::NoNode`]
    pub fn get(&self, path: &str) -> Result<(Vec<u8>, Stat), NodeError> {
        self.data(path, None)
    }

    /// As [`get`](Self::get); an event tells of the next change.
    ///
    /// # Errors
    /// [`NodeError::NoNode`]; then no watch was set.
    pub fn get_and_watch(&self, path: &str) -> Result<(Vec<u8>, Stat), NodeError> {
        self.data(path, Some(self.watcher))
    }

    /// Overwrites the data of a node; a `version` other than `None` must be the node's.
    ///
    /// # Errors
    /// [`NodeError::NoNode`], [`NodeError::BadVersion`]
    pub fn set(&self, path: &str, data: &[u8], version: Option<i32>) -> Result<Stat, NodeError> {
        let operation = Operation::SetData {
            path: path.to_owned(),
            data: Some(data.to_vec()),
            version,
        };
        match self.write(operation)? {
            Outcome::DataSet(stat) => Ok(stat),
            _ => Err(NodeError::BadArguments),
        }
    }

    /// Deletes a node; a `version` other than `None` must be the node's.
    ///
    /// # Errors
    /// [`NodeError::NoNode`], [`NodeError::BadVersion`], [`NodeError::NotEmpty`]
    pub fn delete(&self, path: &str, version: Option<i32>) -> Result<(), NodeError> {
        let path = path.to_owned();
        self.write(Operation::Delete { path, version }).map(drop)
    }

    /// State of a node, `None` if there is none.
    ///
    /// # Errors
    /// Only when the session or the server has ended.
    pub fn exists(&self, path: &str) -> Result<Option<Stat>, NodeError> {
        optional(self.database()?.exists(path, None))
    }

    /// As [`exists`](Self::exists); an event tells when the node comes, changes or goes.
    ///
    /// # Errors
    /// Only when the session or the server has ended.
    pub fn exists_and_watch(&self, path: &str) -> Result<Option<Stat>, NodeError> {
        optional(self.database()?.exists(path, Some(self.watcher)))
    }

    /// Names of a node's children, in order.
    ///
    /// # Errors
    /// [`NodeError::NoNode`]
    pub fn children(&self, path: &str) -> Result<Vec<String>, NodeError> {
        self.names(path, None)
    }

    /// As [`children`](Self::children); an event tells of the next one that comes or goes.
    ///
    /// # Errors
    /// [`NodeError::NoNode`]; then no watch was set.
    pub fn children_and_watch(&self, path: &str) -> Result<Vec<String>, NodeError> {
        self.names(path, Some(self.watcher))
    }

    /// For `select!`: ready when events may be waiting; then [`take_events`](Self::take_events).
    pub fn bell(&self) -> &Receiver<()> {
        self.events.bell()
    }

    /// The events that came since, in order.
    pub fn take_events(&self) -> Vec<LocalEvent> {
        self.events.take()
    }

    /// Waits for the next event; `None` when none came in time.
    pub fn next_event(&self, limit: Duration) -> Option<LocalEvent> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(event) = self.events.pop() {
                return Some(event);
            }
            self.events.bell().recv_deadline(deadline).ok()?;
        }
    }

    /// Ends the session, and its ephemeral nodes with it, as dropping it does.
    pub fn close(self) {}

    /// Leaves the session to itself, as a process that crashes: it expires when `timeout` is over.
    pub fn abandon(self, timeout: Duration) {
        let mut database = self.server.database();
        if let Some(session) = database.sessions.get_mut(self.id) {
            session.expire_after(timeout);
        }
        database.detach(self.watcher, Some(self.id));
    }

    fn write(&self, operation: Operation) -> Result<Outcome, NodeError> {
        self.database()?.write(self.id, operation)
    }

    fn data(&self, path: &str, watcher: Option<WatcherId>) -> Result<(Vec<u8>, Stat), NodeError> {
        let mut database = self.database()?;
        let node = database.read(path, WatchKind::Data, watcher)?;
        Ok((node.data.clone().unwrap_or_default(), node.stat()))
    }

    fn names(&self, path: &str, watcher: Option<WatcherId>) -> Result<Vec<String>, NodeError> {
        let mut database = self.database()?;
        let node: &Node = database.read(path, WatchKind::Children, watcher)?;
        Ok(node.children.iter().cloned().collect())
    }

    fn database(&self) -> Result<parking_lot::MutexGuard<'_, Database>, NodeError> {
        let database = self.server.database();
        if !self.server.is_running() {
            return Err(NodeError::ConnectionLoss);
        }
        match database.is_attached(self.id, self.watcher) {
            true => Ok(database),
            false => Err(NodeError::SessionExpired),
        }
    }
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        let mut database = self.server.database();
        // Not if it was abandoned.
        if database.is_attached(self.id, self.watcher) {
            database.close_session(self.id);
        }
        database.detach(self.watcher, None);
    }
}

fn optional<T>(found: Result<T, NodeError>) -> Result<Option<T>, NodeError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(NodeError::NoNode) => Ok(None),
        Err(error) => Err(error),
    }
}
