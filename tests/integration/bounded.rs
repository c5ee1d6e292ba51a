//! Streams that read up to where the logs end, and then end by themselves.

use std::sync::mpsc;
use std::time::Duration;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::BoundedOutcome;
use kafka_zk_consumer::BoundedPartition;
use kafka_zk_consumer::BoundedStream;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::Message;
use kafka_zk_consumer::Poller;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicFilter;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::protocol::Codec;
use kafka_zk_consumer::protocol::MessageSetBuilder;
use kafka_zk_consumer::protocol::RequiredAcks;

use crate::reading::config;
use crate::reading::connect;
use crate::reading::numbered;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::value;
use crate::reading::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

fn bounded(connector: &ConsumerConnector, topic: &str, count: usize) -> Vec<BoundedStream> {
    let mut streams = connector.create_bounded_streams([(topic, count)]).unwrap();
    streams.remove(topic).unwrap()
}

/// What streams gave until they ended by themselves, and how each partition went.
struct Job {
    messages: Vec<Message>,
    errors: Vec<StreamError>,
    report: Vec<BoundedPartition>,
}

impl Job {
    /// Reads every stream in a thread of its own.
    fn run(streams: Vec<BoundedStream>) -> Self {
        Self::start(streams)
            .recv_timeout(LIMIT)
            .expect("the job ends")
    }

    fn start(streams: Vec<BoundedStream>) -> mpsc::Receiver<Self> {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let threads = streams.into_iter().map(|mut stream| {
                std::thread::spawn(move || {
                    let items: Vec<_> = stream.by_ref().collect();
                    (items, stream)
                })
            });
            let threads: Vec<_> = threads.collect();
            let mut job = Self {
                messages: Vec::new(),
                errors: Vec::new(),
                report: Vec::new(),
            };
            for thread in threads {
                let (items, stream) = thread.join().unwrap();
                for item in items {
                    match item {
                        Ok(message) => job.messages.push(message),
                        Err(error) => job.errors.push(error),
                    }
                }
                job.report = stream.report();
            }
            let _ = sender.send(job);
        });
        receiver
    }

    fn values(&self, partition: i32) -> Vec<String> {
        let of_partition = self
            .messages
            .iter()
            .filter(|it| it.partition() == partition);
        of_partition.map(value).collect()
    }

    fn offsets(&self) -> Vec<i64> {
        self.messages.iter().map(Message::offset).collect()
    }

    fn partition(&self, partition: i32) -> &BoundedPartition {
        let mut report = self.report.iter();
        report
            .find(|it| it.topic_partition.partition() == partition)
            .expect("it is reported")
    }

    /// Start, position, end and outcome.
    fn went(&self, partition: i32) -> (Option<i64>, Option<i64>, Option<i64>, BoundedOutcome) {
        let it = self.partition(partition);
        (it.start, it.position, it.end, it.outcome)
    }
}

fn reached(start: i64, end: i64) -> (Option<i64>, Option<i64>, Option<i64>, BoundedOutcome) {
    (Some(start), Some(end), Some(end), BoundedOutcome::Reached)
}

fn numbers(partition: i32, range: std::ops::Range<i32>) -> Vec<String> {
    range.map(|number| numbered(partition, number)).collect()
}

#[test]
fn a_job_reads_what_is_there_and_the_next_one_goes_on_behind_it() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 4, 2)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 3, 0..50);
    for (range, streams) in [(0..50, 1), (50..70, 3), (70..90, 6)] {
        if range.start > 0 {
            produce_numbers(&cluster, "orders", 3, range.clone());
        }
        let connector = connect(config(&cluster, "g"));
        let job = Job::run(bounded(&connector, "orders", streams));
        connector.shutdown();
        for partition in 0..3 {
            assert_eq!(job.values(partition), numbers(partition, range.clone()));
            let (start, end) = (i64::from(range.start), i64::from(range.end));
            assert_eq!(job.went(partition), reached(start, end));
        }
        assert_eq!(job.went(3), reached(0, 0), "an empty partition");
    }
}

#[test]
fn what_is_written_after_the_start_is_left_to_the_next_job() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    // One set, so that what comes after the end is fetched with what comes before it.
    let of = TopicPartition::new("orders", 0);
    let connector = connect(config(&cluster, "g").fetch_message_max_bytes(100_000));
    produce_numbers(&cluster, "orders", 1, 0..10);
    let mut stream = bounded(&connector, "orders", 1).remove(0);
    let first = stream.next().unwrap().unwrap();
    assert_eq!(first.offset(), 0);
    produce_numbers(&cluster, "orders", 1, 10..20);
    stream.seek(&of, 0).unwrap();
    let job = Job::run(vec![stream]);
    assert_eq!(job.offsets(), (0..10).collect::<Vec<i64>>());
    assert_eq!(job.went(0), reached(0, 10));
}

#[test]
fn an_end_within_a_compressed_message_splits_it() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..5);
    let connector = connect(config(&cluster, "g"));
    let mut stream = bounded(&connector, "orders", 1).remove(0);
    assert_eq!(stream.next().unwrap().unwrap().offset(), 0);
    // The log is written anew, with one compressed message around the end, which is 5.
    cluster.truncate("orders", 0, 2).unwrap();
    let mut set = MessageSetBuilder::compressed(Codec::Gzip);
    for number in 2..8 {
        let value = numbered(0, number);
        set.message(0, None, Some(value.as_bytes())).unwrap();
    }
    let of = TopicPartition::new("orders", 0);
    let set = set.build().unwrap();
    cluster.produce_set(&of, &set, RequiredAcks::All).unwrap();
    stream.seek(&of, 1).unwrap();
    let job = Job::run(vec![stream]);
    assert_eq!(job.offsets(), [1, 2, 3, 4]);
    assert_eq!(job.went(0), reached(1, 5));
}

#[test]
fn a_topic_that_is_empty_or_not_there_ends_at_once() {
    let cluster = quick_cluster().topic("empty", 2, 1).start().unwrap();
    for choice in [AutoOffsetReset::Smallest, AutoOffsetReset::Largest] {
        let builder = config(&cluster, "g").auto_offset_reset(choice);
        let connector = connect(builder);
        let job = Job::run(bounded(&connector, "empty", 2));
        assert!(job.messages.is_empty());
        assert_eq!(job.went(0), reached(0, 0));
        assert_eq!(job.went(1), reached(0, 0));
    }
    let connector = connect(config(&cluster, "g"));
    let job = Job::run(bounded(&connector, "missing", 2));
    assert!(job.messages.is_empty() && job.report.is_empty());
}

#[test]
fn a_new_group_that_begins_at_the_end_has_nothing_to_read() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let largest = config(&cluster, "g").auto_offset_reset(AutoOffsetReset::Largest);
    let connector = connect(largest);
    let job = Job::run(bounded(&connector, "orders", 1));
    assert!(job.messages.is_empty());
    assert_eq!(job.went(0), reached(10, 10));
}

#[test]
fn a_position_behind_the_log_is_reset_as_configured() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    for (group, choice, read) in [
        ("small", AutoOffsetReset::Smallest, 10),
        ("large", AutoOffsetReset::Largest, 0),
    ] {
        let connector = connect(config(&cluster, group).auto_offset_reset(choice));
        let of = TopicPartition::new("orders", 0);
        connector.commit_offsets_for([(of, 15)]).unwrap();
        let job = Job::run(bounded(&connector, "orders", 1));
        assert_eq!(job.offsets(), (0..read).collect::<Vec<i64>>(), "{group}");
        let (start, position, end, outcome) = job.went(0);
        assert_eq!((start, position, end), (Some(15), Some(10), Some(10)));
        assert_eq!(outcome, BoundedOutcome::Reached);
    }
}

#[test]
fn a_position_that_lies_behind_the_end_but_within_the_log_stays() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut stream = bounded(&connector, "orders", 1).remove(0);
    assert_eq!(stream.next().unwrap().unwrap().offset(), 0);
    produce_numbers(&cluster, "orders", 1, 10..20);
    let of = TopicPartition::new("orders", 0);
    stream.seek(&of, 15).unwrap();
    let job = Job::run(vec![stream]);
    assert!(job.messages.is_empty() && job.errors.is_empty());
    let (start, position, end, outcome) = job.went(0);
    assert_eq!((start, position, end), (Some(15), Some(15), Some(10)));
    assert_eq!(outcome, BoundedOutcome::Reached);
}

#[test]
fn a_log_that_loses_its_tail_meanwhile_is_read_to_what_is_left() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..50);
    let small = config(&cluster, "g").fetch_message_max_bytes(200);
    let connector = connect(small);
    let mut stream = bounded(&connector, "orders", 1).remove(0);
    assert_eq!(stream.next().unwrap().unwrap().offset(), 0);
    let fetched = || connector.stats().partitions[0].fetched.unwrap();
    wait_until("the queue is full", || fetched() > 5);
    assert!(fetched() < 30, "far from the end yet");
    cluster.truncate("orders", 0, 40).unwrap();
    let job = Job::run(vec![stream]);
    assert_eq!(job.offsets(), (1..40).collect::<Vec<i64>>());
    let (_, position, end, outcome) = job.went(0);
    assert_eq!((position, end), (Some(40), Some(50)));
    assert_eq!(outcome, BoundedOutcome::Truncated { log_end: 40 });
}

#[test]
fn a_high_watermark_that_lags_after_a_change_of_leaders_is_waited_for() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 1, 2)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 1, 0..20);
    let small = config(&cluster, "g").fetch_message_max_bytes(200);
    let connector = connect(small);
    let mut stream = bounded(&connector, "orders", 1).remove(0);
    assert_eq!(stream.next().unwrap().unwrap().offset(), 0);
    for broker in 0..2 {
        cluster.set_replicating(broker, false).unwrap();
    }
    cluster.lower_high_watermark("orders", 0, 15).unwrap();
    let job = Job::start(vec![stream]);
    let asked = connector.stats().fetch_requests;
    wait_until("it goes on asking", || {
        connector.stats().fetch_requests > asked + 20
    });
    assert!(job.try_recv().is_err(), "the messages are still there");
    for broker in 0..2 {
        cluster.set_replicating(broker, true).unwrap();
    }
    produce_numbers(&cluster, "orders", 1, 20..21);
    let job = job.recv_timeout(LIMIT).expect("the job ends");
    assert_eq!(job.offsets(), (1..20).collect::<Vec<i64>>());
    assert_eq!(job.partition(0).outcome, BoundedOutcome::Reached);
}

#[test]
fn a_job_gets_over_brokers_that_restart() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("orders", 4, 1)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders", 4, 0..100);
    let small = config(&cluster, "g").fetch_message_max_bytes(500);
    let connector = connect(small);
    let mut streams = bounded(&connector, "orders", 2);
    for stream in &mut streams {
        stream.next().unwrap().unwrap();
    }
    for broker in 0..2 {
        cluster.kill(broker).unwrap();
    }
    let job = Job::start(streams);
    wait_until("the fetchers have noticed", || {
        connector.stats().fetch_failures > 0
    });
    assert!(job.try_recv().is_err(), "a dead broker is no end");
    for broker in 0..2 {
        cluster.restart(broker).unwrap();
    }
    let job = job.recv_timeout(LIMIT).expect("the job ends");
    assert_eq!(job.messages.len(), 4 * 100 - 2);
    for partition in 0..4 {
        assert_eq!(job.went(partition), reached(0, 100));
    }
}

#[test]
fn a_member_that_joins_in_the_middle_takes_its_share_and_both_jobs_end() {
    let cluster = quick_cluster().topic("orders", 4, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 4, 0..100);
    let first = connect(config(&cluster, "g").fetch_message_max_bytes(500));
    let mut by_first = bounded(&first, "orders", 1);
    let mut seen = vec![by_first[0].next().unwrap().unwrap()];
    let second = connect(config(&cluster, "g").fetch_message_max_bytes(500));
    let by_second = bounded(&second, "orders", 1);
    wait_until("both have their share", || {
        first.owned_partitions().len() == 2 && second.owned_partitions().len() == 2
    });
    let by_second = Job::run(by_second);
    seen.extend(by_second.messages);
    let by_first = Job::run(by_first);
    let outcomes: Vec<BoundedOutcome> = by_first.report.iter().map(|it| it.outcome).collect();
    let handed_over = BoundedOutcome::HandedOver;
    let count = outcomes.iter().filter(|it| **it == handed_over).count();
    assert_eq!(count, 2, "{outcomes:?}");
    assert!(by_first.report.iter().filter(|it| it.is_reached()).count() == 2);
    seen.extend(by_first.messages);
    for partition in 0..4 {
        let mut numbers: Vec<i64> = seen
            .iter()
            .filter(|message| message.partition() == partition)
            .map(Message::offset)
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers, (0..100).collect::<Vec<i64>>(), "{partition}");
    }
}

#[test]
fn partitions_of_a_member_that_leaves_get_ends_of_their_own() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let first = connect(config(&cluster, "g"));
    let mut by_first = bounded(&first, "orders", 1);
    let other = connect(config(&cluster, "g"));
    let by_other = bounded(&other, "orders", 1);
    wait_until("both have their share", || {
        first.owned_partitions().len() == 1 && other.owned_partitions().len() == 1
    });
    let mine = first.owned_partitions().remove(0).partition();
    // The first message shows that the end is known; the job is not over before the application comes back.
    let offset = by_first[0].next().unwrap().unwrap().offset();
    assert_eq!(offset, 0);
    produce_numbers(&cluster, "orders", 2, 10..15);
    drop(by_other);
    other.shutdown();
    wait_until("the first has both", || first.owned_partitions().len() == 2);
    let job = Job::run(by_first);
    assert_eq!(job.partition(mine).end, Some(10), "it kept its end");
    assert_eq!(job.went(1 - mine), reached(0, 15));
    assert_eq!(job.values(1 - mine), numbers(1 - mine, 0..15));
    // Nothing had been told as consumed when the other one left.
    assert_eq!(job.values(mine), numbers(mine, 0..10));
}

#[test]
fn partitions_that_are_added_meanwhile_are_read_as_well() {
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut streams = bounded(&connector, "orders", 2);
    let idle = connector.owned_partitions().len();
    assert_eq!(idle, 1);
    let first = streams[0].next().unwrap().unwrap();
    assert_eq!(first.offset(), 0);
    cluster.add_partitions("orders", 3).unwrap();
    produce_numbers(&cluster, "orders", 3, 10..15);
    wait_until("they are owned", || connector.owned_partitions().len() == 3);
    let job = Job::run(streams);
    assert_eq!(job.partition(0).end, Some(10), "it kept its end");
    for partition in 1..3 {
        let (_, position, end, outcome) = job.went(partition);
        assert_eq!(outcome, BoundedOutcome::Reached);
        assert_eq!(position, end);
    }
}

#[test]
fn a_topic_that_is_deleted_meanwhile_ends_the_job_and_is_told() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut streams = bounded(&connector, "orders", 1);
    streams[0].next().unwrap().unwrap();
    cluster.delete_topic("orders").unwrap();
    wait_until("the partitions are given up", || {
        connector.owned_partitions().is_empty()
    });
    let job = Job::run(streams);
    for partition in 0..2 {
        assert_eq!(job.partition(partition).outcome, BoundedOutcome::Deleted);
    }
}

#[test]
fn a_bad_message_is_told_and_does_not_keep_the_job_from_its_end() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    cluster.corrupt("orders", 0, 4).unwrap();
    let connector = connect(config(&cluster, "left"));
    let job = Job::run(bounded(&connector, "orders", 1));
    assert_eq!(job.errors.len(), 1, "{:?}", job.errors);
    assert!(matches!(
        job.errors[0],
        StreamError::Corrupt { offset: 4, .. }
    ));
    assert_eq!(job.values(0), numbers(0, 0..4));
    assert_eq!(job.values(1), numbers(1, 0..10));
    let bad = BoundedOutcome::BadMessage { offset: 4 };
    assert_eq!(job.partition(0).outcome, bad);
    assert_eq!(job.partition(0).position, Some(4), "it is not passed");

    let connector = connect(config(&cluster, "skipped"));
    let mut stream = bounded(&connector, "orders", 1).remove(0);
    let mut read = 0;
    while let Some(next) = stream.next() {
        match next {
            Ok(_) => read += 1,
            Err(_) => {
                let of = TopicPartition::new("orders", 0);
                assert_eq!(stream.skip_bad_message(&of), Some(4));
            }
        }
    }
    assert_eq!(read, 19);
    assert!(stream.report().iter().all(BoundedPartition::is_reached));
}

#[test]
fn a_paused_partition_is_waited_for_and_its_end_stays_where_it_was() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..20);
    let connector = connect(config(&cluster, "g"));
    let mut stream = bounded(&connector, "orders", 1).remove(0);
    let paused = TopicPartition::new("orders", 1);
    connector.pause(std::slice::from_ref(&paused)).unwrap();
    let mut values = [Vec::new(), Vec::new()];
    loop {
        match stream
            .next_timeout(Duration::from_millis(300))
            .expect("it waits")
        {
            Ok(message) => {
                values[usize::try_from(message.partition()).unwrap()].push(value(&message))
            }
            Err(StreamError::Timeout) if values[0].len() == 20 => break,
            Err(StreamError::Timeout) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(values, [numbers(0, 0..20), Vec::new()]);
    wait_until("both ends are known", || {
        stream.report().iter().all(|it| it.end == Some(20))
    });
    assert_eq!(stream.report()[1].outcome, BoundedOutcome::Reading);
    produce_numbers(&cluster, "orders", 2, 20..30);
    connector.resume(&[paused]).unwrap();
    let job = Job::run(vec![stream]);
    assert_eq!(job.values(1), numbers(1, 0..20));
    assert_eq!(job.values(0), numbers(0, 0..0));
    for partition in 0..2 {
        assert_eq!(job.went(partition), reached(0, 20));
    }
}

#[test]
fn a_seek_of_another_thread_is_followed_by_a_job_that_waits() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..20);
    let connector = connect(config(&cluster, "g"));
    let streams = bounded(&connector, "orders", 1);
    let [sought, paused] = [0, 1].map(|partition| TopicPartition::new("orders", partition));
    // As long as this one waits, the job does.
    connector.pause(std::slice::from_ref(&paused)).unwrap();
    let job = Job::start(streams);
    let consumed = || connector.stats().partitions[0].consumed;
    wait_until("the other is read", || consumed() == Some(20));
    connector.seek(&sought, 15).unwrap();
    connector.resume(&[paused]).unwrap();
    let job = job.recv_timeout(LIMIT).expect("the job ends");
    let again = [numbers(0, 0..20), numbers(0, 15..20)].concat();
    assert_eq!(job.values(0), again);
    assert_eq!(job.values(1), numbers(1, 0..20));
    assert_eq!(job.went(0), reached(15, 20));
}

#[test]
fn a_missing_offset_is_told_and_does_not_keep_the_job_from_its_end() {
    let cluster = quick_cluster().topic("orders", 3, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 3, 0..10);
    let settings = config(&cluster, "g").auto_offset_reset(AutoOffsetReset::None);
    let connector = connect(settings);
    let stored = [(0, 4), (2, 77)];
    let stored =
        stored.map(|(partition, offset)| (TopicPartition::new("orders", partition), offset));
    connector.commit_offsets_for(stored).unwrap();
    let job = Job::run(bounded(&connector, "orders", 1));
    assert_eq!(job.values(0), numbers(0, 4..10));
    assert_eq!((job.messages.len(), job.errors.len()), (6, 2));
    for error in &job.errors {
        assert!(matches!(error, StreamError::NoOffset { .. }), "{error}");
    }
    assert_eq!(job.went(0), reached(4, 10));
    for (partition, offset) in [(1, None), (2, Some(77))] {
        let went = (offset, offset, Some(10), BoundedOutcome::NoOffset);
        assert_eq!(job.went(partition), went);
    }
    assert!(job.partition(2).to_string().contains("no usable offset"));
}

#[test]
fn every_topic_that_passes_a_filter_is_read_to_its_end() {
    let cluster = quick_cluster()
        .topic("orders-eu", 2, 1)
        .topic("orders-us", 1, 1)
        .topic("bills", 1, 1)
        .start()
        .unwrap();
    produce_numbers(&cluster, "orders-eu", 2, 0..10);
    produce_numbers(&cluster, "orders-us", 1, 0..10);
    produce_numbers(&cluster, "bills", 1, 0..10);
    let connector = connect(config(&cluster, "g"));
    let filter = TopicFilter::whitelist("orders-.*").unwrap();
    let streams = connector
        .create_bounded_streams_by_filter(&filter, 2)
        .unwrap();
    assert_eq!(streams.len(), 2);
    let job = Job::run(streams);
    assert_eq!(job.messages.len(), 30);
    assert!(job.messages.iter().all(|it| it.topic() != "bills"));
    assert_eq!(job.report.len(), 3);
    assert!(job.report.iter().all(BoundedPartition::is_reached));
    let connector = connect(config(&cluster, "none"));
    let nothing = TopicFilter::whitelist("returns").unwrap();
    let streams = connector.create_bounded_streams_by_filter(&nothing, 1);
    assert!(Job::run(streams.unwrap()).report.is_empty());
}

#[test]
fn one_thread_reads_several_bounded_streams_by_a_poller() {
    let cluster = quick_cluster().topic("orders", 4, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 4, 0..50);
    let connector = connect(config(&cluster, "g"));
    let mut poller = Poller::new(bounded(&connector, "orders", 3));
    let mut read = 0;
    while let Some(batch) = poller.poll(LIMIT) {
        let batch = batch.unwrap();
        assert!(!batch.is_empty(), "it did not wait for nothing");
        read += batch.len();
    }
    assert_eq!(read, 200);
    assert!(poller.poll(LIMIT).is_none(), "for good");
    let committed = connector.commit_offsets().unwrap();
    let offsets: Vec<i64> = committed.iter().map(|(_, offset)| *offset).collect();
    assert_eq!(offsets, [50; 4]);
}

#[test]
fn a_shutdown_ends_a_job_that_waits() {
    let cluster: EmbeddedCluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = connect(config(&cluster, "g"));
    let mut stream = bounded(&connector, "orders", 1).remove(0);
    stream.next().unwrap().unwrap();
    cluster.kill(0).unwrap();
    connector.shutdown();
    assert!(stream.next().is_none());
    assert_eq!(stream.report()[0].outcome, BoundedOutcome::Reading);
}

#[test]
fn chosen_partitions_are_read_to_their_ends_without_the_group_and_the_next_job_goes_on_there() {
    let cluster = quick_cluster().topic("orders", 4, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 3, 0..50);
    let chosen = || [3, 1, 0].map(orders);
    let by_hand = connect(config(&cluster, "g"));
    by_hand.commit_offsets_for([(orders(1), 20)]).unwrap();
    by_hand.shutdown();
    // More streams than partitions: those without any end with the others.
    for (from, to, streams) in [(0, 50, 2), (50, 70, 5)] {
        produce_numbers(&cluster, "orders", 3, 50..to);
        let connector = connect(config(&cluster, "g"));
        let job = Job::run(
            connector
                .create_bounded_streams_for(chosen(), streams)
                .unwrap(),
        );
        connector.shutdown();
        assert_eq!(job.values(0), numbers(0, from..to));
        assert_eq!(job.values(1), numbers(1, from.max(20)..to));
        assert_eq!(job.values(2), numbers(2, 0..0), "nobody chose it");
        assert_eq!(job.went(0), reached(from.into(), to.into()));
        assert_eq!(job.went(1), reached(from.max(20).into(), to.into()));
        assert_eq!(job.went(3), reached(0, 0), "an empty partition");
        assert_eq!((job.report.len(), job.errors.len()), (3, 0));
    }
    let session = cluster.zookeeper().local_session();
    assert!(session.exists("/consumers/g/owners").unwrap().is_none());
}

#[test]
fn chosen_partitions_start_where_they_are_sought_and_wait_for_one_that_is_paused() {
    let cluster = quick_cluster().topic("orders", 3, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 3, 0..50);
    let connector = connect(config(&cluster, "g"));
    let mut streams = connector
        .create_bounded_streams_for([orders(0), orders(1)], 1)
        .unwrap();
    connector.seek(&orders(0), 40).unwrap();
    connector.pause(&[orders(1)]).unwrap();
    let mut stream = streams.remove(0);
    for number in 40..50 {
        let message = stream.next_timeout(LIMIT).unwrap().unwrap();
        assert_eq!(value(&message), numbered(0, number));
    }
    let quiet = stream.next_timeout(Duration::from_millis(50)).unwrap();
    assert!(matches!(quiet, Err(StreamError::Timeout)));
    wait_until("both ends are known", || {
        stream.report().iter().all(|it| it.end == Some(50))
    });
    // What comes now lies behind the ends; a seek leads back to what lies before them.
    produce_numbers(&cluster, "orders", 3, 50..60);
    connector.seek(&orders(0), 48).unwrap();
    connector.seek(&orders(1), 45).unwrap();
    connector.resume(&[orders(1)]).unwrap();
    let job = Job::run(vec![stream]);
    assert_eq!(job.values(0), numbers(0, 48..50));
    assert_eq!(job.values(1), numbers(1, 45..50));
    for partition in [0, 1] {
        let (_, position, end, outcome) = job.went(partition);
        assert_eq!((position, end), (Some(50), Some(50)));
        assert_eq!(outcome, BoundedOutcome::Reached);
    }
    let committed = connector.commit_offsets().unwrap();
    assert_eq!(committed, [(orders(0), 50), (orders(1), 50)]);
}

#[test]
fn a_partition_that_does_not_exist_cannot_be_chosen_and_a_session_that_ends_does_not_end_the_job() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..50);
    let connector = connect(config(&cluster, "g"));
    let missing = connector.create_bounded_streams_for([orders(0), orders(2)], 1);
    let text = "invalid partitions: orders/2 does not exist";
    assert_eq!(missing.unwrap_err().to_string(), text);
    let mut streams = connector
        .create_bounded_streams_for([orders(0), orders(1)], 2)
        .unwrap();
    let first = streams[0].next_timeout(LIMIT).unwrap().unwrap();
    assert_eq!(first.offset(), 0);
    for session in &cluster.zookeeper().sessions() {
        cluster.zookeeper().expire_session(session.id);
    }
    wait_until("the session is over", || {
        matches!(connector.events().try_next(), Some(Event::SessionExpired))
    });
    let job = Job::run(streams);
    assert_eq!((job.offsets().len(), job.errors.len()), (99, 0));
    assert_eq!((job.went(0), job.went(1)), (reached(0, 50), reached(0, 50)));
    let again = connector.create_bounded_streams_for([orders(0)], 1);
    assert!(matches!(again, Err(Error::MessageStreamsExist)));
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}
