//! Members of ours and of the original's last versions ask for different topics, with round robin, which allows that
//! from 0.10.2 on. They agree on who owns what, and every message is read once.

use std::collections::BTreeMap;
use std::process::Command;

use kafka_zk_consumer::RoundRobinVersion;
use kafka_zk_consumer::java_hash;

use crate::scenarios::member::Process;
use crate::scenarios::member::SETTLE_LIMIT;
use crate::scenarios::member::owners;
use crate::support::Cluster;
use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

const GROUP: &str = "dealt";
const TOPICS: [(&str, i32); 3] = [("orders", 4), ("payments", 3), ("clicks", 12)];
/// Messages for each partition while the group stays as it is.
const MESSAGES: usize = 20;

/// Topics and partitions with the threads that own them.
type Owners = BTreeMap<(String, i32), String>;

/// What a member is called, what it asks for, and with how many streams.
#[derive(Clone, Copy)]
struct Member {
    name: &'static str,
    topics: &'static [&'static str],
    streams: usize,
}

const A: Member = Member {
    name: "a",
    topics: &["orders", "clicks"],
    streams: 1,
};
const B: Member = Member {
    name: "b",
    topics: &["orders", "payments", "clicks"],
    streams: 2,
};
const C: Member = Member {
    name: "c",
    topics: &["payments", "clicks"],
    streams: 2,
};
const D: Member = Member {
    name: "d",
    topics: &["orders", "payments"],
    streams: 1,
};

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn members_of_0_10_2_2_and_ours_ask_for_different_topics() {
    share(KafkaVersion::V0_10_2_2, RoundRobinVersion::V0_10_2);
}

#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn members_of_1_1_1_and_ours_ask_for_different_topics() {
    share(KafkaVersion::V1_1_1, RoundRobinVersion::V1_0);
}

/// `b` and `c` are ours, `a` and `d` the original's. While the group stays as it is messages come; all of them are read
/// before it changes, so that nobody has a reason to read one again.
fn share(original: KafkaVersion, rule: RoundRobinVersion) {
    let all = [A, B, C, D];
    let [before, since] = [RoundRobinVersion::V0_10_2, RoundRobinVersion::V1_0];
    assert_ne!(expected(before, &all), expected(since, &all));
    let cluster = RealCluster::start(original, 1);
    let shell = cluster.shell();
    for (topic, partitions) in TOPICS {
        cluster.create_topic(topic, partitions, 1);
        store_offsets(&shell, GROUP, topic, partitions);
    }
    let settled = |members: &[Member]| settles(&shell, rule, members);
    let mut written = Vec::new();

    let mut b = ours(&cluster, rule, B);
    settled(&[B]);
    let mut a = theirs(&cluster, A);
    settled(&[A, B]);
    write(&cluster, &mut written);
    are_read(&written, || [a.lines(), b.lines()].concat());

    let mut c = ours(&cluster, rule, C);
    settled(&[A, B, C]);
    let mut d = theirs(&cluster, D);
    settled(&all);
    write(&cluster, &mut written);
    let all = || [a.lines(), b.lines(), c.lines(), d.lines()].concat();
    are_read(&written, all);

    a.stop();
    settled(&[B, C, D]);
    b.stop();
    settled(&[C, D]);
    write(&cluster, &mut written);
    let all = || [a.lines(), b.lines(), c.lines(), d.lines()].concat();
    are_read(&written, all);

    c.stop();
    settled(&[D]);
    d.stop();
    let all = [a.lines(), b.lines(), c.lines(), d.lines()].concat();
    are_read(&written, || all.clone());
}

/// Appends messages of which no two are the same.
fn write(cluster: &RealCluster, written: &mut Vec<String>) {
    for (topic, partitions) in TOPICS {
        for partition in 0..partitions {
            let first = written.len();
            let numbers = first..first + MESSAGES;
            written.extend(numbers.map(|number| format!("{topic}-{partition}/{number}")));
            let values: Vec<&str> = written[first..].iter().map(String::as_str).collect();
            cluster.produce(topic, partition, &values);
        }
    }
}

/// Waits until all are read, each once.
#[track_caller]
fn are_read(written: &[String], read: impl Fn() -> Vec<String>) {
    wait_until(SETTLE_LIMIT, "every message to be read", || {
        read().len() >= written.len()
    });
    let (mut read, mut written) = (read(), written.to_vec());
    read.sort();
    written.sort();
    assert_eq!(read, written);
}

/// Waits until exactly these are members, and own what the rule says.
#[track_caller]
fn settles(shell: &ZooKeeperShell, rule: RoundRobinVersion, members: &[Member]) {
    let names: Vec<&str> = members.iter().map(|member| member.name).collect();
    let expected = expected(rule, members);
    let what = format!("{names:?} to own {expected:?}");
    wait_until(SETTLE_LIMIT, &what, || {
        let mut owned = Owners::new();
        for (topic, _) in TOPICS {
            for (partition, thread) in owners(shell, GROUP, topic) {
                owned.insert((topic.to_owned(), partition), thread);
            }
        }
        owned == expected
    });
    let ids = shell.children(&format!("/consumers/{GROUP}/ids"));
    assert_eq!(ids.unwrap().len(), members.len());
}

/// What the rule says of these members.
fn expected(rule: RoundRobinVersion, members: &[Member]) -> Owners {
    let mut threads = BTreeMap::new();
    for member in members {
        let names = (0..member.streams).map(|number| format!("{GROUP}_{}-{number}", member.name));
        threads.extend(names.map(|name| (name, member.topics)));
    }
    let names: Vec<&str> = threads.keys().map(String::as_str).collect();
    dealt(rule, &TOPICS, &names, |thread, topic| {
        threads[thread].contains(&topic)
    })
}

/// What the rule of round robin says, written anew from its description: the partitions in the order of their hashes,
/// one to each thread in turn that asks for the topic.
pub(crate) fn dealt(
    rule: RoundRobinVersion,
    topics: &[(&str, i32)],
    threads: &[&str],
    asks: impl Fn(&str, &str) -> bool,
) -> Owners {
    let mut threads = threads.to_vec();
    threads.sort_unstable();
    let mut deck = Vec::new();
    for (topic, partitions) in topics {
        for partition in 0..*partitions {
            let text = match rule {
                RoundRobinVersion::V1_0 => format!("{topic}-{partition}"),
                _ => format!("[{topic},{partition}]"),
            };
            deck.push((java_hash(&text), *topic, partition));
        }
    }
    deck.sort_unstable();
    let mut turns = threads.iter().cycle();
    let mut owners = Owners::new();
    for (_, topic, partition) in deck {
        let mut round = turns.by_ref().take(threads.len());
        if let Some(thread) = round.find(|thread| asks(thread, topic)) {
            owners.insert((topic.to_owned(), partition), (*thread).to_owned());
        }
    }
    owners
}

/// So that nobody begins at the end of a partition, which the original's tool cannot be told not to.
pub(crate) fn store_offsets(shell: &ZooKeeperShell, group: &str, topic: &str, partitions: i32) {
    let mut path = String::new();
    for part in ["consumers", group, "offsets", topic] {
        path = format!("{path}/{part}");
        if !shell.exists(&path) {
            shell.create(&path, "").unwrap();
        }
    }
    for partition in 0..partitions {
        shell.create(&format!("{path}/{partition}"), "0").unwrap();
    }
}

fn properties(member: Member) -> [(&'static str, &'static str); 8] {
    [
        ("group.id", GROUP),
        ("consumer.id", member.name),
        ("partition.assignment.strategy", "roundrobin"),
        ("zookeeper.session.timeout.ms", "4000"),
        ("zookeeper.sync.time.ms", "200"),
        ("rebalance.backoff.ms", "500"),
        ("rebalance.max.retries", "20"),
        ("refresh.leader.backoff.ms", "100"),
    ]
}

fn ours(cluster: &RealCluster, rule: RoundRobinVersion, member: Member) -> Process {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kzc"));
    command
        .env_remove("RUST_LOG")
        .args(["consume", "--zookeeper", &cluster.connect_string()])
        .args(["--whitelist", &member.topics.join("|")])
        .args(["--streams", &member.streams.to_string()])
        .args(["--property", &format!("roundrobin.version={rule}")]);
    for (key, value) in properties(member) {
        command.args(["--property", &format!("{key}={value}")]);
    }
    Process::start(&mut command)
}

fn theirs(cluster: &RealCluster, member: Member) -> ConsoleConsumer {
    let properties = properties(member);
    let options = ConsoleConsumerOptions {
        properties: &properties,
        ..ConsoleConsumerOptions::default()
    };
    let zookeeper = cluster.connect_string();
    let whitelist = member.topics.join("|");
    ConsoleConsumer::start_on_whitelist(cluster.version(), &zookeeper, &whitelist, &options)
}
