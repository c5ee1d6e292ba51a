//! What happens in the demo, and when.

use std::time::Duration;

/// One thing that is done to the cluster or to the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    KillBroker,
    RestartBroker,
    /// Leadership does not go back by itself.
    MoveLeadersBack,
    MemberLeaves,
    MemberJoins,
}

/// All acts, each with its time in hundredths of the whole.
const ACTS: [(u32, Act); 5] = [
    (20, Act::KillBroker),
    (40, Act::RestartBroker),
    (50, Act::MoveLeadersBack),
    (60, Act::MemberLeaves),
    (78, Act::MemberJoins),
];

/// The acts that are still to come.
#[derive(Debug)]
pub(super) struct Play {
    length: Duration,
    done: usize,
}

impl Play {
    pub(super) fn new(length: Duration) -> Self {
        Self { length, done: 0 }
    }

    /// The next act, if its time has come.
    pub(super) fn next(&mut self, played: Duration) -> Option<Act> {
        let (hundredths, act) = ACTS.get(self.done)?;
        if played < self.length * *hundredths / 100 {
            return None;
        }
        self.done += 1;
        Some(*act)
    }

    /// Never before the last act, even if that comes late.
    pub(super) fn is_over(&self, played: Duration) -> bool {
        self.done == ACTS.len() && played >= self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_come_in_order_and_once_however_late_they_are_asked_for() {
        let mut play = Play::new(Duration::from_secs(10));
        assert_eq!(play.next(Duration::from_millis(1999)), None);
        assert_eq!(play.next(Duration::from_secs(2)), Some(Act::KillBroker));
        assert_eq!(play.next(Duration::from_secs(2)), None);
        let end = Duration::from_secs(10);
        assert!(!play.is_over(end), "acts are left");
        let rest: Vec<Act> = std::iter::from_fn(|| play.next(end)).collect();
        let all: Vec<Act> = ACTS.iter().skip(1).map(|(_, act)| *act).collect();
        assert_eq!(rest, all);
        assert!(play.is_over(end));
        assert!(!play.is_over(Duration::from_secs(9)), "there is time left");
    }
}
