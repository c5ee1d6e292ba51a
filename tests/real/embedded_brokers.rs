//! The original's tools against embedded brokers: they must not notice the difference.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::embedded::EmbeddedZooKeeperOptions;

use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::ConsoleProducer;
use crate::support::ConsumerOffsetChecker;
use crate::support::KafkaVersion;

const LIMIT: Duration = Duration::from_secs(60);

const PER_CODEC: usize = 50;

fn start(version: KafkaVersion) -> EmbeddedCluster {
    let brokers_version = match version {
        KafkaVersion::V0_8_2_2 => BrokerVersion::V0_8_2,
        _ => BrokerVersion::V0_9_0,
    };
    EmbeddedCluster::builder()
        .brokers(2)
        .version(brokers_version)
        .topic("orders", 4, 2)
        .offsets_topic(8, 2)
        .zookeeper(EmbeddedZooKeeperOptions {
            tick: Duration::from_millis(500),
            ..EmbeddedZooKeeperOptions::default()
        })
        .start()
        .unwrap()
}

/// Writes lines of every codec with the original's producer, and returns them.
fn produce(cluster: &EmbeddedCluster, version: KafkaVersion) -> BTreeSet<String> {
    let brokers: Vec<String> = cluster
        .bootstrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut all = BTreeSet::new();
    for codec in ["none", "gzip", "snappy", "lz4"] {
        let lines: Vec<String> = (0..PER_CODEC).map(|n| format!("{codec} {n}")).collect();
        let lines_of_it: Vec<&str> = lines.iter().map(String::as_str).collect();
        ConsoleProducer::produce(version, &brokers.join(","), "orders", codec, &lines_of_it);
        all.extend(lines);
    }
    all
}

#[test]
fn what_the_original_writes_the_original_reads_with_its_offsets_in_zookeeper_or_in_kafka() {
    for version in [KafkaVersion::V0_8_2_2, KafkaVersion::V0_9_0_1] {
        let cluster = start(version);
        let written = produce(&cluster, version);
        for storage in ["zookeeper", "kafka"] {
            let group = format!("of-{storage}");
            let properties = [
                ("group.id", group.as_str()),
                ("auto.commit.interval.ms", "500"),
                ("zookeeper.session.timeout.ms", "4000"),
                ("offsets.storage", storage),
                ("dual.commit.enabled", "false"),
            ];
            let options = ConsoleConsumerOptions {
                properties: &properties,
                from_beginning: true,
                ..ConsoleConsumerOptions::default()
            };
            let zookeeper = cluster.connect_string();
            let mut consumer = ConsoleConsumer::start(version, &zookeeper, "orders", &options);
            let lines = consumer.wait_for_lines(written.len(), LIMIT);
            assert_eq!(lines.iter().cloned().collect::<BTreeSet<_>>(), written);
            assert_eq!(lines.len(), written.len(), "each of them once");
            consumer.stop();

            let checked = ConsumerOffsetChecker::check(version, &zookeeper, &group, "orders");
            assert_eq!(checked.len(), 4);
            for line in checked {
                let partition = line.partition;
                let description = cluster.describe();
                let end = description.partition("orders", partition).unwrap().log_end;
                assert_eq!(line.offset, Some(end), "{storage}, partition {partition}");
                assert_eq!(line.log_size, Some(end), "{storage}, partition {partition}");
            }
        }
    }
}
