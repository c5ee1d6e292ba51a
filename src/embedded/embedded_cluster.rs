//! ZooKeeper and brokers as one thing.

use std::sync::Arc;

use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::embedded::broker::Brokers;
use crate::embedded::broker_version::BrokerVersion;
use crate::embedded::clock::milliseconds_now;
use crate::embedded::cluster_builder::ClusterBuilder;
use crate::embedded::cluster_description::ClusterDescription;
use crate::embedded::faults::AnswerFault;
use crate::embedded::faults::Api;
use crate::embedded::faults::ConnectionFault;
use crate::embedded::zookeeper::EmbeddedZooKeeper;
use crate::error::Error;
use crate::protocol::MessageSet;
use crate::protocol::MessageSetBuilder;
use crate::protocol::NewMessage;
use crate::protocol::RequiredAcks;

/// A Kafka cluster with its ZooKeeper, on loopback ports of this process.
///
/// Made for demos, for development and for tests: every fault that a consumer may meet can be had by a call. Dropping
/// it ends all of it, and its data too unless [`data_dir`](ClusterBuilder::data_dir) names a folder for them.
///
/// ```no_run
/// # fn main() -> Result<(), kafka_zk_consumer::Error> {
/// use kafka_zk_consumer::embedded::EmbeddedCluster;
///
/// let cluster = EmbeddedCluster::builder().brokers(3).topic("orders", 6, 3).start()?;
/// cluster.produce("orders", 0, ["first", "second"])?;
/// println!("zookeeper.connect={}", cluster.connect_string());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct EmbeddedCluster {
    /// Ends before ZooKeeper does.
    brokers: Brokers,
    zookeeper: Arc<EmbeddedZooKeeper>,
}

impl EmbeddedCluster {
    /// A cluster of one broker, until more is said.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::new()
    }

    pub(super) fn new(brokers: Brokers, zookeeper: Arc<EmbeddedZooKeeper>) -> Self {
        Self { brokers, zookeeper }
    }

    /// Where ZooKeeper listens, for `zookeeper.connect`.
    pub fn connect_string(&self) -> String {
        self.zookeeper.connect_string()
    }

    /// ZooKeeper, with its own faults.
    pub fn zookeeper(&self) -> &EmbeddedZooKeeper {
        &self.zookeeper
    }

    /// Where the brokers listen, for `metadata.broker.list`.
    pub fn bootstrap(&self) -> Vec<BrokerAddress> {
        let brokers = self.describe().brokers.into_iter();
        brokers.map(|broker| broker.address).collect()
    }

    /// Brokers and partitions as they are now.
    pub fn describe(&self) -> ClusterDescription {
        self.brokers.describe()
    }

    /// Appends messages without keys, and waits until all replicas in sync have them. Returns the first offset.
    ///
    /// Where brokers store times, the messages have that of the call.
    ///
    /// # Errors
    ///
    /// [`Error::Partition`] when there is no live leader, or the replicas do not follow.
    pub fn produce<V: AsRef<[u8]>>(
        &self,
        topic: &str,
        partition: i32,
        values: impl IntoIterator<Item = V>,
    ) -> Result<i64, Error> {
        let now = Some(milliseconds_now());
        let values: Vec<V> = values.into_iter().collect();
        let messages = values.iter().map(|value| NewMessage {
            value: Some(value.as_ref()),
            timestamp: now,
            ..NewMessage::default()
        });
        self.produce_messages(topic, partition, messages)
    }

    /// As [`produce`](Self::produce), with whatever a message may have: as the producer of the brokers' version, which
    /// loses the headers before 0.11 and the times before 0.10.
    ///
    /// # Errors
    ///
    /// As [`produce`](Self::produce).
    pub fn produce_messages<'a>(
        &self,
        topic: &str,
        partition: i32,
        messages: impl IntoIterator<Item = NewMessage<'a>>,
    ) -> Result<i64, Error> {
        let of = TopicPartition::new(topic, partition);
        let format = self.brokers.message_format(&of);
        let mut builder = MessageSetBuilder::new().in_format(format);
        for (message, offset) in messages.into_iter().zip(0..) {
            builder.add(offset, &message)?;
        }
        self.produce_set(&of, &builder.build()?, RequiredAcks::All)
    }

    /// Appends a set as a producer would send it, compressed or not, and waits for the replicas that `acks` asks for.
    ///
    /// # Errors
    ///
    /// As [`produce`](Self::produce), and for a set that brokers refuse.
    pub fn produce_set(
        &self,
        of: &TopicPartition,
        set: &MessageSet,
        acks: RequiredAcks,
    ) -> Result<i64, Error> {
        self.brokers.produce(of, set, acks)
    }

    /// Creates a topic, its replicas spread over the registered brokers.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when it exists or cannot be.
    pub fn create_topic(&self, topic: &str, partitions: i32, replicas: usize) -> Result<(), Error> {
        self.brokers.create_topic(topic, partitions, replicas)
    }

    /// As [`create_topic`](Self::create_topic), with the brokers of each partition's replicas, the leader's first.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when it exists, or for brokers that do not.
    pub fn create_assigned_topic(&self, topic: &str, replicas: &[Vec<i32>]) -> Result<(), Error> {
        self.brokers.create_assigned_topic(topic, replicas)
    }

    /// Gives a topic more partitions; `total` counts the present ones too.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown topic, or fewer partitions than it has.
    pub fn add_partitions(&self, topic: &str, total: i32) -> Result<(), Error> {
        self.brokers.add_partitions(topic, total)
    }

    /// Deletes a topic with all its messages.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown topic.
    pub fn delete_topic(&self, topic: &str) -> Result<(), Error> {
        self.brokers.delete_topic(topic)
    }

    /// Kills a broker: its connections break at once, and the others notice when its session has expired.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown broker.
    pub fn kill(&self, broker: i32) -> Result<(), Error> {
        self.brokers.kill(broker)
    }

    /// Stops a broker politely: it gives its leaderships away first.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown broker.
    pub fn stop(&self, broker: i32) -> Result<(), Error> {
        self.brokers.stop(broker)
    }

    /// Starts a killed or stopped broker again, with its logs, on its old port. It catches up at once.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a broker that is unknown or running.
    pub fn restart(&self, broker: i32) -> Result<(), Error> {
        self.brokers.restart(broker, false, None)
    }

    /// As [`restart`](Self::restart), on another port.
    ///
    /// # Errors
    ///
    /// As [`restart`](Self::restart).
    pub fn restart_on_new_port(&self, broker: i32) -> Result<(), Error> {
        self.brokers.restart(broker, true, None)
    }

    /// As [`restart`](Self::restart), as another version from now on.
    ///
    /// All brokers register and store messages as the oldest one did when they started, as if somebody had set
    /// `inter.broker.protocol.version` and `log.message.format.version` with care. So a rolling upgrade takes two
    /// rounds: in the first one all brokers get the new version, and in the second one, or as the last of the first one,
    /// each begins to use the new registration and message format.
    ///
    /// # Errors
    ///
    /// As [`restart`](Self::restart).
    pub fn restart_as(&self, broker: i32, version: BrokerVersion) -> Result<(), Error> {
        self.brokers.restart(broker, false, Some(version))
    }

    /// Makes another replica in sync the leader.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the broker cannot lead the partition.
    pub fn move_leader(&self, topic: &str, partition: i32, broker: i32) -> Result<(), Error> {
        let of = TopicPartition::new(topic, partition);
        self.brokers.move_leader(&of, broker)
    }

    /// Disturbs all connections of a broker until it is healed or restarted.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown broker.
    pub fn disturb(&self, broker: i32, fault: ConnectionFault) -> Result<(), Error> {
        self.brokers.disturb(broker, Some(fault))
    }

    /// Ends what [`disturb`](Self::disturb) began.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown broker.
    pub fn heal(&self, broker: i32) -> Result<(), Error> {
        self.brokers.disturb(broker, None)
    }

    /// Cuts the present connections of a broker; new ones are welcome.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown broker.
    pub fn cut_connections(&self, broker: i32) -> Result<(), Error> {
        self.brokers.cut_connections(broker)
    }

    /// Spoils the next answer of a broker to such a request. Called again, it spoils the one after that too.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown broker.
    pub fn spoil_answer(&self, broker: i32, api: Api, fault: AnswerFault) -> Result<(), Error> {
        self.brokers.add_answer_fault(broker, api, fault)
    }

    /// How many answers of a broker are still to be spoilt.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown broker.
    pub fn answers_to_spoil(&self, broker: i32) -> Result<usize, Error> {
        self.brokers.answer_faults_left(broker)
    }

    /// Lets the replicas of a broker stand still, so that high watermarks do, or lets them catch up.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown broker.
    pub fn set_replicating(&self, broker: i32, is_replicating: bool) -> Result<(), Error> {
        self.brokers.set_replicating(broker, is_replicating)
    }

    /// Takes the high watermark of a partition back, as a new leader does that has not heard of its followers yet. It
    /// rises again with the next message, or when a broker catches up.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown partition.
    pub fn lower_high_watermark(
        &self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> Result<(), Error> {
        let of = TopicPartition::new(topic, partition);
        self.brokers.lower_high_watermark(&of, offset)
    }

    /// Damages the leader's copy of a message by changing a byte; of a compressed message that holds it, the whole.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when there is no such message.
    pub fn corrupt(&self, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        let of = TopicPartition::new(topic, partition);
        self.brokers.corrupt(&of, offset)
    }

    /// Forgets the messages from `offset` on, as an unclean change of leader does.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown partition.
    pub fn truncate(&self, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        let of = TopicPartition::new(topic, partition);
        self.brokers.truncate(&of, offset)
    }

    /// Forgets the messages before `offset`, as retention does. Past the end, the log is empty and goes on there.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an unknown partition.
    pub fn set_log_start(&self, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        let of = TopicPartition::new(topic, partition);
        self.brokers.set_log_start(&of, offset)
    }
}
