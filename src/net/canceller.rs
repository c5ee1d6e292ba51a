//! Ends the network calls of one client from another thread.

use std::fmt;
use std::net::Shutdown;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Condvar;
use parking_lot::Mutex;

use crate::thread::StopSignal;

/// A handle with which any thread ends the connect, write or read that another one is blocked in.
///
/// Cancelling is sticky: whatever the client is asked afterwards fails with
/// [`Error::Closed`](crate::error::Error::Closed). All clones act on the same client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Canceller {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// What else ends the calls, though only when the next wait ends.
    reason: Option<Mutex<Reason>>,
    state: Mutex<State>,
    cancelled: Condvar,
}

/// Tells whether a call has to end, for a reason of its caller's.
struct Reason(Box<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reason")
    }
}

#[derive(Debug, Default)]
struct State {
    cancelled: bool,
    /// The connected socket, if there is one.
    socket: Option<Arc<TcpStream>>,
}

impl Canceller {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// One that also counts as cancelled once `stop` says so, which a blocked call notices within 50 ms.
    pub(super) fn observing(stop: &StopSignal) -> Self {
        let stop = stop.clone();
        Self::with_reason(move || stop.is_stopped())
    }

    /// One that also counts as cancelled while there is a reason, which a blocked call notices within 50 ms.
    pub(super) fn with_reason(reason: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        let shared = Shared {
            reason: Some(Mutex::new(Reason(Box::new(reason)))),
            ..Shared::default()
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// From now on another reason counts: the connection outlives the call that opened it. No effect on one that was
    /// made without.
    pub(super) fn replace_reason(&self, reason: impl Fn() -> bool + Send + Sync + 'static) {
        if let Some(present) = &self.shared.reason {
            *present.lock() = Reason(Box::new(reason));
        }
    }

    /// Waits for `time`. `false` as soon as there is a reason not to.
    pub(super) fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let now = Instant::now();
            if self.wait_until(end.min(now + self.longest_wait())) {
                return false;
            }
            if now >= end {
                return true;
            }
        }
    }

    /// Ends what the client does now and forbids everything later. May be called any number of times.
    pub(crate) fn cancel(&self) {
        let mut state = self.shared.state.lock();
        state.cancelled = true;
        let socket = state.socket.take();
        self.shared.cancelled.notify_all();
        drop(state);
        if let Some(socket) = socket {
            shut_down(&socket);
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.shared.state.lock().cancelled || self.is_stopped()
    }

    /// The longest time to wait without looking at [`is_cancelled`](Self::is_cancelled).
    pub(super) fn longest_wait(&self) -> Duration {
        match self.shared.reason {
            Some(_) => Duration::from_millis(50),
            // Shutting the socket down ends the wait; looking besides is for systems where it does not.
            None => Duration::from_millis(250),
        }
    }

    /// Waits until `deadline`. `true` as soon as somebody cancels.
    pub(super) fn wait_until(&self, deadline: Instant) -> bool {
        let mut state = self.shared.state.lock();
        while !state.cancelled {
            if self
                .shared
                .cancelled
                .wait_until(&mut state, deadline)
                .timed_out()
            {
                break;
            }
        }
        state.cancelled || self.is_stopped()
    }

    /// Makes `socket` the one that cancelling shuts down. `false`: cancelled already.
    pub(super) fn adopt(&self, socket: &Arc<TcpStream>) -> bool {
        let mut state = self.shared.state.lock();
        if !state.cancelled {
            state.socket = Some(Arc::clone(socket));
        }
        !state.cancelled
    }

    /// Forgets the socket, so that it is closed as soon as its reader drops it.
    pub(super) fn release(&self) {
        self.shared.state.lock().socket = None;
    }

    fn is_stopped(&self) -> bool {
        let reason = self.shared.reason.as_ref();
        reason.is_some_and(|reason| (reason.lock().0)())
    }
}

/// Wakes whoever is blocked in the socket.
fn shut_down(socket: &TcpStream) {
    if let Err(error) = socket.shutdown(Shutdown::Both) {
        // The peer was faster; the reader sees that by itself.
        log::debug!("cancelling: {error}");
    }
}
