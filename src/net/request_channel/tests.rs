//! Which versions go over the wire to which broker, and what is asked first.

use std::io::Read;
use std::io::Write;
use std::net::TcpStream;

use super::*;
use crate::cluster::TopicPartition;
use crate::net::SimpleConsumer;
use crate::net::SimpleConsumerOptions;
use crate::net::fake_broker::FakeBroker;
use crate::net::fake_broker::FakeBrokerBuilder;
use crate::net::fake_broker::Received;
use crate::net::fake_broker::Then;
use crate::protocol::ApiVersion;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MetadataRequest;
use crate::protocol::MetadataResponse;
use crate::protocol::OffsetTime;
use crate::protocol::PartitionOffsets;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);

fn consumer_of(broker: &FakeBroker, version: BrokerVersion, timeout: Duration) -> SimpleConsumer {
    let options = SimpleConsumerOptions {
        broker_version: version,
        socket_timeout: timeout,
        ..SimpleConsumerOptions::default()
    };
    SimpleConsumer::new(broker.address(), options).unwrap()
}

/// Answers everything but ApiVersions, on which each test decides.
fn builder() -> FakeBrokerBuilder {
    FakeBrokerBuilder::default()
        .answer(|_: FetchRequest| FetchResponse::default())
        .answer(|_: MetadataRequest| MetadataResponse::default())
        .answer(|request: ListOffsetsRequest| ListOffsetsResponse {
            partitions: request
                .partitions
                .into_iter()
                .map(|asked| PartitionOffsets {
                    topic_partition: asked.topic_partition,
                    error: None,
                    timestamp: Some(9),
                    leader_epoch: None,
                    offsets: vec![42],
                })
                .collect(),
            ..ListOffsetsResponse::default()
        })
}

/// Fetches, asks for an offset and for metadata.
fn ask_everything(consumer: &SimpleConsumer) -> Result<(), Error> {
    consumer.fetch(&FetchRequest::default())?;
    let partition = TopicPartition::new("orders", 0);
    let offset = consumer.earliest_or_latest_offset(&partition, OffsetTime::Latest)?;
    assert_eq!(offset, 42, "one answer for all versions");
    consumer.topic_metadata(&["orders"]).map(drop)
}

/// Numbers and versions of all requests so far.
fn asked(broker: &FakeBroker) -> Vec<(i16, i16)> {
    let headers = broker.received().into_iter();
    headers.map(|it| (it.api_key, it.api_version)).collect()
}

const API_VERSIONS: (i16, i16) = (18, 0);
const PROBE: [(i16, i16); 2] = [API_VERSIONS, (3, 0)];

fn serving(ranges: &[(i16, i16, i16)]) -> ApiVersionsResponse {
    let apis = ranges.iter().map(|range| ApiVersion {
        api_key: range.0,
        min_version: range.1,
        max_version: range.2,
    });
    ApiVersionsResponse {
        throttle_time: None,
        error: None,
        api_versions: apis.collect(),
    }
}

/// As 2.8 says, with a request that nobody here knows.
fn of_2_8() -> ApiVersionsResponse {
    serving(&[(3, 0, 11), (61, 0, 0), (1, 0, 12), (2, 0, 6)])
}

fn hangs_up(_: &Received, _: &mut TcpStream) -> Then {
    Then::HangUp
}

/// Says nothing to anything that still comes, until the client hangs up.
fn says_nothing(stream: &mut TcpStream) -> Then {
    drop(stream.read_to_end(&mut Vec::new()));
    Then::HangUp
}

#[test]
fn a_broker_of_0_8_or_0_9_is_never_asked_for_its_versions() {
    let cases = [
        (BrokerVersion::V0_8, [(1, 0), (2, 0), (3, 0)]),
        (BrokerVersion::V0_9, [(1, 1), (2, 0), (3, 0)]),
    ];
    for (version, expected) in cases {
        let broker = builder().start();
        let consumer = consumer_of(&broker, version, LONG);
        ask_everything(&consumer).unwrap();
        broker.hang_up();
        ask_everything(&consumer).unwrap();
        assert_eq!(asked(&broker), [expected, expected].concat());
    }
}

#[test]
fn a_later_broker_is_asked_first_on_each_connection() {
    let broker = builder().answer(|_: ApiVersionsRequest| of_2_8()).start();
    let consumer = consumer_of(&broker, BrokerVersion::V0_10, LONG);
    let expected = [API_VERSIONS, (1, 11), (2, 5), (3, 5)];
    ask_everything(&consumer).unwrap();
    assert_eq!(asked(&broker), expected);
    broker.hang_up();
    ask_everything(&consumer).unwrap();
    assert_eq!(asked(&broker), [expected, expected].concat());
}

#[test]
fn a_broker_that_was_upgraded_is_spoken_to_anew() {
    let broker = builder()
        .on::<ApiVersionsRequest>(|received, stream| {
            let most = if received.before == 0 { 3 } else { 7 };
            let answer = serving(&[(1, 0, most), (2, 0, 1), (3, 0, 1)]);
            received.send(stream, &answer);
            Then::GoOn
        })
        .start();
    let consumer = consumer_of(&broker, BrokerVersion::V0_10, LONG);
    for most in [3, 7] {
        consumer.fetch(&FetchRequest::default()).unwrap();
        assert_eq!(asked(&broker).last(), Some(&(1, most)));
        broker.hang_up();
    }
}

#[test]
fn what_a_broker_no_longer_serves_is_one_clear_error() {
    let answer = |_: ApiVersionsRequest| serving(&[(1, 12, 18), (2, 1, 11)]);
    let broker = builder().answer(answer).start();
    let consumer = consumer_of(&broker, BrokerVersion::V0_10, LONG);
    let error = consumer.fetch(&FetchRequest::default()).unwrap_err();
    let address = broker.address();
    let text =
        format!("broker {address} serves Fetch in versions 12 to 18, known here are 0 to 11");
    assert_eq!(error.to_string(), text);
    let error = consumer.topic_metadata(&[]).unwrap_err();
    let text = format!("broker {address} does not serve Metadata, known here are 0 to 5");
    assert_eq!(error.to_string(), text);
    assert_eq!(
        asked(&broker),
        [API_VERSIONS],
        "nothing is found out by trying"
    );
}

#[test]
fn an_answer_about_versions_that_says_nothing_closes_the_connection() {
    let broker = builder()
        .on::<ApiVersionsRequest>(|received, stream| {
            let answer = match received.before {
                0 => ApiVersionsResponse {
                    error: Some(ErrorCode::UnsupportedVersion),
                    ..ApiVersionsResponse::default()
                },
                _ => of_2_8(),
            };
            received.send(stream, &answer);
            Then::GoOn
        })
        .start();
    let consumer = consumer_of(&broker, BrokerVersion::V0_10, LONG);
    let error = ask_everything(&consumer).unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    ask_everything(&consumer).unwrap();
    assert_eq!(broker.connections(), 2);
}

#[test]
fn a_probe_finds_out_what_answers_it() {
    let later = builder().answer(|_: ApiVersionsRequest| of_2_8());
    let silent = |_: &Received, _: &mut TcpStream| Then::GoOn;
    let of_0_9 = builder().on::<ApiVersionsRequest>(silent);
    let of_0_8 = builder().on::<ApiVersionsRequest>(hangs_up);
    let reset = builder().on::<ApiVersionsRequest>(|_, _| Then::Reset);
    let cases = [
        (later, &PROBE[..], &[API_VERSIONS][..], (1, 11)),
        (of_0_9, &PROBE[..], &[], (1, 1)),
        (of_0_8, &PROBE[..1], &[], (1, 0)),
        (reset, &PROBE[..1], &[], (1, 0)),
    ];
    for (builder, probe, question, fetch) in cases {
        let broker = builder.start();
        let consumer = consumer_of(&broker, BrokerVersion::Probe, LONG);
        for connections in 2..=3 {
            consumer.fetch(&FetchRequest::default()).unwrap();
            assert_eq!(broker.connections(), connections, "a probe is made once");
            broker.hang_up();
        }
        // The second request of a probe may still be on its way when the answer to the first is there.
        let of_probe = |it: &(i16, i16)| probe.contains(it) && *it != API_VERSIONS;
        let mut seen = asked(&broker);
        seen.retain(|it| !of_probe(it));
        let once = [question, &[fetch]].concat();
        assert_eq!(seen, [&[API_VERSIONS][..], &once, &once].concat());
    }
}

#[test]
fn a_probe_that_nobody_answers_decides_nothing() {
    let broker = builder()
        .on::<ApiVersionsRequest>(|received, stream| match received.before {
            0 | 1 => says_nothing(stream),
            _ => {
                received.send(stream, &of_2_8());
                Then::GoOn
            }
        })
        .start();
    let consumer = consumer_of(&broker, BrokerVersion::Probe, SHORT);
    let error = consumer.fetch(&FetchRequest::default()).unwrap_err();
    assert!(matches!(error, Error::Broker { .. }), "{error:?}");
    consumer.fetch(&FetchRequest::default()).unwrap();
    assert_eq!(asked(&broker).last(), Some(&(1, 11)));
}

#[test]
fn what_a_probe_found_out_is_doubted_when_the_first_request_is_not_answered() {
    // The broker was still starting: it hung up on the probe, was taken for 0.8, and would stay so.
    let broker = builder()
        .on::<ApiVersionsRequest>(|received, stream| match received.before {
            0 => Then::HangUp,
            _ => {
                received.send(stream, &of_2_8());
                Then::GoOn
            }
        })
        .on::<FetchRequest>(|received, stream| match received.before {
            0 => Then::HangUp,
            _ => {
                received.send(stream, &FetchResponse::default());
                Then::GoOn
            }
        })
        .start();
    let consumer = consumer_of(&broker, BrokerVersion::Probe, LONG);
    consumer.fetch(&FetchRequest::default()).unwrap();
    assert_eq!(asked(&broker).last(), Some(&(1, 11)));
}

#[test]
fn an_answer_in_another_layout_makes_a_probe_doubtful() {
    let broker = builder()
        .answer(|_: ApiVersionsRequest| of_2_8())
        .on::<FetchRequest>(|received, stream| {
            let mut frame = received.frame(&FetchResponse::default());
            if received.before == 1 {
                // An impossible number of topics.
                let count = frame.len() - 4;
                frame[count..].fill(0x7f);
            }
            stream.write_all(&frame).unwrap();
            Then::GoOn
        })
        .start();
    let consumer = consumer_of(&broker, BrokerVersion::Probe, LONG);
    for _ in 0..2 {
        consumer.fetch(&FetchRequest::default()).unwrap();
    }
    assert_eq!(
        broker.connections(),
        4,
        "a probe, a connection, and both again"
    );
}

#[test]
fn closing_ends_a_probe() {
    let broker = builder()
        .on::<ApiVersionsRequest>(|_, stream| says_nothing(stream))
        .start();
    let consumer = consumer_of(&broker, BrokerVersion::Probe, LONG);
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| consumer.fetch(&FetchRequest::default()));
        let deadline = Instant::now() + LONG;
        while broker.received().is_empty() {
            assert!(Instant::now() < deadline, "the probe has begun");
            std::thread::yield_now();
        }
        consumer.close();
        let error = fetching.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::Closed), "{error:?}");
    });
}
