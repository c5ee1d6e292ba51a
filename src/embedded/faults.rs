//! What a broker does wrong on demand.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Condvar;
use parking_lot::Mutex;

use crate::error::ErrorCode;
use crate::thread::StopSignal;

/// A request that the brokers know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// Appends messages.
    Produce,
    /// Reads messages.
    Fetch,
    /// Asks where logs begin and end.
    ListOffsets,
    /// Asks for brokers and leaders.
    Metadata,
    /// Stores offsets of a group.
    OffsetCommit,
    /// Reads offsets of a group.
    OffsetFetch,
    /// Asks for the coordinator of a group.
    FindCoordinator,
    /// Asks which requests are served.
    ApiVersions,
}

/// What goes wrong with one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerFault {
    /// Everything asked for is answered with this code, and nothing is done.
    Error(ErrorCode),
    /// The connection ends in the middle of the answer.
    HalfFrame,
    /// The answer says that it has so many bytes, and the connection stays open.
    LyingLength(i32),
    /// The answer carries the correlation id of another request.
    WrongCorrelationId,
    /// The connection ends instead of an answer. The request has been carried out.
    NoAnswer,
}

/// What goes wrong with all connections of a broker until it is healed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionFault {
    /// Connections are cut, and new ones refused.
    Refuse,
    /// Every answer comes so much later.
    Delay(Duration),
    /// Requests are taken, and answered only after the healing.
    Silence,
}

/// The faults of one broker. Connection threads ask before they answer.
#[derive(Debug, Default)]
pub(super) struct BrokerFaults {
    pending: Mutex<Pending>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    connections: Option<ConnectionFault>,
    /// For the next answers of each API, in order.
    answers: VecDeque<(Api, AnswerFault)>,
}

impl BrokerFaults {
    pub(super) fn set_connections(&self, fault: Option<ConnectionFault>) {
        self.pending.lock().connections = fault;
        self.changed.notify_all();
    }

    pub(super) fn add_answer(&self, api: Api, fault: AnswerFault) {
        self.pending.lock().answers.push_back((api, fault));
    }

    /// How many faulty answers are still to come.
    pub(super) fn answers_left(&self) -> usize {
        self.pending.lock().answers.len()
    }

    /// Takes the fault that the next answer of `api` must have.
    pub(super) fn take_answer(&self, api: Api) -> Option<AnswerFault> {
        let mut pending = self.pending.lock();
        let position = pending.answers.iter().position(|(of, _)| *of == api)?;
        pending.answers.remove(position).map(|(_, fault)| fault)
    }

    /// Waits as long as an answer has to. `false` when the connection is to end instead.
    pub(super) fn hold_back(&self, stop: &StopSignal) -> bool {
        let mut pending = self.pending.lock();
        while pending.connections == Some(ConnectionFault::Silence) && !stop.is_stopped() {
            self.changed.wait(&mut pending);
        }
        let fault = pending.connections;
        drop(pending);
        match fault {
            Some(ConnectionFault::Delay(time)) => stop.pause(time),
            _ => !stop.is_stopped(),
        }
    }

    /// Wakes those who are held back, so that they look at their stop signals.
    pub(super) fn wake(&self) {
        // Nobody is between the look at his signal and his wait while the lock is held here.
        drop(self.pending.lock());
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::ShutdownableThread;
    use crate::thread::Stopper;
    use crossbeam_channel::bounded;
    use std::sync::Arc;

    #[test]
    fn a_fault_waits_for_an_answer_of_its_api() {
        let faults = BrokerFaults::default();
        faults.add_answer(Api::Fetch, AnswerFault::HalfFrame);
        faults.add_answer(Api::Metadata, AnswerFault::NoAnswer);
        assert_eq!(faults.take_answer(Api::Produce), None);
        assert_eq!(
            faults.take_answer(Api::Metadata),
            Some(AnswerFault::NoAnswer)
        );
        assert_eq!(faults.take_answer(Api::Fetch), Some(AnswerFault::HalfFrame));
        assert_eq!(faults.answers_left(), 0);
    }

    #[test]
    fn silence_ends_with_the_healing_or_with_the_stop() {
        for is_healed in [true, false] {
            let faults = Arc::new(BrokerFaults::default());
            faults.set_connections(Some(ConnectionFault::Silence));
            let (answered, has_answered) = bounded(1);
            let held = Arc::clone(&faults);
            let thread = ShutdownableThread::start("silent", move |stop| {
                answered.send(held.hold_back(&stop)).unwrap();
            })
            .unwrap();
            assert!(has_answered.is_empty());
            if is_healed {
                faults.set_connections(None);
            } else {
                thread.signal_stop();
                faults.wake();
            }
            assert_eq!(has_answered.recv().unwrap(), is_healed);
        }
    }

    #[test]
    fn a_delay_ends_early_at_the_stop() {
        let faults = BrokerFaults::default();
        faults.set_connections(Some(ConnectionFault::Delay(Duration::from_secs(3600))));
        let stopper = Stopper::new();
        stopper.stop();
        assert!(!faults.hold_back(&stopper.signal()));
    }
}
