//! How the brokers of an embedded cluster behave.

use std::path::PathBuf;
use std::time::Duration;

/// Which Kafka the brokers behave as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BrokerVersion {
    /// 0.8.2: hangs up on what it does not know, and answers newer versions of a request in its own layout.
    #[default]
    V0_8_2,
    /// 0.9.0: says nothing to what it does not know; Fetch and Produce have a version 1.
    V0_9_0,
}

/// What all brokers of a cluster have in common; the names are those of Kafka's properties.
#[derive(Clone, Debug)]
pub(crate) struct BrokerSettings {
    pub(crate) version: BrokerVersion,
    /// Folder with a folder for each topic; `None` for logs in memory only.
    pub(crate) log_dir: Option<PathBuf>,
    pub(crate) message_max_bytes: usize,
    pub(crate) log_segment_bytes: usize,
    pub(crate) log_retention_bytes: Option<usize>,
    pub(crate) log_retention_time: Option<Duration>,
    /// `num.partitions` and `default.replication.factor` of topics that are created by asking for them; `None` when
    /// they are not.
    pub(crate) auto_create_topics: Option<(i32, usize)>,
    pub(crate) min_insync_replicas: usize,
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
            version: BrokerVersion::default(),
            log_dir: None,
            message_max_bytes: 1_000_012,
            log_segment_bytes: 1 << 30,
            log_retention_bytes: None,
            log_retention_time: None,
            auto_create_topics: None,
            min_insync_replicas: 1,
            session_timeout: Duration::from_millis(300),
            offsets_topic_partitions: 50,
            offsets_topic_replicas: 3,
            offset_metadata_max_bytes: 4096,
            offsets_load_time: Duration::ZERO,
        }
    }
}
