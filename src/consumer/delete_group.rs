//! The end of a group that nobody will use again.

use crate::config::ConsumerConfig;
use crate::coordination::GroupRegistry;
use crate::error::Error;
use crate::zk::ZkClient;
use crate::zk::ZkConfig;

/// Deletes everything that the group of `config` keeps in ZooKeeper, offsets included, unless it has members.
///
/// Opens a session of its own, so that it may follow the [`shutdown`](crate::ConsumerConnector::shutdown) of
/// the group's last member. `false` when somebody is registered in the group, of which nothing is deleted
/// then; a group that does not exist counts as deleted. A member that joins during the call is not noticed.
///
/// # Errors
/// As [`ConsumerConnector::connect`](crate::ConsumerConnector::connect); [`Error::ZooKeeper`] when a node
/// cannot be deleted.
pub fn delete_group(config: &ConsumerConfig) -> Result<bool, Error> {
    let (zk, _events) = ZkClient::connect(ZkConfig {
        connect: config.zookeeper_connect().to_owned(),
        session_timeout: config.zookeeper_session_timeout(),
        connection_timeout: config.zookeeper_connection_timeout(),
    })?;
    let group = GroupRegistry::new(zk, config.group_id());
    if !group.member_ids()?.is_empty() {
        return Ok(false);
    }
    group.delete_group()?;
    Ok(true)
}
