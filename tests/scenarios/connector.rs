//! What the original's own tests of its connector say.

use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSetBuilder;

use crate::scenarios::member::InProcess;
use crate::scenarios::member::config;
use crate::scenarios::member::numbers;
use crate::scenarios::member::owners;
use crate::scenarios::member::produce;
use crate::scenarios::member::range;
use crate::scenarios::member::value;
use crate::scenarios::member::wait_for_owners;
use crate::scenarios::topics_support::connect;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::Version;
use crate::support::wait_until;

const GROUP: &str = "group1";
const TOPIC: &str = "topic1";
const LIMIT: Duration = Duration::from_secs(90);

fn cluster<V: Version>(version: V, brokers: i32, partitions: i32) -> V::Cluster {
    let cluster = version.start(brokers);
    cluster.create_topic(TOPIC, partitions, 1);
    cluster
}

fn join(cluster: &impl Cluster, name: &str, streams: usize) -> InProcess {
    let config = config(&cluster.connect_string(), GROUP).consumer_id(name);
    InProcess::join(config, TOPIC, streams)
}

pub(crate) fn two_members_share_a_topic_and_one_without_topics_changes_nothing(
    version: impl Version,
) {
    two_members_share(version, |cluster, from, to| {
        produce(cluster, TOPIC, 2, from, to);
    });
}

pub(crate) fn two_members_share_a_topic_of_compressed_messages(version: impl Version) {
    two_members_share(version, |cluster, from, to| {
        for partition in 0..2 {
            let mut set = MessageSetBuilder::compressed(Codec::Gzip);
            for (offset, number) in (0..).zip(from..to) {
                let value = value(partition, number);
                set.message(offset, None, Some(value.as_bytes())).unwrap();
            }
            let leader = cluster.address(cluster.leader(TOPIC, partition));
            let mut leader = BrokerConnection::open(&leader).unwrap();
            let set = set.build().unwrap();
            leader
                .produce_set(TOPIC, partition, set.as_bytes())
                .unwrap();
        }
    });
}

/// `produce` appends the numbers from one up to another to both partitions.
fn two_members_share<V: Version>(version: V, produce: impl Fn(&V::Cluster, i64, i64)) {
    let cluster = cluster(version, 2, 2);
    let shell = cluster.shell();
    produce(&cluster, 0, 2);
    let first = join(&cluster, "consumer1", 1);
    wait_for_owners(&shell, GROUP, TOPIC, 2, &["group1_consumer1-0"]);
    wait_until(LIMIT, "4 messages", || first.count() >= 4);
    first.connector.commit_offsets().unwrap();

    let second = join(&cluster, "consumer2", 1);
    let both = ["group1_consumer1-0", "group1_consumer2-0"];
    wait_for_owners(&shell, GROUP, TOPIC, 2, &both);
    produce(&cluster, 2, 4);
    wait_until(LIMIT, "2 messages each", || {
        first.count() >= 6 && second.count() >= 2
    });

    let third = connect(config(&cluster.connect_string(), GROUP).consumer_id("consumer3"));
    let none: [(&str, usize); 0] = [];
    assert!(third.create_message_streams(none).unwrap().is_empty());
    let ids = shell.children("/consumers/group1/ids").unwrap();
    assert_eq!(ids.len(), 3);
    produce(&cluster, 4, 6);
    wait_until(LIMIT, "2 more messages each", || {
        first.count() >= 8 && second.count() >= 4
    });
    assert_eq!(owners(&shell, GROUP, TOPIC), range(2, &both));
    assert_eq!(third.owned_partitions(), []);
    third.shutdown();

    assert_eq!(first.numbers()[&0], [0, 1, 2, 3, 4, 5]);
    assert_eq!(first.numbers()[&1], [0, 1]);
    assert_eq!(numbers(second.leave()), [(1, vec![2, 3, 4, 5])].into());

    wait_for_owners(&shell, GROUP, TOPIC, 2, &["group1_consumer1-0"]);
    produce(&cluster, 6, 8);
    wait_until(LIMIT, "the share of the one that left", || {
        first.count() >= 12
    });
    let all = [(0, (0..8).collect()), (1, vec![0, 1, 6, 7])];
    assert_eq!(numbers(first.leave()), all.into());
}

pub(crate) fn streams_are_created_once(version: impl Version) {
    let cluster = cluster(version, 2, 2);
    produce(&cluster, TOPIC, 2, 0, 4);
    let member = join(&cluster, "consumer0", 2);
    let again = member.connector.create_message_streams([(TOPIC, 1)]);
    assert!(matches!(again, Err(Error::MessageStreamsExist)));
    wait_until(LIMIT, "8 messages", || member.count() >= 8);
    let all = [(0, vec![0, 1, 2, 3]), (1, vec![0, 1, 2, 3])];
    assert_eq!(numbers(member.leave()), all.into());
}

pub(crate) fn a_topic_of_one_partition_has_one_owner_and_its_order(version: impl Version) {
    let cluster = cluster(version, 2, 1);
    produce(&cluster, TOPIC, 1, 0, 2);
    let member = join(&cluster, "consumer1", 1);
    assert_eq!(
        member.connector.owned_partitions(),
        [TopicPartition::new(TOPIC, 0)]
    );
    wait_for_owners(&cluster.shell(), GROUP, TOPIC, 1, &["group1_consumer1-0"]);
    wait_until(LIMIT, "2 messages", || member.count() >= 2);
    assert_eq!(numbers(member.leave()), [(0, vec![0, 1])].into());
}

/// Prints how long it takes. Ten topics, because a broker of 0.8.2.2 takes minutes to create a topic of a
/// thousand partitions.
pub(crate) fn a_second_member_takes_half_of_a_thousand_partitions(version: impl Version) {
    let cluster = version.start(1);
    let topics: Vec<String> = (0..10).map(|n| format!("topic{n}")).collect();
    for topic in &topics {
        cluster.create_topic(topic, 100, 1);
    }
    let shell = cluster.shell();
    let connect = |name| connect(config(&cluster.connect_string(), GROUP).consumer_id(name));
    let join = |connector: &ConsumerConnector| {
        let counts = topics.iter().map(|topic| (topic.as_str(), 1));
        connector.create_message_streams(counts).unwrap()
    };

    let (first, second) = (connect("consumer1"), connect("consumer2"));
    let _unread = join(&first);
    let alone = took(&first, 1_000);
    let started = Instant::now();
    let _unread = join(&second);
    let joined = started.elapsed();
    let (gave, got) = (took(&first, 500), took(&second, 500));
    println!(
        "1,000 partitions: the first member joins in {alone:?}, a second one in {joined:?}; rebalance of the \
         first {gave:?}, of the second {got:?}"
    );
    let both = ["group1_consumer1-0", "group1_consumer2-0"];
    for topic in &topics {
        assert_eq!(owners(&shell, GROUP, topic), range(100, &both));
    }
}

/// How long the rebalance took after which a member owns so many partitions.
#[track_caller]
fn took(connector: &ConsumerConnector, partitions: usize) -> Duration {
    let events = connector.events();
    loop {
        match events.next_timeout(LIMIT).expect("a rebalance to finish") {
            Event::RebalanceFinished { owned, took, .. } if owned.len() == partitions => {
                return took;
            }
            event => println!(
                "{}",
                event.to_string().chars().take(200).collect::<String>()
            ),
        }
    }
}
