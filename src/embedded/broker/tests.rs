//! Requests that were sent to a broker of 0.8.2.2, sent to an embedded one in the same state: the answers must agree.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;
use std::time::Instant;

use crate::cluster::TopicPartition;
use crate::embedded::BrokerVersion;
use crate::embedded::ClusterBuilder;
use crate::embedded::EmbeddedCluster;
use crate::protocol::FetchResponse;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MessageSet;
use crate::protocol::MessageSetBuilder;
use crate::protocol::MetadataResponse;
use crate::protocol::OffsetCommitResponse;
use crate::protocol::OffsetFetchResponse;
use crate::protocol::ProduceResponse;
use crate::protocol::Reader;
use crate::protocol::RequiredAcks;
use crate::protocol::Response;
use crate::protocol::tests::recorded;

mod as_0_9_0;
mod later_versions;

/// The message set of the only partition of a recorded fetch response.
fn recorded_set(name: &str) -> MessageSet {
    let response = recorded::frame(name, "response");
    let mut body = Reader::new(&response[8..]);
    let response = FetchResponse::decode(0, &mut body).unwrap();
    response.partitions[0].message_set.clone()
}

struct Client {
    stream: TcpStream,
}

impl Client {
    fn of(cluster: &EmbeddedCluster, broker: usize) -> Self {
        let address = &cluster.bootstrap()[broker];
        let stream = TcpStream::connect((address.host.as_str(), address.port)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self { stream }
    }

    fn send(&mut self, name: &str) {
        self.send_bytes(&recorded::frame(name, "request"));
    }

    fn send_bytes(&mut self, frame: &[u8]) {
        self.stream.write_all(frame).unwrap();
    }

    /// The next answer, without its size; `None` when the broker hangs up.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size).ok()?;
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(size)).unwrap()];
        self.stream.read_exact(&mut frame).unwrap();
        Some(frame)
    }

    fn replay_all(&mut self, prefix: &str, names: &[&str]) {
        for name in names {
            self.replay(&format!("{prefix}{name}"));
        }
    }

    /// Asserts that the broker answers as the recorded one did.
    fn replay(&mut self, name: &str) {
        self.send(name);
        let answer = self.receive().unwrap_or_else(|| panic!("{name}: hung up"));
        let request = recorded::frame(name, "request");
        let expected = recorded::frame(name, "response");
        let api_key = request[5];
        assert_eq!(
            meaning(api_key, &answer),
            meaning(api_key, &expected[4..]),
            "{name}"
        );
    }
}

/// What an answer says, in a form that does not depend on ports, on the order, or on how exactly bytes were compressed.
fn meaning(api_key: u8, answer: &[u8]) -> Vec<String> {
    let correlation_id = i32::from_be_bytes(*answer.first_chunk().unwrap());
    let mut body = Reader::new(&answer[4..]);
    let mut said = match api_key {
        0 => {
            let response = ProduceResponse::decode(0, &mut body).unwrap();
            lines(response.partitions)
        }
        1 => {
            let response = FetchResponse::decode(0, &mut body).unwrap();
            let partitions = response.partitions.into_iter();
            partitions
                .map(|partition| {
                    format!(
                        "{} {:?} {:?} {}",
                        partition.topic_partition,
                        partition.header.error,
                        partition.header.high_watermark,
                        content(&partition.message_set)
                    )
                })
                .collect()
        }
        2 => {
            let response = ListOffsetsResponse::decode(0, &mut body).unwrap();
            lines(response.partitions)
        }
        8 => lines(
            OffsetCommitResponse::decode(1, &mut body)
                .unwrap()
                .partitions,
        ),
        9 => lines(
            OffsetFetchResponse::decode(1, &mut body)
                .unwrap()
                .partitions,
        ),
        10 => {
            let response = FindCoordinatorResponse::decode(0, &mut body).unwrap();
            let id = response.coordinator.map(|broker| broker.id);
            vec![format!("{:?} {id:?}", response.error)]
        }
        _ => {
            let response = MetadataResponse::decode(0, &mut body).unwrap();
            let brokers = response.brokers.iter().map(|b| format!("broker {}", b.id));
            let topics = response.topics.into_iter().map(|mut topic| {
                topic.partitions.sort_by_key(|p| p.partition);
                // The order of the replicas is that of their preference.
                topic.partitions.iter_mut().for_each(|p| p.isr.sort());
                format!("{topic:?}")
            });
            brokers.chain(topics).collect()
        }
    };
    assert_eq!(body.remaining(), 0, "bytes after the answer");
    said.sort();
    said.push(format!("correlation id {correlation_id}"));
    said
}

fn lines<T: std::fmt::Debug>(items: Vec<T>) -> Vec<String> {
    items.iter().map(|item| format!("{item:?}")).collect()
}

/// The bytes of a set, or the messages of one with compressed messages.
fn content(set: &MessageSet) -> String {
    let is_compressed = set.as_bytes().get(17).is_some_and(|codec| codec & 7 != 0);
    let messages = set.messages().map(|message| format!("{message:?}"));
    match is_compressed {
        true => messages.collect(),
        false => format!("{:?}", set.as_bytes()),
    }
}

fn cluster(builder: ClusterBuilder) -> EmbeddedCluster {
    let cluster = builder.brokers(2).start().unwrap();
    for (topic, replicas) in [
        ("plain", vec![vec![0]]),
        ("gz", vec![vec![0]]),
        ("sn", vec![vec![0]]),
        ("lz", vec![vec![0]]),
        ("big", vec![vec![0]]),
        ("seg", vec![vec![0]]),
        ("trim", vec![vec![0]]),
        ("wake", vec![vec![0]]),
        ("empty", vec![vec![0]]),
        ("nested", vec![vec![0]]),
        ("only1", vec![vec![1]]),
        ("follow", vec![vec![1, 0]]),
        ("repl", vec![vec![0, 1]]),
        ("hw", vec![vec![0, 1]]),
        ("multi", vec![vec![0], vec![1], vec![0]]),
    ] {
        cluster.create_assigned_topic(topic, &replicas).unwrap();
    }
    cluster
}

/// Produces the recorded content of a topic.
fn fill(cluster: &EmbeddedCluster, topic: &str, fetch: &str) {
    let of = TopicPartition::new(topic, 0);
    let set = recorded_set(fetch);
    // Each compressed message was a request of its own.
    let mut start = 0;
    for end in entry_ends(set.as_bytes()) {
        let entry = MessageSet::from(set.as_bytes()[start..end].to_vec());
        cluster.produce_set(&of, &entry, RequiredAcks::All).unwrap();
        start = end;
    }
}

fn entry_ends(set: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut position = 0;
    while let Some(size) = set.get(position + 8..position + 12) {
        position += 12 + usize::try_from(i32::from_be_bytes(size.try_into().unwrap())).unwrap();
        ends.push(position);
    }
    ends
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn reading_is_answered_as_recorded() {
    let cluster = cluster(EmbeddedCluster::builder());
    fill(&cluster, "plain", "k082-fetch-v0-plain");
    fill(&cluster, "gz", "k082-fetch-v0-gzip");
    fill(&cluster, "sn", "k082-fetch-v0-snappy");
    fill(&cluster, "lz", "k082-fetch-v0-lz4");
    fill(&cluster, "follow", "k082-fetch-v0-debug-replica");
    let mut client = Client::of(&cluster, 0);
    for name in [
        "plain",
        "gzip",
        "snappy",
        "lz4",
        "mid-wrapper",
        "truncated",
        "truncated-in-header",
        "truncated-wrapper",
        "at-end",
        "empty-partition",
        "out-of-range-high",
        "out-of-range-negative",
        "unknown-topic",
        "unknown-partition",
        "not-leader",
        "debug-replica",
        "no-topics",
        "long-poll-expired",
    ] {
        client.replay(&format!("k082-fetch-v0-{name}"));
    }
    client.replay("k082-fetch-v1-answered-as-v0");
}

#[test]
fn a_fetch_waits_for_the_message_that_comes() {
    let cluster = cluster(EmbeddedCluster::builder());
    let mut client = Client::of(&cluster, 0);
    client.send("k082-fetch-v0-long-poll-woken");
    fill(&cluster, "wake", "k082-fetch-v0-long-poll-woken");
    let answer = client.receive().unwrap();
    let expected = recorded::frame("k082-fetch-v0-long-poll-woken", "response");
    assert_eq!(meaning(1, &answer), meaning(1, &expected[4..]));
}

#[test]
fn writing_is_answered_as_recorded() {
    let cluster = cluster(EmbeddedCluster::builder());
    fill(&cluster, "plain", "k082-fetch-v0-plain");
    for value in ["a", "b", "c"] {
        cluster.produce("repl", 0, [value]).unwrap();
    }
    let mut client = Client::of(&cluster, 0);
    for name in [
        "nested",
        "ok",
        "acks-all",
        "unknown-topic",
        "not-leader",
        "bad-crc",
        "internal-topic",
        "acks-2",
        "empty-set",
    ] {
        client.replay(&format!("k082-produce-v0-{name}"));
    }
    client.replay("k082-produce-v1-answered-as-v0");
    client.replay("k082-fetch-v0-nested");
    // No answer comes to the first of the two.
    client.send("k082-produce-v0-acks-0");
    client.replay("k082-list-offsets-v0-latest");
    client.send("k082-produce-v0-acks-0-error");
    assert_eq!(client.receive(), None);
}

#[test]
fn offsets_are_answered_as_recorded() {
    let cluster = cluster(EmbeddedCluster::builder().log_segment_bytes(400));
    for _ in 0..12 {
        cluster.produce("seg", 0, ["x".repeat(100)]).unwrap();
    }
    let mut client = Client::of(&cluster, 0);
    for name in [
        "latest-many",
        "earliest-many",
        "timestamp-old",
        "zero-offsets",
        "unknown",
        "not-leader",
    ] {
        client.replay(&format!("k082-list-offsets-v0-{name}"));
    }
    client.replay("k082-produce-v0-set-larger-than-segment");
    Client::of(&cluster, 1).replay("k082-list-offsets-v0-empty-partition");
}

#[test]
fn a_log_that_does_not_begin_at_0_is_read_as_recorded() {
    let cluster = cluster(EmbeddedCluster::builder().log_segment_bytes(250));
    cluster.set_log_start("trim", 0, 20).unwrap();
    fill(&cluster, "trim", "k082-fetch-v0-log-start");
    fill(&cluster, "trim", "k082-fetch-v0-log-start");
    let mut client = Client::of(&cluster, 0);
    client.replay("k082-fetch-v0-log-start");
    client.replay("k082-fetch-v0-out-of-range-low");
    client.replay("k082-list-offsets-v0-earliest");
}

#[test]
fn a_follower_that_stands_still_shows_as_recorded() {
    let cluster = cluster(EmbeddedCluster::builder());
    let of = TopicPartition::new("hw", 0);
    let set = recorded_set("k082-fetch-v0-below-hw");
    let first = MessageSet::from(set.as_bytes()[..entry_ends(set.as_bytes())[0]].to_vec());
    cluster.produce_set(&of, &first, RequiredAcks::All).unwrap();
    cluster.produce_set(&of, &set, RequiredAcks::All).unwrap();
    cluster.set_replicating(1, false).unwrap();
    for _ in 0..3 {
        cluster
            .produce_set(&of, &first, RequiredAcks::Leader)
            .unwrap();
    }
    let mut client = Client::of(&cluster, 0);
    for name in [
        "k082-fetch-v0-at-hw",
        "k082-fetch-v0-below-hw",
        "k082-fetch-v0-above-hw",
        "k082-list-offsets-v0-latest-is-hw",
        "k082-produce-v0-timed-out",
    ] {
        client.replay(name);
    }
    cluster.set_replicating(1, true).unwrap();
    let description = cluster.describe();
    assert_eq!(description.partition("hw", 0).unwrap().high_watermark, 7);
}

#[test]
fn brokers_and_leaders_are_told_as_recorded() {
    let empty = EmbeddedCluster::builder().brokers(2).start().unwrap();
    Client::of(&empty, 0).replay("k082-metadata-v0-empty-cluster");

    let cluster = cluster(EmbeddedCluster::builder());
    let mut client = Client::of(&cluster, 0);
    for name in ["two-topics", "unknown", "duplicate-topic", "null-client-id"] {
        client.replay(&format!("k082-metadata-v0-{name}"));
    }
    cluster.kill(1).unwrap();
    let is_noticed = || !cluster.describe().brokers[1].is_registered;
    wait_until("the broker's session expires", is_noticed);
    client.replay("k082-metadata-v0-leader-unavailable");
    client.replay("k082-metadata-v0-replica-unavailable");
}

#[test]
fn a_topic_is_created_by_asking_as_recorded() {
    let creating = cluster(EmbeddedCluster::builder().auto_create_topics(1, 1));
    let mut client = Client::of(&creating, 0);
    client.replay("k082-metadata-v0-unknown-autocreate");
    client.replay("k082-metadata-v0-invalid-name");
    assert!(creating.describe().partition("fresh-topic", 0).is_some());
    let failing = cluster(EmbeddedCluster::builder().auto_create_topics(1, 5));
    Client::of(&failing, 0).replay("k082-metadata-v0-create-fails");
}

#[test]
fn a_broker_hangs_up_on_what_it_does_not_know_or_says_nothing_by_its_version() {
    let unknown = [
        "k082-fetch-v3",
        "k082-list-offsets-v1",
        "k082-metadata-v1-null",
    ];
    let api_versions = [0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    let old = cluster(EmbeddedCluster::builder());
    let mut client = Client::of(&old, 0);
    client.send_bytes(&api_versions);
    assert_eq!(client.receive(), None);
    for name in unknown {
        let mut client = Client::of(&old, 0);
        client.send(name);
        assert_eq!(client.receive(), None, "{name}");
    }
    let newer = cluster(EmbeddedCluster::builder().version(BrokerVersion::V0_9_0));
    let mut client = Client::of(&newer, 0);
    client.send_bytes(&api_versions);
    for name in unknown {
        client.send(name);
        client.replay("k082-metadata-v0-two-topics");
    }
}

/// The exchanges about offsets in ZooKeeper, in the order in which they were recorded.
const OFFSETS_IN_ZOOKEEPER: [&str; 7] = [
    "commit-v0",
    "fetch-v0",
    "fetch-v0-none",
    "fetch-v0-unknown-topic",
    "commit-v0-unknown-topic",
    "commit-v0-metadata-too-large",
    "fetch-v0-garbage",
];

/// The exchanges with the coordinator before anything else has happened.
const OFFSETS_IN_LOG: [&str; 6] = [
    "commit-v1",
    "fetch-v1",
    "fetch-v1-none",
    "fetch-v1-unknown-topic",
    "fetch-v1-unknown-partition",
    "fetch-v1-all",
];

/// Commits that were recorded at the end, each of its kind.
const ODD_COMMITS: [&str; 4] = [
    "commit-v1-metadata-too-large",
    "commit-v1-unknown-topic",
    "commit-v1-generation",
    "commit-v1-timestamp",
];

/// What somebody has left in the place of an offset of `group`.
fn leave_garbage(cluster: &EmbeddedCluster, group: &str) {
    let session = cluster.zookeeper().local_session();
    let path = format!("/consumers/{group}/offsets/seg/0");
    let mode = crate::embedded::CreateMode::Persistent;
    session.create_with_parents(&path, b"x", mode).unwrap();
}

/// As in the recordings: broker 0 keeps the offsets of `g2`, and broker 1 those of `g1`.
fn with_offsets_topic(builder: ClusterBuilder) -> EmbeddedCluster {
    let cluster = cluster(builder.offsets_topic(8, 2));
    let replicas: Vec<Vec<i32>> = (0..8).map(|n| vec![(n + 1) % 2, n % 2]).collect();
    cluster
        .create_assigned_topic("__consumer_offsets", &replicas)
        .unwrap();
    cluster
}

#[test]
fn the_coordinator_is_told_as_recorded() {
    let fresh = cluster(EmbeddedCluster::builder().offsets_topic(8, 2));
    Client::of(&fresh, 0).replay("k082-find-coordinator-v0-creating");
    assert!(
        fresh
            .describe()
            .partition("__consumer_offsets", 7)
            .is_some()
    );

    let cluster = with_offsets_topic(EmbeddedCluster::builder());
    let mut client = Client::of(&cluster, 0);
    client.replay("k082-find-coordinator-v0-broker0");
    client.replay("k082-find-coordinator-v0-broker1");
    client.replay("k082-find-coordinator-v1");
    cluster.stop(1).unwrap();
    client.replay("k082-find-coordinator-v0-failover");
}

#[test]
fn offsets_are_stored_in_zookeeper_as_recorded() {
    let cluster = with_offsets_topic(EmbeddedCluster::builder());
    leave_garbage(&cluster, "g2");
    let mut client = Client::of(&cluster, 0);
    client.replay_all("k082-offset-", &OFFSETS_IN_ZOOKEEPER);
    let session = cluster.zookeeper().local_session();
    let stored = session.get("/consumers/g2/offsets/multi/1").unwrap().0;
    assert_eq!(stored, b"2");
}

#[test]
fn offsets_are_stored_in_the_log_as_recorded_and_survive_their_coordinator() {
    let cluster = with_offsets_topic(EmbeddedCluster::builder());
    let mut client = Client::of(&cluster, 0);
    client.replay_all("k082-offset-", &OFFSETS_IN_LOG);
    let mut other = Client::of(&cluster, 1);
    other.replay("k082-offset-fetch-v1-not-coordinator");
    other.replay("k082-offset-commit-v1-not-coordinator");
    // Three offsets were stored, each as a message of its own.
    let end = || {
        let description = cluster.describe();
        description
            .partition("__consumer_offsets", 3)
            .unwrap()
            .log_end
    };
    assert_eq!(end(), 3);
    cluster.stop(0).unwrap();
    other.send("k082-offset-fetch-v1");
    let answer = other.receive().unwrap();
    let mut body = Reader::new(&answer[4..]);
    let answer = OffsetFetchResponse::decode(1, &mut body).unwrap();
    let offsets: Vec<Option<i64>> = answer.partitions.iter().map(|p| p.offset).collect();
    assert_eq!(offsets, [Some(6), Some(2), Some(3)]);
    assert_eq!(answer.partitions[0].metadata.as_deref(), Some("hello"));
    cluster.restart(0).unwrap();
    cluster.move_leader("__consumer_offsets", 3, 0).unwrap();
    let mut client = Client::of(&cluster, 0);
    client.replay_all("k082-offset-", &ODD_COMMITS);
    assert_eq!(end(), 7);
    client.send("k082-offset-commit-v2");
    assert_eq!(client.receive(), None);
}

#[test]
fn offsets_in_the_log_outlive_the_cluster_and_its_damage() {
    let folder = tempfile::tempdir().unwrap();
    let start = || EmbeddedCluster::builder().data_dir(folder.path());
    let offsets = |cluster: &EmbeddedCluster| {
        let mut client = Client::of(cluster, 0);
        client.send("k082-offset-fetch-v1");
        let answer = client.receive().unwrap();
        let mut body = Reader::new(&answer[4..]);
        let answer = OffsetFetchResponse::decode(1, &mut body).unwrap();
        let partitions = answer.partitions.iter();
        partitions.map(|p| p.offset).collect::<Vec<_>>()
    };
    let first = with_offsets_topic(start());
    Client::of(&first, 0).replay("k082-offset-commit-v1");
    assert_eq!(offsets(&first), [Some(6), Some(2), Some(3)]);
    drop(first);
    let second = start().brokers(2).start().unwrap();
    assert_eq!(offsets(&second), [Some(6), Some(2), Some(3)]);
    drop(second);
    let segment = folder
        .path()
        .join("logs/__consumer_offsets/3/00000000000000000000.log");
    let bytes = fs::read(&segment).unwrap();
    fs::write(&segment, &bytes[..bytes.len() - 1]).unwrap();
    let third = start().brokers(2).start().unwrap();
    let left = offsets(&third);
    assert_eq!(left.iter().flatten().count(), 2, "{left:?}");
    Client::of(&third, 0).replay("k082-offset-commit-v1");
    assert_eq!(offsets(&third), [Some(6), Some(2), Some(3)]);
}

#[test]
fn a_commit_that_is_not_replicated_is_not_told_to_anybody() {
    let cluster = with_offsets_topic(EmbeddedCluster::builder());
    let mut client = Client::of(&cluster, 0);
    cluster.set_replicating(1, false).unwrap();
    client.send("k082-offset-commit-v1");
    let of = TopicPartition::new("__consumer_offsets", 3);
    wait_until("the commit is in the log", || {
        let description = cluster.describe();
        let partition = description.partition(of.topic(), of.partition());
        partition.unwrap().log_end == 3
    });
    let offset_now = || {
        let mut reader = Client::of(&cluster, 0);
        reader.send("k082-offset-fetch-v1");
        let answer = reader.receive().unwrap();
        let mut body = Reader::new(&answer[4..]);
        let answer = OffsetFetchResponse::decode(1, &mut body).unwrap();
        answer.partitions[0].offset
    };
    assert_eq!(offset_now(), None);
    cluster.set_replicating(1, true).unwrap();
    let answer = client.receive().unwrap();
    let expected = recorded::frame("k082-offset-commit-v1", "response");
    assert_eq!(meaning(8, &answer), meaning(8, &expected[4..]));
    assert_eq!(offset_now(), Some(6));
}

#[test]
fn a_coordinator_that_reads_its_log_says_so() {
    let builder = EmbeddedCluster::builder().offsets_load_time(Duration::from_secs(3600));
    let cluster = with_offsets_topic(builder);
    Client::of(&cluster, 0).replay("k082-offset-fetch-v1-loading");
}

#[test]
fn zookeeper_shows_what_a_broker_of_0_8_2_writes() {
    let cluster = cluster(EmbeddedCluster::builder());
    let session = cluster.zookeeper().local_session();
    let json = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&session.get(path).unwrap().0).unwrap()
    };
    let broker = json("/brokers/ids/1");
    assert_eq!(broker["port"], cluster.bootstrap()[1].port);
    assert_eq!(broker["version"], 1);
    let topic = json("/brokers/topics/multi");
    let replicas = serde_json::json!({"0": [0], "1": [1], "2": [0]});
    assert_eq!(topic["partitions"], replicas);
    let state = json("/brokers/topics/repl/partitions/0/state");
    assert_eq!(state["leader"], 0);
    assert_eq!(state["isr"], serde_json::json!([0, 1]));
    assert_eq!(json("/controller")["brokerid"], 0);
    cluster.stop(0).unwrap();
    let state = json("/brokers/topics/repl/partitions/0/state");
    assert_eq!(
        (&state["leader"], &state["leader_epoch"]),
        (&1.into(), &1.into())
    );
    assert_eq!(session.exists("/brokers/ids/0").unwrap(), None);
    assert_eq!(json("/controller")["brokerid"], 1);
    cluster.restart(0).unwrap();
    let state = json("/brokers/topics/repl/partitions/0/state");
    assert_eq!(state["isr"], serde_json::json!([0, 1]));
    assert!(session.exists("/brokers/ids/0").unwrap().is_some());
}

#[test]
fn dropping_the_cluster_ends_whatever_its_threads_wait_for() {
    let cluster = cluster(EmbeddedCluster::builder());
    let address = cluster.bootstrap()[0].to_string();
    // One waits for its next request, one for a message, one for the end of the silence.
    let mut idle = Client::of(&cluster, 0);
    let mut polling = Client::of(&cluster, 0);
    polling.send("k082-fetch-v0-long-poll-woken");
    let mut unanswered = Client::of(&cluster, 1);
    let silence = crate::embedded::ConnectionFault::Silence;
    cluster.disturb(1, silence).unwrap();
    unanswered.send("k082-metadata-v0-two-topics");
    let begun = Instant::now();
    drop(cluster);
    assert!(begun.elapsed() < Duration::from_secs(2));
    for client in [&mut idle, &mut polling, &mut unanswered] {
        // A long poll that is cut off may still be answered with what there was.
        while client.receive().is_some() {}
    }
    let refused = TcpStream::connect(address).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_broker_comes_back_on_its_old_port_or_on_a_new_one() {
    let cluster = cluster(EmbeddedCluster::builder());
    let first = cluster.bootstrap()[0].clone();
    cluster.kill(0).unwrap();
    assert!(cluster.kill(7).is_err());
    TcpStream::connect(first.to_string()).unwrap_err();
    cluster.restart(0).unwrap();
    assert!(cluster.restart(0).is_err(), "it is running");
    assert_eq!(cluster.bootstrap()[0], first);
    TcpStream::connect(first.to_string()).unwrap();
    cluster.stop(0).unwrap();
    cluster.restart_on_new_port(0).unwrap();
    let second = cluster.bootstrap()[0].clone();
    assert_ne!(second, first);
    TcpStream::connect(second.to_string()).unwrap();
    TcpStream::connect(first.to_string()).unwrap_err();
}

#[test]
fn a_broker_whose_session_expires_registers_again() {
    let cluster = cluster(EmbeddedCluster::builder());
    let session = cluster.zookeeper().local_session();
    let owner = || session.exists("/brokers/ids/0").unwrap()?.ephemeral_owner;
    let expired = owner().unwrap();
    assert!(cluster.zookeeper().expire_session(expired));
    let is_back = || owner().is_some_and(|owner| owner != expired);
    wait_until("the broker has a new session", is_back);
}

#[test]
fn old_segments_go_by_size() {
    let builder = EmbeddedCluster::builder()
        .log_segment_bytes(400)
        .log_retention_bytes(500);
    let cluster = cluster(builder);
    for _ in 0..12 {
        cluster.produce("seg", 0, ["x".repeat(100)]).unwrap();
    }
    wait_until("the oldest segments go", || {
        let description = cluster.describe();
        description.partition("seg", 0).unwrap().log_start == 6
    });
    assert_eq!(cluster.describe().partition("seg", 0).unwrap().log_end, 12);
}

/// Whatever time was given, nothing ever went: all messages stood in the segment that is appended to, which stayed.
#[test]
fn messages_go_by_age_all_of_them_and_the_next_one_gets_the_next_offset() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        EmbeddedCluster::builder()
            .brokers(2)
            .topic("orders", 1, 2)
            .data_dir(folder.path())
    };
    let old = start().log_retention(Duration::from_millis(100));
    let old = old.start().unwrap();
    old.produce("orders", 0, ["a", "b", "c"]).unwrap();
    wait_until("all messages go", || {
        let description = old.describe();
        let partition = description.partition("orders", 0).unwrap();
        (partition.log_start, partition.high_watermark) == (3, 3)
    });
    drop(old);
    let young = start().start().unwrap();
    let description = young.describe();
    assert_eq!(description.partition("orders", 0).unwrap().log_start, 3);
    assert_eq!(young.produce("orders", 0, ["d"]).unwrap(), 3);
}

/// A cluster that was told to keep few messages let go of what groups had committed, too: their next coordinator did
/// not know of them, and their members began anew. And a segment that was too small for a commit had it refused.
#[test]
fn what_groups_have_committed_neither_goes_with_old_messages_nor_has_to_fit_into_their_segments() {
    let builder = EmbeddedCluster::builder()
        .log_segment_bytes(100)
        .log_retention_bytes(100);
    let cluster = with_offsets_topic(builder);
    let mut client = Client::of(&cluster, 0);
    client.replay("k082-offset-commit-v1");
    for _ in 0..10 {
        client.replay("k082-offset-commit-v1-timestamp");
        cluster.produce("multi", 0, ["x".repeat(50)]).unwrap();
    }
    let log_start = |topic, partition| {
        let description = cluster.describe();
        description.partition(topic, partition).unwrap().log_start
    };
    wait_until("old messages go", || log_start("multi", 0) > 5);
    assert_eq!(log_start("__consumer_offsets", 3), 0);
    cluster.stop(0).unwrap();
    let mut other = Client::of(&cluster, 1);
    other.send("k082-offset-fetch-v1");
    let answer = other.receive().unwrap();
    let mut body = Reader::new(&answer[4..]);
    let answer = OffsetFetchResponse::decode(1, &mut body).unwrap();
    let offsets = answer.partitions.iter().map(|p| p.offset);
    assert_eq!(offsets.flatten().count(), 3, "{answer:?}");
}

#[test]
fn a_killed_leader_loses_nothing_that_was_acknowledged() {
    let cluster = EmbeddedCluster::builder()
        .brokers(3)
        .topic("orders", 1, 3)
        .start()
        .unwrap();
    let of = TopicPartition::new("orders", 0);
    let mut acknowledged = 0;
    for round in 0..3 {
        let leader = cluster.describe().partition("orders", 0).unwrap().leader;
        let leader = leader.unwrap();
        for number in 0..10 {
            let mut builder = MessageSetBuilder::new();
            let value = format!("{round}/{number}");
            builder.message(0, None, Some(value.as_bytes())).unwrap();
            let set = builder.build().unwrap();
            cluster
                .produce_set(&of, &set, RequiredAcks::Leader)
                .unwrap();
            acknowledged += 1;
        }
        cluster.kill(leader).unwrap();
        wait_until("another broker leads", || {
            let description = cluster.describe();
            let now = description.partition("orders", 0).unwrap().leader;
            now.is_some_and(|now| now != leader)
        });
        let description = cluster.describe();
        let partition = description.partition("orders", 0).unwrap();
        assert_eq!(partition.high_watermark, acknowledged);
        cluster.restart(leader).unwrap();
    }
    let description = cluster.describe();
    assert_eq!(description.partition("orders", 0).unwrap().isr.len(), 3);
}

#[test]
fn zookeeper_learns_late_what_happened_while_it_was_away() {
    let cluster = EmbeddedCluster::builder().start().unwrap();
    cluster.zookeeper().stop();
    cluster.create_topic("meanwhile", 1, 1).unwrap();
    cluster.zookeeper().restart().unwrap();
    let session = cluster.zookeeper().local_session();
    wait_until("the topic of meanwhile is known", || {
        session
            .exists("/brokers/topics/meanwhile")
            .unwrap()
            .is_some()
    });
    cluster.create_topic("later", 1, 1).unwrap();
    assert!(session.exists("/brokers/topics/later").unwrap().is_some());
}
