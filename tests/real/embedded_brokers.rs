//! The original's tools against embedded brokers: they must not notice the difference.

use std::collections::BTreeSet;
use std::time::Duration;

use kafka_zk_consumer::OffsetsStorage;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::embedded::EmbeddedZooKeeperOptions;

use crate::scenarios::member::config;
use crate::scenarios::topics_support::connect;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::ConsoleProducer;
use crate::support::ConsumerOffsetChecker;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::WantedOffsets;

const LIMIT: Duration = Duration::from_secs(60);

const PER_CODEC: usize = 50;

fn start(version: KafkaVersion) -> EmbeddedCluster {
    let brokers_version = match version {
        KafkaVersion::V0_8_2_2 => BrokerVersion::V0_8_2,
        KafkaVersion::V0_9_0_1 => BrokerVersion::V0_9_0,
        KafkaVersion::V0_10_2_2 => BrokerVersion::V0_10_2,
        KafkaVersion::V0_11_0_3 => BrokerVersion::V0_11_0,
        KafkaVersion::V1_1_1 => BrokerVersion::V1_1,
        _ => BrokerVersion::V2_3,
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

/// Of a partition with an offset, of one without, and of one that does not exist; from version 2 on of all, and of none.
pub(crate) fn embedded_brokers_tell_the_offsets_of_a_group_in_the_bytes_of_real_ones(
    version: KafkaVersion,
) {
    let real = RealCluster::start(version, 2);
    real.create_topic("orders", 4, 2);
    let embedded = start(version);
    let real_ones = (real.connect_string(), real.addresses());
    let bootstrap = embedded.bootstrap();
    let addresses = bootstrap.iter().map(ToString::to_string).collect();
    let embedded_ones = (embedded.connect_string(), addresses);
    for (zookeeper, _) in [&real_ones, &embedded_ones] {
        let in_kafka = config(zookeeper, "g")
            .offsets_storage(OffsetsStorage::Kafka)
            .dual_commit_enabled(false)
            .offsets_channel_backoff(Duration::from_millis(300))
            .offsets_commit_max_retries(100);
        let connector = connect(in_kafka);
        let stored = (TopicPartition::new("orders", 0), 7);
        connector.commit_offsets_for([stored]).unwrap();
    }
    let highest = match version {
        KafkaVersion::V0_8_2_2 | KafkaVersion::V0_9_0_1 => 1,
        KafkaVersion::V0_10_2_2 => 2,
        _ => 3,
    };
    for fetch_version in 1..=highest {
        let [real, embedded] = [&real_ones, &embedded_ones]
            .map(|(_, addresses)| answers_about_offsets(addresses, fetch_version));
        assert_eq!(real, embedded, "version {fetch_version}");
    }
}

/// Those of each broker, sorted, so that it does not matter which one is the coordinator.
fn answers_about_offsets(addresses: &[String], version: i16) -> BTreeSet<Vec<Vec<u8>>> {
    let of_partitions = [0, 1, 99].map(|number| WantedOffsets::Of("orders", number));
    let mut wanted = of_partitions.to_vec();
    if version >= 2 {
        wanted.extend([WantedOffsets::All, WantedOffsets::None]);
    }
    let answers = addresses.iter().map(|address| {
        let mut broker = BrokerConnection::open(address).unwrap();
        let answers = wanted
            .iter()
            .map(|wanted| broker.answer_to_offset_fetch(version, "g", wanted).unwrap());
        answers.collect()
    });
    answers.collect()
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
