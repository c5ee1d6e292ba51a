//! Answers what the broker tower asks of ZooKeeper.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::cluster::Broker;
use crate::coordination::BrokerRegistry;
use crate::coordination::TopicRegistry;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::net::BrokerDirectory;
use crate::thread::StopSignal;
use crate::zk::ZkClient;

/// The brokers and topics that are registered in ZooKeeper.
pub(crate) struct ZooKeeperDirectory {
    zk: Arc<ZkClient>,
    events: EventSender,
    /// Brokers that cannot be used and were told already, with the reason.
    told: Mutex<BTreeSet<(i32, String)>>,
}

impl ZooKeeperDirectory {
    pub(crate) fn new(zk: Arc<ZkClient>, events: EventSender) -> Self {
        Self {
            zk,
            events,
            told: Mutex::default(),
        }
    }
}

impl BrokerDirectory for ZooKeeperDirectory {
    fn brokers(&self, stop: &StopSignal) -> Result<Vec<Broker>, Error> {
        let live = BrokerRegistry::new(self.zk.observing(stop)).brokers()?;
        let skipped: BTreeSet<(i32, String)> = live.skipped.into_iter().collect();
        let before = std::mem::replace(&mut *self.told.lock(), skipped.clone());
        for (id, reason) in skipped.difference(&before) {
            let path = format!("{}/{id}", BrokerRegistry::PATH);
            let reason = reason.clone();
            self.events.send(Event::UnusableZnode { path, reason });
        }
        Ok(live.connectable)
    }

    fn existing_topics(&self, topics: &[String], stop: &StopSignal) -> Result<Vec<String>, Error> {
        let existing = TopicRegistry::new(self.zk.observing(stop)).existing(topics)?;
        Ok(existing.into_iter().collect())
    }

    fn is_deleting(&self, topics: &[String], stop: &StopSignal) -> Result<bool, Error> {
        TopicRegistry::new(self.zk.observing(stop)).is_deleting(topics)
    }
}
