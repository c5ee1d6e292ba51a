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
use crate::consumer::message::Message;
use crate::consumer::owned_partitions::Ownership;
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
    /// Messages of this call may have been collected already, which the application has not seen yet.
    in_batch: bool,
    /// Messages handed out since `stats` was last told.
    uncounted: u64,
    /// Something that a batch met and that has to wait for its turn.
    deferred: Option<Step>,
}

impl MessageStream {
    pub(crate) fn new(queue: Arc<ChunkQueue>, context: StreamContext) -> Self {
        Self {
            queue,
            context,
            current: None,
            handed_out: None,
            handed_out_before: Vec::new(),
            in_batch: false,
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
        if max == 0 {
            return Some(Ok(Vec::new()));
        }
        let first = match self.next_timeout(timeout)? {
            Ok(message) => message,
            Err(error) => return Some(Err(error)),
        };
        let mut batch = Vec::with_capacity(max.min(1024));
        batch.push(first);
        self.in_batch = true;
        while batch.len() < max {
            match self.step(Wait::Not) {
                Step::Message(message) => batch.push(message),
                Step::Nothing => break,
                other => {
                    self.deferred = Some(other);
                    break;
                }
            }
        }
        self.in_batch = false;
        Some(Ok(batch))
    }

    /// Counts everything handed out so far as consumed, without asking for more.
    ///
    /// For applications that stop reading and then commit or shut down.
    pub fn mark_consumed(&mut self) {
        for (info, epoch, next) in self.handed_out_before.drain(..) {
            info.mark_consumed(next, epoch);
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
    /// `None` where no bad message stands, or when the partition is not owned by this member any more.
    pub fn skip_bad_message(&mut self, topic_partition: &TopicPartition) -> Option<i64> {
        let info = self.context.ownership.info(topic_partition)?;
        info.skip().map(|stopped| stopped.offset)
    }

    /// Goes on at `offset` in `topic_partition`, forwards or backwards, dropping what has been fetched.
    /// An offset outside the log is corrected by `auto.offset.reset`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when this member does not own the partition, or `offset` is negative.
    pub fn seek(&mut self, topic_partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        let refused = |reason| Error::InvalidArgument {
            name: "seek",
            reason,
        };
        if offset < 0 {
            return Err(refused(format!("offset {offset} is negative")));
        }
        let info = self
            .context
            .ownership
            .info(topic_partition)
            .ok_or_else(|| refused(format!("{topic_partition} is not owned by this member")))?;
        info.seek(offset);
        Ok(())
    }

    fn next_until(&mut self, wait: Wait) -> Option<Result<Message, StreamError>> {
        // The application came back: what it had is consumed.
        self.mark_consumed();
        loop {
            let step = match self.deferred.take() {
                Some(step) => step,
                None => self.step(wait),
            };
            match step {
                Step::Message(message) => return Some(Ok(message)),
                Step::Nothing => return Some(Err(StreamError::Timeout)),
                Step::Closed => return None,
                Step::Corrupt(entry) => {
                    if let Some(error) = self.corrupt(&entry) {
                        return Some(Err(error));
                    }
                }
                Step::Bad {
                    info,
                    epoch,
                    offset,
                    entry,
                } => {
                    if info.is_current(epoch) {
                        return Some(Err(self.bad(&info, offset, entry)));
                    }
                }
            }
        }
    }

    /// One thing to hand out: the next message of the present chunk, or what the queue has.
    fn step(&mut self, wait: Wait) -> Step {
        loop {
            if let Some(reader) = &mut self.current {
                if reader.is_current() {
                    match reader.next() {
                        Some(Ok(message)) => return self.hand_out(message),
                        Some(Err(corrupt)) => return Step::Corrupt(corrupt),
                        None => {}
                    }
                }
                self.leave_chunk();
            }
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
                    if !self.in_batch {
                        self.mark_consumed();
                    }
                }
                Taken::Entry(QueueEntry::Bad {
                    info,
                    epoch,
                    offset,
                    entry,
                }) => {
                    return Step::Bad {
                        info,
                        epoch,
                        offset,
                        entry,
                    };
                }
                Taken::TimedOut => return Step::Nothing,
                Taken::Closed => return Step::Closed,
            }
        }
    }

    #[inline]
    fn hand_out(&mut self, message: Message) -> Step {
        self.handed_out = Some(message.offset().saturating_add(1));
        self.uncounted += 1;
        if self.context.config.consumed_on() == ConsumedOn::Return {
            self.mark_consumed();
        }
        Step::Message(message)
    }

    /// Most bytes that a compressed message may unpack to: `queued.max.bytes`, and never less than its
    /// default. A small bound must not make sound messages undeliverable.
    fn unpacked_limit(&self) -> usize {
        let bound = usize::try_from(self.context.config.queued_max_bytes());
        bound.unwrap_or(usize::MAX).max(LEAST_UNPACKED_LIMIT)
    }

    /// The present chunk is through, or not to be delivered any more.
    fn leave_chunk(&mut self) {
        self.context.stats.messages.add(self.uncounted);
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

/// What one look at the present chunk and the queue gives.
#[derive(Debug)]
enum Step {
    Message(Message),
    Corrupt(CorruptEntry),
    Bad {
        info: Arc<PartitionTopicInfo>,
        epoch: u64,
        offset: i64,
        entry: BadEntry,
    },
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
