//! Topics, partitions, leaders and brokers that come and go are consumed when they are there.

use std::time::Instant;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::TopicFilter;
use kafka_zk_consumer::TopicPartition;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::Reader;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::scenarios::topics_support::wait_for_event;
use crate::support::BrokerConnection;
use crate::support::Cluster;
use crate::support::Version;
use crate::support::wait_until;

/// Brokers that would create whatever topic they are asked about.
pub(crate) const AUTO_CREATE: &[(&str, &str)] = &[("auto.create.topics.enable", "true")];

pub(crate) fn a_topic_and_partitions_that_come_later_are_consumed_and_asking_for_them_creates_nothing(
    version: impl Version,
) {
    let cluster = version.start_with(1, AUTO_CREATE);
    cluster.create_topic("now", 1, 1);
    produce_numbers(&cluster, "now", 0, 0..10);
    let (connector, reader) = join(
        config(&cluster.connect_string(), "g"),
        &["now", "later", "never"],
    );
    let events = connector.events();
    for topic in ["later", "never"] {
        wait_for_event(&events, "the news that a topic is missing", |event| {
            matches!(event, Event::NoPartitions { topic: name } if name == topic).then_some(())
        });
    }
    reader.wait_for_numbers("now", 0, 0..10);

    cluster.create_topic("later", 1, 1);
    produce_numbers(&cluster, "later", 0, 0..10);
    reader.wait_for_numbers("later", 0, 0..10);

    cluster.add_partitions("later", 3, 1);
    for partition in 1..3 {
        produce_numbers(&cluster, "later", partition, 0..10);
        reader.wait_for_numbers("later", partition, 0..10);
    }
    produce_numbers(&cluster, "now", 0, 10..20);
    reader.wait_for_numbers("now", 0, 0..20);

    let shell = cluster.shell();
    assert_eq!(
        shell.children("/brokers/topics").unwrap(),
        ["later", "now"],
        "a metadata request created a topic"
    );
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
}

pub(crate) fn a_deleted_topic_stays_deleted_and_is_consumed_again_from_its_start_once_it_is_created_again(
    version: impl Version,
) {
    // The original went on to ask for the metadata of a deleted topic, so that brokers with
    // auto.create.topics.enable brought it back to life (D13).
    let cluster = version.start_with(1, AUTO_CREATE);
    cluster.create_topic("steady", 1, 1);
    cluster.create_topic("phoenix", 2, 1);
    let (connector, reader) = join(
        config(&cluster.connect_string(), "g"),
        &["phoenix", "steady"],
    );
    let mut total = 0;
    for life in 0..3 {
        // Fewer each time, so that the stored offset is always outside of the new log.
        let count = 30 - 10 * life;
        for partition in 0..2 {
            produce_numbers(&cluster, "phoenix", partition, total..total + count);
            reader.wait_for_numbers("phoenix", partition, 0..total + count);
        }
        total += count;

        cluster.delete_topic("phoenix");
        wait_until(
            LIMIT,
            "the partitions of a deleted topic to be given up",
            || {
                connector
                    .owned_partitions()
                    .iter()
                    .all(|partition| partition.topic() == "steady")
            },
        );
        produce_numbers(&cluster, "steady", 0, life * 10..(life + 1) * 10);
        reader.wait_for_numbers("steady", 0, 0..(life + 1) * 10);
        assert_eq!(
            cluster.shell().children("/brokers/topics").unwrap(),
            ["steady"],
            "a metadata request brought a deleted topic back"
        );
        assert_eq!(
            cluster
                .shell()
                .children("/consumers/g/owners/phoenix")
                .unwrap(),
            [""; 0]
        );
        let partitions = if life < 2 { 2 } else { 4 };
        cluster.create_topic("phoenix", partitions, 1);
    }
    // In its last life it has more of them.
    for partition in 2..4 {
        produce_numbers(&cluster, "phoenix", partition, 0..5);
        reader.wait_for_numbers("phoenix", partition, 0..5);
    }
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
}

pub(crate) fn topics_that_pass_a_filter_come_and_go_and_stay_deleted(version: impl Version) {
    let cluster = version.start_with(1, AUTO_CREATE);
    cluster.create_topic("steady", 1, 1);
    cluster.create_topic("bills", 1, 1);
    let connector = connect(config(&cluster.connect_string(), "g"));
    let filter = TopicFilter::whitelist("steady, phoenix-[0-9]").unwrap();
    let streams = connector.create_message_streams_by_filter(&filter, 2);
    let reader = Reader::start(streams.unwrap());
    for life in 0..3 {
        let topic = format!("phoenix-{life}");
        let created = Instant::now();
        cluster.create_topic(&topic, 2, 1);
        for partition in 0..2 {
            produce_numbers(&cluster, &topic, partition, 0..10);
            reader.wait_for_numbers(&topic, partition, 0..10);
        }
        println!(
            "a new topic was read {:?} after its creation",
            created.elapsed()
        );

        cluster.delete_topic(&topic);
        let owned = || connector.owned_partitions();
        wait_until(LIMIT, "the deleted topic to be let go", || {
            owned() == [TopicPartition::new("steady", 0)]
        });
        produce_numbers(&cluster, "steady", 0, life * 10..(life + 1) * 10);
        reader.wait_for_numbers("steady", 0, 0..(life + 1) * 10);
        let shell = cluster.shell();
        let left = shell.children("/brokers/topics").unwrap();
        assert_eq!(
            left,
            ["bills", "steady"],
            "a metadata request brought a topic back"
        );
        let owners = format!("/consumers/g/owners/{topic}");
        assert_eq!(shell.children(&owners).unwrap(), [""; 0]);
    }
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
}

pub(crate) fn a_member_without_brokers_waits_and_each_partition_comes_with_its_leader(
    version: impl Version,
) {
    let mut cluster = version.start(2);
    cluster.create_topic("orders", 2, 1);
    for partition in 0..2 {
        produce_numbers(&cluster, "orders", partition, 0..50);
    }
    for broker in 0..2 {
        cluster.stop_broker(broker);
        cluster.wait_until_deregistered(broker);
    }
    let (connector, reader) = join(config(&cluster.connect_string(), "g"), &["orders"]);
    wait_until(LIMIT, "the state to tell that brokers are missing", || {
        connector.state() == ConnectorState::WaitingForBrokers
    });
    wait_for_event(
        &connector.events(),
        "the news that no broker is there",
        |event| matches!(event, Event::NoBrokers).then_some(()),
    );

    cluster.restart_broker(0);
    reader.wait_for_numbers("orders", 0, 0..50);
    assert_eq!(reader.values("orders", 1), [""; 0], "its leader is down");
    goes_on(&cluster, &reader, 0, 50..60);

    cluster.restart_broker(1);
    reader.wait_for_numbers("orders", 1, 0..50);
    cluster.wait_for_leaders("orders");
    goes_on(&cluster, &reader, 1, 50..60);
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
}

/// Appends to a partition while others may have no leader.
fn goes_on(cluster: &impl Cluster, reader: &Reader, partition: i32, numbers: std::ops::Range<i64>) {
    let mut leader = BrokerConnection::open(&cluster.address(partition)).unwrap();
    for number in numbers.clone() {
        let value = number.to_string();
        leader
            .produce("orders", partition, &[(None, value.as_bytes())])
            .unwrap();
    }
    reader.wait_for_numbers("orders", partition, 0..numbers.end);
}
