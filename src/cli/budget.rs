//! How many messages a run may deliver.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

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
}
