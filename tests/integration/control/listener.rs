//! Rebalance listeners: order, threads, starts, commits, losses, and what they may do.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::Weak;
use std::sync::mpsc;
use std::time::Duration;

use kafka_zk_consumer::AssignedPartitions;
use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::ListenerResult;
use kafka_zk_consumer::RebalanceListener;
use kafka_zk_consumer::RevokedPartitions;
use kafka_zk_consumer::TopicPartition;

use crate::control::orders;
use crate::control::stored;
use crate::reading::Reading;
use crate::reading::config;
use crate::reading::connect;
use crate::reading::next;
use crate::reading::numbered;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::value;
use crate::reading::wait_until;

/// One call of a listener: its name, the thread, the partitions.
type Call = (&'static str, String, Vec<i32>);

/// Writes the calls down, then does what the test wants.
struct Recorder {
    calls: Arc<Mutex<Vec<Call>>>,
    on_revoke: Box<dyn FnMut(&RevokedPartitions<'_>) -> ListenerResult + Send>,
    on_assign: Box<dyn FnMut(&AssignedPartitions) -> ListenerResult + Send>,
}

impl Recorder {
    fn new() -> (Self, Arc<Mutex<Vec<Call>>>) {
        let calls = Arc::<Mutex<Vec<Call>>>::default();
        let recorder = Self {
            calls: Arc::clone(&calls),
            on_revoke: Box::new(|_| Ok(())),
            on_assign: Box::new(|_| Ok(())),
        };
        (recorder, calls)
    }

    fn record<'a>(&self, call: &'static str, partitions: impl Iterator<Item = &'a TopicPartition>) {
        let thread = std::thread::current().name().unwrap_or("").to_owned();
        let partitions = partitions.map(TopicPartition::partition).collect();
        self.calls.lock().unwrap().push((call, thread, partitions));
    }
}

impl RebalanceListener for Recorder {
    fn on_revoke(&mut self, revoked: &RevokedPartitions<'_>) -> ListenerResult {
        self.record("on_revoke", revoked.partitions());
        (self.on_revoke)(revoked)
    }

    fn on_assign(&mut self, assigned: &AssignedPartitions) -> ListenerResult {
        self.record("on_assign", assigned.partitions());
        (self.on_assign)(assigned)
    }

    fn on_lost(&mut self, lost: &[TopicPartition]) -> ListenerResult {
        self.record("on_lost", lost.iter());
        Ok(())
    }
}

fn wait_for_calls(calls: &Mutex<Vec<Call>>, count: usize) {
    wait_until("the listener is called", || {
        calls.lock().unwrap().len() >= count
    });
}

#[test]
fn a_listener_is_told_in_order_and_in_the_threads_that_are_promised() {
    let cluster = quick_cluster().topic("orders", 4, 1).start().unwrap();
    let connector = connect(config(&cluster, "g").consumer_id("a"));
    let (recorder, calls) = Recorder::new();
    connector.set_rebalance_listener(recorder).unwrap();
    let here = std::thread::current().name().unwrap().to_owned();
    let _reading = Reading::start(streams(&connector, "orders", 1));
    let (late, _) = Recorder::new();
    let late: Box<dyn RebalanceListener> = Box::new(late);
    let refused = connector.set_rebalance_listener(late);
    assert!(matches!(refused, Err(Error::MessageStreamsExist)));

    let second = connect(config(&cluster, "g").consumer_id("b"));
    let _by_second = Reading::start(streams(&second, "orders", 1));
    wait_for_calls(&calls, 3);
    connector.shutdown();
    let calls = calls.lock().unwrap().clone();
    let rebalance = String::from("rebalance");
    assert_eq!(
        calls,
        [
            ("on_assign", here.clone(), vec![0, 1, 2, 3]),
            ("on_revoke", rebalance.clone(), vec![0, 1, 2, 3]),
            ("on_assign", rebalance, vec![0, 1]),
            ("on_revoke", here, vec![0, 1]),
        ]
    );
}

#[test]
fn partitions_start_where_the_listener_says() {
    let cluster = quick_cluster().topic("orders", 3, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 3, 0..10);
    let connector = connect(config(&cluster, "g"));
    connector.commit_offsets_for([(orders(1), 5)]).unwrap();
    let (mut recorder, _) = Recorder::new();
    recorder.on_assign = Box::new(|assigned| {
        assert_eq!(assigned.start(&orders(0)), None);
        assert_eq!(assigned.start(&orders(1)), Some(5), "as it is stored");
        assigned.start_at(&orders(0), 7)?;
        assigned.start_at(&orders(1), 3)?;
        assert!(assigned.start_at(&orders(9), 3).is_err());
        assert!(assigned.start_at(&orders(0), -3).is_err());
        Ok(())
    });
    connector.set_rebalance_listener(recorder).unwrap();
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    let numbers = |partition, from: i32| -> Vec<String> {
        (from..10)
            .map(|number| numbered(partition, number))
            .collect()
    };
    reading.until("everything from there on", |reading| {
        reading.seen.values().map(Vec::len).sum::<usize>() >= 3 + 7 + 10
    });
    assert!(connector.events().try_next().is_some());
    assert_eq!(reading.seen[&0], numbers(0, 7));
    assert_eq!(reading.seen[&1], numbers(1, 3));
    assert_eq!(reading.seen[&2], numbers(2, 0));
}

#[test]
fn what_a_listener_commits_is_where_the_next_owner_begins() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    for is_automatic in [false, true] {
        let settings = config(&cluster, "g").auto_commit_enable(is_automatic);
        let settings = settings.auto_commit_interval(Duration::from_secs(3600));
        let first = connect(settings.clone().consumer_id("a"));
        first
            .commit_offsets_for([(orders(0), 0), (orders(1), 0)])
            .unwrap();
        let (mut recorder, calls) = Recorder::new();
        recorder.on_revoke = Box::new(move |revoked| {
            if revoked.partitions().count() == 2 {
                // The application has done less than it was handed.
                revoked.set_position(&orders(1), 4)?;
                assert_eq!(revoked.position(&orders(1)), Some(4));
                assert!(revoked.set_position(&orders(2), 4).is_err());
                assert!(revoked.set_position(&orders(1), -4).is_err());
                if !is_automatic {
                    let committed = revoked.commit()?;
                    assert_eq!(committed[1], (orders(1), 4));
                }
            }
            Ok(())
        });
        first.set_rebalance_listener(recorder).unwrap();
        let mut by_first = Reading::start(streams(&first, "orders", 1));
        by_first.until_numbers(2, 10);
        let second = connect(settings.consumer_id("b"));
        let mut stream = streams(&second, "orders", 1).remove(0);
        let message = next(&mut stream).unwrap();
        assert_eq!(value(&message), numbered(1, 4), "automatic: {is_automatic}");
        wait_for_calls(&calls, 3);
        first.shutdown();
        second.shutdown();
        assert_eq!(calls.lock().unwrap().len(), 4);
        let failed = std::iter::from_fn(|| first.events().try_next())
            .find(|event| matches!(event, Event::ListenerFailed { .. }));
        assert_eq!(failed, None);
    }
}

#[test]
fn partitions_of_an_expired_session_are_lost_and_not_committed() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let settings = config(&cluster, "g").auto_commit_interval(Duration::from_secs(3600));
    let connector = connect(settings);
    let (recorder, calls) = Recorder::new();
    connector.set_rebalance_listener(recorder).unwrap();
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(2, 10);
    let session = cluster.zookeeper().local_session();
    let path = format!("/consumers/g/ids/{}", connector.member_id());
    let node = session.exists(&path).unwrap().unwrap();
    assert!(
        cluster
            .zookeeper()
            .expire_session(node.ephemeral_owner.unwrap())
    );
    wait_for_calls(&calls, 3);
    reading.until("everything comes again", |reading| {
        reading.seen.values().all(|seen| seen.len() >= 20)
    });
    let names: Vec<&str> = calls.lock().unwrap().iter().map(|call| call.0).collect();
    assert_eq!(names, ["on_assign", "on_lost", "on_assign"]);
    assert_eq!(calls.lock().unwrap()[1].1, "rebalance");
    assert_eq!(stored(&cluster, 0), None);
}

#[test]
fn partitions_that_are_lost_while_the_connector_shuts_down_are_not_called_released() {
    // The shutdown waits for ZooKeeper for longer than the session lives without it, and nobody looked at that.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    let settings = config(&cluster, "g").zookeeper_session_timeout(Duration::from_secs(1));
    let connector = connect(settings);
    let (recorder, calls) = Recorder::new();
    connector.set_rebalance_listener(recorder).unwrap();
    let _reading = Reading::start(streams(&connector, "orders", 1));
    cluster.zookeeper().stop();
    // Before that is noticed the partitions are taken for owned, which they are.
    wait_until("the connection is lost", || {
        connector.state() == ConnectorState::Disconnected
    });
    connector.shutdown();
    let names: Vec<&str> = calls.lock().unwrap().iter().map(|call| call.0).collect();
    assert_eq!(names, ["on_assign", "on_lost"]);
}

/// Does everything that a listener may and may not do with its connector.
fn use_connector(connector: &Weak<ConsumerConnector>, is_owned: bool) -> ListenerResult {
    let connector = connector.upgrade().ok_or("gone")?;
    assert!(!connector.owned_partitions().is_empty());
    connector.commit_offsets()?;
    connector.commit_offsets_for([(TopicPartition::new("other", 0), 3)])?;
    connector.stats();
    assert_eq!(connector.seek(&orders(0), 2).is_ok(), is_owned);
    assert_eq!(connector.pause(&[orders(0)]).is_ok(), is_owned);
    assert_eq!(connector.resume(&[orders(0)]).is_ok(), is_owned);
    let times = [(orders(0), kafka_zk_consumer::protocol::OffsetTime::Latest)];
    assert_eq!(connector.offsets_for_times(times)?[0].1, 10);
    let again = connector.create_message_streams([("orders", 1)]);
    assert!(matches!(again, Err(Error::MessageStreamsExist)));
    let again = connector.create_message_streams_for([orders(0)], 1);
    assert!(matches!(again, Err(Error::MessageStreamsExist)));
    let again = connector.set_rebalance_listener(Recorder::new().0);
    assert!(matches!(again, Err(Error::MessageStreamsExist)));
    connector.shutdown();
    Ok(())
}

#[test]
fn a_listener_may_call_its_connector_and_cannot_lock_it_up() {
    // The locks of the connector are held by the very threads that call the listener.
    let cluster = quick_cluster().topic("orders", 1, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 1, 0..10);
    let connector = Arc::new(connect(config(&cluster, "g").consumer_id("b")));
    let (mut recorder, calls) = Recorder::new();
    let used = Arc::downgrade(&connector);
    recorder.on_assign = Box::new(move |assigned| match assigned.partitions().count() {
        0 => Ok(()),
        _ => use_connector(&used, true),
    });
    let used = Arc::downgrade(&connector);
    recorder.on_revoke = Box::new(move |_| use_connector(&used, false));
    connector.set_rebalance_listener(recorder).unwrap();
    let (tell, told) = mpsc::channel();
    let creating = Arc::clone(&connector);
    std::thread::spawn(move || tell.send(streams(&creating, "orders", 1)));
    let streams_made = told
        .recv_timeout(Duration::from_secs(30))
        .expect("a lock-up");
    let mut reading = Reading::start(streams_made);
    reading.until("what comes after the seek", |reading| {
        reading.seen.get(&0).is_some_and(|seen| seen.len() >= 8)
    });
    assert_eq!(reading.seen[&0][0], numbered(0, 2));
    // A member that comes first in the order takes the partition, and gives it back.
    let other = connect(config(&cluster, "g").consumer_id("a"));
    let by_other = Reading::start(streams(&other, "orders", 1));
    wait_for_calls(&calls, 3);
    other.shutdown();
    drop(by_other);
    wait_for_calls(&calls, 4);
    let names: Vec<&str> = calls.lock().unwrap().iter().map(|call| call.0).collect();
    assert_eq!(names, ["on_assign", "on_revoke", "on_assign", "on_assign"]);
    wait_until("the partition is back", || {
        connector.owned_partitions() == [orders(0)]
    });
    // The last call is under way, perhaps.
    let mut events: Vec<Event> = Vec::new();
    let is_refusal = |event: &&Event| matches!(event, Event::ShutdownIncomplete { .. });
    wait_until("a shutdown is refused in each call that owns", || {
        events.extend(std::iter::from_fn(|| connector.events().try_next()));
        events.iter().filter(is_refusal).count() == 3
    });
    let is_failure = |event: &&Event| matches!(event, Event::ListenerFailed { .. });
    assert_eq!(events.iter().find(is_failure), None);
}

#[test]
fn a_listener_may_wait_for_the_thread_that_reads_and_commit_what_it_has_done() {
    // D62: a thread that waits in a stream without a timeout would never come back to the listener.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let settings = config(&cluster, "g").auto_commit_enable(false);
    let first = connect(settings.clone().consumer_id("a"));
    let (mut recorder, calls) = Recorder::new();
    let (ask, asked) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    recorder.on_revoke = Box::new(move |revoked| {
        ask.send(())?;
        answered.recv_timeout(Duration::from_secs(30))?;
        let committed = revoked.commit()?;
        assert_eq!(committed.len(), revoked.partitions().count());
        Ok(())
    });
    first.set_rebalance_listener(recorder).unwrap();
    let mut stream = streams(&first, "orders", 1).remove(0);
    for _ in 0..20 {
        next(&mut stream).unwrap();
    }
    let reader = std::thread::spawn(move || {
        while let Some(next) = stream.next_timeout(Duration::from_millis(10)) {
            next.unwrap_err();
            if asked.try_recv().is_ok() {
                answer.send(()).unwrap();
            }
        }
        // The connector has been shut down.
        asked.recv().unwrap();
        answer.send(()).unwrap();
    });
    let second = connect(settings.consumer_id("b"));
    let _by_second = Reading::start(streams(&second, "orders", 1));
    wait_for_calls(&calls, 3);
    assert_eq!([0, 1].map(|it| stored(&cluster, it)), [Some(10), Some(10)]);
    first.shutdown();
    reader.join().unwrap();
    let failed = std::iter::from_fn(|| first.events().try_next())
        .find(|event| matches!(event, Event::ListenerFailed { .. }));
    assert_eq!(failed, None);
}

#[test]
fn a_listener_that_drops_the_last_connector_ends_it() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = Arc::new(connect(config(&cluster, "g").consumer_id("a")));
    let (mut recorder, calls) = Recorder::new();
    let last = Arc::<Mutex<Option<Arc<ConsumerConnector>>>>::default();
    let held = Arc::clone(&last);
    recorder.on_revoke = Box::new(move |_| {
        drop(held.lock().unwrap().take());
        Ok(())
    });
    connector.set_rebalance_listener(recorder).unwrap();
    let mut stream = streams(&connector, "orders", 1).remove(0);
    next(&mut stream).unwrap();
    *last.lock().unwrap() = Some(connector);
    let other = connect(config(&cluster, "g").consumer_id("b"));
    let mut by_other = Reading::start(streams(&other, "orders", 1));
    by_other.until_numbers(2, 10);
    while stream.next().is_some() {}
    let names: Vec<&str> = calls.lock().unwrap().iter().map(|call| call.0).collect();
    assert_eq!(names, ["on_assign", "on_revoke"]);
}

#[test]
fn a_listener_that_panics_or_fails_stalls_nobody() {
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let connector = connect(config(&cluster, "g"));
    let (mut recorder, calls) = Recorder::new();
    recorder.on_assign = Box::new(|_| panic!("on purpose"));
    recorder.on_revoke = Box::new(|_| Err("cannot".into()));
    connector.set_rebalance_listener(recorder).unwrap();
    let mut reading = Reading::start(streams(&connector, "orders", 1));
    reading.until_numbers(2, 10);
    let second = connect(config(&cluster, "g"));
    let by_second = Reading::start(streams(&second, "orders", 1));
    wait_for_calls(&calls, 3);
    second.shutdown();
    drop(by_second);
    produce_numbers(&cluster, "orders", 2, 10..20);
    wait_for_calls(&calls, 5);
    reading.until_numbers(2, 20);
    let told: Vec<String> = std::iter::from_fn(|| connector.events().try_next())
        .filter(|event| matches!(event, Event::ListenerFailed { .. }))
        .map(|event| event.to_string())
        .collect();
    let panicked = "rebalance listener failed in on_assign: panicked: on purpose";
    let failed = "rebalance listener failed in on_revoke: cannot";
    assert_eq!(told, [panicked, failed, panicked, failed, panicked]);
}
