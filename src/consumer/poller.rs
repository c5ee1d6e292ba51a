//! All streams of a member in one thread.

use std::time::Duration;

use crossbeam_channel::Receiver;
use crossbeam_channel::bounded;

use crate::cluster::TopicPartition;
use crate::consumer::demand::Demand;
use crate::consumer::message::Message;
use crate::consumer::message::MessageRef;
use crate::consumer::message_stream::MessageStream;
use crate::consumer::stream_error::StreamError;
use crate::consumer::wait::Wait;
use crate::error::Error;

/// Reads several streams in one thread, in the manner of the consumer of Kafka 0.9 and later.
///
/// Made by [`create_poller`](crate::ConsumerConnector::create_poller), or of any streams, bounded ones too.
/// What one call of [`poll`](Self::poll) gives counts as consumed with the next call, or by
/// [`mark_consumed`](Self::mark_consumed); with `consumed.on=return` at once. Fetching and rebalancing go on in
/// the background however seldom it is called; unlike there, no call is needed to stay in the group.
#[derive(Debug)]
pub struct Poller {
    streams: Vec<MessageStream>,
    /// The stream to be asked first the next time.
    first: usize,
    /// `max.poll.records`.
    max: usize,
    /// A token when there may be something in any of the streams.
    arrived: Receiver<()>,
    /// Met behind messages of other streams, which were given first.
    deferred: Option<StreamError>,
}

impl Poller {
    /// Reads all of `streams`, as many messages at a time as `max.poll.records` of the first one says.
    pub fn new<S: Into<MessageStream>>(streams: impl IntoIterator<Item = S>) -> Self {
        let streams: Vec<MessageStream> = streams.into_iter().map(Into::into).collect();
        let (token, arrived) = bounded(1);
        for stream in &streams {
            stream.tell_reader(token.clone());
        }
        Self {
            max: streams.first().map_or(1, MessageStream::max_poll_records),
            streams,
            first: 0,
            arrived,
            deferred: None,
        }
    }

    /// The messages that have been fetched already, up to `max.poll.records`, waiting at most `timeout` for
    /// the first one. Empty when none came in time.
    ///
    /// The streams take turns: the next call begins behind the one that gave last, and within a stream the
    /// fetched sets of its partitions follow each other in the order in which they came. The messages of one
    /// partition are in order. What is taken makes room, so that the brokers are asked for more before the
    /// application has worked on it.
    ///
    /// `None` when the connector was shut down, or bounded streams have come to their ends. An error, which
    /// is never [`StreamError::Timeout`], comes by itself: the messages before it have been given by the call
    /// before. Other partitions are not affected, and the next call goes on with them.
    pub fn poll(&mut self, timeout: Duration) -> Option<Result<Vec<Message>, StreamError>> {
        self.mark_consumed();
        if let Some(error) = self.deferred.take() {
            return Some(Err(error));
        }
        let wait = Wait::within(timeout);
        loop {
            match self.collect()? {
                Ok(batch) if batch.is_empty() => {}
                given => return Some(given),
            }
            if !self.await_arrival(wait) {
                return Some(Ok(Vec::new()));
            }
        }
    }

    /// Counts everything given so far as consumed, without asking for more.
    pub fn mark_consumed(&mut self) {
        for stream in &mut self.streams {
            stream.mark_consumed();
        }
    }

    /// As [`MessageStream::mark_consumed_through`].
    pub fn mark_consumed_through(&mut self, message: &Message) {
        for stream in &mut self.streams {
            stream.mark_consumed_through(message);
        }
    }

    /// As [`MessageStream::skip_bad_message`].
    pub fn skip_bad_message(&mut self, topic_partition: &TopicPartition) -> Option<i64> {
        let mut streams = self.streams.iter_mut();
        streams.find_map(|stream| stream.skip_bad_message(topic_partition))
    }

    /// As [`MessageStream::seek`].
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the partition is not one of these streams', or `offset` is negative.
    pub fn seek(&mut self, topic_partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        let mut streams = self.streams.iter_mut();
        match streams.find(|stream| stream.owns(topic_partition)) {
            Some(stream) => stream.seek(topic_partition, offset),
            None => Err(Error::InvalidArgument {
                name: "seek",
                reason: format!("{topic_partition} is no partition of these streams"),
            }),
        }
    }

    /// What is there; `None` when every stream has ended.
    fn collect(&mut self) -> Option<Result<Vec<Message>, StreamError>> {
        let mut batch = Vec::new();
        let mut has_ended = true;
        let (later, sooner) = self.streams.split_at_mut(self.first);
        let begun = self.first;
        let streams = sooner.iter_mut().chain(later);
        for (turn, stream) in streams.enumerate() {
            let left = self.max.saturating_sub(batch.len());
            if left == 0 {
                break;
            }
            let mut keep = |message: MessageRef<'_>| batch.push(message.to_message());
            match stream.fill(&mut Demand::of(left, Wait::Not), &mut keep) {
                None => continue,
                Some(Ok(_)) => {
                    self.first = begun.saturating_add(turn).saturating_add(1);
                    stream.open_ahead();
                }
                Some(Err(StreamError::Timeout)) => {}
                Some(Err(error)) if batch.is_empty() => return Some(Err(error)),
                Some(Err(error)) => {
                    self.deferred = Some(error);
                    break;
                }
            }
            has_ended = false;
        }
        self.first = self.first.checked_rem(self.streams.len()).unwrap_or(0);
        (!has_ended).then_some(Ok(batch))
    }

    /// Waits until there may be something. `false` when the time is over.
    fn await_arrival(&self, wait: Wait) -> bool {
        match wait.deadline() {
            Some(deadline) => self.arrived.recv_deadline(deadline).is_ok(),
            None => self.arrived.recv().is_ok(),
        }
    }
}
