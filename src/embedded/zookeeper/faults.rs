use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What is wrong with the network between the server and its clients.
#[derive(Debug, Default)]
pub(super) struct Faults {
    is_silent: AtomicBool,
    /// Nanoseconds.
    delay: AtomicU64,
}

impl Faults {
    /// Neither reads nor answers. Waiting connections must be nudged after a change.
    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::SeqCst)
    }

    pub(super) fn set_silent(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// Between the time a frame is due and the time it goes out.
    pub(super) fn delay(&self) -> Duration {
        Duration::from_nanos(self.delay.load(Ordering::SeqCst))
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        self.delay.store(nanos, Ordering::SeqCst);
    }
}
