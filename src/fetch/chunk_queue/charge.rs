//! The room that something takes in a queue.

use std::sync::Arc;

use crate::fetch::chunk_queue::ChunkQueue;
use crate::fetch::chunk_queue::QueueState;

/// Bytes of a queue in use; given back when dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    queue: Arc<ChunkQueue>,
    bytes: usize,
    /// Until the first [`resize`](Self::resize), which tells what really came.
    is_reservation: bool,
}

impl Charge {
    /// Of `bytes` that a request may bring and that `queue` counts already.
    pub(super) fn reservation(queue: &Arc<ChunkQueue>, bytes: usize) -> Self {
        Self {
            queue: Arc::clone(queue),
            bytes,
            is_reservation: true,
        }
    }

    /// Sets the charge to `bytes` that have come, if there is room for them besides what is in use.
    pub(crate) fn settle(&mut self, bytes: usize) -> bool {
        let queue = Arc::clone(&self.queue);
        // Held over both the look and the change: the answers of several fetchers come at the same time.
        let mut state = queue.state.lock();
        let others = state.bytes.saturating_sub(self.bytes);
        let fits = others == 0 || others.saturating_add(bytes) <= queue.max_bytes;
        if bytes > self.bytes && !fits {
            return false;
        }
        self.set(bytes, &mut state);
        true
    }

    /// Sets the charge to what is really used: less than reserved, or more once decompressed.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let queue = Arc::clone(&self.queue);
        self.set(bytes, &mut queue.state.lock());
    }

    fn set(&mut self, bytes: usize, state: &mut QueueState) {
        state.bytes = state.bytes.saturating_sub(self.bytes).saturating_add(bytes);
        if self.is_reservation {
            state.reserved = state.reserved.saturating_sub(self.bytes);
            self.is_reservation = false;
            // The request is over, but the stream has not moved: a queue that was full is so still.
            state.tell_waiting();
        } else if bytes < self.bytes {
            self.queue.made_room(state);
        }
        self.bytes = bytes;
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0);
    }
}
