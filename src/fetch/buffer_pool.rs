//! Recycled buffers for message sets, fetched or decompressed.

use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;

/// Buffers that are not in use, for the next message set.
///
/// A buffer goes back when the last message in it is dropped, from whichever thread that happens in.
#[derive(Debug)]
pub(crate) struct BufferPool {
    idle: Mutex<Idle>,
    /// Bytes of capacity kept for later; what comes back beyond that is freed.
    max_idle_bytes: usize,
}

#[derive(Debug, Default)]
struct Idle {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    pub(crate) fn new(max_idle_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::default(),
            max_idle_bytes,
        })
    }

    /// A buffer with room for `size` bytes, which the caller has bounded. It holds whatever was in it before, to be
    /// overwritten: memory that is known to hold something need not be zeroed before a read into it.
    pub(crate) fn take(&self, size: usize) -> Vec<u8> {
        let recycled = {
            let mut idle = self.idle.lock();
            // The smallest, so that the content of a compressed message does not take a buffer from the fetchers; of
            // equal ones the newest: its pages are the warmest.
            let buffers = idle.buffers.iter().enumerate().rev();
            let fitting = buffers
                .filter(|(_, buffer)| buffer.capacity() >= size)
                .min_by_key(|(_, buffer)| buffer.capacity());
            fitting.map(|(index, _)| index).map(|index| {
                let buffer = idle.buffers.swap_remove(index);
                idle.bytes = idle.bytes.saturating_sub(buffer.capacity());
                buffer
            })
        };
        recycled.unwrap_or_else(|| Vec::with_capacity(size))
    }

    fn give_back(&self, buffer: Vec<u8>) {
        let mut idle = self.idle.lock();
        if buffer.capacity() > 0 && idle.bytes + buffer.capacity() <= self.max_idle_bytes {
            idle.bytes += buffer.capacity();
            idle.buffers.push(buffer);
        }
    }
}

/// Bytes that return to their pool when dropped.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    bytes: Vec<u8>,
    pool: Arc<BufferPool>,
}

impl PooledBuffer {
    pub(crate) fn new(bytes: Vec<u8>, pool: &Arc<BufferPool>) -> Self {
        Self {
            bytes,
            pool: Arc::clone(pool),
        }
    }

    pub(crate) fn pool(&self) -> &Arc<BufferPool> {
        &self.pool
    }
}

impl Deref for PooledBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again() {
        let pool = BufferPool::new(1000);
        let mut bytes = pool.take(100);
        bytes.extend_from_slice(b"old");
        let address = bytes.as_ptr();
        drop(PooledBuffer::new(bytes, &pool));
        let again = pool.take(50);
        assert_eq!(again.as_ptr(), address);
        assert_eq!(again, b"old");
    }

    #[test]
    fn a_buffer_too_small_stays_for_somebody_else() {
        let pool = BufferPool::new(1000);
        drop(PooledBuffer::new(pool.take(100), &pool));
        assert!(pool.take(101).capacity() >= 101);
        assert_eq!(pool.idle.lock().buffers.len(), 1);
    }

    #[test]
    fn idle_bytes_are_bounded() {
        let pool = BufferPool::new(250);
        let buffers: Vec<_> = (0..4)
            .map(|_| PooledBuffer::new(pool.take(100), &pool))
            .collect();
        drop(buffers);
        let idle = pool.idle.lock();
        assert_eq!((idle.buffers.len(), idle.bytes), (2, 200));
    }
}
