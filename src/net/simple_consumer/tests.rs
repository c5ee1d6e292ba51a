use std::io;
use std::io::ErrorKind;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::bounded;
use crossbeam_channel::unbounded;

use super::*;
use crate::error::ErrorCode;
use crate::net::fake_broker::FakeBroker;
use crate::net::fake_broker::FakeBrokerBuilder;
use crate::net::fake_broker::FullPort;
use crate::net::fake_broker::Received;
use crate::net::fake_broker::Then;
use crate::net::fake_broker::await_hang_up;
use crate::net::fake_broker::closed_port;
use crate::protocol::FetchedPartition;
use crate::protocol::MessageSet;
use crate::protocol::PartitionHeader;
use crate::protocol::PartitionOffsets;
use crate::protocol::TopicMetadata;

/// Longer than any test takes that goes well.
const LONG: Duration = Duration::from_secs(20);
/// A socket timeout for tests that wait for it.
const SHORT: Duration = Duration::from_millis(200);
/// How soon a cancelled call has to end.
const SOON: Duration = Duration::from_millis(100);

fn consumer_of(address: BrokerAddress, socket_timeout: Duration) -> SimpleConsumer {
    let options = SimpleConsumerOptions {
        socket_timeout,
        client_id: String::from("test-client"),
        ..SimpleConsumerOptions::default()
    };
    SimpleConsumer::new(address, options).unwrap()
}

#[test]
fn a_broker_is_connected_to_where_the_map_says_and_an_error_names_both_addresses() {
    let broker = faulty(0, |_, _| Then::GoOn);
    let advertised = BrokerAddress::new("kafka.invalid", 9092);
    let options = |reachable: &BrokerAddress| SimpleConsumerOptions {
        address_map: format!("{advertised}={reachable}").parse().unwrap(),
        ..SimpleConsumerOptions::default()
    };
    let consumer = SimpleConsumer::new(advertised.clone(), options(&broker.address())).unwrap();
    assert_eq!(consumer.topic_metadata(&["t"]).unwrap(), of_topic("t"));
    assert_eq!(consumer.address(), &advertised);

    let closed = closed_port();
    let consumer = SimpleConsumer::new(advertised.clone(), options(&closed)).unwrap();
    let error = consumer.topic_metadata(&["t"]).unwrap_err();
    assert_eq!(kind_of(&error), Some(ErrorKind::ConnectionRefused));
    let text = error.chain();
    assert!(text.contains("kafka.invalid:9092"), "{text}");
    assert!(text.contains(&format!("at {closed}")), "{text}");
}

fn of_topic(topic: &str) -> MetadataResponse {
    MetadataResponse {
        topics: vec![TopicMetadata {
            error: None,
            topic: String::from(topic),
            is_internal: false,
            partitions: Vec::new(),
        }],
        ..MetadataResponse::default()
    }
}

fn echo(request: MetadataRequest) -> MetadataResponse {
    of_topic(&request.topics.unwrap_or_default().join(","))
}

/// A broker that does `fault` with the first `times` metadata requests, and echoes the later ones.
fn faulty(
    times: usize,
    fault: impl Fn(&Received, &mut TcpStream) -> Then + Send + Sync + 'static,
) -> FakeBroker {
    FakeBroker::handling::<MetadataRequest>(move |received, stream| {
        if received.before < times {
            return fault(received, stream);
        }
        received.send(stream, &echo(received.decode()));
        Then::GoOn
    })
}

fn kind_of(error: &Error) -> Option<ErrorKind> {
    match error {
        Error::Broker { source, .. } => Some(source.kind()),
        _ => None,
    }
}

fn is_response(error: &Error, part: &str) -> bool {
    matches!(error, Error::Response { .. }) && error.chain().contains(part)
}

/// The frame of an answer with `body`, whose size prefix is `size`.
fn raw_frame(size: i32, correlation_id: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = size.to_be_bytes().to_vec();
    frame.extend(correlation_id.to_be_bytes());
    frame.extend(body);
    frame
}

#[test]
fn a_client_id_with_odd_characters_is_refused_by_name() {
    for id in ["a b", "a/b", "\u{e4}", "a:b"] {
        let options = SimpleConsumerOptions {
            client_id: String::from(id),
            ..SimpleConsumerOptions::default()
        };
        let error = SimpleConsumer::new(BrokerAddress::new("h", 1), options).unwrap_err();
        assert!(error.to_string().contains("client id"), "{error}");
    }
    assert!(check_client_id("Az09._-").is_ok());
    assert!(check_client_id("").is_ok());
}

#[test]
fn a_timeout_without_end_or_without_time_is_refused() {
    for socket_timeout in [Duration::ZERO, Duration::from_micros(999), Duration::MAX] {
        let options = SimpleConsumerOptions {
            socket_timeout,
            ..SimpleConsumerOptions::default()
        };
        let error = SimpleConsumer::new(BrokerAddress::new("h", 1), options).unwrap_err();
        assert!(error.to_string().contains("socket timeout"), "{error}");
    }
}

#[test]
fn a_request_carries_client_id_and_rising_numbers_over_one_connection() {
    let broker = FakeBroker::answering(echo);
    let consumer = consumer_of(broker.address(), LONG);
    assert_eq!(broker.connections(), 0, "connects when first used");
    for topic in ["a", "b", "c"] {
        assert_eq!(consumer.topic_metadata(&[topic]).unwrap(), of_topic(topic));
    }
    assert_eq!(broker.connections(), 1);
    let received = broker.received();
    let ids: Vec<i32> = received.iter().map(|it| it.correlation_id).collect();
    assert_eq!(ids, [0, 1, 2]);
    assert_eq!(received[0].client_id.as_deref(), Some("test-client"));
}

#[test]
fn a_host_name_is_resolved() {
    let broker = FakeBroker::answering(echo);
    let address = BrokerAddress::new("localhost", broker.address().port);
    let consumer = consumer_of(address, LONG);
    assert_eq!(consumer.topic_metadata(&["a"]).unwrap(), of_topic("a"));
}

#[test]
fn a_host_without_address_is_an_error_of_connecting() {
    let address = BrokerAddress::new("no-such-host.invalid", 9092);
    let error = consumer_of(address, LONG).topic_metadata(&[]).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("no-such-host.invalid:9092 while connecting"),
        "{text}"
    );
}

#[test]
fn a_refused_connection_is_reported_as_such() {
    let error = consumer_of(closed_port(), LONG)
        .topic_metadata(&["a"])
        .unwrap_err();
    assert_eq!(kind_of(&error), Some(ErrorKind::ConnectionRefused));
    assert!(error.to_string().contains("while connecting"), "{error}");
}

#[test]
fn a_broker_that_does_not_answer_costs_two_timeouts_and_no_more() {
    let broker = faulty(usize::MAX, |_, stream| await_hang_up(stream));
    let consumer = consumer_of(broker.address(), SHORT);
    let began = Instant::now();
    let error = consumer.topic_metadata(&["a"]).unwrap_err();
    let took = began.elapsed();
    assert_eq!(kind_of(&error), Some(ErrorKind::TimedOut));
    assert!(took >= 2 * SHORT, "{took:?}");
    assert!(took < 2 * SHORT + LONG / 20, "{took:?}");
    assert_eq!(broker.connections(), 2);
}

#[test]
fn a_port_that_takes_no_connection_ends_at_the_connect_timeout() {
    let port = FullPort::new();
    let consumer = consumer_of(port.address.clone(), SHORT);
    let began = Instant::now();
    let error = consumer.topic_metadata(&["a"]).unwrap_err();
    let took = began.elapsed();
    assert_eq!(kind_of(&error), Some(ErrorKind::TimedOut));
    assert!(error.to_string().contains("while connecting"), "{error}");
    assert!(
        took >= 2 * SHORT && took < 2 * SHORT + LONG / 20,
        "{took:?}"
    );
}

#[test]
fn a_trickle_does_not_move_the_deadline() {
    // Kafka's timeout began anew with every byte.
    let broker = faulty(usize::MAX, |received, stream| {
        let frame = received.frame(&of_topic(&"x".repeat(500)));
        for byte in frame {
            if stream.write_all(&[byte]).is_err() {
                break;
            }
            thread::park_timeout(SHORT / 10);
        }
        Then::HangUp
    });
    let consumer = consumer_of(broker.address(), SHORT);
    let began = Instant::now();
    let error = consumer.topic_metadata(&["a"]).unwrap_err();
    let took = began.elapsed();
    assert_eq!(kind_of(&error), Some(ErrorKind::TimedOut));
    assert!(took < 2 * SHORT + LONG / 20, "{took:?}");
}

#[test]
fn an_answer_in_many_packets_is_put_together() {
    let broker = FakeBroker::handling::<MetadataRequest>(|received, stream| {
        for part in received.frame(&of_topic("whole")).chunks(3) {
            stream.write_all(part).unwrap();
            stream.flush().unwrap();
            thread::yield_now();
        }
        Then::GoOn
    });
    let consumer = consumer_of(broker.address(), LONG);
    for _ in 0..3 {
        assert_eq!(consumer.topic_metadata(&["a"]).unwrap(), of_topic("whole"));
    }
    assert_eq!(broker.connections(), 1);
}

#[test]
fn a_reset_is_repaired_once() {
    let broker = faulty(1, |_, _| Then::Reset);
    let consumer = consumer_of(broker.address(), LONG);
    assert_eq!(consumer.topic_metadata(&["a"]).unwrap(), of_topic("a"));
    assert_eq!(broker.received().len(), 2);
}

#[test]
fn only_one_repair_is_tried_and_the_second_error_is_the_one_that_counts() {
    let broker = faulty(2, |received, stream| match received.before {
        0 => Then::Reset,
        _ => {
            let id = received.header.correlation_id;
            stream.write_all(&raw_frame(9, id + 7, &[0; 5])).unwrap();
            Then::GoOn
        }
    });
    let consumer = consumer_of(broker.address(), LONG);
    let error = consumer.topic_metadata(&["a"]).unwrap_err();
    assert!(
        is_response(&error, "correlation id is 8, expected 1"),
        "{error:?}"
    );
    assert_eq!(broker.received().len(), 2);
    assert_eq!(
        consumer.topic_metadata(&["a"]).unwrap(),
        of_topic("a"),
        "the client is still of use"
    );
}

#[test]
fn half_a_frame_is_an_error_of_the_connection() {
    let broker = faulty(usize::MAX, |received, stream| {
        let frame = received.frame(&of_topic("half"));
        stream.write_all(&frame[..frame.len() / 2]).unwrap();
        Then::HangUp
    });
    let error = consumer_of(broker.address(), LONG)
        .topic_metadata(&["a"])
        .unwrap_err();
    assert_eq!(kind_of(&error), Some(ErrorKind::UnexpectedEof));
    assert_eq!(broker.received().len(), 2);
}

#[test]
fn a_wrong_correlation_id_ends_the_connection() {
    let broker = faulty(1, |received, stream| {
        let id = received.header.correlation_id;
        stream.write_all(&raw_frame(12, id - 1, &[0; 8])).unwrap();
        Then::GoOn
    });
    let consumer = consumer_of(broker.address(), LONG);
    assert_eq!(consumer.topic_metadata(&["a"]).unwrap(), of_topic("a"));
    assert_eq!(broker.connections(), 2);
}

#[test]
fn a_size_that_lies_is_refused_before_anything_is_read() {
    for size in [0, 1, 4, -1, i32::MIN, i32::MAX, 64 * 1024 * 1024 + 1] {
        let broker = faulty(usize::MAX, move |received, stream| {
            let id = received.header.correlation_id;
            drop(stream.write_all(&raw_frame(size, id, &[0; 8])));
            Then::GoOn
        });
        let consumer = consumer_of(broker.address(), LONG);
        let error = consumer.topic_metadata(&["a"]).unwrap_err();
        assert!(is_response(&error, &format!("{size}")), "{error:?}");
    }
}

#[test]
fn bytes_after_the_known_fields_are_read_away() {
    let broker = FakeBroker::handling::<MetadataRequest>(|received, stream| {
        let id = received.header.correlation_id;
        stream
            .write_all(&raw_frame(4 + 8 + 1000, id, &[0; 1008]))
            .unwrap();
        Then::GoOn
    });
    let consumer = consumer_of(broker.address(), LONG);
    for _ in 0..3 {
        let answer = consumer.topic_metadata(&["a"]).unwrap();
        assert_eq!(answer, MetadataResponse::default());
    }
    assert_eq!(broker.connections(), 1);
}

#[test]
fn a_frame_with_too_much_left_costs_the_connection_and_not_the_answer() {
    let broker = FakeBroker::handling::<MetadataRequest>(|received, stream| {
        let id = received.header.correlation_id;
        stream
            .write_all(&raw_frame(10_000_000, id, &[0; 8]))
            .unwrap();
        await_hang_up(stream)
    });
    let consumer = consumer_of(broker.address(), LONG);
    for _ in 0..2 {
        let answer = consumer.topic_metadata(&["a"]).unwrap();
        assert_eq!(answer, MetadataResponse::default());
    }
    let received = broker.received();
    let ids: Vec<i32> = received.iter().map(|it| it.correlation_id).collect();
    assert_eq!(ids, [0, 1], "the second request did not run into the rest");
    assert_eq!(broker.connections(), 2);
}

#[test]
fn an_idle_connection_closed_by_the_broker_goes_unnoticed() {
    let broker = FakeBroker::answering(echo);
    let consumer = consumer_of(broker.address(), LONG);
    consumer.topic_metadata(&["a"]).unwrap();
    broker.hang_up();
    assert_eq!(consumer.topic_metadata(&["b"]).unwrap(), of_topic("b"));
    assert_eq!(broker.connections(), 2);
}

#[test]
fn a_request_that_cannot_be_encoded_reaches_nobody() {
    let broker = FakeBroker::answering(echo);
    let consumer = consumer_of(broker.address(), LONG);
    let error = consumer.topic_metadata(&[&"x".repeat(40_000)]).unwrap_err();
    assert!(matches!(
        error,
        Error::Request {
            api: "Metadata",
            ..
        }
    ));
    assert_eq!(broker.connections(), 0);
}

#[test]
fn a_closed_client_stays_closed() {
    // Kafka's closed client opened its socket again.
    let broker = FakeBroker::answering(echo);
    let consumer = consumer_of(broker.address(), LONG);
    consumer.topic_metadata(&["a"]).unwrap();
    consumer.close();
    consumer.close();
    for _ in 0..2 {
        let error = consumer.topic_metadata(&["a"]).unwrap_err();
        assert!(matches!(error, Error::Closed), "{error:?}");
    }
    assert_eq!(broker.connections(), 1);
}

#[test]
fn a_client_closed_before_its_first_use_never_connects() {
    let broker = FakeBroker::answering(echo);
    let consumer = consumer_of(broker.address(), LONG);
    consumer.close();
    let error = consumer.topic_metadata(&["a"]).unwrap_err();
    assert!(matches!(error, Error::Closed), "{error:?}");
    assert_eq!(broker.connections(), 0);
}

/// Blocks a request to `address` until `blocked` says so, ends it with `end`, and returns how long that took.
fn time_to_end(
    address: BrokerAddress,
    blocked: impl FnOnce(),
    end: impl FnOnce(&SimpleConsumer),
) -> Duration {
    let consumer = Arc::new(consumer_of(address, LONG));
    let (done, is_done) = bounded(1);
    let asking = {
        let consumer = Arc::clone(&consumer);
        thread::spawn(move || {
            let error = consumer.topic_metadata(&["a"]).unwrap_err();
            done.send((error, Instant::now())).unwrap();
        })
    };
    blocked();
    assert!(is_done.try_recv().is_err(), "the request is blocked");
    let began = Instant::now();
    end(&consumer);
    let (error, ended) = is_done.recv_timeout(LONG).unwrap();
    assert!(matches!(error, Error::Closed), "{error:?}");
    asking.join().unwrap();
    ended.saturating_duration_since(began)
}

/// A machine under load may miss a short limit now and then, but not each time.
fn assert_soon(attempt: impl Fn() -> Duration) {
    let times: Vec<Duration> = (0..5).map(|_| attempt()).collect();
    assert!(times.iter().any(|time| *time < SOON), "{times:?}");
}

#[test]
fn closing_ends_a_blocked_read_at_once() {
    let (received, is_received) = unbounded();
    let broker = faulty(usize::MAX, move |_, stream| {
        received.send(()).unwrap();
        await_hang_up(stream)
    });
    let blocked = || is_received.recv_timeout(LONG).unwrap();
    assert_soon(|| time_to_end(broker.address(), blocked, SimpleConsumer::close));
    assert_eq!(
        broker.connections(),
        broker.received().len(),
        "never repeated"
    );
}

#[test]
fn closing_ends_a_blocked_connect_at_once() {
    let port = FullPort::new();
    let blocked = || {
        // Longer than the first slice of the attempt.
        thread::park_timeout(SOON);
    };
    assert_soon(|| time_to_end(port.address.clone(), blocked, SimpleConsumer::close));
}

#[test]
fn requests_of_several_threads_take_turns() {
    let broker = FakeBroker::answering(echo);
    let consumer = consumer_of(broker.address(), LONG);
    thread::scope(|scope| {
        for thread in 0..8 {
            let consumer = &consumer;
            scope.spawn(move || {
                for round in 0..20 {
                    let topic = format!("{thread}-{round}");
                    let answer = consumer.topic_metadata(&[&topic]).unwrap();
                    assert_eq!(answer, of_topic(&topic));
                }
            });
        }
    });
    assert_eq!(broker.connections(), 1);
}

// Offsets.

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new("topic", number)
}

fn offsets_broker() -> FakeBroker {
    FakeBroker::answering(|request: ListOffsetsRequest| {
        let answered = request.partitions.into_iter().filter_map(|asked| {
            let (error, offsets) = match asked.topic_partition.partition() {
                0 if asked.time == OffsetTime::Latest => (None, vec![20, 18, 0]),
                0 => (None, vec![0]),
                1 => (Some(ErrorCode::UnknownTopicOrPartition), Vec::new()),
                2 => (None, Vec::new()),
                4 => (None, vec![-1]),
                _ => return None,
            };
            Some(PartitionOffsets {
                topic_partition: asked.topic_partition,
                error,
                timestamp: None,
                leader_epoch: None,
                offsets,
            })
        });
        ListOffsetsResponse {
            partitions: answered.collect(),
            ..ListOffsetsResponse::default()
        }
    })
}

#[test]
fn an_offset_is_the_first_of_the_list() {
    let broker = offsets_broker();
    let consumer = consumer_of(broker.address(), LONG);
    let offset = |time| {
        consumer
            .earliest_or_latest_offset(&partition(0), time)
            .unwrap()
    };
    assert_eq!(offset(OffsetTime::Latest), 20);
    assert_eq!(offset(OffsetTime::Earliest), 0);
    let request = ListOffsetsRequest::default().list(partition(0), OffsetTime::Latest);
    let answer = consumer.offsets_before(&request).unwrap();
    assert_eq!(answer.partitions[0].offsets, [20, 18, 0]);
}

#[test]
fn an_offset_that_is_refused_or_left_out_is_an_error_that_names_the_partition() {
    let broker = offsets_broker();
    let consumer = consumer_of(broker.address(), LONG);
    let error = |number| {
        consumer
            .earliest_or_latest_offset(&partition(number), OffsetTime::Latest)
            .unwrap_err()
    };
    assert!(matches!(
        error(1),
        Error::Partition {
            code: ErrorCode::UnknownTopicOrPartition,
            ..
        }
    ));
    // 4: -1 was handed on as the offset of a partition; the other callers each had a check of their own.
    for number in [2, 3, 4] {
        let error = error(number);
        assert!(matches!(error, Error::Incomplete { .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("topic/{number}")));
    }
    assert_eq!(
        broker.connections(),
        1,
        "none of these is a lost connection"
    );
}

// Fetching.

fn fetched(number: i32, bytes: &[u8]) -> FetchedPartition {
    FetchedPartition {
        topic_partition: partition(number),
        header: PartitionHeader {
            high_watermark: Some(100),
            ..PartitionHeader::default()
        },
        message_set: MessageSet::from(bytes.to_vec()),
    }
}

fn two_partitions() -> FetchRequest {
    FetchRequest::default()
        .fetch(partition(0), 5, 1000)
        .fetch(partition(1), 7, 1000)
}

fn fetch_into(
    consumer: &SimpleConsumer,
    mut wanted: FetchRequest,
    sink: &mut Sink,
) -> Result<Absence, Error> {
    consumer.fetch_into(&mut FetchSession::new(), &mut wanted, sink)
}

fn two_answers() -> FetchResponse {
    FetchResponse {
        partitions: vec![fetched(0, &[1; 600]), fetched(1, &[2; 700])],
        ..FetchResponse::default()
    }
}

/// Sends on what it receives.
struct Sink {
    partitions: Sender<(i32, usize)>,
}

impl Sink {
    fn new() -> (Self, Receiver<(i32, usize)>) {
        let (partitions, received) = unbounded();
        (Self { partitions }, received)
    }
}

impl FetchSink for Sink {
    fn buffer(&mut self, _: &str, _: i32, size: usize) -> Vec<u8> {
        Vec::with_capacity(size)
    }

    fn partition(
        &mut self,
        topic: &str,
        partition: i32,
        header: PartitionHeader,
        message_set: Vec<u8>,
    ) {
        assert_eq!(
            (topic, header.error, header.high_watermark),
            ("topic", None, Some(100))
        );
        self.partitions
            .send((partition, message_set.len()))
            .unwrap();
    }
}

#[test]
fn a_fetch_brings_what_each_partition_has() {
    let broker = FakeBroker::answering(|request: FetchRequest| {
        assert_eq!(request, two_partitions());
        two_answers()
    });
    let consumer = consumer_of(broker.address(), LONG);
    assert_eq!(consumer.fetch(&two_partitions()).unwrap(), two_answers());
}

#[test]
fn a_partition_is_handed_over_before_the_frame_is_complete() {
    let (go_on, may_go_on) = bounded::<()>(0);
    let broker = FakeBroker::handling::<FetchRequest>(move |received, stream| {
        let frame = received.frame(&two_answers());
        let (first, second) = frame.split_at(700);
        stream.write_all(first).unwrap();
        may_go_on.recv_timeout(LONG).unwrap();
        stream.write_all(second).unwrap();
        Then::GoOn
    });
    let consumer = consumer_of(broker.address(), LONG);
    let (mut sink, received) = Sink::new();
    thread::scope(|scope| {
        let fetching = scope.spawn(|| fetch_into(&consumer, two_partitions(), &mut sink));
        assert_eq!(received.recv_timeout(LONG), Ok((0, 600)));
        assert!(received.try_recv().is_err(), "half of it is not there yet");
        go_on.send_timeout((), LONG).unwrap();
        assert_eq!(received.recv_timeout(LONG), Ok((1, 700)));
        assert_eq!(fetching.join().unwrap().unwrap(), Absence::Failed);
    });
}

/// Breaks the first answer off after `bytes`, and gives whole ones later.
fn broken_off_at(bytes: usize) -> FakeBroker {
    FakeBroker::handling::<FetchRequest>(move |received, stream| {
        let frame = received.frame(&two_answers());
        if received.before == 0 {
            stream.write_all(&frame[..bytes]).unwrap();
            return Then::HangUp;
        }
        stream.write_all(&frame).unwrap();
        Then::GoOn
    })
}

#[test]
fn a_fetch_that_brought_no_partition_is_repeated() {
    let broker = broken_off_at(300);
    let (mut sink, received) = Sink::new();
    let consumer = consumer_of(broker.address(), LONG);
    fetch_into(&consumer, two_partitions(), &mut sink).unwrap();
    let received: Vec<_> = received.try_iter().collect();
    assert_eq!(received, [(0, 600), (1, 700)]);
    assert_eq!(broker.received().len(), 2);
}

#[test]
fn a_fetch_that_brought_a_partition_is_not_repeated() {
    let broker = broken_off_at(800);
    let (mut sink, received) = Sink::new();
    let consumer = consumer_of(broker.address(), LONG);
    let error = fetch_into(&consumer, two_partitions(), &mut sink).unwrap_err();
    assert_eq!(kind_of(&error), Some(ErrorKind::UnexpectedEof));
    assert_eq!(received.try_iter().collect::<Vec<_>>(), [(0, 600)]);
    assert_eq!(broker.received().len(), 1);
    fetch_into(&consumer, two_partitions(), &mut sink).unwrap();
    assert_eq!(
        received.len(),
        2,
        "the next call begins with a new connection"
    );
}

#[test]
fn a_fetch_may_not_wait_for_longer_than_the_socket() {
    let consumer = consumer_of(closed_port(), SHORT);
    let request = FetchRequest {
        max_wait: SHORT + Duration::from_millis(1),
        ..two_partitions()
    };
    let error = consumer.fetch(&request).unwrap_err();
    assert!(error.to_string().contains("201 ms"), "{error}");
    let (mut sink, _received) = Sink::new();
    let error = fetch_into(&consumer, request, &mut sink).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }), "{error:?}");
}

#[test]
fn a_fetch_answer_beyond_what_was_asked_for_is_refused() {
    let broker = FakeBrokerBuilder::default()
        .on::<FetchRequest>(|received, stream| {
            let id = received.header.correlation_id;
            drop(stream.write_all(&raw_frame(2_000_000, id, &[0; 8])));
            await_hang_up(stream)
        })
        .start();
    let consumer = consumer_of(broker.address(), LONG);
    let error = consumer.fetch(&two_partitions()).unwrap_err();
    assert!(is_response(&error, "frame size 2000000"), "{error:?}");
}

#[test]
fn large_sets_go_from_the_socket_into_their_buffer_in_large_reads() {
    /// Counts the reads.
    struct Counting<R>(R, Vec<usize>);

    impl<R: io::Read> io::Read for Counting<R> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1.push(buffer.len());
            self.0.read(buffer)
        }
    }

    const SIZE: usize = 4 * 1024 * 1024;
    let bytes = vec![7; SIZE];
    let mut source = io::BufReader::with_capacity(8192, Counting(&bytes[..], Vec::new()));
    let mut set = Vec::with_capacity(SIZE);
    let mut body = crate::protocol::Reader::of_frame(&mut source, SIZE);
    body.fill("message_set", SIZE, &mut set).unwrap();
    assert_eq!(set, bytes);
    let reads = &source.get_ref().1;
    assert!(reads.len() < 20, "{reads:?}");
}
