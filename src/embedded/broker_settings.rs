//! How the brokers of an embedded cluster behave.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::embedded::broker_version::BrokerVersion;
use crate::protocol::MessageFormat;

/// What all brokers of a cluster have in common; the names are those of Kafka's properties.
#[derive(Clone, Debug)]
pub(crate) struct BrokerSettings {
    /// Which Kafka each broker runs.
    pub(crate) versions: BTreeMap<i32, BrokerVersion>,
    /// `log.message.format.version`, where it is lower than what the brokers know.
    pub(crate) message_format: Option<MessageFormat>,
    /// `message.timestamp.type=LogAppendTime`: messages get the time at which they are appended.
    pub(crate) has_log_append_time: bool,
    /// Folder with a folder for each topic; `None` for logs in memory only.
    pub(crate) log_dir: Option<PathBuf>,
    /// `advertised.host.name`: the host that clients are told of; `None` for the one where the brokers listen.
    pub(crate) advertised_host_name: Option<String>,
    pub(crate) message_max_bytes: usize,
    pub(crate) log_segment_bytes: usize,
    pub(crate) log_retention_bytes: Option<usize>,
    pub(crate) log_retention_time: Option<Duration>,
    /// `num.partitions` and `default.replication.factor` of topics that are created by asking for them; `None` when
    /// they are not.
    pub(crate) auto_create_topics: Option<(i32, usize)>,
    pub(crate) min_insync_replicas: usize,
    pub(crate) unclean_leader_election: bool,
    /// How long ZooKeeper takes a killed broker for alive.
    pub(crate) session_timeout: Duration,
    pub(crate) offsets_topic_partitions: i32,
    pub(crate) offsets_topic_replicas: usize,
    pub(crate) offset_metadata_max_bytes: usize,
    /// How long a new coordinator takes to read its log.
    pub(crate) offsets_load_time: Duration,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self {
            versions: BTreeMap::new(),
            message_format: None,
            has_log_append_time: false,
            log_dir: None,
            advertised_host_name: None,
            message_max_bytes: 1_000_012,
            log_segment_bytes: 1 << 30,
            log_retention_bytes: None,
            log_retention_time: None,
            auto_create_topics: None,
            min_insync_replicas: 1,
            unclean_leader_election: false,
            session_timeout: Duration::from_millis(300),
            offsets_topic_partitions: 50,
            offsets_topic_replicas: 3,
            offset_metadata_max_bytes: 4096,
            offsets_load_time: Duration::ZERO,
        }
    }
}
