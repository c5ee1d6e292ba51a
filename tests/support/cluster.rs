//! A ZooKeeper server with brokers.

use std::time::Duration;

use serde_json::Value;
use serde_json::json;

use super::any_cluster::Cluster;
use super::any_cluster::Version;
use super::any_cluster::read_topic;
use super::any_cluster::replicas;
use super::any_cluster::topic_path;
use super::kafka::Kafka;
use super::kafka_version::KafkaVersion;
use super::wait::wait_until;
use super::zookeeper::ZooKeeper;
use super::zookeeper::ZooKeeperVersion;

/// How long the controller may take for what it is asked in `/admin`.
const ADMIN_LIMIT: Duration = Duration::from_secs(60);

/// The ZooKeeper that these brokers were released with, and brokers with the ids 0, 1, ...
pub struct RealCluster {
    version: KafkaVersion,
    // Dropped first: a broker that loses its ZooKeeper fills its log with complaints.
    brokers: Vec<Kafka>,
    zookeeper: ZooKeeper,
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

    /// Has the controller do something with one partition, and waits until it has.
    fn administer(&self, what: &str, partition: &Value) {
        let (shell, path) = (self.shell(), format!("/admin/{what}"));
        let wanted = json!({"version": 1, "partitions": [partition]}).to_string();
        shell.create(&path, &wanted).expect("ask the controller");
        wait_until(ADMIN_LIMIT, what, || !shell.exists(&path));
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

impl Version for KafkaVersion {
    type Cluster = RealCluster;

    fn start_with(self, brokers: i32, overrides: &[(&str, &str)]) -> RealCluster {
        RealCluster::start_with(self, brokers, overrides)
    }
}

impl Cluster for RealCluster {
    fn connect_string(&self) -> String {
        self.zookeeper.connect_string()
    }

    fn addresses(&self) -> Vec<String> {
        self.brokers.iter().map(Kafka::address).collect()
    }

    fn create_topic(&self, topic: &str, partitions: i32, replication: i32) {
        self.create_topic_with(topic, partitions, replication, &[]);
    }

    fn add_partitions(&self, topic: &str, total: i32, replication: i32) {
        let shell = self.shell();
        // Controllers from 2.8 on have put an id of the topic beside the partitions.
        let mut node = read_topic(&shell, topic).expect("read the assignment of a topic");
        node["partitions"] = self.assignment(total, replication);
        shell
            .set(&topic_path(topic), &node.to_string())
            .expect("write the assignment of a topic");
        self.wait_for_leaders(topic);
    }

    fn request_deletion(&self, topic: &str) {
        self.shell()
            .create(&format!("/admin/delete_topics/{topic}"), "")
            .expect("ask for the deletion of a topic");
    }

    /// As `kafka-reassign-partitions` and `kafka-preferred-replica-election` do, one after the other.
    fn move_leader(&self, topic: &str, partition: i32, broker: i32) {
        let shell = self.shell();
        let mut replicas = replicas(&shell, topic)
            .expect("the assignment of a topic")
            .remove(&partition)
            .expect("the partition");
        if replicas.first() != Some(&broker) {
            replicas.retain(|replica| *replica != broker);
            replicas.insert(0, broker);
            let part = json!({"topic": topic, "partition": partition, "replicas": replicas});
            self.administer("reassign_partitions", &part);
        }
        let part = json!({"topic": topic, "partition": partition});
        self.administer("preferred_replica_election", &part);
        wait_until(ADMIN_LIMIT, "the leader to move", || {
            let state = self.partition_state(topic, partition);
            state.is_some_and(|state| state.leader == Some(broker))
        });
        self.wait_for_leaders(topic);
    }

    fn kill_broker(&mut self, id: i32) {
        self.broker(id).kill();
    }

    fn stop_broker(&mut self, id: i32) {
        self.broker(id).stop();
    }

    fn restart_broker(&mut self, id: i32) {
        self.broker(id).restart();
    }

    fn kill_zookeeper(&mut self) {
        self.zookeeper.kill();
    }

    fn restart_zookeeper(&mut self) {
        self.zookeeper.restart();
    }

    fn pause_zookeeper(&mut self) {
        self.zookeeper.pause();
    }

    fn resume_zookeeper(&mut self) {
        self.zookeeper.resume();
    }
}
