//! The words of the commands that bring their own cluster.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use kafka_zk_consumer::embedded::BrokerVersion;

pub(crate) const DEMO_EXAMPLE: &str = "\
Examples:
  kzc demo
  kzc demo --seconds 60 --brokers 5 --members 4

Exit status: 0 nothing was lost, 1 a message was lost or the demo failed, 2 not usable as given";

pub(crate) const DEV_CLUSTER_EXAMPLE: &str = "\
Examples:
  kzc dev-cluster --topic orders:4
  kzc dev-cluster --kafka-version 2.3 --topic orders:4
  kzc dev-cluster --brokers 3 --topic orders:6:3 --topic payments:1 --zookeeper-port 0 --broker-port 0

When everything is up, it prints two lines for a shell: export ZOOKEEPER=HOST:PORT and export BROKERS=HOST:PORT,...
Topics are not created by asking for them; --topic creates them.

Exit status: 0 ended by a signal, 1 failed, 2 not usable as given";

#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Seconds that it goes on once all members have joined, at most 3600
    #[arg(long, value_name = "N", default_value = "20", value_parser = seconds)]
    pub(crate) seconds: Duration,

    /// Brokers of the cluster, at most 9
    #[arg(long, value_name = "N", default_value = "3", value_parser = |text: &str| within(text, 1..=9))]
    pub(crate) brokers: i32,

    /// Members of the group at first, at most 20
    #[arg(long, value_name = "N", default_value = "3", value_parser = |text: &str| within(text, 1..=20))]
    pub(crate) members: i32,
}

#[derive(Args, Debug)]
pub(crate) struct DevClusterArguments {
    /// Brokers of the cluster, at most 9
    #[arg(long, value_name = "N", default_value = "1", value_parser = |text: &str| within(text, 1..=9))]
    pub(crate) brokers: i32,

    /// Which Kafka they behave as: 0.8.2, 0.9.0, 0.10.0, 0.10.2, 0.11.0, 1.1, 2.3, or a release of one such as 0.8.2.2
    #[arg(long, value_name = "VERSION", default_value = "0.8.2", value_parser = kafka_version)]
    pub(crate) kafka_version: BrokerVersion,

    /// Port of ZooKeeper; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value = "2181")]
    pub(crate) zookeeper_port: u16,

    /// Port of the first broker, the others get those after it; 0 for any that are free
    #[arg(long, value_name = "PORT", default_value = "9092")]
    pub(crate) broker_port: u16,

    /// Folder that keeps topics, messages and offsets from one run to the next; without it all is in memory
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// A topic to create; may be repeated. As many replicas as there are brokers, but no more than 3, unless said
    #[arg(
        long = "topic",
        value_name = "NAME:PARTITIONS[:REPLICATION]",
        value_parser = TopicArgument::from_str
    )]
    pub(crate) topics: Vec<TopicArgument>,
}

/// A topic that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicArgument {
    pub(crate) name: String,
    pub(crate) partitions: i32,
    pub(crate) replicas: Option<i32>,
}

impl FromStr for TopicArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let mut number = |what: &str, most: i32| match parts.next() {
            None => Ok(None),
            Some(part) => within(part, 1..=most)
                .map(Some)
                .map_err(|reason| format!("{what} `{part}`: {reason}")),
        };
        let partitions = number("partitions", 1000)?;
        let replicas = number("replication", 9)?;
        match (name, partitions, parts.next()) {
            ("", ..) => Err(String::from("the name is missing")),
            (_, None, _) => Err(String::from("the number of partitions is missing")),
            (_, _, Some(more)) => Err(format!("`{more}` is too much")),
            (name, Some(partitions), None) => Ok(Self {
                name: name.to_owned(),
                partitions,
                replicas,
            }),
        }
    }
}

/// A line of Kafka, or a release of it with its last number, such as 0.8.2.2.
fn kafka_version(text: &str) -> Result<BrokerVersion, String> {
    let known = BrokerVersion::ALL;
    let found = known.iter().find(|version| {
        let rest = text.strip_prefix(&version.to_string());
        rest.is_some_and(|rest| rest.is_empty() || is_last_number(rest))
    });
    found.copied().ok_or_else(|| {
        let names: Vec<String> = known.iter().map(ToString::to_string).collect();
        format!("not one of {}, nor a release of one", names.join(", "))
    })
}

fn is_last_number(text: &str) -> bool {
    let digits = text.strip_prefix('.').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = within(text, 1..=3600)?;
    Ok(Duration::from_secs(u64::from(seconds.unsigned_abs())))
}

fn within(text: &str, range: RangeInclusive<i32>) -> Result<i32, String> {
    match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!(
            "not a number from {} to {}",
            range.start(),
            range.end()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_is_a_name_partitions_and_perhaps_replicas() {
        let topic = |name: &str, partitions, replicas| TopicArgument {
            name: name.to_owned(),
            partitions,
            replicas,
        };
        assert_eq!("orders:4".parse(), Ok(topic("orders", 4, None)));
        assert_eq!("o.x-1:12:3".parse(), Ok(topic("o.x-1", 12, Some(3))));
    }

    #[test]
    fn a_topic_that_cannot_be_used_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "name"),
            (":4", "name"),
            ("orders", "missing"),
            ("orders:", "partitions ``"),
            ("orders:x", "`x`"),
            ("orders:0", "1 to 1000"),
            ("orders:1:0", "replication `0`"),
            ("orders:1:1:1", "too much"),
        ] {
            let error = text.parse::<TopicArgument>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn a_version_of_kafka_is_one_of_those_that_can_be_played() {
        assert_eq!(kafka_version("0.9.0"), Ok(BrokerVersion::V0_9_0));
        assert_eq!(kafka_version("2.3"), Ok(BrokerVersion::V2_3));
        for (release, version) in [
            ("0.8.2.2", BrokerVersion::V0_8_2),
            ("0.9.0.1", BrokerVersion::V0_9_0),
            ("0.10.0.1", BrokerVersion::V0_10_0),
            ("0.10.2.2", BrokerVersion::V0_10_2),
            ("0.11.0.3", BrokerVersion::V0_11_0),
            ("1.1.1", BrokerVersion::V1_1),
            ("2.3.1", BrokerVersion::V2_3),
        ] {
            assert_eq!(kafka_version(release), Ok(version));
        }
        for text in [
            "", "0.9", "0.9.1", "0.10.1.1", "0.8.2.", "0.8.2.x", "0.8.22", "1.1.1.1", "2.4", "2.31",
        ] {
            let error = kafka_version(text).unwrap_err();
            assert!(error.contains("0.11.0, 1.1, 2.3, nor"), "{text}: {error}");
        }
    }

    #[test]
    fn numbers_are_kept_within_reason() {
        assert_eq!(seconds("20"), Ok(Duration::from_secs(20)));
        for text in ["0", "-1", "3601", "x", ""] {
            assert!(seconds(text).unwrap_err().contains("3600"), "{text}");
        }
    }
}
