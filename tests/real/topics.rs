//! A cluster that is started without brokers, and topics that are deleted while they are read.

use std::time::Duration;

use kafka_zk_consumer::ConnectorState;

use crate::scenarios::topics::AUTO_CREATE;
use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::support::Cluster;
use crate::support::Kafka;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::Version;
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

// On real brokers only: an embedded one deletes a topic so fast that it can come and go between two requests.
pub(crate) fn none_of_many_topics_that_are_deleted_at_once_comes_back(version: KafkaVersion) {
    const TOPICS: usize = 20;
    let cluster = version.start_with(1, AUTO_CREATE);
    let names: Vec<String> = (0..TOPICS).map(|number| format!("t{number}")).collect();
    for name in &names {
        cluster.create_topic(name, 2, 1);
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // As often as possible.
    let settings = config(&cluster.connect_string(), "g").refresh_leader_backoff(Duration::ZERO);
    let (connector, reader) = join(settings, &names);
    for name in &names {
        produce_numbers(&cluster, name, 1, 0..3);
        reader.wait_for_numbers(name, 1, 0..3);
    }
    let shell = cluster.shell();
    for name in &names {
        cluster.request_deletion(name);
    }
    wait_until(LIMIT, "all deletions", || {
        shell.children("/admin/delete_topics").unwrap().is_empty()
            && connector.owned_partitions().is_empty()
    });
    assert_eq!(shell.children("/brokers/topics").unwrap(), [""; 0]);
    shut_down(&connector);
    reader.finish();
}
