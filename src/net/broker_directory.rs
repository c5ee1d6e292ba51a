//! What comes from above.

use crate::cluster::Broker;
use crate::error::Error;
use crate::thread::StopSignal;

/// What the broker tower needs to know from ZooKeeper. Calls end soon after `stop`.
pub(crate) trait BrokerDirectory: Send + Sync {
    /// The live brokers that can be connected to.
    fn brokers(&self, stop: &StopSignal) -> Result<Vec<Broker>, Error>;

    /// Those of `topics` that exist; metadata is never asked for others, since asking may create them.
    fn existing_topics(&self, topics: &[String], stop: &StopSignal) -> Result<Vec<String>, Error>;
}
