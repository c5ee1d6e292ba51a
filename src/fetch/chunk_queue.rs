//! The bounded queue between the fetchers and one stream.

mod charge;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Sender;
use parking_lot::Condvar;
use parking_lot::Mutex;

use crate::fetch::queue_entry::QueueEntry;

pub(crate) use charge::Charge;

/// What [`ChunkQueue::take`] came back with.
#[derive(Debug)]
pub(crate) enum Taken {
    Entry(QueueEntry),
    /// Nothing there, but something else is to be looked at; see [`ChunkQueue::nudge`].
    Nudged,
    TimedOut,
    /// The connector was shut down; this is for ever.
    Closed,
}

/// Why a partition cannot be asked for more now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The stream does not keep up: what waits for it has taken the room since then.
    Since(Instant),
    /// Other partitions of the stream are being asked for, and have the room reserved.
    Reserved,
}

/// Bounded first-in first-out queue of one stream, fed by any number of fetchers, emptied by the application.
///
/// A fetcher *reserves* before it asks a broker, so that what comes always finds its place: pushing never
/// blocks, and a full queue holds back only the partitions that feed it (D6, D46). The reservation of a
/// request that holds several partitions of one stream may exceed the chunk limit by those partitions.
#[derive(Debug)]
pub(crate) struct ChunkQueue {
    max_chunks: usize,
    max_bytes: usize,
    state: Mutex<QueueState>,
    /// Signalled after each change of `state` that gives a waiting stream something to look at.
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    entries: VecDeque<QueueEntry>,
    /// Message sets among `entries`.
    chunks: usize,
    /// Bytes reserved, queued, and held by the stream, decompressed ones included.
    bytes: usize,
    /// Those of `bytes` that requests under way have reserved.
    reserved: usize,
    full_since: Option<Instant>,
    closed: bool,
    nudged: bool,
    /// Whoever reads several queues, and is told by a token when there is something in one of them.
    reader: Option<Sender<()>>,
    /// Fetchers that left a partition out and want to know when there is room.
    waiting: Vec<Sender<()>>,
}

impl QueueState {
    fn add_waiting(&mut self, waiter: &Sender<()>) {
        if !self.waiting.iter().any(|other| other.same_channel(waiter)) {
            self.waiting.push(waiter.clone());
        }
    }

    fn tell_reader(&self) {
        if let Some(reader) = &self.reader {
            // A token that is there already wakes the reader just as well.
            let _ = reader.try_send(());
        }
    }

    fn tell_waiting(&mut self) {
        for waiter in self.waiting.drain(..) {
            // A token that is there already wakes the fetcher just as well.
            let _ = waiter.try_send(());
        }
    }
}

impl ChunkQueue {
    /// `max_chunks` is `queued.max.message.chunks`, `max_bytes` this stream's share of `queued.max.bytes`.
    pub(crate) fn new(max_chunks: usize, max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            max_chunks,
            max_bytes,
            state: Mutex::default(),
            arrived: Condvar::new(),
        })
    }

    /// Makes room for a message set of at most `bytes`. A queue that holds nothing always has room.
    /// Without room `waiter` is sent a token once there is some.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        bytes: usize,
        waiter: &Sender<()>,
    ) -> Result<Charge, Full> {
        let mut state = self.state.lock();
        if self.has_room(&state, state.bytes, bytes) {
            state.bytes += bytes;
            state.reserved += bytes;
            return Ok(Charge::reservation(self, bytes));
        }
        state.add_waiting(waiter);
        if self.has_room(&state, state.bytes.saturating_sub(state.reserved), bytes) {
            return Err(Full::Reserved);
        }
        let since = *state.full_since.get_or_insert_with(Instant::now);
        Err(Full::Since(since))
    }

    fn has_room(&self, state: &QueueState, in_use: usize, bytes: usize) -> bool {
        let fits = in_use == 0 || in_use.saturating_add(bytes) <= self.max_bytes;
        state.chunks < self.max_chunks && fits
    }

    /// Has `waiter` told when something about the queue or its partitions changes.
    pub(crate) fn notify_when_woken(&self, waiter: &Sender<()>) {
        self.state.lock().add_waiting(waiter);
    }

    /// Puts an entry at the end, whatever the queue holds; room was reserved before. Dropped when closed.
    pub(crate) fn push(&self, entry: QueueEntry) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            drop(entry);
            return;
        }
        if matches!(entry, QueueEntry::Messages(_)) {
            state.chunks += 1;
            if state.chunks >= self.max_chunks {
                state.full_since.get_or_insert_with(Instant::now);
            }
        }
        state.entries.push_back(entry);
        state.tell_reader();
        drop(state);
        self.arrived.notify_one();
    }

    /// The first entry, waiting for one until `deadline`, or for ever. Called by the stream's thread.
    pub(crate) fn take(&self, deadline: Option<Instant>) -> Taken {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Taken::Closed;
            }
            if let Some(entry) = state.entries.pop_front() {
                if matches!(entry, QueueEntry::Messages(_)) {
                    state.chunks -= 1;
                }
                self.made_room(&mut state);
                return Taken::Entry(entry);
            }
            if std::mem::take(&mut state.nudged) {
                return Taken::Nudged;
            }
            match deadline {
                None => self.arrived.wait(&mut state),
                Some(deadline) => {
                    if self.arrived.wait_until(&mut state, deadline).timed_out()
                        && state.entries.is_empty()
                        && !state.closed
                        && !state.nudged
                    {
                        return Taken::TimedOut;
                    }
                }
            }
        }
    }

    /// Has the stream look again at what it waits for, now or when it waits the next time.
    pub(crate) fn nudge(&self) {
        let mut state = self.state.lock();
        state.nudged = true;
        state.tell_reader();
        drop(state);
        self.arrived.notify_one();
    }

    /// From now on `reader` is sent a token whenever the stream has something to look at, beginning with
    /// what is there. One that waits for the tokens of several queues waits for all of them at once.
    pub(crate) fn tell_reader(&self, reader: Sender<()>) {
        let mut state = self.state.lock();
        state.reader = Some(reader);
        state.tell_reader();
    }

    /// Whether nothing waits for the stream, neither messages nor anything else.
    pub(crate) fn is_drained(&self) -> bool {
        self.state.lock().entries.is_empty()
    }

    /// Message sets and whatever else waits for the stream.
    pub(crate) fn entries(&self) -> usize {
        self.state.lock().entries.len()
    }

    /// Message sets waiting for the stream (`FetchQueueSize` of the original).
    pub(crate) fn len(&self) -> usize {
        self.state.lock().chunks
    }

    /// Drops all entries. Called by a rebalance, after the fetchers stopped.
    pub(crate) fn clear(&self) {
        let entries = {
            let mut state = self.state.lock();
            state.chunks = 0;
            state.full_since = None;
            std::mem::take(&mut state.entries)
        };
        // Dropping a chunk gives its charge back, which takes the lock.
        drop(entries);
        self.wake_fetchers();
    }

    /// Whether the streams have been ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Ends the stream: drops all entries and wakes whoever waits (the original's sentinel).
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.tell_reader();
        drop(state);
        self.arrived.notify_all();
        self.clear();
    }

    /// Lets fetchers that wait for this queue look again at their partitions.
    pub(crate) fn wake_fetchers(&self) {
        self.state.lock().tell_waiting();
    }

    /// After the stream took or gave back something: if that made room, whoever waits for it is told.
    fn made_room(&self, state: &mut QueueState) {
        if state.chunks < self.max_chunks {
            state.full_since = None;
            state.tell_waiting();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use crossbeam_channel::bounded;

    use crate::cluster::TopicPartition;
    use crate::fetch::buffer_pool::BufferPool;
    use crate::fetch::buffer_pool::PooledBuffer;
    use crate::fetch::partition_topic_info::PartitionTopicInfo;
    use crate::fetch::queue_entry::Chunk;
    use crate::protocol::AbortedTransactions;

    use super::*;

    fn chunk(queue: &Arc<ChunkQueue>, charge: Charge) -> QueueEntry {
        let partition = TopicPartition::new("orders", 0);
        let info = PartitionTopicInfo::new(partition, Arc::clone(queue), Some(0));
        QueueEntry::Messages(Chunk {
            info,
            epoch: 0,
            fetch_offset: 0,
            high_watermark: None,
            message_set: PooledBuffer::new(vec![0; charge.bytes()], &BufferPool::new(0)),
            aborted: AbortedTransactions::default(),
            charge,
        })
    }

    #[test]
    fn the_end_of_a_request_does_not_make_a_full_queue_look_young() {
        // The wait of the next request is as long as the queue has been full. Each answer began that time anew, so
        // that a broker was asked without any wait, again and again, until the stream came back.
        let queue = ChunkQueue::new(10, 100);
        let (waiter, _token) = bounded(1);
        let mut held = vec![queue.reserve(10, &waiter).unwrap()];
        assert!(held[0].settle(10));
        let full_since = || match queue.reserve(100, &waiter) {
            Err(Full::Since(since)) => since,
            other => panic!("{other:?}"),
        };
        let since = full_since();
        for bytes in [0, 5] {
            let mut request = queue.reserve(80, &waiter).unwrap();
            assert!(request.settle(bytes));
            assert_eq!(full_since(), since);
            held.push(request);
        }
    }

    #[test]
    fn a_full_queue_refuses_and_tells_when_there_is_room() {
        let queue = ChunkQueue::new(2, 1000);
        let (waiter, token) = bounded(1);
        for _ in 0..2 {
            let charge = queue.reserve(10, &waiter).unwrap();
            queue.push(chunk(&queue, charge));
        }
        let full = queue.reserve(10, &waiter).unwrap_err();
        assert_eq!(
            queue.reserve(10, &waiter).unwrap_err(),
            full,
            "still the same spell"
        );
        assert!(token.try_recv().is_err());
        assert!(matches!(queue.take(None), Taken::Entry(_)));
        assert!(token.try_recv().is_ok());
        assert!(queue.reserve(10, &waiter).is_ok());
    }

    #[test]
    fn bytes_held_by_the_stream_count_until_it_is_through() {
        let queue = ChunkQueue::new(10, 100);
        let (waiter, token) = bounded(1);
        let charge = queue.reserve(60, &waiter).unwrap();
        queue.push(chunk(&queue, charge));
        let Taken::Entry(QueueEntry::Messages(mut held)) = queue.take(None) else {
            panic!("a chunk is there");
        };
        assert!(queue.reserve(60, &waiter).is_err(), "60 of 100 are in use");
        held.charge.resize(20);
        assert!(token.try_recv().is_ok());
        let second = queue.reserve(60, &waiter).unwrap();
        drop(second);
        held.charge.resize(500);
        assert!(
            queue.reserve(1, &waiter).is_err(),
            "decompressed bytes count"
        );
        drop(held);
        assert!(queue.reserve(100, &waiter).is_ok());
    }

    #[test]
    fn room_that_requests_have_reserved_is_told_from_a_stream_that_does_not_keep_up() {
        // A request without room for all its partitions was taken for a stream that does not read. So the
        // broker was asked not to wait, and members with many quiet partitions asked without a pause.
        let queue = ChunkQueue::new(2, 100);
        let (waiter, token) = bounded(1);
        let mut first = queue.reserve(60, &waiter).unwrap();
        assert_eq!(queue.reserve(60, &waiter).unwrap_err(), Full::Reserved);
        first.resize(50);
        assert!(token.try_recv().is_ok());
        let full = queue.reserve(60, &waiter).unwrap_err();
        assert!(matches!(full, Full::Since(_)), "{full:?}");
        drop(first);
        assert!(queue.reserve(60, &waiter).is_ok());
        assert_eq!(queue.state.lock().reserved, 0);
    }

    #[test]
    fn more_than_was_reserved_is_taken_only_where_there_is_room_for_it() {
        let queue = ChunkQueue::new(2, 100);
        let (waiter, _token) = bounded(1);
        let mut first = queue.reserve(10, &waiter).unwrap();
        let mut second = queue.reserve(10, &waiter).unwrap();
        assert!(first.settle(80));
        assert!(!second.settle(30), "90 of 100 are in use");
        assert!(second.settle(5), "less than reserved always fits");
        drop(first);
        let mut third = queue.reserve(10, &waiter).unwrap();
        drop(second);
        assert!(
            third.settle(500),
            "a message set finds room in an empty queue whatever its size"
        );
    }

    #[test]
    fn an_empty_queue_has_room_for_any_chunk() {
        let queue = ChunkQueue::new(1, 10);
        let (waiter, _token) = bounded(1);
        assert!(queue.reserve(1_000_000, &waiter).is_ok());
    }

    #[test]
    fn closing_ends_a_wait_without_limit_and_drops_what_comes_later() {
        let queue = ChunkQueue::new(2, 1000);
        let waiting = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || matches!(queue.take(None), Taken::Closed))
        };
        queue.close();
        assert!(waiting.join().unwrap());
        let (waiter, _token) = bounded(1);
        let charge = queue.reserve(10, &waiter).unwrap();
        queue.push(chunk(&queue, charge));
        assert_eq!(queue.len(), 0);
        assert!(matches!(queue.take(None), Taken::Closed));
        assert_eq!(queue.state.lock().bytes, 0);
    }

    #[test]
    fn a_wait_with_a_deadline_times_out_and_can_be_repeated() {
        let queue = ChunkQueue::new(2, 1000);
        for _ in 0..2 {
            let deadline = Instant::now() + Duration::from_millis(1);
            assert!(matches!(queue.take(Some(deadline)), Taken::TimedOut));
        }
    }

    #[test]
    fn clearing_gives_every_byte_back() {
        let queue = ChunkQueue::new(2, 1000);
        let (waiter, _token) = bounded(1);
        for _ in 0..2 {
            let charge = queue.reserve(10, &waiter).unwrap();
            queue.push(chunk(&queue, charge));
        }
        queue.clear();
        assert_eq!(queue.state.lock().bytes, 0);
        assert!(queue.reserve(1000, &waiter).is_ok());
    }
}
