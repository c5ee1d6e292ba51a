//! Calls the application's rebalance listener.

use std::sync::Arc;
use std::thread;
use std::thread::ThreadId;

use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::consumer::application_code::guarded;
use crate::consumer::committer::Committer;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::consumer::rebalance_listener::AssignedPartitions;
use crate::consumer::rebalance_listener::ListenerResult;
use crate::consumer::rebalance_listener::RebalanceListener;
use crate::consumer::rebalance_listener::RevokedPartitions;
use crate::events::Event;
use crate::events::EventSender;
use crate::thread::StopSignal;

/// The listener of a connector, if it has one. Whatever a call does, the caller goes on.
pub(crate) struct ListenerCalls {
    /// Taken out for the time of a call: no lock is held while the application is called.
    listener: Mutex<Option<Box<dyn RebalanceListener>>>,
    /// The thread that is in a call.
    calling: Mutex<Option<ThreadId>>,
    events: EventSender,
}

impl ListenerCalls {
    pub(crate) fn new(events: EventSender) -> Self {
        Self {
            listener: Mutex::default(),
            calling: Mutex::default(),
            events,
        }
    }

    pub(crate) fn set(&self, listener: Box<dyn RebalanceListener>) {
        let before = self.listener.lock().replace(listener);
        drop(before);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.listener.lock().is_some()
    }

    /// Whether this thread has been called, and must not wait for the end of the call.
    pub(crate) fn is_caller(&self) -> bool {
        *self.calling.lock() == Some(thread::current().id())
    }

    /// Called after the delivery has stopped and before anything is committed; not when nothing is owned.
    pub(crate) fn revoke(
        &self,
        owned: Arc<OwnedPartitions>,
        committer: &Committer,
        attempts: u32,
        stop: &StopSignal,
    ) {
        if !owned.partitions.is_empty() {
            let revoked = RevokedPartitions::new(owned, committer, attempts, stop);
            self.call("on_revoke", |listener| listener.on_revoke(&revoked));
        }
    }

    /// Called when the partitions are owned, and before any is fetched.
    pub(crate) fn assign(&self, owned: Arc<OwnedPartitions>) {
        let assigned = AssignedPartitions::new(owned);
        self.call("on_assign", |listener| listener.on_assign(&assigned));
    }

    /// Called when nothing is owned any more; not when nothing was.
    pub(crate) fn lose(&self, owned: &OwnedPartitions) {
        if !owned.partitions.is_empty() {
            let lost: Vec<TopicPartition> = owned.partitions.keys().cloned().collect();
            self.call("on_lost", |listener| listener.on_lost(&lost));
        }
    }

    /// Calls are made one at a time.
    fn call(
        &self,
        name: &'static str,
        call: impl FnOnce(&mut dyn RebalanceListener) -> ListenerResult,
    ) {
        let Some(mut listener) = self.listener.lock().take() else {
            return;
        };
        *self.calling.lock() = Some(thread::current().id());
        // A panic in the application must not end the rebalances.
        let outcome = guarded(|| call(&mut *listener));
        *self.calling.lock() = None;
        *self.listener.lock() = Some(listener);
        if let Err(error) = outcome {
            let reason = error.to_string();
            self.events
                .send(Event::ListenerFailed { call: name, reason });
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::events::event_channel;

    use super::*;

    #[derive(Default)]
    struct Failing {
        calls: usize,
    }

    impl RebalanceListener for Failing {
        fn on_assign(&mut self, _: &AssignedPartitions) -> ListenerResult {
            self.calls += 1;
            match self.calls {
                1 => Err("no".into()),
                2 => panic!("never {}", 7),
                3 => panic!("never"),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn an_error_and_a_panic_of_the_listener_are_told_and_it_is_called_again() {
        let (sender, events) = event_channel();
        let calls = ListenerCalls::new(sender);
        calls.assign(Arc::default());
        calls.set(Box::<Failing>::default());
        for _ in 0..4 {
            calls.assign(Arc::default());
        }
        let told: Vec<String> = std::iter::from_fn(|| events.try_next())
            .map(|event| event.to_string())
            .collect();
        assert_eq!(
            told,
            [
                "rebalance listener failed in on_assign: no",
                "rebalance listener failed in on_assign: panicked: never 7",
                "rebalance listener failed in on_assign: panicked: never",
            ]
        );
        assert!(!calls.is_caller());
    }
}
