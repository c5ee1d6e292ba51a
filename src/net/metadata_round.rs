//! Asking broker after broker for metadata.

use std::hash::BuildHasher;
use std::hash::RandomState;

use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::error::Error;
use crate::net::blocking_channel::ChannelOptions;
use crate::net::broker_directory::RegisteredBrokers;
use crate::net::broker_version::BrokerVersion;
use crate::net::canceller::Canceller;
use crate::net::cluster_metadata::ClusterMetadataOptions;
use crate::net::request_channel::RequestChannel;
use crate::protocol::MetadataRequest;
use crate::protocol::MetadataResponse;

/// The version that all brokers serve, from 0.8.0 to 4.x.
const SERVED_BY_ALL: i16 = 0;

/// The first version in which a broker can be told to create no topic (0.11, KAFKA-5291); those between add nothing for
/// us.
const CREATES_NOTHING: i16 = 4;

/// What to ask about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Question<'a> {
    /// These topics, at least one. A broker with `auto.create.topics.enable` from before 0.11 creates those that are
    /// gone.
    Named(&'a [String]),
    /// All topics there are, which creates none, for the sake of these.
    All(&'a [String]),
}

/// One try: each broker is asked once, in random order, until one gives an answer that can be read.
pub(super) struct MetadataRound<'a> {
    options: &'a ClusterMetadataOptions,
    canceller: &'a Canceller,
    correlation_id: i32,
}

impl<'a> MetadataRound<'a> {
    pub(super) fn new(
        options: &'a ClusterMetadataOptions,
        canceller: &'a Canceller,
        correlation_id: i32,
    ) -> Self {
        Self {
            options,
            canceller,
            correlation_id,
        }
    }

    /// The number for the next request.
    pub(super) fn correlation_id(&self) -> i32 {
        self.correlation_id
    }

    /// The first answer that can be read.
    pub(super) fn run(
        &mut self,
        registered: &RegisteredBrokers,
        question: Question<'_>,
    ) -> Result<MetadataResponse, Error> {
        let (wanted, names) = match question {
            Question::Named(topics) => (topics, topics),
            // No name at all stands for all topics.
            Question::All(topics) => (topics, &[][..]),
        };
        let brokers = in_random_order(&registered.brokers);
        let mut last = None;
        for broker in &brokers {
            if self.canceller.is_cancelled() {
                return Err(Error::Closed);
            }
            let registration = registered.versions.get(&broker.id).copied();
            match self.ask(&broker.address, version_of(registration), names) {
                Ok(answer) => return Ok(answer),
                Err(Error::Closed) => return Err(Error::Closed),
                Err(error) => {
                    log::warn!("no metadata from broker {broker}: {}", error.chain());
                    last = Some(Box::new(error));
                }
            }
        }
        Err(Error::Metadata {
            topics: wanted.to_vec(),
            brokers: brokers.iter().map(|it| it.address.to_string()).collect(),
            source: last,
        })
    }

    fn ask(
        &mut self,
        address: &BrokerAddress,
        version: BrokerVersion,
        topics: &[String],
    ) -> Result<MetadataResponse, Error> {
        let options = ChannelOptions {
            connect_timeout: self.options.socket_timeout,
            receive_buffer_bytes: 0,
            address_map: self.options.address_map.clone(),
        };
        let client_id = self.options.client_id.clone();
        let canceller = self.canceller.clone();
        let mut channel = RequestChannel::new(address.clone(), options, client_id, canceller)
            .of_version(version)
            .numbered_from(self.correlation_id);
        let mut answer = MetadataResponse::default();
        let version = channel.common_version::<MetadataRequest>();
        let asked = version.and_then(|common| {
            let version = match common {
                CREATES_NOTHING.. => common,
                _ => SERVED_BY_ALL,
            };
            ask_in_parts(&mut channel, version, topics, &mut answer)
        });
        self.correlation_id = channel.next_correlation_id();
        asked.map(|()| answer)
    }
}

/// What a broker is taken for. One without a readable registration gets version 0, which needs no probe.
fn version_of(registration: Option<i32>) -> BrokerVersion {
    match registration {
        None => BrokerVersion::V0_8,
        known => BrokerVersion::of_registration(known),
    }
}

/// Asks for all topics at once, and for ever smaller parts where 0.8 fails a whole request because of one topic.
fn ask_in_parts(
    channel: &mut RequestChannel,
    version: i16,
    topics: &[String],
    answer: &mut MetadataResponse,
) -> Result<(), Error> {
    let request = MetadataRequest {
        topics: Some(topics.to_vec()).filter(|topics| !topics.is_empty()),
        allow_auto_topic_creation: false,
    };
    let part = channel.call(&request, version)?;
    if topics.len() > 1 && has_failed_as_a_whole(&part) {
        let (left, right) = topics.split_at(topics.len() / 2);
        ask_in_parts(channel, version, left, answer)?;
        return ask_in_parts(channel, version, right, answer);
    }
    answer.brokers.extend(part.brokers);
    answer.topics.extend(part.topics);
    Ok(())
}

/// One illegal name, or one topic that could not be created, fails all of them and empties the broker list.
fn has_failed_as_a_whole(answer: &MetadataResponse) -> bool {
    answer.brokers.is_empty()
        && !answer.topics.is_empty()
        && answer.topics.iter().all(|topic| topic.error.is_some())
}

/// So that no broker gets the questions of all clients (KAFKA-890).
pub(super) fn in_random_order(brokers: &[Broker]) -> Vec<Broker> {
    let random = RandomState::new();
    let mut brokers = brokers.to_vec();
    brokers.sort_by_cached_key(|broker| random.hash_one(broker.id));
    brokers
}
