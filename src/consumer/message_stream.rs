//! A blocking iterator over the messages of the partitions that one thread of the member owns.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::cluster::TopicPartition;
use crate::config::ConsumedOn;
use crate::config::ConsumerConfig;
use crate::config::OnBadMessage;
use crate::consumer::chunk_reader::ChunkReader;
use crate::consumer::chunk_reader::CorruptEntry;
use crate::consumer::chunk_reader::Rest;
use crate::consumer::deferred::Deferred;
use crate::consumer::deferred::is_to_be_told;
use crate::consumer::message::Message;
use crate::consumer::message::MessageRef;
use crate::consumer::owned_partitions::Ownership;
use crate::consumer::owned_partitions::seek;
use crate::consumer::stream_error::StreamError;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::fetch::BadEntry;
use crate::fetch::ChunkQueue;
use crate::fetch::PartitionTopicInfo;
use crate::fetch::QueueEntry;
use crate::fetch::StoppedAt;
use crate::fetch::Taken;
use crate::fetch::Verdict;
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
/// time; different streams are independent: one that is not read holds back its own partitions only.
///
/// A message counts as consumed, and its offset may be committed, when the application *comes back*: with
/// the next call on the stream, or by [`mark_consumed`](Self::mark_consumed). What was handed out and not
/// come back for is delivered again after a crash, a rebalance or a shutdown. With `consumed.on=return` it
/// counts as soon as it is handed out, as in the original.
pub struct MessageStream {
    queue: Arc<ChunkQueue>,
    context: StreamContext,
    current: Option<ChunkReader>,
    /// Next offset after the last message handed out of `current`, not yet counted as consumed.
    handed_out: Option<i64>,
    /// The same for chunks that a batch has gone through.
    handed_out_before: Vec<(Arc<PartitionTopicInfo>, u64, i64)>,
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
            current: None,
            handed_out: None,
            handed_out_before: Vec::new(),
            uncounted: 0,
            deferred: None,
        }
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
        self.fill(max, Wait::within(timeout), &mut visit)
    }

    /// Counts everything handed out so far as consumed, without asking for more.
    ///
    /// For applications that stop reading and then commit or shut down.
    #[inline]
    pub fn mark_consumed(&mut self) {
        // Once a chunk, while this is called for each message.
        if !self.handed_out_before.is_empty() {
            for (info, epoch, next) in self.handed_out_before.drain(..) {
                info.mark_consumed(next, epoch);
            }
        }
        if let (Some(next), Some(reader)) = (self.handed_out.take(), &self.current) {
            reader.info().mark_consumed(next, reader.epoch());
        }
    }

    /// Counts the messages of one partition up to `message`, which this stream handed out last or in its last
    /// batch, as consumed. What it handed out behind that stays not consumed until the application comes back.
    ///
    /// For applications that stop in the middle of a batch and then commit or shut down.
    pub fn mark_consumed_through(&mut self, message: &Message) {
        let through = message.offset().saturating_add(1);
        let current = match (self.handed_out, &self.current) {
            (Some(next), Some(reader)) => Some((reader.info(), reader.epoch(), next)),
            _ => None,
        };
        let before = self.handed_out_before.iter();
        let in_order = before.map(|(info, epoch, next)| (info, *epoch, *next));
        for (info, epoch, next) in in_order.chain(current) {
            if info.topic_partition() == message.topic_partition() {
                info.mark_consumed(through.min(next), epoch);
                if next >= through {
                    return;
                }
            }
        }
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

    /// The position of a partition that feeds this stream: those of others belong to their threads.
    fn own(&self, topic_partition: &TopicPartition) -> Option<Arc<PartitionTopicInfo>> {
        let info = self.context.ownership.info(topic_partition)?;
        Arc::ptr_eq(info.queue(), &self.queue).then_some(info)
    }

    #[inline]
    fn next_until(&mut self, wait: Wait) -> Option<Result<Message, StreamError>> {
        // The application came back: what it had is consumed.
        self.mark_consumed();
        let mut next = None;
        let mut keep = |message: MessageRef<'_>| next = Some(message.to_message());
        // Nearly all messages come out of the present chunk, and take the short way.
        if self.visit_chunk(1, &mut keep) == 0
            && let Err(error) = self.fill(1, wait, &mut keep)?
        {
            return Some(Err(error));
        }
        next.map(Ok)
    }

    /// Hands out up to `max` messages, waiting for the first one.
    fn fill(
        &mut self,
        max: usize,
        wait: Wait,
        visit: &mut impl FnMut(MessageRef<'_>),
    ) -> Option<Result<usize, StreamError>> {
        let mut count = 0;
        loop {
            count += self.visit_chunk(max - count, visit);
            let is_empty = count == 0;
            if count == max || (self.deferred.is_some() && !is_empty) {
                return Some(Ok(count));
            }
            if let Some(deferred) = self.deferred.take() {
                match self.tell(deferred) {
                    Some(error) => return Some(Err(error)),
                    None => continue,
                }
            }
            match self.open_next(if is_empty { wait } else { Wait::Not }, is_empty) {
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
            self.handed_out = Some(reader.position());
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

    /// Opens the next chunk, or notes what else comes next in the queue. `is_empty`: the application has been
    /// given nothing that it has not come back for.
    fn open_next(&mut self, wait: Wait, is_empty: bool) -> Opened {
        let deadline = match wait {
            Wait::ForEver => None,
            Wait::Until(deadline) => Some(deadline),
            Wait::Not => Some(Instant::now()),
        };
        match self.queue.take(deadline) {
            Taken::Entry(QueueEntry::Messages(chunk)) => {
                self.current = Some(ChunkReader::new(chunk, self.unpacked_limit()));
            }
            Taken::Entry(QueueEntry::Reposition {
                info,
                epoch,
                offset,
            }) => {
                self.handed_out_before.push((info, epoch, offset));
                if is_empty {
                    self.mark_consumed();
                }
            }
            Taken::Entry(QueueEntry::Bad {
                info,
                epoch,
                offset,
                entry,
            }) => {
                self.deferred = Some(Deferred::Bad {
                    info,
                    epoch,
                    offset,
                    entry,
                });
            }
            Taken::Entry(QueueEntry::NoOffset {
                info,
                epoch,
                offset,
                log,
            }) => {
                self.deferred = Some(Deferred::NoOffset {
                    info,
                    epoch,
                    offset,
                    log,
                });
            }
            Taken::TimedOut => return Opened::Nothing,
            Taken::Closed => return Opened::Closed,
        }
        Opened::Something
    }

    /// What the application has to be told; `None` when it does not concern it any more, or not yet.
    fn tell(&mut self, deferred: Deferred) -> Option<StreamError> {
        match deferred {
            Deferred::Paused => self.set_aside(),
            Deferred::Corrupt(_) if self.is_paused() => self.set_aside(),
            Deferred::Corrupt(entry) => self.corrupt(&entry),
            Deferred::Bad {
                info,
                epoch,
                offset,
                entry,
            } => is_to_be_told(&info, Some(offset), epoch).then(|| self.bad(&info, offset, entry)),
            Deferred::NoOffset {
                info,
                epoch,
                offset,
                log,
            } => is_to_be_told(&info, offset, epoch).then(|| StreamError::NoOffset {
                topic_partition: info.topic_partition().clone(),
                offset,
                log,
            }),
        }
    }

    /// Whether the present chunk's partition is.
    fn is_paused(&self) -> bool {
        let reader = self.current.as_ref();
        reader.is_some_and(|reader| reader.info().is_paused())
    }

    /// Drops the present chunk, whose partition is paused: the rest of it is fetched again after the resume.
    fn set_aside(&mut self) -> Option<StreamError> {
        let reader = self.current.as_ref()?;
        reader
            .info()
            .rewind(Some(reader.position()), reader.epoch());
        self.leave_chunk();
        None
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
        if let Some(reader) = self.current.take()
            && let Some(next) = self.handed_out.take()
        {
            let info = Arc::clone(reader.info());
            self.handed_out_before.push((info, reader.epoch(), next));
        }
    }

    /// What the application has to be told of a corrupt entry of the present chunk. `None` while it is being
    /// fetched again, or when its partition is not this stream's any more.
    fn corrupt(&mut self, entry: &CorruptEntry) -> Option<StreamError> {
        let (info, epoch, position) = {
            let reader = self.current.as_ref()?;
            (Arc::clone(reader.info()), reader.epoch(), reader.position())
        };
        // The chunk's room in the queue is free from here on, whatever the application does (D45).
        self.leave_chunk();
        match info.suspect(entry.offset, position, epoch) {
            Verdict::FetchAgain => None,
            Verdict::Confirmed => {
                let at = StoppedAt {
                    offset: entry.offset,
                    resume: entry.resume,
                };
                if !info.stop_at(at, position, epoch) {
                    return None;
                }
                let reason = entry.reason.clone();
                Some(self.bad(&info, entry.offset, BadEntry::Corrupt { reason }))
            }
        }
    }

    /// Fetching has stopped at `offset`: tells it, and goes on behind it if the configuration says so.
    fn bad(&self, info: &PartitionTopicInfo, offset: i64, entry: BadEntry) -> StreamError {
        let topic_partition = info.topic_partition().clone();
        let error = match entry {
            BadEntry::TooLarge { needed } => StreamError::TooLarge {
                topic_partition: topic_partition.clone(),
                offset,
                fetch_size: self.context.config.fetch_message_max_bytes(),
                needed,
            },
            BadEntry::Corrupt { reason } => StreamError::Corrupt {
                topic_partition: topic_partition.clone(),
                offset,
                reason,
            },
        };
        self.context.stats.bad_messages.increment();
        self.context.events.send(Event::BadMessage {
            topic_partition,
            offset,
            reason: error.to_string(),
        });
        if self.context.config.on_bad_message() == OnBadMessage::Skip {
            info.skip();
        }
        error
    }
}

/// How long to wait for a message.
#[derive(Clone, Copy, Debug)]
enum Wait {
    Not,
    Until(Instant),
    ForEver,
}

impl Wait {
    fn within(timeout: Duration) -> Self {
        if timeout.is_zero() {
            return Self::Not;
        }
        Instant::now()
            .checked_add(timeout)
            .map_or(Self::ForEver, Self::Until)
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
        let wait = match self.context.config.consumer_timeout() {
            None => Wait::ForEver,
            Some(timeout) => Wait::within(timeout),
        };
        self.next_until(wait)
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
