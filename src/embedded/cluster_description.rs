//! What an embedded cluster looks like at one moment.

use std::fmt;

use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::embedded::broker_version::BrokerVersion;

/// Brokers and partitions, each in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterDescription {
    /// All brokers, dead ones too.
    pub brokers: Vec<BrokerDescription>,
    /// All partitions of all topics, internal ones too.
    pub partitions: Vec<PartitionDescription>,
}

/// One broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Its id.
    pub id: i32,
    /// Where it listens, or did.
    pub address: BrokerAddress,
    /// Which Kafka it behaves as.
    pub version: BrokerVersion,
    /// Whether it lives.
    pub is_running: bool,
    /// Whether ZooKeeper lists it. A killed broker stays there until its session expires.
    pub is_registered: bool,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDescription {
    /// Which one.
    pub topic_partition: TopicPartition,
    /// Id of the leader; `None` while there is none.
    pub leader: Option<i32>,
    /// Brokers with a replica, the preferred leader first.
    pub replicas: Vec<i32>,
    /// Those of them that are in sync.
    pub isr: Vec<i32>,
    /// The first offset that can be read.
    pub log_start: i64,
    /// The offset after the last message that consumers see.
    pub high_watermark: i64,
    /// The offset that the next message gets.
    pub log_end: i64,
    /// Size of the leader's log.
    pub bytes: usize,
}

impl ClusterDescription {
    /// The partition; `None` when it does not exist.
    pub fn partition(&self, topic: &str, partition: i32) -> Option<&PartitionDescription> {
        let wanted = TopicPartition::new(topic, partition);
        let mut partitions = self.partitions.iter();
        partitions.find(|partition| partition.topic_partition == wanted)
    }
}

impl fmt::Display for ClusterDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for broker in &self.brokers {
            let state = match (broker.is_running, broker.is_registered) {
                (true, true) => "up",
                (true, false) => "not registered",
                (false, true) => "dead, not noticed",
                (false, false) => "down",
            };
            writeln!(f, "broker {} {} {state}", broker.id, broker.address)?;
        }
        for partition in &self.partitions {
            write!(f, "{} leader ", partition.topic_partition)?;
            match partition.leader {
                Some(leader) => write!(f, "{leader}")?,
                None => write!(f, "none")?,
            }
            writeln!(
                f,
                " replicas {:?} isr {:?} offsets {}..{} of {}",
                partition.replicas,
                partition.isr,
                partition.log_start,
                partition.high_watermark,
                partition.log_end
            )?;
        }
        Ok(())
    }
}
