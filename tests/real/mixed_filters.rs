//! Members of ours and of the original subscribe by filters, with several streams, by range or round robin: they
//! agree on who owns what, also of a topic that is new, and lose nothing while they come and go.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ConsumerConfig;
use kafka_zk_consumer::RoundRobinVersion;
use kafka_zk_consumer::TopicFilter;
use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::EmbeddedCluster;

use crate::mixed_round_robin::dealt;
use crate::mixed_round_robin::store_offsets;
use crate::scenarios::member::Numbers;
use crate::scenarios::member::OffsetWatch;
use crate::scenarios::member::Process;
use crate::scenarios::member::missing;
use crate::scenarios::member::numbers;
use crate::scenarios::member::owners;
use crate::scenarios::member::range;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::topics_support::Reader;
use crate::scenarios::topics_support::connect;
use crate::support::Cluster;
use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::KafkaVersion;
use crate::support::MirrorMaker;
use crate::support::RealCluster;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

const GROUP: &str = "filtered";
/// Topics with their partitions; the last one comes when the group is at work.
const TOPICS: [(&str, i32); 3] = [("orders-eu", 4), ("orders-us", 3), ("orders-asia", 5)];
const WHITELIST: &str = r"orders-(eu|us|a\w++)";
/// Members of 1.0.1 and later register the backslashes of a filter doubled, and then nobody, themselves included, takes
/// `\w` for a letter.
const WHITELIST_OF_LATER_ONES: &str = "orders-(eu|us|a[a-z]++)";
/// The comma becomes another `|`.
const BLACKLIST: &str = "bills,returns.*";
const PACE: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Range,
    RoundRobin(RoundRobinVersion),
}

#[test]
fn filters_of_0_8_2_2_and_ours_share_topics_by_range() {
    share(KafkaVersion::V0_8_2_2, Strategy::Range);
}

#[test]
fn filters_of_0_8_2_2_and_ours_share_topics_by_round_robin() {
    let rule = Strategy::RoundRobin(RoundRobinVersion::V0_8_2);
    share(KafkaVersion::V0_8_2_2, rule);
}

#[test]
fn filters_of_0_9_0_1_and_ours_share_topics_by_range() {
    share(KafkaVersion::V0_9_0_1, Strategy::Range);
}

#[test]
fn filters_of_0_9_0_1_and_ours_share_topics_by_round_robin() {
    let rule = Strategy::RoundRobin(RoundRobinVersion::V0_8_2);
    share(KafkaVersion::V0_9_0_1, rule);
}

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn filters_of_0_10_2_2_and_ours_share_topics_by_round_robin() {
    let rule = Strategy::RoundRobin(RoundRobinVersion::V0_10_2);
    share(KafkaVersion::V0_10_2_2, rule);
}

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn filters_of_1_1_1_and_ours_share_topics_by_round_robin() {
    let rule = Strategy::RoundRobin(RoundRobinVersion::V1_0);
    share(KafkaVersion::V1_1_1, rule);
}

fn share(version: KafkaVersion, strategy: Strategy) {
    let cluster = RealCluster::start(version, 1);
    let shell = cluster.shell();
    for (topic, partitions) in TOPICS {
        store_offsets(&shell, GROUP, topic, partitions);
    }
    cluster.create_topic("bills", 2, 1);
    cluster.create_topic("returns-us", 2, 1);
    let mirrored = EmbeddedCluster::builder()
        .version(match version {
            KafkaVersion::V0_8_2_2 => BrokerVersion::V0_8_2,
            KafkaVersion::V0_9_0_1 => BrokerVersion::V0_9_0,
            KafkaVersion::V0_10_2_2 => BrokerVersion::V0_10_2,
            _ => BrokerVersion::V1_1,
        })
        .start()
        .unwrap();
    for (topic, _) in TOPICS {
        mirrored.create_topic(topic, 1, 1).unwrap();
    }
    let mut present = TOPICS[..2].to_vec();
    let mut flows = Vec::new();
    let mut first = 0;
    for (topic, partitions) in present.clone() {
        cluster.create_topic(topic, partitions, 1);
        flows.push(NumberedProducer::start_from(
            &cluster, topic, partitions, first, PACE,
        ));
        first += partitions;
    }
    let guards = TOPICS.map(|(topic, partitions)| {
        OffsetWatch::start(&cluster.connect_string(), GROUP, topic, partitions)
    });

    let mut ours = vec![join(
        &cluster,
        strategy,
        "b",
        ["--whitelist", whitelist(version)],
        2,
    )];
    settles(&shell, strategy, &present, 2);
    wait_for_progress("the first of ours", || ours[0].lines().len());

    let mut mirror = mirror_maker(&cluster, strategy, &mirrored);
    let copies = Copies::start(&mirrored);
    settles(&shell, strategy, &present, 4);
    wait_for_progress("the mirror", || copies.count());
    wait_for_progress("ours beside the mirror", || ours[0].lines().len());

    // A new topic is noticed by both sides.
    let (topic, partitions) = TOPICS[2];
    cluster.create_topic(topic, partitions, 1);
    flows.push(NumberedProducer::start_from(
        &cluster, topic, partitions, first, PACE,
    ));
    present.push(TOPICS[2]);
    settles(&shell, strategy, &present, 4);

    ours.push(join(&cluster, strategy, "c", ["--blacklist", BLACKLIST], 1));
    settles(&shell, strategy, &present, 5);
    wait_for_progress("the second of ours", || ours[1].lines().len());
    wait_for_progress("the mirror beside two of ours", || copies.count());

    mirror.stop();
    settles(&shell, strategy, &present, 3);
    wait_for_progress("ours after the mirror", || ours[0].lines().len());

    let mut original = console_consumer(&cluster, strategy);
    settles(&shell, strategy, &present, 4);
    for (number, member) in ours.iter_mut().enumerate() {
        member.stop();
        settles(&shell, strategy, &present, 2 - number);
    }
    wait_for_progress("the original after ours", || original.lines().len());

    let written: Vec<i64> = flows.into_iter().flat_map(NumberedProducer::stop).collect();
    let by_ours: Vec<Numbers> = ours.iter().map(|member| numbers(member.lines())).collect();
    wait_until(LIMIT, "every message to be seen", || {
        let others = [numbers(copies.values()), numbers(original.lines())];
        let seen: Vec<&Numbers> = by_ours.iter().chain(&others).collect();
        missing(&seen, &written).is_empty()
    });
    original.stop();
    for guard in guards {
        guard.finish();
    }
    let by_ours: usize = ours.iter().map(|member| member.lines().len()).sum();
    let sent = usize::try_from(written.iter().sum::<i64>()).unwrap();
    let total = by_ours + copies.count() + original.lines().len();
    println!("{sent} messages, {} repeats", total - sent);
}

fn whitelist(original: KafkaVersion) -> &'static str {
    match original >= KafkaVersion::V1_1_1 {
        true => WHITELIST_OF_LATER_ONES,
        false => WHITELIST,
    }
}

/// Waits until so many threads are registered and own what they should.
#[track_caller]
fn settles(shell: &ZooKeeperShell, strategy: Strategy, topics: &[(&str, i32)], count: usize) {
    let mut last = (Vec::new(), BTreeMap::new());
    let begun = std::time::Instant::now();
    loop {
        let threads = threads(shell);
        let names: Vec<&str> = threads.iter().map(String::as_str).collect();
        let mut owned = BTreeMap::new();
        for (topic, _) in TOPICS.iter().chain(&[("bills", 2), ("returns-us", 2)]) {
            for (partition, thread) in owners(shell, GROUP, topic) {
                owned.insert(((*topic).to_owned(), partition), thread);
            }
        }
        let expected = match strategy {
            _ if threads.len() != count => BTreeMap::new(),
            Strategy::RoundRobin(version) => dealt(version, topics, &names, |_, _| true),
            Strategy::Range => topics
                .iter()
                .flat_map(|(topic, partitions)| {
                    let owners = range(*partitions, &names).into_iter();
                    owners.map(|(partition, thread)| (((*topic).to_owned(), partition), thread))
                })
                .collect(),
        };
        if threads.len() == count && owned == expected {
            return;
        }
        assert!(
            begun.elapsed() < LIMIT,
            "{count} threads expected, there are {threads:?}, which own {owned:?}; just before: {last:?}"
        );
        last = (threads, owned);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The threads of all members, as their registrations say.
fn threads(shell: &ZooKeeperShell) -> Vec<String> {
    let path = format!("/consumers/{GROUP}/ids");
    let mut threads = Vec::new();
    for id in shell.children(&path).unwrap_or_default() {
        let Ok(registration) = shell.get(&format!("{path}/{id}")) else {
            continue;
        };
        let json: serde_json::Value = serde_json::from_str(&registration).unwrap();
        let streams = json["subscription"].as_object().unwrap().values().next();
        let streams = streams.and_then(serde_json::Value::as_u64).unwrap();
        threads.extend((0..streams).map(|number| format!("{id}-{number}")));
    }
    threads
}

fn properties(strategy: Strategy) -> Vec<(&'static str, &'static str)> {
    let strategy = match strategy {
        Strategy::Range => "range",
        Strategy::RoundRobin(_) => "roundrobin",
    };
    vec![
        ("group.id", GROUP),
        ("zookeeper.session.timeout.ms", "4000"),
        ("zookeeper.sync.time.ms", "200"),
        ("rebalance.backoff.ms", "500"),
        // A mirror of 1.1.1 gives its partitions up only when its stream has waited ten seconds for a message.
        ("rebalance.max.retries", "60"),
        ("auto.commit.interval.ms", "500"),
        ("refresh.leader.backoff.ms", "100"),
        ("partition.assignment.strategy", strategy),
    ]
}

/// A member of ours, in a process of its own.
fn join(
    cluster: &RealCluster,
    strategy: Strategy,
    name: &str,
    filter: [&str; 2],
    streams: usize,
) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kzc"));
    command
        .env_remove("RUST_LOG")
        .args(["consume", "--zookeeper", &cluster.connect_string()])
        .args(filter)
        .args(["--streams", &streams.to_string()])
        .args(["--property", &format!("consumer.id={name}")]);
    for (key, value) in properties(strategy) {
        command.args(["--property", &format!("{key}={value}")]);
    }
    if let Strategy::RoundRobin(version) = strategy {
        command.args(["--property", &format!("roundrobin.version={version}")]);
    }
    Process::start(&mut command)
}

fn mirror_maker(
    cluster: &RealCluster,
    strategy: Strategy,
    target: &EmbeddedCluster,
) -> MirrorMaker {
    let zookeeper = cluster.connect_string();
    let mut properties = properties(strategy);
    properties.push(("zookeeper.connect", &zookeeper));
    let target: Vec<String> = target.bootstrap().iter().map(ToString::to_string).collect();
    MirrorMaker::start(
        cluster.version(),
        whitelist(cluster.version()),
        2,
        &properties,
        &target.join(","),
    )
}

fn console_consumer(cluster: &RealCluster, strategy: Strategy) -> ConsoleConsumer {
    let properties = properties(strategy);
    let options = ConsoleConsumerOptions {
        properties: &properties,
        ..ConsoleConsumerOptions::default()
    };
    let zookeeper = cluster.connect_string();
    ConsoleConsumer::start_on_blacklist(cluster.version(), &zookeeper, BLACKLIST, &options)
}

/// What the mirror has written.
struct Copies {
    _connector: kafka_zk_consumer::ConsumerConnector,
    reader: Reader,
}

impl Copies {
    fn start(mirrored: &EmbeddedCluster) -> Self {
        let config = ConsumerConfig::builder()
            .zookeeper_connect(mirrored.connect_string())
            .group_id("copies")
            .auto_offset_reset(AutoOffsetReset::Smallest);
        let connector = connect(config);
        let filter = TopicFilter::whitelist("orders-.*").unwrap();
        let streams = connector
            .create_message_streams_by_filter(&filter, 1)
            .unwrap();
        Self {
            _connector: connector,
            reader: Reader::start(streams),
        }
    }

    fn values(&self) -> Vec<String> {
        self.reader.all_values()
    }

    fn count(&self) -> usize {
        self.values().len()
    }
}

/// Waits until a member has seen some messages more.
#[track_caller]
fn wait_for_progress(who: &str, count: impl Fn() -> usize) {
    let before = count();
    wait_until(LIMIT, &format!("{who} to consume"), || {
        count() > before + 20
    });
}
