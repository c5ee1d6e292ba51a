//! Fetchers against brokers of later lines: limits on whole answers, and fetch sessions.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use super::*;
use crate::fetch::EndBell;
use crate::fetch::EndLookUp;
use crate::fetch::PartitionEnd;
use crate::protocol::ApiVersion;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::FetchMetadata;
use crate::protocol::IsolationLevel;
use crate::protocol::Replica;
use crate::protocol::Request;

/// What a broker of a later line keeps for the one session it has.
#[derive(Default)]
pub(super) struct Later {
    /// Positions by partition.
    session: Mutex<BTreeMap<i32, i64>>,
    requests: Mutex<Vec<FetchRequest>>,
    /// Partitions that answers have no room for, as long as they are here.
    starved: Mutex<BTreeSet<i32>>,
    /// Partitions that have nothing to read from the first request on.
    silent: Vec<i32>,
}

impl Later {
    fn silent_in(partition: i32) -> Arc<Self> {
        Arc::new(Self {
            silent: vec![partition],
            ..Self::default()
        })
    }
}

/// A broker that serves Fetch up to `most`, registered as brokers of 0.10.2 to 2.6 are.
fn start(
    most: i16,
    starts: &[Option<i64>],
    scripts: impl IntoIterator<Item = (i32, Script)>,
    later: &Arc<Later>,
) -> Bench {
    start_with(most, starts, scripts, later, &[])
}

fn start_with(
    most: i16,
    starts: &[Option<i64>],
    scripts: impl IntoIterator<Item = (i32, Script)>,
    later: &Arc<Later>,
    properties: &[(&str, &str)],
) -> Bench {
    start_with_infos(
        most,
        starts,
        scripts,
        later,
        properties,
        PartitionTopicInfo::new,
    )
}

fn start_with_infos(
    most: i16,
    starts: &[Option<i64>],
    scripts: impl IntoIterator<Item = (i32, Script)>,
    later: &Arc<Later>,
    properties: &[(&str, &str)],
    make: impl Fn(TopicPartition, Arc<ChunkQueue>, Option<i64>) -> Arc<PartitionTopicInfo>,
) -> Bench {
    let cluster = Arc::new(Cluster::default());
    cluster.scripts.lock().extend(scripts);
    cluster.silent.lock().extend(&later.silent);
    *cluster.registration.lock() = Some(4);
    let (of_fetch, later) = (Arc::clone(&cluster), Arc::clone(later));
    let broker = scripted(&cluster)
        .answer(move |_: ApiVersionsRequest| serving(most))
        .answer(move |request: FetchRequest| later.fetch(&of_fetch, request))
        .start();
    cluster.brokers.lock().push(broker.as_broker(0));
    let limits = [("fetch.max.bytes", "5000"), ("fetch.wait.max.ms", "5")];
    let properties = [&limits[..], properties].concat();
    Bench::start_with_infos(cluster, vec![broker], starts, &properties, None, make)
}

/// A broker of a later line with nothing to read, which answers look-ups in its own way.
pub(super) fn start_answering(
    later: &Arc<Later>,
    answer: impl Fn(ListOffsetsRequest) -> ListOffsetsResponse + Send + Sync + 'static,
) -> Bench {
    let cluster = Arc::new(Cluster::default());
    *cluster.registration.lock() = Some(4);
    cluster.silent.lock().push(0);
    let (of_fetch, later) = (Arc::clone(&cluster), Arc::clone(later));
    let broker = scripted(&cluster)
        .answer(move |_: ApiVersionsRequest| serving(11))
        .answer(move |request: FetchRequest| later.fetch(&of_fetch, request))
        .answer(answer)
        .start();
    cluster.brokers.lock().push(broker.as_broker(0));
    Bench::start_on(cluster, vec![broker], &[Some(0)], &[])
}

pub(super) fn serving(most: i16) -> ApiVersionsResponse {
    let api = |api_key, max_version| ApiVersion {
        api_key,
        min_version: 0,
        max_version,
    };
    ApiVersionsResponse {
        throttle_time: None,
        error: None,
        api_versions: vec![
            api(FetchRequest::KEY, most),
            api(ListOffsetsRequest::KEY, 2),
            api(MetadataRequest::KEY, 5),
        ],
    }
}

impl Later {
    /// As brokers from 1.1 on: within a session only partitions with news are answered.
    fn fetch(&self, cluster: &Cluster, request: FetchRequest) -> FetchResponse {
        let is_incremental = request.metadata.is_incremental();
        let mut session = self.session.lock();
        if !is_incremental {
            session.clear();
        }
        for wanted in &request.partitions {
            session.insert(wanted.topic_partition.partition(), wanted.fetch_offset);
        }
        for forgotten in &request.forgotten {
            assert!(session.remove(&forgotten.partition()).is_some());
        }
        let mut all = FetchRequest {
            max_wait: request.max_wait,
            min_bytes: request.min_bytes,
            ..FetchRequest::default()
        };
        for (partition, offset) in &*session {
            all = all.fetch(TopicPartition::new(TOPIC, *partition), *offset, 1000);
        }
        let has_session = request.metadata != FetchMetadata::default();
        self.requests.lock().push(request);
        let starved = self.starved.lock();
        let mut response = cluster.fetch(&all);
        for answer in &mut response.partitions {
            if starved.contains(&answer.topic_partition.partition()) {
                answer.message_set = MessageSet::default();
            }
        }
        if is_incremental {
            response
                .partitions
                .retain(|it| it.header.error.is_some() || !it.message_set.is_empty());
        }
        response.session_id = has_session.then_some(7);
        response
    }

    fn requests(&self) -> Vec<FetchRequest> {
        self.requests.lock().clone()
    }

    /// Waits until a request comes that `is_it`.
    fn await_request(&self, is_it: impl Fn(&FetchRequest) -> bool) -> FetchRequest {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(request) = self.requests().into_iter().find(&is_it) {
                return request;
            }
            std::thread::yield_now();
        }
        panic!("no such request: {:?}", self.requests());
    }
}

fn partitions(request: &FetchRequest) -> Vec<i32> {
    let wanted = request.partitions.iter();
    wanted.map(|it| it.topic_partition.partition()).collect()
}

#[test]
fn within_a_session_a_partition_without_news_has_not_failed() {
    let later = Later::silent_in(1);
    let bench = start(11, &[Some(0), Some(0)], [], &later);
    for offset in [0, 2, 4, 6] {
        assert_eq!(bench.next_chunk(0), offset);
    }
    // Partition 1 was asked for once, and nobody looked for another leader.
    let whole: Vec<_> = later
        .requests()
        .into_iter()
        .filter(|it| partitions(it).contains(&1))
        .collect();
    assert_eq!(whole.len(), 1);
    assert_eq!(bench.context.stats.snapshot().partition_errors, 0);
    bench.cluster.silent.lock().clear();
    assert_eq!(bench.next_chunk(1), 0);
}

#[test]
fn a_quiet_partition_of_a_session_keeps_no_room_from_the_others() {
    // Within a session it is not answered at all, and so would have gone on reserving room for a whole fetch.
    let script = vec![Ok(messages(998..1000))];
    let properties = [("fetch.message.max.bytes", "100000")];
    let bench = start_with(
        11,
        &[Some(0), Some(998)],
        [(1, script)],
        &Later::silent_in(1),
        &properties,
    );
    let quiet = &bench.infos[1];
    assert_eq!(quiet.expected_bytes(100_000), 100_000);
    assert_eq!(bench.next_chunk(1), 998);
    quiet.note_answer(40_000);
    let mut offset = 0;
    while quiet.expected_bytes(100_000) > 10_000 {
        assert!(offset < 1000, "nothing was noted of 500 answers");
        assert_eq!(bench.next_chunk(0), offset);
        offset += 2;
    }
}

#[test]
fn a_full_queue_takes_its_partition_out_of_the_session_and_not_the_session_from_the_others() {
    let later: Arc<Later> = Arc::default();
    let bench = start(11, &[Some(0), Some(0)], [], &later);
    // The queue of partition 1 is not read and fills; that of partition 0 goes on.
    let mut offset = 0;
    let is_forgotten = || later.requests().iter().any(|it| !it.forgotten.is_empty());
    let deadline = Instant::now() + PATIENCE;
    while !is_forgotten() {
        assert!(Instant::now() < deadline, "partition 1 was never left out");
        assert_eq!(bench.next_chunk(0), offset);
        offset += 2;
    }
    let held = later.await_request(|it| !it.forgotten.is_empty());
    assert!(held.metadata.is_incremental());
    assert_eq!(bench.next_chunk(1), 0);
    // There is room again, and the partition comes back into the same session.
    later.requests.lock().clear();
    while !later
        .requests()
        .iter()
        .any(|it| partitions(it).contains(&1))
    {
        assert!(Instant::now() < deadline, "partition 1 did not come back");
        bench.next_chunk(0);
    }
    let again = later.await_request(|it| partitions(it).contains(&1));
    assert!(again.metadata.is_incremental());
}

#[test]
fn an_answer_used_up_by_others_is_neither_a_failure_nor_the_end_of_the_log() {
    let later: Arc<Later> = Arc::default();
    later.starved.lock().insert(1);
    let bench = start(3, &[Some(0), Some(0)], [], &later);
    for offset in [0, 2, 4] {
        assert_eq!(bench.next_chunk(0), offset);
    }
    assert_eq!(bench.context.stats.snapshot().partition_errors, 0);
    let first = later.await_request(|_| true);
    assert_eq!(first.max_bytes, 5000, "fetch.max.bytes");
    // Who got nothing is asked for before those that delivered, so that it is its turn next.
    let turned = later.await_request(|it| partitions(it) == [1, 0]);
    assert_eq!(turned.metadata, FetchMetadata::default());
    later.starved.lock().clear();
    assert_eq!(bench.next_chunk(1), 0);
}

#[test]
fn what_only_another_version_could_carry_is_told_with_its_reason() {
    let cases = [
        (ErrorCode::UnsupportedVersion, "downconversion"),
        (ErrorCode::UnsupportedCompressionType, "zstd"),
    ];
    for (code, part) in cases {
        let bench = start(3, &[Some(0)], [(0, vec![Err(code)])], &Arc::default());
        let reason = bench.await_failure(0);
        assert!(reason.starts_with(&code.to_string()), "{reason}");
        assert!(reason.contains(part), "{reason}");
        assert_eq!(bench.next_chunk(0), 0, "it is tried again");
    }
}

#[test]
fn a_partition_that_failed_leaves_the_session_and_returns_to_it() {
    for code in [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::KafkaStorageError,
        ErrorCode::ListenerNotFound,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::UnknownLeaderEpoch,
        ErrorCode::OffsetNotAvailable,
    ] {
        let later: Arc<Later> = Arc::default();
        let script = vec![Ok(messages(0..2)), Err(code)];
        // Long enough for a request without the partition: if it is back before that, the session begins anew.
        let properties = [("refresh.leader.backoff.ms", "300")];
        let start = [Some(0), Some(0)];
        let bench = start_with(11, &start, [(1, script)], &later, &properties);
        assert_eq!(bench.next_chunk(1), 0);
        let mut offset = 0;
        while later.requests().iter().all(|it| it.forgotten.is_empty()) {
            assert_eq!(bench.next_chunk(0), offset);
            offset += 2;
        }
        assert!(bench.await_failure(1).contains(&code.to_string()));
        assert_eq!(bench.next_chunk(1), 2);
        let requests = later.requests();
        let whole = requests.iter().filter(|it| !it.metadata.is_incremental());
        assert_eq!(whole.count(), 1, "{code}: the session goes on");
    }
}

#[test]
fn a_message_larger_than_the_fetch_size_is_delivered_when_the_broker_gives_it_whole() {
    // Before Fetch 3 the broker cut it, and the partition stopped.
    let mut set = MessageSetBuilder::new();
    set.message(0, None, Some(&[b'x'; 3000])).unwrap();
    let script = vec![Ok(set.build().unwrap())];
    let bench = start(11, &[Some(0)], [(0, script)], &Arc::default());
    let QueueEntry::Messages(chunk) = bench.take(0) else {
        panic!("no messages");
    };
    assert!(chunk.message_set.len() > 3000);
    assert_eq!(bench.next_chunk(0), 1);
}

#[test]
fn a_broker_that_registers_anew_in_another_version_is_spoken_to_anew() {
    let later: Arc<Later> = Arc::default();
    let bench = start(11, &[Some(0)], [], &later);
    let mut offset = 0;
    assert_eq!(bench.next_chunk(0), offset);
    // It comes back as an older one, which must not be asked what it serves, and then as a newer one again.
    for registration in [1, 5] {
        later.requests.lock().clear();
        *bench.cluster.registration.lock() = Some(registration);
        let failure = vec![Err(ErrorCode::NotLeaderOrFollower)];
        bench.cluster.scripts.lock().insert(0, failure);
        let is_of_old = |it: &FetchRequest| it.metadata == FetchMetadata::default();
        let is_it = |it: &FetchRequest| is_of_old(it) == (registration == 1);
        let deadline = Instant::now() + PATIENCE;
        while !later.requests().last().is_some_and(is_it) {
            assert!(Instant::now() < deadline, "{registration}");
            offset += 2;
            assert_eq!(bench.next_chunk(0), offset, "nothing is lost or repeated");
        }
    }
}

#[test]
fn a_tail_without_messages_is_the_end_within_a_session_which_does_not_mention_it() {
    // A partition without news is left out of the answers; one that waits for an empty answer waits for ever.
    let later = Later::silent_in(0);
    let script = vec![Ok(messages(4..7))];
    let make = |partition, queue: Arc<ChunkQueue>, start| {
        let end = PartitionEnd::new(EndBell::new(vec![Arc::clone(&queue)]));
        let info = PartitionTopicInfo::with_end(partition, queue, start, Some(end));
        info.found_end(EndLookUp::Latest, 10);
        info
    };
    let bench = start_with_infos(11, &[Some(4)], [(0, script)], &later, &[], make);
    bench.await_end();
    assert_eq!(bench.infos[0].consumed(), Some(10));
    later.await_request(|request| request.metadata.is_incremental());
}

#[test]
fn an_open_transaction_that_a_new_leader_does_not_know_the_end_of_is_waited_for() {
    // The marker of a transaction may stand behind the end. A leader that has not got it from the others yet takes the
    // transaction for open, and gives nothing although its high watermark is behind the end.
    let cluster = Arc::new(Cluster::default());
    *cluster.registration.lock() = Some(4);
    let (of_metadata, of_fetch) = (Arc::clone(&cluster), Arc::clone(&cluster));
    let broker = FakeBrokerBuilder::default()
        .answer(|_: ApiVersionsRequest| serving(4))
        .answer(move |_: MetadataRequest| of_metadata.metadata())
        .answer(|request: ListOffsetsRequest| {
            let is_of_leader = request.replica == Replica::Debugging;
            let expected = match is_of_leader {
                true => IsolationLevel::ReadUncommitted,
                false => IsolationLevel::ReadCommitted,
            };
            assert_eq!(request.isolation, expected);
            ListOffsetsResponse {
                throttle_time: None,
                partitions: vec![PartitionOffsets {
                    topic_partition: TopicPartition::new(TOPIC, 0),
                    error: None,
                    timestamp: None,
                    leader_epoch: None,
                    offsets: vec![if is_of_leader { 12 } else { 10 }],
                }],
            }
        })
        .answer(move |request: FetchRequest| {
            let asked = &request.partitions[0];
            let mut log = of_fetch.asked.lock();
            log.push((0, asked.fetch_offset));
            let (stable, message_set) = match log.len() {
                ..=4 => (4, MessageSet::default()),
                _ => (12, messages(4..10)),
            };
            let header = PartitionHeader {
                high_watermark: Some(12),
                last_stable_offset: Some(stable),
                ..PartitionHeader::default()
            };
            FetchResponse {
                partitions: vec![FetchedPartition {
                    topic_partition: asked.topic_partition.clone(),
                    header,
                    message_set,
                }],
                ..FetchResponse::default()
            }
        })
        .start();
    cluster.brokers.lock().push(broker.as_broker(0));
    let make = |partition, queue: Arc<ChunkQueue>, start| {
        let end = PartitionEnd::new(EndBell::new(vec![Arc::clone(&queue)]));
        PartitionTopicInfo::with_end(partition, queue, start, Some(end))
    };
    let properties = [("isolation.level", "read_committed")];
    let start = [Some(4)];
    let bench = Bench::start_with_infos(cluster, vec![broker], &start, &properties, None, make);
    assert_eq!(bench.next_chunk(0), 4);
    bench.await_end();
    assert_eq!(bench.asked(0), [4; 5]);
}

#[test]
fn that_a_broker_serves_nothing_known_is_told_once_and_so_is_its_end() {
    // A broker that no longer serves the old requests: the same failure was told five times a second, each time after
    // the word that the broker had been found.
    let cluster = Arc::new(Cluster::default());
    *cluster.registration.lock() = Some(4);
    cluster.scripts.lock().insert(0, vec![Ok(messages(0..2))]);
    let questions = Arc::new(AtomicUsize::new(0));
    let asked = Arc::clone(&questions);
    let broker = scripted(&cluster)
        .answer(move |_: ApiVersionsRequest| {
            let mut answer = serving(11);
            if asked.fetch_add(1, Ordering::Relaxed) < 10 {
                let fetch = answer.api_versions.first_mut().unwrap();
                (fetch.min_version, fetch.max_version) = (12, 18);
            }
            answer
        })
        .start();
    cluster.brokers.lock().push(broker.as_broker(0));
    let properties = [("refresh.leader.backoff.ms", "10")];
    let bench = Bench::start_on(cluster, vec![broker], &[Some(0)], &properties);
    assert_eq!(bench.next_chunk(0), 0);
    assert!(questions.load(Ordering::Relaxed) > 10);
    let text = "serves Fetch in versions 12 to 18, known here are 0 to 11";
    let mut events = Vec::new();
    let is_found = |event: &&Event| matches!(event, Event::FetchingFrom { .. });
    while !events.last().is_some_and(|it| is_found(&it)) || events.len() < 3 {
        // That it was found at first may come behind the failure, and is left out then.
        match bench.events.next_timeout(Duration::from_millis(500)) {
            Some(event) => events.push(event),
            None => break,
        }
    }
    let (found, failed): (Vec<_>, Vec<_>) = events.iter().partition(is_found);
    assert!(matches!(found.len(), 1 | 2), "{events:?}");
    match &failed[..] {
        [Event::FetchFailed { reason, .. }] => assert!(reason.ends_with(text), "{reason}"),
        other => panic!("{other:?}"),
    }
}
