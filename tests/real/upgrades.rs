//! Brokers become others: newer ones at the same addresses, with newer formats of messages beside the older ones.

use std::time::Duration;

use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSetBuilder;

use crate::scenarios::numbered::Journal;
use crate::scenarios::numbered::Member;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::numbered::SOON;
use crate::scenarios::numbered::TOPIC;
use crate::scenarios::numbered::member_config;
use crate::scenarios::numbered::wait_for_owners;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::ZooKeeper;
use crate::support::ZooKeeperVersion;
use crate::support::wait_until;

/// As the documentation of Kafka wants upgrades: first the program, then the protocol among the brokers and the format
/// of messages. One step is taken back. Controllers from 2.8 on give each topic an id, which is news to the member but
/// changes nothing for it.
#[test]
#[ignore = "for tests/run.sh --all-brokers"]
fn brokers_upgraded_one_by_one_from_0_9_0_1_to_3_9_2_cost_neither_a_message_nor_a_partition() {
    const PARTITIONS: i32 = 2;
    let zookeeper = ZooKeeper::start_version(ZooKeeperVersion::Debian);
    let mut cluster = RealCluster::start_on(zookeeper, KafkaVersion::V0_9_0_1, 2, &[], false);
    cluster.create_topic(TOPIC, PARTITIONS, 2);
    let shell = cluster.shell();
    let journal = Journal::default();
    let config = member_config(&cluster.connect_string(), "a", Duration::from_secs(20));
    let member = Member::join(config, &journal);
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, Duration::from_millis(10));
    journal.wait_for_flow(PARTITIONS);
    let state = member.connector.state();

    let steps = [
        (KafkaVersion::V0_10_2_2, "0.9.0"),
        (KafkaVersion::V0_9_0_1, "0.9.0"),
        (KafkaVersion::V0_10_2_2, "0.9.0"),
        (KafkaVersion::V0_10_2_2, "0.10.2"),
        (KafkaVersion::V1_1_1, "0.10.2"),
        (KafkaVersion::V1_1_1, "1.1"),
        (KafkaVersion::V2_8_2, "1.1"),
        (KafkaVersion::V3_9_2, "2.8"),
    ];
    for (version, protocol) in steps {
        println!("{version:?} with {protocol}");
        let all = [
            ("inter.broker.protocol.version", protocol),
            ("log.message.format.version", protocol),
        ];
        let overrides = match version {
            KafkaVersion::V0_9_0_1 => &all[..1],
            _ => &all[..],
        };
        for id in [0, 1] {
            cluster.broker(id).restart_as(version, overrides);
            wait_until(SOON, "replicas that are in sync", || {
                (0..PARTITIONS).all(|partition| {
                    let state = cluster.partition_state(TOPIC, partition);
                    state.is_some_and(|state| state.isr.len() == 2)
                })
            });
            cluster.wait_for_leaders(TOPIC);
            journal.wait_for_flow(PARTITIONS);
        }
    }

    let written = producer.stop();
    journal.wait_for_all(&written);
    assert_eq!(member.connector.state(), state, "the same generation");
    wait_for_owners(&shell, &["a", "a"]);
    member.leave();
    journal.assert_without_gap(&written);
    journal.assert_without_repeats();
}

/// A log holds what was written before the format of its messages was changed as it was.
pub(crate) fn a_log_of_all_formats_that_the_broker_knows_is_read_as_one(version: KafkaVersion) {
    let formats: &[&str] = match version {
        KafkaVersion::V0_8_2_2 | KafkaVersion::V0_9_0_1 => &[],
        KafkaVersion::V0_10_2_2 => &["0.9.0", "0.10.0"],
        // From 3.0 on the setting counts only together with an old protocol among the brokers.
        _ => &["0.9.0", "0.10.0", "0.11.0"],
    };
    let mut cluster = RealCluster::start(version, 1);
    cluster.create_topic("orders", 1, 1);
    let mut end = 0;
    let mut append = |cluster: &RealCluster| {
        produce_numbers(cluster, "orders", 0, end..end + 10);
        produce_compressed(cluster, end + 10..end + 20);
        produce_numbers(cluster, "orders", 0, end + 20..end + 25);
        end += 25;
    };
    append(&cluster);
    for format in formats {
        let overrides = [
            ("inter.broker.protocol.version", *format),
            ("log.message.format.version", *format),
        ];
        let overrides = match version {
            KafkaVersion::V3_9_2 => &overrides[..],
            _ => &overrides[1..],
        };
        cluster.broker(0).restart_as(version, overrides);
        cluster.wait_for_leaders("orders");
        append(&cluster);
    }

    // From the start, and from within a compressed set of each format.
    let (connector, reader) = join(config(&cluster.connect_string(), "all"), &["orders"]);
    reader.wait_for_numbers("orders", 0, 0..end);
    assert_eq!(
        reader.offsets("orders", 0),
        (0..end).collect::<Vec<_>>(),
        "numbers are offsets"
    );
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
    for start in (15..end).step_by(25) {
        let group = format!("from-{start}");
        let path = format!("/consumers/{group}/offsets/orders/0");
        cluster.shell().put(&path, &start.to_string()).unwrap();
        let (connector, reader) = join(config(&cluster.connect_string(), &group), &["orders"]);
        reader.wait_for_numbers("orders", 0, start..end);
        shut_down(&connector);
        reader.finish();
    }
}

/// Appends the numbers of the range as one compressed message.
fn produce_compressed(cluster: &RealCluster, numbers: std::ops::Range<i64>) {
    let mut set = MessageSetBuilder::compressed(Codec::Gzip);
    for (offset, number) in (0..).zip(numbers) {
        let value = number.to_string();
        set.message(offset, None, Some(value.as_bytes())).unwrap();
    }
    let mut broker = BrokerConnection::open(&cluster.broker_list()).unwrap();
    let set = set.build().unwrap();
    broker.produce_set("orders", 0, set.as_bytes()).unwrap();
}
