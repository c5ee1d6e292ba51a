//! Named threads with an owner, and the signal that ends their waits.

use std::io;
use std::sync::Arc;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::RecvTimeoutError;
use crossbeam_channel::Sender;
use crossbeam_channel::TryRecvError;
use crossbeam_channel::bounded;
use parking_lot::Mutex;

use crate::error::Error;

/// What travels on a stop channel: nothing ever does, only its closing counts.
#[derive(Debug)]
pub(crate) enum Never {}

/// The owner's end of a [`StopSignal`]: stopping is sticky and may be done from any thread.
#[derive(Clone, Debug)]
pub(crate) struct Stopper {
    sender: Arc<Mutex<Option<Sender<Never>>>>,
    signal: StopSignal,
}

impl Stopper {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = bounded(0);
        Self {
            sender: Arc::new(Mutex::new(Some(sender))),
            signal: StopSignal { receiver },
        }
    }

    pub(crate) fn signal(&self) -> StopSignal {
        self.signal.clone()
    }

    /// Ends every wait on the signal, now and later. `false` when it had been stopped before.
    pub(crate) fn stop(&self) -> bool {
        self.sender.lock().take().is_some()
    }
}

/// What every wait of a thread observes besides the thing that it waits for.
#[derive(Clone, Debug)]
pub(crate) struct StopSignal {
    receiver: Receiver<Never>,
}

impl StopSignal {
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.receiver.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Waits for `time`. `true` when it has passed, `false` as soon as the owner says stop.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        matches!(
            self.receiver.recv_timeout(time),
            Err(RecvTimeoutError::Timeout)
        )
    }

    /// As [`pause`](Self::pause), up to a point in time.
    pub(crate) fn pause_until(&self, deadline: Instant) -> bool {
        matches!(
            self.receiver.recv_deadline(deadline),
            Err(RecvTimeoutError::Timeout)
        )
    }

    /// For `select!`: becomes ready (disconnected) at the stop.
    pub(crate) fn receiver(&self) -> &Receiver<Never> {
        &self.receiver
    }
}

/// A thread with a name and an owner, which stops and joins it, at the latest by dropping it.
#[derive(Debug)]
pub(crate) struct ShutdownableThread {
    name: String,
    stopper: Stopper,
    handle: Option<JoinHandle<()>>,
}

impl ShutdownableThread {
    /// Runs `body` in a new thread. Fails only when the system refuses another thread.
    pub(crate) fn start(
        name: impl Into<String>,
        body: impl FnOnce(StopSignal) + Send + 'static,
    ) -> Result<Self, Error> {
        let name = name.into();
        let stopper = Stopper::new();
        let signal = stopper.signal();
        let handle = thread::Builder::new()
            .name(name.clone())
            .spawn(move || body(signal))
            .map_err(|source: io::Error| Error::Thread {
                name: name.clone(),
                source,
            })?;
        Ok(Self {
            name,
            stopper,
            handle: Some(handle),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Asks the thread to end, without waiting for it.
    pub(crate) fn signal_stop(&self) {
        self.stopper.stop();
    }

    /// `true` once the body has returned or panicked.
    pub(crate) fn is_finished(&self) -> bool {
        self.handle.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks the thread to end and waits until it has. Harmless when called again, or by itself.
    pub(crate) fn stop(&mut self) {
        self.signal_stop();
        let Some(handle) = self.handle.take() else {
            return;
        };
        if handle.thread().id() == thread::current().id() {
            return;
        }
        if handle.join().is_err() {
            log::error!("thread {} panicked", self.name);
        }
    }
}

impl Drop for ShutdownableThread {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_at_the_stop() {
        let (began, has_begun) = bounded(1);
        let (ended, has_ended) = bounded(1);
        let mut thread = ShutdownableThread::start("pausing", move |stop| {
            began.send(()).unwrap();
            ended.send(stop.pause(Duration::from_secs(3600))).unwrap();
        })
        .unwrap();
        has_begun.recv().unwrap();
        assert!(!thread.is_finished());
        thread.stop();
        assert!(!has_ended.recv().unwrap(), "the hour had not passed");
        assert!(thread.is_finished());
    }

    #[test]
    fn a_stop_is_sticky() {
        let stopper = Stopper::new();
        let signal = stopper.signal();
        assert!(!signal.is_stopped());
        assert!(stopper.stop());
        assert!(!stopper.stop());
        assert!(signal.is_stopped());
        assert!(!signal.pause(Duration::from_secs(3600)));
    }

    #[test]
    fn a_panic_in_a_thread_does_not_reach_its_owner() {
        let mut thread = ShutdownableThread::start("panics", |_| panic!("on purpose")).unwrap();
        thread.stop();
        assert!(thread.is_finished());
    }
}
