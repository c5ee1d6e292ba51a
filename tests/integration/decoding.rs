//! Streams whose keys and values are decoded.

use kafka_zk_consumer::BytesDecoder;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::DecoderError;
use kafka_zk_consumer::IntegerDecoder;
use kafka_zk_consumer::LongDecoder;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::StringDecoder;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSetBuilder;
use kafka_zk_consumer::protocol::RequiredAcks;

use crate::reading::config;
use crate::reading::connect;
use crate::reading::quick_cluster;
use crate::reading::streams;

type Pair<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

fn produce(cluster: &EmbeddedCluster, pairs: &[Pair<'_>]) {
    let mut set = MessageSetBuilder::compressed(Codec::Gzip);
    for (key, value) in pairs {
        set.message(0, *key, *value).unwrap();
    }
    let of = TopicPartition::new("orders", 0);
    let set = set.build().unwrap();
    cluster.produce_set(&of, &set, RequiredAcks::All).unwrap();
}

fn start(cluster: &EmbeddedCluster, group: &str) -> (ConsumerConnector, MessageStream) {
    let connector = connect(config(cluster, group));
    let stream = streams(&connector, "orders", 1).remove(0);
    (connector, stream)
}

#[test]
fn text_comes_out_as_it_went_in_with_its_place() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce(
        &cluster,
        &[
            (Some(b"one"), Some("gr\u{fc}n".as_bytes())),
            (None, Some(b"")),
            (Some(b""), None),
        ],
    );
    let (_connector, stream) = start(&cluster, "g");
    let mut stream = stream.decoded(StringDecoder::strict(), StringDecoder::lossy());
    let mut next = || {
        let decoded = stream.next().unwrap().unwrap();
        assert_eq!((decoded.topic(), decoded.partition()), ("orders", 0));
        (decoded.offset(), decoded.into_key_and_message())
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(next(), (0, (text("one"), text("gr\u{fc}n"))));
    // Null is not the same as empty.
    assert_eq!(next(), (1, (None, text(""))));
    assert_eq!(next(), (2, (text(""), None)));
}

#[test]
fn what_cannot_be_decoded_is_told_with_its_place_and_the_stream_goes_on() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let seven = 7_i32.to_be_bytes();
    let long = 1_000_000_000_000_i64.to_be_bytes();
    produce(
        &cluster,
        &[
            (Some(&seven), Some(&long)),
            (Some(b"seven"), Some(&long)),
            (Some(&seven), Some(b"short")),
            (None, Some(&long)),
        ],
    );
    let (connector, stream) = start(&cluster, "g");
    let mut stream = stream.decoded(IntegerDecoder, LongDecoder);
    let first = stream.next().unwrap().unwrap();
    assert_eq!(first.key(), Some(&7));
    assert_eq!(first.message(), Some(&1_000_000_000_000));
    assert_eq!(first.raw().key(), Some(&seven[..]));
    for (expected, bad, text) in [
        (1, "key", "5 bytes instead of 4"),
        (2, "value", "5 bytes instead of 8"),
    ] {
        match stream.next().unwrap().unwrap_err() {
            StreamError::Undecodable {
                topic_partition,
                offset,
                part,
                reason,
            } => {
                assert_eq!(topic_partition, TopicPartition::new("orders", 0));
                assert_eq!((offset, part, reason.as_str()), (expected, bad, text));
            }
            error => panic!("{error}"),
        }
    }
    assert_eq!(stream.next().unwrap().unwrap().offset(), 3);
    stream.stream().mark_consumed();
    assert_eq!(connector.stats().partitions[0].consumed, Some(4));
}

#[test]
fn an_undecodable_message_can_be_read_again_as_bytes() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce(&cluster, &[(None, Some(b"\xff")), (None, Some(b"good"))]);
    let (_connector, stream) = start(&cluster, "g");
    let mut stream = stream.decoded(BytesDecoder, StringDecoder::strict());
    let error = stream.next().unwrap().unwrap_err();
    let text = error.to_string();
    let begin = "value in orders/0 at offset 0 cannot be decoded: ";
    assert!(text.starts_with(begin), "{text}");
    let mut stream = stream.into_stream();
    stream.seek(&TopicPartition::new("orders", 0), 0).unwrap();
    let message = stream.next().unwrap().unwrap();
    assert_eq!(message.value(), Some(&b"\xff"[..]));
}

#[test]
fn a_closure_decodes_and_a_bounded_stream_stays_bounded() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce(&cluster, &[(None, Some(b"1")), (None, Some(b"2"))]);
    let connector = connect(config(&cluster, "g"));
    let mut streams = connector.create_bounded_streams([("orders", 1)]).unwrap();
    let stream = streams.remove("orders").unwrap().remove(0);
    let number =
        |bytes: &[u8]| -> Result<u32, DecoderError> { Ok(std::str::from_utf8(bytes)?.parse()?) };
    let mut stream = stream.decoded(BytesDecoder, number);
    let sum: u32 = stream
        .by_ref()
        .filter_map(|decoded| decoded.unwrap().message().copied())
        .sum();
    assert_eq!(sum, 3);
    assert!(stream.into_stream().report()[0].is_reached());
}
