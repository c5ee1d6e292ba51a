use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;

use crossbeam_channel::bounded;
use crossbeam_channel::unbounded;

use super::*;
use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::config::BrokerAddressMap;
use crate::net::BrokerVersion;
use crate::net::fake_broker::FakeBroker;
use crate::net::fake_broker::FakeBrokerBuilder;
use crate::net::fake_broker::FullPort;
use crate::net::fake_broker::Then;
use crate::net::fake_broker::await_hang_up;
use crate::net::fake_broker::closed_port;
use crate::protocol::ApiVersion;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::MetadataRequest;
use crate::protocol::PartitionMetadata;
use crate::protocol::Request;
use crate::protocol::TopicMetadata;

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(200);
const SOON: Duration = Duration::from_millis(100);

/// ZooKeeper's part.
struct Directory {
    brokers: Mutex<Vec<Broker>>,
    /// Of all of them; `None` where none can be read.
    registration: Mutex<Option<i32>>,
    /// `None`: all that are asked for.
    topics: Mutex<Option<HashSet<String>>>,
    is_lost: AtomicBool,
    is_deleting: AtomicBool,
}

impl Directory {
    fn of(brokers: Vec<Broker>) -> Arc<Self> {
        Arc::new(Self {
            brokers: Mutex::new(brokers),
            registration: Mutex::new(Some(1)),
            topics: Mutex::new(None),
            is_lost: AtomicBool::new(false),
            is_deleting: AtomicBool::new(false),
        })
    }
}

impl BrokerDirectory for Directory {
    fn brokers(&self, _stop: &StopSignal) -> Result<RegisteredBrokers, Error> {
        let brokers = self.brokers.lock().clone();
        Ok(match *self.registration.lock() {
            Some(version) => RegisteredBrokers::in_version(version, brokers),
            None => RegisteredBrokers {
                brokers,
                ..RegisteredBrokers::default()
            },
        })
    }

    fn existing_topics(&self, topics: &[String], _stop: &StopSignal) -> Result<Vec<String>, Error> {
        if self.is_lost.load(Ordering::SeqCst) {
            return Err(Error::SessionExpired);
        }
        let known = self.topics.lock();
        let exists = |topic: &&String| known.as_ref().is_none_or(|known| known.contains(*topic));
        Ok(topics.iter().filter(exists).cloned().collect())
    }

    fn is_deleting(&self, _topics: &[String], _stop: &StopSignal) -> Result<bool, Error> {
        Ok(self.is_deleting.load(Ordering::SeqCst))
    }
}

fn options() -> ClusterMetadataOptions {
    ClusterMetadataOptions {
        client_id: String::from("test-client"),
        socket_timeout: LONG,
        backoff: Duration::ZERO,
        max_age: LONG,
        address_map: BrokerAddressMap::default(),
    }
}

fn metadata_of(directory: &Arc<Directory>) -> ClusterMetadata {
    ClusterMetadata::new(Arc::<Directory>::clone(directory), options())
}

/// A stop that never comes.
fn never() -> Stopper {
    Stopper::new()
}

fn names(topics: &[&str]) -> Vec<String> {
    topics.iter().map(|topic| String::from(*topic)).collect()
}

/// Partition 0 of each topic.
fn firsts(topics: &[&str]) -> Vec<TopicPartition> {
    let topics = topics.iter().copied();
    topics.map(|topic| TopicPartition::new(topic, 0)).collect()
}

fn somewhere(id: i32) -> Broker {
    Broker {
        id,
        address: BrokerAddress::new(format!("host{id}"), 9092),
    }
}

fn partition(number: i32, leader: Option<i32>, error: Option<ErrorCode>) -> PartitionMetadata {
    PartitionMetadata {
        error,
        partition: number,
        leader,
        replicas: vec![1, 2],
        isr: vec![1],
        offline_replicas: Vec::new(),
    }
}

fn topic(name: &str, partitions: Vec<PartitionMetadata>) -> TopicMetadata {
    TopicMetadata {
        error: None,
        topic: String::from(name),
        is_internal: false,
        partitions,
    }
}

fn bad_topic(name: &str, code: ErrorCode) -> TopicMetadata {
    TopicMetadata {
        error: Some(code),
        topic: String::from(name),
        is_internal: false,
        partitions: Vec::new(),
    }
}

/// Brokers 1 and 2, and two partitions for each topic, led by one of them each.
fn healthy(request: MetadataRequest) -> MetadataResponse {
    let topics = request.topics.iter().flatten().map(|name| {
        let partitions = vec![partition(0, Some(1), None), partition(1, Some(2), None)];
        topic(name, partitions)
    });
    MetadataResponse {
        brokers: vec![somewhere(1), somewhere(2)],
        topics: topics.collect(),
        ..MetadataResponse::default()
    }
}

/// A broker that gives these answers one after the other, whatever it is asked.
fn giving(answers: Vec<MetadataResponse>) -> FakeBroker {
    FakeBroker::handling::<MetadataRequest>(move |received, stream| {
        received.send(stream, &answers[received.before]);
        Then::GoOn
    })
}

fn id_of_leader(view: &ClusterView, topic: &str, partition: i32) -> Option<i32> {
    view.leader(&TopicPartition::new(topic, partition))
        .map(|broker| broker.id)
}

#[test]
fn a_view_shows_the_brokers_by_id_and_the_partitions_by_topic_and_leader() {
    let broker = FakeBroker::answering(healthy);
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    assert_eq!(metadata.view().version(), 0);
    assert!(metadata.last_try().is_none() && metadata.last_success().is_none());

    let view = metadata
        .refresh(&names(&["a", "b"]), &never().signal())
        .unwrap();
    assert_eq!(view.version(), 1);
    assert_eq!(view.brokers().keys().collect::<Vec<_>>(), [&1, &2]);
    let leader = view.leader(&TopicPartition::new("a", 1)).unwrap();
    assert_eq!(leader, &somewhere(2));
    let led = view.led_by(1);
    assert_eq!(
        led,
        [TopicPartition::new("a", 0), TopicPartition::new("b", 0)]
    );
    let partition = view.partition(&TopicPartition::new("b", 0)).unwrap();
    assert_eq!(
        (&partition.replicas[..], &partition.in_sync[..]),
        (&[1, 2][..], &[1][..])
    );
    assert_eq!(metadata.view(), view);
    assert!(metadata.last_try().unwrap() <= metadata.last_success().unwrap());
}

#[test]
fn each_refresh_numbers_on_and_hangs_up_afterwards() {
    let (ended, has_ended) = unbounded();
    let broker = FakeBroker::handling::<MetadataRequest>(move |received, stream| {
        received.send(stream, &healthy(received.decode()));
        let then = await_hang_up(stream);
        ended.send(()).unwrap();
        then
    });
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    for version in 1..=3 {
        let view = metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
        assert_eq!(view.version(), version);
        has_ended.recv_timeout(LONG).unwrap();
    }
    let received = broker.received();
    let ids: Vec<i32> = received.iter().map(|it| it.correlation_id).collect();
    assert_eq!(ids, [0, 1, 2]);
    assert_eq!(received[0].client_id.as_deref(), Some("test-client"));
    assert_eq!(broker.connections(), 3);
}

#[test]
fn every_broker_is_tried_once_until_one_answers() {
    let hanging_up = FakeBroker::handling::<MetadataRequest>(|_, _| Then::HangUp);
    let garbled = FakeBroker::handling::<MetadataRequest>(|received, stream| {
        let mut frame = received.frame(&healthy(received.decode()));
        frame[8] = 0x7f;
        drop(std::io::Write::write_all(stream, &frame));
        Then::GoOn
    });
    let refusing = Broker {
        id: 3,
        address: closed_port(),
    };
    let bad = [hanging_up.as_broker(1), garbled.as_broker(2), refusing];
    let directory = Directory::of(bad.to_vec());
    let metadata = metadata_of(&directory);

    let error = metadata
        .refresh(&names(&["a"]), &never().signal())
        .unwrap_err();
    let Error::Metadata {
        topics,
        brokers,
        source,
    } = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(topics, ["a"]);
    let tried: HashSet<String> = brokers.into_iter().collect();
    let all: HashSet<String> = bad.iter().map(|it| it.address.to_string()).collect();
    assert_eq!(tried, all);
    assert!(source.is_some());
    assert_eq!(
        (hanging_up.received().len(), garbled.received().len()),
        (1, 1)
    );
    assert_eq!(metadata.view().version(), 0);

    let good = FakeBroker::answering(healthy);
    directory.brokers.lock().push(good.as_broker(4));
    for _ in 0..5 {
        metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    }
    assert_eq!(good.received().len(), 5);
}

#[test]
fn the_order_of_the_brokers_is_random() {
    let brokers: Vec<FakeBroker> = (0..2).map(|_| FakeBroker::answering(healthy)).collect();
    let listed = brokers
        .iter()
        .zip(0..)
        .map(|(broker, id)| broker.as_broker(id));
    let metadata = metadata_of(&Directory::of(listed.collect()));
    // One in 2^63 runs fails.
    for _ in 0..64 {
        metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    }
    assert!(brokers.iter().all(|broker| broker.connections() > 0));
}

#[test]
fn without_a_broker_there_is_no_metadata() {
    let metadata = metadata_of(&Directory::of(Vec::new()));
    let error = metadata
        .refresh(&names(&["a"]), &never().signal())
        .unwrap_err();
    assert!(
        matches!(&error, Error::Metadata { brokers, source: None, .. } if brokers.is_empty()),
        "{error:?}"
    );
}

#[test]
fn an_empty_broker_list_never_replaces_a_known_one() {
    let healthy = healthy(MetadataRequest {
        topics: Some(names(&["a"])),
        ..MetadataRequest::default()
    });
    let empty = MetadataResponse {
        topics: vec![bad_topic("b", ErrorCode::UnknownServerError)],
        ..MetadataResponse::default()
    };
    let broker = giving(vec![healthy, empty]);
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    let view = metadata.refresh(&names(&["b"]), &never().signal()).unwrap();
    assert_eq!(view.brokers().len(), 2);
    assert_eq!(
        id_of_leader(&view, "a", 0),
        Some(1),
        "what was not asked for stays"
    );
    let in_error: Vec<_> = view.topics_in_error().collect();
    assert_eq!(in_error, [("b", ErrorCode::UnknownServerError)]);
}

#[test]
fn a_broker_left_out_stays_while_it_lives() {
    // 0.8.0 and 0.8.1 list only the brokers that occur in the answer.
    let list = |ids: &[i32], name: &str| MetadataResponse {
        brokers: ids.iter().map(|id| somewhere(*id)).collect(),
        topics: vec![topic(name, vec![partition(0, Some(ids[0]), None)])],
        ..MetadataResponse::default()
    };
    let broker = giving(vec![list(&[1, 2], "a"), list(&[3], "b"), list(&[3], "b")]);
    let directory = Directory::of(vec![broker.as_broker(1), somewhere(2), somewhere(3)]);
    // Only the first of them can be reached, so it is the one to answer.
    directory.brokers.lock()[1].address = closed_port();
    directory.brokers.lock()[2].address = closed_port();
    let metadata = metadata_of(&directory);
    metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    let view = metadata.refresh(&names(&["b"]), &never().signal()).unwrap();
    assert_eq!(view.brokers().keys().collect::<Vec<_>>(), [&1, &2, &3]);
    assert_eq!(id_of_leader(&view, "a", 0), Some(1));

    *directory.brokers.lock() = vec![broker.as_broker(3)];
    let view = metadata.refresh(&names(&["b"]), &never().signal()).unwrap();
    assert_eq!(view.brokers().keys().collect::<Vec<_>>(), [&3]);
    assert_eq!(id_of_leader(&view, "a", 0), None, "its leader is gone");
}

#[test]
fn one_illegal_name_spoils_nothing_for_the_other_topics() {
    // As 0.8.2.2: one illegal name, and all topics of the request carry its error, without brokers.
    let broker = FakeBroker::answering(|request: MetadataRequest| {
        if request.topics.iter().flatten().any(|name| name == "a:b") {
            let topics = request.topics.iter().flatten();
            return MetadataResponse {
                topics: topics
                    .map(|name| bad_topic(name, ErrorCode::InvalidTopic))
                    .collect(),
                ..MetadataResponse::default()
            };
        }
        healthy(request)
    });
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    let topics = names(&["a", "b", "a:b", "c", "d", "e", "f"]);
    let view = metadata.refresh(&topics, &never().signal()).unwrap();
    for name in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(id_of_leader(&view, name, 1), Some(2), "{name}");
    }
    let in_error: Vec<_> = view.topics_in_error().collect();
    assert_eq!(in_error, [("a:b", ErrorCode::InvalidTopic)]);
    assert_eq!(view.version(), 1);
    assert_eq!(broker.connections(), 1);
}

#[test]
fn a_leader_is_known_when_its_address_is_whatever_the_code_says() {
    let mut answer = healthy(MetadataRequest::default());
    answer.topics.push(topic(
        "a",
        vec![
            partition(7, Some(2), Some(ErrorCode::ReplicaNotAvailable)),
            partition(0, None, Some(ErrorCode::LeaderNotAvailable)),
            partition(3, Some(99), None),
        ],
    ));
    let broker = giving(vec![answer]);
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    let view = metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    let leader = |number| id_of_leader(&view, "a", number);
    assert_eq!((leader(7), leader(0), leader(3)), (Some(2), None, None));
    assert!(
        view.partition(&TopicPartition::new("a", 1)).is_none(),
        "a gap"
    );
}

#[test]
fn a_leader_that_the_answer_does_not_list_is_unknown_even_if_an_older_one_did() {
    let first = healthy(MetadataRequest {
        topics: Some(names(&["a"])),
        ..MetadataRequest::default()
    });
    let mut second = first.clone();
    second.brokers.pop();
    let broker = giving(vec![first, second]);
    let directory = Directory::of(vec![broker.as_broker(1), broker.as_broker(2)]);
    let metadata = metadata_of(&directory);
    metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    let view = metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    assert_eq!(id_of_leader(&view, "a", 0), Some(1));
    assert_eq!(id_of_leader(&view, "a", 1), None);
}

#[test]
fn a_leader_that_registers_while_it_is_asked_for_is_known_with_its_version() {
    // It would have been probed, which does harm where it is an 0.9.0 broker.
    let directory = Directory::of(Vec::new());
    let late = Arc::clone(&directory);
    let broker = FakeBroker::answering(move |request: MetadataRequest| {
        late.brokers.lock().push(somewhere(2));
        healthy(request)
    });
    directory.brokers.lock().push(broker.as_broker(1));
    let view = metadata_of(&directory).refresh(&names(&["a"]), &never().signal());
    let view = view.unwrap();
    assert_eq!(id_of_leader(&view, "a", 1), Some(2));
    assert_eq!(view.broker_version(2), BrokerVersion::V0_8);
    assert_eq!(view.broker_version(3), BrokerVersion::Probe);
}

/// Says that Metadata is served up to `most`.
fn serving(most: i16) -> ApiVersionsResponse {
    ApiVersionsResponse {
        api_versions: vec![ApiVersion {
            api_key: MetadataRequest::KEY,
            min_version: 0,
            max_version: most,
        }],
        ..ApiVersionsResponse::default()
    }
}

/// What came to a broker that serves Metadata up to `most`, by number and version, and whether it could create topics.
fn asked_of(registration: Option<i32>, most: i16) -> (Vec<(i16, i16)>, Vec<bool>) {
    let (told, created) = unbounded();
    let broker = FakeBrokerBuilder::default()
        .answer(move |_: ApiVersionsRequest| serving(most))
        .answer(move |request: MetadataRequest| {
            told.send(request.allow_auto_topic_creation).unwrap();
            healthy(request)
        })
        .start();
    let directory = Directory::of(vec![broker.as_broker(1)]);
    *directory.registration.lock() = registration;
    let view = metadata_of(&directory).refresh(&names(&["a"]), &never().signal());
    assert_eq!(id_of_leader(&view.unwrap(), "a", 1), Some(2));
    let headers = broker.received().into_iter();
    let asked = headers.map(|it| (it.api_key, it.api_version)).collect();
    (asked, created.try_iter().collect())
}

#[test]
fn a_broker_that_can_be_told_to_create_no_topic_is_told() {
    // A topic deleted between the look into ZooKeeper and the request came back with its asking.
    for registration in [3, 4, 5] {
        let (asked, may_create) = asked_of(Some(registration), 9);
        assert_eq!(asked, [(18, 0), (3, 5)], "registration {registration}");
        assert_eq!(may_create, [false]);
    }
    assert_eq!(asked_of(Some(4), 4), (vec![(18, 0), (3, 4)], vec![false]));
}

#[test]
fn a_broker_that_cannot_be_told_so_gets_version_0() {
    // 0.10 serves no more than 2, which creates topics as 0 does and names dead replicas besides.
    assert_eq!(asked_of(Some(3), 2), (vec![(18, 0), (3, 0)], vec![true]));
    // Those of 0.8 and 0.9 are never asked for their versions, nor is one whose registration cannot be read.
    for registration in [Some(1), Some(2), None] {
        assert_eq!(asked_of(registration, 9), (vec![(3, 0)], vec![true]));
    }
}

#[test]
fn all_topics_are_asked_for_by_null_in_later_versions() {
    // An empty list asks for none there.
    let broker = FakeBrokerBuilder::default()
        .answer(|_: ApiVersionsRequest| serving(5))
        .answer(|request: MetadataRequest| {
            assert_eq!(request.topics, None);
            healthy(MetadataRequest {
                topics: Some(names(&["a", "other"])),
                ..request
            })
        })
        .start();
    let directory = Directory::of(vec![broker.as_broker(1)]);
    *directory.registration.lock() = Some(5);
    directory.is_deleting.store(true, Ordering::SeqCst);
    let metadata = metadata_of(&directory);
    let view = metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    assert_eq!(id_of_leader(&view, "a", 0), Some(1));
    assert!(view.topic("other").is_none());
}

#[test]
fn a_topic_that_zookeeper_does_not_know_is_never_asked_for() {
    let broker = FakeBroker::answering(|request: MetadataRequest| {
        assert_eq!(
            request.topics,
            Some(names(&["a"])),
            "asking would create it"
        );
        healthy(request)
    });
    let directory = Directory::of(vec![broker.as_broker(1)]);
    let metadata = metadata_of(&directory);
    metadata.refresh(&names(&["a"]), &never().signal()).unwrap();

    *directory.topics.lock() = Some(HashSet::from([String::from("a")]));
    let view = metadata
        .refresh(&names(&["a", "b"]), &never().signal())
        .unwrap();
    assert!(view.topic("b").is_none());

    // None left: an empty list would ask for all topics.
    *directory.topics.lock() = Some(HashSet::new());
    let view = metadata
        .refresh(&names(&["a", "b"]), &never().signal())
        .unwrap();
    assert!(view.topic("a").is_none(), "it is gone");
    assert_eq!(view.brokers().len(), 2);
    assert_eq!(broker.received().len(), 2);
}

#[test]
fn a_topic_that_the_answer_lacks_is_no_longer_known() {
    let first = healthy(MetadataRequest {
        topics: Some(names(&["a", "b"])),
        ..MetadataRequest::default()
    });
    let second = healthy(MetadataRequest {
        topics: Some(names(&["b"])),
        ..MetadataRequest::default()
    });
    let broker = giving(vec![first, second]);
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    for is_known in [true, false] {
        let topics = names(&["a", "b"]);
        let view = metadata.refresh(&topics, &never().signal()).unwrap();
        assert_eq!(view.topic("a").is_some(), is_known);
        assert!(view.topic("b").is_some());
    }
}

#[test]
fn a_topic_that_is_neither_kept_nor_asked_about_is_forgotten() {
    // Where topics come and go under a filter the view held all that had ever been, and was copied with each refresh.
    let broker = FakeBroker::answering(healthy);
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    let known = |topic: &str| {
        let view = metadata.refresh(&names(&[topic]), &never().signal());
        let view = view.unwrap();
        ["a", "b", "c"].map(|topic| view.topic(topic).is_some())
    };
    assert_eq!(known("a"), [true, false, false]);
    assert_eq!(known("b"), [true, true, false]);
    metadata.keep_only(BTreeSet::from([String::from("b")]));
    assert_eq!(known("c"), [false, true, true]);
    assert_eq!(known("a"), [true, true, false]);
}

#[test]
fn a_fresh_view_is_asked_for_once() {
    let broker = FakeBroker::answering(healthy);
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    let stopper = never();
    let stop = stopper.signal();
    let view_of = |topics: &[&str]| metadata.view_of(&firsts(topics), &stop).unwrap();
    assert_eq!(view_of(&["a"]).version(), 1);
    assert_eq!(view_of(&["a"]).version(), 1);
    assert_eq!(view_of(&["a", "b"]).version(), 2, "b was not asked for yet");
    assert_eq!(view_of(&["b"]).version(), 2);
    metadata.request_refresh();
    assert_eq!(
        view_of(&["b"]).version(),
        3,
        "somebody said that it is stale"
    );
    assert_eq!(view_of(&["b"]).version(), 3);
}

#[test]
fn a_partition_that_was_added_to_a_known_topic_is_asked_for() {
    // A topic whose known partitions all had a leader counted as known, so that partitions added to it were
    // not consumed before the view was too old, after five minutes.
    let answer = |partitions: i32| MetadataResponse {
        brokers: vec![somewhere(1)],
        topics: vec![topic(
            "a",
            (0..partitions)
                .map(|number| partition(number, Some(1), None))
                .collect(),
        )],
        ..MetadataResponse::default()
    };
    let broker = giving(vec![answer(1), answer(2)]);
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    let added = [0, 1].map(|number| TopicPartition::new("a", number));
    for (partitions, version) in [(&added[..1], 1), (&added[..], 2), (&added[..], 2)] {
        let view = metadata.view_of(partitions, &never().signal()).unwrap();
        assert_eq!(view.version(), version);
        assert!(view.is_complete_for(partitions));
    }
}

#[test]
fn a_topic_that_is_being_deleted_is_not_asked_for_by_name() {
    // Between the look into ZooKeeper and the question the topic could vanish, and the question brought it
    // back on brokers with auto.create.topics.enable (D13).
    let (asked, questions) = unbounded();
    let broker = FakeBroker::answering(move |request: MetadataRequest| {
        asked.send(request.topics).unwrap();
        healthy(MetadataRequest {
            topics: Some(names(&["a", "another"])),
            ..MetadataRequest::default()
        })
    });
    let directory = Directory::of(vec![broker.as_broker(1)]);
    directory.is_deleting.store(true, Ordering::SeqCst);
    let metadata = metadata_of(&directory);
    let view = metadata
        .view_of(&firsts(&["a"]), &never().signal())
        .unwrap();
    assert_eq!(questions.recv().unwrap(), None, "all topics");
    assert!(view.leader(&TopicPartition::new("a", 0)).is_some());
    assert!(view.topic("another").is_none(), "nobody wants it");
}

#[test]
fn an_old_view_is_asked_for_again() {
    let broker = FakeBroker::answering(healthy);
    let options = ClusterMetadataOptions {
        max_age: Duration::ZERO,
        ..options()
    };
    let metadata = ClusterMetadata::new(Directory::of(vec![broker.as_broker(1)]), options);
    for version in 1..=2 {
        let view = metadata
            .view_of(&firsts(&["a"]), &never().signal())
            .unwrap();
        assert_eq!(view.version(), version);
    }
}

#[test]
fn a_missing_leader_and_a_failed_try_leave_the_view_stale() {
    let leaderless = MetadataResponse {
        brokers: vec![somewhere(1)],
        topics: vec![topic("a", vec![partition(0, None, None)])],
        ..MetadataResponse::default()
    };
    let healthy = healthy(MetadataRequest {
        topics: Some(names(&["a"])),
        ..MetadataRequest::default()
    });
    let broker = giving(vec![leaderless, healthy.clone(), healthy]);
    let directory = Directory::of(vec![broker.as_broker(1)]);
    let metadata = metadata_of(&directory);
    let stopper = never();
    let stop = stopper.signal();
    let view_of_a = || metadata.view_of(&firsts(&["a"]), &stop);
    assert_eq!(view_of_a().unwrap().version(), 1);
    assert_eq!(view_of_a().unwrap().version(), 2, "a leader was missing");

    metadata.request_refresh();
    directory.is_lost.store(true, Ordering::SeqCst);
    assert!(matches!(view_of_a(), Err(Error::SessionExpired)));
    directory.is_lost.store(false, Ordering::SeqCst);
    assert_eq!(view_of_a().unwrap().version(), 3, "still stale");
}

#[test]
fn tries_keep_the_back_off_between_them_and_a_stop_ends_it() {
    let broker = FakeBroker::answering(healthy);
    let options = ClusterMetadataOptions {
        backoff: SHORT,
        ..options()
    };
    let metadata = ClusterMetadata::new(Directory::of(vec![broker.as_broker(1)]), options);
    let began = Instant::now();
    for _ in 0..3 {
        metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    }
    assert!(began.elapsed() >= 2 * SHORT);

    let stopper = never();
    stopper.stop();
    let stopped = metadata.refresh(&names(&["a"]), &stopper.signal());
    assert!(matches!(stopped, Err(Error::Closed)));
    assert_eq!(broker.received().len(), 3);
}

#[test]
fn those_who_ask_meanwhile_wait_for_the_one_refresh_in_flight() {
    let (asked, is_asked) = unbounded();
    let (go_on, may_go_on) = unbounded::<()>();
    let in_flight = AtomicUsize::new(0);
    let broker = FakeBroker::handling::<MetadataRequest>(move |received, stream| {
        assert_eq!(in_flight.fetch_add(1, Ordering::SeqCst), 0);
        asked.send(()).unwrap();
        may_go_on.recv_timeout(LONG).unwrap();
        in_flight.fetch_sub(1, Ordering::SeqCst);
        received.send(stream, &healthy(received.decode()));
        Then::GoOn
    });
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    thread::scope(|scope| {
        let refresh = |topic: &'static str| {
            let metadata = &metadata;
            scope.spawn(move || metadata.refresh(&names(&[topic]), &never().signal()))
        };
        let first = refresh("a");
        is_asked.recv_timeout(LONG).unwrap();
        let same = refresh("a");
        let other = refresh("b");
        let waiting = scope.spawn(|| metadata.await_update(0, LONG, &never().signal()));
        go_on.send(()).unwrap();
        assert_eq!(first.join().unwrap().unwrap().version(), 1);
        assert!(waiting.join().unwrap().unwrap().version() >= 1);
        // The other topic was not in the first question, and has to be asked for.
        go_on.send(()).unwrap();
        go_on.send(()).unwrap();
        assert!(other.join().unwrap().unwrap().topic("b").is_some());
        assert!(same.join().unwrap().unwrap().topic("a").is_some());
    });
}

#[test]
fn waiting_for_an_update_ends_at_the_deadline_and_at_the_stop() {
    let metadata = metadata_of(&Directory::of(Vec::new()));
    let at = Instant::now() + SHORT / 4;
    let none = metadata.await_update(0, SHORT / 4, &never().signal());
    assert!(none.is_none());
    assert!(Instant::now() >= at);

    let stopper = never();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| metadata.await_update(0, LONG, &stopper.signal()));
        stopper.stop();
        assert!(waiting.join().unwrap().is_none());
    });
}

/// A timeout of more than the clock can tell was taken for none at all: the call returned at once, and those
/// who called it in a loop used a core.
#[test]
fn waiting_for_an_update_without_end_is_waiting() {
    let metadata = metadata_of(&Directory::of(Vec::new()));
    let stopper = never();
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            stopper.signal().pause(SHORT);
            stopper.stop();
        });
        let view = metadata.await_update(0, Duration::MAX, &stopper.signal());
        assert!(view.is_none());
    });
    assert!(begun.elapsed() >= SHORT);
}

/// Blocks a refresh against `broker`, ends it with `end`, and returns how long that took.
fn time_to_end(
    broker: Broker,
    blocked: impl FnOnce(),
    end: impl FnOnce(&ClusterMetadata, &Stopper),
) -> Duration {
    let metadata = Arc::new(metadata_of(&Directory::of(vec![broker])));
    let stopper = never();
    let (done, is_done) = bounded(1);
    let asking = {
        let metadata = Arc::clone(&metadata);
        let stop = stopper.signal();
        thread::spawn(move || {
            let error = metadata.refresh(&names(&["a"]), &stop).unwrap_err();
            done.send((error, Instant::now())).unwrap();
        })
    };
    blocked();
    assert!(is_done.try_recv().is_err(), "the refresh is blocked");
    let began = Instant::now();
    end(&metadata, &stopper);
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
fn a_stop_ends_a_blocked_refresh_at_once() {
    let (received, is_received) = unbounded();
    let broker = FakeBroker::handling::<MetadataRequest>(move |_, stream| {
        received.send(()).unwrap();
        await_hang_up(stream)
    });
    let blocked = || is_received.recv_timeout(LONG).unwrap();
    assert_soon(|| {
        time_to_end(broker.as_broker(1), blocked, |_, stopper| {
            stopper.stop();
        })
    });
}

#[test]
fn a_stop_ends_a_refresh_that_is_connecting() {
    let port = FullPort::new();
    let broker = Broker {
        id: 1,
        address: port.address.clone(),
    };
    // Longer than the first slice of the attempt.
    let blocked = || thread::park_timeout(SOON);
    assert_soon(|| {
        time_to_end(broker.clone(), blocked, |_, stopper| {
            stopper.stop();
        })
    });
}

#[test]
fn codes_about_leaders_mean_stale_and_codes_about_offsets_do_not() {
    for code in [-1, 3, 5, 6, 9, 56, 72, 74, 75, 4711] {
        assert!(means_stale(ErrorCode::from_wire(code).unwrap()), "{code}");
    }
    for code in [1, 2, 10, 29, 35, 43] {
        assert!(!means_stale(ErrorCode::from_wire(code).unwrap()), "{code}");
    }
}

#[test]
fn topics_that_nobody_asked_for_are_not_kept() {
    // Each answer of a broker that told of others left them behind for ever.
    let more = Arc::new(AtomicUsize::new(0));
    let broker = FakeBroker::answering(move |_: MetadataRequest| {
        let odd = format!("odd-{}", more.fetch_add(1, Ordering::SeqCst));
        let of = |name: &str| topic(name, vec![partition(0, Some(1), None)]);
        MetadataResponse {
            brokers: vec![somewhere(1)],
            topics: vec![of("a"), of(&odd)],
            ..MetadataResponse::default()
        }
    });
    let metadata = metadata_of(&Directory::of(vec![broker.as_broker(1)]));
    metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    let view = metadata.refresh(&names(&["a"]), &never().signal()).unwrap();
    assert_eq!(view.led_by(1), firsts(&["a"]));
}
