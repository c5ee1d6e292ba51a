use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::embedded::zookeeper::change::Change;
use crate::embedded::zookeeper::data_tree::DataTree;
use crate::embedded::zookeeper::journal::Journal;
use crate::embedded::zookeeper::local_event::LocalEvent;
use crate::embedded::zookeeper::node::Node;
use crate::embedded::zookeeper::node_error::NodeError;
use crate::embedded::zookeeper::outbox::Outbox;
use crate::embedded::zookeeper::reply;
use crate::embedded::zookeeper::session::Outlet;
use crate::embedded::zookeeper::session::SessionInfo;
use crate::embedded::zookeeper::session::SessionTable;
use crate::embedded::zookeeper::session::password_of;
use crate::embedded::zookeeper::stat::Stat;
use crate::embedded::zookeeper::transaction::Moment;
use crate::embedded::zookeeper::transaction::Operation;
use crate::embedded::zookeeper::transaction::Outcome;
use crate::embedded::zookeeper::watch_manager::EventKind;
use crate::embedded::zookeeper::watch_manager::WatchKind;
use crate::embedded::zookeeper::watch_manager::WatchManager;
use crate::embedded::zookeeper::watch_manager::WatcherId;

/// All that the server knows. Whoever holds its lock makes the next transaction, and its events
/// are in the outboxes before the lock is free.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) tree: DataTree,
    pub(super) sessions: SessionTable,
    watches: WatchManager,
    /// Of the last transaction, failed ones included.
    zxid: i64,
    next_watcher: WatcherId,
    outlets: HashMap<WatcherId, Outlet>,
    /// Keeps the persistent nodes.
    journal: Option<Journal>,
}

/// Which operation of several failed, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rejected {
    pub(super) index: usize,
    pub(super) error: NodeError,
}

/// What a client knew when it set its watches again.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KnownWatches {
    pub(super) zxid: i64,
    pub(super) data: Vec<String>,
    pub(super) exists: Vec<String>,
    pub(super) children: Vec<String>,
}

impl Database {
    /// With the nodes that the folder keeps, if there is one.
    pub(super) fn open(folder: Option<&Path>) -> io::Result<Self> {
        let opened = folder.map(Journal::open).transpose()?;
        let (journal, tree, zxid) = match opened {
            Some((journal, tree, zxid)) => (Some(journal), tree, zxid),
            None => (None, DataTree::new(), 0),
        };
        Ok(Self {
            tree,
            sessions: SessionTable::new(),
            watches: WatchManager::default(),
            zxid,
            next_watcher: 0,
            outlets: HashMap::new(),
            journal,
        })
    }

    pub(super) fn zxid(&self) -> i64 {
        self.zxid
    }

    /// One that can watch, and be told.
    pub(super) fn watcher(&mut self, outlet: Outlet) -> WatcherId {
        self.next_watcher += 1;
        self.outlets.insert(self.next_watcher, outlet);
        self.next_watcher
    }

    /// The watcher is gone, and its session on its own.
    pub(super) fn detach(&mut self, watcher: WatcherId, session: Option<i64>) {
        self.watches.remove(watcher);
        self.outlets.remove(&watcher);
        if let Some(session) = session.and_then(|id| self.sessions.get_mut(id))
            && matches!(session.attached, Some((attached, _)) if attached == watcher)
        {
            session.attached = None;
        }
    }

    /// Opening a session is a transaction.
    pub(super) fn open_session(&mut self, timeout: Option<Duration>, watcher: WatcherId) -> i64 {
        self.zxid += 1;
        let id = self.sessions.open(timeout);
        self.attach(id, watcher);
        id
    }

    /// A client comes back. `None` when there is no such session or this is not its password, else
    /// the connection that it had before, which must be cut.
    pub(super) fn resume_session(
        &mut self,
        id: i64,
        password: &[u8],
        timeout: Duration,
        watcher: WatcherId,
    ) -> Option<Option<Arc<Outbox>>> {
        let session = self.sessions.get_mut(id)?;
        if session.timeout.is_none() || password != password_of(id) {
            return None;
        }
        session.expire_after(timeout);
        let before = session.attached.take();
        self.attach(id, watcher);
        Some(before.and_then(|(before, outlet)| {
            self.watches.remove(before);
            self.outlets.remove(&before);
            match outlet {
                Outlet::Connection(outbox) => Some(outbox),
                Outlet::Local(_) => None,
            }
        }))
    }

    fn attach(&mut self, id: i64, watcher: WatcherId) {
        if let Some(outlet) = self.outlets.get(&watcher)
            && let Some(session) = self.sessions.get_mut(id)
        {
            session.attached = Some((watcher, outlet.clone()));
        }
    }

    /// Whether the session lives and this is its way to us.
    pub(super) fn is_attached(&self, id: i64, watcher: WatcherId) -> bool {
        let attached = self.sessions.get(id).and_then(|s| s.attached.as_ref());
        attached.is_some_and(|(attached, _)| *attached == watcher)
    }

    /// Ends a session and deletes its ephemeral nodes, in one transaction. Returns where the
    /// session was attached; `None` when there is no such session.
    pub(super) fn close_session(&mut self, id: i64) -> Option<Option<Outlet>> {
        let session = self.sessions.remove(id)?;
        self.zxid += 1;
        let moment = Moment::now(self.zxid);
        let mut changes = Vec::new();
        for path in self.tree.ephemerals(id) {
            let version = None;
            let operation = Operation::Delete { path, version };
            if let Ok((_, change)) = self.tree.apply(operation, id, moment) {
                changes.push(change);
            }
        }
        // Without the journal it is done all the same: no session outlives the server, and so does no such node.
        let _ = self.keep(&changes);
        for change in &changes {
            self.publish(change);
        }
        Some(session.attached.map(|(_, outlet)| outlet))
    }

    pub(super) fn write(
        &mut self,
        session: i64,
        operation: Operation,
    ) -> Result<Outcome, NodeError> {
        let outcomes = self.write_all(session, vec![operation]);
        let outcomes = outcomes.map_err(|rejected| rejected.error)?;
        outcomes.into_iter().next().ok_or(NodeError::BadArguments)
    }

    /// All of the operations or none, in one transaction.
    pub(super) fn write_all(
        &mut self,
        session: i64,
        operations: Vec<Operation>,
    ) -> Result<Vec<Outcome>, Rejected> {
        // As in ZooKeeper, a failed transaction counts, too.
        self.zxid += 1;
        let moment = Moment::now(self.zxid);
        if self.sessions.get(session).is_none() {
            let error = NodeError::SessionExpired;
            return Err(Rejected { index: 0, error });
        }
        let mut outcomes = Vec::new();
        let mut changes = Vec::new();
        for (index, operation) in operations.into_iter().enumerate() {
            match self.tree.apply(operation, session, moment) {
                Ok((outcome, change)) => {
                    outcomes.push(outcome);
                    changes.push(change);
                }
                Err(error) => {
                    self.undo(changes);
                    return Err(Rejected { index, error });
                }
            }
        }
        if let Err(error) = self.keep(&changes) {
            self.undo(changes);
            return Err(Rejected { index: 0, error });
        }
        for change in &changes {
            self.publish(change);
        }
        Ok(outcomes)
    }

    /// The node's state; a watch is set whether or not it is there.
    pub(super) fn exists(
        &mut self,
        path: &str,
        watcher: Option<WatcherId>,
    ) -> Result<Stat, NodeError> {
        if path.contains('\0') {
            return Err(NodeError::BadArguments);
        }
        if let Some(watcher) = watcher {
            self.watches.add(WatchKind::Data, path, watcher);
        }
        Ok(self.tree.get(path)?.stat())
    }

    /// The node; a watch of `kind` is set only if it is there.
    pub(super) fn read(
        &mut self,
        path: &str,
        kind: WatchKind,
        watcher: Option<WatcherId>,
    ) -> Result<&Node, NodeError> {
        let node = self.tree.get(path)?;
        if let Some(watcher) = watcher {
            self.watches.add(kind, path, watcher);
        }
        Ok(node)
    }

    /// Sets watches again, or tells at once of what they missed.
    pub(super) fn set_watches(&mut self, known: KnownWatches, watcher: WatcherId) {
        let seen = known.zxid;
        for path in known.data {
            let stat = self.tree.get(&path).map(Node::stat);
            match stat {
                Err(_) => self.tell(watcher, EventKind::NodeDeleted, path),
                Ok(stat) if stat.mzxid > seen => self.tell(watcher, EventKind::DataChanged, path),
                Ok(_) => self.watches.add(WatchKind::Data, &path, watcher),
            }
        }
        for path in known.exists {
            match self.tree.get(&path) {
                Ok(_) => self.tell(watcher, EventKind::NodeCreated, path),
                Err(_) => self.watches.add(WatchKind::Data, &path, watcher),
            }
        }
        for path in known.children {
            let stat = self.tree.get(&path).map(Node::stat);
            match stat {
                Err(_) => self.tell(watcher, EventKind::NodeDeleted, path),
                Ok(stat) if stat.pzxid > seen => {
                    self.tell(watcher, EventKind::ChildrenChanged, path);
                }
                Ok(_) => self.watches.add(WatchKind::Children, &path, watcher),
            }
        }
    }

    pub(super) fn session_infos(&self) -> Vec<SessionInfo> {
        let ids = self.sessions.ids().into_iter();
        ids.filter_map(|id| {
            let session = self.sessions.get(id)?;
            Some(SessionInfo {
                id,
                timeout: session.timeout,
                is_connected: session.attached.is_some(),
                ephemerals: self.tree.ephemerals(id),
            })
        })
        .collect()
    }

    /// Writes the changes to the journal, if there is one.
    fn keep(&mut self, changes: &[Change]) -> Result<(), NodeError> {
        let Some(journal) = &mut self.journal else {
            return Ok(());
        };
        journal
            .append(&self.tree, self.zxid, changes)
            .map_err(|error| {
                log::error!(
                    "embedded zookeeper: transaction {} cannot be kept: {error}",
                    self.zxid
                );
                NodeError::Storage
            })
    }

    fn undo(&mut self, changes: Vec<Change>) {
        for change in changes.into_iter().rev() {
            self.tree.undo(change);
        }
    }

    fn publish(&mut self, change: &Change) {
        for (watcher, kind, path) in self.watches.fire(change) {
            self.tell(watcher, kind, path);
        }
    }

    fn tell(&self, watcher: WatcherId, kind: EventKind, path: String) {
        match self.outlets.get(&watcher) {
            Some(Outlet::Connection(outbox)) => outbox.push(reply::event(kind, &path)),
            Some(Outlet::Local(events)) => events.push(LocalEvent::new(kind, path)),
            None => {}
        }
    }
}
