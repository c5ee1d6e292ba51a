//! One connection to one broker, request by request.

use std::io;
use std::io::BufReader;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::cluster::BrokerAddress;
use crate::config::BrokerAddressMap;
use crate::error::Error;
use crate::net::canceller::Canceller;
use crate::net::connect::connect;
use crate::net::deadline_socket::DeadlineSocket;
use crate::protocol::DecodeError;
use crate::protocol::Reader;

/// What is read ahead; larger reads go from the socket straight to where the bytes shall lie.
const BUFFER: usize = 8 * 1024;

/// How much of a frame that was decoded before its end is read away; with more left, reconnecting is cheaper.
const DRAIN: usize = 64 * 1024;

/// The least frame size: every response has a correlation id, and something after it.
const LEAST_FRAME: usize = 5;

/// The body of one response: everything after the correlation id, and no more.
pub(crate) type ResponseBody<'a> = Reader<&'a mut BufReader<DeadlineSocket>>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// How a [`BlockingChannel`] connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelOptions {
    /// For resolving the host and trying all its addresses together.
    pub(crate) connect_timeout: Duration,
    /// SO_RCVBUF in bytes; 0 leaves the system's default.
    pub(crate) receive_buffer_bytes: usize,
    /// Where brokers are reached, if not where they say.
    pub(crate) address_map: BrokerAddressMap,
}

/// The answer that a request waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// The API's name, for errors.
    pub(crate) api: &'static str,
    /// The id of the request, which the answer must repeat.
    ///
    /// Unlike Kafka 0.8.2.2, which does not look, and so may take the answer to a request that it gave up.
    pub(crate) correlation_id: i32,
    /// The largest frame to accept, in bytes.
    pub(crate) max_response_bytes: usize,
    /// When the last byte has to be here.
    pub(crate) deadline: Instant,
}

/// A connection that is opened when needed, and closed by any failure: after an error nobody knows
/// where in the stream the next answer begins.
///
/// Requests and responses are blocking, one at a time. Another thread ends them with the
/// [`Canceller`], which closes the channel for good.
#[derive(Debug)]
pub(crate) struct BlockingChannel {
    address: BrokerAddress,
    options: ChannelOptions,
    canceller: Canceller,
    connection: Option<BufReader<DeadlineSocket>>,
}

impl BlockingChannel {
    pub(crate) fn new(
        address: BrokerAddress,
        options: ChannelOptions,
        canceller: Canceller,
    ) -> Self {
        Self {
            address,
            options,
            canceller,
            connection: None,
        }
    }

    /// Another channel to the same broker, not connected yet. Only one of the two may be connected at a time, or the
    /// canceller ends only the one that connected last.
    pub(crate) fn another(&self) -> Self {
        Self::new(
            self.address.clone(),
            self.options.clone(),
            self.canceller.clone(),
        )
    }

    pub(crate) fn address(&self) -> &BrokerAddress {
        &self.address
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Whether a connection exists that the broker has closed meanwhile, as it does with idle ones.
    pub(crate) fn is_stale(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| {
            !connection.buffer().is_empty() || connection.get_ref().is_stale()
        })
    }

    /// Opens the connection unless it is open.
    pub(crate) fn connect(&mut self) -> Result<(), Error> {
        if self.canceller.is_cancelled() {
            self.disconnect();
            return Err(Error::Closed);
        }
        if self.is_connected() {
            return Ok(());
        }
        let socket = self
            .open()
            .map_err(|source| self.lost("connecting", source))?;
        let socket = Arc::new(socket);
        if !self.canceller.adopt(&socket) {
            return Err(Error::Closed);
        }
        log::debug!("connected to {}", self.address);
        let socket = DeadlineSocket::new(socket, self.canceller.clone());
        self.connection = Some(BufReader::with_capacity(BUFFER, socket));
        Ok(())
    }

    /// Closes the connection; the next [`connect`](Self::connect) opens another one.
    pub(crate) fn disconnect(&mut self) {
        if self.connection.take().is_some() {
            self.canceller.release();
            log::debug!("disconnected from {}", self.address);
        }
    }

    /// Writes one whole frame, size prefix included.
    pub(crate) fn send(&mut self, frame: &[u8], deadline: Instant) -> Result<(), Error> {
        let connection = self.connection.as_mut().ok_or(Error::Closed)?;
        let socket = connection.get_mut();
        socket.set_deadline(deadline);
        let written = socket.write_all(frame);
        written.map_err(|source| self.lost("sending", source))
    }

    /// Reads one frame and lets `decode` read its body, while it still arrives.
    ///
    /// What `decode` leaves of the frame is read away. After an error the channel is disconnected.
    pub(crate) fn receive<T>(
        &mut self,
        expected: &Expected,
        decode: impl FnOnce(&mut ResponseBody<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let ids = [expected.correlation_id];
        self.receive_one_of(expected, &ids, |_, body| decode(body))
    }

    /// As [`receive`](Self::receive), where the answer to any of several requests may come first; `decode` is told
    /// which one came.
    pub(crate) fn receive_one_of<T>(
        &mut self,
        expected: &Expected,
        correlation_ids: &[i32],
        decode: impl FnOnce(i32, &mut ResponseBody<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let connection = self.connection.as_mut().ok_or(Error::Closed)?;
        connection.get_mut().set_deadline(expected.deadline);
        match read_frame(connection, expected, correlation_ids, decode) {
            Ok((answer, left)) => {
                if left {
                    self.disconnect();
                }
                Ok(answer)
            }
            Err(Failure::Socket(source)) => Err(self.lost("waiting for the answer", source)),
            Err(Failure::Answer(source)) => Err(self.unusable(expected.api, source)),
        }
    }

    /// The one place that leaves the address which the broker advertises, wherever that was heard.
    fn open(&self) -> io::Result<TcpStream> {
        let reachable = self.options.address_map.reachable(&self.address);
        let socket = connect(
            reachable.unwrap_or(&self.address),
            self.options.receive_buffer_bytes,
            self.options.connect_timeout,
            &self.canceller,
        );
        socket.map_err(|source| match reachable {
            Some(reachable) => io::Error::new(source.kind(), format!("at {reachable}: {source}")),
            None => source,
        })
    }

    /// Disconnects because of `source`. Cancelled calls fail with whatever; the caller hears why.
    fn lost(&mut self, doing: &'static str, source: io::Error) -> Error {
        self.disconnect();
        if self.canceller.is_cancelled() {
            return Error::Closed;
        }
        Error::Broker {
            address: self.address.clone(),
            doing,
            source,
        }
    }

    fn unusable(&mut self, api: &'static str, source: Source) -> Error {
        self.disconnect();
        Error::Response {
            address: self.address.clone(),
            api,
            source,
        }
    }
}

impl Drop for BlockingChannel {
    fn drop(&mut self) {
        self.disconnect();
    }
}

/// Why there is no answer.
enum Failure {
    /// It did not come, or not all of it.
    Socket(io::Error),
    /// It came and is wrong.
    Answer(Source),
}

impl From<DecodeError> for Failure {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Io { source, .. } => Self::Socket(source),
            malformed => Self::Answer(Box::new(malformed)),
        }
    }
}

/// The decoded answer, and whether some of its frame is still to come.
fn read_frame<T>(
    connection: &mut BufReader<DeadlineSocket>,
    expected: &Expected,
    correlation_ids: &[i32],
    decode: impl FnOnce(i32, &mut ResponseBody<'_>) -> Result<T, DecodeError>,
) -> Result<(T, bool), Failure> {
    let mut body = Reader::next_frame(connection, LEAST_FRAME, expected.max_response_bytes)?;
    let id = body.i32("correlation_id")?;
    if !correlation_ids.contains(&id) {
        let wrong = format!(
            "correlation id is {id}, expected {}",
            expected.correlation_id
        );
        return Err(Failure::Answer(wrong.into()));
    }
    let answer = decode(id, &mut body)?;
    let is_read = body.remaining() <= DRAIN && body.skip_rest().is_ok();
    Ok((answer, !is_read))
}
