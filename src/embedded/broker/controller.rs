//! The controller: who leads what, and what ZooKeeper is told about it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Instant;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::embedded::broker::cluster_state::BrokerState;
use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::cluster_state::SharedState;
use crate::embedded::broker::partition::Partition;
use crate::embedded::broker::partition_store::PartitionStore;
use crate::embedded::broker::registry::Registry;
use crate::embedded::broker::restoring::kept_topics;
use crate::embedded::topic_name;
use crate::embedded::zookeeper::NodeError;
use crate::error::Error;

/// Changes the cluster's state, and then makes ZooKeeper show it.
///
/// It belongs to no broker; the one with the least id is named as the controller in ZooKeeper. While ZooKeeper is away
/// the cluster goes on, and ZooKeeper is told later.
#[derive(Debug)]
pub(crate) struct Controller {
    shared: Arc<SharedState>,
    /// Held while ZooKeeper is written, so that it sees the changes in their order. Never taken under the state's lock.
    outside: Mutex<Outside>,
}

#[derive(Debug)]
struct Outside {
    registry: Registry,
    /// What ZooKeeper does not show yet.
    unwritten: BTreeSet<Unwritten>,
    /// Killed brokers, with the incarnation that was killed and the time at which their sessions expire.
    expiring: Vec<(i32, u64, Instant)>,
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

impl Controller {
    pub(super) fn new(shared: Arc<SharedState>, registry: Registry) -> Self {
        Self {
            shared,
            outside: Mutex::new(Outside {
                registry,
                unwritten: BTreeSet::from([Unwritten::Layout]),
                expiring: Vec::new(),
                controller: None,
                epoch: 0,
                is_behind: false,
            }),
        }
    }

    /// Creates a topic, its replicas spread over the registered brokers. `false` when it exists.
    pub(super) fn create_topic(
        &self,
        topic: &str,
        partitions: i32,
        replicas: usize,
    ) -> Result<bool, Error> {
        topic_name::check(topic)?;
        let mut outside = self.outside.lock();
        let is_new = self.shared.change(|state| {
            if state.topics.contains_key(topic) {
                return Ok::<_, Error>(false);
            }
            let assignment = assign(state, partitions, replicas, 0)?;
            insert_topic(state, topic, assignment)?;
            Ok(true)
        })?;
        if is_new {
            outside.add_topic(topic, 0..partitions);
            self.write_out(&mut outside);
        }
        Ok(is_new)
    }

    /// Creates a topic with the replicas that are given for each partition. `false` when it exists.
    pub(super) fn create_assigned_topic(
        &self,
        topic: &str,
        assignment: &[Vec<i32>],
    ) -> Result<bool, Error> {
        topic_name::check(topic)?;
        let mut outside = self.outside.lock();
        let is_new = self.shared.change(|state| {
            check_assignment(state, assignment)?;
            if state.topics.contains_key(topic) {
                return Ok::<_, Error>(false);
            }
            insert_topic(state, topic, assignment.to_vec())?;
            Ok(true)
        })?;
        if is_new {
            let partitions = i32::try_from(assignment.len()).unwrap_or(i32::MAX);
            outside.add_topic(topic, 0..partitions);
            self.write_out(&mut outside);
        }
        Ok(is_new)
    }

    /// Gives a topic more partitions, with as many replicas as its first one has.
    pub(super) fn add_partitions(&self, topic: &str, total: i32) -> Result<(), Error> {
        let mut outside = self.outside.lock();
        let first_new = self.shared.change(|state| {
            let present = state.topics.get(topic).ok_or_else(|| unknown(topic))?;
            let count = i32::try_from(present.len()).unwrap_or(i32::MAX);
            if total < count {
                return Err(Error::InvalidArgument {
                    name: "partitions",
                    reason: format!("{topic} has {count}, more than the {total} wanted"),
                });
            }
            let replicas = present.first().map_or(1, |first| first.replicas().len());
            let assignment = assign(state, total, replicas, present.len())?;
            let added = new_partitions(state, topic, present.len(), assignment)?;
            let present = state.topics.get_mut(topic);
            present
                .into_iter()
                .for_each(|p| p.extend_from_slice(&added));
            Ok(count)
        })?;
        outside.add_topic(topic, first_new..total);
        self.write_out(&mut outside);
        Ok(())
    }

    pub(super) fn delete_topic(&self, topic: &str) -> Result<(), Error> {
        let mut outside = self.outside.lock();
        let deleted = self.shared.change(|state| state.topics.remove(topic));
        deleted.ok_or_else(|| unknown(topic))?;
        self.delete_logs(topic);
        outside
            .unwritten
            .retain(|part| !matches!(part, Unwritten::Partition(of) if of.topic() == topic));
        outside.unwritten.insert(Unwritten::Topic(topic.to_owned()));
        self.write_out(&mut outside);
        Ok(())
    }

    pub(super) fn move_leader(&self, of: &TopicPartition, broker: i32) -> Result<(), Error> {
        let mut outside = self.outside.lock();
        let has_moved = self.shared.change(|state| {
            let is_running = state.is_running(broker);
            state.change_partition(of, |partition, keeps_up| {
                let has_moved = is_running && partition.move_leader(broker);
                partition.replicate(keeps_up);
                has_moved
            })
        });
        match has_moved {
            None => Err(unknown(&of.to_string())),
            Some(false) => Err(Error::InvalidArgument {
                name: "leader",
                reason: format!("broker {broker} is not a running replica in sync of {of}"),
            }),
            Some(true) => {
                outside.unwritten.insert(Unwritten::Partition(of.clone()));
                self.write_out(&mut outside);
                Ok(())
            }
        }
    }

    /// Brings back the topics that ZooKeeper and the folder of logs know, before any broker starts, and returns their
    /// names. The brokers of which `is_coming` says so are in sync at once.
    pub(super) fn restore(&self, is_coming: impl Fn(i32) -> bool) -> Result<Vec<String>, Error> {
        let settings = self.shared.read(|state| state.settings.clone());
        let Some(folder) = &settings.log_dir else {
            return Ok(Vec::new());
        };
        let mut outside = self.outside.lock();
        let (epoch, topics) = kept_topics(&mut outside.registry)?;
        outside.epoch = epoch;
        let mut names = Vec::new();
        for topic in topics {
            let partitions = topic.restore(folder, settings.log_segment_bytes, &is_coming)?;
            let count = i32::try_from(partitions.len()).unwrap_or(i32::MAX);
            outside.add_topic(&topic.name, 0..count);
            names.push(topic.name.clone());
            self.shared
                .change(|state| state.topics.insert(topic.name, partitions));
        }
        Ok(names)
    }

    /// Registers a broker that answers from now on: it leads what has no leader, and catches up with the rest.
    pub(super) fn broker_started(&self, id: i32, address: BrokerAddress) {
        let mut outside = self.outside.lock();
        self.end_session(&mut outside, id);
        let changed = self.shared.change(|state| {
            let lives = state.brokers.get(&id).map_or(0, |b| b.incarnation);
            let broker = BrokerState {
                address,
                is_running: true,
                is_registered: true,
                is_replicating: true,
                incarnation: lives.saturating_add(1),
            };
            state.brokers.insert(id, broker);
            state.change_all(|partition, keeps_up| {
                let is_elected = partition.elect(keeps_up);
                partition.replicate(keeps_up) || is_elected
            })
        });
        outside.unwritten.insert(Unwritten::Broker(id));
        outside.unwritten.insert(Unwritten::Controller);
        outside.add_partitions(changed);
        self.write_out(&mut outside);
    }

    /// Notes that a broker is dead. Nobody knows of it until its session expires.
    pub(super) fn broker_killed(&self, id: i32) {
        let mut outside = self.outside.lock();
        let killed = self.shared.change(|state| {
            let session_timeout = state.settings.session_timeout;
            let broker = state.brokers.get_mut(&id)?;
            broker.is_running = false;
            Some((broker.incarnation, session_timeout))
        });
        let Some((incarnation, session_timeout)) = killed else {
            return;
        };
        let now = Instant::now();
        let expiry = now.checked_add(session_timeout).unwrap_or(now);
        outside.expiring.push((id, incarnation, expiry));
    }

    /// Gives the leaderships of a broker away and ends its registration, while it still answers.
    pub(super) fn broker_leaves(&self, id: i32) {
        let mut outside = self.outside.lock();
        self.end_session(&mut outside, id);
        self.write_out(&mut outside);
    }

    /// Holds a broker's replicas back, or lets them catch up.
    pub(super) fn set_replicating(&self, id: i32, is_replicating: bool) {
        let mut outside = self.outside.lock();
        let changed = self.shared.change(|state| {
            if let Some(broker) = state.brokers.get_mut(&id) {
                broker.is_replicating = is_replicating;
            }
            state.change_all(|partition, keeps_up| partition.replicate(keeps_up))
        });
        outside.add_partitions(changed);
        self.write_out(&mut outside);
    }

    /// What has to be done now and then: sessions expire, old segments go, and ZooKeeper is told what it missed.
    pub(super) fn tick(&self) {
        let mut outside = self.outside.lock();
        let now = Instant::now();
        let expired = outside.expiring.iter().filter(|(.., at)| *at <= now);
        for id in expired.map(|(id, ..)| *id).collect::<Vec<_>>() {
            self.end_session(&mut outside, id);
        }
        self.apply_retention();
        let registered = self.shared.read(ClusterState::registered);
        for broker in registered {
            if !outside.registry.has_broker(broker.id) {
                outside.unwritten.insert(Unwritten::Broker(broker.id));
                outside.unwritten.insert(Unwritten::Controller);
            }
        }
        self.write_out(&mut outside);
    }

    /// Runs with the registry while nobody else writes to ZooKeeper.
    pub(super) fn with_registry<T>(&self, run: impl FnOnce(&mut Registry) -> T) -> T {
        run(&mut self.outside.lock().registry)
    }

    fn end_session(&self, outside: &mut Outside, id: i32) {
        outside.expiring.retain(|(expiring, ..)| *expiring != id);
        let changed = self.shared.change(|state| {
            let broker = state.brokers.get_mut(&id)?;
            if !broker.is_registered {
                return None;
            }
            broker.is_registered = false;
            broker.is_running = false;
            Some(state.change_all(|partition, keeps_up| partition.lose(id, keeps_up)))
        });
        let Some(changed) = changed else {
            return;
        };
        log::info!("broker {id} is gone, {} partitions change", changed.len());
        outside.unwritten.insert(Unwritten::Broker(id));
        outside.unwritten.insert(Unwritten::Controller);
        outside.add_partitions(changed);
    }

    fn delete_logs(&self, topic: &str) {
        let folder = self.shared.read(|state| state.settings.log_dir.clone());
        let Some(folder) = folder.map(|folder| folder.join(topic)) else {
            return;
        };
        if let Err(error) = fs::remove_dir_all(&folder) {
            log::warn!("{} cannot be deleted: {error}", folder.display());
        }
    }

    fn apply_retention(&self) {
        let settings = self.shared.read(|state| state.settings.clone());
        let (most, time) = (settings.log_retention_bytes, settings.log_retention_time);
        if most.is_none() && time.is_none() {
            return;
        }
        let oldest = time.and_then(|time| SystemTime::now().checked_sub(time));
        self.shared.change(|state| {
            state.change_all(|partition, _| {
                partition.retain(most, oldest);
                false
            })
        });
    }

    /// Tells ZooKeeper what it does not show yet, as far as it can be reached.
    fn write_out(&self, outside: &mut Outside) {
        while let Some(part) = outside.unwritten.first().cloned() {
            if let Err(error) = self.write_part(outside, &part) {
                if !outside.is_behind {
                    log::warn!("zookeeper will be told later of {part:?}: {error}");
                }
                outside.is_behind = true;
                return;
            }
            outside.unwritten.remove(&part);
        }
        outside.is_behind = false;
    }

    fn write_part(&self, outside: &mut Outside, part: &Unwritten) -> Result<(), NodeError> {
        let epoch = outside.epoch;
        let registry = &mut outside.registry;
        match part {
            Unwritten::Layout => registry.write_layout(),
            Unwritten::Broker(id) => {
                let (broker, version) = self.shared.read(|state| {
                    let broker = state.brokers.get(id).filter(|b| b.is_registered);
                    (broker.cloned(), state.settings.version)
                });
                match broker {
                    Some(broker) => registry.write_broker(*id, &broker, version),
                    None => {
                        registry.forget_broker(*id);
                        Ok(())
                    }
                }
            }
            Unwritten::Topic(topic) => {
                let partitions = self.shared.read(|state| state.topics.get(topic).cloned());
                match partitions {
                    Some(partitions) => registry.write_topic(topic, &partitions),
                    None => registry.delete_topic(topic),
                }
            }
            Unwritten::Partition(of) => {
                let partition = self.shared.read(|state| state.partition(of).cloned());
                let written = |partition| registry.write_partition(of, &partition, epoch);
                partition.map_or(Ok(()), written)
            }
            Unwritten::Controller => self.write_controller(outside),
        }
    }

    fn write_controller(&self, outside: &mut Outside) -> Result<(), NodeError> {
        let registered = self.shared.read(ClusterState::registered);
        let stays = |id| registered.iter().any(|broker| broker.id == id);
        let first = registered.first().map(|broker| broker.id);
        let controller = outside.controller.filter(|id| stays(*id)).or(first);
        if outside.controller != controller && controller.is_some() {
            outside.epoch = outside.epoch.saturating_add(1);
        }
        outside.controller = controller;
        match controller {
            Some(id) => outside.registry.write_controller(id, outside.epoch),
            None => Ok(()),
        }
    }
}

impl Outside {
    fn add_topic(&mut self, topic: &str, partitions: std::ops::Range<i32>) {
        self.unwritten.insert(Unwritten::Topic(topic.to_owned()));
        self.add_partitions(partitions.map(|number| TopicPartition::new(topic, number)));
    }

    fn add_partitions(&mut self, changed: impl IntoIterator<Item = TopicPartition>) {
        let changed = changed.into_iter().map(Unwritten::Partition);
        self.unwritten.extend(changed);
    }
}

/// Replicas of the partitions from `first` up to `partitions`, one broker after the other.
fn assign(
    state: &ClusterState,
    partitions: i32,
    replicas: usize,
    first: usize,
) -> Result<Vec<Vec<i32>>, Error> {
    let refused = |name, reason| Err(Error::InvalidArgument { name, reason });
    let brokers: Vec<i32> = state.registered().iter().map(|broker| broker.id).collect();
    if partitions < 1 {
        return refused("partitions", format!("{partitions} is less than 1"));
    }
    if replicas < 1 || replicas > brokers.len() {
        let most = brokers.len();
        return refused("replicas", format!("{replicas} is not within 1 to {most}"));
    }
    let partitions = usize::try_from(partitions).unwrap_or(0);
    let replicas_of = |number| {
        let ids = brokers.iter().copied().cycle();
        ids.skip(number).take(replicas).collect()
    };
    Ok((first..partitions)
        .map(|n| replicas_of(n % brokers.len()))
        .collect())
}

fn check_assignment(state: &ClusterState, assignment: &[Vec<i32>]) -> Result<(), Error> {
    let is_good = |ids: &Vec<i32>| {
        let known = ids.iter().filter(|id| state.brokers.contains_key(id));
        let distinct: BTreeSet<&i32> = known.collect();
        !ids.is_empty() && distinct.len() == ids.len()
    };
    match !assignment.is_empty() && assignment.iter().all(is_good) {
        true => Ok(()),
        false => Err(Error::InvalidArgument {
            name: "replicas",
            reason: format!("{assignment:?} are not distinct known brokers for each partition"),
        }),
    }
}

fn insert_topic(
    state: &mut ClusterState,
    topic: &str,
    assignment: Vec<Vec<i32>>,
) -> Result<(), Error> {
    let partitions = new_partitions(state, topic, 0, assignment)?;
    state.topics.insert(topic.to_owned(), partitions);
    Ok(())
}

/// Empty partitions, numbered from `first` on.
fn new_partitions(
    state: &ClusterState,
    topic: &str,
    first: usize,
    assignment: Vec<Vec<i32>>,
) -> Result<Vec<Partition>, Error> {
    let settings = &state.settings;
    let numbered = (first..).zip(assignment);
    let partitions = numbered.map(|(number, replicas)| {
        let mut partition = Partition::new(replicas, settings.log_segment_bytes, |id| {
            state.is_running(id)
        });
        if let Some(folder) = &settings.log_dir {
            let folder = folder.join(topic).join(number.to_string());
            let store = PartitionStore::create(&folder);
            let failed = |source| Error::DataFolder {
                path: folder.clone(),
                source,
            };
            partition.keep_in(store.map_err(failed)?);
            partition.save().map_err(failed)?;
        }
        Ok(partition)
    });
    partitions.collect()
}

fn unknown(what: &str) -> Error {
    Error::InvalidArgument {
        name: "topic",
        reason: format!("{what} does not exist"),
    }
}
