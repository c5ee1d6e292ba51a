use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_executor::Executor;
use async_executor::Task;
use futures_lite::FutureExt;
use parking_lot::Mutex;
use zookeeper_client::EventType;
use zookeeper_client::OneshotWatcher;
use zookeeper_client::Stat;

use crate::zk::event::ZkEvent;
use crate::zk::event_queue::EventQueue;
use crate::zk::link::Link;

/// What a watch looks at. A node may have one watch of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WatchKind {
    /// Existence and data of a node, which need not exist.
    Data,
    /// The set of children of an existing node.
    Children,
}

/// Kind and path.
pub(super) type WatchKey = (WatchKind, String);

/// How a node looked when its watch was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Missing,
    /// The transactions that created the node and last changed what the watch looks at.
    Node {
        created: i64,
        changed: i64,
    },
}

impl Seen {
    pub(super) fn data(stat: Option<&Stat>) -> Self {
        stat.map_or(Self::Missing, |stat| Self::Node {
            created: stat.czxid,
            changed: stat.mzxid,
        })
    }

    pub(super) fn children(stat: &Stat) -> Self {
        Self::Node {
            created: stat.czxid,
            changed: stat.pzxid,
        }
    }
}

/// All watches of a session: asked for once, fired once, carried over from link to link.
///
/// A server of version 3.4 hangs up when the crate drops a watcher that has not fired. So each one
/// is held by a task until it fires or its link is dead, whatever becomes of the call that set it.
pub(super) struct Watches {
    executor: Arc<Executor<'static>>,
    events: Arc<EventQueue>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// The link on which watches are set now; 0 for none.
    generation: u64,
    watches: HashMap<WatchKey, Watch>,
}

#[derive(Default)]
struct Watch {
    /// `None` as long as it was not set anywhere.
    seen: Option<Seen>,
    state: WatchState,
    /// It failed to be set on an earlier link, and somebody may count on it: what happened since is
    /// reported even though there is nothing to compare with.
    overdue: bool,
}

#[derive(Default)]
enum WatchState {
    /// To be set on the next link.
    #[default]
    Unset,
    /// A request to set it is on its way.
    Setting,
    /// The task waits for it to fire.
    Set(Task<()>),
}

impl Watches {
    pub(super) fn new(executor: Arc<Executor<'static>>, events: Arc<EventQueue>) -> Arc<Self> {
        Arc::new(Self {
            executor,
            events,
            table: Mutex::default(),
        })
    }

    /// `true` when the caller has to set the watch, now; `false` when it is set, or about to be.
    pub(super) fn claim(&self, link: &Link, key: &WatchKey) -> bool {
        let mut table = self.table.lock();
        if table.generation != link.generation {
            // The link is dead: the request fails, and the next attempt claims.
            return false;
        }
        let watch = table.watches.entry(key.clone()).or_default();
        let unset = matches!(watch.state, WatchState::Unset);
        if unset {
            watch.state = WatchState::Setting;
        }
        unset
    }

    /// The watch was set by a request over `link`, which answered `seen`.
    pub(super) fn set(
        self: &Arc<Self>,
        link: &Link,
        key: WatchKey,
        seen: Seen,
        watcher: OneshotWatcher,
    ) {
        let mut table = self.table.lock();
        if table.generation != link.generation {
            // The link is dead and its watchers with it.
            return;
        }
        let hold = hold(Arc::clone(self), link.generation, key.clone(), watcher);
        let watch = table.watches.entry(key.clone()).or_default();
        watch.state = WatchState::Set(self.executor.spawn(hold));
        let known = watch.seen.replace(seen);
        let missed = known.map_or(watch.overdue, |known| known != seen);
        watch.overdue = false;
        drop(table);
        if missed {
            self.events.emit(missed_event(key, known, seen));
        }
    }

    /// The request to set the watch failed with the link: the next link sets it.
    pub(super) fn postpone(&self, link: &Link, key: &WatchKey) {
        let mut table = self.table.lock();
        if table.generation == link.generation
            && let Some(watch) = table.watches.get_mut(key)
        {
            watch.state = WatchState::Unset;
            watch.overdue = true;
        }
    }

    /// The watch cannot be set: there is no such node, or the server refuses. `true` when somebody
    /// may have counted on it since an earlier link.
    pub(super) fn forget(&self, link: &Link, key: &WatchKey) -> bool {
        let mut table = self.table.lock();
        if table.generation != link.generation {
            return false;
        }
        let watch = table.watches.remove(key);
        watch.is_some_and(|watch| watch.seen.is_some() || watch.overdue)
    }

    /// As [`forget`](Self::forget), and tells those who counted on the watch that the node is gone,
    /// or that they should find out by themselves.
    pub(super) fn forget_and_tell(&self, link: &Link, key: WatchKey) {
        if self.forget(link, &key) {
            self.events.emit(ZkEvent::NodeDeleted(key.1));
        }
    }

    /// From here on watches are set on the link with this number.
    pub(super) fn attach(&self, generation: u64) {
        self.table.lock().generation = generation;
    }

    /// Lets go of the watchers of a link that is dead. The watches wait for the next link.
    pub(super) fn detach(&self) {
        let mut table = self.table.lock();
        table.generation = 0;
        let mut tasks = Vec::new();
        for watch in table.watches.values_mut() {
            watch.overdue |= watch.seen.is_none();
            if let WatchState::Set(task) = std::mem::take(&mut watch.state) {
                tasks.push(task);
            }
        }
        drop(table);
        drop(tasks);
    }

    /// Forgets all watches: they end with their session.
    pub(super) fn expire(&self) {
        self.detach();
        self.table.lock().watches.clear();
    }

    /// Claims all watches that are not set, for the caller to set them.
    pub(super) fn claim_unset(&self, link: &Link) -> Vec<WatchKey> {
        let mut table = self.table.lock();
        let mut keys = Vec::new();
        if table.generation != link.generation {
            return keys;
        }
        for (key, watch) in &mut table.watches {
            if matches!(watch.state, WatchState::Unset) {
                watch.state = WatchState::Setting;
                keys.push(key.clone());
            }
        }
        keys
    }

    fn fired(&self, generation: u64, key: WatchKey, event: EventType) {
        let mut table = self.table.lock();
        if table.generation != generation {
            return;
        }
        let watch = table.watches.remove(&key);
        drop(table);
        if let Some(WatchState::Set(task)) = watch.map(|watch| watch.state) {
            // The very task that runs this.
            task.detach();
        }
        let path = key.1;
        self.events.emit(match event {
            EventType::NodeCreated => ZkEvent::NodeCreated(path),
            EventType::NodeDeleted => ZkEvent::NodeDeleted(path),
            EventType::NodeDataChanged => ZkEvent::DataChanged(path),
            EventType::NodeChildrenChanged => ZkEvent::ChildrenChanged(path),
            EventType::Session => return,
        });
    }
}

/// Keeps a watcher until it fires.
async fn hold(watches: Arc<Watches>, generation: u64, key: WatchKey, watcher: OneshotWatcher) {
    // The crate panics in `changed` when its service task has panicked before.
    let changed = AssertUnwindSafe(watcher.changed()).catch_unwind().await;
    match changed {
        // The end of the session, which is the supervisor's business.
        Ok(event) if event.event_type == EventType::Session => {}
        Ok(event) => watches.fired(generation, key, event.event_type),
        Err(_) => log::error!("lost the watch of {}", key.1),
    }
}

/// What happened to a node while no link watched it.
fn missed_event(key: WatchKey, known: Option<Seen>, seen: Seen) -> ZkEvent {
    let (kind, path) = key;
    match (kind, known, seen) {
        (WatchKind::Children, _, _) => ZkEvent::ChildrenChanged(path),
        (WatchKind::Data, _, Seen::Missing) => ZkEvent::NodeDeleted(path),
        (WatchKind::Data, Some(Seen::Missing), Seen::Node { .. }) => ZkEvent::NodeCreated(path),
        (WatchKind::Data, _, Seen::Node { .. }) => ZkEvent::DataChanged(path),
    }
}
