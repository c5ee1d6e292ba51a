//! What all brokers of the cluster know.

use std::collections::BTreeMap;
use std::time::Instant;
use std::time::SystemTime;

use parking_lot::Condvar;
use parking_lot::Mutex;

use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::embedded::broker::partition::Partition;
use crate::embedded::broker_settings::BrokerSettings;
use crate::embedded::broker_version::Behaviour;
use crate::embedded::broker_version::BrokerVersion;
use crate::error::ErrorCode;
use crate::protocol::MessageFormat;
use crate::thread::StopSignal;

/// Name of the topic that keeps committed offsets.
pub(super) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// `offsets.topic.segment.bytes`
const OFFSETS_SEGMENT_BYTES: usize = 100 << 20;

/// Brokers, topics, and the logs of all replicas.
#[derive(Debug)]
pub(crate) struct ClusterState {
    pub(super) settings: BrokerSettings,
    pub(super) brokers: BTreeMap<i32, BrokerState>,
    /// The partitions of each topic, by their number.
    pub(super) topics: BTreeMap<String, Vec<Partition>>,
}

/// One broker, dead or alive.
#[derive(Clone, Debug)]
pub(super) struct BrokerState {
    /// Where it listens.
    pub(super) address: BrokerAddress,
    /// Where it says that it listens.
    pub(super) advertised: BrokerAddress,
    /// It answers, and follows leaders.
    pub(super) is_running: bool,
    /// ZooKeeper lists it, and so do the other brokers. A killed broker stays so until its session expires.
    pub(super) is_registered: bool,
    /// It fetches from leaders.
    pub(super) is_replicating: bool,
    /// What it does among the others: how it registers and stores. That of the oldest broker when it started.
    pub(super) protocol: BrokerVersion,
    /// Counts the starts, so that the expiry of an earlier life is told apart.
    pub(super) incarnation: u64,
}

impl ClusterState {
    pub(super) fn new(settings: BrokerSettings) -> Self {
        Self {
            settings,
            brokers: BTreeMap::new(),
            topics: BTreeMap::new(),
        }
    }

    /// The brokers that clients are told of.
    pub(super) fn registered(&self) -> Vec<Broker> {
        let registered = self.brokers.iter().filter(|(_, b)| b.is_registered);
        registered
            .map(|(id, broker)| Broker {
                id: *id,
                address: broker.advertised.clone(),
            })
            .collect()
    }

    /// Which Kafka the broker runs, or will when it starts.
    pub(super) fn version(&self, broker: i32) -> BrokerVersion {
        let version = self.settings.versions.get(&broker).copied();
        version.unwrap_or_default()
    }

    /// What the broker does with clients.
    pub(super) fn behaviour(&self, broker: i32) -> &'static Behaviour {
        self.version(broker).behaviour()
    }

    /// The version that all brokers understand.
    pub(super) fn common_version(&self) -> BrokerVersion {
        let versions = self.settings.versions.values().copied();
        versions.min().unwrap_or_default()
    }

    /// The format in which the broker stores messages.
    pub(super) fn message_format(&self, broker: i32) -> MessageFormat {
        let broker = self.brokers.get(&broker);
        let protocol = broker.map(|broker| broker.protocol).unwrap_or_default();
        let latest = protocol.behaviour().message_format;
        latest.min(self.settings.message_format.unwrap_or(latest))
    }

    /// Of the logs of a topic. As in Kafka, a commit need not fit into the segments of messages.
    pub(super) fn segment_bytes(&self, topic: &str) -> usize {
        match topic == OFFSETS_TOPIC {
            true => OFFSETS_SEGMENT_BYTES,
            false => self.settings.log_segment_bytes,
        }
    }

    pub(super) fn is_registered(&self, broker: i32) -> bool {
        self.brokers.get(&broker).is_some_and(|b| b.is_registered)
    }

    pub(super) fn is_running(&self, broker: i32) -> bool {
        self.brokers.get(&broker).is_some_and(|b| b.is_running)
    }

    pub(super) fn partition(&self, of: &TopicPartition) -> Option<&Partition> {
        let number = usize::try_from(of.partition()).ok()?;
        self.topics.get(of.topic())?.get(number)
    }

    /// The partition, or the error code of one that does not exist.
    pub(super) fn known(&self, of: &TopicPartition) -> Result<&Partition, ErrorCode> {
        self.partition(of).ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    /// Changes a partition; `None` where it does not exist. The closure learns which brokers keep up.
    pub(super) fn change_partition<T>(
        &mut self,
        of: &TopicPartition,
        change: impl FnOnce(&mut Partition, &dyn Fn(i32) -> bool) -> T,
    ) -> Option<T> {
        let brokers = &self.brokers;
        let number = usize::try_from(of.partition()).ok()?;
        let partition = self.topics.get_mut(of.topic())?.get_mut(number)?;
        let changed = change(partition, &|id| keeps_up(brokers, id));
        save(partition, of);
        Some(changed)
    }

    /// Changes every partition, and returns those for which the closure says that they have changed.
    pub(super) fn change_all(
        &mut self,
        mut change: impl FnMut(&mut Partition, &dyn Fn(i32) -> bool) -> bool,
    ) -> Vec<TopicPartition> {
        let brokers = &self.brokers;
        let mut changed = Vec::new();
        for (topic, partitions) in &mut self.topics {
            for (partition, number) in partitions.iter_mut().zip(0..) {
                let of = TopicPartition::new(topic.as_str(), number);
                let has_changed = change(partition, &|id| keeps_up(brokers, id));
                save(partition, &of);
                if has_changed {
                    changed.push(of);
                }
            }
        }
        changed
    }

    /// Lets old segments go. As in Kafka, those of committed offsets stay however old: a group may have been quiet.
    pub(super) fn retain(&mut self, most: Option<usize>, oldest: Option<SystemTime>) {
        let topics = self.topics.iter_mut();
        for (topic, partitions) in topics.filter(|(topic, _)| *topic != OFFSETS_TOPIC) {
            for (partition, number) in partitions.iter_mut().zip(0..) {
                partition.retain(most, oldest);
                save(partition, &TopicPartition::new(topic.as_str(), number));
            }
        }
    }
}

/// What cannot be kept in files now may be later: every change tries again.
fn save(partition: &mut Partition, of: &TopicPartition) {
    if let Err(error) = partition.save() {
        log::error!("{of} cannot be kept: {error}");
    }
}

fn keeps_up(brokers: &BTreeMap<i32, BrokerState>, id: i32) -> bool {
    let broker = brokers.get(&id);
    broker.is_some_and(|broker| broker.is_running && broker.is_replicating)
}

/// The state under its lock, and the bell that rings when it has changed.
#[derive(Debug)]
pub(crate) struct SharedState {
    state: Mutex<ClusterState>,
    changed: Condvar,
}

impl SharedState {
    pub(crate) fn new(settings: BrokerSettings) -> Self {
        Self {
            state: Mutex::new(ClusterState::new(settings)),
            changed: Condvar::new(),
        }
    }

    pub(super) fn read<T>(&self, look: impl FnOnce(&ClusterState) -> T) -> T {
        look(&self.state.lock())
    }

    /// Changes the state, and wakes all who wait for something in it.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut ClusterState) -> T) -> T {
        let changed = change(&mut self.state.lock());
        self.changed.notify_all();
        changed
    }

    /// Wakes all who wait, so that they look at their stop signals.
    pub(super) fn wake(&self) {
        // Nobody is between the look at his signal and his wait while the lock is held here.
        drop(self.state.lock());
        self.changed.notify_all();
    }

    /// Looks at the state, again after each change, until `look` finds what it wants, `Ok`. At the deadline and at the
    /// stop it must do with what it has, `Err`.
    pub(super) fn wait_for<T>(
        &self,
        deadline: Instant,
        stop: &StopSignal,
        mut look: impl FnMut(&ClusterState) -> Result<T, T>,
    ) -> T {
        let mut state = self.state.lock();
        loop {
            let is_last = stop.is_stopped() || Instant::now() >= deadline;
            match look(&state) {
                Ok(found) => return found,
                Err(unfinished) if is_last => return unfinished,
                Err(_) => self.changed.wait_until(&mut state, deadline),
            };
        }
    }
}
