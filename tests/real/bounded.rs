//! Batch jobs: streams that end where the logs of real brokers end.

use kafka_zk_consumer::BoundedOutcome;
use kafka_zk_consumer::BoundedStream;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Poller;
use kafka_zk_consumer::TopicPartition;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::Reader;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_until;

fn bounded(connector: &ConsumerConnector, count: usize) -> Vec<BoundedStream> {
    let mut streams = connector
        .create_bounded_streams([("orders", count)])
        .unwrap();
    streams.remove("orders").unwrap()
}

/// The numbers of each partition, in the order in which they came, once all streams have ended by themselves.
fn read_to_the_end(streams: Vec<BoundedStream>, partitions: i32) -> Vec<Vec<i64>> {
    let reader = Reader::start(streams.into_iter().map(Into::into));
    wait_until(LIMIT, "the end", || reader.has_ended());
    assert!(reader.errors().is_empty(), "{:?}", reader.errors());
    let numbers = |partition| {
        let values = reader.values("orders", partition).into_iter();
        values.map(|value| value.parse().unwrap()).collect()
    };
    (0..partitions).map(numbers).collect()
}

#[test]
fn a_job_reads_up_to_the_ends_and_the_next_one_goes_on_there() {
    for version in KafkaVersion::BY_DEFAULT {
        let cluster = RealCluster::start(version, 1);
        cluster.create_topic("orders", 3, 1);
        for partition in 0..2 {
            produce_numbers(&cluster, "orders", partition, 0..300);
        }
        // Behind the log, which is empty, in the last partition: the rule decides.
        let connector = connect(config(&cluster.connect_string(), "g"));
        let of = TopicPartition::new("orders", 2);
        connector.commit_offsets_for([(of, 1_000)]).unwrap();
        let all: Vec<i64> = (0..300).collect();
        let seen = read_to_the_end(bounded(&connector, 2), 3);
        assert_eq!(seen, [all.clone(), all, Vec::new()], "{version:?}");
        shut_down(&connector);

        for partition in 0..3 {
            produce_numbers(&cluster, "orders", partition, 300..310);
        }
        let connector = connect(config(&cluster.connect_string(), "g"));
        let seen = read_to_the_end(bounded(&connector, 4), 3);
        let new: Vec<i64> = (300..310).collect();
        assert_eq!(seen, [new.clone(), new.clone(), new], "{version:?}");
        shut_down(&connector);
    }
}

#[test]
fn a_job_gets_over_a_broker_that_restarts_and_reports_where_it_stopped() {
    for version in KafkaVersion::BY_DEFAULT {
        let mut cluster = RealCluster::start(version, 1);
        cluster.create_topic("orders", 2, 1);
        for partition in 0..2 {
            produce_numbers(&cluster, "orders", partition, 0..500);
        }
        let few = config(&cluster.connect_string(), "g").fetch_message_max_bytes(500);
        let connector = connect(few.max_poll_records(100));
        let mut stream = bounded(&connector, 1).remove(0);
        let mut read = usize::from(stream.next().unwrap().is_ok());
        cluster.broker(0).kill();
        wait_until(LIMIT, "the failure", || {
            connector.stats().fetch_failures > 0
        });
        cluster.broker(0).restart();
        for message in stream.by_ref().take(499) {
            message.unwrap();
            read += 1;
        }
        let report = stream.report();
        assert!(
            report
                .iter()
                .any(|it| it.outcome == BoundedOutcome::Reading)
        );
        // The rest by a poller, which ends as the stream does.
        let mut poller = Poller::new([stream]);
        while let Some(batch) = poller.poll(LIMIT) {
            let batch = batch.unwrap();
            assert!(!batch.is_empty() && batch.len() <= 100);
            read += batch.len();
        }
        assert_eq!(read, 1_000, "{version:?}");
        let committed = connector.commit_offsets().unwrap();
        assert!(committed.iter().all(|(_, offset)| *offset == 500));
    }
}
