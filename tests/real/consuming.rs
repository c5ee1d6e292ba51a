//! What producers of the original wrote arrives.

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::shut_down;
use crate::support::Cluster;
use crate::support::ConsoleProducer;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_until;

/// In the format of its messages, with each compression that all readers know.
pub(crate) fn what_the_producer_of_the_brokers_version_wrote_arrives(version: KafkaVersion) {
    let cluster = RealCluster::start(version, 1);
    cluster.create_topic("words", 2, 1);
    let mut expected = Vec::new();
    for compression in ["none", "gzip", "snappy", "lz4"] {
        let lines: Vec<String> = (0..50).map(|n| format!("{compression}-{n}")).collect();
        let words: Vec<&str> = lines.iter().map(String::as_str).collect();
        let brokers = cluster.broker_list();
        ConsoleProducer::produce(version, &brokers, "words", compression, &words);
        expected.extend(lines);
    }
    expected.sort();
    let (connector, reader) = join(config(&cluster.connect_string(), "g"), &["words"]);
    wait_until(LIMIT, "all words", || {
        reader.all_values().len() >= expected.len()
    });
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    let mut words = reader.finish();
    words.sort();
    assert_eq!(words, expected);
}
