//! Lists in texts, which may be long.

use std::fmt;

/// How many are named.
const NAMED: usize = 5;

/// The first few of a list, and how many there are besides: thousands of topics make no line of a log.
pub(crate) struct Few<'a, T>(pub(crate) &'a [T]);

impl<T: fmt::Display> fmt::Display for Few<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().take(NAMED).enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{item}")?;
        }
        match self.0.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
