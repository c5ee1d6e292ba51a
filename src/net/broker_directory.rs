//! What comes from above.

use std::collections::BTreeMap;

use crate::cluster::Broker;
use crate::error::Error;
use crate::thread::StopSignal;

/// The brokers that are registered in ZooKeeper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegisteredBrokers {
    /// Those that can be connected to.
    pub(crate) brokers: Vec<Broker>,
    /// `version` of the registration of each that has a readable one, by broker id.
    pub(crate) versions: BTreeMap<i32, i32>,
}

#[cfg(test)]
impl RegisteredBrokers {
    /// `brokers`, all registered in this version.
    pub(crate) fn in_version(version: i32, brokers: Vec<Broker>) -> Self {
        let versions = brokers.iter().map(|broker| (broker.id, version));
        Self {
            versions: versions.collect(),
            brokers,
        }
    }
}

/// What the broker tower needs to know from ZooKeeper. Calls end soon after `stop`.
pub(crate) trait BrokerDirectory: Send + Sync {
    /// The live brokers.
    fn brokers(&self, stop: &StopSignal) -> Result<RegisteredBrokers, Error>;

    /// Those of `topics` that exist; metadata is never asked for others, since asking may create them.
    fn existing_topics(&self, topics: &[String], stop: &StopSignal) -> Result<Vec<String>, Error>;

    /// Whether one of `topics` is marked for deletion, so that it may be gone at any moment. To be asked
    /// before [`existing_topics`](Self::existing_topics): the mark outlives the topic.
    fn is_deleting(&self, _topics: &[String], _stop: &StopSignal) -> Result<bool, Error> {
        Ok(false)
    }
}
