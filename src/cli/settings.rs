//! The consumer's configuration out of file, properties and flags.

use std::hash::BuildHasher;
use std::hash::Hasher;
use std::hash::RandomState;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ConsumerConfig;
use kafka_zk_consumer::ConsumerConfigBuilder;

use crate::cli::arguments::CommonArguments;
use crate::cli::arguments::ConsumeArguments;
use crate::cli::arguments::PerfArguments;
use crate::cli::failure::Failure;

const ZOOKEEPER: &str = "zookeeper.connect";
const GROUP: &str = "group.id";
const RESET: &str = "auto.offset.reset";
const TIMEOUT: &str = "consumer.timeout.ms";

/// The configuration of one run.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) config: ConsumerConfig,
    /// The group was made up, and goes with the run.
    pub(crate) throw_away: bool,
}

impl Settings {
    pub(crate) fn for_consume(arguments: &ConsumeArguments) -> Result<Self, Failure> {
        let (mut builder, throw_away) = common(&arguments.common, "console-consumer")?;
        let wanted = arguments
            .from_beginning
            .then_some((AutoOffsetReset::Smallest, "--from-beginning"));
        builder = reset(builder, wanted, AutoOffsetReset::Largest)?;
        if let Some(timeout) = arguments.timeout_ms {
            builder = builder.consumer_timeout(Some(timeout));
        }
        if arguments.no_commit {
            builder = builder.auto_commit_enable(false);
        }
        Self::build(builder, throw_away)
    }

    pub(crate) fn for_perf(arguments: &PerfArguments) -> Result<Self, Failure> {
        let (mut builder, throw_away) = common(&arguments.common, "perf-consumer")?;
        let wanted = arguments
            .from_latest
            .then_some((AutoOffsetReset::Largest, "--from-latest"));
        builder = reset(builder, wanted, AutoOffsetReset::Smallest)?;
        if builder.get(TIMEOUT).is_none() {
            builder = builder.set(TIMEOUT, "1000");
        }
        if let Some(bytes) = arguments.fetch_size {
            builder = builder.fetch_message_max_bytes(bytes);
        }
        Self::build(builder, throw_away)
    }

    fn build(builder: ConsumerConfigBuilder, throw_away: bool) -> Result<Self, Failure> {
        let config = builder.build().map_err(|error| Failure::usage(&error))?;
        Ok(Self { config, throw_away })
    }
}

/// File, then properties, then flags; and whether the group was made up.
fn common(
    arguments: &CommonArguments,
    group_prefix: &str,
) -> Result<(ConsumerConfigBuilder, bool), Failure> {
    let mut builder = ConsumerConfig::builder();
    let mut groups = Vec::new();
    if let Some(path) = &arguments.config {
        builder = builder.load(path).map_err(|error| Failure::usage(&error))?;
        let id = builder.get(GROUP).map(str::to_owned);
        groups.extend(id.map(|id| (format!("{GROUP} in {}", path.display()), id)));
    }
    for (key, value) in &arguments.properties {
        builder = builder.set(key, value);
        if key == GROUP {
            groups.push((format!("--property {GROUP}"), value.clone()));
        }
    }
    if let Some(group) = &arguments.group {
        groups.push((String::from("--group"), group.clone()));
    }
    let group = agreed(&groups)?;
    let throw_away = group.is_none();
    let group = group.unwrap_or_else(|| format!("{group_prefix}-{}", any_number()));
    let builder = zookeeper(builder.group_id(group), arguments)?;
    Ok((builder, throw_away))
}

/// The flag wins; without it one of the others has to name it.
fn zookeeper(
    builder: ConsumerConfigBuilder,
    arguments: &CommonArguments,
) -> Result<ConsumerConfigBuilder, Failure> {
    if let Some(servers) = &arguments.zookeeper {
        return Ok(builder.zookeeper_connect(servers));
    }
    if builder.get(ZOOKEEPER).is_some() {
        return Ok(builder);
    }
    let place = match &arguments.config {
        Some(path) => format!("in {}", path.display()),
        None => String::from("by --config or --property"),
    };
    // The library's words tell of a mistyped key, too.
    let words = match builder.build() {
        Err(error) => format!(": {error}"),
        Ok(_) => String::new(),
    };
    Err(Failure::Usage(format!(
        "which ZooKeeper? there is neither --zookeeper nor {ZOOKEEPER} {place}{words}"
    )))
}

/// As in Kafka 1.1.1: a group may be named in several places, if it is the same.
fn agreed(groups: &[(String, String)]) -> Result<Option<String>, Failure> {
    let mut groups = groups.iter().map(|(place, id)| (place, id.trim()));
    let Some((place, id)) = groups.next() else {
        return Ok(None);
    };
    match groups.find(|(_, other)| *other != id) {
        None => Ok(Some(id.to_owned())),
        Some((other_place, other)) => Err(Failure::Usage(format!(
            "{place} is `{id}`, but {other_place} is `{other}`"
        ))),
    }
}

/// As in Kafka 1.1.1: a configured value is kept, and must not contradict the flag.
fn reset(
    builder: ConsumerConfigBuilder,
    wanted: Option<(AutoOffsetReset, &str)>,
    default: AutoOffsetReset,
) -> Result<ConsumerConfigBuilder, Failure> {
    let is_other = |configured: &str, choice| configured.trim().parse().ok() != Some(choice);
    match (builder.get(RESET), wanted) {
        (Some(configured), Some((choice, flag))) if is_other(configured, choice) => {
            Err(Failure::Usage(format!(
                "{RESET} is `{configured}`, but {flag} needs `{choice}`"
            )))
        }
        (Some(_), _) => Ok(builder),
        (None, Some((choice, _))) => Ok(builder.auto_offset_reset(choice)),
        (None, None) => Ok(builder.auto_offset_reset(default)),
    }
}

/// From 0 to 99,999.
fn any_number() -> u64 {
    RandomState::new().build_hasher().finish() % 100_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::arguments::Arguments;
    use crate::cli::arguments::Command;
    use clap::Parser;
    use std::fs;
    use std::time::Duration;

    fn settings(command: &str, more: &[&str]) -> Result<Settings, Failure> {
        let words = ["kzc", command, "--zookeeper", "h:1", "--topic", "t"];
        parsed(&[&words, more].concat())
    }

    fn parsed(words: &[&str]) -> Result<Settings, Failure> {
        match Arguments::parse_from(words).command {
            Command::Consume(arguments) => Settings::for_consume(&arguments),
            Command::Perf(arguments) => Settings::for_perf(&arguments),
            other => panic!("{other:?}"),
        }
    }

    fn refused(command: &str, more: &[&str]) -> String {
        match settings(command, more) {
            Err(Failure::Usage(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_a_group_one_is_made_up() {
        for (command, prefix) in [("consume", "console-consumer-"), ("perf", "perf-consumer-")] {
            let settings = settings(command, &[]).unwrap();
            let number = settings.config.group_id().strip_prefix(prefix).unwrap();
            assert!(number.parse::<u32>().unwrap() < 100_000);
            assert!(settings.throw_away);
        }
    }

    #[test]
    fn zookeeper_is_named_by_the_flag_or_else_by_a_property_or_else_by_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("consumer.properties");
        fs::write(&file, "zookeeper.connect=filed:1\ngroup.id=a\n").unwrap();
        let file = file.to_str().unwrap();
        for command in ["consume", "perf"] {
            let named = |more: &[&str]| {
                let words = ["kzc", command, "--topic", "t", "--config", file];
                let settings = parsed(&[&words, more].concat()).unwrap();
                assert_eq!(settings.config.group_id(), "a");
                settings.config.zookeeper_connect().to_owned()
            };
            assert_eq!(named(&[]), "filed:1");
            let property = ["--property", "zookeeper.connect=set:1"];
            assert_eq!(named(&property), "set:1");
            let flag = ["--zookeeper", "flagged:1"];
            assert_eq!(named(&[&property[..], &flag].concat()), "flagged:1");
        }
    }

    /// It was asked for on the command line although the file had it; where neither has it, both are named.
    #[test]
    fn a_zookeeper_that_nobody_names_is_asked_for_with_both_ways_to_name_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("consumer.properties");
        fs::write(&file, "group.id=a\n").unwrap();
        let file = file.to_str().unwrap();
        for command in ["consume", "perf"] {
            for (more, place) in [
                (&["--config", file][..], file),
                (&[], "--config or --property"),
            ] {
                let words = [&["kzc", command, "--topic", "t"], more].concat();
                let Err(Failure::Usage(text)) = parsed(&words) else {
                    panic!("{words:?} are enough");
                };
                for part in ["--zookeeper", "zookeeper.connect", place] {
                    assert!(text.contains(part), "no {part:?} in {text}");
                }
            }
        }
        fs::write(file, "zookeper.connect=h:1\n").unwrap();
        let Err(Failure::Usage(text)) = parsed(&["kzc", "perf", "--topic", "t", "--config", file])
        else {
            panic!("a mistyped key is enough");
        };
        assert!(text.contains("meant by `zookeper.connect`?"), "{text}");
    }

    #[test]
    fn group_ids_of_three_places_must_be_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("consumer.properties");
        fs::write(&file, "group.id=a\n").unwrap();
        let file = file.to_str().unwrap();

        let same = ["--config", file, "--property", "group.id=a", "--group", "a"];
        let agreed = settings("consume", &same).unwrap();
        assert_eq!(agreed.config.group_id(), "a");
        assert!(!agreed.throw_away);

        let text = refused("consume", &["--config", file, "--group", "b"]);
        assert!(
            text.contains(file) && text.contains("--group is `b`"),
            "{text}"
        );
        let text = refused("perf", &["--property", "group.id=c", "--group", "b"]);
        assert!(text.contains("--property group.id is `c`"), "{text}");
        let text = refused("consume", &["--config", file, "--property", "group.id=c"]);
        assert!(text.contains(file) && text.contains("`c`"), "{text}");
    }

    #[test]
    fn an_explicit_reset_is_kept_and_must_not_contradict_the_flag() {
        let reset = |command, more: &[&str]| {
            let settings = settings(command, more).unwrap();
            settings.config.auto_offset_reset()
        };
        let smallest = ["--property", "auto.offset.reset=smallest"];
        let largest = ["--property", "auto.offset.reset=largest"];
        assert_eq!(reset("consume", &[]), AutoOffsetReset::Largest);
        assert_eq!(
            reset("consume", &["--from-beginning"]),
            AutoOffsetReset::Smallest
        );
        assert_eq!(reset("consume", &smallest), AutoOffsetReset::Smallest);
        assert_eq!(reset("consume", &largest), AutoOffsetReset::Largest);
        assert_eq!(reset("perf", &[]), AutoOffsetReset::Smallest);
        assert_eq!(reset("perf", &["--from-latest"]), AutoOffsetReset::Largest);
        assert_eq!(reset("perf", &largest), AutoOffsetReset::Largest);
        // The later consumer's word for the same.
        let earliest = [
            "--from-beginning",
            "--property",
            "auto.offset.reset=earliest",
        ];
        assert_eq!(reset("consume", &earliest), AutoOffsetReset::Smallest);

        let text = refused("consume", &["--from-beginning", largest[0], largest[1]]);
        assert!(
            text.contains("`largest`") && text.contains("--from-beginning"),
            "{text}"
        );
        let text = refused("perf", &["--from-latest", smallest[0], smallest[1]]);
        assert!(
            text.contains("`smallest`") && text.contains("--from-latest"),
            "{text}"
        );
    }

    #[test]
    fn flags_win_over_properties() {
        let more = [
            "--property",
            "consumer.timeout.ms=5",
            "--timeout-ms",
            "7",
            "--no-commit",
        ];
        let config = settings("consume", &more).unwrap().config;
        assert_eq!(config.consumer_timeout(), Some(Duration::from_millis(7)));
        assert!(!config.auto_commit_enable());
        let config = settings("perf", &more[..2]).unwrap().config;
        assert_eq!(config.consumer_timeout(), Some(Duration::from_millis(5)));
        let config = settings("perf", &["--fetch-size", "77"]).unwrap().config;
        assert_eq!(config.consumer_timeout(), Some(Duration::from_secs(1)));
        assert_eq!(config.fetch_message_max_bytes(), 77);
    }

    #[test]
    fn a_value_that_cannot_be_used_names_its_key() {
        let text = refused("consume", &["--property", "fetch.min.bytes=many"]);
        assert!(
            text.contains("`fetch.min.bytes`") && text.contains("many"),
            "{text}"
        );
    }
}
