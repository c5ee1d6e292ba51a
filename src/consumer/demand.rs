//! How much a call wants of a stream.

use crate::consumer::wait::Wait;

/// How many messages a call hands out, and how long it waits for them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Messages handed out already since the application came back.
    pub(crate) already: usize,
    /// Most messages, those included.
    pub(crate) max: usize,
    /// For the first message.
    pub(crate) first: Wait,
    /// For each further one.
    pub(crate) more: Wait,
}

impl Demand {
    /// Up to `max` messages, those that are there as soon as there is one.
    #[inline]
    pub(crate) fn of(max: usize, first: Wait) -> Self {
        Self {
            already: 0,
            max,
            first,
            more: Wait::Not,
        }
    }
}
