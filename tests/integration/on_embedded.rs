//! The scenarios of `tests/scenarios` on embedded clusters.

use std::time::Duration;

use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::ClusterBuilder;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::embedded::EmbeddedZooKeeperOptions;

use crate::support::Cluster;
use crate::support::Version;

macro_rules! on_embedded {
    ($module:ident, $version:ident, $($folder:ident::$file:ident::$scenario:ident,)*) => {
        mod $module {
            use crate::scenarios;
            $(
                #[test]
                fn $scenario() {
                    $folder::$file::$scenario(
                        kafka_zk_consumer::embedded::BrokerVersion::$version,
                    );
                }
            )*
        }
    };
}

macro_rules! as_0_8_2 {
    ($($scenario:tt)*) => {
        on_embedded! { as_0_8_2, V0_8_2, $($scenario)* }
    };
}

macro_rules! as_each {
    ($($scenario:tt)*) => {
        on_embedded! { as_0_8_2, V0_8_2, $($scenario)* }
        on_embedded! { as_0_9_0, V0_9_0, $($scenario)* }
        on_embedded! { as_0_10_2, V0_10_2, $($scenario)* }
        on_embedded! { as_2_3, V2_3, $($scenario)* }
    };
}

mod about_brokers {
    crate::scenarios::for_every_version!(as_each);
}

mod about_messages {
    crate::scenarios::for_both_versions!(as_each);
}

mod about_groups {
    crate::scenarios::for_one_version!(as_0_8_2);
}

impl Version for BrokerVersion {
    type Cluster = EmbeddedCluster;

    /// ZooKeeper grants the session timeouts that the real one of the tests grants.
    fn start_with(self, brokers: i32, overrides: &[(&str, &str)]) -> EmbeddedCluster {
        let zookeeper = EmbeddedZooKeeperOptions {
            tick: Duration::from_millis(500),
            min_session_timeout: Some(Duration::from_secs(1)),
            max_session_timeout: Some(Duration::from_secs(60)),
            ..EmbeddedZooKeeperOptions::default()
        };
        let builder = EmbeddedCluster::builder()
            .version(self)
            .brokers(brokers)
            .zookeeper(zookeeper);
        let builder = overrides.iter().fold(builder, set);
        builder.start().unwrap()
    }
}

/// Does what a line of `server.properties` says.
fn set(builder: ClusterBuilder, (key, value): &(&str, &str)) -> ClusterBuilder {
    let number = || value.parse().unwrap();
    match *key {
        "auto.create.topics.enable" if *value == "true" => builder.auto_create_topics(1, 1),
        "log.segment.bytes" => builder.log_segment_bytes(number()),
        "log.retention.bytes" => builder.log_retention_bytes(number()),
        "zookeeper.session.timeout.ms" => {
            builder.broker_session_timeout(Duration::from_millis(value.parse().unwrap()))
        }
        // Done at once.
        "log.retention.check.interval.ms" | "log.segment.delete.delay.ms" => builder,
        "unclean.leader.election.enable" => builder.unclean_leader_election(value.parse().unwrap()),
        // As it always is here.
        "controlled.shutdown.enable" if *value == "true" => builder,
        _ => panic!("{key}={value} is not for embedded brokers"),
    }
}

impl Cluster for EmbeddedCluster {
    fn connect_string(&self) -> String {
        self.connect_string()
    }

    fn addresses(&self) -> Vec<String> {
        let addresses = self.bootstrap().into_iter();
        addresses.map(|address| address.to_string()).collect()
    }

    fn create_topic(&self, topic: &str, partitions: i32, replication: i32) {
        let replicas = usize::try_from(replication).unwrap();
        self.create_topic(topic, partitions, replicas).unwrap();
    }

    fn add_partitions(&self, topic: &str, total: i32, _replication: i32) {
        self.add_partitions(topic, total).unwrap();
    }

    fn request_deletion(&self, topic: &str) {
        self.delete_topic(topic).unwrap();
    }

    fn move_leader(&self, topic: &str, partition: i32, broker: i32) {
        self.move_leader(topic, partition, broker).unwrap();
    }

    fn kill_broker(&mut self, id: i32) {
        self.kill(id).unwrap();
    }

    fn stop_broker(&mut self, id: i32) {
        self.stop(id).unwrap();
    }

    fn restart_broker(&mut self, id: i32) {
        let is_running = |broker: &kafka_zk_consumer::embedded::BrokerDescription| {
            broker.id == id && broker.is_running
        };
        if self.describe().brokers.iter().any(is_running) {
            self.kill_broker(id);
        }
        self.wait_until_deregistered(id);
        self.restart(id).unwrap();
    }

    fn kill_zookeeper(&mut self) {
        self.zookeeper().stop();
    }

    fn restart_zookeeper(&mut self) {
        self.zookeeper().restart().unwrap();
    }

    fn pause_zookeeper(&mut self) {
        self.zookeeper().silence(true);
    }

    fn resume_zookeeper(&mut self) {
        self.zookeeper().silence(false);
    }
}
