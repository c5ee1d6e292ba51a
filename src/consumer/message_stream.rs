//! A blocking iterator over the messages of the partitions that one thread of the member owns.

mod telling;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;

use crate::cluster::TopicPartition;
use crate::config::ConsumedOn;
use crate::config::ConsumerConfig;
use crate::consumer::bounds::Bounds;
use crate::consumer::chunk_reader::ChunkReader;
use crate::consumer::chunk_reader::Rest;
use crate::consumer::deferred::Deferred;
use crate::consumer::demand::Demand;
use crate::consumer::handed_out::HandedOut;
use crate::consumer::message::Message;
use crate::consumer::message::MessageRef;
use crate::consumer::owned_partitions::Ownership;
use crate::consumer::owned_partitions::seek;
use crate::consumer::stream_error::StreamError;
use crate::consumer::wait::Wait;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::fetch::ChunkQueue;
use crate::fetch::PartitionTopicInfo;
use crate::fetch::QueueEntry;
use crate::fetch::Taken;
use crate::stats::Stats;

/// Bytes that every compressed message may unpack to.
const LEAST_UNPACKED_LIMIT: usize = 64 << 20;

/// What all streams of a connector share.
#[derive(Clone)]
pub(crate) struct StreamContext {
    pub(crate) config: Arc<ConsumerConfig>,
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) events: EventSender,
}

/// The messages of the partitions that one thread of the member owns, as they come.
///
/// Iterating blocks until there is a message, and ends when the connector is shut down. Messages of one
/// partition come in order; one stream may mix partitions. A stream belongs to one application thread at a
/// time; different streams are independent: one that is not read holds back its own partitions only. The member
/// keeps the partitions of a stream that is dropped ([`Event::StreamDropped`]), so shut the connector down to leave
/// them to others.
///
/// A message counts as consumed, and its offset may be committed, when the application *comes back*: with
/// the next call on the stream, or by [`mark_consumed`](Self::mark_consumed). What was handed out and not
/// come back for is delivered again after a crash, a rebalance or a shutdown. With `consumed.on=return` it
/// counts as soon as it is handed out, as in the original.
pub struct MessageStream {
    queue: Arc<ChunkQueue>,
    context: StreamContext,
    /// Where the member reads no further than to the ends.
    bounds: Option<Arc<Bounds>>,
    current: Option<ChunkReader>,
    handed_out: HandedOut,
    /// Messages handed out since `stats` was last told.
    uncounted: usize,
    deferred: Option<Deferred>,
    /// Of the configuration; looked at for each message.
    consumed_on: ConsumedOn,
}

impl MessageStream {
    pub(crate) fn new(queue: Arc<ChunkQueue>, context: StreamContext) -> Self {
        Self {
            queue,
            consumed_on: context.config.consumed_on(),
            context,
            bounds: None,
            current: None,
            handed_out: HandedOut::default(),
            uncounted: 0,
            deferred: None,
        }
    }

    /// Ends when everything up to the ends that `bounds` knows is consumed.
    pub(crate) fn end_with(&mut self, bounds: Arc<Bounds>) {
        self.bounds = Some(bounds);
    }

    /// The next message, waiting at most `timeout` for one instead of `consumer.timeout.ms`.
    ///
    /// `None` when the connector was shut down; [`StreamError::Timeout`] when nothing came, after which the
    /// stream can be asked again.
    pub fn next_timeout(&mut self, timeout: Duration) -> Option<Result<Message, StreamError>> {
        self.next_until(Wait::within(timeout))
    }

    /// The next message that has been fetched already; [`StreamError::Timeout`] when there is none.
    pub fn try_next(&mut self) -> Option<Result<Message, StreamError>> {
        self.next_until(Wait::Not)
    }

    /// Up to `max` messages that have been fetched already, waiting at most `timeout` for the first one.
    /// [`next_batch_within`](Self::next_batch_within) bounds bytes too, and waits for more.
    ///
    /// Ends and errors are told as by [`next_timeout`](Self::next_timeout); a batch has at least one message
    /// (none for a `max` of 0). All of it counts as consumed when the application comes back.
    pub fn next_batch(
        &mut self,
        max: usize,
        timeout: Duration,
    ) -> Option<Result<Vec<Message>, StreamError>> {
        let mut batch = Vec::with_capacity(max.min(1024));
        let visited = self.visit_batch(max, timeout, |message| batch.push(message.to_message()))?;
        Some(visited.map(|_| batch))
    }

    /// As [`next_batch`](Self::next_batch), but lends each message to `visit`, which saves what owning it costs,
    /// and gives their number.
    pub fn visit_batch(
        &mut self,
        max: usize,
        timeout: Duration,
        mut visit: impl FnMut(MessageRef<'_>),
    ) -> Option<Result<usize, StreamError>> {
        self.mark_consumed();
        if max == 0 {
            return Some(Ok(0));
        }
        self.fill(&mut Demand::of(max, Wait::within(timeout)), &mut visit)
    }

    /// Counts everything handed out so far as consumed, without asking for more.
    ///
    /// For applications that stop reading and then commit or shut down.
    #[inline]
    pub fn mark_consumed(&mut self) {
        self.handed_out.mark_consumed(self.current.as_ref());
    }

    /// Counts the messages of one partition up to `message`, which this stream handed out last or in its last
    /// batch, as consumed. What it handed out behind that stays not consumed until the application comes back.
    ///
    /// For applications that stop in the middle of a batch and then commit or shut down.
    pub fn mark_consumed_through(&mut self, message: &Message) {
        let through = message.offset().saturating_add(1);
        let partition = message.topic_partition();
        self.handed_out
            .mark_consumed_through(self.current.as_ref(), partition, through);
    }

    /// Goes on behind the bad message before which `topic_partition` waits, and returns its offset.
    /// `None` where no bad message stands, or when the partition is not one of this stream's.
    pub fn skip_bad_message(&mut self, topic_partition: &TopicPartition) -> Option<i64> {
        self.own(topic_partition)?
            .skip()
            .map(|stopped| stopped.offset)
    }

    /// Goes on at `offset` in `topic_partition`, forwards or backwards, dropping what has been fetched.
    /// An offset outside the log is corrected by `auto.offset.reset`. A paused partition stays paused.
    ///
    /// [`ConsumerConnector::seek`](crate::ConsumerConnector::seek) does the same from any thread.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the partition is not one of this stream's, or `offset` is negative.
    pub fn seek(&mut self, topic_partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        seek(self.own(topic_partition), topic_partition, offset)
    }

    /// Whether the partition is one of this stream's.
    pub(crate) fn owns(&self, topic_partition: &TopicPartition) -> bool {
        self.own(topic_partition).is_some()
    }

    /// The position of a partition that feeds this stream: those of others belong to their threads.
    fn own(&self, topic_partition: &TopicPartition) -> Option<Arc<PartitionTopicInfo>> {
        let info = self.context.ownership.info(topic_partition)?;
        Arc::ptr_eq(info.queue(), &self.queue).then_some(info)
    }

    /// Takes the next chunk out of the queue, if the present one is through, so that there is room for another
    /// one to be fetched. The application has not come back.
    pub(crate) fn open_ahead(&mut self) {
        if self.current.is_none() && self.deferred.is_none() {
            self.open_next(Wait::Not, false);
        }
    }

    /// Has `reader` told whenever there may be something in this stream.
    pub(crate) fn tell_reader(&self, reader: Sender<()>) {
        self.queue.tell_reader(reader);
    }

    /// How many messages one call of a [`Poller`](crate::Poller) gives.
    pub(crate) fn max_poll_records(&self) -> usize {
        self.context.config.max_poll_records()
    }

    /// How long iterating waits.
    #[inline]
    pub(crate) fn patience(&self) -> Wait {
        Wait::within_or_for_ever(self.context.config.consumer_timeout())
    }

    #[inline]
    fn next_until(&mut self, wait: Wait) -> Option<Result<Message, StreamError>> {
        // The application came back: what it had is consumed.
        self.mark_consumed();
        let mut next = None;
        let mut keep = |message: MessageRef<'_>| next = Some(message.to_message());
        // Nearly all messages come out of the present chunk, and take the short way.
        if self.visit_chunk(1, &mut keep) == 0
            && let Err(error) = self.fill(&mut Demand::of(1, wait), &mut keep)?
        {
            return Some(Err(error));
        }
        next.map(Ok)
    }

    /// Hands out what is demanded. Returns how many messages that makes, with those that were handed out
    /// already; with any of these it does not fail.
    pub(crate) fn fill(
        &mut self,
        demand: &mut Demand,
        visit: &mut impl FnMut(MessageRef<'_>),
    ) -> Option<Result<usize, StreamError>> {
        let mut count = demand.already;
        loop {
            if count == 0 {
                demand.begin(self.queue.entries());
            }
            count += self.visit_chunk(demand.max.saturating_sub(count), visit);
            let is_empty = count == 0;
            if count >= demand.max || (self.deferred.is_some() && !is_empty) {
                return Some(Ok(count));
            }
            if let Some(deferred) = self.deferred.take() {
                match self.tell(deferred) {
                    Some(error) => return Some(Err(error)),
                    None => continue,
                }
            }
            let opened = if is_empty {
                self.open_next(demand.first, true)
            } else {
                self.open_more(demand)
            };
            match opened {
                Opened::Something => {}
                Opened::Nothing if is_empty => return Some(Err(StreamError::Timeout)),
                Opened::Closed if is_empty => return None,
                Opened::Nothing | Opened::Closed => return Some(Ok(count)),
            }
        }
    }

    /// Hands out up to `max` messages of the present chunk.
    #[inline]
    fn visit_chunk(&mut self, max: usize, visit: &mut impl FnMut(MessageRef<'_>)) -> usize {
        let Some(reader) = &mut self.current else {
            return 0;
        };
        if self.deferred.is_some() {
            return 0;
        }
        let before = reader.position();
        let (count, rest) = reader.visit(max, visit);
        // The position also moves past what is never handed out, such as the markers of transactions.
        if count > 0 || reader.position() > before {
            self.handed_out.note(reader.position());
            self.uncounted = self.uncounted.saturating_add(count);
            if self.consumed_on == ConsumedOn::Return {
                self.mark_consumed();
            }
        }
        match rest {
            Rest::More => {}
            Rest::End => self.leave_chunk(),
            Rest::Paused => self.deferred = Some(Deferred::Paused),
            Rest::Corrupt(corrupt) => self.deferred = Some(Deferred::Corrupt(corrupt)),
        }
        count
    }

    /// As [`open_next`](Self::open_next), for an application that has been given something: not when its time is over,
    /// nor for what cannot come.
    fn open_more(&mut self, demand: &mut Demand) -> Opened {
        if !demand.takes_more() || self.has_all() {
            return Opened::Nothing;
        }
        self.open_next(demand.more, false)
    }

    /// Opens the next chunk, or notes what else comes next in the queue. `is_empty`: the application has been
    /// given nothing that it has not come back for.
    fn open_next(&mut self, wait: Wait, is_empty: bool) -> Opened {
        if is_empty {
            // What went by without a message, such as the markers of transactions, has not to wait for one.
            self.mark_consumed();
            if self.is_over() {
                return Opened::Closed;
            }
        }
        match self.queue.take(wait.deadline()) {
            Taken::Nudged => {}
            Taken::Entry(QueueEntry::Messages(chunk)) => {
                self.current = Some(ChunkReader::new(chunk, self.unpacked_limit()));
            }
            Taken::Entry(QueueEntry::Reposition {
                info,
                epoch,
                offset,
            }) => self.handed_out.note_reposition(info, epoch, offset),
            Taken::Entry(QueueEntry::Halt(halt)) => self.deferred = Some(Deferred::Halt(halt)),
            Taken::TimedOut => return Opened::Nothing,
            Taken::Closed => return Opened::Closed,
        }
        Opened::Something
    }

    /// Most bytes that a compressed message may unpack to: `queued.max.bytes`, and never less than its
    /// default. A small bound must not make sound messages undeliverable.
    fn unpacked_limit(&self) -> usize {
        let bound = usize::try_from(self.context.config.queued_max_bytes());
        bound.unwrap_or(usize::MAX).max(LEAST_UNPACKED_LIMIT)
    }

    /// The present chunk is through, or not to be delivered any more.
    fn leave_chunk(&mut self) {
        let count = u64::try_from(self.uncounted).unwrap_or(u64::MAX);
        self.context.stats.messages.add(count);
        self.uncounted = 0;
        if let Some(reader) = self.current.take() {
            self.handed_out.leave(&reader);
        }
    }

    /// Whether this stream has been given everything up to its ends.
    fn has_all(&self) -> bool {
        let bounds = self.bounds.as_ref();
        bounds.is_some_and(|bounds| bounds.is_all_fetched(&self.queue) && self.queue.is_drained())
    }

    /// Whether the member has come to the ends of all its partitions. Called when the application has come
    /// back for everything.
    fn is_over(&self) -> bool {
        let bounds = self.bounds.as_ref();
        bounds.is_some_and(|bounds| self.queue.is_drained() && bounds.are_reached(&self.queue))
    }
}

/// What a look into the queue brought.
enum Opened {
    /// A chunk, a reset or a bad message.
    Something,
    Nothing,
    Closed,
}

impl Iterator for MessageStream {
    type Item = Result<Message, StreamError>;

    /// The next message, waiting for one as long as `consumer.timeout.ms` allows, by default for ever.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_until(self.patience())
    }
}

impl Drop for MessageStream {
    /// The other streams of a job do not wait for what nobody reads any more, and the application is told of it.
    fn drop(&mut self) {
        if let Some(bounds) = &self.bounds {
            bounds.abandon(&self.queue);
        }
        if self.queue.is_closed() {
            return;
        }
        let owned = self.context.ownership.current();
        let unread = owned.infos_of(&self.queue).filter(|info| !info.is_done());
        let partitions: Vec<TopicPartition> =
            unread.map(|info| info.topic_partition().clone()).collect();
        if self.bounds.is_none() || !partitions.is_empty() {
            self.context
                .events
                .send(Event::StreamDropped { partitions });
        }
    }
}

impl fmt::Debug for MessageStream {
    /// Never iterates (KAFKA-1146).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageStream")
            .field("queued_chunks", &self.queue.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
