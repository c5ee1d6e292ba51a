//! How a member joins the group: by creating its streams.

use std::collections::HashMap;
use std::sync::Arc;

use crate::consumer::bounded_stream::BoundedStream;
use crate::consumer::bounds::Bounds;
use crate::consumer::connector::ConsumerConnector;
use crate::consumer::message_stream::MessageStream;
use crate::consumer::poller::Poller;
use crate::consumer::stream_queues::StreamQueues;
use crate::coordination::TopicCount;
use crate::coordination::TopicFilter;
use crate::error::Error;

/// What a member registers, and the queues that go with it.
type Plan = (TopicCount, StreamQueues);

impl ConsumerConnector {
    /// Joins the group with so many streams for each topic, and returns them by topic.
    ///
    /// Registers the member and runs the first rebalance in the calling thread; later ones run in the
    /// background. Partitions are consumed as soon as they have a leader. A topic that does not exist yet is
    /// consumed once it does. No topic at all is legal: the member then owns nothing.
    ///
    /// # Errors
    /// [`Error::MessageStreamsExist`] at the second call, [`Error::InvalidArgument`] for a topic without
    /// streams, with an illegal name, or named twice, [`Error::RebalanceFailed`] when `rebalance.max.retries`
    /// attempts failed, [`Error::MemberIdTaken`] when another live member has the same `consumer.id`. After an
    /// error the member is not in the group, and the call may be repeated.
    pub fn create_message_streams<T: Into<String>>(
        &self,
        topics: impl IntoIterator<Item = (T, usize)>,
    ) -> Result<HashMap<String, Vec<MessageStream>>, Error> {
        let streams = self.create(self.plan_streams(topics)?)?;
        Ok(by_topic(streams))
    }

    /// Joins the group with so many streams for all topics that pass a filter, and returns them in the order of
    /// their threads. Each stream serves every topic: thread 0 of each topic comes by the first, and so on.
    ///
    /// A topic that is created later and passes is consumed as soon as it is known, and one that is deleted is let
    /// go. With `exclude.internal.topics` Kafka's own topics do not pass. Otherwise as
    /// [`create_message_streams`](Self::create_message_streams), and a connector makes streams one way or the other.
    ///
    /// # Errors
    /// As [`create_message_streams`](Self::create_message_streams); [`Error::InvalidArgument`] also for no stream,
    /// and for a filter that takes too many steps with the name of a topic or lets so many topics pass that there
    /// would be more than a million threads.
    pub fn create_message_streams_by_filter(
        &self,
        filter: &TopicFilter,
        streams: usize,
    ) -> Result<Vec<MessageStream>, Error> {
        let streams = self.create(self.plan_streams_by_filter(filter, streams)?)?;
        Ok(streams.into_values().flatten().collect())
    }

    /// As [`create_message_streams`](Self::create_message_streams), with streams that read up to where the
    /// logs end when this member takes them over, and then end by themselves.
    ///
    /// # Errors
    /// As there.
    pub fn create_bounded_streams<T: Into<String>>(
        &self,
        topics: impl IntoIterator<Item = (T, usize)>,
    ) -> Result<HashMap<String, Vec<BoundedStream>>, Error> {
        let streams = self.create_bounded(self.plan_streams(topics)?)?;
        Ok(by_topic(streams))
    }

    /// As [`create_message_streams_by_filter`](Self::create_message_streams_by_filter), with streams that read up
    /// to where the logs end when this member takes them over, and then end by themselves. A topic that is created
    /// later counts, if it is known before they have ended; where no topic passes they end at once.
    ///
    /// # Errors
    /// As there.
    pub fn create_bounded_streams_by_filter(
        &self,
        filter: &TopicFilter,
        streams: usize,
    ) -> Result<Vec<BoundedStream>, Error> {
        let streams = self.create_bounded(self.plan_streams_by_filter(filter, streams)?)?;
        Ok(streams.into_values().flatten().collect())
    }

    /// As [`create_message_streams`](Self::create_message_streams) with one stream for each topic, all of
    /// which one thread reads by [`Poller::poll`].
    ///
    /// # Errors
    /// As there.
    pub fn create_poller<T: Into<String>>(
        &self,
        topics: impl IntoIterator<Item = T>,
    ) -> Result<Poller, Error> {
        let topics = topics.into_iter().map(|topic| (topic, 1));
        let streams = self.create_message_streams(topics)?;
        Ok(Poller::new(streams.into_values().flatten()))
    }

    fn plan_streams<T: Into<String>>(
        &self,
        topics: impl IntoIterator<Item = (T, usize)>,
    ) -> Result<Plan, Error> {
        let topics: Vec<(String, usize)> = topics
            .into_iter()
            .map(|(topic, streams)| (topic.into(), streams))
            .collect();
        let topic_count = TopicCount::fixed(topics.iter().cloned())?;
        let queues = StreamQueues::new(&topics, &self.parts.config);
        Ok((topic_count, queues))
    }

    fn plan_streams_by_filter(&self, filter: &TopicFilter, streams: usize) -> Result<Plan, Error> {
        let topic_count = TopicCount::by_filter(filter, streams)?;
        let queues = StreamQueues::of_all_topics(streams, &self.parts.config);
        Ok((topic_count, queues))
    }

    /// Joins the group and makes the streams, by topic where they have one of their own.
    fn create(
        &self,
        (topic_count, queues): Plan,
    ) -> Result<HashMap<Option<String>, Vec<MessageStream>>, Error> {
        self.join(topic_count, &queues, None)?;
        Ok(queues.streams(&self.parts.stream_context()))
    }

    fn create_bounded(
        &self,
        (topic_count, queues): Plan,
    ) -> Result<HashMap<Option<String>, Vec<BoundedStream>>, Error> {
        let bounds = Bounds::new(queues.all(), Arc::clone(&self.parts.ownership));
        self.join(topic_count, &queues, Some(Arc::clone(&bounds)))?;
        let streams = queues.streams(&self.parts.stream_context()).into_iter();
        let bounded = |stream| BoundedStream::new(stream, Arc::clone(&bounds));
        Ok(streams
            .map(|(topic, streams)| (topic, streams.into_iter().map(bounded).collect()))
            .collect())
    }
}

/// Of streams that each belong to a topic.
fn by_topic<S>(streams: HashMap<Option<String>, Vec<S>>) -> HashMap<String, Vec<S>> {
    let named = |(topic, streams): (Option<String>, _)| Some((topic?, streams));
    streams.into_iter().filter_map(named).collect()
}
