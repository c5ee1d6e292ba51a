//! A cluster that is started without brokers.

use kafka_zk_consumer::ConnectorState;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::support::Cluster;
use crate::support::Kafka;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_until;

#[test]
fn a_member_whose_zookeeper_never_saw_a_broker_consumes_once_one_comes() {
    let mut cluster = RealCluster::start(KafkaVersion::V0_9_0_1, 0);
    let (connector, reader) = join(config(&cluster.connect_string(), "g"), &["orders"]);
    wait_until(LIMIT, "the state to tell that brokers are missing", || {
        connector.state() == ConnectorState::WaitingForBrokers
    });
    let broker = Kafka::start(KafkaVersion::V0_9_0_1, 0, &cluster.connect_string(), &[]);
    cluster.brokers().push(broker);
    cluster.create_topic("orders", 1, 1);
    produce_numbers(&cluster, "orders", 0, 0..10);
    reader.wait_for_numbers("orders", 0, 0..10);
    shut_down(&connector);
    reader.finish();
}
