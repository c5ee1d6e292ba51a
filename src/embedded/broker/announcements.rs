//! What ZooKeeper is told of the cluster.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::cluster::TopicPartition;
use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::cluster_state::SharedState;
use crate::embedded::broker::registry::Registry;
use crate::embedded::zookeeper::NodeError;

/// Notes what has changed, and makes ZooKeeper show the state of that moment at which it can be reached.
#[derive(Debug)]
pub(super) struct Announcements {
    registry: Registry,
    /// What ZooKeeper does not show yet.
    unwritten: BTreeSet<Unwritten>,
    /// The broker named as controller, and how often that has changed.
    controller: Option<i32>,
    epoch: i32,
    /// ZooKeeper could not be written the last time.
    is_behind: bool,
}

/// A part of what ZooKeeper has to show, in the order of writing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unwritten {
    Layout,
    Broker(i32),
    Topic(String),
    Partition(TopicPartition),
    Controller,
}

impl Announcements {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            registry,
            unwritten: BTreeSet::from([Unwritten::Layout]),
            controller: None,
            epoch: 0,
            is_behind: false,
        }
    }

    pub(super) fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Goes on with the epochs of an earlier life.
    pub(super) fn set_epoch(&mut self, epoch: i32) {
        self.epoch = epoch;
    }

    /// Notes that a broker came or went.
    pub(super) fn add_broker(&mut self, id: i32) {
        self.unwritten.insert(Unwritten::Broker(id));
        self.unwritten.insert(Unwritten::Controller);
    }

    /// Notes that a topic has these new partitions.
    pub(super) fn add_topic(&mut self, topic: &str, partitions: Range<i32>) {
        self.unwritten.insert(Unwritten::Topic(topic.to_owned()));
        self.add_partitions(partitions.map(|number| TopicPartition::new(topic, number)));
    }

    /// Notes that partitions have other leaders or replicas.
    pub(super) fn add_partitions(&mut self, changed: impl IntoIterator<Item = TopicPartition>) {
        let changed = changed.into_iter().map(Unwritten::Partition);
        self.unwritten.extend(changed);
    }

    /// Notes that a topic is gone, with all that was to be told of its partitions.
    pub(super) fn delete_topic(&mut self, topic: &str) {
        self.unwritten
            .retain(|part| !matches!(part, Unwritten::Partition(of) if of.topic() == topic));
        self.unwritten.insert(Unwritten::Topic(topic.to_owned()));
    }

    /// Tells ZooKeeper what it does not show yet, as far as it can be reached.
    pub(super) fn write_out(&mut self, shared: &SharedState) {
        while let Some(part) = self.unwritten.first().cloned() {
            if let Err(error) = self.write_part(shared, &part) {
                if !self.is_behind {
                    log::warn!("zookeeper will be told later of {part:?}: {error}");
                }
                self.is_behind = true;
                return;
            }
            self.unwritten.remove(&part);
        }
        self.is_behind = false;
    }

    fn write_part(&mut self, shared: &SharedState, part: &Unwritten) -> Result<(), NodeError> {
        let epoch = self.epoch;
        let registry = &mut self.registry;
        match part {
            Unwritten::Layout => registry.write_layout(),
            Unwritten::Broker(id) => {
                let broker = shared.read(|state| {
                    let broker = state.brokers.get(id).filter(|b| b.is_registered);
                    broker.cloned()
                });
                match broker {
                    Some(broker) => registry.write_broker(*id, &broker),
                    None => {
                        registry.forget_broker(*id);
                        Ok(())
                    }
                }
            }
            Unwritten::Topic(topic) => {
                let partitions = shared.read(|state| state.topics.get(topic).cloned());
                match partitions {
                    Some(partitions) => registry.write_topic(topic, &partitions),
                    None => registry.delete_topic(topic),
                }
            }
            Unwritten::Partition(of) => {
                let partition = shared.read(|state| state.partition(of).cloned());
                let written = |partition| registry.write_partition(of, &partition, epoch);
                partition.map_or(Ok(()), written)
            }
            Unwritten::Controller => self.write_controller(shared),
        }
    }

    fn write_controller(&mut self, shared: &SharedState) -> Result<(), NodeError> {
        let registered = shared.read(ClusterState::registered);
        let stays = |id| registered.iter().any(|broker| broker.id == id);
        let first = registered.first().map(|broker| broker.id);
        let controller = self.controller.filter(|id| stays(*id)).or(first);
        if self.controller != controller && controller.is_some() {
            self.epoch = self.epoch.saturating_add(1);
        }
        self.controller = controller;
        match controller {
            Some(id) => self.registry.write_controller(id, self.epoch),
            None => Ok(()),
        }
    }
}
