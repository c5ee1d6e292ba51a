//! The way to the broker that keeps a group's offsets.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::iter;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::config::BrokerAddressMap;
use crate::error::Error;
use crate::error::ErrorCode;
use crate::net::blocking_channel::ChannelOptions;
use crate::net::broker_directory::BrokerDirectory;
use crate::net::broker_version::BrokerVersion;
use crate::net::canceller::Canceller;
use crate::net::metadata_round::in_random_order;
use crate::net::request_channel::RequestChannel;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::OffsetCommitPartition;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::Request;
use crate::thread::StopSignal;

/// Version 0 reads ZooKeeper. Version 2 tells what concerns the group once, 3 only adds the time of a quota.
const FETCH_VERSIONS: RangeInclusive<i16> = 1..=2;

/// Version 0 writes to ZooKeeper. Version 2 leaves it to the broker how long it keeps the offsets, 3 only adds the time
/// of a quota.
const COMMIT_VERSIONS: RangeInclusive<i16> = 1..=2;

/// The only one that all brokers from 0.8.2 on know.
const FIND_VERSION: i16 = 0;

/// How [`OffsetChannel`] asks.
#[derive(Clone, Debug)]
pub(crate) struct OffsetChannelOptions {
    /// `group.id`.
    pub(crate) group: String,
    /// `client.id`.
    pub(crate) client_id: String,
    /// `broker.address.map`.
    pub(crate) address_map: BrokerAddressMap,
    /// `offsets.channel.socket.timeout.ms`: for connecting to one broker, and again for its answer.
    pub(crate) socket_timeout: Duration,
    /// `offsets.channel.backoff.ms`: between two rounds of the search for the coordinator.
    pub(crate) backoff: Duration,
    /// How many rounds a search has, at least 1.
    pub(crate) rounds: u32,
}

/// What ends a call before its time.
#[derive(Clone)]
pub(crate) struct CallEnd {
    /// Observed by every wait.
    pub(crate) stop: StopSignal,
    /// Whether the caller may still speak for the group. Asked before each request, and every 50 ms of a wait; must
    /// not block.
    pub(crate) is_entitled: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl CallEnd {
    fn has_come(&self) -> bool {
        self.stop.is_stopped() || !(self.is_entitled)()
    }
}

/// Commits and fetches offsets at the coordinator of one group, which it finds by asking any live broker.
///
/// One call at a time, over one connection, so that commits keep their order. Each call sends its request once: trying
/// again is up to the caller. A coordinator that says that it is none, hangs up, refuses the connection or does not
/// answer in time is forgotten, and the next call looks for it again.
///
/// The registration of the coordinator decides about the versions of the requests, as it stands when the connection is
/// opened: in a rolling upgrade the next coordinator, or the same one after its restart, is of another version.
///
/// Unlike Kafka 0.8.2.2: the search has an end (D33), and its connections, with their shorter time-out, are not used
/// for the commits (D34).
pub(crate) struct OffsetChannel {
    directory: Arc<dyn BrokerDirectory>,
    options: OffsetChannelOptions,
    canceller: Canceller,
    /// Held for a whole call.
    coordinator: Mutex<Option<Coordinator>>,
}

struct Coordinator {
    broker: Broker,
    channel: RequestChannel,
}

impl OffsetChannel {
    pub(crate) fn new(directory: Arc<dyn BrokerDirectory>, options: OffsetChannelOptions) -> Self {
        Self {
            directory,
            options,
            canceller: Canceller::with_reason(|| false),
            coordinator: Mutex::new(None),
        }
    }

    /// Stores offsets, each with its own result, in the order of the arguments. Offsets beyond the end of `metadata`
    /// have none.
    ///
    /// # Errors
    ///
    /// [`Error::Coordinator`] when nobody is found to send them to, [`Error::Closed`] at the end of the call. Whether
    /// they were stored is not known after [`Error::Broker`] and [`Error::Response`].
    pub(crate) fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        metadata: &[String],
        end: &CallEnd,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        let metadata = metadata.iter().cloned().chain(iter::repeat(String::new()));
        let partitions =
            offsets
                .iter()
                .zip(metadata)
                .map(
                    |((topic_partition, offset), metadata)| OffsetCommitPartition {
                        topic_partition: topic_partition.clone(),
                        offset: *offset,
                        timestamp: None,
                        metadata: Some(metadata),
                    },
                );
        let request = OffsetCommitRequest {
            group: self.options.group.clone(),
            partitions: partitions.collect(),
            ..OffsetCommitRequest::default()
        };
        let (address, response) = self.call(&request, COMMIT_VERSIONS, end)?;
        let answers = response.partitions.into_iter();
        let answers = answers.map(|it| (it.topic_partition, it.error.map_or(Ok(()), Err)));
        let wanted = offsets.iter().map(|(topic_partition, _)| topic_partition);
        Ok(self.results(&address, OffsetCommitRequest::API, wanted, answers))
    }

    /// The stored offset of each partition, in the order of the arguments; `None` when nothing was ever stored.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit), and [`Error::Refused`] for what concerns the whole group.
    pub(crate) fn fetch(
        &self,
        partitions: &[TopicPartition],
        end: &CallEnd,
    ) -> Result<Vec<Result<Option<i64>, Error>>, Error> {
        let request = OffsetFetchRequest {
            group: self.options.group.clone(),
            partitions: Some(partitions.to_vec()),
        };
        let (address, response) = self.call(&request, FETCH_VERSIONS, end)?;
        if let Some(code) = response.error {
            if is_elsewhere(code) {
                self.forget();
            }
            return Err(Error::Refused {
                address,
                api: OffsetFetchRequest::API,
                code,
            });
        }
        let answers = response.partitions.into_iter();
        let answers = answers.map(|it| (it.topic_partition, it.error.map_or(Ok(it.offset), Err)));
        Ok(self.results(&address, OffsetFetchRequest::API, partitions, answers))
    }

    /// Looks for the coordinator anew in the next call.
    pub(crate) fn forget(&self) {
        *self.coordinator.lock() = None;
    }

    /// The answers in the order of `wanted`, where a partition may stand twice. A coordinator that says that it is none
    /// is forgotten.
    fn results<'a, T: Copy>(
        &self,
        address: &BrokerAddress,
        api: &'static str,
        wanted: impl IntoIterator<Item = &'a TopicPartition>,
        answers: impl Iterator<Item = (TopicPartition, Result<T, ErrorCode>)>,
    ) -> Vec<Result<T, Error>> {
        let answers: HashMap<TopicPartition, Result<T, ErrorCode>> = answers.collect();
        let mut codes = answers.values().filter_map(|answer| answer.err());
        if codes.any(is_elsewhere) {
            self.forget();
        }
        let results = wanted.into_iter().map(|topic_partition| {
            let answer = answers.get(topic_partition).copied();
            let answer = answer.ok_or_else(|| missing(address, api, topic_partition))?;
            answer.map_err(|code| refused(address, api, topic_partition, code))
        });
        results.collect()
    }

    fn call<Q: Request>(
        &self,
        request: &Q,
        versions: RangeInclusive<i16>,
        end: &CallEnd,
    ) -> Result<(BrokerAddress, Q::Response), Error> {
        let mut slot = self.coordinator.lock();
        let reason = end.clone();
        self.canceller.replace_reason(move || reason.has_come());
        let mut coordinator = match slot.take() {
            Some(coordinator) => coordinator,
            None => self.find(end)?,
        };
        if coordinator.channel.has_stale_connection() {
            coordinator = self.coordinator(coordinator.broker, end)?;
        }
        // Who keeps offsets is 0.8.2 at least.
        let channel = &mut coordinator.channel;
        let version = channel.common_or_lowest_version_of::<Q>(versions)?;
        let address = coordinator.broker.address.clone();
        log::debug!("{} v{version} goes to coordinator {address}", Q::API);
        let response = coordinator.channel.call(request, version)?;
        *slot = Some(coordinator);
        Ok((address, response))
    }

    /// Asks in rounds until somebody names the coordinator.
    fn find(&self, end: &CallEnd) -> Result<Coordinator, Error> {
        let mut left = self.options.rounds;
        loop {
            left = left.saturating_sub(1);
            let error = match self.ask_all(end) {
                Ok(broker) => {
                    let group = &self.options.group;
                    log::info!("offsets of group {group} are kept by broker {broker}");
                    return self.coordinator(broker, end);
                }
                Err(error) => error,
            };
            if left == 0 || !error.is_retriable() {
                return Err(error);
            }
            log::warn!("{}", error.chain());
            if !self.canceller.pause(self.options.backoff) {
                return Err(Error::Closed);
            }
        }
    }

    /// Asks broker after broker until one answers, whatever.
    fn ask_all(&self, end: &CallEnd) -> Result<Broker, Error> {
        let brokers = in_random_order(&self.directory.brokers(&end.stop)?.brokers);
        let mut last = None;
        for broker in &brokers {
            match self.ask(&broker.address) {
                Ok(answer) => return answer,
                Err(Error::Closed) => return Err(Error::Closed),
                Err(error) => last = Some(error),
            }
        }
        let reason = match &last {
            None => "there is no broker to ask",
            Some(error) if is_hang_up(error) => {
                "no broker answers; those before Kafka 0.8.2 hang up, and cannot keep offsets"
            }
            Some(_) => "no broker answers",
        };
        Err(self.not_found(reason.into(), None, last.map(Box::new)))
    }

    /// What one broker says.
    fn ask(&self, address: &BrokerAddress) -> Result<Result<Broker, Error>, Error> {
        let request = FindCoordinatorRequest {
            group: self.options.group.clone(),
        };
        let answer = self.connection(address).call(&request, FIND_VERSION)?;
        Ok(match (answer.coordinator, answer.error) {
            (Some(broker), None) => Ok(broker),
            (_, Some(code)) => {
                let reason = format!("broker {address} answers {code}");
                Err(self.not_found(reason, Some(code), None))
            }
            (None, None) => {
                let reason = format!("broker {address} names one without a usable port");
                Err(self.not_found(reason, None, None))
            }
        })
    }

    /// Not connected yet.
    fn coordinator(&self, broker: Broker, end: &CallEnd) -> Result<Coordinator, Error> {
        let versions = self.directory.brokers(&end.stop)?.versions;
        let version = BrokerVersion::of_registration(versions.get(&broker.id).copied());
        Ok(Coordinator {
            channel: self.connection(&broker.address).of_version(version),
            broker,
        })
    }

    fn connection(&self, address: &BrokerAddress) -> RequestChannel {
        let options = ChannelOptions {
            connect_timeout: self.options.socket_timeout,
            receive_buffer_bytes: 0,
            address_map: self.options.address_map.clone(),
        };
        let client_id = self.options.client_id.clone();
        RequestChannel::new(address.clone(), options, client_id, self.canceller.clone())
    }

    fn not_found(
        &self,
        reason: String,
        code: Option<ErrorCode>,
        source: Option<Box<Error>>,
    ) -> Error {
        Error::Coordinator {
            group: self.options.group.clone(),
            reason,
            code,
            source,
        }
    }
}

fn is_elsewhere(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::CoordinatorNotAvailable | ErrorCode::NotCoordinator
    )
}

fn is_hang_up(error: &Error) -> bool {
    matches!(error, Error::Broker { source, .. } if source.kind() == ErrorKind::UnexpectedEof)
}

fn missing(address: &BrokerAddress, api: &'static str, of: &TopicPartition) -> Error {
    Error::Incomplete {
        address: address.clone(),
        api,
        what: of.to_string(),
    }
}

fn refused(
    address: &BrokerAddress,
    api: &'static str,
    of: &TopicPartition,
    code: ErrorCode,
) -> Error {
    Error::Partition {
        address: address.clone(),
        api,
        topic_partition: of.clone(),
        code,
    }
}

#[cfg(test)]
mod tests;
