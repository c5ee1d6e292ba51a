//! The offset store that a configuration asks for.

use std::sync::Arc;

use crate::config::ConsumerConfig;
use crate::config::OffsetsStorage;
use crate::consumer::dual_offsets::DualOffsets;
use crate::consumer::kafka_offsets::KafkaOffsets;
use crate::consumer::kafka_offsets::Lease;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::zookeeper_directory::ZooKeeperDirectory;
use crate::consumer::zookeeper_offsets::ZooKeeperOffsets;
use crate::coordination::GroupRegistry;
use crate::events::EventSender;
use crate::net::OffsetChannel;
use crate::net::OffsetChannelOptions;
use crate::stats::Stats;
use crate::zk::ZkClient;

/// `offsets.storage` and `dual.commit.enabled` decide.
pub(crate) fn built_in_store(
    config: &Arc<ConsumerConfig>,
    zk: &Arc<ZkClient>,
    stats: &Arc<Stats>,
    events: &EventSender,
) -> Arc<dyn OffsetStore> {
    let zookeeper = zookeeper_offsets(config, zk, stats, events);
    match (config.offsets_storage(), config.dual_commit_enabled()) {
        (OffsetsStorage::ZooKeeper, _) => Arc::new(zookeeper),
        (OffsetsStorage::Kafka, false) => Arc::new(kafka_offsets(config, zk, stats, events)),
        (OffsetsStorage::Kafka, true) => Arc::new(DualOffsets {
            kafka: kafka_offsets(config, zk, stats, events),
            zookeeper,
        }),
    }
}

fn zookeeper_offsets(
    config: &Arc<ConsumerConfig>,
    zk: &Arc<ZkClient>,
    stats: &Arc<Stats>,
    events: &EventSender,
) -> ZooKeeperOffsets {
    // A commit that waited for longer would hold up those who give the partitions up.
    let group = GroupRegistry::new(zk.within_lease(), config.group_id());
    ZooKeeperOffsets::new(group, Arc::clone(stats), events.clone())
}

fn kafka_offsets(
    config: &Arc<ConsumerConfig>,
    zk: &Arc<ZkClient>,
    stats: &Arc<Stats>,
    events: &EventSender,
) -> KafkaOffsets {
    let retries = config.offsets_commit_max_retries();
    let backoff = config.offsets_channel_backoff();
    let directory = ZooKeeperDirectory::new(
        zk.within_lease(),
        Arc::clone(config),
        Arc::clone(stats),
        events.clone(),
    );
    let options = OffsetChannelOptions {
        group: config.group_id().to_owned(),
        client_id: config.client_id().to_owned(),
        address_map: config.broker_address_map().clone(),
        socket_timeout: config.offsets_channel_socket_timeout(),
        backoff,
        rounds: retries.saturating_add(1),
    };
    KafkaOffsets {
        channel: OffsetChannel::new(Arc::new(directory), options),
        lease: lease_of(zk),
        zk: zk.within_lease(),
        stats: Arc::clone(stats),
        retries,
        backoff,
    }
}

fn lease_of(zk: &Arc<ZkClient>) -> Lease {
    let zk = Arc::clone(zk);
    Arc::new(move |session| zk.is_leased(session))
}
