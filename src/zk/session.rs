use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use async_executor::Executor;
use parking_lot::Condvar;
use parking_lot::Mutex;

use crate::config::ConnectString;
use crate::thread::StopSignal;
use crate::thread::Stopper;
use crate::zk::bell::Bell;
use crate::zk::caller::Caller;
use crate::zk::client::ZkConfig;
use crate::zk::event_queue::EventQueue;
use crate::zk::link::Link;
use crate::zk::link::OwnedLink;
use crate::zk::watches::Watches;

/// For how long a failed attempt waits for another link before it is repeated over the same.
const SAME_LINK_AFTER: Duration = Duration::from_millis(200);

/// What the calls, on any thread, and the supervisor, on `zk-session`, share.
pub(super) struct Session {
    pub(super) config: ZkConfig,
    pub(super) connect: ConnectString,
    pub(super) executor: Arc<Executor<'static>>,
    pub(super) events: Arc<EventQueue>,
    pub(super) watches: Arc<Watches>,
    /// Rung by [`ZkClient::close`](crate::zk::ZkClient::close); the supervisor then ends the session and itself.
    pub(super) closing: Bell,
    cancelled: Stopper,
    state: Mutex<State>,
    /// Signalled whenever the link or the session changes, and on cancel.
    changed: Condvar,
}

struct State {
    /// `None` while disconnected.
    link: Option<Arc<Link>>,
    /// `None` before the first session, and between one that expired and the next.
    session: Option<i64>,
    session_timeout: Duration,
    /// The session was alive at this time or later.
    last_contact: Instant,
    cancelled: bool,
}

impl State {
    fn lease_ends(&self) -> Instant {
        self.last_contact + self.session_timeout
    }
}

/// How long a call without a link may overlook that its caller is told to stop.
const LOOK_AT_CALLER_EVERY: Duration = Duration::from_millis(50);

/// Why a call cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    Deadline,
    Cancelled,
    /// The session that the call belongs to is over.
    Expired,
}

impl Session {
    pub(super) fn new(
        config: ZkConfig,
        connect: ConnectString,
        executor: Arc<Executor<'static>>,
        events: Arc<EventQueue>,
    ) -> Self {
        let state = State {
            link: None,
            session: None,
            session_timeout: config.session_timeout,
            last_contact: Instant::now(),
            cancelled: false,
        };
        Self {
            config,
            connect,
            watches: Watches::new(Arc::clone(&executor), Arc::clone(&events)),
            executor,
            events,
            closing: Bell::default(),
            cancelled: Stopper::new(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    pub(super) fn id(&self) -> Option<i64> {
        self.state.lock().session
    }

    pub(super) fn timeout(&self) -> Duration {
        self.state.lock().session_timeout
    }

    pub(super) fn is_connected(&self) -> bool {
        self.state.lock().link.is_some()
    }

    pub(super) fn lease_ends(&self) -> Instant {
        self.state.lock().lease_ends()
    }

    pub(super) fn last_contact(&self) -> Instant {
        self.state.lock().last_contact
    }

    pub(super) fn cancel(&self) {
        self.state.lock().cancelled = true;
        self.cancelled.stop();
        self.changed.notify_all();
    }

    pub(super) fn cancel_signal(&self) -> StopSignal {
        self.cancelled.signal()
    }

    /// Waits for a link; for another one than `failed`, unless none comes soon. `session`, if given,
    /// is the session that it must belong to.
    pub(super) fn link(
        &self,
        failed: Option<u64>,
        session: Option<i64>,
        deadline: Instant,
        caller: &Caller,
    ) -> Result<Arc<Link>, Stop> {
        let patience = deadline.min(Instant::now() + SAME_LINK_AFTER);
        let mut state = self.state.lock();
        loop {
            if state.cancelled || caller.stop.is_stopped() {
                return Err(Stop::Cancelled);
            }
            if session.is_some() && session != state.session {
                return Err(Stop::Expired);
            }
            let now = Instant::now();
            let mut until = deadline;
            if let Some(link) = &state.link {
                if Some(link.generation) != failed || now >= patience {
                    return Ok(Arc::clone(link));
                }
                until = patience;
            }
            let lease_ends = state.lease_ends();
            if now >= deadline || (caller.within_lease && now >= lease_ends) {
                return Err(Stop::Deadline);
            }
            if caller.within_lease {
                until = until.min(lease_ends);
            }
            // A condition cannot be waited for together with a signal.
            let look_at_caller = now + LOOK_AT_CALLER_EVERY;
            self.changed
                .wait_until(&mut state, until.min(look_at_caller));
        }
    }

    /// The server answered a request that was sent at `sent` over this link.
    pub(super) fn contact(&self, link: &Link, sent: Instant) {
        let mut state = self.state.lock();
        if state.session == Some(link.session) {
            state.last_contact = state.last_contact.max(sent);
        }
    }

    /// The supervisor has a new link: from here on it serves calls.
    pub(super) fn publish(&self, owned: &OwnedLink) {
        let link = Arc::clone(&owned.link);
        let mut state = self.state.lock();
        state.session_timeout = link.client.session_timeout();
        state.session = Some(link.session);
        state.last_contact = state.last_contact.max(owned.opened);
        state.link = Some(link);
        drop(state);
        self.changed.notify_all();
    }

    /// The link is broken, or to be closed.
    pub(super) fn withdraw(&self) {
        let link = self.state.lock().link.take();
        self.changed.notify_all();
        drop(link);
    }

    /// The session is over, and its lease with it.
    pub(super) fn expire(&self) {
        let mut state = self.state.lock();
        state.session = None;
        let ended = Instant::now().checked_sub(state.session_timeout);
        state.last_contact =
            ended.map_or(state.last_contact, |ended| state.last_contact.min(ended));
        drop(state);
        self.changed.notify_all();
    }
}
