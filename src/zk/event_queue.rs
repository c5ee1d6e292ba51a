use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_executor::Executor;
use async_io::Timer;
use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::TrySendError;
use crossbeam_channel::bounded;
use parking_lot::Mutex;

use crate::zk::event::SessionEvent;
use crate::zk::event::ZkEvent;

/// Events that wait in the channel; those beyond wait, coalesced, in [`Pending`].
const CHANNEL_CAPACITY: usize = 1024;
/// How soon a full channel is looked at again.
const RETRY: Duration = Duration::from_millis(5);

/// Hands events to the consumer without ever blocking `zk-session` and without ever losing one.
pub(super) struct EventQueue {
    executor: Arc<Executor<'static>>,
    pending: Mutex<Pending>,
    /// `None` once closed, which ends the consumer's receiver.
    sender: Mutex<Option<Sender<ZkEvent>>>,
    retrying: AtomicBool,
}

impl EventQueue {
    pub(super) fn new(executor: Arc<Executor<'static>>) -> (Arc<Self>, Receiver<ZkEvent>) {
        let (sender, receiver) = bounded(CHANNEL_CAPACITY);
        let queue = Self {
            executor,
            pending: Mutex::default(),
            sender: Mutex::new(Some(sender)),
            retrying: AtomicBool::new(false),
        };
        (Arc::new(queue), receiver)
    }

    /// Called on `zk-session` only, which keeps the events in order.
    pub(super) fn emit(self: &Arc<Self>, event: ZkEvent) {
        self.pending.lock().push(event);
        if !self.flush() && !self.retrying.swap(true, Ordering::SeqCst) {
            let queue = Arc::clone(self);
            let retry = async move {
                while !queue.flush() {
                    Timer::after(RETRY).await;
                }
                queue.retrying.store(false, Ordering::SeqCst);
            };
            self.executor.spawn(retry).detach();
        }
    }

    pub(super) fn close(&self) {
        self.sender.lock().take();
    }

    /// Moves what is pending into the channel. `false` when the channel is full before the end.
    fn flush(&self) -> bool {
        let sender = self.sender.lock().clone();
        loop {
            let Some(event) = self.pending.lock().pop() else {
                return true;
            };
            let sent = match &sender {
                Some(sender) => sender.try_send(event),
                None => Ok(()),
            };
            if let Err(TrySendError::Full(event)) = sent {
                self.pending.lock().unpop(event);
                return false;
            }
        }
    }
}

/// Events that found no room in the channel: no two the same, hence no more than there are watches
/// and a handful of session events.
#[derive(Debug, Default)]
struct Pending {
    order: VecDeque<ZkEvent>,
    nodes: HashSet<ZkEvent>,
}

impl Pending {
    fn push(&mut self, event: ZkEvent) {
        let ZkEvent::Session(session) = &event else {
            if self.nodes.insert(event.clone()) {
                self.order.push_back(event);
            }
            return;
        };
        // Back where an event took it that still waits: what lies between has no reader any more.
        let undone = match session {
            SessionEvent::Disconnected => self.last_session() == Some(&SessionEvent::Reconnected),
            SessionEvent::Expired => true,
            SessionEvent::Reconnected | SessionEvent::Established { .. } => false,
        };
        match self.order.iter().rposition(|earlier| *earlier == event) {
            Some(earlier) if undone => {
                let mut index = 0;
                self.order.retain(|event| {
                    index += 1;
                    index <= earlier + 1 || !matches!(event, ZkEvent::Session(_))
                });
            }
            _ => self.order.push_back(event),
        }
    }

    fn last_session(&self) -> Option<&SessionEvent> {
        self.order.iter().rev().find_map(|event| match event {
            ZkEvent::Session(event) => Some(event),
            _ => None,
        })
    }

    fn pop(&mut self) -> Option<ZkEvent> {
        let event = self.order.pop_front()?;
        self.nodes.remove(&event);
        Some(event)
    }

    fn unpop(&mut self, event: ZkEvent) {
        if !matches!(event, ZkEvent::Session(_)) && !self.nodes.insert(event.clone()) {
            return;
        }
        self.order.push_front(event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(events: impl IntoIterator<Item = ZkEvent>) -> Vec<ZkEvent> {
        let mut pending = Pending::default();
        events.into_iter().for_each(|event| pending.push(event));
        std::iter::from_fn(|| pending.pop()).collect()
    }

    fn changed(path: &str) -> ZkEvent {
        ZkEvent::DataChanged(String::from(path))
    }

    #[test]
    fn the_same_node_event_waits_once() {
        let events = [changed("/a"), changed("/b"), changed("/a")];
        assert_eq!(pending(events), [changed("/a"), changed("/b")]);
    }

    #[test]
    fn an_event_that_was_taken_waits_again_when_it_comes_again() {
        let mut pending = Pending::default();
        pending.push(changed("/a"));
        assert_eq!(pending.pop(), Some(changed("/a")));
        pending.push(changed("/a"));
        assert_eq!(pending.pop(), Some(changed("/a")));
        assert_eq!(pending.pop(), None);
    }

    #[test]
    fn a_flapping_connection_does_not_pile_up() {
        use SessionEvent::*;
        let flapping = [Disconnected, Reconnected, Disconnected, Reconnected];
        assert_eq!(
            pending(flapping.map(ZkEvent::Session)),
            [Disconnected, Reconnected].map(ZkEvent::Session)
        );
    }

    #[test]
    fn of_several_new_sessions_the_last_one_is_told() {
        use SessionEvent::*;
        let sessions = [
            Disconnected,
            Expired,
            Established { session: 1 },
            Disconnected,
            Expired,
            Established { session: 2 },
        ];
        assert_eq!(
            pending(sessions.map(ZkEvent::Session)),
            [Disconnected, Expired, Established { session: 2 }].map(ZkEvent::Session)
        );
    }

    #[test]
    fn flapping_after_a_new_session_does_not_hide_that_session() {
        use SessionEvent::*;
        let renewed = [Disconnected, Expired, Established { session: 1 }];
        let flapping = [Disconnected, Reconnected, Disconnected];
        let events = renewed.iter().chain(&flapping).cloned();
        let expected = renewed.iter().chain(&flapping[..1]).cloned();
        assert_eq!(
            pending(events.map(ZkEvent::Session)),
            expected.map(ZkEvent::Session).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_full_channel_delays_events_but_loses_none() {
        let executor = Arc::new(Executor::new());
        let (queue, receiver) = EventQueue::new(Arc::clone(&executor));
        let total = CHANNEL_CAPACITY * 3;
        for number in 0..total {
            queue.emit(changed(&format!("/{number}")));
        }
        assert_eq!(receiver.len(), CHANNEL_CAPACITY);
        let mut received = Vec::new();
        async_io::block_on(executor.run(async {
            while received.len() < total {
                received.extend(receiver.try_iter());
                futures_lite::future::yield_now().await;
            }
        }));
        for (number, event) in received.iter().enumerate() {
            assert_eq!(*event, changed(&format!("/{number}")));
        }
    }

    #[test]
    fn closing_ends_the_receiver() {
        let (queue, receiver) = EventQueue::new(Arc::new(Executor::new()));
        queue.emit(changed("/a"));
        queue.close();
        queue.emit(changed("/b"));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [changed("/a")]);
    }
}
