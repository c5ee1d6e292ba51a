//! What the demo has to say in the end.

use std::fmt;
use std::time::Duration;

use crate::cli::failure::Failure;

/// Lost messages that are named.
const NAMED: usize = 10;

/// What was counted, message by message.
#[derive(Clone, Debug, Default)]
pub(super) struct Verdict {
    /// Acknowledged by a broker.
    pub(super) written: u64,
    /// Different messages that some member was handed.
    pub(super) read: u64,
    /// Numbers of those that were acknowledged and never read.
    pub(super) lost: Vec<usize>,
    /// Deliveries of a message beyond its first.
    pub(super) repeated: u64,
    /// Second copies that the writer made because an acknowledgement did not arrive.
    pub(super) written_twice: u64,
    /// Messages that nobody wrote.
    pub(super) strange: u64,
    pub(super) rebalances: Vec<Rebalance>,
    pub(super) leader_changes: Vec<LeaderChange>,
}

/// A rebalance of one member that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rebalance {
    pub(super) member: String,
    pub(super) generation: u64,
    pub(super) trigger: String,
    pub(super) partitions: usize,
    pub(super) took: Duration,
}

/// Partitions that got another leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaderChange {
    pub(super) cause: String,
    pub(super) partitions: usize,
    /// Until a message written afterwards was read of each partition; `None` if that did not happen.
    pub(super) took: Option<Duration>,
}

impl Verdict {
    /// `None` when everything is as it must be.
    pub(super) fn failure(&self) -> Option<Failure> {
        let reason = if !self.lost.is_empty() {
            let named: Vec<String> = self.lost.iter().take(NAMED).map(usize::to_string).collect();
            format!(
                "{} messages lost: {} ...",
                self.lost.len(),
                named.join(", ")
            )
        } else if self.strange > 0 {
            format!("{} messages read that nobody wrote", self.strange)
        } else if self.written == 0 {
            String::from("no message was written")
        } else {
            return None;
        };
        Some(Failure::Runtime(reason))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Verdict")?;
        writeln!(f, "  written   {}", self.written)?;
        writeln!(f, "  read      {}", self.read)?;
        writeln!(f, "  lost      {}", self.lost.len())?;
        write!(f, "  repeated  {}", self.repeated)?;
        if self.written_twice > 0 {
            let copies = self.written_twice;
            write!(
                f,
                ", and {copies} copies of messages that the writer sent again"
            )?;
        }
        writeln!(f)?;
        if self.strange > 0 {
            writeln!(f, "  strange   {}", self.strange)?;
        }
        writeln!(f, "Rebalances")?;
        for rebalance in &self.rebalances {
            let Rebalance {
                member,
                generation,
                trigger,
                partitions,
                took,
            } = rebalance;
            let took = took.as_millis();
            writeln!(
                f,
                "  {took:>5} ms  {member}, generation {generation}, {partitions} partitions: {trigger}"
            )?;
        }
        writeln!(f, "Leader changes, until new messages were read")?;
        for change in &self.leader_changes {
            let LeaderChange {
                cause,
                partitions,
                took,
            } = change;
            match took {
                Some(took) => write!(f, "  {:>5} ms", took.as_millis())?,
                None => write!(f, "     not over")?,
            }
            writeln!(f, "  {cause}, {partitions} partitions")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Verdict {
        Verdict {
            written: 10,
            read: 10,
            repeated: 2,
            ..Verdict::default()
        }
    }

    #[test]
    fn only_what_is_lost_strange_or_missing_altogether_is_a_failure() {
        assert!(good().failure().is_none());
        let lost = Verdict {
            lost: (0..20).collect(),
            ..good()
        };
        let failure = lost.failure().unwrap();
        assert!(failure.text().starts_with("20 messages lost: 0, 1,"));
        let strange = Verdict {
            strange: 1,
            ..good()
        };
        assert!(strange.failure().is_some());
        assert!(Verdict::default().failure().is_some());
    }

    #[test]
    fn everything_that_was_counted_is_told() {
        let verdict = Verdict {
            written_twice: 3,
            rebalances: vec![Rebalance {
                member: String::from("member-1"),
                generation: 2,
                trigger: String::from("members changed"),
                partitions: 4,
                took: Duration::from_millis(31),
            }],
            leader_changes: vec![
                LeaderChange {
                    cause: String::from("broker 1 killed"),
                    partitions: 2,
                    took: Some(Duration::from_millis(1234)),
                },
                LeaderChange {
                    cause: String::from("leaders moved to broker 1"),
                    partitions: 1,
                    took: None,
                },
            ],
            ..good()
        };
        let text = verdict.to_string();
        for line in [
            "  written   10\n",
            "  lost      0\n",
            "  repeated  2, and 3 copies of messages that the writer sent again\n",
            "     31 ms  member-1, generation 2, 4 partitions: members changed\n",
            "   1234 ms  broker 1 killed, 2 partitions\n",
            "     not over  leaders moved to broker 1, 1 partitions\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
