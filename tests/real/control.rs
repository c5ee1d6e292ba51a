//! Control over assignment and positions, with real brokers.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use kafka_zk_consumer::AssignedPartitions;
use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ListenerResult;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::RebalanceListener;
use kafka_zk_consumer::RevokedPartitions;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::protocol::OffsetTime;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::Reader;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::only_stream;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_until;

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

#[track_caller]
fn take(stream: &mut MessageStream, count: usize) -> Vec<i64> {
    (0..count)
        .map(|_| stream.next_timeout(LIMIT).unwrap().unwrap().offset())
        .collect()
}

#[track_caller]
fn assert_silent(stream: &mut MessageStream) {
    let next = stream.next_timeout(Duration::from_millis(300)).unwrap();
    let next = next.map(|message| message.offset());
    assert_eq!(next, Err(StreamError::Timeout));
}

#[test]
fn positions_are_missed_sought_held_and_found_by_time() {
    for version in KafkaVersion::BY_DEFAULT {
        let cluster = RealCluster::start(version, 1);
        cluster.create_topic_with("orders", 1, 1, &[("segment.bytes", "2000")]);
        for from in (0..200).step_by(20) {
            produce_numbers(&cluster, "orders", 0, from..from + 20);
        }
        let settings = config(&cluster.connect_string(), "g");
        let connector = connect(settings.auto_offset_reset(AutoOffsetReset::None));
        let mut stream = only_stream(&connector, "orders");
        let missing = |offset| StreamError::NoOffset {
            topic_partition: orders(0),
            offset,
            log: Some(0..200),
        };
        let told = stream.next_timeout(LIMIT).unwrap().unwrap_err();
        assert_eq!(told, missing(None), "{version:?}");
        connector.seek(&orders(0), 5000).unwrap();
        let told = stream.next_timeout(LIMIT).unwrap().unwrap_err();
        assert_eq!(told, missing(Some(5000)), "{version:?}");

        let start = connector.seek_to_time(&orders(0), OffsetTime::Earliest);
        assert_eq!(start.unwrap(), 0);
        assert_eq!(take(&mut stream, 3), [0, 1, 2]);
        connector.pause(&[orders(0)]).unwrap();
        assert_silent(&mut stream);
        connector.resume(&[orders(0)]).unwrap();
        assert_eq!(take(&mut stream, 2), [3, 4]);

        let find = |time| connector.offsets_for_times([(orders(0), time)]).unwrap()[0].1;
        assert_eq!(find(OffsetTime::Latest), 200);
        assert_eq!(find(OffsetTime::Timestamp(0)), 0, "before the log");
        let written = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let written = i64::try_from(written.as_millis()).unwrap();
        // The broker's clock has to be a second ahead before the next message, which it does not know more exactly.
        wait_until(LIMIT, "the file times to be told apart", || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            now.as_millis() > u128::try_from(written + 2500).unwrap()
        });
        produce_numbers(&cluster, "orders", 0, 200..260);
        let found = find(OffsetTime::Timestamp(written + 2000));
        println!("{version:?}: {found} of 260 for the time between 199 and 200");
        assert!((1..=200).contains(&found), "{version:?}: {found}");
        let sought = connector.seek_to_time(&orders(0), OffsetTime::Timestamp(written + 2000));
        assert_eq!(sought.unwrap(), found);
        assert_eq!(take(&mut stream, 1), [found]);
        shut_down(&connector);
    }
}

#[test]
fn chosen_partitions_need_no_group_and_outlive_a_killed_leader() {
    for version in KafkaVersion::BY_DEFAULT {
        let overrides = [("unclean.leader.election.enable", "false")];
        let mut cluster = RealCluster::start_with(version, 2, &overrides);
        cluster.create_topic("orders", 3, 2);
        for partition in 0..3 {
            produce_numbers(&cluster, "orders", partition, 0..10);
        }
        let connector = connect(config(&cluster.connect_string(), "g"));
        let missing = connector.create_message_streams_for([orders(0), orders(7)], 1);
        let error = missing.unwrap_err().to_string();
        assert_eq!(error, "invalid partitions: orders/7 does not exist");
        let streams = connector
            .create_message_streams_for([orders(0), orders(2)], 2)
            .unwrap();
        let reader = Reader::start(streams);
        for partition in [0, 2] {
            reader.wait_for_numbers("orders", partition, 0..10);
        }
        connector.pause(&[orders(2)]).unwrap();
        let victim = cluster.leader("orders", 2);
        cluster.broker(victim).kill();
        wait_until(LIMIT, "another leader", || {
            ![-1, victim].contains(&cluster.leader("orders", 2))
                && ![-1, victim].contains(&cluster.leader("orders", 0))
        });
        for partition in [0, 2] {
            produce_numbers(&cluster, "orders", partition, 10..20);
        }
        reader.wait_for_numbers("orders", 0, 0..20);
        assert_eq!(reader.values("orders", 2).len(), 10, "still paused");
        connector.resume(&[orders(2)]).unwrap();
        reader.wait_for_numbers("orders", 2, 0..20);
        assert!(reader.values("orders", 1).is_empty());
        let nodes = cluster.shell().children("/consumers").unwrap_or_default();
        if nodes.contains(&String::from("g")) {
            let below = cluster.shell().children("/consumers/g").unwrap();
            assert_eq!(below, ["offsets"], "{version:?}");
        }
        shut_down(&connector);
        reader.finish();
        let stored = crate::scenarios::member::stored_offset(&cluster.shell(), "g", "orders", 2);
        assert!(stored >= Some(19), "{version:?}: {stored:?}");
    }
}

/// Starts everything at one offset, and gives it up at another.
struct FromTo {
    from: i64,
    to: i64,
}

impl RebalanceListener for FromTo {
    fn on_assign(&mut self, assigned: &AssignedPartitions) -> ListenerResult {
        for partition in assigned.partitions() {
            assigned.start_at(partition, self.from)?;
        }
        Ok(())
    }

    fn on_revoke(&mut self, revoked: &RevokedPartitions<'_>) -> ListenerResult {
        for partition in revoked.partitions() {
            revoked.set_position(partition, self.to)?;
        }
        revoked.commit()?;
        Ok(())
    }
}

#[test]
fn a_listener_says_where_partitions_start_and_where_the_next_owner_goes_on() {
    for version in KafkaVersion::BY_DEFAULT {
        let cluster = RealCluster::start(version, 1);
        cluster.create_topic("orders", 2, 1);
        for partition in 0..2 {
            produce_numbers(&cluster, "orders", partition, 0..10);
        }
        let first = connect(config(&cluster.connect_string(), "g").consumer_id("a"));
        let listener = FromTo { from: 6, to: 3 };
        first.set_rebalance_listener(listener).unwrap();
        let by_first = Reader::start([only_stream(&first, "orders")]);
        for partition in 0..2 {
            by_first.wait_for_numbers("orders", partition, 6..10);
        }
        let second = connect(config(&cluster.connect_string(), "g").consumer_id("b"));
        let by_second = Reader::start([only_stream(&second, "orders")]);
        by_second.wait_for_numbers("orders", 1, 3..10);
        shut_down(&first);
        by_second.wait_for_numbers("orders", 1, 3..10);
        let expected: Vec<i64> = (3..10).collect();
        wait_until(LIMIT, "the rest to come back", || {
            by_second.offsets("orders", 0).ends_with(&expected)
        });
        shut_down(&second);
        by_first.finish();
        by_second.finish();
    }
}
