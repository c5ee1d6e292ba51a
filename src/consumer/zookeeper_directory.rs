//! Answers what the broker tower asks of ZooKeeper.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::config::ConsumerConfig;
use crate::coordination::BrokerRegistry;
use crate::coordination::TopicRegistry;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::net::BrokerDirectory;
use crate::net::RegisteredBrokers;
use crate::stats::Stats;
use crate::thread::StopSignal;
use crate::zk::ZkClient;

/// The brokers and topics that are registered in ZooKeeper.
pub(crate) struct ZooKeeperDirectory {
    zk: Arc<ZkClient>,
    config: Arc<ConsumerConfig>,
    stats: Arc<Stats>,
    events: EventSender,
    /// Brokers that cannot be used and were told already, with the reason.
    told: Mutex<BTreeSet<(String, String)>>,
}

impl ZooKeeperDirectory {
    pub(crate) fn new(
        zk: Arc<ZkClient>,
        config: Arc<ConsumerConfig>,
        stats: Arc<Stats>,
        events: EventSender,
    ) -> Self {
        Self {
            zk,
            config,
            stats,
            events,
            told: Mutex::default(),
        }
    }
}

impl BrokerDirectory for ZooKeeperDirectory {
    fn brokers(&self, stop: &StopSignal) -> Result<RegisteredBrokers, Error> {
        let registry = BrokerRegistry::new(self.zk.observing(stop));
        let live = registry.brokers(self.config.broker_listener_name())?;
        let skipped: BTreeSet<(String, String)> = live.skipped.into_iter().collect();
        let before = std::mem::replace(&mut *self.told.lock(), skipped.clone());
        for (name, reason) in skipped.difference(&before) {
            let path = format!("{}/{name}", BrokerRegistry::PATH);
            let reason = reason.clone();
            self.stats.unusable_znodes.increment();
            self.events.send(Event::UnusableZnode { path, reason });
        }
        Ok(RegisteredBrokers {
            brokers: live.connectable,
            versions: live.registration_versions,
        })
    }

    fn existing_topics(&self, topics: &[String], stop: &StopSignal) -> Result<Vec<String>, Error> {
        let existing = TopicRegistry::new(self.zk.observing(stop)).existing(topics)?;
        Ok(existing.into_iter().collect())
    }

    fn is_deleting(&self, topics: &[String], stop: &StopSignal) -> Result<bool, Error> {
        TopicRegistry::new(self.zk.observing(stop)).is_deleting(topics)
    }
}
