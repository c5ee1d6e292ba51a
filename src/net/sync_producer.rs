//! Sends messages to one broker.

use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cluster::BrokerAddress;
use crate::config::BrokerAddressMap;
use crate::error::Error;
use crate::net::blocking_channel::ChannelOptions;
use crate::net::canceller::Canceller;
use crate::net::request_channel::RequestChannel;
use crate::net::simple_consumer::check_client_id;
use crate::net::simple_consumer::check_socket_timeout;
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
    /// Where the broker is reached, if not where it says. Default empty.
    pub address_map: BrokerAddressMap,
}

impl Default for SyncProducerOptions {
    fn default() -> Self {
        Self {
            socket_timeout: Duration::from_secs(10),
            client_id: String::new(),
            address_map: BrokerAddressMap::default(),
        }
    }
}

/// Appends messages to partitions that one broker leads, request by request.
///
/// Nothing is ever sent twice: after an error nobody knows whether the messages were appended, and
/// only the caller can say whether duplicates do harm.
pub struct SyncProducer {
    address: BrokerAddress,
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
    /// [`Error::InvalidArgument`] when the client id has other characters than those allowed, or the
    /// timeout is zero or above 2,147,483,647 ms.
    pub fn new(address: BrokerAddress, options: SyncProducerOptions) -> Result<Self, Error> {
        check_client_id(&options.client_id)?;
        check_socket_timeout(options.socket_timeout)?;
        let canceller = Canceller::new();
        let channel = ChannelOptions {
            connect_timeout: options.socket_timeout,
            receive_buffer_bytes: 0,
            address_map: options.address_map,
        };
        let channel = RequestChannel::new(
            address.clone(),
            channel,
            options.client_id,
            canceller.clone(),
        );
        Ok(Self {
            address,
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
        if channel.has_stale_connection() {
            channel.disconnect();
        }
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

impl fmt::Debug for SyncProducer {
    /// Leaves out the frames, which hold what applications send.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncProducer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::io::Write;
    use std::net::TcpListener;
    use std::net::TcpStream;
    use std::thread;
    use std::time::Instant;

    use crossbeam_channel::bounded;

    use super::*;
    use crate::cluster::TopicPartition;
    use crate::error::ErrorCode;
    use crate::net::fake_broker::FakeBroker;
    use crate::net::fake_broker::Received;
    use crate::net::fake_broker::Then;
    use crate::net::fake_broker::await_hang_up;
    use crate::net::fake_broker::closed_port;
    use crate::protocol::ProducePartition;
    use crate::protocol::ProducedPartition;
    use crate::protocol::RequiredAcks;

    const LONG: Duration = Duration::from_secs(20);
    const SHORT: Duration = Duration::from_millis(200);

    fn producer_of(address: BrokerAddress, socket_timeout: Duration) -> SyncProducer {
        let options = SyncProducerOptions {
            socket_timeout,
            client_id: String::from("test-producer"),
            ..SyncProducerOptions::default()
        };
        SyncProducer::new(address, options).unwrap()
    }

    fn request(acks: RequiredAcks) -> ProduceRequest {
        ProduceRequest {
            transactional_id: None,
            acks,
            timeout: SHORT,
            partitions: vec![ProducePartition {
                topic_partition: TopicPartition::new("topic", 3),
                message_set: vec![1, 2, 3].into(),
            }],
        }
    }

    fn appended(request: ProduceRequest) -> ProduceResponse {
        let partitions = request.partitions.into_iter().map(|it| ProducedPartition {
            topic_partition: it.topic_partition,
            error: Some(ErrorCode::NotLeaderOrFollower),
            base_offset: None,
            log_append_time: None,
        });
        ProduceResponse {
            partitions: partitions.collect(),
            throttle_time: None,
        }
    }

    #[test]
    fn an_answer_is_handed_on_with_the_errors_of_its_partitions() {
        let broker = FakeBroker::answering(appended);
        let producer = producer_of(broker.address(), LONG);
        let request = request(RequiredAcks::All);
        let answer = producer.send(&request).unwrap();
        assert_eq!(answer, Some(appended(request)));
    }

    #[test]
    fn without_acks_no_answer_is_awaited() {
        let (arrived, has_arrived) = bounded(3);
        let broker = FakeBroker::handling::<ProduceRequest>(move |received, _| {
            arrived.send(received.decode::<ProduceRequest>()).unwrap();
            Then::GoOn
        });
        let producer = producer_of(broker.address(), LONG);
        for _ in 0..3 {
            assert_eq!(producer.send(&request(RequiredAcks::None)).unwrap(), None);
        }
        for _ in 0..3 {
            let received = has_arrived.recv_timeout(LONG).unwrap();
            assert_eq!(received, request(RequiredAcks::None));
        }
        assert_eq!(broker.connections(), 1);
    }

    #[test]
    fn what_may_have_been_written_is_never_sent_again() {
        type Fault = fn(&Received, &mut TcpStream) -> Then;
        // A socket that gives up has to leave a busy machine the time to take the request in.
        let faults: [(Duration, Fault); 4] = [
            (LONG, |_, _| Then::HangUp),
            (LONG, |_, _| Then::Reset),
            (10 * SHORT, |_, stream| await_hang_up(stream)),
            (LONG, |received, stream| {
                let frame = received.frame(&ProduceResponse::default());
                stream.write_all(&frame[..6]).unwrap();
                Then::HangUp
            }),
        ];
        for (timeout, fault) in faults {
            let broker = FakeBroker::handling::<ProduceRequest>(fault);
            let producer = producer_of(broker.address(), timeout);
            let error = producer.send(&request(RequiredAcks::Leader)).unwrap_err();
            assert!(matches!(error, Error::Broker { .. }), "{error:?}");
            assert_eq!(broker.received().len(), 1);
        }
    }

    #[test]
    fn a_connection_that_the_broker_closed_while_idle_is_replaced_before_anything_is_written() {
        let broker = FakeBroker::answering(appended);
        let producer = producer_of(broker.address(), LONG);
        producer.send(&request(RequiredAcks::Leader)).unwrap();
        broker.hang_up();
        // The end of the stream reaches us a moment after the broker closed it.
        let deadline = Instant::now() + LONG;
        while !producer.channel.lock().has_stale_connection() {
            assert!(Instant::now() < deadline, "the broker has hung up");
            thread::yield_now();
        }
        producer.send(&request(RequiredAcks::Leader)).unwrap();
        assert_eq!(broker.connections(), 2);
        assert_eq!(broker.received().len(), 2);
    }

    #[test]
    fn a_broker_may_not_wait_for_longer_than_the_socket() {
        let producer = producer_of(closed_port(), SHORT / 2);
        let error = producer.send(&request(RequiredAcks::All)).unwrap_err();
        assert!(error.to_string().contains("200 ms"), "{error}");
    }

    /// More than the socket's buffers take.
    fn huge_request() -> ProduceRequest {
        let mut request = request(RequiredAcks::Leader);
        request.partitions[0].message_set = vec![0; 64 << 20].into();
        request
    }

    /// A broker that never reads.
    fn deaf() -> (TcpListener, BrokerAddress) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, BrokerAddress::new("127.0.0.1", port))
    }

    #[test]
    fn a_broker_that_does_not_read_costs_one_timeout() {
        let (_listener, address) = deaf();
        let producer = producer_of(address, SHORT);
        let began = Instant::now();
        let error = producer.send(&huge_request()).unwrap_err();
        assert!(
            error
                .chain()
                .ends_with("while sending: request not taken in time"),
            "{}",
            error.chain()
        );
        assert!(began.elapsed() >= SHORT && began.elapsed() < LONG / 2);
    }

    #[test]
    fn closing_ends_a_blocked_write() {
        let (listener, address) = deaf();
        let producer = producer_of(address, LONG);
        thread::scope(|scope| {
            let sending = scope.spawn(|| producer.send(&huge_request()));
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 100]).unwrap();
            let began = Instant::now();
            producer.close();
            let error = sending.join().unwrap().unwrap_err();
            assert!(matches!(error, Error::Closed), "{error:?}");
            assert!(began.elapsed() < LONG / 2);
        });
    }

    #[test]
    fn a_closed_producer_stays_closed() {
        let broker = FakeBroker::answering(appended);
        let producer = producer_of(broker.address(), LONG);
        producer.close();
        let error = producer.send(&request(RequiredAcks::Leader)).unwrap_err();
        assert!(matches!(error, Error::Closed), "{error:?}");
        assert_eq!(broker.connections(), 0);
    }
}
