use std::collections::HashMap;
use std::collections::HashSet;
use std::mem;

use crate::embedded::zookeeper::change::Change;
use crate::embedded::zookeeper::node_path;

/// Who watches: a connection, or a session without one. Never used twice.
pub(super) type WatcherId = u64;

/// What happened to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    NodeCreated,
    NodeDeleted,
    DataChanged,
    ChildrenChanged,
}

impl EventKind {
    pub(super) fn wire_code(self) -> i32 {
        match self {
            Self::NodeCreated => 1,
            Self::NodeDeleted => 2,
            Self::DataChanged => 3,
            Self::ChildrenChanged => 4,
        }
    }
}

/// A watch on a node's data and existence, or on its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WatchKind {
    Data,
    Children,
}

/// The watches of all watchers; each fires once.
#[derive(Debug, Default)]
pub(super) struct WatchManager {
    data: HashMap<String, HashSet<WatcherId>>,
    children: HashMap<String, HashSet<WatcherId>>,
    by_watcher: HashMap<WatcherId, HashSet<(WatchKind, String)>>,
}

impl WatchManager {
    /// Setting a watch that is set already changes nothing.
    pub(super) fn add(&mut self, kind: WatchKind, path: &str, watcher: WatcherId) {
        let watchers = self.table(kind).entry(path.to_owned()).or_default();
        if watchers.insert(watcher) {
            let own = self.by_watcher.entry(watcher).or_default();
            own.insert((kind, path.to_owned()));
        }
    }

    /// Forgets all watches of a watcher.
    pub(super) fn remove(&mut self, watcher: WatcherId) {
        for (kind, path) in self.by_watcher.remove(&watcher).unwrap_or_default() {
            let table = self.table(kind);
            if let Some(watchers) = table.get_mut(&path) {
                watchers.remove(&watcher);
                if watchers.is_empty() {
                    table.remove(&path);
                }
            }
        }
    }

    /// The watches that a change fires, in the order in which their events go out.
    pub(super) fn fire(&mut self, change: &Change) -> Vec<(WatcherId, EventKind, String)> {
        let mut events = Vec::new();
        let mut tell = |watchers: &HashSet<WatcherId>, kind, path: &str| {
            events.extend(watchers.iter().map(|id| (*id, kind, path.to_owned())));
        };
        let (kind, path) = match change {
            Change::Created { path, .. } => (EventKind::NodeCreated, path),
            Change::Deleted { path, .. } => (EventKind::NodeDeleted, path),
            Change::DataSet { path, .. } => (EventKind::DataChanged, path),
            Change::AclSet { .. } | Change::Checked => return events,
        };
        let told = self.take(WatchKind::Data, path);
        tell(&told, kind, path);
        if kind == EventKind::NodeDeleted {
            // Whoever watches both ways hears of it once.
            let watchers = self.take(WatchKind::Children, path);
            tell(&(&watchers - &told), kind, path);
        }
        if kind != EventKind::DataChanged
            && let Ok((parent, _)) = node_path::split(path)
        {
            let watchers = self.take(WatchKind::Children, parent);
            tell(&watchers, EventKind::ChildrenChanged, parent);
        }
        events
    }

    fn take(&mut self, kind: WatchKind, path: &str) -> HashSet<WatcherId> {
        let Some(watchers) = self.table(kind).get_mut(path).map(mem::take) else {
            return HashSet::new();
        };
        self.table(kind).remove(path);
        let key = (kind, path.to_owned());
        for watcher in &watchers {
            if let Some(own) = self.by_watcher.get_mut(watcher) {
                own.remove(&key);
            }
        }
        watchers
    }

    fn table(&mut self, kind: WatchKind) -> &mut HashMap<String, HashSet<WatcherId>> {
        match kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Children => &mut self.children,
        }
    }
}
