//! Making of an embedded cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::embedded::broker::Brokers;
use crate::embedded::broker_settings::BrokerSettings;
use crate::embedded::broker_version::BrokerVersion;
use crate::embedded::embedded_cluster::EmbeddedCluster;
use crate::embedded::zookeeper::EmbeddedZooKeeper;
use crate::embedded::zookeeper::EmbeddedZooKeeperOptions;
use crate::error::Error;
use crate::protocol::MessageFormat;

/// What an [`EmbeddedCluster`] is to be. Setters with the names of Kafka's properties mean the same.
#[derive(Clone, Debug)]
pub struct ClusterBuilder {
    brokers: i32,
    version: BrokerVersion,
    /// Of brokers that run another one.
    versions: BTreeMap<i32, BrokerVersion>,
    first_port: Option<u16>,
    data_dir: Option<PathBuf>,
    topics: Vec<(String, i32, usize)>,
    settings: BrokerSettings,
    zookeeper: EmbeddedZooKeeperOptions,
}

impl ClusterBuilder {
    pub(super) fn new() -> Self {
        Self {
            brokers: 1,
            version: BrokerVersion::default(),
            versions: BTreeMap::new(),
            first_port: None,
            data_dir: None,
            topics: Vec::new(),
            settings: BrokerSettings::default(),
            zookeeper: EmbeddedZooKeeperOptions::default(),
        }
    }

    /// How many brokers; their ids count from 0. Default 1.
    #[must_use]
    pub fn brokers(mut self, brokers: i32) -> Self {
        self.brokers = brokers;
        self
    }

    /// Port of broker 0; the others get those after it. By default each broker takes any port that is free.
    #[must_use]
    pub fn broker_port(mut self, port: u16) -> Self {
        self.first_port = Some(port);
        self
    }

    /// Keeps topics, messages, committed offsets and ZooKeeper's persistent nodes in this folder, where the next cluster
    /// with the same folder finds them; one cluster at a time may use it. By default they end with the cluster.
    #[must_use]
    pub fn data_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(folder.into());
        self
    }

    /// Which Kafka the brokers behave as. Default 0.8.2.
    #[must_use]
    pub fn version(mut self, version: BrokerVersion) -> Self {
        self.version = version;
        self
    }

    /// Which Kafka one broker behaves as, where it is not that of the others.
    ///
    /// All brokers then register and store messages as the oldest of them does, which is what
    /// `inter.broker.protocol.version` and `log.message.format.version` are for; see
    /// [`EmbeddedCluster::restart_as`].
    #[must_use]
    pub fn broker_version(mut self, broker: i32, version: BrokerVersion) -> Self {
        self.versions.insert(broker, version);
        self
    }

    /// `log.message.format.version`: messages are stored in this format, or an older one that the brokers' version calls
    /// for. Default: the latest that all brokers know.
    #[must_use]
    pub fn message_format(mut self, format: MessageFormat) -> Self {
        self.settings.message_format = Some(format);
        self
    }

    /// `message.timestamp.type=LogAppendTime`: messages get the time at which they are appended, from 0.10 on. By
    /// default they keep that of the producer.
    #[must_use]
    pub fn log_append_time(mut self) -> Self {
        self.settings.has_log_append_time = true;
        self
    }

    /// A topic that exists from the start, with so many partitions and replicas of each. One that the folder of
    /// [`data_dir`](Self::data_dir) has already stays as it is there.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>, partitions: i32, replicas: usize) -> Self {
        self.topics.push((topic.into(), partitions, replicas));
        self
    }

    /// `auto.create.topics.enable`, with `num.partitions` and `default.replication.factor`. By default a topic that does
    /// not exist is not created.
    #[must_use]
    pub fn auto_create_topics(mut self, partitions: i32, replicas: usize) -> Self {
        self.settings.auto_create_topics = Some((partitions, replicas));
        self
    }

    /// `advertised.host.name`: the host that ZooKeeper and clients are told of, with the port on which the broker
    /// listens. By default 127.0.0.1, where it listens.
    #[must_use]
    pub fn advertised_host_name(mut self, host: impl Into<String>) -> Self {
        self.settings.advertised_host_name = Some(host.into());
        self
    }

    /// `message.max.bytes`: larger messages are refused. Default 1,000,012.
    #[must_use]
    pub fn message_max_bytes(mut self, bytes: usize) -> Self {
        self.settings.message_max_bytes = bytes;
        self
    }

    /// `log.segment.bytes`: no fetch reaches beyond the end of a segment. Default 1 GiB. That of committed offsets is
    /// always 100 MiB.
    #[must_use]
    pub fn log_segment_bytes(mut self, bytes: usize) -> Self {
        self.settings.log_segment_bytes = bytes;
        self
    }

    /// `log.retention.bytes`: above that the oldest segments of a partition go, but for committed offsets. Default: all
    /// stay.
    #[must_use]
    pub fn log_retention_bytes(mut self, bytes: usize) -> Self {
        self.settings.log_retention_bytes = Some(bytes);
        self
    }

    /// `log.retention.ms`: segments that were last written so long ago go, the last one too, but for committed offsets.
    /// Default: all stay.
    #[must_use]
    pub fn log_retention(mut self, time: Duration) -> Self {
        self.settings.log_retention_time = Some(time);
        self
    }

    /// `min.insync.replicas`: with fewer, a producer that wants all of them is refused. Default 1.
    #[must_use]
    pub fn min_insync_replicas(mut self, replicas: usize) -> Self {
        self.settings.min_insync_replicas = replicas;
        self
    }

    /// `unclean.leader.election.enable`: whether a replica that lacks messages may lead when none in sync is up, and
    /// the messages are lost. Default false, unlike Kafka before 0.11.
    #[must_use]
    pub fn unclean_leader_election(mut self, is_enabled: bool) -> Self {
        self.settings.unclean_leader_election = is_enabled;
        self
    }

    /// `zookeeper.session.timeout.ms` of the brokers: so long a killed one is taken for alive, and its partitions have
    /// no other leader. Default 300 ms.
    #[must_use]
    pub fn broker_session_timeout(mut self, timeout: Duration) -> Self {
        self.settings.session_timeout = timeout;
        self
    }

    /// `offsets.topic.num.partitions` and `offsets.topic.replication.factor` of the topic that keeps committed offsets.
    /// Default 50 and 3, or as many as there are brokers.
    #[must_use]
    pub fn offsets_topic(mut self, partitions: i32, replicas: usize) -> Self {
        self.settings.offsets_topic_partitions = partitions;
        self.settings.offsets_topic_replicas = replicas;
        self
    }

    /// How long a new coordinator is busy with reading its log, and answers "load in progress". By default it is ready
    /// at once.
    #[must_use]
    pub fn offsets_load_time(mut self, time: Duration) -> Self {
        self.settings.offsets_load_time = time;
        self
    }

    /// How ZooKeeper is set up.
    #[must_use]
    pub fn zookeeper(mut self, options: EmbeddedZooKeeperOptions) -> Self {
        self.zookeeper = options;
        self
    }

    /// Starts ZooKeeper and the brokers, and creates the topics.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a topic that cannot be, no brokers, and the version of a broker that there is not,
    /// [`Error::Broker`] for a port that is taken, [`Error::DataFolder`] for a folder that cannot be used.
    pub fn start(mut self) -> Result<EmbeddedCluster, Error> {
        if self.brokers < 1 {
            let reason = format!("{} is less than 1", self.brokers);
            return Err(Error::InvalidArgument {
                name: "brokers",
                reason,
            });
        }
        let stray = self
            .versions
            .keys()
            .find(|id| !(0..self.brokers).contains(*id));
        if let Some(id) = stray {
            let reason = format!("there is no broker {id} among {}", self.brokers);
            return Err(Error::InvalidArgument {
                name: "broker_version",
                reason,
            });
        }
        if let Some(folder) = &self.data_dir {
            self.settings.log_dir = Some(folder.join("logs"));
            self.zookeeper.data_dir = Some(folder.join("zookeeper"));
        }
        for id in 0..self.brokers {
            let version = self.versions.get(&id).copied().unwrap_or(self.version);
            self.settings.versions.insert(id, version);
        }
        let zookeeper = Arc::new(EmbeddedZooKeeper::start(self.zookeeper)?);
        let brokers = Brokers::new(self.settings, &zookeeper)?;
        let restored = brokers.restore(self.brokers)?;
        let mut port = self.first_port.unwrap_or(0);
        for id in 0..self.brokers {
            brokers.add(id, port)?;
            port = if port == 0 { 0 } else { port.saturating_add(1) };
        }
        let is_new = |topic: &String| !restored.contains(topic);
        let new = self.topics.iter().filter(|(topic, ..)| is_new(topic));
        for (topic, partitions, replicas) in new {
            brokers.create_topic(topic, *partitions, *replicas)?;
        }
        Ok(EmbeddedCluster::new(brokers, zookeeper))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_cluster_is_refused_and_named() {
        // The version of a broker that there is not was passed over, and the cluster was not what the test wanted.
        let builder = EmbeddedCluster::builder;
        for (builder, text) in [
            (builder().brokers(0), "invalid brokers: 0 is less than 1"),
            (
                builder().brokers(3).broker_version(3, BrokerVersion::V2_3),
                "invalid broker_version: there is no broker 3 among 3",
            ),
        ] {
            assert_eq!(builder.start().unwrap_err().to_string(), text);
        }
    }
}
