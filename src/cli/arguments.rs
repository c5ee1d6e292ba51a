//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgAction;
use clap::Args;
use clap::Parser;
use clap::Subcommand;

#[cfg(feature = "embedded")]
use crate::cli::embedded_arguments::DemoArguments;
#[cfg(feature = "embedded")]
use crate::cli::embedded_arguments::DevClusterArguments;
use crate::cli::message_format::Field;
use crate::cli::produce_arguments::ProduceArguments;

/// Kafka's 0.8-style consumer: reads topics as a member of a group that is coordinated in ZooKeeper
#[derive(Debug, Parser)]
#[command(name = "kzc", version, arg_required_else_help = true, after_help = EXIT_STATUS)]
pub(crate) struct Arguments {
    /// Log more to standard error: -v what changes, -vv every request
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_STATUS: &str = "\
Exit status:
  0    ended as asked: bound, end, timeout, signal or closed pipe
  1    failed: the reason is on standard error
  2    the command line or the configuration cannot be used; nothing was done
  130  ended at once by SIGINT: by the second one, or before ZooKeeper was reached
  129  the same for SIGHUP
  143  the same for SIGTERM";

const CONSUME_EXAMPLE: &str = "\
Examples:
  kzc consume --zookeeper localhost:2181 --topic orders --from-beginning
  kzc consume --zookeeper localhost:2181 --topic orders --from-beginning --exit-at-end > orders.txt
  kzc consume --zookeeper zk1:2181,zk2:2181/kafka --topic orders --group billing --json
  kzc consume --zookeeper localhost:2181 --whitelist 'orders-.*' --streams 2 --print topic,value
  kzc consume --zookeeper localhost:2181 --topic orders --from-beginning --timeout-ms 2000 --print partition,offset,value

Exit status: 0 ended as asked, 1 failed, 2 not usable as given, 129, 130 or 143 ended at once by a signal";

const PERF_EXAMPLE: &str = "\
Examples:
  kzc perf --zookeeper localhost:2181 --topic orders --messages 1000000
  kzc perf --zookeeper localhost:2181 --topic orders --streams 4 --json

Exit status: 0 ended as asked, 1 failed, 2 not usable as given, 129, 130 or 143 ended at once by a signal";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the messages of a topic, or of all that match, one a line
    #[command(after_help = CONSUME_EXAMPLE)]
    Consume(ConsumeArguments),
    /// Measure how fast a topic can be read
    #[command(after_help = PERF_EXAMPLE)]
    Perf(PerfArguments),
    /// Write lines from standard input to a topic
    #[command(after_help = crate::cli::produce_arguments::EXAMPLE)]
    Produce(ProduceArguments),
    /// Watch a group at work, on a cluster of its own that needs nothing installed
    #[cfg(feature = "embedded")]
    #[command(after_help = crate::cli::embedded_arguments::DEMO_EXAMPLE)]
    Demo(DemoArguments),
    /// Run ZooKeeper and brokers for development until Ctrl-C, in memory, on this machine
    #[cfg(feature = "embedded")]
    #[command(after_help = crate::cli::embedded_arguments::DEV_CLUSTER_EXAMPLE)]
    DevCluster(DevClusterArguments),
}

/// What all commands take.
#[derive(Args, Debug)]
pub(crate) struct CommonArguments {
    /// ZooKeeper servers, with an optional chroot behind the last
    #[arg(long, value_name = "HOST:PORT[,HOST:PORT][/CHROOT]")]
    pub(crate) zookeeper: String,

    /// Group to join; without one (here, or as group.id) a throw-away group is made, and deleted at the end
    #[arg(long)]
    pub(crate) group: Option<String>,

    /// Streams, each read by a thread of its own
    #[arg(long, value_name = "N", default_value = "1", value_parser = streams)]
    pub(crate) streams: usize,

    /// Java properties file with the consumer's configuration
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// One property, overriding the file; may be repeated
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = property)]
    pub(crate) properties: Vec<(String, String)>,
}

/// What to read: one of the three.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct TopicArguments {
    /// Topic to read, by its exact name
    #[arg(long)]
    pub(crate) topic: Option<String>,

    /// Read all topics whose whole name matches this regular expression of Java; a comma means or
    #[arg(long, value_name = "REGEX")]
    pub(crate) whitelist: Option<String>,

    /// Read all topics whose whole name does not match, but for Kafka's internal ones
    #[arg(long, value_name = "REGEX")]
    pub(crate) blacklist: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ConsumeArguments {
    #[command(flatten)]
    pub(crate) common: CommonArguments,

    #[command(flatten)]
    pub(crate) topics: TopicArguments,

    /// Where the group has no offset, begin at the oldest message instead of behind the newest
    #[arg(long)]
    pub(crate) from_beginning: bool,

    /// End after so many messages, over all streams
    #[arg(long, value_name = "N")]
    pub(crate) max_messages: Option<u64>,

    /// End after so many milliseconds without a message
    #[arg(long, value_name = "N", value_parser = millis)]
    pub(crate) timeout_ms: Option<Duration>,

    /// End where the partitions end now; -v tells how far each was read
    #[arg(long)]
    pub(crate) exit_at_end: bool,

    /// Print each message as a JSON object
    #[arg(long, conflicts_with = "print")]
    pub(crate) json: bool,

    /// Print these fields, separated by tabs: topic, partition, offset, timestamp, headers, key, value
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', value_enum)]
    pub(crate) print: Vec<Field>,

    /// Do not commit offsets
    #[arg(long)]
    pub(crate) no_commit: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PerfArguments {
    #[command(flatten)]
    pub(crate) common: CommonArguments,

    /// Topic to read
    #[arg(long)]
    pub(crate) topic: String,

    /// End after so many messages, over all streams; without it after consumer.timeout.ms of silence (default 1000)
    #[arg(long, value_name = "N")]
    pub(crate) messages: Option<u64>,

    /// Bytes to ask for of each partition at once: fetch.message.max.bytes
    #[arg(long, value_name = "BYTES")]
    pub(crate) fetch_size: Option<i32>,

    /// Where the group has no offset, begin behind the newest message instead of at the oldest
    #[arg(long)]
    pub(crate) from_latest: bool,

    /// Print a row for each stream and interval instead of the summary; times are in UTC
    #[arg(long)]
    pub(crate) show_detailed_stats: bool,

    /// Milliseconds between two detailed rows
    #[arg(long, value_name = "N", default_value = "5000", value_parser = interval)]
    pub(crate) reporting_interval: Duration,

    /// Leave the names of the columns out
    #[arg(long)]
    pub(crate) hide_header: bool,

    /// Print one JSON object, with the CPU time and memory used as well
    #[arg(long, conflicts_with_all = ["show_detailed_stats", "hide_header"])]
    pub(crate) json: bool,
}

fn streams(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err(String::from("at least 1 is needed")),
        Ok(streams) if streams > 1000 => Err(String::from("at most 1000 are possible")),
        Ok(streams) => Ok(streams),
        Err(_) => Err(String::from("not a number")),
    }
}

/// As long as `consumer.timeout.ms` can be.
fn millis(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(millis) if i32::try_from(millis).is_ok() => Ok(Duration::from_millis(millis.into())),
        _ => Err(format!("not a number from 0 to {}", i32::MAX)),
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    match millis(text)? {
        Duration::ZERO => Err(String::from("at least 1 is needed")),
        interval => Ok(interval),
    }
}

/// Unlike Kafka 1.1.1, which allows one `=` only: split at the first, as a line of a file is. `broker.address.map` has
/// more of them. The value may be empty.
fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some(("", _)) => Err(String::from("the key is missing")),
        Some((key, value)) => Ok((key.trim().to_owned(), value.to_owned())),
        None => Err(String::from("`=` is missing")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const CONSUME: [&str; 6] = ["kzc", "consume", "--zookeeper", "h:1", "--topic", "t"];

    fn consume(more: &[&str]) -> Result<ConsumeArguments, String> {
        match Arguments::try_parse_from(CONSUME.iter().chain(more)) {
            Ok(Arguments {
                command: Command::Consume(arguments),
                ..
            }) => Ok(arguments),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_table_of_arguments_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn zookeeper_and_topic_are_enough() {
        let arguments = consume(&[]).unwrap();
        assert_eq!(arguments.common.zookeeper, "h:1");
        assert_eq!(arguments.common.streams, 1);
        assert!(!arguments.from_beginning && arguments.print.is_empty());
        assert!(Arguments::try_parse_from(["kzc", "consume", "--topic", "t"]).is_err());
    }

    #[test]
    fn topics_are_named_in_one_way() {
        let base = ["kzc", "consume", "--zookeeper", "h:1"];
        let parse = |more: &[&str]| Arguments::try_parse_from(base.iter().chain(more));
        for (flag, text) in [("--whitelist", "orders.*"), ("--blacklist", "")] {
            let parsed = parse(&[flag, text]).unwrap();
            let Command::Consume(arguments) = parsed.command else {
                panic!("{parsed:?}");
            };
            let topics = arguments.topics;
            assert_eq!(topics.topic, None);
            assert_eq!(topics.whitelist.or(topics.blacklist).as_deref(), Some(text));
            let error = parse(&[flag, text, "--topic", "t"]).unwrap_err();
            assert!(error.to_string().contains("cannot be used with"), "{error}");
        }
        let error = parse(&[]).unwrap_err().to_string();
        assert!(
            error.contains("--topic <TOPIC>|--whitelist <REGEX>"),
            "{error}"
        );
    }

    #[test]
    fn fields_are_printed_in_the_order_given() {
        let arguments = consume(&["--print", "value,offset"]).unwrap();
        assert_eq!(arguments.print, [Field::Value, Field::Offset]);
        let error = consume(&["--print", "value,size"]).unwrap_err();
        assert!(
            error.contains("size") && error.contains("partition"),
            "{error}"
        );
        assert!(consume(&["--print", "value", "--json"]).is_err());
    }

    #[test]
    fn a_property_is_a_key_an_equals_sign_and_perhaps_a_value() {
        let properties = ["--property", "a=1=2", "--property", "b="];
        let arguments = consume(&properties).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let pairs = [pair("a", "1=2"), pair("b", "")];
        assert_eq!(arguments.common.properties, pairs);
        for (text, why) in [("a", "missing"), ("=1", "key")] {
            let error = consume(&["--property", text]).unwrap_err();
            assert!(error.contains(text) && error.contains(why), "{error}");
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        for more in [
            ["--streams", "0"],
            ["--streams", "1001"],
            ["--streams", "x"],
            ["--timeout-ms", "-1"],
            ["--timeout-ms", "2147483648"],
            ["--max-messages", "-1"],
        ] {
            assert!(consume(&more).is_err(), "{more:?}");
        }
        assert!(consume(&["--timeout-ms", "2147483647"]).is_ok());
    }
}
