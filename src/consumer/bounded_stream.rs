//! A stream that ends by itself.

use std::ops::Deref;
use std::ops::DerefMut;
use std::sync::Arc;

use crate::consumer::bounded_partition::BoundedPartition;
use crate::consumer::bounds::Bounds;
use crate::consumer::message::Message;
use crate::consumer::message_stream::MessageStream;
use crate::consumer::stream_error::StreamError;

/// A [`MessageStream`] for batch jobs: reads up to where the logs end now, and then ends by itself.
///
/// Made by [`create_bounded_streams`](crate::ConsumerConnector::create_bounded_streams),
/// [`create_bounded_streams_by_filter`](crate::ConsumerConnector::create_bounded_streams_by_filter) and, without the
/// group, [`create_bounded_streams_for`](crate::ConsumerConnector::create_bounded_streams_for). Everything that a
/// `MessageStream` does it does as well, from where the group stopped, or from where
/// [`seek`](MessageStream::seek) says.
///
/// When the member takes a partition over, the partition's leader is asked for the end of the log; no message
/// from that offset on is handed out. A partition that the member keeps in a rebalance keeps its end; one that
/// it gives to another member does not count any more, and one that it gets has an end of its own.
///
/// The streams of a connector end together: once the member has consumed every partition that it owns up to
/// its end, that is, once the application has come back for more on every stream. Until then a stream with
/// nothing left waits for the others, for a rebalance may bring it one of their partitions; so give each
/// stream a thread, or read them all with one [`Poller`](crate::Poller). A member that owns nothing ends at
/// once. A stream that is dropped is not waited for: what it has not read stays [`Reading`] in the report, and
/// is left to the next job.
///
/// At the end the iterator returns `None`, and [`report`](Self::report) tells how each partition went; the member
/// leaves the group with [`shutdown`](crate::ConsumerConnector::shutdown), as always.
///
/// A partition without leader is waited for, and so is one that is [paused](crate::ConsumerConnector::pause) before
/// its end. One that a bad message stops, or that has no usable offset, which has been told, counts as done when the
/// application comes back without having skipped it or sought elsewhere, and has not paused it.
///
/// [`Reading`]: crate::BoundedOutcome::Reading
#[derive(Debug)]
pub struct BoundedStream {
    stream: MessageStream,
    bounds: Arc<Bounds>,
}

impl BoundedStream {
    pub(crate) fn new(mut stream: MessageStream, bounds: Arc<Bounds>) -> Self {
        stream.end_with(Arc::clone(&bounds));
        Self { stream, bounds }
    }

    /// Where the member stands, or stopped, in each partition that it owns or has owned, those of its other
    /// streams included, sorted. Of a partition that was owned several times the last time counts.
    pub fn report(&self) -> Vec<BoundedPartition> {
        self.bounds.report()
    }
}

impl Iterator for BoundedStream {
    type Item = Result<Message, StreamError>;

    /// As for [`MessageStream`]; `None` also when the ends are reached.
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.stream.next()
    }
}

impl Deref for BoundedStream {
    type Target = MessageStream;

    fn deref(&self) -> &MessageStream {
        &self.stream
    }
}

impl DerefMut for BoundedStream {
    fn deref_mut(&mut self) -> &mut MessageStream {
        &mut self.stream
    }
}

impl From<BoundedStream> for MessageStream {
    /// The same stream, which ends as before but has no report.
    fn from(bounded: BoundedStream) -> Self {
        bounded.stream
    }
}
