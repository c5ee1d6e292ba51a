//! What a scenario asks of a cluster, whether it is made of processes or embedded.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use serde_json::Value;

use super::broker_connection::BrokerConnection;
use super::wait::wait_for;
use super::wait::wait_until;
use super::zookeeper_shell::ZooKeeperShell;

const ELECTION_LIMIT: Duration = Duration::from_secs(180);

/// A version of Kafka of which clusters can be had.
pub trait Version: Copy + fmt::Debug {
    type Cluster: Cluster;

    /// Starts ZooKeeper and brokers with the ids 0, 1, ...
    fn start(self, brokers: i32) -> Self::Cluster {
        self.start_with(brokers, &[])
    }

    /// The same with these lines in the `server.properties` of each broker.
    fn start_with(self, brokers: i32, overrides: &[(&str, &str)]) -> Self::Cluster;
}

/// ZooKeeper and brokers on loopback ports. All calls fail loudly.
///
/// Whatever can be had over a socket is done over a socket, the same for all clusters.
pub trait Cluster {
    /// What goes into `zookeeper.connect`.
    fn connect_string(&self) -> String;

    /// Where the brokers listen, in the order of their ids.
    fn addresses(&self) -> Vec<String>;

    /// Creates a topic and waits until it can be used. Replicas go round robin: partition p is led
    /// by broker p mod n.
    fn create_topic(&self, topic: &str, partitions: i32, replication: i32);

    /// Raises the number of partitions to `total` and waits until all can be used.
    fn add_partitions(&self, topic: &str, total: i32, replication: i32);

    /// Asks for the deletion of a topic; once it is done the node in `/admin/delete_topics` is gone.
    fn request_deletion(&self, topic: &str);

    /// Makes another replica in sync the leader.
    fn move_leader(&self, topic: &str, partition: i32, broker: i32);

    /// As a crash: the others notice when its session has expired.
    fn kill_broker(&mut self, id: i32);

    /// In order; returns when it is down.
    fn stop_broker(&mut self, id: i32);

    /// With the same id, port and data, after killing it if it still runs. Returns when it serves.
    fn restart_broker(&mut self, id: i32);

    /// As a crash: nodes and sessions are there again after [`restart_zookeeper`](Self::restart_zookeeper).
    fn kill_zookeeper(&mut self);

    /// After killing it if it still runs. Returns when it serves.
    fn restart_zookeeper(&mut self);

    /// Stops serving while its sockets stay open, until [`resume_zookeeper`](Self::resume_zookeeper).
    fn pause_zookeeper(&mut self);

    fn resume_zookeeper(&mut self);

    /// What goes into `metadata.broker.list`.
    fn broker_list(&self) -> String {
        self.addresses().join(",")
    }

    /// Where the broker with this id listens.
    #[track_caller]
    fn address(&self, id: i32) -> String {
        let index = usize::try_from(id).expect("an id");
        self.addresses().swap_remove(index)
    }

    /// A new session.
    fn shell(&self) -> ZooKeeperShell {
        ZooKeeperShell::connect(&self.connect_string())
    }

    /// Deletes a topic and waits until it is gone from ZooKeeper.
    #[track_caller]
    fn delete_topic(&self, topic: &str) {
        self.request_deletion(topic);
        let shell = self.shell();
        wait_until(ELECTION_LIMIT, "a topic to be deleted", || {
            !shell.exists(&topic_path(topic))
        });
    }

    /// Waits until ZooKeeper has noticed that a broker died.
    #[track_caller]
    fn wait_until_deregistered(&self, id: i32) {
        let shell = self.shell();
        wait_until(ELECTION_LIMIT, "a broker's registration to vanish", || {
            !is_registered(&shell, id)
        });
    }

    /// Waits until each partition has a living leader and every registered broker knows it.
    #[track_caller]
    fn wait_for_leaders(&self, topic: &str) {
        let shell = self.shell();
        wait_until(ELECTION_LIMIT, "leaders that every broker knows", || {
            leaders(&shell, topic).is_ok_and(|leaders| {
                (0..)
                    .zip(self.addresses())
                    .filter(|(id, _)| is_registered(&shell, *id))
                    .all(|(_, address)| {
                        BrokerConnection::open(&address)
                            .and_then(|mut connection| connection.leaders(topic))
                            .is_ok_and(|known| known == leaders)
                    })
            })
        });
    }

    /// `None` before the controller has seen the partition.
    fn partition_state(&self, topic: &str, partition: i32) -> Option<PartitionState> {
        partition_state(&self.shell(), topic, partition)
    }

    /// Id of the leader.
    ///
    /// # Panics
    /// When the partition has no leader.
    #[track_caller]
    fn leader(&self, topic: &str, partition: i32) -> i32 {
        self.partition_state(topic, partition)
            .and_then(|state| state.leader)
            .expect("a partition with a leader")
    }

    /// Appends messages to one partition and returns the offset of the first.
    #[track_caller]
    fn produce(&self, topic: &str, partition: i32, values: &[&str]) -> i64 {
        let messages = values
            .iter()
            .map(|value| (None, value.as_bytes()))
            .collect::<Vec<_>>();
        self.produce_keyed(topic, partition, &messages)
    }

    /// Appends messages with keys to one partition and returns the offset of the first.
    #[track_caller]
    fn produce_keyed(
        &self,
        topic: &str,
        partition: i32,
        messages: &[(Option<&[u8]>, &[u8])],
    ) -> i64 {
        let leader = self.address(self.leader(topic, partition));
        let mut connection = BrokerConnection::open(&leader).expect("connect to the leader");
        // One that has just started may know all leaders before it acts as one.
        wait_for(
            ELECTION_LIMIT,
            "the leader to act as such",
            || match connection.produce(topic, partition, messages) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                outcome => Some(outcome.expect("produce")),
            },
        )
    }
}

/// Who leads a partition: its `state` node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// `None` while there is no leader.
    pub leader: Option<i32>,
    /// Replicas in sync.
    pub isr: Vec<i32>,
    pub leader_epoch: i64,
}

/// Where a topic's assignment stands.
pub fn topic_path(topic: &str) -> String {
    format!("/brokers/topics/{topic}")
}

/// The node of a topic, with its partitions and their replicas.
pub fn read_topic(shell: &ZooKeeperShell, topic: &str) -> io::Result<Value> {
    Ok(serde_json::from_str(&shell.get(&topic_path(topic))?)?)
}

/// The brokers of each partition of a topic, the preferred leader first.
pub fn replicas(shell: &ZooKeeperShell, topic: &str) -> io::Result<BTreeMap<i32, Vec<i32>>> {
    let node = read_topic(shell, topic)?;
    let partitions = node["partitions"]
        .as_object()
        .expect("partitions of a topic");
    let of = |(partition, brokers): (&String, &Value)| {
        let partition = partition.parse().expect("partition number");
        let brokers = brokers.as_array().into_iter().flatten().filter_map(id);
        (partition, brokers.collect())
    };
    Ok(partitions.into_iter().map(of).collect())
}

/// Leader by partition; an error while one is missing or dead.
fn leaders(shell: &ZooKeeperShell, topic: &str) -> io::Result<Vec<(i32, i32)>> {
    let partitions = replicas(shell, topic)?.into_keys();
    partitions
        .map(|partition| {
            let leader = partition_state(shell, topic, partition).and_then(|state| state.leader);
            let living = leader.filter(|leader| is_registered(shell, *leader));
            Ok((partition, living.ok_or(io::ErrorKind::NotFound)?))
        })
        .collect()
}

fn is_registered(shell: &ZooKeeperShell, broker: i32) -> bool {
    shell.exists(&format!("/brokers/ids/{broker}"))
}

fn partition_state(shell: &ZooKeeperShell, topic: &str, partition: i32) -> Option<PartitionState> {
    let path = format!("/brokers/topics/{topic}/partitions/{partition}/state");
    let state = serde_json::from_str::<Value>(&shell.get(&path).ok()?).ok()?;
    Some(PartitionState {
        leader: id(&state["leader"]).filter(|leader| *leader >= 0),
        isr: state["isr"].as_array()?.iter().filter_map(id).collect(),
        leader_epoch: state["leader_epoch"].as_i64()?,
    })
}

fn id(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|id| i32::try_from(id).ok())
}
