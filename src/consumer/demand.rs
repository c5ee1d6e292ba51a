//! How much a call wants of a stream.

use std::time::Instant;

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
    /// How many entries of the queue a call that does not wait for more may still take: those that were there when
    /// it came to its first message.
    there: usize,
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
            there: 0,
        }
    }

    /// There is nothing handed out yet, and the queue holds so many entries.
    pub(crate) fn begin(&mut self, entries: usize) {
        self.there = entries;
    }

    /// Whether another entry of the queue may be taken behind the first message.
    ///
    /// That nothing is there any more is no bound: fetchers may keep up with the stream until the backlog is used up.
    pub(crate) fn takes_more(&mut self) -> bool {
        match self.more {
            Wait::Not => {
                let is_there = self.there > 0;
                self.there = self.there.saturating_sub(1);
                is_there
            }
            Wait::Until(deadline) => Instant::now() < deadline,
            Wait::ForEver => true,
        }
    }
}
