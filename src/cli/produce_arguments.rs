//! The words of `kzc produce`.

use clap::Args;
use clap::ValueEnum;
use kafka_zk_consumer::BrokerAddress;
use kafka_zk_consumer::BrokerAddressMap;
use kafka_zk_consumer::protocol::Codec;

pub(crate) const EXAMPLE: &str = "\
Examples:
  echo 'hello' | kzc produce --broker localhost:9092 --topic orders
  kzc produce --zookeeper localhost:2181 --topic orders --key-separator : --compression gzip < lines
  kzc produce --broker localhost:9092 --topic orders      (lines that are typed, until Ctrl-D)

Exit status: 0 every line was appended, 1 failed, 2 not usable as given, 129, 130 or 143 ended at once by a signal";

#[derive(Args, Debug)]
pub(crate) struct ProduceArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,

    /// Topic to write to; it must exist, unless the brokers create topics by themselves
    #[arg(long)]
    pub(crate) topic: String,

    /// Split each line at the first of these into key and value, and let the key choose the partition; by default lines
    /// have no keys, and take turns over the partitions
    #[arg(long, value_name = "SEPARATOR", value_parser = separator)]
    pub(crate) key_separator: Option<String>,

    /// How batches of lines are compressed
    #[arg(long, value_name = "CODEC", value_enum, default_value = "none")]
    pub(crate) compression: Compression,

    /// Where brokers are reached that are not reached where they say, as behind a tunnel: what they say, and what works
    #[arg(long, value_name = "HOST:PORT=HOST:PORT[,...]", value_parser = address_map)]
    pub(crate) broker_address_map: Option<BrokerAddressMap>,
}

/// Where the brokers are; one of the two.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct ClusterArguments {
    /// Brokers to ask for the leaders, one after the other until one answers
    #[arg(
        long,
        visible_aliases = ["bootstrap-server", "broker-list"],
        value_name = "HOST:PORT[,HOST:PORT]",
        value_delimiter = ',',
        value_parser = broker
    )]
    pub(crate) broker: Vec<BrokerAddress>,

    /// ZooKeeper servers to ask for the brokers, with an optional chroot behind the last
    #[arg(long, value_name = "HOST:PORT[,HOST:PORT][/CHROOT]")]
    pub(crate) zookeeper: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    None,
    Gzip,
    Snappy,
    Lz4,
}

impl Compression {
    pub(crate) fn codec(self) -> Option<Codec> {
        match self {
            Self::None => None,
            Self::Gzip => Some(Codec::Gzip),
            Self::Snappy => Some(Codec::Snappy),
            Self::Lz4 => Some(Codec::Lz4),
        }
    }
}

fn broker(text: &str) -> Result<BrokerAddress, String> {
    text.trim()
        .parse()
        .map_err(|error: kafka_zk_consumer::Error| error.to_string())
}

fn address_map(text: &str) -> Result<BrokerAddressMap, String> {
    text.parse()
        .map_err(|error: kafka_zk_consumer::Error| error.to_string())
}

fn separator(text: &str) -> Result<String, String> {
    match text {
        "" => Err(String::from("it is empty")),
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::arguments::Arguments;
    use crate::cli::arguments::Command;
    use clap::Parser;

    fn produce(more: &[&str]) -> Result<ProduceArguments, String> {
        let words = ["kzc", "produce", "--topic", "t"];
        match Arguments::try_parse_from(words.iter().chain(more)) {
            Ok(Arguments {
                command: Command::Produce(arguments),
                ..
            }) => Ok(arguments),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_cluster_is_named_by_its_brokers_or_by_zookeeper() {
        let arguments = produce(&["--broker", "a:1,[::1]:2"]).unwrap();
        let brokers = [BrokerAddress::new("a", 1), BrokerAddress::new("::1", 2)];
        assert_eq!(arguments.cluster.broker, brokers);
        assert_eq!(arguments.compression.codec(), None);
        // As the original's tool called it, and its later versions.
        for other in ["--broker-list", "--bootstrap-server"] {
            let arguments = produce(&[other, "a:1,[::1]:2"]).unwrap();
            assert_eq!(arguments.cluster.broker, brokers);
        }
        let arguments = produce(&["--zookeeper", "h:1", "--compression", "lz4"]).unwrap();
        assert_eq!(arguments.cluster.zookeeper.as_deref(), Some("h:1"));
        assert_eq!(arguments.compression.codec(), Some(Codec::Lz4));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (more, named) in [
            (&[][..], "--broker"),
            (&["--broker", "a:1", "--zookeeper", "h:1"], "--zookeeper"),
            (&["--broker", "a"], "`a` is not host:port"),
            (&["--broker", "a:1", "--compression", "zip"], "zip"),
            (&["--broker", "a:1", "--key-separator", ""], "empty"),
            (
                &["--broker", "a:1", "--broker-address-map", "a:1=b:2,c"],
                "`c` is not",
            ),
        ] {
            let error = produce(more).unwrap_err();
            assert!(error.contains(named), "{more:?}: {error}");
        }
    }
}
