use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crossbeam_channel::bounded;

use crate::net::broker_directory::RegisteredBrokers;
use crate::net::fake_broker::FakeBroker;
use crate::net::fake_broker::FakeBrokerBuilder;
use crate::net::fake_broker::Then;
use crate::net::fake_broker::await_hang_up;
use crate::net::fake_broker::closed_port;
use crate::protocol::CommittedOffset;
use crate::protocol::FetchedOffset;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::OffsetCommitResponse;
use crate::protocol::OffsetFetchResponse;
use crate::thread::Stopper;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Brokers, and the versions of their registrations.
#[derive(Default)]
struct Directory {
    brokers: Mutex<Vec<Broker>>,
    versions: BTreeMap<i32, i32>,
}

impl BrokerDirectory for Directory {
    fn brokers(&self, _stop: &StopSignal) -> Result<RegisteredBrokers, Error> {
        Ok(RegisteredBrokers {
            brokers: self.brokers.lock().clone(),
            versions: self.versions.clone(),
        })
    }

    fn existing_topics(&self, topics: &[String], _stop: &StopSignal) -> Result<Vec<String>, Error> {
        Ok(topics.to_vec())
    }
}

struct Bench {
    channel: OffsetChannel,
    stopper: Stopper,
}

impl Bench {
    fn new(brokers: Vec<Broker>) -> Self {
        Self::with(brokers, BTreeMap::new(), LONG)
    }

    fn with(brokers: Vec<Broker>, versions: BTreeMap<i32, i32>, socket_timeout: Duration) -> Self {
        let directory = Directory {
            brokers: Mutex::new(brokers),
            versions,
        };
        let options = OffsetChannelOptions {
            group: "g".into(),
            client_id: "c".into(),
            address_map: BrokerAddressMap::default(),
            socket_timeout,
            backoff: Duration::from_millis(10),
            rounds: 3,
        };
        Self {
            channel: OffsetChannel::new(Arc::new(directory), options),
            stopper: Stopper::new(),
        }
    }

    fn end(&self) -> CallEnd {
        CallEnd {
            stop: self.stopper.signal(),
            is_entitled: Arc::new(|| true),
        }
    }

    fn commit(&self) -> Result<Vec<Result<(), Error>>, Error> {
        self.channel.commit(&[(partition(0), 7)], &self.end())
    }

    fn fetch(&self) -> Result<Vec<Result<Option<i64>, Error>>, Error> {
        self.channel
            .fetch(&[partition(0), partition(1)], &self.end())
    }
}

fn partition(number: i32) -> TopicPartition {
    TopicPartition::new("orders", number)
}

fn named(broker: Broker) -> FindCoordinatorResponse {
    FindCoordinatorResponse {
        coordinator: Some(broker),
        ..FindCoordinatorResponse::default()
    }
}

fn nobody(code: ErrorCode) -> FindCoordinatorResponse {
    FindCoordinatorResponse {
        error: Some(code),
        ..FindCoordinatorResponse::default()
    }
}

fn committed(request: &OffsetCommitRequest, error: Option<ErrorCode>) -> OffsetCommitResponse {
    let partitions = request.partitions.iter().map(|it| CommittedOffset {
        topic_partition: it.topic_partition.clone(),
        error,
    });
    OffsetCommitResponse {
        partitions: partitions.collect(),
        ..OffsetCommitResponse::default()
    }
}

/// Answers every commit with the code that `code` makes of the number of commits before.
fn coordinator(code: impl Fn(usize) -> Option<ErrorCode> + Send + Sync + 'static) -> FakeBroker {
    FakeBroker::handling::<OffsetCommitRequest>(move |received, stream| {
        received.send(
            stream,
            &committed(&received.decode(), code(received.before)),
        );
        Then::GoOn
    })
}

/// Names the coordinators one after the other, the last one for ever.
fn guide(answers: Vec<FindCoordinatorResponse>) -> FakeBroker {
    FakeBroker::handling::<FindCoordinatorRequest>(move |received, stream| {
        let answer = answers.get(received.before).or(answers.last());
        received.send(stream, answer.unwrap());
        Then::GoOn
    })
}

fn keys(broker: &FakeBroker) -> Vec<(i16, i16)> {
    let received = broker.received().into_iter();
    received.map(|it| (it.api_key, it.api_version)).collect()
}

#[test]
fn any_broker_names_the_coordinator_which_is_asked_over_its_own_connection_and_kept() {
    let keeper = coordinator(|_| None);
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let bench = Bench::new(vec![guide.as_broker(1)]);
    for _ in 0..3 {
        assert!(bench.commit().unwrap()[0].is_ok());
    }
    assert_eq!(keys(&guide), [(10, 0)]);
    assert_eq!(keys(&keeper), [(8, 1); 3]);
    assert_eq!(keeper.connections(), 1);
    let ids: Vec<i32> = keeper
        .received()
        .iter()
        .map(|it| it.correlation_id)
        .collect();
    assert_eq!(ids, [0, 1, 2]);
}

#[test]
fn a_broker_that_names_itself_is_committed_to_over_another_connection() {
    // D34: the original went on with the connection of the search, and its time-out of 3 s cut commits short that had
    // been given 10 s.
    let itself = Arc::new(Mutex::new(None));
    let of_search = Arc::clone(&itself);
    let broker = FakeBrokerBuilder::default()
        .answer(move |_: FindCoordinatorRequest| named(of_search.lock().clone().unwrap()))
        .answer(|request: OffsetCommitRequest| committed(&request, None))
        .start();
    *itself.lock() = Some(broker.as_broker(1));
    let bench = Bench::new(vec![broker.as_broker(1)]);
    assert!(bench.commit().unwrap()[0].is_ok());
    assert_eq!(keys(&broker), [(10, 0), (8, 1)]);
    // Each connection counts its own requests.
    let received = broker.received();
    assert!(received.iter().all(|it| it.correlation_id == 0));
}

#[test]
fn the_coordinators_registration_decides_about_the_version_of_commits() {
    for (registration, version) in [(1, 1), (2, 2), (5, 2)] {
        let keeper = coordinator(|_| None);
        let guide = guide(vec![named(keeper.as_broker(5))]);
        let versions = BTreeMap::from([(1, 2), (5, registration)]);
        let bench = Bench::with(vec![guide.as_broker(1)], versions, LONG);
        assert!(bench.commit().unwrap()[0].is_ok());
        assert_eq!(keys(&keeper), [(8, version)]);
    }
}

#[test]
fn a_group_of_zookeeper_commits_without_generation_and_member_and_with_the_brokers_retention() {
    let (sender, requests) = bounded(1);
    let keeper = FakeBroker::answering(move |request: OffsetCommitRequest| {
        sender.send(request.clone()).unwrap();
        committed(&request, None)
    });
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let versions = BTreeMap::from([(5, 2)]);
    let bench = Bench::with(vec![guide.as_broker(1)], versions, LONG);
    assert!(bench.commit().unwrap()[0].is_ok());
    let request = requests.recv().unwrap();
    assert_eq!((request.generation, request.retention), (None, None));
    assert_eq!((request.group.as_str(), request.member.as_str()), ("g", ""));
    assert_eq!(request.partitions[0].offset, 7);
}

#[test]
fn a_coordinator_that_moved_is_looked_for_again_by_the_next_call() {
    for code in [
        ErrorCode::NotCoordinator,
        ErrorCode::CoordinatorNotAvailable,
    ] {
        let old = coordinator(move |_| Some(code));
        let new = coordinator(|_| None);
        let guide = guide(vec![named(old.as_broker(5)), named(new.as_broker(6))]);
        let bench = Bench::new(vec![guide.as_broker(1)]);
        let refused = bench.commit().unwrap().remove(0).unwrap_err();
        assert!(refused.is_retriable(), "{refused}");
        assert!(bench.commit().unwrap()[0].is_ok());
        assert_eq!((keys(&old).len(), keys(&new).len()), (1, 1));
    }
}

#[test]
fn a_coordinator_that_loads_its_log_is_asked_again_over_the_same_connection() {
    let loading = ErrorCode::CoordinatorLoadInProgress;
    let keeper = coordinator(move |before| (before == 0).then_some(loading));
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let bench = Bench::new(vec![guide.as_broker(1)]);
    assert!(bench.commit().unwrap()[0].is_err());
    assert!(bench.commit().unwrap()[0].is_ok());
    assert_eq!(keys(&guide).len(), 1);
    assert_eq!(keeper.connections(), 1);
}

#[test]
fn a_coordinator_that_is_gone_hangs_up_or_is_silent_is_looked_for_again() {
    let hangs_up = FakeBroker::handling::<OffsetCommitRequest>(|_, _| Then::HangUp);
    let silent = FakeBroker::handling::<OffsetCommitRequest>(|_, stream| await_hang_up(stream));
    let gone = Broker {
        id: 5,
        address: closed_port(),
    };
    for old in [gone, hangs_up.as_broker(5), silent.as_broker(5)] {
        let new = coordinator(|_| None);
        let guide = guide(vec![named(old), named(new.as_broker(6))]);
        let timeout = Duration::from_millis(300);
        let bench = Bench::with(vec![guide.as_broker(1)], BTreeMap::new(), timeout);
        let lost = bench.commit().unwrap_err();
        assert!(matches!(lost, Error::Broker { .. }), "{lost}");
        assert!(bench.commit().unwrap()[0].is_ok());
    }
}

#[test]
fn a_connection_that_was_idle_for_too_long_is_opened_again() {
    let keeper = coordinator(|_| None);
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let bench = Bench::new(vec![guide.as_broker(1)]);
    assert!(bench.commit().unwrap()[0].is_ok());
    keeper.hang_up();
    assert!(bench.commit().unwrap()[0].is_ok());
    assert_eq!((keys(&guide).len(), keeper.connections()), (1, 2));
}

#[test]
fn the_answer_to_another_request_is_not_taken() {
    // D53: the original did not look at the number.
    let keeper = FakeBroker::handling::<OffsetCommitRequest>(|received, stream| {
        let mut received = received.clone();
        received.header.correlation_id += i32::from(received.before == 0);
        received.send(stream, &committed(&received.decode(), None));
        Then::GoOn
    });
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let bench = Bench::new(vec![guide.as_broker(1)]);
    let wrong = bench.commit().unwrap_err();
    assert!(matches!(wrong, Error::Response { .. }), "{wrong}");
    assert_eq!(keeper.connections(), 1);
    assert!(bench.commit().unwrap()[0].is_ok());
    assert_eq!(keeper.connections(), 2);
}

#[test]
fn a_search_pauses_between_its_rounds_and_has_an_end() {
    // D33: the original turned without pause and without end while it held the locks of the rebalance.
    let creating = nobody(ErrorCode::CoordinatorNotAvailable);
    let guide = guide(vec![creating]);
    let bench = Bench::new(vec![guide.as_broker(1)]);
    let begun = Instant::now();
    let error = bench.commit().unwrap_err();
    assert!(error.is_retriable());
    assert!(
        error.to_string().contains("CoordinatorNotAvailable"),
        "{error}"
    );
    assert_eq!(keys(&guide).len(), 3);
    assert!(begun.elapsed() >= Duration::from_millis(20));

    let error = Bench::new(Vec::new()).commit().unwrap_err();
    assert!(error.is_retriable());
    assert!(
        error.to_string().ends_with("there is no broker to ask"),
        "{error}"
    );
}

#[test]
fn the_next_broker_is_asked_when_one_does_not_answer() {
    let keeper = coordinator(|_| None);
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let gone = Broker {
        id: 2,
        address: closed_port(),
    };
    let bench = Bench::new(vec![guide.as_broker(1), gone]);
    for _ in 0..10 {
        assert!(bench.commit().unwrap()[0].is_ok());
        bench.channel.forget();
    }
}

#[test]
fn a_search_that_is_refused_for_good_is_not_repeated() {
    let guide = guide(vec![nobody(ErrorCode::GroupAuthorizationFailed)]);
    let bench = Bench::new(vec![guide.as_broker(1)]);
    let error = bench.commit().unwrap_err();
    assert!(!error.is_retriable());
    assert_eq!(keys(&guide).len(), 1);
}

#[test]
fn brokers_before_0_8_2_are_told_apart_from_dead_ones() {
    let too_old = FakeBrokerBuilder::default().start();
    let bench = Bench::new(vec![too_old.as_broker(1)]);
    let error = bench.commit().unwrap_err();
    assert!(error.to_string().contains("before Kafka 0.8.2"), "{error}");
}

#[test]
fn a_stop_ends_a_search_and_a_wait_for_an_answer() {
    let guide = guide(vec![nobody(ErrorCode::CoordinatorNotAvailable)]);
    let silent = FakeBroker::handling::<FindCoordinatorRequest>(|_, stream| await_hang_up(stream));
    for broker in [&guide, &silent] {
        let mut bench = Bench::new(vec![broker.as_broker(1)]);
        bench.channel.options.backoff = LONG;
        std::thread::scope(|scope| {
            let call = scope.spawn(|| bench.commit());
            while broker.received().is_empty() {
                std::thread::yield_now();
            }
            let stopped = Instant::now();
            bench.stopper.stop();
            let ended = call.join().unwrap().unwrap_err();
            assert!(matches!(ended, Error::Closed), "{ended}");
            assert!(stopped.elapsed() < LONG);
        });
    }
}

#[test]
fn nothing_is_sent_for_who_is_not_entitled_and_a_wait_ends_with_the_right() {
    let keeper = FakeBroker::handling::<OffsetCommitRequest>(|_, stream| await_hang_up(stream));
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let bench = Bench::new(vec![guide.as_broker(1)]);
    let right = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&right);
    let end = CallEnd {
        stop: bench.stopper.signal(),
        is_entitled: Arc::new(move || asked.load(Ordering::Relaxed)),
    };
    let commit = || bench.channel.commit(&[(partition(0), 7)], &end);
    std::thread::scope(|scope| {
        let call = scope.spawn(commit);
        while keeper.received().is_empty() {
            std::thread::yield_now();
        }
        right.store(false, Ordering::Relaxed);
        assert!(matches!(call.join().unwrap(), Err(Error::Closed)));
    });
    assert!(matches!(commit(), Err(Error::Closed)));
    assert_eq!(keys(&keeper).len(), 1, "no second commit");
}

#[test]
fn each_partition_has_its_own_answer_and_a_missing_one_is_an_error() {
    let keeper = FakeBrokerBuilder::default()
        .answer(|request: OffsetFetchRequest| {
            let first = &request.partitions.as_ref().unwrap()[0];
            OffsetFetchResponse {
                partitions: vec![FetchedOffset {
                    topic_partition: first.clone(),
                    offset: None,
                    metadata: None,
                    error: None,
                }],
                ..OffsetFetchResponse::default()
            }
        })
        .answer(|request: OffsetCommitRequest| {
            let too_large = ErrorCode::OffsetMetadataTooLarge;
            let mut response = committed(&request, None);
            response.partitions[0].error = Some(too_large);
            response
        })
        .start();
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let bench = Bench::new(vec![guide.as_broker(1)]);
    let fetched = bench.fetch().unwrap();
    assert!(matches!(fetched[0], Ok(None)));
    let lacking = fetched[1].as_ref().unwrap_err();
    assert!(lacking.to_string().ends_with("lacks orders/1"), "{lacking}");

    let offsets = [(partition(0), 1), (partition(1), 2)];
    let results = bench.channel.commit(&offsets, &bench.end()).unwrap();
    let refused = results[0].as_ref().unwrap_err();
    assert!(!refused.is_retriable(), "{refused}");
    assert!(results[1].is_ok());
}

#[test]
fn a_partition_that_is_named_twice_has_its_answer_twice() {
    let keeper = FakeBrokerBuilder::default()
        .answer(|request: OffsetCommitRequest| OffsetCommitResponse {
            // Brokers answer each partition once.
            partitions: committed(&request, None).partitions.split_off(1),
            ..OffsetCommitResponse::default()
        })
        .start();
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let bench = Bench::new(vec![guide.as_broker(1)]);
    let offsets = [(partition(0), 1), (partition(0), 2)];
    let results = bench.channel.commit(&offsets, &bench.end()).unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}
