//! Requests and answers over a [`BlockingChannel`].

use std::mem;
use std::time::Duration;
use std::time::Instant;

use crate::cluster::BrokerAddress;
use crate::error::Error;
use crate::net::blocking_channel::BlockingChannel;
use crate::net::blocking_channel::ChannelOptions;
use crate::net::blocking_channel::Expected;
use crate::net::blocking_channel::ResponseBody;
use crate::net::canceller::Canceller;
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
            frame: Vec::new(),
        }
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
        self.channel.receive(&expected, decode)
    }

    /// Sends `request` and waits for nothing. Returns its number, and when its answer has to be here.
    pub(super) fn send<Q: Request>(
        &mut self,
        request: &Q,
        version: i16,
    ) -> Result<(i32, Instant), Error> {
        let id = self.next_correlation_id;
        let buffer = mem::take(&mut self.frame);
        self.frame = request_frame(request, version, id, Some(&self.client_id), buffer).map_err(
            |source| Error::Request {
                api: Q::API,
                source: Box::new(source),
            },
        )?;
        self.next_correlation_id = id.checked_add(1).unwrap_or(0);
        self.channel.connect()?;
        let deadline = Instant::now() + self.timeout;
        self.channel.send(&self.frame, deadline)?;
        Ok((id, deadline))
    }
}
