//! The nouns of a Kafka cluster that every layer shares.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::error::Error;

/// One partition of one topic, written `topic/partition`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicPartition {
    topic: Arc<str>,
    partition: i32,
}

impl TopicPartition {
    /// Partition `partition` of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }

    /// Name of the topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic's name, shared instead of copied.
    pub(crate) fn shared_topic(&self) -> Arc<str> {
        Arc::clone(&self.topic)
    }

    /// Number of the partition within the topic, from 0.
    pub fn partition(&self) -> i32 {
        self.partition
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// Where a broker listens, written `host:port` (`[host]:port` for an IPv6 address).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BrokerAddress {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl BrokerAddress {
    /// The address `host:port`.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for BrokerAddress {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || Error::InvalidArgument {
            name: "broker address",
            reason: format!("`{text}` is not host:port"),
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
        let host = host
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(host);
        if host.is_empty() {
            return Err(refused());
        }
        let port = port.parse().map_err(|_| refused())?;
        Ok(Self::new(host, port))
    }
}

/// One broker: its id in the cluster and where it listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Broker {
    /// `broker.id` of its configuration.
    pub id: i32,
    /// Where clients reach it in plain text.
    pub address: BrokerAddress,
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.address)
    }
}

/// `String.hashCode` of Java, over the UTF-16 units of `text`.
///
/// With it Kafka chooses the partition of a key, the fetcher of a topic and the coordinator of a group. All of
/// them take its absolute value, and 0 for that of the least number, which has none.
pub fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_text_form_with_and_without_brackets() {
        for text in [
            "localhost:9092",
            "local_host:9092",
            "[::1]:9092",
            "10.0.0.7:1",
        ] {
            assert_eq!(text.parse::<BrokerAddress>().unwrap().to_string(), text);
        }
        assert_eq!("[::1]:9092".parse::<BrokerAddress>().unwrap().host, "::1");
    }

    #[test]
    fn an_address_without_host_or_port_is_refused_by_name() {
        for text in [
            "",
            "localhost",
            ":9092",
            "localhost:",
            "localhost:70000",
            "h:-1",
        ] {
            let error = text.parse::<BrokerAddress>().unwrap_err();
            assert!(error.to_string().contains(&format!("`{text}`")), "{error}");
        }
    }
}
