use std::collections::VecDeque;
use std::mem;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::bounded;
use parking_lot::Mutex;

use crate::embedded::zookeeper::watch_manager::EventKind;

/// What a [`LocalSession`](crate::embedded::LocalSession) is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalEvent {
    /// A node that was watched for is there.
    NodeCreated(String),
    /// A watched node is gone.
    NodeDeleted(String),
    /// The data of a watched node was written.
    DataChanged(String),
    /// Children of a watched node came or went.
    ChildrenChanged(String),
    /// The session was ended by the server, and its ephemeral nodes with it.
    Expired,
}

impl LocalEvent {
    pub(super) fn new(kind: EventKind, path: String) -> Self {
        match kind {
            EventKind::NodeCreated => Self::NodeCreated(path),
            EventKind::NodeDeleted => Self::NodeDeleted(path),
            EventKind::DataChanged => Self::DataChanged(path),
            EventKind::ChildrenChanged => Self::ChildrenChanged(path),
        }
    }
}

/// Events on their way to a local session: never more than it has set watches.
#[derive(Debug)]
pub(super) struct LocalEvents {
    events: Mutex<VecDeque<LocalEvent>>,
    ring: Sender<()>,
    bell: Receiver<()>,
}

impl LocalEvents {
    pub(super) fn new() -> Self {
        let (ring, bell) = bounded(1);
        Self {
            events: Mutex::default(),
            ring,
            bell,
        }
    }

    /// Never waits.
    pub(super) fn push(&self, event: LocalEvent) {
        self.events.lock().push_back(event);
        // Full when it rings already.
        let _ = self.ring.try_send(());
    }

    pub(super) fn pop(&self) -> Option<LocalEvent> {
        self.events.lock().pop_front()
    }

    pub(super) fn take(&self) -> Vec<LocalEvent> {
        mem::take(&mut *self.events.lock()).into()
    }

    pub(super) fn bell(&self) -> &Receiver<()> {
        &self.bell
    }
}
