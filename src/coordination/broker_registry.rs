//! The live brokers, `/brokers/ids`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::Broker;
use crate::coordination::broker_registration::BrokerRegistration;
use crate::error::Error;
use crate::zk::ZkClient;

/// Reads which brokers are alive, and where.
pub(crate) struct BrokerRegistry {
    zk: Arc<ZkClient>,
}

impl BrokerRegistry {
    /// The node whose children are the ids of the live brokers.
    pub(crate) const PATH: &'static str = "/brokers/ids";

    pub(crate) fn new(zk: Arc<ZkClient>) -> Self {
        Self { zk }
    }

    /// All live brokers, in two round trips. One that vanishes between the two is left out.
    ///
    /// `listener` is `broker.listener.name`; `None` takes what speaks plain text.
    pub(crate) fn brokers(&self, listener: Option<&str>) -> Result<LiveBrokers, Error> {
        let names = self.zk.children(Self::PATH)?.unwrap_or_default();
        let paths: Vec<String> = names
            .iter()
            .map(|name| format!("{}/{name}", Self::PATH))
            .collect();
        let mut brokers = LiveBrokers::default();
        for (name, node) in names.iter().zip(self.zk.get_all(&paths)) {
            if let Some(node) = node? {
                brokers.add(name, &node.data, listener);
            }
        }
        brokers.connectable.sort();
        brokers.skipped.sort();
        Ok(brokers)
    }

    /// Whether no broker is alive.
    pub(crate) fn is_empty(&self) -> Result<bool, Error> {
        let names = self.zk.children(Self::PATH)?;
        Ok(names.is_none_or(|names| names.is_empty()))
    }

    /// As [`is_empty`](Self::is_empty), and an event tells when the set of brokers changes next.
    pub(crate) fn watch(&self) -> Result<bool, Error> {
        let names = self.zk.watch_children(Self::PATH)?;
        Ok(names.is_none_or(|names| names.is_empty()))
    }
}

/// The brokers that are registered now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LiveBrokers {
    /// Those that can be connected to, in the order of their ids.
    pub(crate) connectable: Vec<Broker>,
    /// Those that are alive but cannot be connected to, by the names of their nodes, with the reason.
    pub(crate) skipped: Vec<(String, String)>,
    /// Version of the registration of each broker that has a readable one.
    pub(crate) registration_versions: BTreeMap<i32, i32>,
}

impl LiveBrokers {
    /// Whether no broker is alive, connectable or not.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.connectable.is_empty() && self.skipped.is_empty()
    }

    /// Unlike Kafka 1.1.1: one broker that cannot be used does not make the others unusable.
    fn add(&mut self, name: &str, registration: &[u8], listener: Option<&str>) {
        let mut skip = |reason| self.skipped.push((name.to_owned(), reason));
        let Ok(id) = name.parse() else {
            return skip(String::from("its name is no number"));
        };
        let broker = match BrokerRegistration::parse(registration, listener) {
            Ok(broker) => broker,
            Err(reason) => return skip(reason),
        };
        self.registration_versions.insert(id, broker.version());
        match broker.address() {
            Ok(address) => {
                let address = address.clone();
                self.connectable.push(Broker { id, address });
            }
            Err(reason) => skip(reason.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_cannot_be_used_is_skipped_with_its_reason() {
        let mut brokers = LiveBrokers::default();
        assert!(brokers.is_empty());
        brokers.add("7", br#"{"version":2,"endpoints":["SSL://h:9093"]}"#, None);
        brokers.add("x", b"{}", None);
        assert!(!brokers.is_empty(), "it is alive");
        brokers.add("3", b"broker:0.7:9092", None);
        brokers.add("10", br#"{"version":1,"host":"h","port":9092}"#, None);
        assert_eq!(brokers.connectable.len(), 1);
        assert_eq!(brokers.connectable[0].to_string(), "10 (h:9092)");
        let parts = [("7", "SSL://h:9093"), ("x", "no number"), ("3", "no json")];
        assert_eq!(brokers.skipped.len(), parts.len());
        for ((name, reason), (skipped, part)) in brokers.skipped.iter().zip(parts) {
            assert!(name == skipped && reason.contains(part), "{name}: {reason}");
        }
        assert_eq!(
            brokers.registration_versions,
            BTreeMap::from([(7, 2), (10, 1)])
        );
    }
}
