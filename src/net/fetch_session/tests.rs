//! Sessions over real sockets, against a broker that does what its script says.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::error::Error;
use crate::net::Absence;
use crate::net::BrokerVersion;
use crate::net::SimpleConsumer;
use crate::net::SimpleConsumerOptions;
use crate::net::fake_broker::FakeBroker;
use crate::net::fake_broker::FakeBrokerBuilder;
use crate::protocol::ApiVersion;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::FetchResponse;
use crate::protocol::FetchSink;
use crate::protocol::FetchedPartition;
use crate::protocol::MessageSet;
use crate::protocol::PartitionHeader;
use crate::protocol::Request;

const SESSION: i32 = 77;

/// A broker, a client of it, and what passed between the two.
struct Bench {
    broker: FakeBroker,
    consumer: SimpleConsumer,
    session: FetchSession,
    asked: Arc<Mutex<Vec<FetchRequest>>>,
    answers: Arc<Mutex<Vec<FetchResponse>>>,
}

/// Session, positions, and partitions to forget.
type Asked = (FetchMetadata, Vec<(i32, i64)>, Vec<i32>);

/// Wants the answers to be there, whatever they are.
struct Sink;

impl FetchSink for Sink {
    fn buffer(&mut self, _: &str, _: i32, _: usize) -> Vec<u8> {
        Vec::new()
    }

    fn partition(&mut self, _: &str, _: i32, _: PartitionHeader, _: Vec<u8>) {}
}

impl Bench {
    /// A broker that serves Fetch up to `most`, and opens a session for whoever has no script for it.
    fn new(most: i16) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answers = Arc::new(Mutex::new(Vec::<FetchResponse>::new()));
        let (asking, answering) = (Arc::clone(&asked), Arc::clone(&answers));
        let broker = FakeBrokerBuilder::default()
            .answer(move |_: ApiVersionsRequest| serving_fetch(most))
            .answer(move |request: FetchRequest| {
                asking.lock().push(request);
                let mut answers = answering.lock();
                match answers.is_empty() {
                    true => of_session(Some(SESSION)),
                    false => answers.remove(0),
                }
            })
            .start();
        let options = SimpleConsumerOptions {
            broker_version: BrokerVersion::V0_10,
            ..SimpleConsumerOptions::default()
        };
        Self {
            consumer: SimpleConsumer::new(broker.address(), options).unwrap(),
            broker,
            session: FetchSession::new(),
            asked,
            answers,
        }
    }

    fn will_answer(&self, answers: impl IntoIterator<Item = FetchResponse>) {
        self.answers.lock().extend(answers);
    }

    fn fetch(&mut self, wanted: &[(i32, i64)]) -> Result<Absence, Error> {
        let mut request = FetchRequest::default();
        for (partition, offset) in wanted {
            request = request.fetch(orders(*partition), *offset, 1 << 20);
        }
        self.consumer
            .fetch_into(&mut self.session, &mut request, &mut Sink)
    }

    fn absence(&mut self, wanted: &[(i32, i64)]) -> Absence {
        self.fetch(wanted).unwrap()
    }

    /// What the broker was asked since the last call.
    fn take_asked(&self) -> Vec<Asked> {
        let asked = std::mem::take(&mut *self.asked.lock()).into_iter();
        let asked = asked.map(|request| {
            let positions = request.partitions.iter();
            let forgotten = request.forgotten.iter();
            (
                request.metadata,
                positions
                    .map(|it| (it.topic_partition.partition(), it.fetch_offset))
                    .collect(),
                forgotten.map(TopicPartition::partition).collect(),
            )
        });
        asked.collect()
    }
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn serving_fetch(most: i16) -> ApiVersionsResponse {
    ApiVersionsResponse {
        throttle_time: None,
        error: None,
        api_versions: vec![ApiVersion {
            api_key: FetchRequest::KEY,
            min_version: 0,
            max_version: most,
        }],
    }
}

fn of_session(session_id: Option<i32>) -> FetchResponse {
    FetchResponse {
        session_id,
        ..FetchResponse::default()
    }
}

fn refusal(code: ErrorCode) -> FetchResponse {
    FetchResponse {
        error: Some(code),
        ..FetchResponse::default()
    }
}

fn full() -> FetchMetadata {
    FetchMetadata::Full { closing: None }
}

fn incremental(epoch: i32) -> FetchMetadata {
    FetchMetadata::Incremental {
        session_id: SESSION,
        epoch,
    }
}

#[test]
fn once_the_broker_remembers_only_what_changed_is_sent() {
    let mut bench = Bench::new(11);
    assert_eq!(bench.absence(&[(0, 10), (1, 20)]), Absence::Failed);
    assert_eq!(
        bench.take_asked(),
        [(full(), vec![(0, 10), (1, 20)], vec![])]
    );
    assert_eq!(bench.absence(&[(0, 15), (1, 20)]), Absence::NoNews);
    bench.fetch(&[(0, 15), (1, 20)]).unwrap();
    // The stream of partition 1 has no room for a while.
    bench.fetch(&[(0, 15)]).unwrap();
    bench.fetch(&[(0, 15)]).unwrap();
    bench.fetch(&[(0, 16), (1, 20), (2, 0)]).unwrap();
    assert_eq!(
        bench.take_asked(),
        [
            (incremental(1), vec![(0, 15)], vec![]),
            (incremental(2), vec![], vec![]),
            (incremental(3), vec![], vec![1]),
            (incremental(4), vec![], vec![]),
            (incremental(5), vec![(0, 16), (1, 20), (2, 0)], vec![]),
        ]
    );
    assert_eq!(bench.broker.connections(), 1);
}

#[test]
fn a_session_that_told_of_a_partition_that_is_new_to_the_fetcher_begins_anew() {
    // The fetcher had got it back, and had forgotten what only the first answer of the session said.
    let mut bench = Bench::new(11);
    bench.session.welcome(&orders(0));
    bench.fetch(&[(0, 10)]).unwrap();
    bench.session.welcome(&orders(1));
    bench.fetch(&[(0, 10), (1, 20)]).unwrap();
    bench.session.welcome(&orders(0));
    bench.fetch(&[(0, 10), (1, 20)]).unwrap();
    let anew = FetchMetadata::Full {
        closing: Some(SESSION),
    };
    assert_eq!(
        bench.take_asked(),
        [
            (full(), vec![(0, 10)], vec![]),
            (incremental(1), vec![(1, 20)], vec![]),
            (anew, vec![(0, 10), (1, 20)], vec![]),
        ]
    );
}

#[test]
fn everything_else_of_a_request_is_said_each_time() {
    let mut bench = Bench::new(11);
    bench.fetch(&[(0, 10)]).unwrap();
    let mut request = FetchRequest {
        max_wait: Duration::from_millis(123),
        min_bytes: 5,
        max_bytes: 6,
        rack: String::from("here"),
        ..FetchRequest::default()
    }
    .fetch(orders(0), 10, 1 << 20);
    let answer = bench
        .consumer
        .fetch_into(&mut bench.session, &mut request, &mut Sink);
    answer.unwrap();
    let sent = bench.asked.lock().pop().unwrap();
    let expected = FetchRequest {
        metadata: incremental(1),
        partitions: Vec::new(),
        ..request
    };
    assert_eq!(sent, expected);
}

#[test]
fn a_session_that_the_broker_dropped_is_replaced_at_once() {
    let cases = [
        (ErrorCode::FetchSessionIdNotFound, None),
        (ErrorCode::InvalidFetchSessionEpoch, Some(SESSION)),
    ];
    for (code, closing) in cases {
        let mut bench = Bench::new(11);
        bench.fetch(&[(0, 10), (1, 20)]).unwrap();
        bench.take_asked();
        bench.will_answer([refusal(code)]);
        let absence = bench.absence(&[(0, 11), (1, 20)]);
        assert_eq!(absence, Absence::Failed, "the second answer counts");
        bench.fetch(&[(0, 12), (1, 20)]).unwrap();
        assert_eq!(
            bench.take_asked(),
            [
                (incremental(1), vec![(0, 11)], vec![]),
                (
                    FetchMetadata::Full { closing },
                    vec![(0, 11), (1, 20)],
                    vec![]
                ),
                (incremental(1), vec![(0, 12)], vec![]),
            ],
            "{code}"
        );
    }
}

#[test]
fn a_broker_that_complains_of_a_session_that_was_not_asked_for_is_not_asked_again_and_again() {
    let mut bench = Bench::new(11);
    bench.will_answer([refusal(ErrorCode::FetchSessionIdNotFound)]);
    let error = bench.fetch(&[(0, 10)]).unwrap_err();
    let code = ErrorCode::FetchSessionIdNotFound;
    assert!(matches!(error, Error::Refused { code: it, .. } if it == code));
    assert!(error.to_string().contains("refused Fetch"), "{error}");
    assert_eq!(bench.take_asked().len(), 1);
    bench.fetch(&[(0, 10)]).unwrap();
    assert_eq!(bench.take_asked(), [(full(), vec![(0, 10)], vec![])]);
}

#[test]
fn a_lost_connection_ends_the_session() {
    let mut bench = Bench::new(11);
    bench.fetch(&[(0, 10), (1, 20)]).unwrap();
    bench.fetch(&[(0, 11), (1, 20)]).unwrap();
    bench.take_asked();
    bench.broker.hang_up();
    assert_eq!(bench.absence(&[(0, 12), (1, 20)]), Absence::Failed);
    assert_eq!(
        bench.take_asked(),
        [(full(), vec![(0, 12), (1, 20)], vec![])]
    );
    let asked = bench.broker.received();
    let questions = asked
        .iter()
        .filter(|it| it.api_key == ApiVersionsRequest::KEY);
    assert_eq!(questions.count(), 2, "one for each connection");
}

#[test]
fn without_a_session_every_request_names_everything() {
    let mut bench = Bench::new(11);
    bench.will_answer([of_session(None), of_session(None)]);
    for offset in 10..12 {
        assert_eq!(bench.absence(&[(0, offset), (1, 20)]), Absence::Failed);
        assert_eq!(
            bench.take_asked(),
            [(full(), vec![(0, offset), (1, 20)], vec![])]
        );
    }
}

#[test]
fn a_session_that_ends_with_an_answer_begins_anew() {
    for other in [None, Some(SESSION + 1)] {
        let mut bench = Bench::new(11);
        bench.will_answer([of_session(Some(SESSION)), of_session(other)]);
        for _ in 0..3 {
            bench.fetch(&[(0, 10)]).unwrap();
        }
        assert_eq!(
            bench.take_asked(),
            [
                (full(), vec![(0, 10)], vec![]),
                (incremental(1), vec![], vec![]),
                (full(), vec![(0, 10)], vec![]),
            ]
        );
    }
}

#[test]
fn a_broker_that_knows_no_sessions_is_never_told_of_one() {
    let mut bench = Bench::new(6);
    for _ in 0..2 {
        assert_eq!(bench.absence(&[(0, 10)]), Absence::Failed);
        let none = FetchMetadata::Sessionless { closing: None };
        assert_eq!(bench.take_asked(), [(none, vec![(0, 10)], vec![])]);
    }
}

#[test]
fn an_answer_that_a_quota_emptied_says_nothing_of_the_partitions_it_lacks() {
    // From 2.0 on a broker answers at once, with nothing, and reads no further request before the time is over.
    let mut bench = Bench::new(11);
    let throttled = FetchResponse {
        throttle_time: Some(Duration::from_millis(5)),
        ..FetchResponse::default()
    };
    let partition = FetchedPartition {
        topic_partition: orders(0),
        header: PartitionHeader::default(),
        message_set: MessageSet::default(),
    };
    let late = FetchResponse {
        partitions: vec![partition],
        ..throttled.clone()
    };
    bench.will_answer([throttled, late]);
    assert_eq!(bench.absence(&[(0, 10)]), Absence::Untold);
    assert_eq!(bench.absence(&[(0, 10)]), Absence::Failed);
}

#[test]
fn after_the_highest_epoch_comes_the_first() {
    let after = |epoch| following(incremental(epoch), SESSION);
    assert_eq!(after(1), incremental(2));
    assert_eq!(after(i32::MAX - 1), incremental(i32::MAX));
    assert_eq!(after(i32::MAX), incremental(1));
}
