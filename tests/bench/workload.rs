//! A topic to read, and the reading of it.

use std::path::Path;

use kafka_zk_consumer::BrokerAddress;
use kafka_zk_consumer::SyncProducer;
use kafka_zk_consumer::SyncProducerOptions;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSet;
use kafka_zk_consumer::protocol::MessageSetBuilder;
use kafka_zk_consumer::protocol::ProducePartition;
use kafka_zk_consumer::protocol::ProduceRequest;

use crate::arguments::Arguments;
use crate::limit;
use crate::original;
use crate::ours;
use crate::report::Reading;
use crate::support::Cluster;
use crate::support::RealCluster;

const PARTITIONS: i32 = 4;

/// Bytes of messages in one set: `batch.size` of a producer that is tuned for throughput.
const BATCH: usize = 64 * 1024;

/// One topic of messages that are all alike.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) messages: u64,
    value_size: usize,
    codec: Option<Codec>,
    /// Least ratio of our messages per second to the original's, and to the limit's.
    pub(crate) goals: (f64, f64),
}

/// The three readings of one round.
pub(crate) struct Round {
    pub(crate) original: Reading,
    pub(crate) ours: Reading,
    pub(crate) limit: Reading,
}

impl Workload {
    pub(crate) fn all(arguments: &Arguments) -> Vec<Self> {
        let workload = |name, messages: u64, value_size, codec, goals| Self {
            name,
            // The same number in each row of the original's statistics, and in each partition.
            messages: messages.next_multiple_of(80),
            value_size,
            codec,
            goals,
        };
        let (small, large) = (arguments.messages_100, arguments.messages_1000);
        vec![
            workload("plain-100", small, 100, None, (2.5, 0.7)),
            workload("plain-1000", large, 1000, None, (1.8, 0.75)),
            workload("snappy-100", small, 100, Some(Codec::Snappy), (3.0, 0.7)),
        ]
    }

    /// Creates the topic and appends its messages.
    pub(crate) fn fill(&self, cluster: &RealCluster) {
        cluster.create_topic(self.name, PARTITIONS, 1);
        let options = SyncProducerOptions::default();
        let producer = SyncProducer::new(address(cluster), options).expect("a producer");
        let mut values = Values::default();
        let mut left = self.messages;
        let mut lefts = (0..PARTITIONS)
            .map(|_| self.messages / 4)
            .collect::<Vec<_>>();
        while left > 0 {
            let mut request = ProduceRequest::default();
            for (partition, left_here) in (0..).zip(&mut lefts) {
                let most = u64::try_from(BATCH / (self.value_size + 26)).expect("fits");
                let count = most.min(*left_here);
                *left_here -= count;
                left -= count;
                request.partitions.push(ProducePartition {
                    topic_partition: TopicPartition::new(self.name, partition),
                    message_set: self.message_set(count, &mut values),
                });
            }
            let response = producer
                .send(&request)
                .expect("produce")
                .expect("an answer");
            assert!(
                response
                    .partitions
                    .iter()
                    .all(|answer| answer.error.is_none())
            );
        }
    }

    /// Reads it three times, one reader after the other.
    pub(crate) fn run(&self, cluster: &RealCluster, kzc: &Path) -> Round {
        let zookeeper = cluster.connect_string();
        let partitions = usize::try_from(PARTITIONS).expect("fits");
        Round {
            original: original::read(&zookeeper, self.name, self.messages),
            ours: ours::read(kzc, &zookeeper, self.name, self.messages),
            limit: limit::read(&cluster.broker_list(), self.name, partitions, self.messages),
        }
    }

    fn message_set(&self, count: u64, values: &mut Values) -> MessageSet {
        let mut set = match self.codec {
            None => MessageSetBuilder::new(),
            Some(codec) => MessageSetBuilder::compressed(codec),
        };
        for offset in (0..).take(usize::try_from(count).expect("fits")) {
            let value = values.next(self.value_size);
            set.message(offset, None, Some(&value)).expect("a message");
        }
        set.build().expect("a message set")
    }
}

fn address(cluster: &RealCluster) -> BrokerAddress {
    let list = cluster.broker_list();
    let (host, port) = list.split_once(':').expect("one broker");
    BrokerAddress::new(host, port.parse().expect("a port"))
}

/// Values that look like log lines of some service: snappy packs them to about half.
#[derive(Default)]
struct Values {
    state: u64,
}

impl Values {
    fn next(&mut self, size: usize) -> Vec<u8> {
        let mut value = Vec::new();
        while value.len() < size {
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let random = self.state >> 24;
            let line = format!(
                "{{\"user\":{},\"page\":\"/item/{:x}\",\"status\":200,\"referer\":\"http://example.org/{}\"}} ",
                random % 1_000_000,
                random,
                random % 97,
            );
            value.extend_from_slice(line.as_bytes());
        }
        value.truncate(size);
        value
    }
}
