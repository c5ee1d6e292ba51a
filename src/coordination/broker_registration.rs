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
    plaintext: Result<BrokerAddress, String>,
}

impl BrokerRegistration {
    /// Reads the fields that matter; all others, known or not, may hold anything.
    ///
    /// The error says why the registration cannot be used at all.
    pub(crate) fn parse(registration: &[u8]) -> Result<Self, String> {
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
            plaintext: plaintext(&json, version),
        })
    }

    /// The version of the registration, from 1 on, which tells what the broker speaks.
    pub(crate) fn version(&self) -> i32 {
        self.version
    }

    /// Where the broker listens in plain text. A broker that does not is alive all the same; the
    /// error says where it listens instead.
    pub(crate) fn plaintext(&self) -> Result<&BrokerAddress, &str> {
        self.plaintext.as_ref().map_err(String::as_str)
    }
}

/// Version 1 knows only one address. From version 2 on `host` and `port` merely repeat one of the
/// endpoints, or hold `null` and -1.
fn plaintext(json: &Value, version: i64) -> Result<BrokerAddress, String> {
    let endpoints = json.get("endpoints").and_then(Value::as_array);
    let Some(endpoints) = endpoints.filter(|_| version > 1) else {
        return host_and_port(json);
    };
    let protocols = json.get("listener_security_protocol_map");
    let mut others = Vec::new();
    for endpoint in endpoints {
        let found = endpoint.as_str().map(Endpoint::from_str);
        match found {
            Some(Ok(endpoint)) if endpoint.protocol(protocols) == PLAINTEXT => {
                return endpoint.address();
            }
            Some(Err(reason)) => others.push(reason),
            Some(Ok(_)) | None => others.push(endpoint.to_string()),
        }
    }
    Err(format!(
        "no plain-text listener among [{}]",
        others.join(", ")
    ))
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
        BrokerRegistration::parse(json.as_bytes()).unwrap()
    }

    #[track_caller]
    fn listens(json: &str, version: i32, address: &str) {
        let broker = parsed(json);
        assert_eq!(broker.version(), version);
        assert_eq!(broker.plaintext().unwrap().to_string(), address);
    }

    #[track_caller]
    fn alive_but_not_connectable(json: &str, part: &str) {
        let broker = parsed(json);
        let reason = broker.plaintext().unwrap_err();
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
            let reason = BrokerRegistration::parse(text.as_bytes()).unwrap_err();
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
            let _ = BrokerRegistration::parse(&bytes);
            let _ = endpoint.parse::<Endpoint>();
        }
    }
}
