//! What was written and what was read, message by message.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use crate::cli::demo::verdict::LeaderChange;
use crate::cli::demo::verdict::Rebalance;
use crate::cli::demo::verdict::Verdict;

/// Told by the writer and by all members, each from threads of its own.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    entries: Mutex<Entries>,
}

/// One message.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// A broker has acknowledged it.
    is_written: bool,
    /// Where it was read first. Elsewhere it was written twice, because the first acknowledgement got lost.
    read_at: Option<(i32, i64)>,
}

#[derive(Debug, Default)]
struct Entries {
    /// By number.
    messages: Vec<Entry>,
    written: u64,
    /// Different ones, acknowledged or not.
    read: u64,
    written_and_read: u64,
    repeated: u64,
    /// Acknowledged too late, or never, and therefore written again.
    written_twice: u64,
    /// Read without ever having been sent.
    strange: u64,
    rebalances: Vec<Rebalance>,
    leader_changes: Vec<Watched>,
}

/// A change of leaders that may still be going on.
#[derive(Debug)]
struct Watched {
    cause: String,
    began: Instant,
    partitions: usize,
    /// The partitions from which nothing new was read yet, with the offset that counts as new.
    waiting: BTreeMap<i32, i64>,
    took: Option<Duration>,
}

/// How far writing and reading are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) written: u64,
    pub(super) read: u64,
    /// Written, and not read yet.
    pub(super) unread: u64,
}

impl Ledger {
    /// Numbers of new messages, which are about to be sent.
    pub(super) fn allot(&self, count: usize) -> Vec<usize> {
        let mut entries = self.entries();
        let first = entries.messages.len();
        let end = first.saturating_add(count);
        entries.messages.resize(end, Entry::default());
        (first..end).collect()
    }

    /// A broker has acknowledged these.
    pub(super) fn written(&self, numbers: &[usize]) {
        let entries = &mut *self.entries();
        for number in numbers {
            let Some(entry) = entries.messages.get_mut(*number) else {
                continue;
            };
            if !std::mem::replace(&mut entry.is_written, true) {
                entries.written += 1;
                entries.written_and_read += u64::from(entry.read_at.is_some());
            }
        }
    }

    /// A member was handed this; `None` for what is no number.
    pub(super) fn read(&self, number: Option<usize>, partition: i32, offset: i64) {
        let entries = &mut *self.entries();
        let entry = number.and_then(|number| entries.messages.get_mut(number));
        let Some(entry) = entry else {
            entries.strange += 1;
            return;
        };
        match entry.read_at {
            None => {
                entry.read_at = Some((partition, offset));
                entries.read += 1;
                entries.written_and_read += u64::from(entry.is_written);
            }
            Some(first) if first == (partition, offset) => entries.repeated += 1,
            Some(_) => entries.written_twice += 1,
        }
        for change in &mut entries.leader_changes {
            change.progress(partition, offset);
        }
    }

    pub(super) fn rebalanced(&self, rebalance: Rebalance) {
        self.entries().rebalances.push(rebalance);
    }

    /// From `began` until something at or after these offsets was read of each partition, its leader changes.
    pub(super) fn leaders_change(&self, cause: String, began: Instant, ends: BTreeMap<i32, i64>) {
        if ends.is_empty() {
            return;
        }
        self.entries().leader_changes.push(Watched {
            cause,
            began,
            partitions: ends.len(),
            waiting: ends,
            took: None,
        });
    }

    pub(super) fn progress(&self) -> Progress {
        let entries = self.entries();
        Progress {
            written: entries.written,
            read: entries.read,
            unread: entries.written.saturating_sub(entries.written_and_read),
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        let entries = self.entries();
        let numbered = entries.messages.iter().enumerate();
        let lost = numbered
            .filter(|(_, entry)| entry.is_written && entry.read_at.is_none())
            .map(|(number, _)| number);
        Verdict {
            written: entries.written,
            read: entries.read,
            lost: lost.collect(),
            repeated: entries.repeated,
            written_twice: entries.written_twice,
            strange: entries.strange,
            rebalances: entries.rebalances.clone(),
            leader_changes: entries.leader_changes.iter().map(Watched::told).collect(),
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watched {
    fn progress(&mut self, partition: i32, offset: i64) {
        if self
            .waiting
            .get(&partition)
            .is_some_and(|end| *end <= offset)
        {
            self.waiting.remove(&partition);
            if self.waiting.is_empty() {
                self.took = Some(self.began.elapsed());
            }
        }
    }

    fn told(&self) -> LeaderChange {
        LeaderChange {
            cause: self.cause.clone(),
            partitions: self.partitions,
            took: self.took,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_acknowledged_and_not_read_is_lost() {
        let ledger = Ledger::default();
        let numbers = ledger.allot(4);
        assert_eq!(numbers, [0, 1, 2, 3]);
        ledger.written(&[0, 1, 2]);
        ledger.read(Some(0), 0, 0);
        let verdict = ledger.verdict();
        assert_eq!((verdict.written, verdict.read), (3, 1));
        assert_eq!(verdict.lost, [1, 2]);
        assert_eq!(ledger.progress().unread, 2);
        ledger.read(Some(1), 1, 0);
        ledger.read(Some(2), 1, 1);
        assert!(ledger.verdict().lost.is_empty());
        assert_eq!(ledger.progress().unread, 0);
    }

    #[test]
    fn what_is_read_before_its_acknowledgement_counts_once() {
        let ledger = Ledger::default();
        ledger.allot(2);
        ledger.read(Some(0), 0, 0);
        let early = Progress {
            written: 0,
            read: 1,
            unread: 0,
        };
        assert_eq!(ledger.progress(), early);
        ledger.written(&[0, 0]);
        let progress = ledger.progress();
        assert_eq!((progress.written, progress.unread), (1, 0));
    }

    #[test]
    fn a_message_at_another_offset_was_written_twice_and_not_delivered_twice() {
        let ledger = Ledger::default();
        ledger.allot(1);
        ledger.written(&[0]);
        ledger.read(Some(0), 3, 7);
        ledger.read(Some(0), 3, 7);
        ledger.read(Some(0), 3, 9);
        let verdict = ledger.verdict();
        assert_eq!((verdict.repeated, verdict.written_twice), (1, 1));
        assert_eq!(verdict.read, 1);
    }

    #[test]
    fn what_was_never_sent_is_strange() {
        let ledger = Ledger::default();
        ledger.allot(1);
        ledger.read(None, 0, 0);
        ledger.read(Some(1), 0, 1);
        assert_eq!(ledger.verdict().strange, 2);
    }

    #[test]
    fn a_leader_change_ends_when_every_partition_goes_on() {
        let ledger = Ledger::default();
        ledger.allot(9);
        let began = Instant::now();
        ledger.leaders_change(String::from("nobody led"), began, BTreeMap::new());
        ledger.leaders_change(
            String::from("broker 1 killed"),
            began,
            BTreeMap::from([(0, 5), (2, 0)]),
        );
        let took = |ledger: &Ledger| {
            let changes = ledger.verdict().leader_changes;
            assert_eq!(changes.len(), 1);
            assert_eq!(changes[0].partitions, 2);
            changes[0].took
        };
        ledger.read(Some(0), 0, 4);
        ledger.read(Some(1), 2, 0);
        ledger.read(Some(2), 1, 10);
        assert_eq!(took(&ledger), None);
        ledger.read(Some(3), 0, 6);
        let first = took(&ledger);
        assert!(first.is_some());
        ledger.read(Some(4), 0, 7);
        assert_eq!(took(&ledger), first);
    }
}
