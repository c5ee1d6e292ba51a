use std::future::poll_fn;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::task::Waker;

use parking_lot::Mutex;

/// Rings once, from any thread, and wakes the one task that listens.
#[derive(Default)]
pub(super) struct Bell {
    rung: AtomicBool,
    listener: Mutex<Option<Waker>>,
}

impl Bell {
    pub(super) fn ring(&self) {
        self.rung.store(true, Ordering::SeqCst);
        let listener = self.listener.lock().take();
        if let Some(waker) = listener {
            waker.wake();
        }
    }

    pub(super) fn has_rung(&self) -> bool {
        self.rung.load(Ordering::SeqCst)
    }

    /// Waits for the ring; at once when it has rung before.
    pub(super) async fn listen(&self) {
        poll_fn(|context| {
            *self.listener.lock() = Some(context.waker().clone());
            // Looked at after the waker is in place, so that a ring in between is not missed.
            if self.has_rung() {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
