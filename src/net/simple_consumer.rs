//! Asks one broker for messages, offsets and metadata.

use std::cell::Cell;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::config::BrokerAddressMap;
use crate::error::Error;
use crate::net::blocking_channel::ChannelOptions;
use crate::net::broker_version::BrokerVersion;
use crate::net::canceller::Canceller;
use crate::net::fetch_session;
use crate::net::fetch_session::FetchSession;
use crate::net::request_channel::RequestChannel;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::FetchResponseHeader;
use crate::protocol::FetchSink;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MetadataRequest;
use crate::protocol::MetadataResponse;
use crate::protocol::OffsetTime;
use crate::protocol::PartitionHeader;
use crate::protocol::Request;
use crate::protocol::Response;
use crate::protocol::read_fetch_response;
use crate::thread::StopSignal;

/// Room in a fetch answer besides the message sets: the throttle time, topics nobody asked for, and good will.
const FETCH_OVERHEAD: usize = 1024 * 1024;

/// Room in a fetch answer for each partition, besides its message set and the topic's name.
const PARTITION_OVERHEAD: usize = 64;

/// The first version of Fetch whose answers may hold one message larger than all limits.
const FIRST_WITH_ONE_MESSAGE: i16 = 3;

/// Room for that message: brokers take no request above 100 MiB unless they are told to.
const ONE_MESSAGE: usize = 256 * 1024 * 1024;

/// How a [`SimpleConsumer`] talks to its broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleConsumerOptions {
    /// For connecting, and again for each request until the last byte of its answer. Default 30 s.
    pub socket_timeout: Duration,
    /// SO_RCVBUF in bytes; 0 leaves the system's default. Default 64 KiB.
    pub receive_buffer_bytes: usize,
    /// What the broker's logs, quotas and metrics call us; of ASCII letters, digits, `.`, `_` and `-`. Default empty.
    pub client_id: String,
    /// Which Kafka the broker runs. Default [`BrokerVersion::V0_8`], which is right for every broker up to 3.9.
    pub broker_version: BrokerVersion,
    /// Where the broker is reached, if not where it says. Default empty.
    pub address_map: BrokerAddressMap,
}

impl Default for SimpleConsumerOptions {
    fn default() -> Self {
        Self {
            socket_timeout: Duration::from_secs(30),
            receive_buffer_bytes: 64 * 1024,
            client_id: String::new(),
            broker_version: BrokerVersion::default(),
            address_map: BrokerAddressMap::default(),
        }
    }
}

/// A client of one broker, without group, leader search or offsets of its own.
///
/// Connects when first used. Requests of several threads wait for each other. A request that fails
/// is repeated once over a new connection, so an idle connection that the broker has closed is not
/// noticed; the error is that of the second try.
///
/// Each request goes out in the highest version that is known on both sides, going by
/// [`broker_version`](SimpleConsumerOptions::broker_version); without a common one the error is
/// [`Error::UnsupportedVersion`].
pub struct SimpleConsumer {
    address: BrokerAddress,
    socket_timeout: Duration,
    canceller: Canceller,
    /// Held during a whole request: one connection serves one request at a time.
    channel: Mutex<RequestChannel>,
}

/// What it means that an answer lacks a partition that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absence {
    /// Something is wrong with it: an answer to a request of its own names every partition.
    Failed,
    /// Within a fetch session: there are no messages for it, and its high watermark is still the same.
    NoNews,
    /// Nothing: a quota emptied the answer.
    Untold,
}

impl SimpleConsumer {
    /// A client of the broker at `address`, not connected yet.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the client id has other characters than those allowed, or the
    /// timeout is zero or above 2,147,483,647 ms.
    pub fn new(address: BrokerAddress, options: SimpleConsumerOptions) -> Result<Self, Error> {
        Self::with(address, options, Canceller::new())
    }

    /// As [`new`](Self::new), and its calls end once `stop` says so.
    pub(crate) fn observing(
        address: BrokerAddress,
        options: SimpleConsumerOptions,
        stop: &StopSignal,
    ) -> Result<Self, Error> {
        Self::with(address, options, Canceller::observing(stop))
    }

    fn with(
        address: BrokerAddress,
        options: SimpleConsumerOptions,
        canceller: Canceller,
    ) -> Result<Self, Error> {
        check_client_id(&options.client_id)?;
        check_socket_timeout(options.socket_timeout)?;
        let channel = ChannelOptions {
            connect_timeout: options.socket_timeout,
            receive_buffer_bytes: options.receive_buffer_bytes,
            address_map: options.address_map,
        };
        Ok(Self {
            channel: Mutex::new(
                RequestChannel::new(
                    address.clone(),
                    channel,
                    options.client_id,
                    canceller.clone(),
                )
                .of_version(options.broker_version),
            ),
            address,
            socket_timeout: options.socket_timeout,
            canceller,
        })
    }

    /// The broker's address.
    pub fn address(&self) -> &BrokerAddress {
        &self.address
    }

    /// Asks for messages. What the request says of a fetch session is the caller's affair.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the broker may wait for longer than we do. The error of one
    /// partition stands in the response.
    pub fn fetch(&self, request: &FetchRequest) -> Result<FetchResponse, Error> {
        self.check_wait(request)?;
        self.twice(
            |channel| {
                let version = channel.common_version::<FetchRequest>()?;
                channel.exchange(request, version, largest_answer(version, request), |body| {
                    FetchResponse::decode(version, body)
                })
            },
            || true,
        )
    }

    /// Asks for messages and gives each partition to `sink` while the answer arrives. Returns what it means that the
    /// answer lacks one.
    ///
    /// `wanted` names all partitions each time; `session`, which belongs to the caller alone, leaves out what the
    /// broker remembers.
    ///
    /// Once the sink has had a partition a failed request is not repeated, for the offsets in it are
    /// no longer the right ones. Buffers that the sink lent to a failed request do not come back.
    ///
    /// # Errors
    ///
    /// As [`fetch`](Self::fetch), and [`Error::Refused`]. What the sink received before the error is whole and good.
    pub(crate) fn fetch_into(
        &self,
        session: &mut FetchSession,
        wanted: &mut FetchRequest,
        sink: &mut dyn FetchSink,
    ) -> Result<Absence, Error> {
        self.check_wait(wanted)?;
        let handed = Cell::new(false);
        let mut sink = Watched {
            sink,
            handed: &handed,
            names_follower: false,
        };
        self.twice(
            |channel| {
                let version = channel.common_version_of::<FetchRequest>(session.versions())?;
                session.go_on_over(channel.connection());
                let is_incremental = session.is_incremental();
                match fetch_once(channel, version, session, wanted, &mut sink) {
                    // The broker has dropped the session; without one it cannot complain of it again.
                    Err(Error::Refused { code, .. })
                        if is_incremental && fetch_session::ends_session(code) =>
                    {
                        log::debug!("new fetch session with {}: {code}", self.address);
                        fetch_once(channel, version, session, wanted, &mut sink)
                    }
                    answer => answer,
                }
            },
            || !handed.get(),
        )
    }

    /// Asks about topics; none at all asks about every topic. A broker may create topics that it is asked about.
    pub fn topic_metadata(&self, topics: &[&str]) -> Result<MetadataResponse, Error> {
        let topics = topics.iter().map(|topic| String::from(*topic));
        let topics = Some(topics.collect()).filter(|topics: &Vec<String>| !topics.is_empty());
        self.call(&MetadataRequest {
            topics,
            allow_auto_topic_creation: true,
        })
    }

    /// Asks for offsets before a time.
    ///
    /// # Errors
    ///
    /// The error of one partition stands in the response.
    pub fn offsets_before(
        &self,
        request: &ListOffsetsRequest,
    ) -> Result<ListOffsetsResponse, Error> {
        self.call(request)
    }

    /// As [`offsets_before`](Self::offsets_before), in one of the versions `ours`, and with the version that it was: what
    /// a time means differs, so the request is made for it.
    pub(crate) fn offsets_by_version(
        &self,
        ours: RangeInclusive<i16>,
        request: impl Fn(i16) -> ListOffsetsRequest,
    ) -> Result<(i16, ListOffsetsResponse), Error> {
        self.twice(
            |channel| {
                let version = channel.common_version_of::<ListOffsetsRequest>(ours.clone())?;
                let response = channel.call(&request(version), version)?;
                Ok((version, response))
            },
            || true,
        )
    }

    /// The one offset at `time` in a partition that this broker leads.
    ///
    /// # Errors
    ///
    /// [`Error::Partition`] with the broker's code; [`Error::Incomplete`] when it names neither offset nor error,
    /// which may happen for a time before the log's first segment, and else is worth another try.
    pub fn earliest_or_latest_offset(
        &self,
        topic_partition: &TopicPartition,
        time: OffsetTime,
    ) -> Result<i64, Error> {
        let request = ListOffsetsRequest::default().list(topic_partition.clone(), time);
        let response = self.offsets_before(&request)?;
        let api = ListOffsetsRequest::API;
        let lacks = |what| Error::Incomplete {
            address: self.address.clone(),
            api,
            what,
        };
        let mut answers = response.partitions.into_iter();
        let answer = answers
            .find(|answer| answer.topic_partition == *topic_partition)
            .ok_or_else(|| lacks(format!("partition {topic_partition}")))?;
        if let Some(code) = answer.error {
            return Err(Error::Partition {
                address: self.address.clone(),
                api,
                topic_partition: answer.topic_partition,
                code,
            });
        }
        let offset = answer.offset();
        offset.ok_or_else(|| lacks(format!("an offset of {topic_partition}")))
    }

    /// Ends the request in flight, closes the connection, and refuses whatever comes later.
    pub fn close(&self) {
        self.canceller.cancel();
        self.channel.lock().disconnect();
    }

    fn call<Q: Request>(&self, request: &Q) -> Result<Q::Response, Error> {
        self.twice(
            |channel| {
                let version = channel.common_version::<Q>()?;
                channel.call(request, version)
            },
            || true,
        )
    }

    /// Tries once more over a new connection while that is of use and `may_repeat` agrees.
    fn twice<T>(
        &self,
        mut attempt: impl FnMut(&mut RequestChannel) -> Result<T, Error>,
        may_repeat: impl Fn() -> bool,
    ) -> Result<T, Error> {
        let mut channel = self.channel.lock();
        match attempt(&mut channel) {
            Err(error) if is_repeatable(&error) && may_repeat() => {
                log::warn!("trying again: {}", error.chain());
                attempt(&mut channel)
            }
            result => result,
        }
    }

    fn check_wait(&self, request: &FetchRequest) -> Result<(), Error> {
        if request.max_wait > self.socket_timeout {
            return Err(Error::InvalidArgument {
                name: "max_wait",
                reason: format!(
                    "{} ms is longer than the socket timeout of {} ms",
                    request.max_wait.as_millis(),
                    self.socket_timeout.as_millis()
                ),
            });
        }
        Ok(())
    }
}

impl fmt::Debug for SimpleConsumer {
    /// Leaves out the frames, which hold what applications send.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimpleConsumer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// Refuses what cannot stand in the name of a broker's metric.
pub(super) fn check_client_id(id: &str) -> Result<(), Error> {
    let is_allowed = |it: char| it.is_ascii_alphanumeric() || matches!(it, '.' | '_' | '-');
    if id.chars().all(is_allowed) {
        return Ok(());
    }
    Err(Error::InvalidArgument {
        name: "client id",
        reason: format!("{id:?} has other characters than ASCII letters, digits, `.`, `_` and `-`"),
    })
}

/// Refuses what the property `socket.timeout.ms` cannot say either, and what would leave no time at all.
pub(super) fn check_socket_timeout(timeout: Duration) -> Result<(), Error> {
    let milliseconds = timeout.as_millis();
    if milliseconds > 0 && i32::try_from(milliseconds).is_ok() {
        return Ok(());
    }
    Err(Error::InvalidArgument {
        name: "socket timeout",
        reason: format!("{timeout:?} is not within 1 to {} ms", i32::MAX),
    })
}

/// Lost connections and unusable answers (KAFKA-1228), but neither cancellation nor our own mistakes.
fn is_repeatable(error: &Error) -> bool {
    matches!(error, Error::Broker { .. } | Error::Response { .. })
}

/// One request of a session, and its answer.
fn fetch_once(
    channel: &mut RequestChannel,
    version: i16,
    session: &mut FetchSession,
    wanted: &mut FetchRequest,
    sink: &mut Watched<'_>,
) -> Result<Absence, Error> {
    let max_response_bytes = largest_answer(version, wanted);
    let is_incremental = session.is_incremental();
    let request = session.request(version, wanted);
    let header = channel.exchange(request, version, max_response_bytes, |body| {
        read_fetch_response(version, body, sink)
    })?;
    session.answered(&header);
    if sink.names_follower {
        session.keep_to_leaders();
    }
    if let Some(code) = header.error {
        return Err(channel.refused(FetchRequest::API, code));
    }
    Ok(match is_incremental {
        _ if is_emptied_by_quota(&header, sink) => Absence::Untold,
        true => Absence::NoNews,
        false => Absence::Failed,
    })
}

/// From 2.0 on a broker answers at once, and with nothing, whoever is over the quota.
fn is_emptied_by_quota(header: &FetchResponseHeader, sink: &Watched<'_>) -> bool {
    !sink.handed.get() && header.throttle_time.is_some_and(|time| !time.is_zero())
}

/// The size of the largest answer that an honest broker gives.
fn largest_answer(version: i16, request: &FetchRequest) -> usize {
    let mut data = 0_usize;
    let mut overhead = FETCH_OVERHEAD;
    for partition in &request.partitions {
        let topic = partition.topic_partition.topic().len();
        data = data.saturating_add(usize::try_from(partition.max_bytes).unwrap_or(0));
        overhead = overhead.saturating_add(topic + PARTITION_OVERHEAD);
    }
    if version >= FIRST_WITH_ONE_MESSAGE {
        let most = usize::try_from(request.max_bytes).unwrap_or(0);
        data = data.min(most).saturating_add(ONE_MESSAGE);
    }
    data.saturating_add(overhead)
}

/// Notices whether the sink has had a partition, and whether the leader would have had a follower asked.
struct Watched<'a> {
    sink: &'a mut dyn FetchSink,
    handed: &'a Cell<bool>,
    names_follower: bool,
}

impl FetchSink for Watched<'_> {
    fn buffer(&mut self, topic: &str, partition: i32, size: usize) -> Vec<u8> {
        self.sink.buffer(topic, partition, size)
    }

    fn partition(
        &mut self,
        topic: &str,
        partition: i32,
        header: PartitionHeader,
        message_set: Vec<u8>,
    ) {
        self.handed.set(true);
        self.names_follower |= header.preferred_read_replica.is_some();
        self.sink.partition(topic, partition, header, message_set);
    }
}

mod group_offsets;
#[cfg(test)]
mod tests;
