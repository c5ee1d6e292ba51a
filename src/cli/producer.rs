//! Writes to the leaders of one topic.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use kafka_zk_consumer::BrokerAddress;
use kafka_zk_consumer::BrokerAddressMap;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::ErrorCode;
use kafka_zk_consumer::SimpleConsumer;
use kafka_zk_consumer::SimpleConsumerOptions;
use kafka_zk_consumer::SyncProducer;
use kafka_zk_consumer::SyncProducerOptions;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::protocol::MessageSet;
use kafka_zk_consumer::protocol::MetadataResponse;
use kafka_zk_consumer::protocol::ProducePartition;
use kafka_zk_consumer::protocol::ProduceRequest;
use kafka_zk_consumer::protocol::RequiredAcks;

/// How long a broker may take to append.
const APPEND: Duration = Duration::from_secs(5);

/// For connecting to a broker, and again for each of its answers.
const SOCKET: Duration = Duration::from_secs(10);

const CLIENT_ID: &str = "kzc-produce";

/// Knows the leaders of a topic's partitions, and has a connection to each.
#[derive(Debug)]
pub(crate) struct Producer {
    topic: String,
    acks: RequiredAcks,
    /// To ask for leaders: those given at first, those heard of later.
    brokers: Vec<BrokerAddress>,
    /// By partition; `None` while there is no leader.
    leaders: BTreeMap<i32, Option<BrokerAddress>>,
    connections: HashMap<BrokerAddress, SyncProducer>,
    address_map: BrokerAddressMap,
}

/// Why the messages for one partition were not acknowledged.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) partition: i32,
    pub(crate) reason: String,
    /// Another try, after a [`refresh`](Producer::refresh), may succeed.
    pub(crate) is_retriable: bool,
}

impl Producer {
    /// For `topic` in the cluster of `brokers`, without knowing its partitions yet.
    pub(crate) fn new(topic: &str, brokers: Vec<BrokerAddress>, acks: RequiredAcks) -> Self {
        Self {
            topic: topic.to_owned(),
            acks,
            brokers,
            leaders: BTreeMap::new(),
            connections: HashMap::new(),
            address_map: BrokerAddressMap::default(),
        }
    }

    /// Where brokers are reached that are not reached where they say.
    pub(crate) fn with_address_map(mut self, map: BrokerAddressMap) -> Self {
        self.address_map = map;
        self
    }

    /// The numbers of all partitions in order; none before the first [`refresh`](Self::refresh).
    pub(crate) fn partitions(&self) -> Vec<i32> {
        self.leaders.keys().copied().collect()
    }

    /// Asks one broker after the other for the leaders, until one answers. The error is that of the last.
    ///
    /// `Ok(Some(code))` when the topic as a whole has an error.
    pub(crate) fn refresh(&mut self) -> Result<Option<ErrorCode>, Error> {
        let mut last = Error::Metadata {
            topics: vec![self.topic.clone()],
            brokers: Vec::new(),
            source: None,
        };
        for broker in self.brokers.clone() {
            match self.ask(broker) {
                Ok(answer) => return Ok(self.learn(answer)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Sends each set to its leader, once. Returns what was not acknowledged, which may have been appended all the
    /// same if the connection broke.
    pub(crate) fn send(&mut self, sets: BTreeMap<i32, MessageSet>) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let mut requests: BTreeMap<BrokerAddress, Vec<ProducePartition>> = BTreeMap::new();
        for (partition, message_set) in sets {
            match self.leaders.get(&partition).cloned().flatten() {
                Some(leader) => requests.entry(leader).or_default().push(ProducePartition {
                    topic_partition: TopicPartition::new(self.topic.as_str(), partition),
                    message_set,
                }),
                None => refusals.push(Refusal {
                    partition,
                    reason: format!("{}/{partition} has no leader", self.topic),
                    is_retriable: true,
                }),
            }
        }
        for (leader, partitions) in requests {
            refusals.extend(self.send_to(&leader, partitions));
        }
        refusals
    }

    fn ask(&self, broker: BrokerAddress) -> Result<MetadataResponse, Error> {
        let options = SimpleConsumerOptions {
            socket_timeout: SOCKET,
            client_id: CLIENT_ID.to_owned(),
            address_map: self.address_map.clone(),
            ..SimpleConsumerOptions::default()
        };
        SimpleConsumer::new(broker, options)?.topic_metadata(&[&self.topic])
    }

    fn learn(&mut self, answer: MetadataResponse) -> Option<ErrorCode> {
        let brokers: HashMap<i32, BrokerAddress> = answer
            .brokers
            .into_iter()
            .map(|broker| (broker.id, broker.address))
            .collect();
        for address in brokers.values() {
            if !self.brokers.contains(address) {
                self.brokers.push(address.clone());
            }
        }
        let mut topics = answer.topics.into_iter();
        let Some(topic) = topics.find(|topic| topic.topic == self.topic) else {
            return Some(ErrorCode::UnknownTopicOrPartition);
        };
        for partition in topic.partitions {
            let leader = partition.leader.and_then(|id| brokers.get(&id).cloned());
            self.leaders.insert(partition.partition, leader);
        }
        topic.error
    }

    fn send_to(&mut self, leader: &BrokerAddress, sent: Vec<ProducePartition>) -> Vec<Refusal> {
        let partitions: Vec<i32> = sent
            .iter()
            .map(|part| part.topic_partition.partition())
            .collect();
        let request = ProduceRequest {
            acks: self.acks,
            timeout: APPEND,
            partitions: sent,
            ..ProduceRequest::default()
        };
        match self.connection(leader).and_then(|to| to.send(&request)) {
            Ok(answer) => {
                let mut answers: HashMap<i32, Option<ErrorCode>> = answer
                    .into_iter()
                    .flat_map(|answer| answer.partitions)
                    .map(|part| (part.topic_partition.partition(), part.error))
                    .collect();
                let refused = partitions.into_iter().filter_map(|partition| {
                    let reason = match answers.remove(&partition) {
                        Some(None) => return None,
                        Some(Some(code)) => Some(code),
                        None => None,
                    };
                    Some(self.refusal(leader, partition, reason))
                });
                refused.collect()
            }
            Err(error) => {
                self.connections.remove(leader);
                let refused = partitions.into_iter().map(|partition| Refusal {
                    partition,
                    reason: error.chain(),
                    is_retriable: error.is_retriable(),
                });
                refused.collect()
            }
        }
    }

    /// `None` for a partition that is missing in the answer.
    fn refusal(&self, leader: &BrokerAddress, partition: i32, code: Option<ErrorCode>) -> Refusal {
        let of = format!("{}/{partition}", self.topic);
        Refusal {
            partition,
            reason: match code {
                Some(code) => format!("broker {leader} refused messages for {of}: {code}"),
                None => format!("broker {leader} did not answer for {of}"),
            },
            is_retriable: code.is_none_or(ErrorCode::is_retriable),
        }
    }

    fn connection(&mut self, to: &BrokerAddress) -> Result<&SyncProducer, Error> {
        match self.connections.entry(to.clone()) {
            Entry::Occupied(connection) => Ok(connection.into_mut()),
            Entry::Vacant(place) => {
                let options = SyncProducerOptions {
                    socket_timeout: SOCKET,
                    client_id: CLIENT_ID.to_owned(),
                    address_map: self.address_map.clone(),
                };
                Ok(place.insert(SyncProducer::new(to.clone(), options)?))
            }
        }
    }
}
