use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::embedded::zookeeper::local_event::LocalEvents;
use crate::embedded::zookeeper::outbox::Outbox;
use crate::embedded::zookeeper::transaction::milliseconds;
use crate::embedded::zookeeper::watch_manager::WatcherId;

/// A session that the server keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id; owner of its ephemeral nodes.
    pub id: i64,
    /// As negotiated. `None` for a session inside the process, which needs no sign of life.
    pub timeout: Option<Duration>,
    /// Whether a connection belongs to it now, or it is inside the process.
    pub is_connected: bool,
    /// Paths of its ephemeral nodes, in order.
    pub ephemerals: Vec<String>,
}

/// Where the events of a session go.
#[derive(Clone, Debug)]
pub(super) enum Outlet {
    Connection(Arc<Outbox>),
    Local(Arc<LocalEvents>),
}

#[derive(Debug)]
pub(super) struct Session {
    /// `None` as long as it does not expire by itself.
    pub(super) timeout: Option<Duration>,
    /// When it expires unless it is heard of.
    deadline: Option<Instant>,
    /// The connection that belongs to it now.
    pub(super) attached: Option<(WatcherId, Outlet)>,
}

/// The sessions, whether they are connected or not.
#[derive(Debug)]
pub(super) struct SessionTable {
    sessions: HashMap<i64, Session>,
    next_id: i64,
}

impl SessionTable {
    pub(super) fn new() -> Self {
        Self {
            sessions: HashMap::new(),
            next_id: first_id(),
        }
    }

    pub(super) fn open(&mut self, timeout: Option<Duration>) -> i64 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let session = Session {
            timeout,
            deadline: deadline(timeout),
            attached: None,
        };
        self.sessions.insert(id, session);
        id
    }

    pub(super) fn get(&self, id: i64) -> Option<&Session> {
        self.sessions.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: i64) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    pub(super) fn remove(&mut self, id: i64) -> Option<Session> {
        self.sessions.remove(&id)
    }

    pub(super) fn ids(&self) -> Vec<i64> {
        let mut ids: Vec<_> = self.sessions.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// The session was heard of.
    pub(super) fn touch(&mut self, id: i64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.deadline = deadline(session.timeout);
        }
    }

    /// As after a restart: each session has all its time before it.
    pub(super) fn touch_all(&mut self) {
        for session in self.sessions.values_mut() {
            session.deadline = deadline(session.timeout);
        }
    }

    /// Sessions whose time is over.
    pub(super) fn overdue(&self) -> Vec<i64> {
        let now = Instant::now();
        let is_overdue = |session: &Session| session.deadline.is_some_and(|end| end <= now);
        let overdue = self.sessions.iter();
        overdue
            .filter_map(|(id, session)| is_overdue(session).then_some(*id))
            .collect()
    }

    /// How long until the next session is overdue.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let deadlines = self.sessions.values();
        deadlines.filter_map(|session| session.deadline).min()
    }
}

impl Session {
    /// From now on it expires when it was not heard of for this long.
    pub(super) fn expire_after(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
        self.deadline = deadline(self.timeout);
    }
}

/// As in ZooKeeper 3.4.6: the number of the server, 1 for one that stands alone, and the time.
fn first_id() -> i64 {
    let id = (1 << 56) | ((milliseconds() << 24) >> 8);
    id.cast_signed()
}

/// The password of a session. As in ZooKeeper, nothing but the id goes into it: the first bytes of
/// a `java.util.Random`, seeded with the id and a constant that all servers share.
pub(super) fn password_of(session: i64) -> [u8; 16] {
    const SHARED: u64 = 0xb341_5c00;
    const MULTIPLIER: u64 = 0x5_deec_e66d;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = (session.cast_unsigned() ^ SHARED ^ MULTIPLIER) & MASK;
    let mut password = [0; 16];
    for part in password.chunks_exact_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xb) & MASK;
        // Bits 16 to 47, the lowest byte first.
        for (byte, drawn) in part.iter_mut().zip((state >> 16).to_le_bytes()) {
            *byte = drawn;
        }
    }
    password
}

fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?)
}
