//! Sends messages to one broker.

use std::time::Duration;

use parking_lot::Mutex;

use crate::cluster::BrokerAddress;
use crate::error::Error;
use crate::net::blocking_channel::ChannelOptions;
use crate::net::canceller::Canceller;
use crate::net::request_channel::RequestChannel;
use crate::net::simple_consumer::check_client_id;
use crate::protocol::ProduceRequest;
use crate::protocol::ProduceResponse;
use crate::protocol::Request;

/// The version for message formats that all brokers from 0.8.0 to 3.9 take.
const VERSION: i16 = 0;

/// How a [`SyncProducer`] talks to its broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncProducerOptions {
    /// For connecting, and again for each request until the last byte of its answer. Default 10 s.
    pub socket_timeout: Duration,
    /// What the broker's logs, quotas and metrics call us; of ASCII letters, digits, `.`, `_` and `-`. Default empty.
    pub client_id: String,
}

impl Default for SyncProducerOptions {
    fn default() -> Self {
        Self {
            socket_timeout: Duration::from_secs(10),
            client_id: String::new(),
        }
    }
}

/// Appends messages to partitions that one broker leads, request by request.
///
/// Nothing is ever sent twice: after an error nobody knows whether the messages were appended, and
/// only the caller can say whether duplicates do harm.
#[derive(Debug)]
pub struct SyncProducer {
    socket_timeout: Duration,
    canceller: Canceller,
    /// Held during a whole request: one connection serves one request at a time.
    channel: Mutex<RequestChannel>,
}

impl SyncProducer {
    /// A producer for the broker at `address`, not connected yet.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the client id has other characters than those allowed.
    pub fn new(address: BrokerAddress, options: SyncProducerOptions) -> Result<Self, Error> {
        check_client_id(&options.client_id)?;
        let canceller = Canceller::new();
        let channel = ChannelOptions {
            connect_timeout: options.socket_timeout,
            receive_buffer_bytes: 0,
        };
        let channel = RequestChannel::new(address, channel, options.client_id, canceller.clone());
        Ok(Self {
            socket_timeout: options.socket_timeout,
            canceller,
            channel: Mutex::new(channel),
        })
    }

    /// Sends `request` and waits for what the broker made of it; `None` when it was told not to answer.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the broker may wait for longer than we do. The error of one
    /// partition stands in the response.
    pub fn send(&self, request: &ProduceRequest) -> Result<Option<ProduceResponse>, Error> {
        let mut channel = self.channel.lock();
        // Unlike Kafka 0.8.2.2, whose first request after the broker hung up is lost.
        channel.drop_stale_connection();
        if !request.is_answered() {
            channel.send(request, VERSION)?;
            return Ok(None);
        }
        if request.timeout > self.socket_timeout {
            return Err(Error::InvalidArgument {
                name: "timeout",
                reason: format!(
                    "{} ms is longer than the socket timeout of {} ms",
                    request.timeout.as_millis(),
                    self.socket_timeout.as_millis()
                ),
            });
        }
        channel.call(request, VERSION).map(Some)
    }

    /// Ends the request in flight, closes the connection, and refuses whatever comes later.
    pub fn close(&self) {
        self.canceller.cancel();
        self.channel.lock().disconnect();
    }
}
