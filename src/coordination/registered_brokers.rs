//! Which brokers there are, for those who do not consume.

use std::time::Duration;

use crate::cluster::Broker;
use crate::coordination::broker_registry::BrokerRegistry;
use crate::error::Error;
use crate::zk::ZkClient;
use crate::zk::ZkConfig;

/// The live brokers of a cluster that can be connected to in plain text, as they stand in `/brokers/ids`.
///
/// Opens a session for this one question, and waits for ZooKeeper at most `timeout`. Brokers whose registrations
/// cannot be used are left out, with a warning in the log.
///
/// # Errors
///
/// [`Error::ZooKeeper`] when ZooKeeper is out of reach, [`Error::MissingChroot`], and
/// [`Error::InvalidConfig`] for a connect string that is none.
pub fn registered_brokers(
    zookeeper_connect: &str,
    timeout: Duration,
) -> Result<Vec<Broker>, Error> {
    let (zk, _events) = ZkClient::connect(ZkConfig {
        connect: zookeeper_connect.to_owned(),
        session_timeout: timeout,
        connection_timeout: timeout,
    })?;
    let live = BrokerRegistry::new(zk).brokers(None)?;
    for (name, reason) in live.skipped {
        log::warn!("broker {name} is left out: {reason}");
    }
    Ok(live.connectable)
}
