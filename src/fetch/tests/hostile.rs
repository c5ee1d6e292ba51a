//! Fetchers against brokers that lie.

use super::*;
use crate::fetch::tests::sessions::serving;
use crate::protocol::AbortedTransaction;
use crate::protocol::ApiVersionsRequest;

fn one(asked: &FetchPartition, header: PartitionHeader, set: MessageSet) -> FetchResponse {
    FetchResponse {
        partitions: vec![FetchedPartition {
            topic_partition: asked.topic_partition.clone(),
            header,
            message_set: set,
        }],
        ..FetchResponse::default()
    }
}

/// One broker, which serves Fetch up to `most` and answers it so.
fn bench_of(
    most: i16,
    properties: &[(&str, &str)],
    answer: impl Fn(FetchRequest) -> FetchResponse + Send + Sync + 'static,
) -> Bench {
    let cluster = Arc::new(Cluster::default());
    *cluster.registration.lock() = Some(4);
    let broker = scripted(&cluster)
        .answer(move |_: ApiVersionsRequest| serving(most))
        .answer(answer)
        .start();
    cluster.brokers.lock().push(broker.as_broker(0));
    Bench::start_on(cluster, vec![broker], &[Some(0)], properties)
}

fn plain(offsets: impl IntoIterator<Item = i64>) -> MessageSet {
    let mut set = MessageSetBuilder::new();
    for offset in offsets {
        set.message(offset, None, Some(b"value")).unwrap();
    }
    set.build().unwrap()
}

fn up_to(high_watermark: i64) -> PartitionHeader {
    PartitionHeader {
        high_watermark: Some(high_watermark),
        ..PartitionHeader::default()
    }
}

#[test]
fn offsets_that_go_back_within_an_answer_have_nothing_fetched_again() {
    // Fetching went on behind the last message, whatever its offset, and the stream delivered the others once more.
    let bench = bench_of(4, &[], |request| {
        let asked = &request.partitions[0];
        let from = asked.fetch_offset;
        let set = plain([from, from + 1, from + 2, from]);
        one(asked, up_to(1000), set)
    });
    assert_eq!([0; 3].map(|_| bench.next_chunk(0)), [0, 3, 6]);
}

#[test]
fn an_offset_behind_which_there_is_none_is_damage() {
    // Where the broker did not tell how far the log goes it was believed, and then fetched for ever without a word.
    let bench = bench_of(4, &[], |request| {
        let set = plain([i64::MAX]);
        one(&request.partitions[0], PartitionHeader::default(), set)
    });
    let reason = bench.await_failure(0);
    assert!(reason.contains("the log ends before"), "{reason}");
    match bench.take(0) {
        QueueEntry::Halt(Halt::Bad { offset, .. }) => assert_eq!(offset, 0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_broker_that_answers_at_once_with_nothing_is_asked_no_more_often_than_it_may_wait() {
    // It was asked some thousand times a second, which took a whole processor on both sides.
    for throttle in [0, 60_000] {
        let requests: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let log = Arc::clone(&requests);
        let properties = [("fetch.wait.max.ms", "20")];
        let _bench = bench_of(11, &properties, move |request| {
            log.lock().push(Instant::now());
            let asked = request.partitions.iter();
            let mut answer = FetchResponse {
                throttle_time: Some(Duration::from_millis(throttle)),
                session_id: Some(7),
                ..FetchResponse::default()
            };
            if throttle == 0 {
                let empty = asked.map(|asked| one(asked, up_to(1000), MessageSet::default()));
                answer.partitions = empty.flat_map(|it| it.partitions).collect();
            }
            answer
        });
        let deadline = Instant::now() + PATIENCE;
        while requests.lock().len() < 11 {
            assert!(Instant::now() < deadline, "it is asked no more");
            std::thread::yield_now();
        }
        let requests = requests.lock().clone();
        let took = requests[10] - requests[0];
        assert!(took >= Duration::from_millis(150), "{took:?}");
    }
}

#[test]
fn a_leader_that_would_send_its_readers_to_a_follower_is_read_itself() {
    // From version 11 of Fetch on an operator may have readers sent elsewhere; such a leader was asked again and
    // again, and nothing was ever read.
    let cluster = Arc::new(Cluster::default());
    *cluster.registration.lock() = Some(4);
    let broker = scripted(&cluster)
        .answer(|_: ApiVersionsRequest| serving(11))
        .on::<FetchRequest>(|received, stream| {
            let request: FetchRequest = received.decode();
            let answer = match received.header.api_version {
                11 => PartitionHeader {
                    preferred_read_replica: Some(7),
                    ..up_to(1000)
                },
                _ => up_to(1000),
            };
            let set = match answer.preferred_read_replica {
                Some(_) => MessageSet::default(),
                None => plain([request.partitions[0].fetch_offset]),
            };
            received.send(stream, &one(&request.partitions[0], answer, set));
            Then::GoOn
        })
        .start();
    cluster.brokers.lock().push(broker.as_broker(0));
    let bench = Bench::start_on(cluster, vec![broker], &[Some(0)], &[]);
    assert_eq!([0; 3].map(|_| bench.next_chunk(0)), [0, 1, 2]);
}

#[test]
fn a_partition_without_a_leader_is_told_once_with_what_the_brokers_say() {
    // It was looked for without a word: of a topic that may not be described nothing came, and nobody said why.
    let unlisted = |answer: &mut MetadataResponse| {
        answer.topics[0].partitions[0].leader = Some(77);
    };
    let none = |answer: &mut MetadataResponse| answer.topics[0].partitions[0].leader = None;
    let lacking = |answer: &mut MetadataResponse| drop(answer.topics[0].partitions.remove(0));
    let forbidden = |answer: &mut MetadataResponse| {
        answer.topics[0].error = Some(ErrorCode::TopicAuthorizationFailed);
        answer.topics[0].partitions.clear();
    };
    let silent = |answer: &mut MetadataResponse| answer.topics.clear();
    type Spoil = fn(&mut MetadataResponse);
    let cases: [(Spoil, &str); 5] = [
        (unlisted, "name none, or one without an address"),
        (none, "name none, or one without an address"),
        (lacking, "do not know the partition"),
        (forbidden, "TopicAuthorizationFailed"),
        (silent, "no broker tells of it"),
    ];
    for (spoil, part) in cases {
        let cluster = Arc::new(Cluster::default());
        let is_spoilt = Arc::new(Mutex::new(true));
        let (of_metadata, spoilt) = (Arc::clone(&cluster), Arc::clone(&is_spoilt));
        let broker = scripted(&cluster)
            .answer(move |_: MetadataRequest| {
                let mut answer = of_metadata.metadata();
                if *spoilt.lock() {
                    spoil(&mut answer);
                }
                answer
            })
            .start();
        cluster.brokers.lock().push(broker.as_broker(0));
        let bench = Bench::start_on(cluster, vec![broker], &[Some(0)], &[]);
        let event = bench.await_event(|event| matches!(event, Event::NoLeader { .. }));
        let text = event.to_string();
        assert!(text.starts_with("no leader of orders/0: "), "{text}");
        assert!(text.contains(part), "{text}");
        let lookups = || bench.context.stats.snapshot().leader_lookups;
        let later = lookups() + 5;
        let deadline = Instant::now() + PATIENCE;
        while lookups() < later {
            assert!(Instant::now() < deadline, "it is looked for no more");
            std::thread::yield_now();
        }
        assert_eq!(bench.events.try_next(), None, "told once");
        *is_spoilt.lock() = false;
        assert_eq!(bench.next_chunk(0), 0);
    }
}

#[test]
fn a_list_of_aborted_transactions_counts_as_what_it_takes_up_and_only_where_it_is_wanted() {
    // A broker could hide messages from who wants all of them, and fill the memory with lists that nobody counted.
    let aborted = AbortedTransaction {
        producer_id: 7,
        first_offset: 0,
    };
    for (isolation, bytes) in [("read_uncommitted", 0), ("read_committed", 16_000)] {
        let properties = [("isolation.level", isolation)];
        let bench = bench_of(4, &properties, move |request| {
            let header = PartitionHeader {
                last_stable_offset: Some(1000),
                aborted_transactions: Some(vec![aborted; 1000]),
                ..up_to(1000)
            };
            let asked = &request.partitions[0];
            one(asked, header, plain([asked.fetch_offset]))
        });
        let QueueEntry::Messages(chunk) = bench.take(0) else {
            panic!("no messages");
        };
        assert_eq!(chunk.aborted.bytes(), bytes, "{isolation}");
        assert_eq!(chunk.charge.bytes(), chunk.message_set.len() + bytes);
        assert_eq!(bench.next_chunk(0), 1);
    }
}
