//! An immutable picture of the cluster.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::cluster::Broker;
use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::net::broker_directory::RegisteredBrokers;
use crate::net::broker_version::BrokerVersion;
use crate::protocol::MetadataResponse;
use crate::protocol::PartitionMetadata;
use crate::protocol::TopicMetadata;

/// What the brokers last said about themselves and about the topics that they were asked for.
///
/// Never changes; a refresh makes another one, with a higher version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterView {
    version: u64,
    brokers: BTreeMap<i32, Broker>,
    /// Versions of the brokers' registrations in ZooKeeper.
    registrations: BTreeMap<i32, i32>,
    topics: BTreeMap<String, TopicView>,
}

/// One topic of a [`ClusterView`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicView {
    /// The error of the topic as a whole, which mostly comes without partitions.
    pub error: Option<ErrorCode>,
    /// By number; the numbers may have gaps.
    pub partitions: BTreeMap<i32, PartitionView>,
}

/// One partition of a [`ClusterView`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    /// Id of the leader. `None` while there is none, or none whose address was told.
    pub leader: Option<i32>,
    /// Ids of the brokers that hold the partition; old brokers leave dead ones out.
    pub replicas: Vec<i32>,
    /// Ids of those that have caught up with the leader.
    pub in_sync: Vec<i32>,
}

impl ClusterView {
    /// Counts the successful refreshes; 0 before the first.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All known brokers by their ids.
    pub fn brokers(&self) -> &BTreeMap<i32, Broker> {
        &self.brokers
    }

    /// `None`: not asked for, or not there.
    pub fn topic(&self, topic: &str) -> Option<&TopicView> {
        self.topics.get(topic)
    }

    /// `None`: not asked for, or not there.
    pub fn partition(&self, topic_partition: &TopicPartition) -> Option<&PartitionView> {
        self.topic(topic_partition.topic())?
            .partitions
            .get(&topic_partition.partition())
    }

    /// The broker to fetch from. `None` while nobody leads the partition, or its leader's address is unknown.
    pub fn leader(&self, topic_partition: &TopicPartition) -> Option<&Broker> {
        self.brokers.get(&self.partition(topic_partition)?.leader?)
    }

    /// What the registration of broker `id` says of its version.
    pub(crate) fn broker_version(&self, id: i32) -> BrokerVersion {
        BrokerVersion::of_registration(self.registrations.get(&id).copied())
    }

    /// The partitions that broker `id` leads, in order.
    pub fn led_by(&self, id: i32) -> Vec<TopicPartition> {
        let mut led = Vec::new();
        for (name, topic) in &self.topics {
            let of_topic = topic.partitions.iter();
            let of_broker = of_topic.filter(|(_, partition)| partition.leader == Some(id));
            led.extend(of_broker.map(|(number, _)| TopicPartition::new(name.as_str(), *number)));
        }
        led
    }

    /// The topics that came with an error of their own.
    pub fn topics_in_error(&self) -> impl Iterator<Item = (&str, ErrorCode)> {
        let topics = self.topics.iter();
        topics.filter_map(|(name, topic)| Some((name.as_str(), topic.error?)))
    }

    /// Whether each of `partitions` is here with a leader.
    pub(super) fn is_complete_for(&self, partitions: &[TopicPartition]) -> bool {
        partitions
            .iter()
            .all(|partition| self.leader(partition).is_some())
    }

    /// The next view: `answer` over what is known of the topics that are kept. What was asked for is not, since it may
    /// have been in vain.
    ///
    /// `registered` are those in ZooKeeper, or none when nobody was asked: 0.8.0 and 0.8.1 list only the brokers that
    /// occur in the answer, and an empty list comes with failed requests, so a missing broker is not a dead one.
    pub(super) fn updated(
        &self,
        answer: MetadataResponse,
        registered: &RegisteredBrokers,
        is_kept: impl Fn(&str) -> bool,
    ) -> Self {
        let mut view = self.clone();
        view.version += 1;
        view.topics.retain(|name, _| is_kept(name));
        let told: BTreeMap<i32, Broker> = answer
            .brokers
            .into_iter()
            .map(|broker| (broker.id, broker))
            .collect();
        // A leader that the answer does not list is unknown, whatever an older answer said of it.
        let known = if told.is_empty() {
            view.brokers.clone()
        } else {
            let live: BTreeSet<i32> = registered.brokers.iter().map(|it| it.id).collect();
            view.brokers.retain(|id, _| live.contains(id));
            told
        };
        if !registered.versions.is_empty() {
            view.registrations.clone_from(&registered.versions);
        }
        for topic in answer.topics {
            view.topics
                .insert(topic.topic.clone(), TopicView::new(topic, &known));
        }
        view.brokers.extend(known);
        view
    }
}

impl TopicView {
    fn new(topic: TopicMetadata, brokers: &BTreeMap<i32, Broker>) -> Self {
        let partitions = topic.partitions.into_iter();
        Self {
            error: topic.error,
            partitions: partitions
                .map(|partition| (partition.partition, PartitionView::new(partition, brokers)))
                .collect(),
        }
    }
}

impl PartitionView {
    /// The error code is not looked at: 9 leaves the leader good, and the others come without one.
    fn new(partition: PartitionMetadata, brokers: &BTreeMap<i32, Broker>) -> Self {
        Self {
            leader: partition.leader.filter(|id| brokers.contains_key(id)),
            replicas: partition.replicas,
            in_sync: partition.isr,
        }
    }
}
