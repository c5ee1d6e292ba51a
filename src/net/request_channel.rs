//! Requests and answers over a [`BlockingChannel`].

use std::mem;
use std::ops::RangeInclusive;
use std::time::Duration;
use std::time::Instant;

use crate::cluster::BrokerAddress;
use crate::error::Error;
use crate::error::ErrorCode;
use crate::net::blocking_channel::BlockingChannel;
use crate::net::blocking_channel::ChannelOptions;
use crate::net::blocking_channel::Expected;
use crate::net::blocking_channel::ResponseBody;
use crate::net::broker_version::BrokerVersion;
use crate::net::canceller::Canceller;
use crate::net::node_api_versions::NodeApiVersions;
use crate::net::probe::probe;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::DecodeError;
use crate::protocol::Request;
use crate::protocol::Response;
use crate::protocol::request_frame;

/// The largest answer to anything but a fetch: metadata takes some 100 bytes a partition, of all topics together.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Numbers requests, sends them, and decodes the answers; one at a time, each tried once.
pub(super) struct RequestChannel {
    channel: BlockingChannel,
    client_id: String,
    /// For one request and its whole answer.
    timeout: Duration,
    next_correlation_id: i32,
    /// What is known of the broker without asking it.
    version: BrokerVersion,
    /// What a [probe](BrokerVersion::Probe) has found out, until something speaks against it.
    probed: Option<BrokerVersion>,
    /// What the broker serves; known anew for each connection, since it may have been upgraded.
    served: Option<NodeApiVersions>,
    /// Counts the connections.
    connections: u64,
    /// Whether the connection has brought an answer yet.
    has_answered: bool,
    /// The last request's frame, whose memory the next one uses again.
    frame: Vec<u8>,
}

impl RequestChannel {
    /// `options.connect_timeout` also holds for each request with its whole answer.
    pub(super) fn new(
        address: BrokerAddress,
        options: ChannelOptions,
        client_id: String,
        canceller: Canceller,
    ) -> Self {
        Self {
            timeout: options.connect_timeout,
            channel: BlockingChannel::new(address, options, canceller),
            client_id,
            next_correlation_id: 0,
            version: BrokerVersion::default(),
            probed: None,
            served: None,
            connections: 0,
            has_answered: false,
            frame: Vec::new(),
        }
    }

    /// Decides with `version` what [`common_version`](Self::common_version) is.
    pub(super) fn of_version(mut self, version: BrokerVersion) -> Self {
        self.version = version;
        self
    }

    /// Goes on with the numbers of another channel.
    pub(super) fn numbered_from(mut self, correlation_id: i32) -> Self {
        self.next_correlation_id = correlation_id;
        self
    }

    pub(super) fn next_correlation_id(&self) -> i32 {
        self.next_correlation_id
    }

    pub(super) fn disconnect(&mut self) {
        self.channel.disconnect();
    }

    /// Whether the broker has hung up meanwhile, so that the next request would run into it.
    pub(super) fn has_stale_connection(&self) -> bool {
        self.channel.is_stale()
    }

    /// The number of the connection, from 1 on; 0 before the first.
    pub(super) fn connection(&self) -> u64 {
        self.connections
    }

    /// The highest version of `Q` that is known on both sides. Connects only to ask the broker, where it may be asked.
    pub(super) fn common_version<Q: Request>(&mut self) -> Result<i16, Error> {
        self.common_version_of::<Q>(Q::VERSIONS)
    }

    /// As [`common_version`](Self::common_version), out of `ours` only.
    pub(super) fn common_version_of<Q: Request>(
        &mut self,
        ours: RangeInclusive<i16>,
    ) -> Result<i16, Error> {
        if !self.channel.is_connected() || self.served.is_none() {
            self.served = Some(self.negotiate()?);
        }
        let served = self.served.as_ref().ok_or(Error::Closed)?;
        served.common::<Q>(ours, self.channel.address())
    }

    /// As [`common_version_of`](Self::common_version_of), but the lowest of `ours` from a broker that is 0.8 or of which
    /// nothing is known: for requests whose lowest wanted version is served by all that serve any, so that there is
    /// nothing to probe for.
    pub(super) fn common_or_lowest_version_of<Q: Request>(
        &mut self,
        ours: RangeInclusive<i16>,
    ) -> Result<i16, Error> {
        match self.version {
            BrokerVersion::V0_8 | BrokerVersion::Probe => Ok(*ours.start()),
            BrokerVersion::V0_9 | BrokerVersion::V0_10 => self.common_version_of::<Q>(ours),
        }
    }

    /// The error when the broker answers a request with nothing but `code`.
    pub(super) fn refused(&self, api: &'static str, code: ErrorCode) -> Error {
        Error::Refused {
            address: self.channel.address().clone(),
            api,
            code,
        }
    }

    fn negotiate(&mut self) -> Result<NodeApiVersions, Error> {
        let version = match self.version {
            BrokerVersion::Probe => self.probed()?,
            known => known,
        };
        match version {
            BrokerVersion::V0_8 => Ok(NodeApiVersions::v0_8()),
            BrokerVersion::V0_9 => Ok(NodeApiVersions::v0_9()),
            BrokerVersion::V0_10 | BrokerVersion::Probe => self.ask_versions(),
        }
    }

    fn ask_versions(&mut self) -> Result<NodeApiVersions, Error> {
        let answer = self.call(&ApiVersionsRequest, 0)?;
        match answer.error {
            None => Ok(NodeApiVersions::told(&answer)),
            Some(code) => {
                self.disconnect();
                Err(self.refused(ApiVersionsRequest::API, code))
            }
        }
    }

    /// What the probe finds out, or has found out before.
    fn probed(&mut self) -> Result<BrokerVersion, Error> {
        if let Some(version) = self.probed {
            return Ok(version);
        }
        self.disconnect();
        let ids = [self.take_correlation_id(), self.take_correlation_id()];
        let version = probe(self.channel.another(), &self.client_id, ids, self.timeout)?;
        log::debug!("broker {} is taken for {version:?}", self.channel.address());
        self.probed = Some(version);
        Ok(version)
    }

    /// Sends `request` and waits for its answer. Connects if need be.
    pub(super) fn call<Q: Request>(
        &mut self,
        request: &Q,
        version: i16,
    ) -> Result<Q::Response, Error> {
        self.exchange(request, version, MAX_RESPONSE_BYTES, |body| {
            Q::Response::decode(version, body)
        })
    }

    /// As [`call`](Self::call), with a limit of its own for the answer, which `decode` reads while it arrives.
    pub(super) fn exchange<Q: Request, T>(
        &mut self,
        request: &Q,
        version: i16,
        max_response_bytes: usize,
        decode: impl FnOnce(&mut ResponseBody<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let (correlation_id, deadline) = self.send(request, version)?;
        let expected = Expected {
            api: Q::API,
            correlation_id,
            max_response_bytes,
            deadline,
        };
        let answer = self.channel.receive(&expected, decode);
        let is_doubtful = match &answer {
            Ok(_) => false,
            // Closed on right after connecting, or answered in another layout: it is not what it was taken for.
            Err(Error::Response { .. }) => true,
            Err(_) => !self.has_answered,
        };
        if is_doubtful {
            self.probed = None;
        }
        self.has_answered |= answer.is_ok();
        answer
    }

    /// Sends `request` and waits for nothing. Returns its number, and when its answer has to be here.
    pub(super) fn send<Q: Request>(
        &mut self,
        request: &Q,
        version: i16,
    ) -> Result<(i32, Instant), Error> {
        let id = self.take_correlation_id();
        let buffer = mem::take(&mut self.frame);
        self.frame = request_frame(request, version, id, Some(&self.client_id), buffer).map_err(
            |source| Error::Request {
                api: Q::API,
                source: Box::new(source),
            },
        )?;
        self.connect()?;
        let deadline = Instant::now() + self.timeout;
        self.channel.send(&self.frame, deadline)?;
        Ok((id, deadline))
    }

    fn connect(&mut self) -> Result<(), Error> {
        if !self.channel.is_connected() {
            self.channel.connect()?;
            self.connections = self.connections.wrapping_add(1);
            self.served = None;
            self.has_answered = false;
        }
        self.channel.connect()
    }

    fn take_correlation_id(&mut self) -> i32 {
        let id = self.next_correlation_id;
        self.next_correlation_id = id.checked_add(1).unwrap_or(0);
        id
    }
}

#[cfg(test)]
mod tests;
