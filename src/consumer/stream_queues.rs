//! The queues of a member's streams.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use crate::config::ConsumerConfig;
use crate::consumer::message_stream::MessageStream;
use crate::consumer::message_stream::StreamContext;
use crate::coordination::ConsumerThreadId;
use crate::fetch::ChunkQueue;

/// One queue for each stream: by topic, and number of the thread within it.
#[derive(Clone, Debug)]
pub(crate) struct StreamQueues {
    /// Without a topic, the queues of a filter: they serve every topic.
    by_thread: BTreeMap<(Option<String>, usize), Arc<ChunkQueue>>,
}

impl StreamQueues {
    /// So many for each topic.
    pub(crate) fn new(topics: &[(String, usize)], config: &ConsumerConfig) -> Self {
        let threads = topics
            .iter()
            .flat_map(|(topic, streams)| (0..*streams).map(|number| (Some(topic.clone()), number)));
        Self::of_threads(threads.collect(), config)
    }

    /// So many, each for every topic (KAFKA-550).
    pub(crate) fn of_all_topics(streams: usize, config: &ConsumerConfig) -> Self {
        Self::of_threads((0..streams).map(|number| (None, number)).collect(), config)
    }

    fn of_threads(threads: Vec<(Option<String>, usize)>, config: &ConsumerConfig) -> Self {
        let queues = queues(threads.len(), config);
        Self {
            by_thread: threads.into_iter().zip(queues).collect(),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<ChunkQueue>> {
        self.by_thread.values()
    }

    /// The queue that a thread of this member gets its part of `topic` by.
    pub(crate) fn of(&self, topic: &str, thread: &ConsumerThreadId) -> Option<&Arc<ChunkQueue>> {
        let of = |topic| self.by_thread.get(&(topic, thread.number()));
        of(None).or_else(|| of(Some(topic.to_owned())))
    }

    /// A stream for each queue, by topic and in the order of the threads.
    pub(crate) fn streams(
        &self,
        context: &StreamContext,
    ) -> HashMap<Option<String>, Vec<MessageStream>> {
        let mut streams: HashMap<Option<String>, Vec<MessageStream>> = HashMap::new();
        for ((topic, _), queue) in &self.by_thread {
            let stream = MessageStream::new(Arc::clone(queue), context.clone());
            streams.entry(topic.clone()).or_default().push(stream);
        }
        streams
    }
}

/// So many queues, each with an equal share of `queued.max.bytes`.
pub(crate) fn queues(
    streams: usize,
    config: &ConsumerConfig,
) -> impl Iterator<Item = Arc<ChunkQueue>> {
    let total = usize::try_from(config.queued_max_bytes()).unwrap_or(usize::MAX);
    let share = total.checked_div(streams).unwrap_or(total);
    let max_chunks = config.queued_max_message_chunks();
    (0..streams).map(move |_| ChunkQueue::new(max_chunks, share))
}
