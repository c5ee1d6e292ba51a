use std::collections::VecDeque;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::Condvar;
use parking_lot::Mutex;

use crate::embedded::zookeeper::faults::Faults;

/// More bytes than this wait only if they are events.
const CROWDED: usize = 4 << 20;
/// As many bytes go out at once, if they are there.
const BATCH: usize = 64 << 10;

/// Frames on their way to one client, in order.
///
/// Pushing never waits, so that it can be done under the lock of the database. The reader of the
/// connection waits for room before it takes the next request; what comes on top of that are events,
/// of which there are no more than watches.
#[derive(Debug)]
pub(super) struct Outbox {
    socket: TcpStream,
    faults: Arc<Faults>,
    queue: Mutex<Queue>,
    changed: Condvar,
    received: AtomicU64,
    sent: AtomicU64,
}

#[derive(Debug)]
struct Queue {
    /// Each with the time it is due.
    frames: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    /// When all that is there has gone out.
    AfterLast,
    /// The peer takes nothing more, but we may still read what it sent.
    Deaf,
    Now,
}

impl Outbox {
    pub(super) fn new(socket: TcpStream, faults: Arc<Faults>) -> Self {
        Self {
            socket,
            faults,
            queue: Mutex::new(Queue {
                frames: VecDeque::new(),
                bytes: 0,
                end: End::Open,
            }),
            changed: Condvar::new(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }

    /// Puts a frame last. It is dropped when the connection is about to end.
    pub(super) fn push(&self, frame: Vec<u8>) {
        let due = Instant::now() + self.faults.delay();
        let mut queue = self.queue.lock();
        if queue.end != End::Open {
            return;
        }
        queue.bytes += frame.len();
        queue.frames.push_back((due, frame));
        drop(queue);
        self.changed.notify_all();
    }

    /// Ends the connection when the frames that are there have gone out.
    pub(super) fn finish(&self) {
        self.end(End::AfterLast);
    }

    /// Ends the connection at once, whatever its threads are doing.
    pub(super) fn cut(&self) {
        self.end(End::Now);
        // Fails if the peer was faster.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Has the threads look at the faults again.
    pub(super) fn nudge(&self) {
        drop(self.queue.lock());
        self.changed.notify_all();
    }

    /// Before the next request is dealt with: waits as long as the server is silent, or the client
    /// does not take its answers. `false` when no request must be dealt with any more.
    pub(super) fn admit_request(&self) -> bool {
        let mut queue = self.queue.lock();
        loop {
            if matches!(queue.end, End::Now | End::AfterLast) {
                return false;
            }
            if !self.faults.is_silent() && queue.bytes < CROWDED {
                self.received.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            self.changed.wait(&mut queue);
        }
    }

    /// Writes frames until the connection ends. One thread does that.
    pub(super) fn write_frames(&self) {
        while let Some(batch) = self.next_batch() {
            if (&self.socket).write_all(&batch).is_err() {
                self.end(End::Deaf);
                return;
            }
        }
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Requests taken, frames sent, frames waiting.
    pub(super) fn counts(&self) -> (u64, u64, usize) {
        let waiting = self.queue.lock().frames.len();
        let received = self.received.load(Ordering::Relaxed);
        (received, self.sent.load(Ordering::Relaxed), waiting)
    }

    fn end(&self, end: End) {
        let mut queue = self.queue.lock();
        if queue.end != End::Now {
            queue.end = end;
        }
        if matches!(queue.end, End::Deaf | End::Now) {
            queue.frames.clear();
            queue.bytes = 0;
        }
        drop(queue);
        self.changed.notify_all();
    }

    fn next_batch(&self) -> Option<Vec<u8>> {
        let mut queue = self.queue.lock();
        loop {
            if matches!(queue.end, End::Now | End::Deaf) {
                return None;
            }
            if self.faults.is_silent() {
                self.changed.wait(&mut queue);
                continue;
            }
            let batch = self.due_frames(&mut queue);
            if !batch.is_empty() {
                drop(queue);
                self.changed.notify_all();
                return Some(batch);
            }
            match queue.frames.front().map(|(due, _)| *due) {
                Some(due) => {
                    self.changed.wait_until(&mut queue, due);
                }
                None if queue.end == End::AfterLast => return None,
                None => self.changed.wait(&mut queue),
            }
        }
    }

    fn due_frames(&self, queue: &mut Queue) -> Vec<u8> {
        let now = Instant::now();
        let mut batch = Vec::new();
        while batch.len() < BATCH
            && queue.frames.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, frame)) = queue.frames.pop_front()
        {
            queue.bytes = queue.bytes.saturating_sub(frame.len());
            self.sent.fetch_add(1, Ordering::Relaxed);
            match batch.is_empty() {
                true => batch = frame,
                false => batch.extend_from_slice(&frame),
            }
        }
        batch
    }
}
