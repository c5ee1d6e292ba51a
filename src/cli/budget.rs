//! Bounds of a run: how many messages, and how long without one.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

/// Messages that may still be delivered, over all streams.
#[derive(Debug)]
pub(crate) struct Budget {
    /// `None` for without end.
    left: Option<AtomicU64>,
}

impl Budget {
    pub(crate) fn new(messages: Option<u64>) -> Self {
        Self {
            left: messages.map(AtomicU64::new),
        }
    }

    /// How many messages it makes sense to ask for, if `batch` are wanted. Others may take them meanwhile.
    pub(crate) fn at_most(&self, batch: usize) -> usize {
        let left = self.left.as_ref().map(|left| left.load(Ordering::SeqCst));
        left.map_or(batch, |left| bounded(batch, left))
    }

    /// Takes up to `batch` messages; returns how many.
    pub(crate) fn claim(&self, batch: usize) -> usize {
        let Some(left) = &self.left else {
            return batch;
        };
        let mut granted = 0;
        let take = |left| {
            granted = bounded(batch, left);
            u64::try_from(granted).ok().map(|taken| left - taken)
        };
        match left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take) {
            Ok(_) => granted,
            Err(_) => 0,
        }
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.at_most(1) == 0
    }
}

fn bounded(batch: usize, left: u64) -> usize {
    usize::try_from(left).map_or(batch, |left| left.min(batch))
}

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
    use std::thread;

    #[test]
    fn no_more_is_granted_than_there_is_whoever_asks() {
        let budget = Budget::new(Some(1_000));
        let claim_all = || -> usize {
            std::iter::repeat_with(|| budget.claim(7))
                .take_while(|granted| *granted > 0)
                .sum()
        };
        let total: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(claim_all)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(total, 1_000);
        assert!(budget.is_spent());
        assert_eq!(budget.at_most(7), 0);
    }

    #[test]
    fn without_a_bound_everything_is_granted() {
        let budget = Budget::new(None);
        assert_eq!((budget.claim(7), budget.at_most(9)), (7, 9));
        assert!(!budget.is_spent());
    }

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
