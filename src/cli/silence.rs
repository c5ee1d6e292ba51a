//! How long a run may go without a message.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

/// How long no stream has had a message.
#[derive(Debug)]
pub(crate) struct Silence {
    began: Instant,
    /// `None` for as long as it takes.
    timeout: Option<Duration>,
    /// Nanoseconds from `began` to the last message.
    last: AtomicU64,
    /// Streams that work on messages they have.
    busy: AtomicUsize,
}

impl Silence {
    /// Longest wait of a thread before it looks whether it has to end.
    const SLICE: Duration = Duration::from_millis(100);

    pub(crate) fn new(timeout: Option<Duration>) -> Self {
        Self {
            began: Instant::now(),
            timeout,
            last: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
        }
    }

    /// How long a stream may wait for a message at a time.
    pub(crate) fn slice(&self) -> Duration {
        let shortest = Duration::from_millis(1);
        self.timeout
            .map_or(Self::SLICE, |timeout| timeout.clamp(shortest, Self::SLICE))
    }

    /// Works on messages; however long that takes is no silence.
    pub(crate) fn while_busy<T>(&self, work: impl FnOnce() -> T) -> T {
        self.busy.fetch_add(1, Ordering::SeqCst);
        let result = work();
        self.broken();
        self.busy.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// There was a message just now.
    pub(crate) fn broken(&self) {
        self.last
            .fetch_max(nanos(self.began.elapsed()), Ordering::SeqCst);
    }

    pub(crate) fn is_over_the_limit(&self) -> bool {
        let Some(timeout) = self.timeout else {
            return false;
        };
        if self.busy.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let last = Duration::from_nanos(self.last.load(Ordering::SeqCst));
        self.began.elapsed().saturating_sub(last) >= timeout
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_at_work_is_not_silent() {
        let silence = Silence::new(Some(Duration::ZERO));
        assert!(silence.is_over_the_limit());
        silence.while_busy(|| assert!(!silence.is_over_the_limit()));
        assert!(silence.is_over_the_limit());
        assert!(!Silence::new(None).is_over_the_limit());
        assert!(!Silence::new(Some(Duration::from_secs(3600))).is_over_the_limit());
    }
}
