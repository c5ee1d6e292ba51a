//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Arg;
use clap::ArgAction;
use clap::Args;
use clap::Parser;
use clap::Subcommand;
use clap::builder::UnknownArgumentValueParser;

#[cfg(feature = "embedded")]
use crate::cli::embedded_arguments::DemoArguments;
#[cfg(feature = "embedded")]
use crate::cli::embedded_arguments::DevClusterArguments;
use crate::cli::message_format::Field;
use crate::cli::produce_arguments::ProduceArguments;

/// Kafka's 0.8-style consumer: reads topics as a member of a group that is coordinated in ZooKeeper
#[derive(Debug, Parser)]
#[command(name = "kzc", version, arg_required_else_help = true, after_help = format!("{BEGIN}{EXIT_STATUS}"))]
pub(crate) struct Arguments {
    /// Log more to standard error: -v what changes, -vv every request
    #[arg(short, long, global = true, display_order = LAST, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Behind the options of a command.
const LAST: usize = 100;

#[cfg(feature = "embedded")]
const BEGIN: &str = "\
To see it at work, with nothing installed:
  kzc demo

To have a cluster of your own, with one terminal for each line:
  kzc dev-cluster --topic orders:4
  kzc produce --broker localhost:9092 --topic orders
  kzc consume --zookeeper localhost:2181 --topic orders --from-beginning

";

#[cfg(not(feature = "embedded"))]
const BEGIN: &str = "";

const EXIT_STATUS: &str = "\
Exit status:
  0    ended as asked: bound, end, timeout, signal or closed pipe
  1    failed: the reason is on standard error
  2    the command line or the configuration cannot be used; nothing was done
  130  ended at once by SIGINT: by the second one, or before ZooKeeper was reached
  129  the same for SIGHUP
  143  the same for SIGTERM";

// By itself the usage would leave ZooKeeper out, which a file may name instead.
const CONSUME_USAGE: &str = "\
kzc consume --zookeeper <HOST:PORT> <--topic <TOPIC>|--whitelist <REGEX>|--blacklist <REGEX>> [OPTIONS]
       kzc consume --config <FILE> <--topic <TOPIC>|--whitelist <REGEX>|--blacklist <REGEX>> [OPTIONS]";

const PERF_USAGE: &str = "\
kzc perf --zookeeper <HOST:PORT> --topic <TOPIC> [OPTIONS]
       kzc perf --config <FILE> --topic <TOPIC> [OPTIONS]";

const CONSUME_EXAMPLE: &str = "\
Examples:
  kzc consume --zookeeper localhost:2181 --topic orders --from-beginning
  kzc consume --zookeeper localhost:2181 --topic orders --from-beginning --exit-at-end > orders.txt
  kzc consume --zookeeper zk1:2181,zk2:2181/kafka --topic orders --group billing --json
  kzc consume --zookeeper localhost:2181 --whitelist 'orders-.*' --streams 2 --print topic,value
  kzc consume --zookeeper localhost:2181 --topic orders --from-beginning --timeout-ms 2000 --print partition,offset,value
  kzc consume --config consumer.properties --topic orders

Without a stored offset reading begins behind the newest message, so that nothing comes before something is written;
--from-beginning begins at the oldest. It goes on until Ctrl-C, unless a bound is given.

Exit status: 0 ended as asked, 1 failed, 2 not usable as given, 129, 130 or 143 ended at once by a signal";

const PERF_EXAMPLE: &str = "\
Examples:
  kzc perf --zookeeper localhost:2181 --topic orders --messages 1000000
  kzc perf --zookeeper localhost:2181 --topic orders --streams 4 --json
  kzc perf --zookeeper localhost:2181 --topic orders --show-detailed-stats --reporting-interval 1000

Exit status: 0 ended as asked, 1 failed, 2 not usable as given, 129, 130 or 143 ended at once by a signal";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the messages of a topic, or of all that match, one a line
    #[command(after_help = CONSUME_EXAMPLE, override_usage = CONSUME_USAGE)]
    Consume(ConsumeArguments),
    /// Measure how fast a topic can be read
    #[command(after_help = PERF_EXAMPLE, override_usage = PERF_USAGE)]
    Perf(PerfArguments),
    /// Write lines from standard input to a topic
    #[command(after_help = crate::cli::produce_arguments::EXAMPLE)]
    Produce(ProduceArguments),
    /// Watch a group at work, on a cluster of its own that needs nothing installed
    #[cfg(feature = "embedded")]
    #[command(after_help = crate::cli::embedded_arguments::DEMO_EXAMPLE)]
    Demo(DemoArguments),
    /// Run ZooKeeper and brokers for development until Ctrl-C, on this machine, in memory or in a folder
    #[cfg(feature = "embedded")]
    #[command(after_help = crate::cli::embedded_arguments::DEV_CLUSTER_EXAMPLE)]
    DevCluster(DevClusterArguments),
}

/// What the commands take that read.
#[derive(Args, Debug)]
#[command(args = of_other_tools())]
pub(crate) struct CommonArguments {
    /// ZooKeeper servers, with an optional chroot behind the last; needed unless --config or --property gives
    /// zookeeper.connect, which it overrides
    #[arg(long, value_name = "HOST:PORT[,HOST:PORT][/CHROOT]")]
    pub(crate) zookeeper: Option<String>,

    /// Group to join, which remembers how far it has read; without one, here or as group.id, a throw-away group is
    /// made, and deleted at the end
    #[arg(long)]
    pub(crate) group: Option<String>,

    /// Streams, each read by a thread of its own; more than there are partitions are of no use
    #[arg(long, value_name = "N", default_value = "1", value_parser = streams)]
    pub(crate) streams: usize,

    /// Java properties file of Kafka's 0.8-style consumer
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// One property, such as auto.commit.interval.ms=1000, overriding the file; may be repeated
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

    /// End after so many messages, over all streams; by default never
    #[arg(long, value_name = "N")]
    pub(crate) max_messages: Option<u64>,

    /// End after so many milliseconds without a message; by default never, unless consumer.timeout.ms says so
    #[arg(long, value_name = "N", value_parser = millis)]
    pub(crate) timeout_ms: Option<Duration>,

    /// End where the partitions ended when the run began; -v tells how far each was read
    #[arg(long)]
    pub(crate) exit_at_end: bool,

    /// Print each message as a JSON object, one a line
    #[arg(long, conflicts_with = "print")]
    pub(crate) json: bool,

    /// Print these fields of each message, in this order and separated by tabs; by default the value alone
    #[arg(long, value_name = "FIELD,...", value_delimiter = ',', value_enum)]
    pub(crate) print: Vec<Field>,

    /// Do not store how far the group has read: its next run reads the same again
    #[arg(long)]
    pub(crate) no_commit: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PerfArguments {
    #[command(flatten)]
    pub(crate) common: CommonArguments,

    /// Topic to read, by its exact name
    #[arg(long)]
    pub(crate) topic: String,

    /// End after so many messages, over all streams; by default when none has come for consumer.timeout.ms, which is
    /// 1000 here unless configured
    #[arg(long, value_name = "N")]
    pub(crate) messages: Option<u64>,

    /// Bytes to ask for of each partition at once, and so the largest message; by default fetch.message.max.bytes,
    /// which is 1048576 unless configured
    #[arg(long, value_name = "BYTES")]
    pub(crate) fetch_size: Option<i32>,

    /// Where the group has no offset, begin behind the newest message instead of at the oldest
    #[arg(long)]
    pub(crate) from_latest: bool,

    /// Print a row for each stream and reporting interval instead of the summary; times are in UTC
    #[arg(long)]
    pub(crate) show_detailed_stats: bool,

    /// Milliseconds between two detailed rows of a stream
    #[arg(long, value_name = "N", default_value = "5000", value_parser = interval)]
    pub(crate) reporting_interval: Duration,

    /// Leave the names of the columns out
    #[arg(long)]
    pub(crate) hide_header: bool,

    /// Print one JSON object, with the CPU time and memory used as well
    #[arg(long, conflicts_with_all = ["show_detailed_stats", "hide_header"])]
    pub(crate) json: bool,
}

/// Options by which other tools are told of brokers, as the later consumers are. They are refused with the reason.
fn of_other_tools() -> [Arg; 3] {
    let reason = "this consumer coordinates its group through ZooKeeper: give '--zookeeper HOST:PORT' instead, and it \
                  finds the brokers there";
    ["bootstrap-server", "broker-list", "broker"].map(|name| {
        Arg::new(name)
            .long(name)
            .value_name("HOST:PORT")
            .hide(true)
            .value_parser(UnknownArgumentValueParser::suggest(reason))
    })
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
    use std::collections::BTreeMap;

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

    /// What a table of the manual says of the options of a command: their words, and their defaults.
    fn in_manual<'a>(manual: &'a str, heading: &str) -> BTreeMap<&'a str, &'a str> {
        let heading = format!("\n## {heading}\n");
        let (_, section) = manual.split_once(&heading).expect(&heading);
        let section = section.split("\n## ").next().unwrap_or_default();
        let rows = section.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `--")?.split(" | ");
            let option = cells.next()?.trim_end_matches('`');
            Some((option, cells.next()?.trim_matches('`')))
        });
        rows.collect()
    }

    /// The manual lacked an option once, and named another default than the help.
    #[test]
    fn the_manual_has_the_options_of_the_help_with_their_defaults() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kzc.md");
        let manual = std::fs::read_to_string(path).unwrap();
        let common = "Common options of consume and perf";
        let mut command = Arguments::command();
        command.build();
        for command in command.get_subcommands() {
            let name = command.get_name();
            let mut told = match name {
                "help" => continue,
                "consume" | "perf" => in_manual(&manual, common),
                _ => BTreeMap::new(),
            };
            told.extend(in_manual(&manual, &format!("kzc {name}")));
            let options = command.get_arguments().filter(|option| {
                let is_general = ["help", "verbose"].contains(&option.get_id().as_str());
                !option.is_hide_set() && !is_general
            });
            for option in options {
                let mut words = option.get_long().unwrap().to_owned();
                if option.get_action().takes_values() {
                    words = format!("{words} {}", option.get_value_names().unwrap()[0]);
                }
                let default = told.remove(words.as_str());
                let default = default.unwrap_or_else(|| panic!("{name}: --{words} in {told:?}"));
                if !option.get_action().takes_values() {
                    assert_eq!(default, "off", "{name}: --{words}");
                } else if let [value] = option.get_default_values() {
                    assert_eq!(Some(default), value.to_str(), "{name}: --{words}");
                }
                let is_required = default == "required";
                assert_eq!(option.is_required_set(), is_required, "{name}: --{words}");
            }
            assert!(told.is_empty(), "{name} has no {told:?}");
        }
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn the_help_and_the_manual_name_every_version_that_can_be_played() {
        use kafka_zk_consumer::embedded::BrokerVersion;
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/kzc.md");
        let manual = std::fs::read_to_string(path).unwrap();
        let mut command = Arguments::command();
        let command = command.find_subcommand_mut("dev-cluster").unwrap();
        let help = command.render_help().to_string();
        let versions = BrokerVersion::ALL.map(|version| version.to_string());
        let versions = versions.join(", ");
        for text in [manual, help] {
            assert!(text.contains(&versions), "no {versions} in {text}");
        }
    }

    #[test]
    fn who_names_brokers_to_a_reader_hears_of_zookeeper() {
        for (command, option) in [
            ("consume", "--bootstrap-server"),
            ("perf", "--bootstrap-server"),
            ("consume", "--broker"),
        ] {
            let words = ["kzc", command, "--topic", "t", option, "h:9092"];
            let error = Arguments::try_parse_from(words).unwrap_err().to_string();
            for part in [option, "through ZooKeeper", "--zookeeper HOST:PORT"] {
                assert!(error.contains(part), "no {part:?} in {error}");
            }
        }
    }

    #[test]
    fn zookeeper_and_topic_are_enough() {
        let arguments = consume(&[]).unwrap();
        assert_eq!(arguments.common.zookeeper.as_deref(), Some("h:1"));
        assert_eq!(arguments.common.streams, 1);
        assert!(!arguments.from_beginning && arguments.print.is_empty());
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
