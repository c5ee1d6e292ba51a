//! Batch jobs that lose streams, messages or members before they come to their ends.

use std::sync::mpsc;
use std::time::Duration;

use kafka_zk_consumer::BatchLimits;
use kafka_zk_consumer::BoundedOutcome;
use kafka_zk_consumer::BoundedPartition;
use kafka_zk_consumer::BoundedStream;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Decoder;
use kafka_zk_consumer::DecoderError;
use kafka_zk_consumer::ErrorCode;
use kafka_zk_consumer::Message;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::StringDecoder;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::AnswerFault;
use kafka_zk_consumer::embedded::Api;
use kafka_zk_consumer::embedded::BrokerVersion;

use crate::reading::config;
use crate::reading::connect;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

/// What ran in a thread of its own, which has to end.
fn in_time<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(job()));
    receiver.recv_timeout(LIMIT).expect("the job ends")
}

fn bounded(connector: &ConsumerConnector, count: usize) -> Vec<BoundedStream> {
    let mut streams = connector
        .create_bounded_streams([("orders", count)])
        .unwrap();
    streams.remove("orders").unwrap()
}

/// Reads a stream to its end, and says how its member's partitions went.
fn read(mut stream: BoundedStream) -> (Vec<Message>, Vec<BoundedPartition>) {
    in_time(move || {
        let messages: Result<Vec<Message>, StreamError> = stream.by_ref().collect();
        (messages.unwrap(), stream.report())
    })
}

#[test]
fn a_stream_that_nobody_reads_any_more_does_not_keep_the_others_from_their_end() {
    // One of the threads of a job broke off, and with it its stream was gone. The others waited for it for ever, with
    // everything read.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut streams = bounded(&connector, 2);
    let broken_off = streams.pop().unwrap();
    let fails_at_its_fourth = |bytes: &[u8]| -> Result<String, DecoderError> {
        assert_ne!(bytes, b"1/3", "a decoder that panics");
        StringDecoder::strict().decode(bytes)
    };
    let decoded = broken_off.decoded(StringDecoder::strict(), fails_at_its_fourth);
    let thread = std::thread::spawn(move || decoded.count());
    assert!(thread.join().is_err());
    let (messages, report) = read(streams.remove(0));
    assert_eq!(messages.len(), 10);
    let went: Vec<_> = report.iter().map(|it| (it.position, it.outcome)).collect();
    let expected = [
        (Some(10), BoundedOutcome::Reached),
        (Some(3), BoundedOutcome::Reading),
    ];
    assert_eq!(went, expected);
    connector.shutdown();
    let (messages, _) = read(bounded(&connect(config(&cluster, "g")), 1).remove(0));
    let offsets: Vec<i64> = messages.iter().map(Message::offset).collect();
    assert_eq!(offsets, (3..10).collect::<Vec<i64>>(), "what broke off");
}

#[test]
fn a_stream_that_waits_ends_when_the_last_other_one_is_dropped() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut streams = bounded(&connector, 2);
    let dropped = streams.pop().unwrap();
    let waiting = streams.remove(0);
    let thread = std::thread::spawn(move || read(waiting));
    let is_read = || connector.stats().partitions[0].consumed == Some(10);
    wait_until("the first has read its part", is_read);
    drop(dropped);
    assert_eq!(thread.join().unwrap().0.len(), 10);
}

#[test]
fn a_lost_tail_is_noticed_although_the_look_up_fails_at_first() {
    // The partition came back to the same fetcher, whose session with the broker told only changes. That the log can
    // be read no further was none, so the job waited for ever.
    for version in [BrokerVersion::V0_8_2, BrokerVersion::V1_1] {
        let builder = quick_cluster().version(version);
        let cluster = builder.topic("orders", 1, 1).start().unwrap();
        produce_numbers(&cluster, "orders", 1, 0..20);
        let connector = connect(config(&cluster, "g").fetch_message_max_bytes(200));
        let mut stream = bounded(&connector, 1).remove(0);
        assert_eq!(stream.next().unwrap().unwrap().offset(), 0);
        cluster.truncate("orders", 0, 15).unwrap();
        let fault = AnswerFault::Error(ErrorCode::NotLeaderOrFollower);
        for _ in 0..5 {
            cluster.spoil_answer(0, Api::ListOffsets, fault).unwrap();
        }
        let (_, report) = read(stream);
        let cut = BoundedOutcome::Truncated { log_end: 15 };
        assert_eq!(report[0].outcome, cut, "{version:?}");
        assert_eq!(cluster.answers_to_spoil(0).unwrap(), 0);
    }
}

#[test]
fn a_batch_that_may_wait_is_given_at_once_where_the_log_ends() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut stream = bounded(&connector, 1).remove(0);
    let limits = BatchLimits {
        messages: 15,
        bytes: usize::MAX,
        wait: Duration::MAX,
    };
    let sizes: Vec<usize> = in_time(move || {
        let batches = stream.batches(limits);
        batches.map(|batch| batch.unwrap().len()).collect()
    });
    assert_eq!(sizes, [15, 5]);
}

#[test]
fn a_bad_message_is_told_behind_a_batch_that_may_wait() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    cluster.corrupt("orders", 0, 9).unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut stream = bounded(&connector, 1).remove(0);
    let limits = BatchLimits {
        messages: usize::MAX,
        bytes: usize::MAX,
        wait: Duration::MAX,
    };
    let (batches, report) = in_time(move || {
        let batches: Vec<_> = stream.batches(limits).collect();
        (batches, stream.report())
    });
    assert_eq!(batches[0].as_ref().unwrap().len(), 9);
    assert!(matches!(
        batches[1],
        Err(StreamError::Corrupt { offset: 9, .. })
    ));
    assert_eq!(batches.len(), 2);
    assert_eq!(report[0].outcome, BoundedOutcome::BadMessage { offset: 9 });
    assert_eq!(report[0].topic_partition, TopicPartition::new("orders", 0));
}
