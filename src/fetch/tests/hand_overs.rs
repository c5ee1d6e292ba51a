//! The leader finder, the fetchers and those who stop them, all at work at the same moment.

use crossbeam_channel::bounded;

use super::*;

/// As many as it takes for the leader finder to be in the midst of placing some when others fail already.
const PARTITIONS: i32 = 40;

/// Two brokers with two fetchers each, and no pauses to speak of. Every partition fails whenever it is fetched, each
/// with a code of its own, so that each is handed over by itself.
fn start_failing() -> Bench {
    let cluster = Arc::new(Cluster::default());
    let code = |partition| ErrorCode::Other(4000 + i16::try_from(partition).unwrap());
    let failing = (0..PARTITIONS).map(|partition| (partition, code(partition)));
    cluster.failing.lock().extend(failing);
    let brokers: Vec<FakeBroker> = (0..2).map(|_| scripted(&cluster).start()).collect();
    for (id, broker) in (0..).zip(&brokers) {
        cluster.brokers.lock().push(broker.as_broker(id));
    }
    let leaders = (0..PARTITIONS).map(|partition| (partition, partition % 2));
    cluster.leaders.lock().extend(leaders);
    let starts = vec![Some(0); usize::try_from(PARTITIONS).unwrap()];
    let properties = [
        ("refresh.leader.backoff.ms", "1"),
        ("num.consumer.fetchers", "2"),
        ("fetch.wait.max.ms", "1"),
    ];
    Bench::start_on(cluster, brokers, &starts, &properties)
}

/// Fails, and leaves what has locked itself up behind, instead of waiting for ever.
fn assert_ends(what: &str, work: impl FnOnce() + Send + 'static) {
    let (end, ended) = bounded::<()>(0);
    let thread = std::thread::spawn(move || {
        let _end = end;
        work();
    });
    let outcome = ended.recv_timeout(PATIENCE);
    assert!(
        outcome.is_err_and(|error| error.is_disconnected()),
        "{what}"
    );
    thread.join().unwrap();
}

#[test]
fn partitions_that_fail_while_others_are_placed_lock_nobody_up_and_none_is_lost() {
    // D1, D4 (KAFKA-618, KAFKA-937): when a broker failed, the finder held its lock and waited for that of a fetcher,
    // which held its own and waited for the finder's. The group stood still until somebody restarted it.
    assert_ends("the finder and the fetchers wait for each other", || {
        let bench = start_failing();
        while bench.context.stats.leader_lookups.get() < 100 {
            bench.await_event(|event| matches!(event, Event::FetchFailed { .. }));
        }
        bench.cluster.failing.lock().clear();
        for partition in 0..bench.infos.len() {
            assert_eq!(bench.next_chunk(partition), 0);
        }
    });
}

#[test]
fn a_stop_while_partitions_are_handed_over_ends_at_once() {
    // D3 (KAFKA-916): the stop held the lock that the hand-over needed, and waited for the fetcher to end.
    assert_ends("the stop and a fetcher wait for each other", || {
        let bench = start_failing();
        for _ in 0..100 {
            bench.await_event(|event| matches!(event, Event::FetchFailed { .. }));
            bench.manager.stop();
            assert!(bench.context.leaderless.snapshot().is_empty());
            while bench.events.try_next().is_some() {}
            bench.manager.start(bench.infos.clone()).unwrap();
        }
    });
}

#[test]
fn a_partition_that_fails_while_the_leader_finder_waits_for_metadata_does_not_hold_up_its_fetcher()
{
    // D27: the finder asked for metadata with the lock held that the hand-over needed, and one slow broker stalled the
    // partitions of all others.
    let cluster = Arc::new(Cluster::default());
    let not_leader = || vec![Err(ErrorCode::NotLeaderOrFollower)];
    cluster.scripts.lock().insert(0, not_leader());
    let (asked, is_asked) = bounded(100);
    let (answer, may_answer) = bounded::<()>(100);
    let of_metadata = Arc::clone(&cluster);
    let broker = scripted(&cluster).answer(move |_: MetadataRequest| {
        asked.send(()).unwrap();
        // Closed at the end, and then nothing is held back any more.
        let _ = may_answer.recv_timeout(PATIENCE);
        of_metadata.metadata()
    });
    let broker = broker.start();
    cluster.brokers.lock().push(broker.as_broker(0));
    let starts = [Some(0); 3];
    answer.send(()).unwrap();
    let bench = Bench::start_on(Arc::clone(&cluster), vec![broker], &starts, &[]);
    bench.await_failure(0);
    for _ in 0..2 {
        is_asked.recv_timeout(PATIENCE).unwrap();
    }
    cluster.scripts.lock().insert(1, not_leader());
    read_until_it_fails(&bench, 1);
    let first = bench.next_chunk(2);
    for round in 1..10 {
        assert_eq!(bench.next_chunk(2), first + 2 * round, "round {round}");
    }
    drop(answer);
    for partition in 0..2 {
        bench.next_chunk(partition);
    }
}

#[test]
fn a_broker_that_has_another_address_now_is_asked_there_for_all_of_its_partitions() {
    // D4: the fetcher of the old address was replaced when the first partition came back, and the others were nobody's.
    let cluster = Arc::new(Cluster::default());
    let brokers = vec![scripted(&cluster).start(), scripted(&cluster).start()];
    cluster.brokers.lock().push(brokers[0].as_broker(0));
    let moved = brokers[1].as_broker(0);
    let bench = Bench::start_on(Arc::clone(&cluster), brokers, &[Some(0); 3], &[]);
    for partition in 1..3 {
        assert_eq!(bench.next_chunk(partition), 0);
    }
    *cluster.brokers.lock() = vec![moved.clone()];
    let not_leader = vec![Err(ErrorCode::NotLeaderOrFollower)];
    cluster.scripts.lock().insert(0, not_leader);
    read_until_it_fails(&bench, 0);
    let is_placed =
        |event: &Event| matches!(event, Event::FetchingFrom { broker, .. } if *broker == moved);
    bench.await_event(is_placed);
    for round in 1..10 {
        for partition in 1..3 {
            assert_eq!(bench.next_chunk(partition), 2 * round);
        }
    }
}

/// Reads `partition`, so that it is asked for, until its fetcher gives it up.
fn read_until_it_fails(bench: &Bench, partition: i32) {
    let failed = TopicPartition::new(TOPIC, partition);
    let deadline = Instant::now() + PATIENCE;
    let queue = bench.infos[usize::try_from(partition).unwrap()].queue();
    loop {
        assert!(Instant::now() < deadline, "it does not fail");
        queue.take(Some(Instant::now()));
        let event = bench.events.next_timeout(Duration::from_millis(1));
        if matches!(&event, Some(Event::FetchFailed { partitions, .. }) if partitions.contains(&failed))
        {
            return;
        }
    }
}
