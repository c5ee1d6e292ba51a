//! Wrong addresses, names and foreign nodes that make no sense are named, and the consumer goes on where it
//! can.

use std::net::TcpListener;
use std::time::Duration;

use kafka_zk_consumer::ConsumerConfigBuilder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::TopicPartition;
use serde_json::json;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::Reader;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::only_stream;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::scenarios::topics_support::timed;
use crate::scenarios::topics_support::wait_for_event;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::Kafka;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::ZooKeeper;
use crate::support::ZooKeeperShell;
use crate::support::free_port;
use crate::support::wait_until;

fn refused(config: ConsumerConfigBuilder) -> Error {
    let connected = config.build().and_then(ConsumerConnector::connect);
    connected.expect_err("an error")
}

#[test]
fn a_wrong_zookeeper_address_is_an_error_that_names_it_and_comes_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_address = silent.local_addr().unwrap().to_string();
    let closed_address = format!("127.0.0.1:{}", free_port());
    for address in [
        silent_address.as_str(),
        closed_address.as_str(),
        "no-such-host.invalid:2181",
    ] {
        let settings = config(address, "g").zookeeper_connection_timeout(Duration::from_secs(1));
        let (error, took) = timed(|| refused(settings));
        assert!(matches!(error, Error::ZooKeeper { .. }), "{error:?}");
        assert!(error.chain().contains(address), "{}", error.chain());
        assert!(took < Duration::from_secs(5), "{address}: {took:?}");
    }
    for malformed in ["", "127.0.0.1:99999", "127.0.0.1:x"] {
        let error = refused(config(malformed, "g"));
        assert!(error.chain().contains(malformed), "{}", error.chain());
        assert!(
            error.chain().contains("zookeeper.connect"),
            "{}",
            error.chain()
        );
    }
}

#[test]
fn a_chroot_holds_the_whole_cluster_and_a_missing_one_is_not_created() {
    for version in KafkaVersion::BY_DEFAULT {
        let zookeeper = ZooKeeper::start();
        let root = ZooKeeperShell::connect(&zookeeper.connect_string());
        root.put("/kafka/one", "").unwrap();
        let connect_string = format!("{}/kafka/one", zookeeper.connect_string());
        let broker = Kafka::start(version, 0, &connect_string, &[]);
        let shell = ZooKeeperShell::connect(&connect_string);
        shell
            .put("/config/topics/orders", r#"{"version":1,"config":{}}"#)
            .unwrap();
        shell
            .create(
                "/brokers/topics/orders",
                r#"{"version":1,"partitions":{"0":[0]}}"#,
            )
            .unwrap();
        wait_until(LIMIT, "a leader", || {
            BrokerConnection::open(&broker.address())
                .and_then(|mut connection| connection.leaders("orders"))
                .is_ok_and(|leaders| leaders == [(0, 0)])
        });
        let mut leader = BrokerConnection::open(&broker.address()).unwrap();
        for number in 0..10 {
            let value = number.to_string();
            leader
                .produce("orders", 0, &[(None, value.as_bytes())])
                .unwrap();
        }

        let missing = format!("{}/kafka/none", zookeeper.connect_string());
        let error = refused(config(&missing, "g"));
        assert!(
            matches!(&error, Error::MissingChroot { chroot, hosts }
                if chroot == "/kafka/none" && *hosts == zookeeper.connect_string()),
            "{error:?}"
        );
        assert_eq!(root.children("/kafka").unwrap(), ["one"]);

        let (connector, reader) = join(config(&connect_string, "g").consumer_id("m"), &["orders"]);
        reader.wait_for_numbers("orders", 0, 0..10);
        assert_eq!(
            root.children("/kafka/one/consumers/g/ids").unwrap(),
            ["g_m"]
        );
        assert_eq!(
            root.get("/kafka/one/consumers/g/owners/orders/0").unwrap(),
            "g_m-0"
        );
        // Watches work below a chroot as well: the second member hears that the first has left.
        let (second, other) = join(config(&connect_string, "g").consumer_id("n"), &["orders"]);
        shut_down(&connector);
        wait_until(LIMIT, "the second member to take over", || {
            second.owned_partitions().len() == 1
        });
        leader.produce("orders", 0, &[(None, b"10")]).unwrap();
        other.wait_for_numbers("orders", 0, 10..11);
        shut_down(&second);
        assert_eq!(
            root.get("/kafka/one/consumers/g/offsets/orders/0").unwrap(),
            "11"
        );
        assert!(!root.exists("/consumers"));
        reader.finish();
        other.finish();
    }
}

#[test]
fn illegal_names_are_refused_before_anything_is_written() {
    for name in ["with/slash", "with blank", "\u{fc}", "a,b", "a\nb"] {
        for (key, settings) in [
            ("group.id", config("127.0.0.1:1", name)),
            ("client.id", config("127.0.0.1:1", "g").client_id(name)),
            ("consumer.id", config("127.0.0.1:1", "g").consumer_id(name)),
        ] {
            let error = settings.build().unwrap_err();
            let text = error.to_string();
            assert!(text.contains(key) && text.contains(name), "{text}");
        }
    }
    let error = config("127.0.0.1:1", "").build().unwrap_err();
    assert!(error.to_string().contains("group.id"), "{error}");

    let zookeeper = ZooKeeper::start();
    let connector = connect(config(&zookeeper.connect_string(), "g"));
    let too_long = "x".repeat(256);
    for topic in ["with/slash", "", ".", "..", "with blank", "a,b", &too_long] {
        let error = connector.create_message_streams([(topic, 1)]).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
        assert!(error.to_string().contains(topic), "{error}");
    }
    let error = connector
        .create_message_streams([("orders", 0)])
        .unwrap_err();
    assert!(error.to_string().contains("orders"), "{error}");
    let shell = ZooKeeperShell::connect(&zookeeper.connect_string());
    assert!(
        !shell.exists("/consumers/g"),
        "a refused call has written something"
    );
    // None of that has spoiled the connector.
    assert!(connector.create_message_streams([("orders", 1)]).is_ok());
    let again = connector.create_message_streams([("orders", 1)]);
    assert!(matches!(again, Err(Error::MessageStreamsExist)));
    shut_down(&connector);
}

#[test]
fn nodes_of_others_that_make_no_sense_are_named_and_the_rest_is_consumed() {
    for version in KafkaVersion::BY_DEFAULT {
        let cluster = RealCluster::start(version, 1);
        cluster.create_topic("orders", 2, 1);
        for partition in 0..2 {
            produce_numbers(&cluster, "orders", partition, 0..10);
        }
        let shell = cluster.shell();
        shell.put("/brokers/topics/bad", "garbage").unwrap();
        shell.put("/brokers/ids/77", "garbage").unwrap();
        let encrypted = json!({"version": 2, "host": null, "port": -1, "jmx_port": -1,
            "timestamp": "1", "endpoints": ["SSL://127.0.0.1:1"]});
        shell
            .put("/brokers/ids/78", &encrypted.to_string())
            .unwrap();
        shell.put("/consumers/g/offsets/orders/0", "text").unwrap();
        shell.put("/consumers/g/offsets/orders/1", "4").unwrap();
        shell.put("/consumers/g/ids", "").unwrap();
        shell
            .create_ephemeral("/consumers/g/ids/g_x", "garbage")
            .unwrap();

        let (connector, reader) = join(config(&cluster.connect_string(), "g"), &["bad", "orders"]);
        let events = connector.events();
        // The order is that of their discovery.
        for path in [
            "/consumers/g/ids/g_x",
            "/brokers/topics/bad",
            "/consumers/g/offsets/orders/0",
            "/brokers/ids/77",
            "/brokers/ids/78",
        ] {
            let reason = wait_for_event(&events, path, |event| match event {
                Event::UnusableZnode {
                    path: named,
                    reason,
                } if named == path => Some(reason.clone()),
                _ => None,
            });
            assert!(!reason.is_empty());
        }
        reader.wait_for_numbers("orders", 0, 0..10);
        reader.wait_for_numbers("orders", 1, 4..10);

        // Nodes that begin to make no sense later change nothing that is owned.
        shell
            .create_ephemeral("/consumers/g/ids/g_y", "[]")
            .unwrap();
        wait_for_event(&events, "the news of another member", |event| {
            matches!(event, Event::UnusableZnode { path, .. } if path == "/consumers/g/ids/g_y")
                .then_some(())
        });
        produce_numbers(&cluster, "orders", 0, 10..20);
        reader.wait_for_numbers("orders", 0, 0..20);

        // Once the topic makes sense it is owned.
        shell
            .set(
                "/brokers/topics/bad",
                r#"{"version":1,"partitions":{"0":[0]}}"#,
            )
            .unwrap();
        wait_until(LIMIT, "the topic to be owned", || {
            connector
                .owned_partitions()
                .contains(&TopicPartition::new("bad", 0))
        });
        produce_numbers(&cluster, "orders", 0, 20..30);
        reader.wait_for_numbers("orders", 0, 0..30);
        assert_eq!(reader.errors(), []);
        shut_down(&connector);
        reader.finish();
        assert_eq!(shell.get("/consumers/g/offsets/orders/0").unwrap(), "30");
    }
}

#[test]
fn an_owner_that_is_nobody_is_named_and_the_call_can_be_repeated_once_it_is_gone() {
    let cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic("orders", 1, 1);
    produce_numbers(&cluster, "orders", 0, 0..10);
    let shell = cluster.shell();
    let owner = "/consumers/g/owners/orders/0";
    shell.put(owner, "garbage").unwrap();
    let settings = config(&cluster.connect_string(), "g").rebalance_max_retries(3);
    let connector = connect(settings);
    let error = connector
        .create_message_streams([("orders", 1)])
        .unwrap_err();
    assert!(matches!(error, Error::RebalanceFailed { .. }), "{error:?}");
    let text = error.chain();
    assert!(text.contains(owner) && text.contains("garbage"), "{text}");
    assert_eq!(shell.children("/consumers/g/ids").unwrap(), [""; 0]);

    shell.delete(owner).unwrap();
    let reader = Reader::start([only_stream(&connector, "orders")]);
    reader.wait_for_numbers("orders", 0, 0..10);
    shut_down(&connector);
    reader.finish();
}
