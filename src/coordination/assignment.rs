//! Who gets which partitions: what goes into the decision and what comes out.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::coordination::consumer_id::ConsumerThreadId;
use crate::coordination::topic_count::TopicCount;
use crate::error::Error;

/// Deals out partitions to threads. Pure: equal input gives equal output in every member.
pub(crate) trait PartitionAssignor: Send + Sync {
    /// Whether a topic is dealt out by itself, so that a member needs to know of its own topics only.
    fn is_by_topic(&self) -> bool;

    /// An owner for each partition that any thread asks for.
    ///
    /// # Errors
    ///
    /// [`Error::SubscriptionsDiffer`] where the rule does not allow that.
    fn assign(&self, context: &AssignmentContext) -> Result<Assignment, Error>;
}

/// What a decision is made of. All lists are ascending and free of duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AssignmentContext {
    topics: BTreeMap<String, TopicContext>,
}

/// One topic, as an assignor sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicContext {
    /// In numerical order; empty for a topic that does not exist.
    pub(crate) partitions: Vec<i32>,
    /// In the order of their texts in Java.
    pub(crate) consumers: Vec<ConsumerThreadId>,
}

impl AssignmentContext {
    /// The topics that have an entry in `partitions`, with those members' threads that ask for them.
    pub(crate) fn new<'a>(
        partitions: impl IntoIterator<Item = (String, Vec<i32>)>,
        members: impl IntoIterator<Item = (&'a str, &'a TopicCount)>,
    ) -> Self {
        let mut topics: BTreeMap<String, TopicContext> = partitions
            .into_iter()
            .map(|(topic, partitions)| {
                let consumers = Vec::new();
                let context = TopicContext {
                    partitions,
                    consumers,
                };
                (topic, context)
            })
            .collect();
        for (member, count) in members {
            let member: Arc<str> = member.into();
            for (topic, context) in &mut topics {
                let thread = |n| ConsumerThreadId::new(Arc::clone(&member), n);
                context
                    .consumers
                    .extend((0..count.streams(topic)).map(thread));
            }
        }
        for context in topics.values_mut() {
            context.partitions.sort_unstable();
            context.partitions.dedup();
            context.consumers.sort();
            context.consumers.dedup();
        }
        Self { topics }
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = (&str, &TopicContext)> {
        self.topics
            .iter()
            .map(|(topic, context)| (topic.as_str(), context))
    }
}

/// The decision, for all members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Assignment {
    owners: BTreeMap<TopicPartition, ConsumerThreadId>,
    idle: Vec<(String, ConsumerThreadId)>,
}

impl Assignment {
    /// Gives a partition to a thread.
    pub(crate) fn give(&mut self, partition: TopicPartition, thread: ConsumerThreadId) {
        self.owners.insert(partition, thread);
    }

    /// Notes that a thread gets nothing of a topic, or of the topics listed, that it asks for.
    pub(crate) fn leave_idle(&mut self, topic: impl Into<String>, thread: ConsumerThreadId) {
        self.idle.push((topic.into(), thread));
    }

    /// The owner of each partition of the whole group.
    pub(crate) fn owners(&self) -> &BTreeMap<TopicPartition, ConsumerThreadId> {
        &self.owners
    }

    /// The part of one member, in the order of topics and partitions.
    pub(crate) fn of_member(&self, member: &str) -> Vec<(TopicPartition, ConsumerThreadId)> {
        self.owners
            .iter()
            .filter(|(_, thread)| thread.member() == member)
            .map(|(partition, thread)| (partition.clone(), thread.clone()))
            .collect()
    }

    #[cfg(test)]
    /// The partitions of one thread, in the order of topics and partitions.
    pub(crate) fn of_thread(&self, thread: &ConsumerThreadId) -> Vec<TopicPartition> {
        self.owners
            .iter()
            .filter(|(_, owner)| *owner == thread)
            .map(|(partition, _)| partition.clone())
            .collect()
    }

    /// The threads that get anything, once for each partition.
    pub(crate) fn busy(&self) -> impl Iterator<Item = &ConsumerThreadId> {
        self.owners.values()
    }

    /// Threads that get nothing of a topic that they ask for, each worth a warning.
    pub(crate) fn idle(&self) -> &[(String, ConsumerThreadId)] {
        &self.idle
    }
}

/// What the tests of all assignors begin with.
#[cfg(test)]
pub(super) mod test_members {
    use crate::coordination::topic_count::TopicCount;

    pub(crate) type Members = Vec<(String, TopicCount)>;

    /// Members by name, each with its topics and the number of threads for each.
    pub(crate) fn members(counts: &[(&str, &[(&str, usize)])]) -> Members {
        let owned = |(topic, n): &(&str, usize)| ((*topic).to_owned(), *n);
        counts
            .iter()
            .map(|(member, topics)| {
                let count = TopicCount::fixed(topics.iter().map(owned)).unwrap();
                ((*member).to_owned(), count)
            })
            .collect()
    }
}
