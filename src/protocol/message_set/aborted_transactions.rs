//! Which transactions of a fetched set were aborted.

use std::collections::BTreeSet;

use crate::protocol::partition_header::AbortedTransaction;

/// Tells the batches of aborted transactions, in the order of the log.
///
/// Empty for `isolation.level=read_uncommitted`, and for brokers without transactions: then nothing is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AbortedTransactions {
    /// Those not reached yet, the next one last.
    ahead: Vec<AbortedTransaction>,
    /// Producers whose present transaction is an aborted one. Few at a time, but by the word of the broker only.
    open: BTreeSet<i64>,
}

impl AbortedTransactions {
    /// In any order.
    pub(crate) fn new(mut transactions: Vec<AbortedTransaction>) -> Self {
        transactions
            .sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self {
            ahead: transactions,
            open: BTreeSet::new(),
        }
    }

    /// What it takes up in memory at the most.
    pub(crate) fn bytes(&self) -> usize {
        let all = self.ahead.len().saturating_add(self.open.len());
        all.saturating_mul(size_of::<AbortedTransaction>())
    }

    /// Whether the transactional batch of `producer_id` that begins at `base_offset` is to be left out.
    pub(super) fn has(&mut self, producer_id: i64, base_offset: i64) -> bool {
        self.reach(base_offset);
        self.open.contains(&producer_id)
    }

    /// The abort marker of the producer stands at `offset`.
    pub(super) fn end(&mut self, producer_id: i64, offset: i64) {
        // Of a compacted log the marker may be all that is left of the transaction.
        self.reach(offset);
        self.open.remove(&producer_id);
    }

    fn reach(&mut self, offset: i64) {
        while let Some(reached) = self.ahead.pop_if(|next| next.first_offset <= offset) {
            self.open.insert(reached.producer_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_transaction_is_aborted_from_its_first_offset_to_its_marker() {
        let aborted = |producer_id, first_offset| AbortedTransaction {
            producer_id,
            first_offset,
        };
        let mut aborted =
            AbortedTransactions::new(vec![aborted(1, 30), aborted(2, 5), aborted(1, 10)]);
        assert!(!aborted.has(1, 9));
        assert!(aborted.has(2, 9));
        assert!(aborted.has(1, 10));
        assert!(!aborted.has(3, 10));
        aborted.end(1, 19);
        assert!(!aborted.has(1, 20));
        assert!(aborted.has(2, 20));
        assert!(aborted.has(1, 31));
    }

    #[test]
    fn a_marker_ends_a_transaction_of_which_nothing_else_is_left() {
        let mut aborted = AbortedTransactions::new(vec![AbortedTransaction {
            producer_id: 1,
            first_offset: 10,
        }]);
        aborted.end(1, 12);
        assert!(!aborted.has(1, 13), "the next transaction is a good one");
    }

    #[test]
    fn transactions_that_are_never_over_cost_no_more_than_others() {
        // Each batch was compared with all of them, in the thread of the application: a day for a full answer.
        let count = 300_000;
        let open = (0..count).map(|producer_id| AbortedTransaction {
            producer_id,
            first_offset: 0,
        });
        let mut aborted = AbortedTransactions::new(open.collect());
        let begin = Instant::now();
        for offset in 0..count {
            assert!(!aborted.has(-1, offset));
            aborted.end(-1, offset);
        }
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
}
