//! Messages of transactions, and the markers among them.

use kafka_zk_consumer::SimpleConsumer;
use kafka_zk_consumer::SimpleConsumerOptions;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::protocol::OffsetTime;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::shut_down;
use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::RecordBatch;
use crate::support::Transaction;
use crate::support::wait_until;

/// The offset of a marker is nobody's, and committed over.
pub(crate) fn messages_of_transactions_arrive_and_their_markers_do_not(version: KafkaVersion) {
    let cluster = RealCluster::start(version, 1);
    cluster.create_topic("orders", 1, 1);
    begin(&cluster, "first", &["0", "1", "2"]).commit();
    wait_for_end(&cluster, 4);
    begin(&cluster, "second", &["3", "4"]).abort();
    wait_for_end(&cluster, 7);
    cluster.produce("orders", 0, &["5"]);
    let open = begin(&cluster, "third", &["6"]);

    let (connector, reader) = join(config(&cluster.connect_string(), "g"), &["orders"]);
    reader.wait_for_numbers("orders", 0, 0..7);
    assert_eq!(reader.offsets("orders", 0), [0, 1, 2, 4, 5, 7, 8]);
    open.commit();
    wait_for_end(&cluster, 10);
    cluster.produce("orders", 0, &["7"]);
    reader.wait_for_numbers("orders", 0, 0..8);
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
    assert_eq!(
        crate::scenarios::member::stored_offset(&cluster.shell(), "g", "orders", 0),
        Some(11)
    );
}

pub(crate) fn begin(cluster: &RealCluster, id: &str, values: &[&str]) -> Transaction {
    let batch = RecordBatch::of(values);
    Transaction::of(&cluster.broker_list(), id, "orders", 0, &batch)
}

/// Waits until the log has so many offsets.
pub(crate) fn wait_for_end(cluster: &RealCluster, end: i64) {
    let address = cluster.broker_list().parse().unwrap();
    let consumer = SimpleConsumer::new(address, SimpleConsumerOptions::default()).unwrap();
    let orders = TopicPartition::new("orders", 0);
    wait_until(LIMIT, "a marker in the log", || {
        let latest = consumer.earliest_or_latest_offset(&orders, OffsetTime::Latest);
        latest.unwrap() == end
    });
}
