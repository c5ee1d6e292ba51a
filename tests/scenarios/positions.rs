//! Where a consumer begins and goes on: stored offsets outside the log, logs that lose their start, and
//! what counts as consumed.

use std::time::Duration;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ConsumedOn;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicPartition;

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::Reader;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::only_stream;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::scenarios::topics_support::wait_for_event;
use crate::support::Cluster;
use crate::support::Version;
use crate::support::ZooKeeperShell;
use crate::support::wait_for;
use crate::support::wait_until;

pub(crate) fn a_missing_or_impossible_offset_is_replaced_by_the_rule(version: impl Version) {
    let cluster = version.start(1);
    cluster.create_topic("orders", 1, 1);
    produce_numbers(&cluster, "orders", 0, 0..10);
    let cases = [
        ("a", AutoOffsetReset::Smallest, Some("10000"), 10),
        ("b", AutoOffsetReset::Smallest, None, 10),
        ("c", AutoOffsetReset::Smallest, Some("-1"), 10),
        ("d", AutoOffsetReset::Largest, Some("10000"), 0),
        ("e", AutoOffsetReset::Largest, None, 0),
        ("f", AutoOffsetReset::Largest, Some("-1"), 0),
        ("g", AutoOffsetReset::Largest, Some("4"), 6),
        ("h", AutoOffsetReset::Smallest, Some("10"), 0),
    ];
    for (group, rule, stored, expected) in cases {
        if let Some(offset) = stored {
            store(&cluster.shell(), group, offset);
        }
        let connector = connect(
            config(&cluster.connect_string(), group)
                .auto_offset_reset(rule)
                .fetch_wait_max(Duration::ZERO),
        );
        let mut stream = only_stream(&connector, "orders");
        let case = format!("{version:?}: {rule} with {stored:?}");
        if expected == 0 {
            // The position tells when the rule has been applied.
            wait_until(LIMIT, "the first position", || {
                connector.stats().partitions[0].fetched == Some(10)
            });
            produce_marker_free_check(&mut stream, &case);
        } else {
            let numbers = take(&mut stream, expected);
            assert_eq!(numbers, (10 - expected..10).collect::<Vec<_>>(), "{case}");
        }
        if stored == Some("10000") {
            let to = wait_for_event(
                &connector.events(),
                "the news of a reset",
                |event| match event {
                    Event::OffsetReset {
                        from: 10_000, to, ..
                    } => Some(*to),
                    _ => None,
                },
            );
            assert_eq!(to, if expected == 0 { 10 } else { 0 }, "{case}");
        }
        stream.mark_consumed();
        shut_down(&connector);
        assert_eq!(stored_offset(&cluster.shell(), group), Some(10), "{case}");
    }
}

/// Nothing is there, again and again: the time-out is no end.
fn produce_marker_free_check(stream: &mut MessageStream, case: &str) {
    for _ in 0..2 {
        let next = stream.next_timeout(Duration::from_millis(200)).unwrap();
        assert_eq!(
            next.map(|message| message.offset()),
            Err(StreamError::Timeout),
            "{case}"
        );
    }
}

pub(crate) fn a_log_that_lost_its_start_is_read_from_where_the_rule_says(version: impl Version) {
    let settings = [
        ("log.retention.check.interval.ms", "300"),
        ("log.segment.bytes", "2000"),
        ("log.retention.bytes", "4000"),
        ("log.segment.delete.delay.ms", "100"),
    ];
    let cluster = version.start_with(1, &settings);
    cluster.create_topic("orders", 1, 1);
    // One that was in the middle of the log, with chunks in its queue, when the start moved on.
    let slow = connect(config(&cluster.connect_string(), "slow").fetch_message_max_bytes(500));
    let mut slow_stream = only_stream(&slow, "orders");
    produce_numbers(&cluster, "orders", 0, 0..20);
    assert_eq!(take(&mut slow_stream, 1), [0]);

    store(&cluster.shell(), "largest", "1");
    for from in (20..1220).step_by(20) {
        produce_numbers(&cluster, "orders", 0, from..from + 20);
    }
    let start = wait_for(LIMIT, "the start of the log to move", || {
        Some(log_start(&cluster)).filter(|start| *start > 300)
    });

    for round in 0.. {
        let first = log_start(&cluster);
        let group = format!("smallest-{round}");
        store(&cluster.shell(), &group, "1");
        let behind = connect(config(&cluster.connect_string(), &group));
        let numbers = take(&mut only_stream(&behind, "orders"), 100);
        shut_down(&behind);
        // The start may have moved on under the reader, who then rightly goes on there.
        if log_start(&cluster) == first {
            assert!(numbers[0] >= first, "{first} {numbers:?}");
            assert!(numbers.is_sorted_by(|a, b| a + 1 == *b), "{numbers:?}");
            break;
        }
    }

    let end =
        config(&cluster.connect_string(), "largest").auto_offset_reset(AutoOffsetReset::Largest);
    let end = connect(end);
    let mut stream = only_stream(&end, "orders");
    wait_for_event(&end.events(), "the news of a reset", |event| {
        matches!(
            event,
            Event::OffsetReset {
                from: 1,
                to: 1220,
                ..
            }
        )
        .then_some(())
    });
    produce_numbers(&cluster, "orders", 0, 1220..1225);
    assert_eq!(take(&mut stream, 5), [1220, 1221, 1222, 1223, 1224]);
    shut_down(&end);

    // What was queued comes first, then the log from its new start, and the stored offset follows.
    let mut numbers = vec![0];
    while numbers.last() != Some(&1224) {
        numbers.extend(take(&mut slow_stream, 1));
    }
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let gaps: Vec<_> = numbers
        .windows(2)
        .filter(|pair| pair[0] + 1 != pair[1])
        .collect();
    assert_eq!(gaps.len(), 1, "{numbers:?}");
    assert!(gaps[0][1] >= start, "{gaps:?}");
    let (from, to) = wait_for_event(&slow.events(), "the news of a reset", |event| match event {
        Event::OffsetReset { from, to, .. } => Some((*from, *to)),
        _ => None,
    });
    assert_eq!((from, to), (gaps[0][0] + 1, gaps[0][1]));
    slow_stream.mark_consumed();
    shut_down(&slow);
    assert_eq!(stored_offset(&cluster.shell(), "slow"), Some(1225));
}

pub(crate) fn what_the_application_has_not_come_back_for_is_delivered_again_unless_it_counts_when_handed_out(
    version: impl Version,
) {
    let cluster = version.start(1);
    cluster.create_topic("orders", 1, 1);
    produce_numbers(&cluster, "orders", 0, 0..10);
    for (group, rule, next) in [
        ("next", ConsumedOn::Next, 4),
        ("return", ConsumedOn::Return, 5),
    ] {
        let settings = config(&cluster.connect_string(), group).consumed_on(rule);
        let first = connect(settings.clone());
        let mut stream = only_stream(&first, "orders");
        assert_eq!(take(&mut stream, 5), [0, 1, 2, 3, 4]);
        shut_down(&first);
        assert!(stream.next().is_none(), "a stream ends with its connector");
        assert_eq!(stored_offset(&cluster.shell(), group), Some(next));

        let second = connect(settings);
        let mut stream = only_stream(&second, "orders");
        assert_eq!(take(&mut stream, 1), [next]);
        // Said explicitly it counts at once.
        stream.mark_consumed();
        shut_down(&second);
        assert_eq!(stored_offset(&cluster.shell(), group), Some(next + 1));
    }
}

pub(crate) fn offsets_are_stored_by_the_timer_by_hand_and_exactly_as_given(version: impl Version) {
    let cluster = version.start(1);
    let shell = cluster.shell();
    cluster.create_topic("orders", 1, 1);
    produce_numbers(&cluster, "orders", 0, 0..10);

    // By the timer, while the member lives.
    let timed =
        config(&cluster.connect_string(), "timed").auto_commit_interval(Duration::from_millis(100));
    let timed = connect(timed);
    let mut stream = only_stream(&timed, "orders");
    assert_eq!(take(&mut stream, 4).len(), 4);
    wait_until(LIMIT, "the timer to commit", || {
        stored_offset(&shell, "timed") == Some(3)
    });
    assert_eq!(take(&mut stream, 6).len(), 6);
    wait_until(LIMIT, "the timer to commit again", || {
        stored_offset(&shell, "timed") == Some(9)
    });
    shut_down(&timed);

    // By hand only: what follows the last commit comes again.
    let by_hand = config(&cluster.connect_string(), "by-hand").auto_commit_enable(false);
    let first = connect(by_hand.clone());
    let mut stream = only_stream(&first, "orders");
    assert_eq!(take(&mut stream, 4), [0, 1, 2, 3]);
    let orders = TopicPartition::new("orders", 0);
    assert_eq!(first.commit_offsets().unwrap(), [(orders.clone(), 3)]);
    assert_eq!(take(&mut stream, 5), [4, 5, 6, 7, 8]);
    shut_down(&first);
    assert_eq!(stored_offset(&shell, "by-hand"), Some(3));
    let second = connect(by_hand.clone());
    assert_eq!(
        take(&mut only_stream(&second, "orders"), 7),
        [3, 4, 5, 6, 7, 8, 9]
    );

    // Exactly as given, owned or not, also backwards; not by a member that has left.
    let foreign = TopicPartition::new("elsewhere", 7);
    let given = [(orders.clone(), 2), (foreign.clone(), 77)];
    assert_eq!(second.commit_offsets_for(given.clone()).unwrap(), given);
    assert_eq!(stored_offset(&shell, "by-hand"), Some(2));
    assert_eq!(
        shell.get("/consumers/by-hand/offsets/elsewhere/7").unwrap(),
        "77"
    );
    let refused = second
        .commit_offsets_for([(orders.clone(), -1)])
        .unwrap_err();
    assert!(refused.to_string().contains("-1 of orders/0"), "{refused}");
    shut_down(&second);
    assert_eq!(stored_offset(&shell, "by-hand"), Some(2));
    assert!(matches!(second.commit_offsets(), Err(Error::Closed)));
    assert!(matches!(
        second.commit_offsets_for(given),
        Err(Error::Closed)
    ));

    let third = connect(by_hand);
    let reader = Reader::start([only_stream(&third, "orders")]);
    wait_until(LIMIT, "everything since the given offset", || {
        reader.offsets("orders", 0) == (2..10).collect::<Vec<_>>()
    });
    shut_down(&third);
    reader.finish();
}

/// The second commit of the same offset was left out, and told as done, although the owner of the partition
/// had gone on meanwhile. And a topic with a slash became a path of its own.
pub(crate) fn an_offset_that_is_given_is_written_whatever_was_written_before(
    version: impl Version,
) {
    let cluster = version.start(1);
    let connect_string = cluster.connect_string();
    let shell = cluster.shell();
    let member = connect(config(&connect_string, "given"));
    let path = "/consumers/given/offsets/elsewhere/7";
    let given = [(TopicPartition::new("elsewhere", 7), 5)];
    assert_eq!(member.commit_offsets_for(given.clone()).unwrap(), given);
    shell.set(path, "9").unwrap();
    assert_eq!(member.commit_offsets_for(given.clone()).unwrap(), given);
    assert_eq!(shell.get(path).unwrap(), "5");

    for (topic, partition) in [("a/b", 0), ("..", 0), ("", 0), ("elsewhere", -1)] {
        let wrong = (TopicPartition::new(topic, partition), 6);
        let outcome = member.commit_offsets_for(given.clone().into_iter().chain([wrong]));
        let is_refused = matches!(outcome, Err(Error::InvalidArgument { .. }));
        assert!(is_refused, "{topic}/{partition}: {outcome:?}");
    }
    assert_eq!(
        shell.children("/consumers/given/offsets").unwrap(),
        ["elsewhere"]
    );
    shut_down(&member);
}

pub(crate) fn a_stream_without_messages_times_out_as_often_as_it_is_asked_and_then_goes_on(
    version: impl Version,
) {
    let cluster = version.start(1);
    cluster.create_topic("orders", 1, 1);
    let settings =
        config(&cluster.connect_string(), "g").consumer_timeout(Some(Duration::from_millis(200)));
    let connector = connect(settings);
    let mut stream = only_stream(&connector, "orders");
    for _ in 0..3 {
        let next = stream.next().unwrap().map(|message| message.offset());
        assert_eq!(next, Err(StreamError::Timeout));
    }
    produce_numbers(&cluster, "orders", 0, 0..3);
    let numbers = wait_for(LIMIT, "the messages", || {
        let next = stream.next().unwrap().ok()?;
        (next.offset() == 2).then(|| next.offset())
    });
    assert_eq!(numbers, 2);
    let next = stream.next().unwrap().map(|message| message.offset());
    assert_eq!(next, Err(StreamError::Timeout));
    shut_down(&connector);
    assert!(stream.next().is_none());
    assert!(stream.next().is_none());
}

/// The next numbers of a stream.
#[track_caller]
fn take(stream: &mut MessageStream, count: i64) -> Vec<i64> {
    (0..count)
        .map(|_| {
            let message = stream.next_timeout(LIMIT).unwrap().unwrap();
            let value = String::from_utf8(message.value().unwrap().to_vec()).unwrap();
            let number: i64 = value.parse().unwrap();
            assert_eq!(number, message.offset());
            number
        })
        .collect()
}

fn store(shell: &ZooKeeperShell, group: &str, offset: &str) {
    let path = format!("/consumers/{group}/offsets/orders/0");
    shell.put(&path, offset).unwrap();
}

fn stored_offset(shell: &ZooKeeperShell, group: &str) -> Option<i64> {
    crate::scenarios::member::stored_offset(shell, group, "orders", 0)
}

/// First offset of the only partition.
fn log_start(cluster: &impl Cluster) -> i64 {
    use kafka_zk_consumer::SimpleConsumer;
    use kafka_zk_consumer::SimpleConsumerOptions;
    use kafka_zk_consumer::protocol::OffsetTime;
    let address = cluster.broker_list().parse().unwrap();
    let consumer = SimpleConsumer::new(address, SimpleConsumerOptions::default()).unwrap();
    consumer
        .earliest_or_latest_offset(&TopicPartition::new("orders", 0), OffsetTime::Earliest)
        .unwrap()
}
