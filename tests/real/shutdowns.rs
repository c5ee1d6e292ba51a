//! Whatever is going on, a shutdown takes less than five seconds, ends the streams, and leaves no thread
//! behind. Each test runs in a process of its own, whose threads it counts.

use std::env;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;

use crate::scenarios::numbered::GROUP;
use crate::scenarios::numbered::Journal;
use crate::scenarios::numbered::Member;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::numbered::SOON;
use crate::scenarios::numbered::TOPIC;
use crate::scenarios::numbered::id_path;
use crate::scenarios::numbered::member_config;
use crate::scenarios::numbered::owner_path;
use crate::scenarios::topics_support::shut_down;
use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_until;

const PARTITIONS: i32 = 4;
const ALONE: &str = "KZC_ALONE";

/// Runs `body` in a process where nothing else runs.
#[track_caller]
fn alone(name: &str, body: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("shutdowns::{name}"), "--nocapture"])
        .env(ALONE, "yes")
        .output()
        .unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The names of the threads of connectors.
fn threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| {
        let name = fs::read_to_string(task.ok()?.path().join("comm")).ok()?;
        Some(name.trim_end().to_owned())
    });
    let is_ours = |name: &String| {
        ["zk-session", "rebalance", "leader-finder", "auto-commit"].contains(&name.as_str())
            || name.starts_with("fetcher-")
    };
    let mut names: Vec<_> = names.filter(is_ours).collect();
    names.sort();
    names
}

#[track_caller]
fn assert_quick(connector: &ConsumerConnector) {
    assert!(
        threads().contains(&"zk-session".to_owned()),
        "{:?}",
        threads()
    );
    shut_down(connector);
    wait_until(Duration::from_secs(1), "all threads to be gone", || {
        threads().is_empty()
    });
    assert_eq!(connector.state(), ConnectorState::ShutDown);
    assert!(matches!(connector.commit_offsets(), Err(Error::Closed)));
    let begun = Instant::now();
    connector.shutdown();
    assert!(begun.elapsed() < Duration::from_millis(100));
}

/// As [`assert_quick`], and the streams end.
#[track_caller]
fn assert_quick_end(member: Member) {
    assert_quick(&member.connector);
    member.leave();
}

/// A member among running messages, with times as they are by default.
struct Running {
    cluster: RealCluster,
    member: Member,
    producer: NumberedProducer,
    journal: Journal,
}

fn config(cluster: &RealCluster) -> ConsumerConfigBuilder {
    member_config(&cluster.connect_string(), "a", Duration::from_secs(6))
        .rebalance_backoff(Duration::from_secs(30))
}

fn cluster() -> RealCluster {
    let cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 2);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    cluster
}

fn running() -> Running {
    let cluster = cluster();
    let journal = Journal::default();
    let member = Member::join(config(&cluster), &journal);
    let pace = Duration::from_millis(10);
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, pace);
    journal.wait_for_flow(PARTITIONS);
    assert!(
        threads().contains(&"rebalance".to_owned()),
        "{:?}",
        threads()
    );
    assert!(threads().iter().any(|name| name.starts_with("fetcher-")));
    Running {
        cluster,
        member,
        producer,
        journal,
    }
}

#[test]
fn amid_the_flow_of_messages() {
    alone("amid_the_flow_of_messages", || {
        let running = running();
        assert_quick_end(running.member);
        let shell = running.cluster.shell();
        let ids = shell.children(&format!("/consumers/{GROUP}/ids"));
        assert_eq!(ids.unwrap(), [""; 0]);
        for partition in 0..PARTITIONS {
            assert!(!shell.exists(&owner_path(partition)));
        }
        running.producer.stop();
        assert!(running.journal.len() > 0);
    });
}

#[test]
fn in_the_pause_between_two_attempts_to_rebalance() {
    alone("in_the_pause_between_two_attempts_to_rebalance", || {
        let running = running();
        let since = Instant::now();
        let stranger = running.cluster.shell();
        stranger.delete(&owner_path(1)).unwrap();
        stranger
            .create_ephemeral(&owner_path(1), "stranger-0")
            .unwrap();
        let is_failure = |event: &Event| matches!(event, Event::RebalanceAttemptFailed { .. });
        running
            .member
            .wait_for_event(since, "a failed attempt", is_failure);
        assert_quick_end(running.member);
        running.producer.stop();
    });
}

#[test]
fn in_the_pause_of_the_first_rebalance() {
    alone("in_the_pause_of_the_first_rebalance", || {
        let cluster = cluster();
        let stranger = cluster.shell();
        stranger
            .put(&format!("/consumers/{GROUP}/owners/{TOPIC}"), "")
            .unwrap();
        stranger
            .create_ephemeral(&owner_path(1), "stranger-0")
            .unwrap();
        let config = config(&cluster).build().unwrap();
        let connector = Arc::new(ConsumerConnector::connect(config).unwrap());
        let starting = Arc::clone(&connector);
        let starting =
            thread::spawn(move || starting.create_message_streams([(TOPIC, 1)]).map(drop));
        wait_until(SOON, "a failed attempt", || {
            matches!(
                connector.state(),
                ConnectorState::Rebalancing {
                    failed_attempts: 1,
                    ..
                }
            )
        });
        assert_quick(&connector);
        let started = starting.join().unwrap();
        assert!(matches!(started, Err(Error::Closed)), "{started:?}");
        assert!(!stranger.exists(&id_path("a")));
    });
}

#[test]
fn while_the_id_is_taken() {
    alone("while_the_id_is_taken", || {
        let cluster = cluster();
        let stranger = cluster.shell();
        stranger
            .put(&format!("/consumers/{GROUP}/ids"), "")
            .unwrap();
        stranger.create_ephemeral(&id_path("a"), "{}").unwrap();
        let config = config(&cluster).build().unwrap();
        let connector = Arc::new(ConsumerConnector::connect(config).unwrap());
        let starting = Arc::clone(&connector);
        let starting =
            thread::spawn(move || starting.create_message_streams([(TOPIC, 1)]).map(drop));
        wait_until(SOON, "the attempt to register", || {
            matches!(connector.state(), ConnectorState::Rebalancing { .. })
        });
        assert_quick(&connector);
        let started = starting.join().unwrap();
        assert!(matches!(started, Err(Error::Closed)), "{started:?}");
    });
}

#[test]
fn when_zookeeper_has_just_died() {
    alone("when_zookeeper_has_just_died", || {
        let mut running = running();
        running.cluster.zookeeper().kill();
        assert_quick_end(running.member);
        running.producer.stop();
    });
}

#[test]
fn when_zookeeper_has_been_away_for_long() {
    alone("when_zookeeper_has_been_away_for_long", || {
        let mut running = running();
        let since = Instant::now();
        running.cluster.zookeeper().kill();
        let is_end = |event: &Event| *event == Event::LeaseEnded;
        running
            .member
            .wait_for_event(since, "the lease to end", is_end);
        assert_quick_end(running.member);
        running.producer.stop();
    });
}

/// The second call returned while the first still waited for ZooKeeper, before the last commit: whoever then
/// ended the process lost it.
#[test]
fn twice_at_once() {
    alone("twice_at_once", || {
        let mut running = running();
        let since = Instant::now();
        running.cluster.zookeeper().kill();
        let is_away = |event: &Event| *event == Event::ZooKeeperDisconnected;
        running
            .member
            .wait_for_event(since, "a lost connection", is_away);
        let connector = &running.member.connector;
        thread::scope(|scope| {
            scope.spawn(|| connector.shutdown());
            wait_until(SOON, "the first call to begin", || {
                let again = connector.create_message_streams([(TOPIC, 1)]);
                matches!(again, Err(Error::Closed))
            });
            connector.shutdown();
            assert_eq!(connector.state(), ConnectorState::ShutDown);
        });
        running.member.leave();
        running.producer.stop();
    });
}

#[test]
fn when_zookeeper_hangs() {
    alone("when_zookeeper_hangs", || {
        let mut running = running();
        running.cluster.zookeeper().pause();
        assert_quick_end(running.member);
        running.cluster.zookeeper().resume();
        running.producer.stop();
    });
}

#[test]
fn when_all_brokers_are_away() {
    alone("when_all_brokers_are_away", || {
        let mut running = running();
        running.producer.stop();
        let since = Instant::now();
        for broker in running.cluster.brokers() {
            broker.kill();
        }
        let is_failure = |event: &Event| matches!(event, Event::LeaderLookupFailed { .. });
        running
            .member
            .wait_for_event(since, "a failed look-up", is_failure);
        assert_quick_end(running.member);
    });
}

#[test]
fn when_all_brokers_hang() {
    alone("when_all_brokers_hang", || {
        let mut running = running();
        running.producer.stop();
        for broker in running.cluster.brokers() {
            broker.pause();
        }
        let mut requests = (
            running.member.connector.stats().fetch_requests,
            Instant::now(),
        );
        wait_until(SOON, "every fetcher to wait for an answer", || {
            let now = running.member.connector.stats().fetch_requests;
            if now != requests.0 {
                requests = (now, Instant::now());
            }
            requests.1.elapsed() > Duration::from_millis(500)
        });
        assert_quick_end(running.member);
        for broker in running.cluster.brokers() {
            broker.resume();
        }
    });
}

#[test]
fn when_nobody_reads() {
    alone("when_nobody_reads", || {
        let cluster = cluster();
        let pace = Duration::from_millis(1);
        let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, pace);
        let config = config(&cluster)
            .queued_max_message_chunks(1)
            .build()
            .unwrap();
        let connector = ConsumerConnector::connect(config).unwrap();
        let mut streams = connector.create_message_streams([(TOPIC, 2)]).unwrap();
        let mut chunks = (connector.stats().chunks, Instant::now());
        wait_until(SOON, "full queues", || {
            let now = connector.stats().chunks;
            if now != chunks.0 {
                chunks = (now, Instant::now());
            }
            now > 0 && chunks.1.elapsed() > Duration::from_millis(500)
        });
        assert_quick(&connector);
        for stream in streams.remove(TOPIC).unwrap().iter_mut() {
            assert!(
                stream.next().is_none(),
                "what is queued belongs to the next owner"
            );
        }
        producer.stop();
    });
}
