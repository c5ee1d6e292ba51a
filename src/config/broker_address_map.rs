//! The value of `broker.address.map`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::net::Ipv6Addr;
use std::str::FromStr;
use std::sync::Arc;

use crate::cluster::BrokerAddress;
use crate::error::Error;

/// `broker.address.map`: where brokers are reached that are not reached where they say.
///
/// A broker behind a tunnel or in a container advertises an address that means something else here, or nothing.
/// Written `advertised-host:port=reachable-host:port,...`, IPv6 addresses in brackets. Host names are compared
/// without regard to case, IP addresses by their value. Errors, events and statistics go on naming the advertised
/// address, which is what the rest of the cluster knows the broker by.
///
/// ```
/// use kafka_zk_consumer::BrokerAddressMap;
///
/// let map: BrokerAddressMap = "kafka1:9092=localhost:19092,[2001:db8::7]:9092=[::1]:19093".parse()?;
/// assert!(!map.is_empty());
/// assert!("kafka1:9092".parse::<BrokerAddressMap>().is_err());
/// # Ok::<(), kafka_zk_consumer::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerAddressMap {
    /// By the advertised address, as [`comparable`] has it.
    reachable: Arc<BTreeMap<BrokerAddress, BrokerAddress>>,
}

impl BrokerAddressMap {
    /// Whether every broker is reached where it says.
    pub fn is_empty(&self) -> bool {
        self.reachable.is_empty()
    }

    /// Where to connect instead of `advertised`; `None` where that itself will do.
    pub(crate) fn reachable(&self, advertised: &BrokerAddress) -> Option<&BrokerAddress> {
        if self.is_empty() {
            return None;
        }
        self.reachable.get(&comparable(advertised))
    }
}

impl FromStr for BrokerAddressMap {
    type Err = Error;

    /// No text at all is the empty map.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut reachable = BTreeMap::new();
        let entries = text.split(',').filter(|_| !text.trim().is_empty());
        for entry in entries.map(str::trim) {
            let (advertised, instead) =
                pair(entry).ok_or_else(|| refused(entry, "is not host:port=host:port"))?;
            if reachable.insert(comparable(&advertised), instead).is_some() {
                return Err(refused(
                    entry,
                    "is the second one of the same advertised address",
                ));
            }
        }
        Ok(Self {
            reachable: Arc::new(reachable),
        })
    }
}

impl fmt::Display for BrokerAddressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (advertised, reachable)) in self.reachable.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{advertised}={reachable}")?;
        }
        Ok(())
    }
}

fn pair(entry: &str) -> Option<(BrokerAddress, BrokerAddress)> {
    let (advertised, reachable) = entry.split_once('=')?;
    Some((address(advertised)?, address(reachable)?))
}

/// Without brackets nobody can tell where an IPv6 address ends and the port begins.
fn address(text: &str) -> Option<BrokerAddress> {
    let text = text.trim();
    let address: BrokerAddress = text.parse().ok()?;
    let is_good = match text.starts_with('[') {
        true => is_ipv6(&address.host),
        false => address.host.chars().all(is_of_a_name),
    };
    (is_good && address.port > 0).then_some(address)
}

/// An address, perhaps with the interface that it is meant for, as in `fe80::1%eth0`.
fn is_ipv6(host: &str) -> bool {
    let (ip, interface) = host.split_once('%').unwrap_or((host, "0"));
    ip.parse::<Ipv6Addr>().is_ok() && !interface.is_empty() && interface.chars().all(is_of_a_name)
}

/// Of host names and IPv4 addresses. There are no wildcards: each broker needs an entry.
fn is_of_a_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '.' | '_')
}

fn comparable(address: &BrokerAddress) -> BrokerAddress {
    let host = match address.host.parse::<IpAddr>() {
        Ok(ip) => ip.to_string(),
        Err(_) => address.host.to_ascii_lowercase(),
    };
    BrokerAddress::new(host, address.port)
}

fn refused(entry: &str, reason: &str) -> Error {
    Error::InvalidConfig {
        key: String::from("broker.address.map"),
        reason: format!("`{entry}` {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(map: &str, advertised: &str) -> Option<String> {
        let map: BrokerAddressMap = map.parse().unwrap();
        let advertised = advertised.parse().unwrap();
        map.reachable(&advertised).map(BrokerAddress::to_string)
    }

    #[test]
    fn an_advertised_address_is_replaced_and_others_stay() {
        let map =
            "kafka1:9092=localhost:19092, Kafka2:9092 = 127.0.0.1:19093,[2001:db8::7]:1=[::1]:2";
        for (advertised, reachable) in [
            ("kafka1:9092", Some("localhost:19092")),
            ("KAFKA1:9092", Some("localhost:19092")),
            ("kafka1:9093", None),
            ("kafka2:9092", Some("127.0.0.1:19093")),
            ("[2001:db8:0:0::7]:1", Some("[::1]:2")),
            ("kafka3:9092", None),
        ] {
            let found = reached(map, advertised);
            assert_eq!(found.as_deref(), reachable, "{advertised}");
        }
    }

    #[test]
    fn a_map_survives_its_text_form() {
        for text in ["", "a:1=b:2", "a:1=b:2,[::1]:3=[fe80::1%2]:4"] {
            let map: BrokerAddressMap = text.parse().unwrap();
            let again: BrokerAddressMap = map.to_string().parse().unwrap();
            assert_eq!(again, map);
            assert_eq!(map.is_empty(), text.is_empty());
        }
    }

    #[test]
    fn a_bad_entry_is_named_among_good_ones() {
        for entry in [
            "a:1",
            "a:1=",
            "=b:2",
            "a=b",
            "a:1=b:0",
            "a:1=b:65536",
            "a:-1=b:2",
            "::1:9092=b:2",
            "[::1:9092=b:2",
            "[a]:1=b:2",
            "PLAINTEXT://a:1=b:2",
            "a:1=b:2=c:3",
        ] {
            let text = format!("x:1=y:2,{entry}");
            let error = text.parse::<BrokerAddressMap>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{entry}`")), "{entry}: {error}");
            assert!(error.contains("broker.address.map"), "{error}");
        }
        for text in [",", "a:1=b:2,", ",a:1=b:2"] {
            let error = text.parse::<BrokerAddressMap>().unwrap_err().to_string();
            assert!(error.contains("`` is not"), "{text}: {error}");
        }
    }

    #[test]
    fn an_entry_that_could_never_be_met_is_refused() {
        // It was taken, and the brokers went on being looked for where they say.
        for entry in [
            "*:9092=b:2",
            "kafka?:9092=b:2",
            "a b:1=c:2",
            "[::g]:1=b:2",
            "[1.2.3.4:5]:1=b:2",
            "[::1%]:1=b:2",
            "[::1]:1=[:]:2",
            "a\0:1=b:2",
        ] {
            let error = entry.parse::<BrokerAddressMap>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{entry}`")), "{entry}: {error}");
        }
    }

    #[test]
    fn an_address_that_is_mapped_twice_is_refused() {
        let text = "kafka:1=a:2,Kafka:01=b:2";
        let error = text.parse::<BrokerAddressMap>().unwrap_err().to_string();
        assert!(error.contains("`Kafka:01=b:2` is the second"), "{error}");
    }
}
