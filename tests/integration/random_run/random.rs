//! Numbers that a seed decides.

use std::time::Duration;

/// SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap();
        usize::try_from(self.number() % end).unwrap()
    }

    pub(super) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.number() % (to - from))
    }

    pub(super) fn is_one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }

    pub(super) fn choice<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        match from {
            [] => None,
            _ => from.get(self.below(from.len())),
        }
    }
}
