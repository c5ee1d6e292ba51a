//! A ZooKeeper server with brokers.

use std::io;
use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::broker_connection::BrokerConnection;
use super::kafka::Kafka;
use super::kafka_version::KafkaVersion;
use super::wait::wait_for;
use super::wait::wait_until;
use super::zookeeper::ZooKeeper;
use super::zookeeper::ZooKeeperVersion;
use super::zookeeper_shell::ZooKeeperShell;

const ELECTION_LIMIT: Duration = Duration::from_secs(180);

/// The ZooKeeper that these brokers were released with, and brokers with the ids 0, 1, ...
pub struct RealCluster {
    version: KafkaVersion,
    // Dropped first: a broker that loses its ZooKeeper fills its log with complaints.
    brokers: Vec<Kafka>,
    zookeeper: ZooKeeper,
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

impl RealCluster {
    pub fn start(version: KafkaVersion, brokers: i32) -> Self {
        Self::start_with(version, brokers, &[])
    }

    /// Starts the brokers side by side, each with these lines added to its `server.properties`.
    pub fn start_with(version: KafkaVersion, brokers: i32, overrides: &[(&str, &str)]) -> Self {
        let zookeeper = ZooKeeper::start_version(ZooKeeperVersion::BesideKafka(version));
        Self::start_on(zookeeper, version, brokers, overrides, false)
    }

    /// Starts brokers whose JVMs compile with all they have: for benchmarks.
    pub fn start_at_full_speed(
        version: KafkaVersion,
        brokers: i32,
        overrides: &[(&str, &str)],
    ) -> Self {
        let zookeeper = ZooKeeper::start_version(ZooKeeperVersion::BesideKafka(version));
        Self::start_on(zookeeper, version, brokers, overrides, true)
    }

    /// Starts brokers on a ZooKeeper that runs already.
    pub fn start_on(
        zookeeper: ZooKeeper,
        version: KafkaVersion,
        brokers: i32,
        overrides: &[(&str, &str)],
        full_speed: bool,
    ) -> Self {
        let connect = zookeeper.connect_string();
        let mut brokers = (0..brokers)
            .map(|id| Kafka::launch(version, id, &connect, overrides, full_speed))
            .collect::<Vec<_>>();
        brokers.iter_mut().for_each(Kafka::wait_until_serving);
        Self {
            version,
            brokers,
            zookeeper,
        }
    }

    pub fn version(&self) -> KafkaVersion {
        self.version
    }

    pub fn zookeeper(&mut self) -> &mut ZooKeeper {
        &mut self.zookeeper
    }

    /// The broker with this id.
    pub fn broker(&mut self, id: i32) -> &mut Kafka {
        self.brokers
            .iter_mut()
            .find(|broker| broker.id() == id)
            .expect("a broker with this id")
    }

    pub fn brokers(&mut self) -> &mut Vec<Kafka> {
        &mut self.brokers
    }

    /// What goes into `zookeeper.connect`.
    pub fn connect_string(&self) -> String {
        self.zookeeper.connect_string()
    }

    /// What goes into `metadata.broker.list`.
    pub fn broker_list(&self) -> String {
        self.brokers
            .iter()
            .map(Kafka::address)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// A new session.
    pub fn shell(&self) -> ZooKeeperShell {
        ZooKeeperShell::connect(&self.connect_string())
    }

    /// Creates a topic and waits until it can be used. Replicas go round robin: partition p is led
    /// by broker p mod n.
    pub fn create_topic(&self, topic: &str, partitions: i32, replication: i32) {
        self.create_topic_with(topic, partitions, replication, &[]);
    }

    /// Creates a topic with settings of its own, such as `retention.ms`.
    ///
    /// Writes what `kafka.admin.TopicCommand` writes, without the second that a JVM needs to start.
    pub fn create_topic_with(
        &self,
        topic: &str,
        partitions: i32,
        replication: i32,
        settings: &[(&str, &str)],
    ) {
        let settings = settings
            .iter()
            .map(|(key, value)| (key.to_string(), json!(value)))
            .collect::<serde_json::Map<_, _>>();
        let shell = self.shell();
        let config = json!({"version": 1, "config": settings}).to_string();
        shell
            .put(&format!("/config/topics/{topic}"), &config)
            .expect("write the settings of a topic");
        let assignment = json!({
            "version": 1,
            "partitions": self.assignment(partitions, replication),
        });
        shell
            .create(&topic_path(topic), &assignment.to_string())
            .expect("write the assignment of a topic");
        self.wait_for_leaders(topic);
    }

    /// Raises the number of partitions to `total` and waits until all can be used.
    pub fn add_partitions(&self, topic: &str, total: i32, replication: i32) {
        let shell = self.shell();
        // Controllers from 2.8 on have put an id of the topic beside the partitions.
        let mut node = read_topic(&shell, topic).expect("read the assignment of a topic");
        node["partitions"] = self.assignment(total, replication);
        shell
            .set(&topic_path(topic), &node.to_string())
            .expect("write the assignment of a topic");
        self.wait_for_leaders(topic);
    }

    /// Deletes a topic and waits until it is gone from ZooKeeper.
    pub fn delete_topic(&self, topic: &str) {
        let shell = self.shell();
        shell
            .create(&format!("/admin/delete_topics/{topic}"), "")
            .expect("ask for the deletion of a topic");
        wait_until(ELECTION_LIMIT, "a topic to be deleted", || {
            !shell.exists(&topic_path(topic))
        });
    }

    /// Waits until each partition has a living leader and every registered broker knows it.
    pub fn wait_for_leaders(&self, topic: &str) {
        let shell = self.shell();
        wait_until(ELECTION_LIMIT, "leaders that every broker knows", || {
            self.leaders(&shell, topic).is_ok_and(|leaders| {
                self.brokers
                    .iter()
                    .filter(|broker| is_registered(&shell, broker.id()))
                    .all(|broker| {
                        BrokerConnection::open(&broker.address())
                            .and_then(|mut connection| connection.leaders(topic))
                            .is_ok_and(|known| known == leaders)
                    })
            })
        });
    }

    /// `None` before the controller has seen the partition.
    pub fn partition_state(&self, topic: &str, partition: i32) -> Option<PartitionState> {
        partition_state(&self.shell(), topic, partition)
    }

    /// Id of the leader.
    ///
    /// # Panics
    /// When the partition has no leader.
    #[track_caller]
    pub fn leader(&self, topic: &str, partition: i32) -> i32 {
        self.partition_state(topic, partition)
            .and_then(|state| state.leader)
            .expect("a partition with a leader")
    }

    /// Appends messages to one partition and returns the offset of the first.
    #[track_caller]
    pub fn produce(&self, topic: &str, partition: i32, values: &[&str]) -> i64 {
        let messages = values
            .iter()
            .map(|value| (None, value.as_bytes()))
            .collect::<Vec<_>>();
        self.produce_keyed(topic, partition, &messages)
    }

    /// Appends messages with keys to one partition and returns the offset of the first.
    #[track_caller]
    pub fn produce_keyed(
        &self,
        topic: &str,
        partition: i32,
        messages: &[(Option<&[u8]>, &[u8])],
    ) -> i64 {
        let leader = self.leader(topic, partition);
        let broker = self
            .brokers
            .iter()
            .find(|broker| broker.id() == leader)
            .expect("the leader is ours");
        let mut connection =
            BrokerConnection::open(&broker.address()).expect("connect to the leader");
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

    /// Leader by partition.
    fn leaders(&self, shell: &ZooKeeperShell, topic: &str) -> io::Result<Vec<(i32, i32)>> {
        let node = read_topic(shell, topic)?;
        let partitions = node["partitions"]
            .as_object()
            .expect("partitions of a topic");
        let mut leaders = Vec::new();
        for partition in partitions.keys() {
            let partition = partition.parse().expect("partition number");
            let leader = partition_state(shell, topic, partition).and_then(|state| state.leader);
            let living = leader
                .filter(|leader| is_registered(shell, *leader))
                .ok_or(io::ErrorKind::NotFound)?;
            leaders.push((partition, living));
        }
        leaders.sort_unstable();
        Ok(leaders)
    }

    fn assignment(&self, partitions: i32, replication: i32) -> Value {
        let brokers = i32::try_from(self.brokers.len()).expect("few brokers");
        assert!(
            replication <= brokers,
            "{replication} replicas need as many brokers"
        );
        let replicas = |partition| {
            (0..replication)
                .map(|step| (partition + step) % brokers)
                .collect::<Vec<_>>()
        };
        (0..partitions)
            .map(|partition| (partition.to_string(), json!(replicas(partition))))
            .collect()
    }
}

fn read_topic(shell: &ZooKeeperShell, topic: &str) -> io::Result<Value> {
    Ok(serde_json::from_str(&shell.get(&topic_path(topic))?)?)
}

fn topic_path(topic: &str) -> String {
    format!("/brokers/topics/{topic}")
}

fn is_registered(shell: &ZooKeeperShell, broker: i32) -> bool {
    shell.exists(&format!("/brokers/ids/{broker}"))
}

fn partition_state(shell: &ZooKeeperShell, topic: &str, partition: i32) -> Option<PartitionState> {
    let text = shell
        .get(&format!(
            "/brokers/topics/{topic}/partitions/{partition}/state"
        ))
        .ok()?;
    let state = serde_json::from_str::<Value>(&text).ok()?;
    let id = |value: &Value| value.as_i64().and_then(|id| i32::try_from(id).ok());
    Some(PartitionState {
        leader: id(&state["leader"]).filter(|leader| *leader >= 0),
        isr: state["isr"].as_array()?.iter().filter_map(id).collect(),
        leader_epoch: state["leader_epoch"].as_i64()?,
    })
}
