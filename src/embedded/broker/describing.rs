//! Answers of a broker to those who ask for brokers and leaders.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::cluster::Broker;
use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::cluster_state::OFFSETS_TOPIC;
use crate::embedded::broker::partition::Partition;
use crate::embedded::broker::request_handler::RequestHandler;
use crate::embedded::broker_version::Behaviour;
use crate::embedded::topic_name;
use crate::error::ErrorCode;
use crate::protocol::MetadataRequest;
use crate::protocol::MetadataResponse;
use crate::protocol::PartitionMetadata;
use crate::protocol::TopicMetadata;

impl RequestHandler {
    /// Describes the topics, and creates those that do not exist where that is wanted.
    pub(super) fn metadata(&self, request: &MetadataRequest, version: i16) -> MetadataResponse {
        let behaviour = self.behaviour();
        // A topic that is asked for twice is answered once.
        let wanted: BTreeSet<&str> = request
            .topics
            .iter()
            .flatten()
            .map(String::as_str)
            .collect();
        let mut failures = BTreeMap::new();
        for topic in &wanted {
            match self.create_when_missing(topic) {
                Ok(true) => drop(failures.insert(*topic, ErrorCode::LeaderNotAvailable)),
                Ok(false) => (),
                Err(code) if behaviour.fails_metadata_as_a_whole => {
                    return Self::refuse_metadata(request, code);
                }
                Err(ErrorCode::UnknownServerError) => {
                    failures.insert(*topic, ErrorCode::InvalidReplicationFactor);
                }
                Err(code) => drop(failures.insert(*topic, code)),
            }
        }
        self.shared().read(|state| {
            let all = || state.topics.keys().map(String::as_str).collect();
            let wanted = if request.topics.is_none() {
                all()
            } else {
                wanted
            };
            let topics = wanted.into_iter().map(|topic| match failures.get(topic) {
                Some(code) => failed(topic, *code),
                None => described(state, topic, version),
            });
            MetadataResponse {
                brokers: brokers(state, behaviour),
                controller: state.registered().first().map(|broker| broker.id),
                topics: topics.collect(),
                ..MetadataResponse::default()
            }
        })
    }

    pub(super) fn refuse_metadata(request: &MetadataRequest, code: ErrorCode) -> MetadataResponse {
        let wanted: BTreeSet<&String> = request.topics.iter().flatten().collect();
        MetadataResponse {
            topics: wanted
                .into_iter()
                .map(|topic| failed(topic, code))
                .collect(),
            ..MetadataResponse::default()
        }
    }

    /// `true` when the topic was created.
    pub(super) fn create_when_missing(&self, topic: &str) -> Result<bool, ErrorCode> {
        let (is_known, settings) = self.shared().read(|state| {
            let settings = &state.settings;
            let shape = match topic {
                OFFSETS_TOPIC => Some((
                    settings.offsets_topic_partitions,
                    settings
                        .offsets_topic_replicas
                        .min(state.registered().len()),
                )),
                _ => settings.auto_create_topics,
            };
            (state.topics.contains_key(topic), shape)
        });
        let Some((partitions, replicas)) = settings.filter(|_| !is_known) else {
            return Ok(false);
        };
        topic_name::check(topic).map_err(|_| ErrorCode::InvalidTopic)?;
        let created = self.controller().create_topic(topic, partitions, replicas);
        match created {
            Ok(is_new) => Ok(is_new),
            Err(error) => {
                log::warn!("cannot create topic {topic}: {error}");
                Err(ErrorCode::UnknownServerError)
            }
        }
    }
}

fn brokers(state: &ClusterState, behaviour: &Behaviour) -> Vec<Broker> {
    match behaviour.tells_brokers_without_topics || !state.topics.is_empty() {
        true => state.registered(),
        false => Vec::new(),
    }
}

fn described(state: &ClusterState, topic: &str, version: i16) -> TopicMetadata {
    let Some(partitions) = state.topics.get(topic) else {
        return failed(topic, ErrorCode::UnknownTopicOrPartition);
    };
    let partitions = (0..).zip(partitions);
    TopicMetadata {
        error: None,
        topic: topic.to_owned(),
        is_internal: topic == OFFSETS_TOPIC,
        partitions: partitions
            .map(|(number, partition)| described_partition(state, number, partition, version))
            .collect(),
    }
}

/// As in Kafka 0.8.2.2: in version 0 replicas that are down are left out, and code 9 tells of it.
fn described_partition(
    state: &ClusterState,
    number: i32,
    partition: &Partition,
    version: i16,
) -> PartitionMetadata {
    let live = |ids: &[i32]| -> Vec<i32> {
        let ids = ids.iter().copied();
        ids.filter(|id| version >= 1 || state.is_registered(*id))
            .collect()
    };
    let leader = partition.leader().filter(|id| state.is_registered(*id));
    let replicas = live(partition.replicas());
    let isr = live(partition.isr());
    let is_short = replicas.len() < partition.replicas().len() || isr.len() < partition.isr().len();
    let error = match leader {
        None => Some(ErrorCode::LeaderNotAvailable),
        Some(_) if is_short => Some(ErrorCode::ReplicaNotAvailable),
        Some(_) => None,
    };
    PartitionMetadata {
        error,
        partition: number,
        leader,
        replicas,
        isr: if leader.is_some() { isr } else { Vec::new() },
        offline_replicas: Vec::new(),
    }
}

fn failed(topic: &str, code: ErrorCode) -> TopicMetadata {
    TopicMetadata {
        error: Some(code),
        topic: topic.to_owned(),
        is_internal: topic == OFFSETS_TOPIC,
        partitions: Vec::new(),
    }
}
