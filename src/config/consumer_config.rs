//! The checked configuration of one consumer.

use std::path::Path;
use std::time::Duration;

use crate::config::auto_offset_reset::AutoOffsetReset;
use crate::config::broker_address_map::BrokerAddressMap;
use crate::config::consumed_on::ConsumedOn;
use crate::config::consumer_config_builder::ConsumerConfigBuilder;
use crate::config::isolation_level::IsolationLevel;
use crate::config::offsets_storage::OffsetsStorage;
use crate::config::on_bad_message::OnBadMessage;
use crate::config::partition_assignment_strategy::PartitionAssignmentStrategy;
use crate::config::round_robin_version::RoundRobinVersion;
use crate::error::Error;

/// The configuration of one consumer, checked: every value is within its limits.
///
/// Each getter has the name of the setter in [`ConsumerConfigBuilder`], where unit, default and
/// effect are told.
///
/// ```
/// use kafka_zk_consumer::ConsumerConfig;
///
/// let config = ConsumerConfig::builder()
///     .zookeeper_connect("zk1:2181,zk2:2181/kafka")
///     .group_id("billing")
///     .set("auto.offset.reset", "smallest")
///     .build()?;
/// assert_eq!(config.client_id(), "billing");
/// # Ok::<(), kafka_zk_consumer::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ConsumerConfig {
    pub(super) zookeeper_connect: String,
    pub(super) zookeeper_session_timeout: Duration,
    pub(super) zookeeper_connection_timeout: Duration,
    pub(super) zookeeper_sync_time: Duration,
    pub(super) group_id: String,
    pub(super) consumer_id: Option<String>,
    pub(super) client_id: String,
    pub(super) socket_timeout: Duration,
    pub(super) socket_receive_buffer_bytes: Option<usize>,
    pub(super) fetch_message_max_bytes: i32,
    pub(super) num_consumer_fetchers: usize,
    pub(super) auto_commit_enable: bool,
    pub(super) auto_commit_interval: Duration,
    pub(super) queued_max_message_chunks: usize,
    pub(super) rebalance_max_retries: u32,
    pub(super) rebalance_backoff: Duration,
    pub(super) fetch_min_bytes: i32,
    pub(super) fetch_wait_max: Duration,
    pub(super) fetch_max_bytes: i32,
    pub(super) refresh_leader_backoff: Duration,
    pub(super) auto_offset_reset: AutoOffsetReset,
    pub(super) consumer_timeout: Option<Duration>,
    pub(super) exclude_internal_topics: bool,
    pub(super) partition_assignment_strategy: PartitionAssignmentStrategy,
    pub(super) round_robin_version: RoundRobinVersion,
    pub(super) offsets_storage: OffsetsStorage,
    pub(super) offsets_channel_backoff: Duration,
    pub(super) offsets_channel_socket_timeout: Duration,
    pub(super) offsets_commit_max_retries: u32,
    pub(super) dual_commit_enabled: bool,
    pub(super) queued_max_bytes: i64,
    pub(super) consumed_on: ConsumedOn,
    pub(super) on_bad_message: OnBadMessage,
    pub(super) isolation_level: IsolationLevel,
    pub(super) metadata_max_age: Duration,
    pub(super) broker_listener_name: Option<String>,
    pub(super) broker_address_map: BrokerAddressMap,
    pub(super) max_poll_records: usize,
    pub(super) unrecognised_keys: Vec<String>,
}

impl ConsumerConfig {
    /// A builder in which every key has its default.
    pub fn builder() -> ConsumerConfigBuilder {
        ConsumerConfigBuilder::default()
    }

    /// The configuration in a Java `.properties` file.
    ///
    /// # Errors
    ///
    /// [`Error::PropertyFile`] when the file cannot be read or parsed,
    /// [`Error::InvalidConfig`] for the first value that cannot be used.
    pub fn from_properties_file(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().load(path)?.build()
    }

    /// The keys that mean nothing to this crate, sorted; misspelt ones, as a rule. [`build`] logs a warning of each, with
    /// the known key that was probably meant.
    ///
    /// Keys that start with `external` are the application's own and are left out.
    ///
    /// [`build`]: ConsumerConfigBuilder::build
    pub fn unrecognised_keys(&self) -> &[String] {
        &self.unrecognised_keys
    }

    /// `zookeeper.connect`, see [the setter](ConsumerConfigBuilder::zookeeper_connect).
    pub fn zookeeper_connect(&self) -> &str {
        &self.zookeeper_connect
    }

    /// `zookeeper.session.timeout.ms`, see [the setter](ConsumerConfigBuilder::zookeeper_session_timeout).
    pub fn zookeeper_session_timeout(&self) -> Duration {
        self.zookeeper_session_timeout
    }

    /// `zookeeper.connection.timeout.ms`, see [the setter](ConsumerConfigBuilder::zookeeper_connection_timeout).
    pub fn zookeeper_connection_timeout(&self) -> Duration {
        self.zookeeper_connection_timeout
    }

    /// `zookeeper.sync.time.ms`, see [the setter](ConsumerConfigBuilder::zookeeper_sync_time).
    pub fn zookeeper_sync_time(&self) -> Duration {
        self.zookeeper_sync_time
    }

    /// `group.id`, see [the setter](ConsumerConfigBuilder::group_id).
    pub fn group_id(&self) -> &str {
        &self.group_id
    }

    /// `consumer.id`, see [the setter](ConsumerConfigBuilder::consumer_id).
    pub fn consumer_id(&self) -> Option<&str> {
        self.consumer_id.as_deref()
    }

    /// `client.id`, see [the setter](ConsumerConfigBuilder::client_id).
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// `socket.timeout.ms`, see [the setter](ConsumerConfigBuilder::socket_timeout).
    pub fn socket_timeout(&self) -> Duration {
        self.socket_timeout
    }

    /// `socket.receive.buffer.bytes`, see [the setter](ConsumerConfigBuilder::socket_receive_buffer_bytes).
    pub fn socket_receive_buffer_bytes(&self) -> Option<usize> {
        self.socket_receive_buffer_bytes
    }

    /// `fetch.message.max.bytes`, see [the setter](ConsumerConfigBuilder::fetch_message_max_bytes).
    pub fn fetch_message_max_bytes(&self) -> i32 {
        self.fetch_message_max_bytes
    }

    /// `num.consumer.fetchers`, see [the setter](ConsumerConfigBuilder::num_consumer_fetchers).
    pub fn num_consumer_fetchers(&self) -> usize {
        self.num_consumer_fetchers
    }

    /// `auto.commit.enable`, see [the setter](ConsumerConfigBuilder::auto_commit_enable).
    pub fn auto_commit_enable(&self) -> bool {
        self.auto_commit_enable
    }

    /// `auto.commit.interval.ms`, see [the setter](ConsumerConfigBuilder::auto_commit_interval).
    pub fn auto_commit_interval(&self) -> Duration {
        self.auto_commit_interval
    }

    /// `queued.max.message.chunks`, see [the setter](ConsumerConfigBuilder::queued_max_message_chunks).
    pub fn queued_max_message_chunks(&self) -> usize {
        self.queued_max_message_chunks
    }

    /// `rebalance.max.retries`, see [the setter](ConsumerConfigBuilder::rebalance_max_retries).
    pub fn rebalance_max_retries(&self) -> u32 {
        self.rebalance_max_retries
    }

    /// `rebalance.backoff.ms`, see [the setter](ConsumerConfigBuilder::rebalance_backoff).
    pub fn rebalance_backoff(&self) -> Duration {
        self.rebalance_backoff
    }

    /// `fetch.min.bytes`, see [the setter](ConsumerConfigBuilder::fetch_min_bytes).
    pub fn fetch_min_bytes(&self) -> i32 {
        self.fetch_min_bytes
    }

    /// `fetch.wait.max.ms`, see [the setter](ConsumerConfigBuilder::fetch_wait_max).
    pub fn fetch_wait_max(&self) -> Duration {
        self.fetch_wait_max
    }

    /// `fetch.max.bytes`, see [the setter](ConsumerConfigBuilder::fetch_max_bytes).
    pub fn fetch_max_bytes(&self) -> i32 {
        self.fetch_max_bytes
    }

    /// `refresh.leader.backoff.ms`, see [the setter](ConsumerConfigBuilder::refresh_leader_backoff).
    pub fn refresh_leader_backoff(&self) -> Duration {
        self.refresh_leader_backoff
    }

    /// `auto.offset.reset`, see [the setter](ConsumerConfigBuilder::auto_offset_reset).
    pub fn auto_offset_reset(&self) -> AutoOffsetReset {
        self.auto_offset_reset
    }

    /// `consumer.timeout.ms`, see [the setter](ConsumerConfigBuilder::consumer_timeout).
    pub fn consumer_timeout(&self) -> Option<Duration> {
        self.consumer_timeout
    }

    /// `exclude.internal.topics`, see [the setter](ConsumerConfigBuilder::exclude_internal_topics).
    pub fn exclude_internal_topics(&self) -> bool {
        self.exclude_internal_topics
    }

    /// `partition.assignment.strategy`, see [the setter](ConsumerConfigBuilder::partition_assignment_strategy).
    pub fn partition_assignment_strategy(&self) -> PartitionAssignmentStrategy {
        self.partition_assignment_strategy
    }

    /// `roundrobin.version`, see [the setter](ConsumerConfigBuilder::round_robin_version).
    pub fn round_robin_version(&self) -> RoundRobinVersion {
        self.round_robin_version
    }

    /// `offsets.storage`, see [the setter](ConsumerConfigBuilder::offsets_storage).
    pub fn offsets_storage(&self) -> OffsetsStorage {
        self.offsets_storage
    }

    /// `offsets.channel.backoff.ms`, see [the setter](ConsumerConfigBuilder::offsets_channel_backoff).
    pub fn offsets_channel_backoff(&self) -> Duration {
        self.offsets_channel_backoff
    }

    /// `offsets.channel.socket.timeout.ms`, see [the setter](ConsumerConfigBuilder::offsets_channel_socket_timeout).
    pub fn offsets_channel_socket_timeout(&self) -> Duration {
        self.offsets_channel_socket_timeout
    }

    /// `offsets.commit.max.retries`, see [the setter](ConsumerConfigBuilder::offsets_commit_max_retries).
    pub fn offsets_commit_max_retries(&self) -> u32 {
        self.offsets_commit_max_retries
    }

    /// `dual.commit.enabled`, see [the setter](ConsumerConfigBuilder::dual_commit_enabled).
    pub fn dual_commit_enabled(&self) -> bool {
        self.dual_commit_enabled
    }

    /// `queued.max.bytes`, see [the setter](ConsumerConfigBuilder::queued_max_bytes).
    pub fn queued_max_bytes(&self) -> i64 {
        self.queued_max_bytes
    }

    /// `consumed.on`, see [the setter](ConsumerConfigBuilder::consumed_on).
    pub fn consumed_on(&self) -> ConsumedOn {
        self.consumed_on
    }

    /// `on.bad.message`, see [the setter](ConsumerConfigBuilder::on_bad_message).
    pub fn on_bad_message(&self) -> OnBadMessage {
        self.on_bad_message
    }

    /// `isolation.level`, see [the setter](ConsumerConfigBuilder::isolation_level).
    pub fn isolation_level(&self) -> IsolationLevel {
        self.isolation_level
    }

    /// `metadata.max.age.ms`, see [the setter](ConsumerConfigBuilder::metadata_max_age).
    pub fn metadata_max_age(&self) -> Duration {
        self.metadata_max_age
    }

    /// `broker.listener.name`, see [the setter](ConsumerConfigBuilder::broker_listener_name).
    pub fn broker_listener_name(&self) -> Option<&str> {
        self.broker_listener_name.as_deref()
    }

    /// `broker.address.map`, see [the setter](ConsumerConfigBuilder::broker_address_map).
    pub fn broker_address_map(&self) -> &BrokerAddressMap {
        &self.broker_address_map
    }

    /// `max.poll.records`, see [the setter](ConsumerConfigBuilder::max_poll_records).
    pub fn max_poll_records(&self) -> usize {
        self.max_poll_records
    }
}
