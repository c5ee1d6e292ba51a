//! Batches of messages, bounded by number, bytes and time.

use std::time::Duration;

use crate::consumer::demand::Demand;
use crate::consumer::message::Message;
use crate::consumer::message::MessageRef;
use crate::consumer::message_stream::MessageStream;
use crate::consumer::stream_error::StreamError;
use crate::consumer::wait::Wait;

/// When a batch is full, and how long it may wait for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Most messages. Default 500; 0 counts as 1.
    pub messages: usize,
    /// Bytes of keys and values with which a batch is full: the message that reaches them is its last.
    /// Default 1,048,576; with 0 each batch has one message.
    pub bytes: usize,
    /// How long a batch that is not full waits for more after its first message, and takes more that is there: what
    /// comes from the brokers is looked at once in each fetched set. Default 100 ms; zero takes what was there at the
    /// first message. A [`BoundedStream`](crate::BoundedStream) that has come to its ends waits no longer.
    pub wait: Duration,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            messages: 500,
            bytes: 1024 * 1024,
            wait: Duration::from_millis(100),
        }
    }
}

/// The batches of a stream, made by [`MessageStream::batches`].
#[derive(Debug)]
pub struct Batches<'a> {
    stream: &'a mut MessageStream,
    limits: BatchLimits,
}

impl MessageStream {
    /// The next batch: waits for its first message as long as `consumer.timeout.ms` allows, by default for
    /// ever, and then for more until a limit is reached.
    ///
    /// Ends and errors are told as by [`next_timeout`](Self::next_timeout), after the messages before them,
    /// which they cut short. A batch has at least one message, and all of it counts as consumed when the
    /// application comes back.
    pub fn next_batch_within(
        &mut self,
        limits: BatchLimits,
    ) -> Option<Result<Vec<Message>, StreamError>> {
        self.mark_consumed();
        let mut demand = Demand::of(1, self.patience());
        let mut batch = Vec::new();
        let mut bytes = 0_usize;
        loop {
            let mut keep = |message: MessageRef<'_>| {
                bytes = bytes.saturating_add(size(message));
                batch.push(message.to_message());
            };
            if let Err(error) = self.fill(&mut demand, &mut keep)? {
                return Some(Err(error));
            }
            let is_full = batch.len() >= limits.messages || bytes >= limits.bytes;
            if is_full || batch.len() < demand.max {
                return Some(Ok(batch));
            }
            if demand.already == 0 {
                demand.more = Wait::within(limits.wait);
            }
            demand.already = batch.len();
            demand.max = batch.len().saturating_add(1);
        }
    }

    /// An iterator over batches; each of its steps is [`next_batch_within`](Self::next_batch_within).
    pub fn batches(&mut self, limits: BatchLimits) -> Batches<'_> {
        Batches {
            stream: self,
            limits,
        }
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Vec<Message>, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.stream.next_batch_within(self.limits)
    }
}

fn size(message: MessageRef<'_>) -> usize {
    let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
    length(message.key()).saturating_add(length(message.value()))
}
