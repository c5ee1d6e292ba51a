//! What a broker writes to `/brokers/ids/<id>`.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::cluster::BrokerAddress;

/// The protocol that needs neither TLS nor a login; the only one that this crate speaks.
const PLAINTEXT: &str = "PLAINTEXT";

/// The registration of a live broker, of any version from 0.8 on, future ones included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BrokerRegistration {
    version: i32,
    address: Result<BrokerAddress, String>,
}

impl BrokerRegistration {
    /// Reads the fields that matter; all others, known or not, may hold anything.
    ///
    /// `listener` names the one to connect to, `None` leaves the choice to us. The error says why the
    /// registration cannot be used at all.
    pub(crate) fn parse(registration: &[u8], listener: Option<&str>) -> Result<Self, String> {
        let json: Value = serde_json::from_slice(registration)
            .map_err(|error| format!("no json, as brokers from 0.8 on write it: {error}"))?;
        let version = json
            .get("version")
            .ok_or_else(|| String::from("lacks `version`"))?;
        let version = version
            .as_i64()
            .filter(|version| *version >= 1)
            .ok_or_else(|| format!("version is {version}"))?;
        Ok(Self {
            version: i32::try_from(version).unwrap_or(i32::MAX),
            address: address(&json, version, listener),
        })
    }

    /// The version of the registration, from 1 on, which tells what the broker speaks.
    pub(crate) fn version(&self) -> i32 {
        self.version
    }

    /// Where the broker listens in plain text, on the listener that was asked for. A broker that does not is
    /// alive all the same; the error says where it listens instead.
    pub(crate) fn address(&self) -> Result<&BrokerAddress, &str> {
        self.address.as_ref().map_err(String::as_str)
    }
}

/// Version 1 knows only one address. From version 2 on `host` and `port` merely repeat one of the
/// endpoints, or hold `null` and -1.
fn address(json: &Value, version: i64, listener: Option<&str>) -> Result<BrokerAddress, String> {
    let endpoints = json.get("endpoints").and_then(Value::as_array);
    let Some(endpoints) = endpoints.filter(|_| version > 1) else {
        return match listener {
            // As in Kafka 0.9: what has no endpoints has one that is called after its protocol.
            Some(name) if name.to_uppercase() != PLAINTEXT => Err(format!(
                "no listener {name} in a registration that has host and port only"
            )),
            _ => host_and_port(json),
        };
    };
    let listeners = Listeners::read(endpoints, json.get("listener_security_protocol_map"));
    match listener {
        Some(name) => listeners.named(&name.to_uppercase()),
        None => listeners.plaintext(),
    }
}

/// What a broker of version 2 or later listens on.
struct Listeners {
    /// Each with the protocol spoken there.
    endpoints: Vec<(Endpoint, String)>,
    /// What is no endpoint, with the reason.
    unreadable: Vec<String>,
}

impl Listeners {
    fn read(endpoints: &[Value], protocols: Option<&Value>) -> Self {
        let mut listeners = Self {
            endpoints: Vec::new(),
            unreadable: Vec::new(),
        };
        for endpoint in endpoints {
            match endpoint.as_str().map(Endpoint::from_str) {
                Some(Ok(endpoint)) => {
                    let protocol = endpoint.protocol(protocols);
                    listeners.endpoints.push((endpoint, protocol));
                }
                Some(Err(reason)) => listeners.unreadable.push(reason),
                None => listeners.unreadable.push(endpoint.to_string()),
            }
        }
        listeners
    }

    /// As in Kafka 1.1.1: the one that is called PLAINTEXT. Unlike there, another one that speaks it will do.
    fn plaintext(&self) -> Result<BrokerAddress, String> {
        let plain = self.endpoints.iter();
        let plain = plain.filter(|(_, protocol)| protocol == PLAINTEXT);
        let mut usable: Vec<&Endpoint> = plain
            .map(|(endpoint, _)| endpoint)
            .filter(|endpoint| endpoint.address().is_ok())
            .collect();
        usable.sort_by_key(|endpoint| endpoint.listener != PLAINTEXT);
        match usable.first() {
            Some(endpoint) => endpoint.address(),
            None => Err(format!("no plain-text listener among [{self}]")),
        }
    }

    /// `name` is in upper case.
    fn named(&self, name: &str) -> Result<BrokerAddress, String> {
        let mut endpoints = self.endpoints.iter();
        match endpoints.find(|(endpoint, _)| endpoint.listener == name) {
            Some((endpoint, protocol)) if protocol == PLAINTEXT => endpoint.address(),
            Some((endpoint, protocol)) => Err(format!(
                "listener {endpoint} speaks {protocol}, not {PLAINTEXT}"
            )),
            None => Err(format!("no listener {name} among [{self}]")),
        }
    }
}

impl fmt::Display for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |(endpoint, protocol): &(Endpoint, String)| match endpoint.address() {
            Err(reason) if protocol == PLAINTEXT => reason,
            _ => endpoint.to_string(),
        };
        let mut all: Vec<String> = self.endpoints.iter().map(told).collect();
        all.extend(self.unreadable.iter().cloned());
        f.write_str(&all.join(", "))
    }
}

fn host_and_port(json: &Value) -> Result<BrokerAddress, String> {
    let host = json.get("host").unwrap_or(&Value::Null);
    let port = json.get("port").unwrap_or(&Value::Null);
    let number = port.as_i64().and_then(|port| u16::try_from(port).ok());
    match (host.as_str(), number) {
        (Some(host), Some(number)) if !host.is_empty() && number > 0 => {
            Ok(BrokerAddress::new(host, number))
        }
        _ => Err(format!("host is {host} and port is {port}")),
    }
}

/// One listener of a broker, written `LISTENER://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    /// In upper case.
    listener: String,
    /// Without brackets; empty when the listener has no host.
    host: String,
    port: i32,
}

impl Endpoint {
    /// The protocol spoken there, in upper case. Without a map the listener's name is the protocol.
    fn protocol(&self, protocols: Option<&Value>) -> String {
        let Some(protocols) = protocols.and_then(Value::as_object) else {
            return self.listener.clone();
        };
        protocols
            .iter()
            .find(|(listener, _)| listener.to_uppercase() == self.listener)
            .and_then(|(_, protocol)| protocol.as_str())
            .map(str::to_uppercase)
            .unwrap_or_default()
    }

    fn address(&self) -> Result<BrokerAddress, String> {
        match u16::try_from(self.port) {
            Ok(port) if port > 0 && !self.host.is_empty() => {
                Ok(BrokerAddress::new(self.host.as_str(), port))
            }
            _ => Err(format!("endpoint {self} cannot be connected to")),
        }
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is not LISTENER://host:port");
        let (listener, address) = text.split_once("://").ok_or_else(refused)?;
        let (host, port) = address.rsplit_once(':').ok_or_else(refused)?;
        let host = host
            .strip_prefix('[')
            .and_then(|inner| inner.strip_suffix(']'))
            .unwrap_or(host);
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '%' | '.' | '_' | ':');
        if listener.is_empty() || !host.chars().all(legal) {
            return Err(refused());
        }
        Ok(Self {
            listener: listener.to_uppercase(),
            host: host.to_owned(),
            port: port.parse().map_err(|_| refused())?,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.listener, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.listener, self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(json: &str) -> BrokerRegistration {
        BrokerRegistration::parse(json.as_bytes(), None).unwrap()
    }

    fn address_of(json: &str, listener: &str) -> Result<String, String> {
        let broker = BrokerRegistration::parse(json.as_bytes(), Some(listener)).unwrap();
        let address = broker.address().map_err(str::to_owned)?;
        Ok(address.to_string())
    }

    /// One broker in plain text, and one with several listeners, as each line of brokers registers them.
    const OF_0_8_2: &str =
        r#"{"jmx_port":-1,"timestamp":"1784801234567","host":"kafka1","version":1,"port":9092}"#;
    const OF_0_9_0: &str = r#"{"jmx_port":-1,"timestamp":"1784801234567","endpoints":["PLAINTEXT://kafka1:9092","SSL://kafka1:9093"],"host":"kafka1","version":2,"port":9092}"#;
    const OF_0_10_1: &str = r#"{"jmx_port":-1,"timestamp":"1784801234567","endpoints":["SASL_SSL://kafka1:9094","PLAINTEXT://kafka1:9092"],"rack":"r1","host":"kafka1","version":3,"port":9092}"#;
    const OF_0_10_2: &str = r#"{"listener_security_protocol_map":{"INTERNAL":"PLAINTEXT","TUNNEL":"PLAINTEXT","CLIENT":"SASL_SSL"},"endpoints":["INTERNAL://10.0.0.7:9092","TUNNEL://[2001:db8::7]:19092","CLIENT://kafka1:9093"],"rack":"r1","jmx_port":-1,"host":null,"timestamp":"1784801234567","port":-1,"version":4}"#;
    const OF_2_8: &str = r#"{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SSL":"SSL"},"endpoints":["SSL://kafka1:9093","PLAINTEXT://kafka1:9092"],"jmx_port":-1,"port":9092,"host":"kafka1","version":5,"timestamp":"1784801234567"}"#;
    const OF_3_9: &str = r#"{"features":{},"listener_security_protocol_map":{"DOCKER":"PLAINTEXT","PLAINTEXT":"PLAINTEXT"},"endpoints":["DOCKER://kafka:29092","PLAINTEXT://localhost:9092"],"jmx_port":-1,"port":9092,"host":"localhost","version":5,"timestamp":"1784801234567"}"#;

    #[track_caller]
    fn listens(json: &str, version: i32, address: &str) {
        let broker = parsed(json);
        assert_eq!(broker.version(), version);
        assert_eq!(broker.address().unwrap().to_string(), address);
    }

    #[track_caller]
    fn alive_but_not_connectable(json: &str, part: &str) {
        let broker = parsed(json);
        let reason = broker.address().unwrap_err();
        assert!(reason.contains(part), "`{reason}` lacks `{part}`");
    }

    #[test]
    fn real_registrations_are_read() {
        let old = include_str!("../../tests/fixtures/zookeeper/k082-zk-broker-ids.json");
        let new = include_str!("../../tests/fixtures/zookeeper/k090-zk-broker-ids.json");
        for (file, version, port) in [(old, 1, 31_092), (new, 2, 31_192)] {
            let brokers: Value = serde_json::from_str(file).unwrap();
            for (id, port) in [("0", port), ("1", port + 1)] {
                let json = brokers[id].as_str().unwrap();
                listens(json, version, &format!("127.0.0.1:{port}"));
            }
        }
    }

    #[test]
    fn version_1_has_one_address() {
        let json = r#"{"jmx_port":-1,"timestamp":"1420485325400","host":"172.16.8.243","version":1,"port":9091}"#;
        listens(json, 1, "172.16.8.243:9091");
    }

    #[test]
    fn versions_2_and_3_name_the_protocol_in_the_endpoint() {
        let json = r#"{"version":2,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2233345666","endpoints":["SSL://localhost:9093","plaintext://local_host:9092"]}"#;
        listens(json, 2, "local_host:9092");
        let json = r#"{"version":3,"host":"localhost","port":9092,"jmx_port":9999,"timestamp":"2233345666","endpoints":["PLAINTEXT://host1:9092","SSL://host1:9093"],"rack":"dc1"}"#;
        listens(json, 3, "host1:9092");
    }

    #[test]
    fn versions_4_and_5_name_the_protocol_in_a_map() {
        for (version, rest) in [
            (4, r#""rack":null"#),
            (4, r#""jmx_port":99999999999"#),
            (
                5,
                r#""features":{"feature1":{"min_version":1,"max_version":2}}"#,
            ),
        ] {
            let json = format!(
                r#"{{"version":{version},"host":"host1","port":9092,"timestamp":"2233345666","endpoints":["CLIENT://host1:9092","Replication://[::1]:9093"],"listener_security_protocol_map":{{"CLIENT":"SSL","REPLICATION":"PLAINTEXT"}},{rest}}}"#
            );
            listens(&json, version, "[::1]:9093");
        }
    }

    #[test]
    fn the_listener_called_plaintext_is_chosen_in_every_line_of_brokers() {
        for (json, version, address) in [
            (OF_0_8_2, 1, "kafka1:9092"),
            (OF_0_9_0, 2, "kafka1:9092"),
            (OF_0_10_1, 3, "kafka1:9092"),
            (OF_0_10_2, 4, "10.0.0.7:9092"),
            (OF_2_8, 5, "kafka1:9092"),
            (OF_3_9, 5, "localhost:9092"),
        ] {
            listens(json, version, address);
        }
    }

    #[test]
    fn a_listener_is_chosen_by_its_name_in_any_case() {
        for (json, listener, address) in [
            (OF_0_8_2, "plaintext", "kafka1:9092"),
            (OF_0_9_0, "PLAINTEXT", "kafka1:9092"),
            (OF_0_10_2, "tunnel", "[2001:db8::7]:19092"),
            (OF_0_10_2, "INTERNAL", "10.0.0.7:9092"),
            (OF_3_9, "Docker", "kafka:29092"),
        ] {
            assert_eq!(address_of(json, listener).as_deref(), Ok(address), "{json}");
        }
    }

    #[test]
    fn a_listener_that_is_missing_or_encrypted_is_told_with_what_there_is() {
        for (json, listener, parts) in [
            (OF_0_8_2, "TUNNEL", ["no listener TUNNEL", "host and port"]),
            (
                OF_0_9_0,
                "TUNNEL",
                ["no listener TUNNEL", "SSL://kafka1:9093"],
            ),
            (OF_0_9_0, "SSL", ["SSL://kafka1:9093", "speaks SSL"]),
            (
                OF_0_10_2,
                "client",
                ["CLIENT://kafka1:9093", "speaks SASL_SSL"],
            ),
            (
                OF_0_10_2,
                "PLAINTEXT",
                ["no listener PLAINTEXT", "INTERNAL://10.0.0.7:9092"],
            ),
        ] {
            let reason = address_of(json, listener).unwrap_err();
            assert!(parts.iter().all(|part| reason.contains(part)), "{reason}");
        }
    }

    #[test]
    fn a_plain_listener_without_an_address_does_not_hide_one_that_has_one() {
        let json = r#"{"version":4,"endpoints":["PLAINTEXT://:9092","LAN://h:9093"],"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","LAN":"PLAINTEXT"}}"#;
        listens(json, 4, "h:9093");
    }

    #[test]
    fn a_future_version_with_unknown_fields_is_accepted() {
        let json = r#"{"version":100,"host":null,"port":-1,"endpoints":["SSL://localhost:9093"],"foo":{"bar":[1e9]}}"#;
        alive_but_not_connectable(json, "SSL://localhost:9093");
        let json = r#"{"version":9223372036854775807,"endpoints":["PLAINTEXT://h:1"]}"#;
        listens(json, i32::MAX, "h:1");
    }

    #[test]
    fn a_broker_that_cannot_be_connected_to_is_alive() {
        for (json, part) in [
            (
                r#"{"version":1,"host":null,"port":-1}"#,
                "host is null and port is -1",
            ),
            (r#"{"version":1,"host":"h","port":65536}"#, "port is 65536"),
            (r#"{"version":1}"#, "host is null"),
            (
                r#"{"version":2,"host":"h","port":1,"endpoints":[]}"#,
                "no plain-text listener",
            ),
            (
                r#"{"version":2,"endpoints":["SASL_PLAINTEXT://h:1"]}"#,
                "SASL_PLAINTEXT://h:1",
            ),
            (
                r#"{"version":2,"endpoints":["PLAINTEXT://:9092"]}"#,
                "PLAINTEXT://:9092 cannot",
            ),
            (
                r#"{"version":2,"endpoints":["PLAINTEXT://h:-1"]}"#,
                "PLAINTEXT://h:-1 cannot",
            ),
            (
                r#"{"version":2,"endpoints":["h:9092", 7]}"#,
                "`h:9092` is not LISTENER",
            ),
            (
                r#"{"version":4,"endpoints":["PLAINTEXT://h:1"],"listener_security_protocol_map":{"OTHER":"PLAINTEXT"}}"#,
                "PLAINTEXT://h:1",
            ),
        ] {
            alive_but_not_connectable(json, part);
        }
    }

    #[test]
    fn a_bad_endpoint_does_not_hide_a_good_one() {
        listens(
            r#"{"version":2,"endpoints":["??", null, "PLAINTEXT://h:1"]}"#,
            2,
            "h:1",
        );
    }

    #[test]
    fn what_is_no_registration_is_an_error() {
        for (text, part) in [
            ("broker1-1420485325400:broker1:9092", "no json"),
            ("", "no json"),
            ("[]", "lacks `version`"),
            (r#"{"host":"h","port":1}"#, "lacks `version`"),
            (r#"{"version":0,"host":"h","port":1}"#, "version is 0"),
            (r#"{"version":"1","host":"h","port":1}"#, "version is \"1\""),
        ] {
            let reason = BrokerRegistration::parse(text.as_bytes(), None).unwrap_err();
            assert!(reason.contains(part), "`{reason}` lacks `{part}`");
        }
    }

    #[test]
    fn endpoints_survive_the_round_trip() {
        for (text, host) in [
            ("PLAINTEXT://localhost:9092", "localhost"),
            ("PLAINTEXT://local_host:9092", "local_host"),
            ("PLAINTEXT://[::1]:9092", "::1"),
            (
                "PLAINTEXT://[fe80::b1da:69ca:57f7:63d8%3]:9092",
                "fe80::b1da:69ca:57f7:63d8%3",
            ),
            ("PLAINTEXT://MyHostname:9092", "MyHostname"),
            ("PLAINTEXT://:9092", ""),
            ("SSL://h:-1", "h"),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!(endpoint.host, host);
            assert_eq!(endpoint.to_string(), text);
        }
        for text in [
            "://h:1",
            "PLAINTEXT://h",
            "PLAINTEXT://h:",
            "PLAINTEXT://a b:1",
            "PLAINTEXT://h:9999999999",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_registration_makes_the_reader_panic(bytes: Vec<u8>, endpoint in "\\PC{0,40}") {
            let _ = BrokerRegistration::parse(&bytes, None);
            let _ = BrokerRegistration::parse(&bytes, Some(&endpoint));
            let _ = endpoint.parse::<Endpoint>();
        }
    }
}
