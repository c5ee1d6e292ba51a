//! Members that subscribe to topics by a filter, and what becomes of topics that come and go.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::Events;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicFilter;
use kafka_zk_consumer::embedded::EmbeddedCluster;

use crate::reading::config;
use crate::reading::connect;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::wait_until;

const LIMIT: Duration = Duration::from_secs(60);
/// Long enough for a rebalance that should not be.
const QUIET: Duration = Duration::from_millis(700);

/// The streams of one connector, read by threads.
struct TopicReading {
    received: mpsc::Receiver<(usize, String)>,
    /// Of each topic how many messages came, and by which streams.
    seen: BTreeMap<String, (usize, BTreeSet<usize>)>,
}

impl TopicReading {
    fn start(streams: Vec<MessageStream>) -> Self {
        let (sender, received) = mpsc::channel();
        for (number, stream) in streams.into_iter().enumerate() {
            let sender = sender.clone();
            std::thread::spawn(move || {
                for message in stream.filter_map(Result::ok) {
                    if sender.send((number, message.topic().to_owned())).is_err() {
                        return;
                    }
                }
            });
        }
        Self {
            received,
            seen: BTreeMap::new(),
        }
    }

    fn count(&self, topic: &str) -> usize {
        self.seen.get(topic).map_or(0, |(count, _)| *count)
    }

    /// Takes what comes until `topic` has given so many messages.
    #[track_caller]
    fn until(&mut self, topic: &str, count: usize) {
        let deadline = Instant::now() + LIMIT;
        while self.count(topic) < count {
            let left = deadline.saturating_duration_since(Instant::now());
            let (stream, from) = self
                .received
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("{count} of {topic} did not come, but {:?}", self.seen));
            let (seen, streams) = self.seen.entry(from).or_default();
            *seen += 1;
            streams.insert(stream);
        }
    }
}

fn by_whitelist(connector: &ConsumerConnector, regex: &str, streams: usize) -> Vec<MessageStream> {
    let filter = TopicFilter::whitelist(regex).unwrap();
    connector
        .create_message_streams_by_filter(&filter, streams)
        .unwrap()
}

/// The topics of which a member owns something.
fn owned_topics(connector: &ConsumerConnector) -> Vec<String> {
    let owned = connector.owned_partitions();
    let topics: BTreeSet<&str> = owned.iter().map(|partition| partition.topic()).collect();
    topics.into_iter().map(str::to_owned).collect()
}

/// `<partition> <thread>` of each owner node of a topic.
fn owners(cluster: &EmbeddedCluster, topic: &str) -> Vec<String> {
    let session = cluster.zookeeper().local_session();
    let path = format!("/consumers/g/owners/{topic}");
    let partitions = session.children(&path).unwrap_or_default();
    let owner = |partition: &String| {
        let (thread, _) = session.get(&format!("{path}/{partition}")).ok()?;
        Some(format!(
            "{partition} {}",
            String::from_utf8(thread).unwrap()
        ))
    };
    partitions.iter().filter_map(owner).collect()
}

fn is_start(event: &Event) -> bool {
    matches!(event, Event::RebalanceStarted { .. })
}

/// Fails if a rebalance begins within a while.
#[track_caller]
fn assert_quiet(events: &Events) {
    while let Some(event) = events.next_timeout(QUIET) {
        assert!(!is_start(&event), "{event}");
    }
}

#[track_caller]
fn until_event(events: &Events, what: &str, fits: impl Fn(&Event) -> bool) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let event = events.next_timeout(left).expect(what);
        if fits(&event) {
            return;
        }
    }
}

#[test]
fn each_stream_serves_every_topic_that_passes_by_the_number_of_its_thread() {
    // D84, KAFKA-550: which stream served which thread differed from topic to topic.
    let cluster = quick_cluster()
        .topic("orders-eu", 2, 1)
        .topic("orders-us", 2, 1)
        .topic("bills", 2, 1)
        .start()
        .unwrap();
    let connector = connect(config(&cluster, "g").consumer_id("a"));
    let streams = by_whitelist(&connector, "orders-.*", 2);
    assert_eq!(streams.len(), 2);
    for topic in ["orders-eu", "orders-us"] {
        assert_eq!(owners(&cluster, topic), ["0 g_a-0", "1 g_a-1"]);
    }
    assert_eq!(owners(&cluster, "bills"), [""; 0]);
    let session = cluster.zookeeper().local_session();
    let (registration, _) = session.get("/consumers/g/ids/g_a").unwrap();
    let registration = String::from_utf8(registration).unwrap();
    let expected =
        r#"{"version":1,"subscription":{"orders-.*":2},"pattern":"white_list","timestamp":""#;
    assert!(registration.starts_with(expected), "{registration}");

    for topic in ["orders-eu", "orders-us", "bills"] {
        produce_numbers(&cluster, topic, 2, 0..10);
    }
    for (number, mut stream) in streams.into_iter().enumerate() {
        let mut seen = BTreeMap::<String, usize>::new();
        while seen.values().sum::<usize>() < 20 {
            let message = match stream.next_timeout(LIMIT).unwrap() {
                Err(StreamError::Timeout) => panic!("only {seen:?} came"),
                message => message.unwrap(),
            };
            assert_eq!(usize::try_from(message.partition()).unwrap(), number);
            *seen.entry(message.topic().to_owned()).or_default() += 1;
        }
        assert_eq!(seen.into_values().collect::<Vec<_>>(), [10, 10]);
    }
    match connector.create_message_streams([("bills", 1)]) {
        Err(Error::MessageStreamsExist) => {}
        other => panic!("{:?}", other.map(|streams| streams.len())),
    }
}

#[test]
fn internal_topics_pass_only_if_they_are_not_excluded() {
    let cluster = quick_cluster()
        .topic("orders", 1, 1)
        .topic("bills", 1, 1)
        .topic("__consumer_offsets", 1, 1)
        .start()
        .unwrap();
    for (group, excluded, expected) in [
        ("without", true, vec!["orders"]),
        ("with", false, vec!["__consumer_offsets", "orders"]),
    ] {
        let connector = connect(config(&cluster, group).exclude_internal_topics(excluded));
        let filter = TopicFilter::blacklist("bills").unwrap();
        let _streams = connector.create_message_streams_by_filter(&filter, 1);
        assert_eq!(owned_topics(&connector), expected);
    }
}

#[test]
fn topics_that_come_are_consumed_and_those_that_go_are_let_go() {
    // D13: the original kept the partitions of a deleted topic, and had it created again by asking for it.
    let cluster = quick_cluster().auto_create_topics(7, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let events = connector.events();
    let mut reading = TopicReading::start(by_whitelist(&connector, "orders-.*", 2));
    until_event(
        &events,
        "no topic passes yet",
        |event| matches!(event, Event::NoTopics { regex } if regex == "orders-.*"),
    );

    for (number, topic) in ["orders-0", "orders-1"].into_iter().enumerate() {
        let created = Instant::now();
        cluster.create_topic(topic, 2, 1).unwrap();
        produce_numbers(&cluster, topic, 2, 0..10);
        reading.until(topic, 20);
        println!(
            "topic {number} was read {:?} after its creation",
            created.elapsed()
        );
    }
    while events.next_timeout(QUIET).is_some() {}
    let settled = connector.stats().rebalances;

    // What does not pass is nobody's business.
    cluster.create_topic("bills", 1, 1).unwrap();
    assert_quiet(&events);
    assert_eq!(connector.stats().rebalances, settled);

    cluster.delete_topic("orders-0").unwrap();
    wait_until("the deleted topic is let go", || {
        owned_topics(&connector) == ["orders-1"] && owners(&cluster, "orders-0").is_empty()
    });
    produce_numbers(&cluster, "orders-1", 2, 10..20);
    reading.until("orders-1", 40);
    let session = cluster.zookeeper().local_session();
    let topics = session.children("/brokers/topics").unwrap();
    assert_eq!(topics, ["bills", "orders-1"], "made by asking");

    cluster.create_topic("orders-0", 3, 1).unwrap();
    // Too few for the offsets from before the deletion, which are therefore reset.
    produce_numbers(&cluster, "orders-0", 3, 0..5);
    reading.until("orders-0", 20 + 15);
    cluster.add_partitions("orders-1", 3).unwrap();
    produce_numbers(&cluster, "orders-1", 3, 20..30);
    reading.until("orders-1", 40 + 30);
}

#[test]
fn topics_that_come_without_end_leave_time_for_consuming() {
    // A member of thousands of partitions, whose rebalances take half a second, began the next one a fifth of a second
    // after each, before the leaders had been found: as long as topics came and went, next to nothing was consumed.
    let cluster = quick_cluster().start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let _streams = by_whitelist(&connector, "t-.*", 1);
    cluster.zookeeper().delay(Duration::from_millis(40));
    let (mut consuming, mut all) = (0, 0);
    let begun = Instant::now();
    for number in 0.. {
        if begun.elapsed() > Duration::from_secs(8) {
            break;
        }
        cluster.create_topic(&format!("t-{number}"), 1, 1).unwrap();
        let next_topic = begun + (number + 1) * Duration::from_millis(50);
        wait_until("the next topic comes", || {
            let is_consuming = matches!(connector.state(), ConnectorState::Consuming { .. });
            consuming += usize::from(is_consuming);
            all += 1;
            Instant::now() >= next_topic
        });
    }
    assert!(consuming > all / 2, "{consuming} of {all} times");
    cluster.zookeeper().delay(Duration::ZERO);
}

#[test]
fn what_the_brokers_said_of_topics_that_have_gone_is_forgotten() {
    // Each topic that had ever passed stayed in the view of the cluster, with the leaders that it once had.
    let cluster = quick_cluster().start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let mut reading = TopicReading::start(by_whitelist(&connector, "t-.*", 1));
    for topic in ["t-0", "t-1", "t-2"] {
        cluster.create_topic(topic, 1, 1).unwrap();
        produce_numbers(&cluster, topic, 1, 0..1);
        reading.until(topic, 1);
        assert!(connector.cluster_view().topic(topic).is_some());
        cluster.delete_topic(topic).unwrap();
        wait_until("the deleted topic is let go", || {
            owned_topics(&connector).is_empty()
        });
    }
    let view = connector.cluster_view();
    let known = ["t-0", "t-1"].map(|topic| view.topic(topic).is_some());
    assert_eq!(known, [false, false]);
}

#[test]
fn a_topic_whose_partitions_and_leaders_come_later_than_its_node_is_consumed() {
    let cluster = quick_cluster()
        .brokers(2)
        .topic("t-0", 1, 1)
        .start()
        .unwrap();
    let connector = connect(config(&cluster, "g"));
    let events = connector.events();
    let mut reading = TopicReading::start(by_whitelist(&connector, "t-.*", 1));
    let session = cluster.zookeeper().local_session();
    let mode = kafka_zk_consumer::embedded::CreateMode::Persistent;
    session.create("/brokers/topics/t-9", b"", mode).unwrap();
    until_event(
        &events,
        "a node that says nothing yet",
        |event| matches!(event, Event::UnusableZnode { path, .. } if path == "/brokers/topics/t-9"),
    );
    session.delete("/brokers/topics/t-9", None).unwrap();
    // Nobody leads its only partition until the broker is back.
    cluster.create_assigned_topic("t-1", &[vec![1]]).unwrap();
    cluster.stop(1).unwrap();
    wait_until("the partition without leader is owned", || {
        owned_topics(&connector) == ["t-0", "t-1"]
    });
    cluster.restart(1).unwrap();
    produce_numbers(&cluster, "t-1", 1, 0..10);
    produce_numbers(&cluster, "t-0", 1, 0..10);
    reading.until("t-1", 10);
    reading.until("t-0", 10);
}

#[test]
fn streams_end_at_the_shutdown_even_if_no_topic_ever_passed() {
    // D35: the original told the end only to streams that had a topic; the others waited for ever.
    let cluster = quick_cluster().topic("bills", 1, 1).start().unwrap();
    let connector = connect(config(&cluster, "g"));
    let (tell, told) = mpsc::channel();
    for stream in by_whitelist(&connector, "orders", 3) {
        let tell = tell.clone();
        std::thread::spawn(move || tell.send(stream.count()));
    }
    connector.shutdown();
    for _ in 0..3 {
        assert_eq!(told.recv_timeout(LIMIT), Ok(0));
    }
}

#[test]
fn a_filter_that_cannot_be_evaluated_is_refused_at_the_call_and_named() {
    for regex in ["a{1,3}", "*abc", "(", r"\R", "(?x) a"] {
        for refused in [TopicFilter::whitelist(regex), TopicFilter::blacklist(regex)] {
            let error = refused.unwrap_err().to_string();
            let quoted = regex.replace(',', "|").replace(' ', "");
            assert!(
                error.contains(&format!("topic filter: regex `{quoted}`")),
                "{error}"
            );
        }
    }
    let long = format!("{}x", "a".repeat(200));
    let cluster = quick_cluster()
        .topic(&long, 1, 1)
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    let connector = connect(config(&cluster, "g"));
    let orders = TopicFilter::whitelist("orders").unwrap();
    let endless = TopicFilter::whitelist(r"(?=(a|aa|b\1)+$)a+(?!b)").unwrap();
    for (filter, streams, part) in [
        (&orders, 0, "0 streams"),
        (&orders, 2_000_000, "2000000 streams"),
        (&endless, 1, long.as_str()),
    ] {
        match connector.create_message_streams_by_filter(filter, streams) {
            Err(error @ Error::InvalidArgument { .. }) => {
                assert!(error.to_string().contains(part), "{error}");
            }
            other => panic!("{:?}", other.map(|streams| streams.len())),
        }
    }
    let session = cluster.zookeeper().local_session();
    assert_eq!(session.children("/consumers/g/ids").unwrap(), [""; 0]);
    let mut reading = TopicReading::start(by_whitelist(&connector, "orders", 1));
    produce_numbers(&cluster, "orders", 1, 0..10);
    reading.until("orders", 10);
}

#[test]
fn members_by_name_and_by_filter_share_what_both_ask_for() {
    let cluster = quick_cluster()
        .topic("orders-eu", 4, 1)
        .topic("orders-us", 4, 1)
        .topic("bills", 2, 1)
        .start()
        .unwrap();
    let by_name = connect(config(&cluster, "g").consumer_id("b"));
    let _named = by_name.create_message_streams([("orders-eu", 1), ("bills", 1)]);
    let white = connect(config(&cluster, "g").consumer_id("a"));
    let mut whites = TopicReading::start(by_whitelist(&white, "orders-.*", 2));
    let black = connect(config(&cluster, "g").consumer_id("c"));
    let filter = TopicFilter::blacklist("orders-eu").unwrap();
    let blacks = black.create_message_streams_by_filter(&filter, 1).unwrap();
    let mut blacks = TopicReading::start(blacks);

    let settles = |topic: &str, expected: &[&str]| {
        wait_until(&format!("{topic} is shared as expected"), || {
            owners(&cluster, topic) == expected
        });
    };
    settles("orders-eu", &["0 g_a-0", "1 g_a-0", "2 g_a-1", "3 g_b-0"]);
    settles("orders-us", &["0 g_a-0", "1 g_a-0", "2 g_a-1", "3 g_c-0"]);
    settles("bills", &["0 g_b-0", "1 g_c-0"]);

    cluster.create_topic("orders-asia", 2, 1).unwrap();
    settles("orders-asia", &["0 g_a-0", "1 g_a-1"]);
    cluster.create_topic("returns", 2, 1).unwrap();
    settles("returns", &["0 g_c-0", "1 g_c-0"]);
    for topic in ["orders-asia", "returns"] {
        produce_numbers(&cluster, topic, 2, 0..10);
    }
    whites.until("orders-asia", 20);
    blacks.until("returns", 20);

    white.shutdown();
    settles("orders-asia", &["0 g_c-0", "1 g_c-0"]);
    settles("orders-eu", &["0 g_b-0", "1 g_b-0", "2 g_b-0", "3 g_b-0"]);
}

#[test]
fn thousands_of_topics_are_consumed_watched_and_let_go() {
    // One request that lists more than 128 KiB of watched paths, as the usual clients send it when they connect
    // again, is never answered: the client connects again and again.
    const TOPICS: usize = 2_000;
    let name = |number: usize| format!("t-{number}-{}", "long".repeat(20));
    let mut builder = quick_cluster();
    for number in 0..TOPICS {
        builder = builder.topic(name(number), 1, 1);
    }
    let cluster = builder.start().unwrap();
    let connector =
        connect(config(&cluster, "g").zookeeper_session_timeout(Duration::from_secs(10)));
    let joining = Instant::now();
    let mut reading = TopicReading::start(by_whitelist(&connector, "t-.*", 2));
    println!("joined in {:?}", joining.elapsed());
    assert_eq!(connector.owned_partitions().len(), TOPICS);
    for number in (0..TOPICS).step_by(100) {
        produce_numbers(&cluster, &name(number), 1, 0..2);
    }
    let reading_some = Instant::now();
    for number in (0..TOPICS).step_by(100) {
        reading.until(&name(number), 2);
    }
    println!(
        "read some of each hundredth in {:?}",
        reading_some.elapsed()
    );

    let mut come_and_go = |number: usize| {
        let created = Instant::now();
        cluster.create_topic(&name(number), 1, 1).unwrap();
        produce_numbers(&cluster, &name(number), 1, 0..2);
        reading.until(&name(number), 2);
        println!(
            "a new topic was read {:?} after its creation",
            created.elapsed()
        );
        let deleted = Instant::now();
        cluster.delete_topic(&name(number - TOPICS)).unwrap();
        wait_until("the deleted topic is let go", || {
            owners(&cluster, &name(number - TOPICS)).is_empty()
                && connector.owned_partitions().len() == TOPICS
        });
        println!(
            "a topic was let go {:?} after its deletion",
            deleted.elapsed()
        );
    };
    come_and_go(TOPICS);
    cluster.zookeeper().stop();
    wait_until("the connection breaks", || {
        connector.stats().zookeeper_disconnects == 1
    });
    cluster.zookeeper().restart().unwrap();
    come_and_go(TOPICS + 1);
    assert_eq!(connector.stats().sessions_lost, 0);
    while let Some(event) = connector.events().try_next() {
        if matches!(event, Event::RebalanceFinished { .. }) {
            println!("{event}");
        }
    }
}

#[test]
fn a_shutdown_amid_topics_that_come_and_go_returns() {
    // D5: in the original the shutdown and the event of a topic took their locks in opposite orders.
    let cluster = quick_cluster().topic("t", 1, 1).start().unwrap();
    for round in 0..10 {
        let connector = connect(config(&cluster, "g"));
        let reading = TopicReading::start(by_whitelist(&connector, "t.*", 2));
        for more in 0..=round % 3 {
            cluster
                .create_topic(&format!("t{round}-{more}"), 1, 1)
                .unwrap();
        }
        cluster.delete_topic(&format!("t{round}-0")).unwrap();
        let begun = Instant::now();
        connector.shutdown();
        assert!(begun.elapsed() < Duration::from_secs(5), "a slow shutdown");
        while reading.received.recv_timeout(LIMIT).is_ok() {}
    }
}
