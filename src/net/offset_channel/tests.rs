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
use crate::protocol::ApiVersion;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::CommittedOffset;
use crate::protocol::FetchedOffset;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::OffsetCommitResponse;
use crate::protocol::OffsetFetchResponse;
use crate::thread::Stopper;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// Brokers, and the versions of their registrations.
struct Directory {
    brokers: Vec<Broker>,
    versions: Mutex<BTreeMap<i32, i32>>,
}

impl BrokerDirectory for Directory {
    fn brokers(&self, _stop: &StopSignal) -> Result<RegisteredBrokers, Error> {
        Ok(RegisteredBrokers {
            brokers: self.brokers.clone(),
            versions: self.versions.lock().clone(),
        })
    }

    fn existing_topics(&self, topics: &[String], _stop: &StopSignal) -> Result<Vec<String>, Error> {
        Ok(topics.to_vec())
    }
}

struct Bench {
    directory: Arc<Directory>,
    channel: OffsetChannel,
    stopper: Stopper,
}

impl Bench {
    fn new(brokers: Vec<Broker>) -> Self {
        Self::with(brokers, BTreeMap::new(), LONG)
    }

    fn with(brokers: Vec<Broker>, versions: BTreeMap<i32, i32>, socket_timeout: Duration) -> Self {
        let versions = Mutex::new(versions);
        let directory = Arc::new(Directory { brokers, versions });
        let options = OffsetChannelOptions {
            group: "g".into(),
            client_id: "c".into(),
            address_map: BrokerAddressMap::default(),
            socket_timeout,
            backoff: Duration::from_millis(10),
            rounds: 3,
        };
        let asked: Arc<dyn BrokerDirectory> = directory.clone();
        Self {
            channel: OffsetChannel::new(asked, options),
            directory,
            stopper: Stopper::new(),
        }
    }

    fn end(&self) -> CallEnd {
        CallEnd {
            stop: self.stopper.signal(),
            is_entitled: Arc::new(|| true),
        }
    }

    /// Returns when the end of the stream has reached us, a moment after the broker closed it.
    fn lose_connection_to(&self, coordinator: &FakeBroker) {
        coordinator.hang_up();
        let deadline = Instant::now() + LONG;
        let kept = self.channel.coordinator.lock();
        let channel = &kept.as_ref().expect("a coordinator").channel;
        while !channel.has_stale_connection() {
            assert!(Instant::now() < deadline, "the broker has hung up");
            std::thread::yield_now();
        }
    }

    fn commit(&self) -> Result<Vec<Result<(), Error>>, Error> {
        self.channel.commit(&[(partition(0), 7)], &[], &self.end())
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

/// Keeps offsets, and serves these highest versions of commit and fetch.
fn keeper(commit: i16, fetch: i16) -> FakeBroker {
    let keys = [
        (OffsetCommitRequest::KEY, commit),
        (OffsetFetchRequest::KEY, fetch),
    ];
    let served = keys.map(|(api_key, max_version)| ApiVersion {
        api_key,
        min_version: 0,
        max_version,
    });
    let fetched = |partition: &TopicPartition| FetchedOffset {
        topic_partition: partition.clone(),
        offset: Some(7),
        metadata: None,
        error: None,
    };
    FakeBrokerBuilder::default()
        .answer(move |_: ApiVersionsRequest| ApiVersionsResponse {
            api_versions: served.to_vec(),
            ..ApiVersionsResponse::default()
        })
        .answer(|request: OffsetCommitRequest| committed(&request, None))
        .answer(move |request: OffsetFetchRequest| OffsetFetchResponse {
            partitions: request.partitions.iter().flatten().map(fetched).collect(),
            ..OffsetFetchResponse::default()
        })
        .start()
}

/// Refuses each fetch as a whole, in version 2, with the code that `code` makes of the number of fetches before.
fn refusing(code: impl Fn(usize) -> Option<ErrorCode> + Send + Sync + 'static) -> FakeBroker {
    FakeBrokerBuilder::default()
        .answer(|_: ApiVersionsRequest| ApiVersionsResponse {
            api_versions: vec![ApiVersion {
                api_key: OffsetFetchRequest::KEY,
                min_version: 0,
                max_version: 5,
            }],
            ..ApiVersionsResponse::default()
        })
        .on::<OffsetFetchRequest>(move |received, stream| {
            let refused = OffsetFetchResponse {
                error: code(received.before),
                ..OffsetFetchResponse::default()
            };
            received.send(stream, &refused);
            Then::GoOn
        })
        .start()
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
fn the_coordinators_registration_decides_about_the_versions_and_whether_it_may_be_asked_for_them() {
    for (registration, served, expected) in [
        (None, (2, 2), &[(8, 1), (9, 1)][..]),
        (Some(1), (2, 2), &[(8, 1), (9, 1)]),
        (Some(2), (2, 2), &[(8, 2), (9, 1)]),
        (Some(3), (2, 1), &[(18, 0), (8, 2), (9, 1)]),
        (Some(4), (2, 2), &[(18, 0), (8, 2), (9, 2)]),
        (Some(5), (9, 9), &[(18, 0), (8, 2), (9, 2)]),
    ] {
        let keeper = keeper(served.0, served.1);
        let guide = guide(vec![named(keeper.as_broker(5))]);
        let registration = registration.map(|version| (5, version));
        let versions = registration.into_iter().chain([(1, 2)]).collect();
        let bench = Bench::with(vec![guide.as_broker(1)], versions, LONG);
        assert!(bench.commit().unwrap()[0].is_ok());
        assert!(matches!(
            bench.fetch().unwrap()[..],
            [Ok(Some(7)), Ok(Some(7))]
        ));
        assert_eq!(keys(&keeper), expected, "{registration:?}");
        assert_eq!(keys(&guide), [(10, 0)]);
    }
}

#[test]
fn a_coordinator_that_is_upgraded_or_replaced_by_another_version_is_asked_as_what_it_is_now() {
    // Kept over the restart of the broker, the version of before would send the question for versions to one that has
    // gone back to 0.9.0, which then drops what other clients have asked it.
    let keeper_of_both = keeper(2, 2);
    let guide_to_it = guide(vec![named(keeper_of_both.as_broker(5))]);
    let bench = Bench::with(
        vec![guide_to_it.as_broker(1)],
        BTreeMap::from([(5, 2)]),
        LONG,
    );
    for registration in [2, 4, 2] {
        bench.directory.versions.lock().insert(5, registration);
        assert!(bench.fetch().unwrap()[0].is_ok());
        bench.lose_connection_to(&keeper_of_both);
    }
    assert_eq!(keys(&keeper_of_both), [(9, 1), (18, 0), (9, 2), (9, 1)]);
    assert_eq!(keys(&guide_to_it).len(), 1);

    let [old, new] = [
        coordinator(|_| Some(ErrorCode::NotCoordinator)),
        keeper(3, 3),
    ];
    let guide = guide(vec![named(old.as_broker(5)), named(new.as_broker(6))]);
    let versions = BTreeMap::from([(5, 2), (6, 4)]);
    let bench = Bench::with(vec![guide.as_broker(1)], versions, LONG);
    assert!(bench.commit().unwrap()[0].is_err());
    assert!(bench.fetch().unwrap()[0].is_ok());
    assert_eq!(
        (keys(&old), keys(&new)),
        (vec![(8, 2)], vec![(18, 0), (9, 2)])
    );
}

#[test]
fn a_coordinator_that_reads_offsets_from_zookeeper_only_is_not_asked_for_any() {
    let keeper = keeper(0, 0);
    let guide = guide(vec![named(keeper.as_broker(5))]);
    let bench = Bench::with(vec![guide.as_broker(1)], BTreeMap::from([(5, 3)]), LONG);
    for error in [bench.commit().unwrap_err(), bench.fetch().unwrap_err()] {
        assert!(matches!(error, Error::UnsupportedVersion { .. }), "{error}");
    }
    assert_eq!(keys(&keeper), [(18, 0); 2]);
}

#[test]
fn a_refusal_of_the_whole_group_is_told_by_its_code_and_a_coordinator_that_moved_is_looked_for_again()
 {
    // D37: the original did not look at this code, and failed over the partitions that were missing.
    let versions = || BTreeMap::from([(5, 4), (6, 4)]);
    for code in [
        ErrorCode::NotCoordinator,
        ErrorCode::CoordinatorNotAvailable,
    ] {
        let (old, new) = (refusing(move |_| Some(code)), keeper(3, 3));
        let guide = guide(vec![named(old.as_broker(5)), named(new.as_broker(6))]);
        let bench = Bench::with(vec![guide.as_broker(1)], versions(), LONG);
        let refused = bench.fetch().unwrap_err();
        assert!(refused.is_retriable(), "{refused}");
        assert!(bench.fetch().unwrap()[1].is_ok());
    }
    for (code, is_retriable) in [
        (ErrorCode::CoordinatorLoadInProgress, true),
        (ErrorCode::UnknownServerError, true),
        (ErrorCode::GroupAuthorizationFailed, false),
        (ErrorCode::InvalidGroupId, false),
    ] {
        let keeper = refusing(move |before| (before == 0).then_some(code));
        let guide = guide(vec![named(keeper.as_broker(5))]);
        let bench = Bench::with(vec![guide.as_broker(1)], versions(), LONG);
        let refused = bench.fetch().unwrap_err();
        let text = format!("refused OffsetFetch: {code}");
        assert!(refused.to_string().ends_with(&text), "{refused}");
        assert_eq!(refused.is_retriable(), is_retriable, "{code}");
        assert!(bench.fetch().is_ok());
        assert_eq!((keys(&guide).len(), keeper.connections()), (1, 1), "{code}");
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
    bench.lose_connection_to(&keeper);
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
    let commit = || bench.channel.commit(&[(partition(0), 7)], &[], &end);
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
    let results = bench.channel.commit(&offsets, &[], &bench.end()).unwrap();
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
    let results = bench.channel.commit(&offsets, &[], &bench.end()).unwrap();
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}
