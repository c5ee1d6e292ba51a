use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::time::Duration;
use std::time::Instant;

use crate::support::ZooKeeperShell;
use crate::support::wait_until;
use crate::test_zookeeper::TestZooKeeper;
use crate::test_zookeeper::scenarios;
use crate::zk::CreateMode::Ephemeral;
use crate::zk::CreateMode::Persistent;
use crate::zk::CreateOutcome;
use crate::zk::SessionEvent;
use crate::zk::ZkError;
use crate::zk::ZkEvent;
use crate::zk::tests::LIMIT;
use crate::zk::tests::await_event;
use crate::zk::tests::await_new_session;
use crate::zk::tests::await_session;
use crate::zk::tests::changed;
use crate::zk::tests::connect;
use crate::zk::tests::connect_to;
use crate::zk::tests::proxy::Proxy;

scenarios! {
    crate::test_zookeeper::ServerKind::start;
    a_session_outlives_a_restart_of_its_server,
    a_session_outlives_an_outage_almost_as_long_as_its_lease,
    a_session_that_was_away_too_long_is_followed_by_a_new_one,
    a_server_that_hangs_too_long_ends_the_session,
    a_session_ended_by_somebody_else_is_followed_by_a_new_one,
    the_lease_ends_a_timeout_after_the_last_contact,
    a_write_of_an_expired_session_is_not_carried_over,
    an_outcome_that_got_lost_is_found_out,
    short_disconnects_are_only_delays,
    dead_hosts_among_others_only_take_time,
}

fn a_session_outlives_a_restart_of_its_server(mut server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 20_000);
    let session = client.session_id();
    client.create("/mine", b"", Ephemeral).unwrap();
    server.restart();
    for event in [SessionEvent::Disconnected, SessionEvent::Reconnected] {
        assert_eq!(events.recv_timeout(LIMIT), Ok(ZkEvent::Session(event)));
    }
    assert_eq!(client.session_id(), session);
    assert_eq!(
        client.get("/mine").unwrap().unwrap().ephemeral_owner,
        session
    );
    assert!(client.is_connected());
}

fn a_session_outlives_an_outage_almost_as_long_as_its_lease(server: Box<dyn TestZooKeeper>) {
    let proxy = Proxy::start(server.port());
    let (client, events) = connect_to(&proxy.connect_string(), 6000);
    let session = client.session_id();
    client.create("/mine", b"", Ephemeral).unwrap();
    proxy.cut();
    let limit = client.lease_ends() - Duration::from_millis(1500);
    await_session(&events, SessionEvent::Disconnected);
    wait_until(LIMIT, "most of the lease to pass", || {
        Instant::now() >= limit
    });
    // A back-off that doubles would have made 4 or 5, and would now be asleep.
    assert!(proxy.refused() >= 20, "{} attempts", proxy.refused());
    assert!(client.lease_ends() > Instant::now());
    proxy.mend();
    assert_eq!(
        events.recv_timeout(Duration::from_secs(1)),
        Ok(ZkEvent::Session(SessionEvent::Reconnected))
    );
    assert_eq!(client.session_id(), session);
    assert_eq!(
        client.get("/mine").unwrap().unwrap().ephemeral_owner,
        session
    );
}

fn a_session_that_was_away_too_long_is_followed_by_a_new_one(server: Box<dyn TestZooKeeper>) {
    let proxy = Proxy::start(server.port());
    let (client, events) = connect_to(&proxy.connect_string(), 2000);
    let session = client.session_id().unwrap();
    client.create("/mine", b"", Ephemeral).unwrap();
    client.watch_data("/mine").unwrap();
    let other = ZooKeeperShell::connect(&server.connect_string());
    proxy.cut();
    wait_until(LIMIT, "the server to expire it", || !other.exists("/mine"));
    assert_eq!(client.session_id(), Some(session), "nobody told us yet");
    assert!(client.lease_ends() <= Instant::now());
    proxy.mend();
    let next = await_new_session(&events);
    assert_ne!(next, session);
    assert_eq!(client.session_id(), Some(next));
    assert!(client.lease_ends() > Instant::now());
    assert_eq!(client.watch_data("/mine").unwrap(), None);
    client.create("/mine", b"", Ephemeral).unwrap();
    await_event(&events, &ZkEvent::NodeCreated("/mine".into()));
    let owner = client.get("/mine").unwrap().unwrap().ephemeral_owner;
    assert_eq!(owner, Some(next));
}

fn a_server_that_hangs_too_long_ends_the_session(mut server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 2000);
    let session = client.session_id().unwrap();
    client.create("/mine", b"", Ephemeral).unwrap();
    server.pause();
    let paused = Instant::now();
    await_session(&events, SessionEvent::Disconnected);
    assert!(paused.elapsed() < Duration::from_secs(2));
    wait_until(LIMIT, "the session to be over by far", || {
        paused.elapsed() > Duration::from_secs(5)
    });
    server.resume();
    // The server may honour a session that it had no time to expire. Then nothing is lost.
    match events.recv_timeout(LIMIT) {
        Ok(ZkEvent::Session(SessionEvent::Expired)) => {
            let next = events.recv_timeout(LIMIT).unwrap();
            assert!(
                matches!(next, ZkEvent::Session(SessionEvent::Established { session: next })
                if next != session && client.session_id() == Some(next))
            );
            assert_eq!(client.get("/mine").unwrap(), None);
        }
        Ok(ZkEvent::Session(SessionEvent::Reconnected)) => {
            println!("the server honoured the session");
            assert_eq!(client.session_id(), Some(session));
            assert!(client.exists("/mine").unwrap());
        }
        other => panic!("{other:?}"),
    }
}

fn a_session_ended_by_somebody_else_is_followed_by_a_new_one(server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 10_000);
    let other = ZooKeeperShell::connect(&server.connect_string());
    let mut session = client.session_id().unwrap();
    for _ in 0..2 {
        client.create("/mine", b"", Ephemeral).unwrap();
        // The client takes its session back as long as it can.
        wait_until(LIMIT, "the session to end", || {
            expire(&*server, session);
            !other.exists("/mine")
        });
        let next = await_new_session(&events);
        assert_ne!(next, session);
        assert_eq!(client.session_id(), Some(next));
        // A commit for what was claimed in the old session must not come through in the new one.
        let bound = client.in_session(session).create("/late", b"", Persistent);
        assert!(matches!(bound, Err(ZkError::SessionExpired)), "{bound:?}");
        assert!(!other.exists("/late"));
        session = next;
    }
    let bound = client.in_session(session).create("/late", b"", Persistent);
    assert!(bound.is_ok(), "{bound:?}");
}

fn the_lease_ends_a_timeout_after_the_last_contact(mut server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 4000);
    let timeout = client.session_timeout();
    let begun = Instant::now();
    wait_until(LIMIT, "the idle session to be kept alive", || {
        assert!(client.lease_ends() > Instant::now() + timeout / 2);
        begun.elapsed() > timeout
    });
    server.pause();
    let paused = Instant::now();
    await_session(&events, SessionEvent::Disconnected);
    // A stop takes its time to reach all threads of the server.
    let stopped = paused + Duration::from_millis(100);
    let lease = client.lease_ends();
    assert!(
        lease <= stopped + timeout,
        "{:?} late",
        lease - (stopped + timeout)
    );
    assert!(client.lease_ends() > paused + timeout / 2);
    assert!(!client.is_connected());
    server.resume();
    await_session(&events, SessionEvent::Reconnected);
    assert!(client.lease_ends() > Instant::now() + timeout / 2);
}

fn a_write_of_an_expired_session_is_not_carried_over(server: Box<dyn TestZooKeeper>) {
    let proxy = Proxy::start(server.port());
    let (client, events) = connect_to(&proxy.connect_string(), 20_000);
    client.create("/offset", b"", Persistent).unwrap();
    let session = client.session_id().unwrap();
    proxy.cut();
    await_session(&events, SessionEvent::Disconnected);
    expire(&*server, session);
    std::thread::scope(|scope| {
        let (begins, begun) = crossbeam_channel::bounded(2);
        let begins_too = begins.clone();
        let client = &client;
        let write = scope.spawn(move || {
            begins.send(()).unwrap();
            client.set("/offset", b"stale", None)
        });
        let read = scope.spawn(move || {
            begins_too.send(()).unwrap();
            client.get("/offset")
        });
        begun.iter().take(2).for_each(drop);
        // The call takes the session it belongs to when it begins; give it the time.
        assert!(begun.recv_timeout(Duration::from_millis(100)).is_err());
        proxy.mend();
        let written = write.join().unwrap();
        assert!(
            matches!(written, Err(ZkError::SessionExpired)),
            "{written:?}"
        );
        assert!(read.join().unwrap().unwrap().unwrap().data.is_empty());
    });
    await_new_session(&events);
    assert_eq!(client.set("/offset", b"fresh", None).unwrap(), 1);
}

fn an_outcome_that_got_lost_is_found_out(mut server: Box<dyn TestZooKeeper>) {
    let proxy = Proxy::start(server.port());
    let (client, events) = connect_to(&proxy.connect_string(), 20_000);
    for path in ["/set", "/delete"] {
        client.create(path, b"", Persistent).unwrap();
    }
    // The server is stopped while the requests are in its socket, and carries them out after the
    // connection has gone.
    server.pause();
    std::thread::scope(|scope| {
        let create = scope.spawn(|| client.create("/create", b"", Ephemeral));
        let set = scope.spawn(|| client.set("/set", b"x", Some(0)));
        let delete = scope.spawn(|| client.delete("/delete", None));
        let (_never, nothing) = crossbeam_channel::bounded::<()>(0);
        assert!(nothing.recv_timeout(Duration::from_millis(200)).is_err());
        proxy.cut();
        await_session(&events, SessionEvent::Disconnected);
        server.resume();
        let other = ZooKeeperShell::connect(&server.connect_string());
        if other.exists("/create") {
            println!("carried out before the connection was lost");
        }
        proxy.mend();
        assert_eq!(create.join().unwrap().unwrap(), CreateOutcome::Created);
        assert_eq!(set.join().unwrap().unwrap(), 1);
        assert!(delete.join().unwrap().unwrap());
    });
    assert_eq!(client.get("/set").unwrap().unwrap().version, 1);
}

fn short_disconnects_are_only_delays(server: Box<dyn TestZooKeeper>) {
    let proxy = Proxy::start(server.port());
    let (client, events) = connect_to(&proxy.connect_string(), 20_000);
    client.create("/a", b"", Persistent).unwrap();
    client.watch_data("/quiet").unwrap();
    std::thread::scope(|scope| {
        let (stop, stopped) = crossbeam_channel::bounded::<()>(0);
        let client = &client;
        let writer = scope.spawn(move || {
            let mut writes = 0;
            while stopped.try_recv() == Err(crossbeam_channel::TryRecvError::Empty) {
                client.set("/a", b"x", None).unwrap();
                assert!(client.watch_data("/a").unwrap().is_some());
                writes += 1;
            }
            writes
        });
        for _ in 0..10 {
            proxy.cut();
            await_session(&events, SessionEvent::Disconnected);
            proxy.mend();
            await_session(&events, SessionEvent::Reconnected);
        }
        drop(stop);
        assert!(writer.join().unwrap() > 0);
    });
    events.try_iter().for_each(drop);
    client.watch_data("/a").unwrap();
    client.set("/a", b"y", None).unwrap();
    await_event(&events, &changed("/a"));
    client.create("/quiet", b"", Persistent).unwrap();
    await_event(&events, &ZkEvent::NodeCreated("/quiet".into()));
}

fn dead_hosts_among_others_only_take_time(mut server: Box<dyn TestZooKeeper>) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let alive = server.connect_string();
    let hosts = format!("no-such-host.invalid, 127.0.0.1:{port}, {alive}");
    let (client, events) = connect_to(&hosts, 20_000);
    let session = client.session_id();
    server.restart();
    await_session(&events, SessionEvent::Reconnected);
    assert_eq!(client.session_id(), session);
}

/// Ends the session of a client the way a server does, using the password that both versions make
/// up for a session: the first 16 bytes of a `java.util.Random` seeded with the id and a constant.
fn expire(server: &dyn TestZooKeeper, session: i64) {
    const SUPER_SECRET: i64 = 0xB341_5C00;
    const MASK: i64 = (1 << 48) - 1;
    const CLOSE_SESSION: i32 = -11;
    // Both requests in one write, before the client knows and takes its session back.
    let mut requests = Vec::new();
    requests.extend(45_i32.to_be_bytes());
    requests.extend([0; 4 + 8]); // protocol version, last transaction seen
    requests.extend(10_000_i32.to_be_bytes());
    requests.extend(session.to_be_bytes());
    requests.extend(16_i32.to_be_bytes());
    let mut seed = ((session ^ SUPER_SECRET) ^ 0x5_DEEC_E66D) & MASK;
    for _ in 0..4 {
        seed = seed.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & MASK;
        requests.extend(&(seed >> 16).to_le_bytes()[..4]);
    }
    requests.push(0); // not read-only
    requests.extend(8_i32.to_be_bytes());
    requests.extend(1_i32.to_be_bytes());
    requests.extend(CLOSE_SESSION.to_be_bytes());
    let mut socket = TcpStream::connect(server.connect_string()).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.write_all(&requests).unwrap();
    // Until the server hangs up, which it may do the hard way.
    let _ = socket.read_to_end(&mut Vec::new());
}
