//! What brokers of 0.10 and later do otherwise than those before them.

use super::*;
use crate::error::ErrorCode;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::Codec;
use crate::protocol::FetchMetadata;
use crate::protocol::FetchRequest;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::MessageFormat;
use crate::protocol::MetadataRequest;
use crate::protocol::NewMessage;
use crate::protocol::OffsetCommitPartition;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::OffsetTime;
use crate::protocol::OuterEntries;
use crate::protocol::PartitionOffsets;
use crate::protocol::ProducePartition;
use crate::protocol::ProduceRequest;
use crate::protocol::ProducedPartition;
use crate::protocol::Request;
use crate::protocol::Timestamp;
use crate::protocol::TimestampType;
use crate::protocol::request_frame;

const HEADER: (&str, Option<&[u8]>) = ("trace", Some(b"7"));

fn of_version(version: BrokerVersion) -> EmbeddedCluster {
    let builder = EmbeddedCluster::builder().version(version);
    builder.topic("orders", 3, 1).start().unwrap()
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

impl Client {
    /// The answer; `None` when the broker hangs up.
    fn try_ask<Q: Request>(&mut self, request: &Q, version: i16) -> Option<Q::Response> {
        let frame = request_frame(request, version, 7, Some("test"), Vec::new()).unwrap();
        self.send_bytes(&frame);
        let answer = self.receive()?;
        Some(Q::Response::decode(version, &mut Reader::new(&answer[4..])).unwrap())
    }

    fn ask<Q: Request>(&mut self, request: &Q, version: i16) -> Q::Response {
        self.try_ask(request, version).expect("an answer")
    }

    fn produce(&mut self, partition: i32, set: &MessageSet, version: i16) -> ProducedPartition {
        let request = ProduceRequest {
            acks: RequiredAcks::All,
            timeout: Duration::from_secs(5),
            partitions: vec![ProducePartition {
                topic_partition: orders(partition),
                message_set: set.clone(),
            }],
            ..ProduceRequest::default()
        };
        self.ask(&request, version).partitions.remove(0)
    }

    /// What the broker gives of partition 0 from `offset` on.
    fn fetch(&mut self, offset: i64, version: i16) -> MessageSet {
        let request = FetchRequest::default().fetch(orders(0), offset, 1 << 20);
        let fetched = self.ask(&request, version).partitions.remove(0);
        assert_eq!(fetched.header.error, None);
        fetched.message_set
    }

    fn time(&mut self, time: OffsetTime) -> PartitionOffsets {
        let request = ListOffsetsRequest::default().list(orders(0), time);
        self.ask(&request, 1).partitions.remove(0)
    }
}

/// A set as a producer of the format sends it: numbered from 0, each message a second later.
fn sent(format: MessageFormat, codec: Option<Codec>, values: &[&str]) -> MessageSet {
    let builder = match codec {
        Some(codec) => MessageSetBuilder::compressed(codec),
        None => MessageSetBuilder::new(),
    };
    let mut builder = builder.in_format(format);
    for (offset, value) in (0..).zip(values) {
        let message = NewMessage {
            value: Some(value.as_bytes()),
            timestamp: Some(1_000 * (offset + 1)),
            headers: &[HEADER],
            ..NewMessage::default()
        };
        builder.add(offset, &message).unwrap();
    }
    builder.build().unwrap()
}

/// Offset, value, time and number of headers of each message.
fn told(set: &MessageSet) -> Vec<(i64, String, Option<i64>, usize)> {
    let messages = set.messages().map(|message| message.unwrap());
    messages
        .map(|message| {
            let value = String::from_utf8(message.value.clone().unwrap().to_vec()).unwrap();
            let time = message.timestamp.map(|timestamp| timestamp.millis);
            (message.offset, value, time, message.headers().count())
        })
        .collect()
}

fn magics(set: &MessageSet) -> Vec<u8> {
    let entries = OuterEntries::new(set.as_bytes());
    entries.map(|entry| entry.magic()).collect()
}

#[test]
fn brokers_say_what_they_serve_and_refuse_a_question_that_is_too_new_in_its_oldest_form() {
    for version in &BrokerVersion::ALL[2..] {
        let cluster = of_version(*version);
        let mut client = Client::of(&cluster, 0);
        let answer = client.ask(&ApiVersionsRequest, 0);
        assert_eq!(answer.error, None);
        assert_eq!(answer.api_versions, version.behaviour().served());
        // Version 3 as librdkafka sends it first: a flexible header, and the client's name and version.
        let frame = [
            0, 0, 0, 18, 0, 18, 0, 3, 0, 0, 0, 9, 0xff, 0xff, 0, 2, b'k', 2, b'1', 0, 0, 0,
        ];
        client.send_bytes(&frame);
        let answer = client.receive().unwrap();
        assert_eq!(
            answer,
            [0, 0, 0, 9, 0, 35, 0, 0, 0, 0],
            "error 35, nothing listed"
        );
        assert_eq!(client.ask(&ApiVersionsRequest, 0).error, None, "it stays");
    }
}

#[test]
fn all_offsets_of_a_group_are_told_from_0_10_2_on_and_what_concerns_the_group_once() {
    for (version, highest) in [(BrokerVersion::V0_10_2, 2), (BrokerVersion::V0_11_0, 3)] {
        let cluster = EmbeddedCluster::builder().version(version);
        let cluster = cluster.brokers(2).topic("orders", 3, 1).offsets_topic(1, 2);
        let cluster = cluster.start().unwrap();
        let mut client = Client::of(&cluster, 0);
        let in_group = FindCoordinatorRequest { group: "g".into() };
        wait_until("there is a coordinator", || {
            client.ask(&in_group, 0).coordinator.is_some()
        });
        cluster.move_leader("__consumer_offsets", 0, 0).unwrap();
        for group in ["f", "g", "h"] {
            let request = OffsetCommitRequest {
                group: group.into(),
                partitions: (1..3)
                    .map(|it| committing(it, 10 + i64::from(it)))
                    .collect(),
                ..OffsetCommitRequest::default()
            };
            let answer = client.ask(&request, 2);
            assert!(answer.partitions.iter().all(|it| it.error.is_none()));
        }
        let of = |partitions| OffsetFetchRequest {
            group: "g".into(),
            partitions,
        };
        let told = |answer: OffsetFetchResponse| -> Vec<(i32, Option<i64>)> {
            assert_eq!(answer.error, None);
            let partitions = answer.partitions.iter();
            partitions
                .map(|it| (it.topic_partition.partition(), it.offset))
                .collect()
        };
        let first = Some(vec![orders(0), orders(1)]);
        assert_eq!(
            told(client.ask(&of(None), highest)),
            [(1, Some(11)), (2, Some(12))]
        );
        assert_eq!(told(client.ask(&of(Some(Vec::new())), highest)), []);
        assert_eq!(
            told(client.ask(&of(first.clone()), 2)),
            [(0, None), (1, Some(11))]
        );

        let mut other = Client::of(&cluster, 1);
        let moved = Some(ErrorCode::NotCoordinator);
        let answer = other.ask(&of(first.clone()), highest);
        assert_eq!((answer.error, answer.partitions.len()), (moved, 0));
        let answer = other.ask(&of(first), 1);
        assert_eq!((answer.error, answer.partitions.len()), (None, 2));
        assert!(answer.partitions.iter().all(|it| it.error == moved));
    }
}

fn committing(partition: i32, offset: i64) -> OffsetCommitPartition {
    OffsetCommitPartition {
        topic_partition: orders(partition),
        offset,
        timestamp: None,
        metadata: None,
    }
}

#[test]
fn a_request_that_cannot_be_read_costs_the_connection_but_for_fetches_of_0_10_0() {
    let too_new = FetchRequest::default().fetch(orders(0), 0, 100);
    let unknown = [0, 0, 0, 10, 0, 99, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    for version in &BrokerVersion::ALL[2..] {
        let cluster = of_version(*version);
        let mut client = Client::of(&cluster, 0);
        client.send_bytes(&unknown);
        assert_eq!(client.receive(), None, "{version}: an unknown request");
        let mut client = Client::of(&cluster, 0);
        let frame = request_frame(&MetadataRequest::default(), 1, 7, None, Vec::new());
        let mut frame = frame.unwrap();
        frame[7] = 9;
        client.send_bytes(&frame);
        assert_eq!(client.receive(), None, "{version}: metadata 9");
        let mut client = Client::of(&cluster, 0);
        let mut frame = request_frame(&too_new, 11, 7, None, Vec::new()).unwrap();
        frame[7] = 12;
        client.send_bytes(&frame);
        match version {
            BrokerVersion::V0_10_0 => {
                assert_eq!(
                    client.ask(&ApiVersionsRequest, 0).error,
                    None,
                    "passed over"
                );
            }
            _ => assert_eq!(client.receive(), None, "{version}: fetch 12"),
        }
    }
}

#[test]
fn sets_of_the_own_format_keep_their_bytes_and_get_their_offsets() {
    let codecs = [
        None,
        Some(Codec::Gzip),
        Some(Codec::Snappy),
        Some(Codec::Lz4),
    ];
    for (version, format) in [
        (BrokerVersion::V0_10_0, MessageFormat::V1),
        (BrokerVersion::V2_3, MessageFormat::V2),
    ] {
        let cluster = of_version(version);
        let mut client = Client::of(&cluster, 0);
        let produce = if format == MessageFormat::V2 { 3 } else { 2 };
        let fetch = if format == MessageFormat::V2 { 4 } else { 2 };
        for (first, codec) in (0..).step_by(3).zip(codecs) {
            let set = sent(format, codec, &["a", "b", "c"]);
            let produced = client.produce(0, &set, produce);
            assert_eq!((produced.error, produced.base_offset), (None, Some(first)));
            assert_eq!(produced.log_append_time, None);
            let stored = client.fetch(first, fetch);
            let headers = if format == MessageFormat::V2 { 1 } else { 0 };
            let expected: Vec<_> = (first..)
                .zip(["a", "b", "c"])
                .zip([1_000, 2_000, 3_000])
                .map(|((offset, value), time)| (offset, value.to_owned(), Some(time), headers))
                .collect();
            assert_eq!(told(&stored), expected, "{version} {codec:?}");
            assert_eq!(stored.len(), set.len());
            let is_single = codec.is_some() || format == MessageFormat::V2;
            assert!(!is_single || stored.as_bytes()[8..] == set.as_bytes()[8..]);
        }
    }
}

#[test]
fn what_is_written_in_another_format_becomes_that_of_the_log_with_the_same_codec() {
    let cluster = of_version(BrokerVersion::V0_11_0);
    let mut client = Client::of(&cluster, 0);
    for codec in [None, Some(Codec::Gzip), Some(Codec::Lz4)] {
        for format in [MessageFormat::V0, MessageFormat::V1] {
            let first = cluster.describe().partition("orders", 0).unwrap().log_end;
            let produced = client.produce(0, &sent(format, codec, &["a", "b"]), 2);
            assert_eq!((produced.error, produced.base_offset), (None, Some(first)));
            let stored = client.fetch(first, 4);
            assert_eq!(magics(&stored), [2], "one batch");
            let time = |time| (format == MessageFormat::V1).then_some(time);
            let expected = [
                (first, String::from("a"), time(1_000), 0),
                (first + 1, String::from("b"), time(2_000), 0),
            ];
            assert_eq!(told(&stored), expected);
        }
    }
}

#[test]
fn inner_offsets_that_do_not_count_from_0_are_made_to() {
    // Producers before 0.10 leave all offsets at 0, and librdkafka did so for longer.
    let mut inner = MessageSetBuilder::new().in_format(MessageFormat::V1);
    for value in [b"a", b"b"] {
        inner.message(0, None, Some(value)).unwrap();
    }
    let mut wrapper = MessageSetBuilder::compressed(Codec::Gzip).in_format(MessageFormat::V1);
    let set = wrapper.entries(&inner.build().unwrap()).clone();
    let cluster = of_version(BrokerVersion::V0_10_2);
    let mut client = Client::of(&cluster, 0);
    assert_eq!(client.produce(0, &set.build().unwrap(), 2).error, None);
    let offsets: Vec<i64> = told(&client.fetch(0, 2)).iter().map(|it| it.0).collect();
    assert_eq!(offsets, [0, 1]);
}

#[test]
fn readers_of_older_versions_get_older_formats_with_the_same_offsets() {
    let values = ["a", "b", "c"];
    for codec in [
        None,
        Some(Codec::Gzip),
        Some(Codec::Snappy),
        Some(Codec::Lz4),
    ] {
        let cluster = of_version(BrokerVersion::V2_3);
        let mut client = Client::of(&cluster, 0);
        for _ in 0..2 {
            let set = sent(MessageFormat::V2, codec, &values);
            assert_eq!(client.produce(0, &set, 3).error, None);
        }
        for (version, magic) in [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (11, 2)] {
            let set = client.fetch(0, version);
            assert!(magics(&set).iter().all(|it| *it == magic), "{version}");
            let expected: Vec<_> = (0..6)
                .zip([1_000, 2_000, 3_000].repeat(2))
                .map(|(offset, time): (i64, i64)| {
                    let value = values[usize::try_from(offset % 3).unwrap()].to_owned();
                    let headers = usize::from(magic == 2);
                    (offset, value, (magic > 0).then_some(time), headers)
                })
                .collect();
            assert_eq!(told(&set), expected, "{codec:?} in version {version}");
            // Whoever knows format 0 only wants the wrong checksum in the header of an lz4 frame (KIP-57).
            if codec == Some(Codec::Lz4) && magic < 2 {
                let start = if magic == 0 { 26 } else { 34 };
                let checksum = set.as_bytes()[start + 6];
                assert_eq!(checksum, if magic == 0 { 0x1a } else { 0x82 });
            }
        }
        let from_within = told(&client.fetch(4, 0));
        assert_eq!(from_within.last().unwrap().0, 5);
        assert_eq!(from_within[0].0, if codec.is_some() { 3 } else { 4 });
    }
}

#[test]
fn a_message_that_does_not_fit_is_cut_before_version_3_and_comes_whole_from_then_on() {
    let cluster = of_version(BrokerVersion::V2_3);
    let mut client = Client::of(&cluster, 0);
    let large = "x".repeat(1_000);
    for partition in 0..3 {
        let set = sent(MessageFormat::V2, None, &[&large]);
        assert_eq!(client.produce(partition, &set, 3).error, None);
    }
    let request = |order: [i32; 3]| {
        let request = FetchRequest {
            max_bytes: 1_500,
            ..FetchRequest::default()
        };
        order.iter().fold(request, |request, partition| {
            request.fetch(orders(*partition), 0, 100)
        })
    };
    let mut sizes = |order, version| -> Vec<(i32, usize)> {
        let answer = client.ask(&request(order), version);
        let partitions = answer.partitions.iter();
        partitions
            .map(|it| (it.topic_partition.partition(), it.message_set.len()))
            .collect()
    };
    assert_eq!(sizes([0, 1, 2], 2), [(0, 100), (1, 100), (2, 100)]);
    let whole = sizes([0, 1, 2], 3)[0].1;
    assert!(whole > 1_000, "{whole}");
    assert_eq!(sizes([2, 1, 0], 3), [(2, whole), (1, 0), (0, 0)]);
    assert_eq!(sizes([1, 0, 2], 11)[0].0, 1);
}

#[test]
fn times_are_those_of_the_producer_or_of_the_broker_as_it_is_set_up() {
    for (version, format, produce, fetch) in [
        (BrokerVersion::V0_10_2, MessageFormat::V1, 2, 3),
        (BrokerVersion::V1_1, MessageFormat::V2, 3, 4),
    ] {
        let builder = EmbeddedCluster::builder()
            .version(version)
            .log_append_time();
        let cluster = builder.topic("orders", 1, 1).start().unwrap();
        let mut client = Client::of(&cluster, 0);
        for codec in [None, Some(Codec::Gzip)] {
            let produced = client.produce(0, &sent(format, codec, &["a", "b"]), produce);
            let time = produced.log_append_time.unwrap();
            let set = client.fetch(produced.base_offset.unwrap(), fetch);
            let expected = Timestamp {
                millis: time,
                timestamp_type: TimestampType::LogAppendTime,
            };
            let times = set.messages().map(|message| message.unwrap().timestamp);
            assert_eq!(times.collect::<Vec<_>>(), [Some(expected); 2], "{codec:?}");
        }
    }
}

#[test]
fn offsets_are_found_by_the_times_of_messages() {
    let cluster = of_version(BrokerVersion::V0_10_2);
    let mut client = Client::of(&cluster, 0);
    let set = sent(MessageFormat::V1, Some(Codec::Gzip), &["a", "b", "c"]);
    assert_eq!(client.produce(0, &set, 2).error, None);
    for (time, offset, found) in [(0, 0, 1_000), (1_001, 1, 2_000), (3_000, 2, 3_000)] {
        let answer = client.time(OffsetTime::Timestamp(time));
        assert_eq!(
            (answer.offset(), answer.timestamp),
            (Some(offset), Some(found))
        );
    }
    let none = client.time(OffsetTime::Timestamp(3_001));
    assert_eq!(
        (none.error, none.offset(), none.timestamp),
        (None, None, None)
    );
    assert_eq!(client.time(OffsetTime::Earliest).offset(), Some(0));
    assert_eq!(client.time(OffsetTime::Latest).offset(), Some(3));

    let builder = EmbeddedCluster::builder().version(BrokerVersion::V0_10_2);
    let builder = builder.message_format(MessageFormat::V0);
    let without = builder.topic("orders", 1, 1).start().unwrap();
    let mut client = Client::of(&without, 0);
    let error = client.time(OffsetTime::Timestamp(0)).error;
    assert_eq!(error, Some(ErrorCode::UnsupportedForMessageFormat));
    assert_eq!(client.time(OffsetTime::Latest).offset(), Some(0));
}

#[test]
fn a_session_gives_only_what_is_news() {
    let cluster = of_version(BrokerVersion::V1_1);
    let mut client = Client::of(&cluster, 0);
    let all = (0..3).fold(FetchRequest::default(), |request, partition| {
        request.fetch(orders(partition), 0, 1_000)
    });
    let request = |metadata| FetchRequest {
        metadata,
        ..FetchRequest::default()
    };
    let full = FetchMetadata::Full { closing: None };
    let answer = client.ask(
        &FetchRequest {
            metadata: full,
            ..all.clone()
        },
        7,
    );
    assert_eq!(
        answer.partitions.len(),
        3,
        "the first answer tells everything"
    );
    let session_id = answer.session_id.unwrap();
    let next = |epoch| request(FetchMetadata::Incremental { session_id, epoch });
    let answer = client.ask(&next(1), 7);
    assert_eq!((answer.error, answer.session_id), (None, Some(session_id)));
    assert_eq!(answer.partitions, [], "nothing has happened");

    let set = sent(MessageFormat::V2, None, &["a"]);
    client.produce(1, &set, 3);
    let answer = client.ask(&next(2), 7);
    assert_eq!(answer.partitions.len(), 1);
    assert_eq!(answer.partitions[0].topic_partition, orders(1));
    let gone = FetchRequest {
        forgotten: vec![orders(1)],
        ..next(3).fetch(orders(2), 0, 500)
    };
    assert_eq!(client.ask(&gone, 7).partitions, []);

    let wrong = client.ask(&next(3), 7);
    assert_eq!(wrong.error, Some(ErrorCode::InvalidFetchSessionEpoch));
    let unknown = FetchMetadata::Incremental {
        session_id: session_id + 1,
        epoch: 1,
    };
    let unknown = client.ask(&request(unknown), 7);
    assert_eq!(unknown.error, Some(ErrorCode::FetchSessionIdNotFound));
    cluster.kill(0).unwrap();
    cluster.restart(0).unwrap();
    let mut client = Client::of(&cluster, 0);
    let forgotten = client.ask(&next(4), 7);
    assert_eq!(forgotten.error, Some(ErrorCode::FetchSessionIdNotFound));
    let closing = FetchMetadata::Sessionless { closing: None };
    let alone = client.ask(
        &FetchRequest {
            metadata: closing,
            ..all
        },
        7,
    );
    assert_eq!((alone.session_id, alone.partitions.len()), (None, 3));
}

#[test]
fn a_bound_on_the_answer_starves_no_partition_of_a_session() {
    let cluster = of_version(BrokerVersion::V2_3);
    let mut client = Client::of(&cluster, 0);
    let set = sent(MessageFormat::V2, None, &[&"x".repeat(100)]);
    let mut request = FetchRequest {
        metadata: FetchMetadata::Full { closing: None },
        max_bytes: 1,
        ..FetchRequest::default()
    };
    for partition in 0..3 {
        client.produce(partition, &set, 3);
        request = request.fetch(orders(partition), 0, 1_000);
    }
    let mut seen = Vec::new();
    for epoch in 1..=3 {
        let answer = client.ask(&request, 11);
        let given = answer
            .partitions
            .iter()
            .filter(|it| !it.message_set.is_empty());
        seen.extend(given.map(|it| it.topic_partition.partition()));
        request = FetchRequest {
            metadata: FetchMetadata::Incremental {
                session_id: answer.session_id.unwrap(),
                epoch,
            },
            max_bytes: 1,
            ..FetchRequest::default()
        };
    }
    assert_eq!(seen, [0, 1, 2], "though none of them moved on");
}

#[test]
fn sets_that_no_producer_makes_are_refused() {
    let cluster = of_version(BrokerVersion::V0_11_0);
    let mut client = Client::of(&cluster, 0);
    let batch = sent(MessageFormat::V2, None, &["a", "b"]);
    let patched = |at: usize, value: u8| {
        let mut bytes = batch.as_bytes().to_vec();
        bytes[at] = value;
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        MessageSet::from(bytes)
    };
    let mut flipped = batch.as_bytes().to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    let corrupt = Some(ErrorCode::CorruptMessage);
    for (what, set) in [
        ("a checksum that is wrong", MessageSet::from(flipped)),
        ("a control batch", patched(22, 0x20)),
        (
            "a batch that takes more offsets than it has records",
            patched(26, 9),
        ),
        (
            "an older format in version 3",
            sent(MessageFormat::V1, None, &["a"]),
        ),
        (
            "two batches",
            MessageSet::from([batch.as_bytes(), batch.as_bytes()].concat()),
        ),
        ("nothing", MessageSet::default()),
    ] {
        assert_eq!(client.produce(0, &set, 3).error, corrupt, "{what}");
    }
    let later = of_version(BrokerVersion::V0_10_2);
    let refused = Client::of(&later, 0).produce(0, &batch, 2).error;
    assert_eq!(refused, corrupt, "a format that is not known yet");
    assert_eq!(
        cluster.describe().partition("orders", 0).unwrap().log_end,
        0
    );
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_is_for_those_who_know_it() {
    let set = sent(MessageFormat::V2, Some(Codec::Zstd), &["a", "b"]);
    let older = of_version(BrokerVersion::V1_1);
    assert!(
        older
            .produce_set(&orders(0), &set, RequiredAcks::All)
            .is_err()
    );
    let cluster = of_version(BrokerVersion::V2_3);
    cluster
        .produce_set(&orders(0), &set, RequiredAcks::All)
        .unwrap();
    let mut client = Client::of(&cluster, 0);
    assert_eq!(told(&client.fetch(0, 10)).len(), 2);
    let request = FetchRequest::default().fetch(orders(0), 0, 1_000);
    let refused = client.ask(&request, 3).partitions[0].header.error;
    assert_eq!(refused, Some(ErrorCode::UnsupportedCompressionType));
}

#[test]
fn metadata_of_version_1_names_dead_replicas_and_tells_all_from_none() {
    let builder = EmbeddedCluster::builder().version(BrokerVersion::V0_10_0);
    let cluster = builder.brokers(2).topic("orders", 1, 2).start().unwrap();
    cluster.stop(1).unwrap();
    let mut client = Client::of(&cluster, 0);
    let all = MetadataRequest::default();
    let answer = client.ask(&all, 1);
    let partition = &answer.topics[0].partitions[0];
    assert_eq!(
        (partition.error, &partition.replicas[..]),
        (None, &[0, 1][..])
    );
    assert_eq!(answer.controller, Some(0));
    let old = client.ask(&all, 0);
    let partition = &old.topics[0].partitions[0];
    let error = Some(ErrorCode::ReplicaNotAvailable);
    assert_eq!(
        (partition.error, &partition.replicas[..]),
        (error, &[0][..])
    );
    let none = MetadataRequest {
        topics: Some(Vec::new()),
        ..MetadataRequest::default()
    };
    assert_eq!(client.ask(&none, 1).topics, []);
}

#[test]
fn what_later_formats_wrote_is_there_in_the_next_life() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let builder = EmbeddedCluster::builder().version(BrokerVersion::V2_3);
        let builder = builder.data_dir(folder.path()).log_segment_bytes(200);
        builder.topic("orders", 1, 1).start().unwrap()
    };
    let cluster = start();
    let mut client = Client::of(&cluster, 0);
    for codec in [None, Some(Codec::Gzip), None] {
        let set = sent(MessageFormat::V2, codec, &["a", "b", "c"]);
        assert_eq!(client.produce(0, &set, 3).error, None);
    }
    drop(cluster);
    let cluster = start();
    let mut client = Client::of(&cluster, 0);
    let partition = cluster.describe();
    assert_eq!(partition.partition("orders", 0).unwrap().log_end, 9);
    let offsets: Vec<i64> = (0..3)
        .flat_map(|set| told(&client.fetch(set * 3, 4)))
        .map(|it| it.0)
        .take_while(|offset| *offset < 9)
        .collect();
    assert_eq!(offsets.last(), Some(&8));
}

#[test]
fn a_fetch_of_ever_so_many_partitions_keeps_nobody_waiting() {
    // Each was compared with all others while no other client of the broker could be served.
    let cluster = of_version(BrokerVersion::V2_3);
    let mut client = Client::of(&cluster, 0);
    let request = FetchRequest::default();
    let mut request = (0..40_000).fold(request, |request, partition| {
        request.fetch(orders(partition), 0, 1000)
    });
    assert_eq!(client.ask(&request, 4).partitions.len(), 40_000);
    request.metadata = FetchMetadata::Full { closing: None };
    let session_id = client.ask(&request, 7).session_id.unwrap();
    request.forgotten = (3..40_000).map(orders).collect();
    request.metadata = FetchMetadata::Incremental {
        session_id,
        epoch: 1,
    };
    assert_eq!(client.ask(&request, 7).partitions, []);
}

#[test]
fn from_0_9_on_nobody_waits_for_a_number_of_replicas() {
    for version in BrokerVersion::ALL {
        let cluster = of_version(version);
        let mut client = Client::of(&cluster, 0);
        for acks in [2, -2, i16::MIN] {
            let request = ProduceRequest {
                acks: RequiredAcks::Replicas(acks),
                timeout: Duration::from_millis(1),
                partitions: vec![ProducePartition {
                    topic_partition: orders(0),
                    message_set: sent(MessageFormat::V0, None, &["a"]),
                }],
                ..ProduceRequest::default()
            };
            let outcome = client.ask(&request, 0).partitions.remove(0);
            let told = (outcome.error, outcome.base_offset.is_some());
            let expected = match version {
                BrokerVersion::V0_8_2 => (Some(ErrorCode::RequestTimedOut), true),
                _ => (Some(ErrorCode::InvalidRequiredAcks), false),
            };
            assert_eq!(told, expected, "{version} {acks}");
        }
        let described = cluster.describe();
        let log_end = described.partition("orders", 0).unwrap().log_end;
        let appended = if version == BrokerVersion::V0_8_2 {
            3
        } else {
            0
        };
        assert_eq!(log_end, appended, "{version}");
    }
}
