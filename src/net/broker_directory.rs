//! What comes from above.

use crate::cluster::Broker;
use crate::error::Error;
use crate::thread::StopSignal;

/// What the broker tower needs to know from ZooKeeper. Calls end soon after `stop`.
pub(crate) trait BrokerDirectory: Send + Sync {
    /// The live brokers that can be connected to.
    fn brokers(&self, stop: &StopSignal) -> Result<Vec<Broker>, Error>;

    /// The version of a live broker's registration, which rises with Kafka's; `None` when it has none that can be read.
    fn registration_version(&self, _broker: i32, _stop: &StopSignal) -> Result<Option<i32>, Error> {
        Ok(None)
    }

    /// Those of `topics` that exist; metadata is never asked for others, since asking may create them.
    fn existing_topics(&self, topics: &[String], stop: &StopSignal) -> Result<Vec<String>, Error>;

    /// Whether one of `topics` is marked for deletion, so that it may be gone at any moment. To be asked
    /// before [`existing_topics`](Self::existing_topics): the mark outlives the topic.
    fn is_deleting(&self, _topics: &[String], _stop: &StopSignal) -> Result<bool, Error> {
        Ok(false)
    }
}
