//! A member that has lost a partition without noticing: what the original does, and what ours does.

use std::time::Duration;

use crate::scenarios::member::InProcess;
use crate::scenarios::member::config;
use crate::scenarios::member::produce;
use crate::scenarios::member::stored_offset;
use crate::scenarios::member::wait_for_owners;
use crate::support::Cluster;
use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

const GROUP: &str = "fenced";
const TOPIC: &str = "orders";
const OWNER: &str = "/consumers/fenced/owners/orders/0";
const OFFSET: &str = "/consumers/fenced/offsets/orders/0";
const LIMIT: Duration = Duration::from_secs(30);

/// Lets somebody else own the partition, who has come as far as 50.
fn take_over(shell: &ZooKeeperShell) {
    shell.delete(OWNER).unwrap();
    shell.create_ephemeral(OWNER, "fenced_other-0").unwrap();
    shell.set(OFFSET, "50").unwrap();
}

fn cluster() -> RealCluster {
    let cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic(TOPIC, 1, 1);
    produce(&cluster, TOPIC, 1, 0, 10);
    cluster
}

#[test]
fn the_original_moves_the_offset_of_the_next_owner_back() {
    let cluster = cluster();
    let shell = cluster.shell();
    let properties = [
        ("group.id", GROUP),
        ("consumer.id", "a"),
        ("zookeeper.session.timeout.ms", "4000"),
        ("auto.commit.interval.ms", "300"),
    ];
    let options = ConsoleConsumerOptions {
        properties: &properties,
        from_beginning: true,
        ..ConsoleConsumerOptions::default()
    };
    let zookeeper = cluster.connect_string();
    let mut original = ConsoleConsumer::start(cluster.version(), &zookeeper, TOPIC, &options);
    original.wait_for_lines(10, Duration::from_secs(60));
    let stored = || stored_offset(&shell, GROUP, TOPIC, 0);
    wait_until(LIMIT, "its commit", || stored() == Some(10));
    take_over(&shell);
    produce(&cluster, TOPIC, 1, 10, 11);
    wait_until(LIMIT, "its next commit", || stored() == Some(11));
}

#[test]
fn ours_is_refused_and_told() {
    let cluster = cluster();
    let shell = cluster.shell();
    let config = config(&cluster.connect_string(), GROUP).consumer_id("b");
    let member = InProcess::join(
        config.auto_commit_interval(Duration::from_millis(100)),
        TOPIC,
        1,
    );
    wait_for_owners(&shell, GROUP, TOPIC, 1, &["fenced_b-0"]);
    let stored = || stored_offset(&shell, GROUP, TOPIC, 0);
    wait_until(LIMIT, "its commit", || stored() == Some(10));
    take_over(&shell);
    produce(&cluster, TOPIC, 1, 10, 11);
    wait_until(LIMIT, "a commit that is refused", || {
        member.connector.stats().commit_failures > 0
    });
    wait_until(LIMIT, "it gives the partition up", || {
        member.connector.owned_partitions().is_empty()
    });
    assert_eq!(stored(), Some(50));
}
