//! The controller: who leads what.

use std::fs;
use std::sync::Arc;
use std::time::Instant;
use std::time::SystemTime;

use parking_lot::Mutex;

use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::embedded::broker::announcements::Announcements;
use crate::embedded::broker::cluster_state::BrokerState;
use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::cluster_state::SharedState;
use crate::embedded::broker::registry::Registry;
use crate::embedded::broker::replica_assignment::check;
use crate::embedded::broker::replica_assignment::new_partitions;
use crate::embedded::broker::replica_assignment::spread;
use crate::embedded::broker::restoring::kept_topics;
use crate::embedded::topic_name;
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
    announcements: Announcements,
    /// Killed brokers, with the incarnation that was killed and the time at which their sessions expire.
    expiring: Vec<(i32, u64, Instant)>,
}

impl Controller {
    pub(super) fn new(shared: Arc<SharedState>, registry: Registry) -> Self {
        Self {
            shared,
            outside: Mutex::new(Outside {
                announcements: Announcements::new(registry),
                expiring: Vec::new(),
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
            let assignment = spread(state, partitions, replicas, 0)?;
            let partitions = new_partitions(state, topic, 0, assignment)?;
            state.topics.insert(topic.to_owned(), partitions);
            Ok(true)
        })?;
        if is_new {
            outside.announcements.add_topic(topic, 0..partitions);
            outside.announcements.write_out(&self.shared);
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
            check(state, assignment)?;
            if state.topics.contains_key(topic) {
                return Ok::<_, Error>(false);
            }
            let partitions = new_partitions(state, topic, 0, assignment.to_vec())?;
            state.topics.insert(topic.to_owned(), partitions);
            Ok(true)
        })?;
        if is_new {
            let partitions = i32::try_from(assignment.len()).unwrap_or(i32::MAX);
            outside.announcements.add_topic(topic, 0..partitions);
            outside.announcements.write_out(&self.shared);
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
            let assignment = spread(state, total, replicas, present.len())?;
            let added = new_partitions(state, topic, present.len(), assignment)?;
            let present = state.topics.get_mut(topic);
            present
                .into_iter()
                .for_each(|p| p.extend_from_slice(&added));
            Ok(count)
        })?;
        outside.announcements.add_topic(topic, first_new..total);
        outside.announcements.write_out(&self.shared);
        Ok(())
    }

    pub(super) fn delete_topic(&self, topic: &str) -> Result<(), Error> {
        let mut outside = self.outside.lock();
        let deleted = self.shared.change(|state| state.topics.remove(topic));
        deleted.ok_or_else(|| unknown(topic))?;
        self.delete_logs(topic);
        outside.announcements.delete_topic(topic);
        outside.announcements.write_out(&self.shared);
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
                outside.announcements.add_partitions([of.clone()]);
                outside.announcements.write_out(&self.shared);
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
        let (epoch, topics) = kept_topics(outside.announcements.registry())?;
        outside.announcements.set_epoch(epoch);
        let mut names = Vec::new();
        for topic in topics {
            let segment_bytes = self.shared.read(|state| state.segment_bytes(&topic.name));
            let partitions = topic.restore(folder, segment_bytes, &is_coming)?;
            let count = i32::try_from(partitions.len()).unwrap_or(i32::MAX);
            outside.announcements.add_topic(&topic.name, 0..count);
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
            let host = state.settings.advertised_host_name.as_ref();
            let host = host.unwrap_or(&address.host).as_str();
            let broker = BrokerState {
                advertised: BrokerAddress::new(host, address.port),
                address,
                is_running: true,
                is_registered: true,
                is_replicating: true,
                protocol: state.common_version(),
                incarnation: lives.saturating_add(1),
            };
            state.brokers.insert(id, broker);
            let is_unclean = state.settings.unclean_leader_election;
            state.change_all(|partition, keeps_up| {
                let is_elected = partition.elect(keeps_up)
                    || (is_unclean && partition.elect_uncleanly(keeps_up));
                partition.replicate(keeps_up) || is_elected
            })
        });
        outside.announcements.add_broker(id);
        outside.announcements.add_partitions(changed);
        outside.announcements.write_out(&self.shared);
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
        outside.announcements.write_out(&self.shared);
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
        outside.announcements.add_partitions(changed);
        outside.announcements.write_out(&self.shared);
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
            if !outside.announcements.registry().has_broker(broker.id) {
                outside.announcements.add_broker(broker.id);
            }
        }
        outside.announcements.write_out(&self.shared);
    }

    /// Runs with the registry while nobody else writes to ZooKeeper.
    pub(super) fn with_registry<T>(&self, run: impl FnOnce(&mut Registry) -> T) -> T {
        run(self.outside.lock().announcements.registry())
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
            let is_unclean = state.settings.unclean_leader_election;
            Some(state.change_all(|partition, keeps_up| {
                let has_lost = partition.lose(id, keeps_up);
                (is_unclean && partition.elect_uncleanly(keeps_up)) || has_lost
            }))
        });
        let Some(changed) = changed else {
            return;
        };
        log::info!("broker {id} is gone, {} partitions change", changed.len());
        outside.announcements.add_broker(id);
        outside.announcements.add_partitions(changed);
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
        self.shared.change(|state| state.retain(most, oldest));
    }
}

fn unknown(what: &str) -> Error {
    Error::InvalidArgument {
        name: "topic",
        reason: format!("{what} does not exist"),
    }
}
