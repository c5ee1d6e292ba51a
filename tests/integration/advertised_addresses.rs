//! Brokers that are not reached where they say.

use std::iter;

use kafka_zk_consumer::BrokerAddressMap;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::EmbeddedCluster;

use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::wait_until;

/// A host that no resolver knows (RFC 2606).
const NOWHERE: &str = "kafka.invalid";

fn cluster(version: BrokerVersion, host: &str) -> EmbeddedCluster {
    let cluster = quick_cluster()
        .version(version)
        .brokers(2)
        .topic("orders", 4, 2)
        .advertised_host_name(host)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 4, 0..20);
    cluster
}

/// The map that an ssh tunnel to each broker would need.
fn map(cluster: &EmbeddedCluster, advertised: &str) -> BrokerAddressMap {
    let entries: Vec<String> = cluster
        .bootstrap()
        .iter()
        .map(|reachable| format!("{advertised}:{}={reachable}", reachable.port))
        .collect();
    entries.join(",").parse().unwrap()
}

#[test]
fn brokers_that_advertise_an_address_of_another_network_are_read_through_the_map() {
    // The original connects to what brokers advertise, and nothing but a forged /etc/hosts can change that.
    for (version, host, advertised) in [
        (BrokerVersion::V0_8_2, NOWHERE, "Kafka.Invalid"),
        (BrokerVersion::V0_9_0, NOWHERE, "Kafka.Invalid"),
        (BrokerVersion::V0_8_2, "2001:db8::7", "[2001:DB8:0::7]"),
        (BrokerVersion::V2_3, "2001:db8::7", "[2001:DB8:0::7]"),
    ] {
        let cluster = cluster(version, host);
        let map = map(&cluster, advertised);
        let connector = connect(config(&cluster, "mapped").broker_address_map(&map));
        let mut reading = Reading::start(streams(&connector, "orders", 2));
        reading.until_numbers(4, 20);
        // A new leader's address comes from an answer of a broker, not from ZooKeeper alone.
        cluster.kill(0).unwrap();
        produce_numbers(&cluster, "orders", 4, 20..30);
        reading.until_numbers(4, 30);
        cluster.restart_on_new_port(0).unwrap();
        connector.shutdown();
        reading.assert_nothing_lost(4, 30);
    }
}

#[test]
fn without_the_map_the_advertised_address_is_told_as_the_one_that_fails() {
    let cluster = cluster(BrokerVersion::V0_9_0, NOWHERE);
    let connector = connect(config(&cluster, "unmapped"));
    let unread = streams(&connector, "orders", 1);
    wait_until("the look-up fails", || {
        iter::from_fn(|| connector.events().try_next()).any(|event| {
            matches!(event, Event::LeaderLookupFailed { .. }) && event.to_string().contains(NOWHERE)
        })
    });
    assert_eq!(connector.stats().messages, 0);
    drop(unread);
}

#[test]
fn a_listener_that_no_broker_has_leaves_all_brokers_out_and_tells_which_there_are() {
    let cluster = cluster(BrokerVersion::V0_9_0, NOWHERE);
    let connector = connect(config(&cluster, "g").broker_listener_name("TUNNEL"));
    let unread = streams(&connector, "orders", 1);
    let mut told = Vec::new();
    wait_until("both brokers are told", || {
        let events = iter::from_fn(|| connector.events().try_next());
        told.extend(events.filter_map(|event| match event {
            Event::UnusableZnode { path, reason } => Some((path, reason)),
            _ => None,
        }));
        told.len() >= 2
    });
    told.sort();
    for (id, (path, reason)) in told.iter().enumerate() {
        assert_eq!(path, &format!("/brokers/ids/{id}"));
        assert!(reason.contains("no listener TUNNEL"), "{reason}");
        assert!(reason.contains(NOWHERE), "{reason}");
    }
    drop(unread);
    drop(connector);
    let map = map(&cluster, "Kafka.Invalid");
    let by_name = config(&cluster, "g").broker_listener_name("plaintext");
    let connector = connect(by_name.broker_address_map(&map));
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(4, 20);
}
