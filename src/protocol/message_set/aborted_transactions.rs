//! Which transactions of a fetched set were aborted.

use crate::protocol::partition_header::AbortedTransaction;

/// Tells the batches of aborted transactions, in the order of the log.
///
/// Empty for `isolation.level=read_uncommitted`, and for brokers without transactions: then nothing is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AbortedTransactions {
    /// Those not reached yet, the next one last.
    ahead: Vec<AbortedTransaction>,
    /// Producers whose present transaction is an aborted one. Few at a time.
    open: Vec<i64>,
}

impl AbortedTransactions {
    /// In any order.
    pub(crate) fn new(mut transactions: Vec<AbortedTransaction>) -> Self {
        transactions
            .sort_unstable_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self {
            ahead: transactions,
            open: Vec::new(),
        }
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
        self.open.retain(|open| *open != producer_id);
    }

    fn reach(&mut self, offset: i64) {
        while let Some(reached) = self.ahead.pop_if(|next| next.first_offset <= offset) {
            self.open.push(reached.producer_id);
        }
    }
}

#[cfg(test)]
mod tests {
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
}
