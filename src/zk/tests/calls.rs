use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::bounded;
use socket2::Domain;
use socket2::Socket;
use socket2::Type;

use crate::error::Error;
use crate::support::ZooKeeperShell;
use crate::test_zookeeper::TestZooKeeper;
use crate::test_zookeeper::scenarios;
use crate::zk::CreateMode::Ephemeral;
use crate::zk::CreateMode::Persistent;
use crate::zk::CreateOutcome;
use crate::zk::SessionEvent;
use crate::zk::ZkClient;
use crate::zk::ZkConfig;
use crate::zk::ZkError;
use crate::zk::Znode;
use crate::zk::tests::LIMIT;
use crate::zk::tests::await_session;
use crate::zk::tests::connect;
use crate::zk::tests::connect_to;

scenarios! {
    crate::test_zookeeper::ServerKind::start;
    every_call_does_what_it_says,
    every_failure_has_its_name,
    parents_are_created_but_the_chroot_is_not,
    paths_are_relative_to_the_chroot,
    a_pipeline_answers_each_item_in_order,
    a_pipeline_takes_far_less_than_a_round_trip_per_node,
    a_tree_is_deleted_from_its_leaves,
    calls_wait_for_the_server_to_come_back,
    a_call_without_server_ends_at_its_deadline,
    a_call_within_the_lease_ends_with_the_lease,
    cancel_ends_a_call_that_waits,
    cancel_ends_a_call_that_was_sent,
    calls_are_cancelled_at_the_time_set_unless_the_client_is_closed_before,
}

fn every_call_does_what_it_says(server: Box<dyn TestZooKeeper>) {
    let (client, _events) = connect(&*server, 6000);
    let node = |data: &str, version, ephemeral_owner| Znode {
        data: data.into(),
        version,
        ephemeral_owner,
    };
    assert_eq!(client.get("/a").unwrap(), None);
    assert!(!client.exists("/a").unwrap());
    assert_eq!(client.children("/a").unwrap(), None);
    assert_eq!(
        client.create("/a", b"one", Persistent).unwrap(),
        CreateOutcome::Created
    );
    assert_eq!(
        client.create("/a", b"two", Persistent).unwrap(),
        CreateOutcome::Exists
    );
    assert_eq!(client.get("/a").unwrap(), Some(node("one", 0, None)));
    assert!(client.exists("/a").unwrap());
    assert_eq!(client.set("/a", b"two", None).unwrap(), 1);
    assert_eq!(client.set("/a", b"three", Some(1)).unwrap(), 2);
    assert_eq!(client.get("/a").unwrap(), Some(node("three", 2, None)));
    assert_eq!(
        client.create("/a/z", b"", Ephemeral).unwrap(),
        CreateOutcome::Created
    );
    assert_eq!(
        client.create("/a/b", b"", Persistent).unwrap(),
        CreateOutcome::Created
    );
    assert_eq!(
        client.children("/a").unwrap(),
        Some(vec!["b".into(), "z".into()])
    );
    let session = client.session_id();
    assert!(session.is_some());
    assert_eq!(client.get("/a/z").unwrap(), Some(node("", 0, session)));
    assert!(client.delete("/a/z", Some(0)).unwrap());
    assert!(!client.delete("/a/z", None).unwrap());
    assert_eq!(client.session_timeout(), Duration::from_secs(6));
    assert!(client.is_connected());
    assert!(client.lease_ends() > Instant::now());
}

fn every_failure_has_its_name(server: Box<dyn TestZooKeeper>) {
    let (client, _events) = connect(&*server, 6000);
    client.create("/a", b"", Persistent).unwrap();
    client.create("/a/b", b"", Persistent).unwrap();
    client.create("/e", b"", Ephemeral).unwrap();
    let no_node = |error| matches!(error, ZkError::NoNode { path } if path.starts_with("/x"));
    assert!(no_node(client.set("/x", b"", None).unwrap_err()));
    assert!(no_node(client.create("/x/y", b"", Persistent).unwrap_err()));
    let bad_version = |error| matches!(error, ZkError::BadVersion { path } if path == "/a");
    assert!(bad_version(client.set("/a", b"", Some(7)).unwrap_err()));
    assert!(bad_version(client.delete("/a", Some(7)).unwrap_err()));
    let not_empty = client.delete("/a", None).unwrap_err();
    assert!(matches!(not_empty, ZkError::NotEmpty { path } if path == "/a"));
    for path in ["", "a", "/a/", "//a", "/a/../b", "/a\u{0}"] {
        let error = client.get(path).unwrap_err();
        assert!(matches!(error, ZkError::Other { .. }), "{path}: {error:?}");
    }
    let below_ephemeral = client.create("/e/f", b"", Persistent).unwrap_err();
    let error = Error::from(below_ephemeral).chain();
    assert!(
        error.contains("/e/f") && error.contains("ephemeral"),
        "{error}"
    );
    let root = client.delete_recursively("/").unwrap_err();
    assert!(matches!(root, ZkError::Other { .. }));
    assert!(client.exists("/a/b").unwrap());
}

fn parents_are_created_but_the_chroot_is_not(server: Box<dyn TestZooKeeper>) {
    let connect_string = format!("{}/kafka/eu", server.connect_string());
    let config = |connect: &str| ZkConfig {
        connect: connect.into(),
        session_timeout: Duration::from_secs(6),
        connection_timeout: Duration::from_secs(6),
    };
    let error = ZkClient::connect(config(&connect_string)).err().unwrap();
    assert!(
        matches!(&error, Error::MissingChroot { chroot, hosts }
            if chroot == "/kafka/eu" && *hosts == server.connect_string()),
        "{error:?}"
    );
    let other = ZooKeeperShell::connect(&server.connect_string());
    assert!(!other.exists("/kafka"));

    other.put("/kafka/eu", "").unwrap();
    let (client, _events) = connect_to(&connect_string, 6000);
    let outcome = client
        .create_with_parents("/a/b/c", b"x", Ephemeral)
        .unwrap();
    assert_eq!(outcome, CreateOutcome::Created);
    assert_eq!(other.get("/kafka/eu/a/b/c").unwrap(), "x");
    assert_eq!(other.stat("/kafka/eu/a/b").unwrap().ephemeral_owner, None);
    let outcome = client
        .create_with_parents("/a/b/c", b"y", Ephemeral)
        .unwrap();
    assert_eq!(outcome, CreateOutcome::Exists);

    client.delete_recursively("/a").unwrap();
    other.delete("/kafka/eu").unwrap();
    let error = client
        .create_with_parents("/a/b/c", b"x", Persistent)
        .unwrap_err();
    assert!(matches!(error, ZkError::NoNode { path } if path == "/a/b/c"));
    assert!(!other.exists("/kafka/eu"));
}

fn paths_are_relative_to_the_chroot(server: Box<dyn TestZooKeeper>) {
    let other = ZooKeeperShell::connect(&server.connect_string());
    other.put("/kafka", "root").unwrap();
    let (client, _events) = connect_to(&format!(" {} ,//kafka/", server.connect_string()), 6000);
    assert_eq!(client.get("/").unwrap().unwrap().data, b"root");
    client.create("/a", b"", Persistent).unwrap();
    assert_eq!(client.children("/").unwrap(), Some(vec!["a".into()]));
    assert!(other.exists("/kafka/a"));
}

fn a_pipeline_answers_each_item_in_order(server: Box<dyn TestZooKeeper>) {
    let (client, _events) = connect(&*server, 6000);
    client.create("/old", b"", Persistent).unwrap();
    let node = |path: &str| (String::from(path), Vec::from(path));
    let created = client.create_all(
        &[node("/a"), node("/old"), node("/x/y"), node("/b")],
        Persistent,
    );
    assert!(matches!(
        created.as_slice(),
        [
            Ok(CreateOutcome::Created),
            Ok(CreateOutcome::Exists),
            Err(ZkError::NoNode { .. }),
            Ok(CreateOutcome::Created)
        ]
    ));
    let paths = ["/b", "/x", "/a"].map(String::from);
    let got: Vec<_> = client
        .get_all(&paths)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let data: Vec<_> = got
        .into_iter()
        .map(|node| node.map(|node| node.data))
        .collect();
    assert_eq!(data, [Some(b"/b".to_vec()), None, Some(b"/a".to_vec())]);
    let set = |path: &str, version| (String::from(path), Vec::new(), version);
    let set = client.set_all(&[
        set("/a", None),
        set("/x", None),
        set("/a", Some(9)),
        set("/b", Some(0)),
    ]);
    assert!(matches!(
        set.as_slice(),
        [
            Ok(1),
            Err(ZkError::NoNode { .. }),
            Err(ZkError::BadVersion { .. }),
            Ok(1)
        ]
    ));
    let listed = client.children_all(&["/x", "/a"].map(String::from));
    assert!(matches!(listed.as_slice(), [Ok(None), Ok(Some(names))] if names.is_empty()));
    let delete = |path: &str, version| (String::from(path), version);
    let gone = client.delete_all(&[
        delete("/a", None),
        delete("/a", None),
        delete("/b", Some(0)),
    ]);
    assert!(matches!(
        gone.as_slice(),
        [Ok(true), Ok(false), Err(ZkError::BadVersion { .. })]
    ));
    assert!(client.get_all(&[]).is_empty());
}

fn a_pipeline_takes_far_less_than_a_round_trip_per_node(server: Box<dyn TestZooKeeper>) {
    let (client, _events) = connect(&*server, 30_000);
    client.create("/nodes", b"", Persistent).unwrap();
    let nodes = |kind: &str| -> Vec<_> {
        let path = |number| (format!("/nodes/{kind}{number}"), Vec::new());
        (0..1000).map(path).collect()
    };
    client.create_all(&nodes("warm"), Ephemeral);
    let begun = Instant::now();
    for (path, data) in nodes("single") {
        client.create(&path, &data, Ephemeral).unwrap();
    }
    let singly = begun.elapsed();
    // The best of some, as the machine may be busy with other things.
    let pipeline = |kind: &str| {
        let begun = Instant::now();
        for outcome in client.create_all(&nodes(kind), Ephemeral) {
            assert_eq!(outcome.unwrap(), CreateOutcome::Created);
        }
        begun.elapsed()
    };
    let pipelined = ["a", "b", "c", "d", "e"]
        .map(pipeline)
        .into_iter()
        .min()
        .unwrap();
    println!("1,000 creates: {singly:?} one by one, {pipelined:?} pipelined");
    assert!(
        pipelined * 3 < singly,
        "{pipelined:?}, one by one {singly:?}"
    );
}

fn a_tree_is_deleted_from_its_leaves(server: Box<dyn TestZooKeeper>) {
    let (client, _events) = connect(&*server, 6000);
    for path in ["/a/b/c/d", "/a/b/e", "/a/f", "/ab"] {
        client.create_with_parents(path, b"", Persistent).unwrap();
    }
    client.delete_recursively("/a").unwrap();
    assert!(!client.exists("/a").unwrap());
    assert!(client.exists("/ab").unwrap());
    client.delete_recursively("/a").unwrap();
}

fn calls_wait_for_the_server_to_come_back(mut server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 20_000);
    client.create("/a", b"", Persistent).unwrap();
    server.kill();
    await_session(&events, SessionEvent::Disconnected);
    assert!(!client.is_connected());
    std::thread::scope(|scope| {
        let calls = [
            scope.spawn(|| assert!(client.get("/a").unwrap().is_some())),
            scope.spawn(|| assert_eq!(client.set("/a", b"", None).unwrap(), 1)),
            scope.spawn(|| {
                let created = client.create("/b", b"", Ephemeral).unwrap();
                assert_eq!(created, CreateOutcome::Created);
            }),
            scope.spawn(|| assert!(!client.delete("/c", None).unwrap())),
            scope.spawn(|| assert_eq!(client.watch_children("/c").unwrap(), None)),
        ];
        server.restart();
        calls.into_iter().for_each(|call| call.join().unwrap());
    });
    await_session(&events, SessionEvent::Reconnected);
}

/// What a call comes back with that may never come back.
fn within_limit<T: Send + 'static>(
    client: &Arc<ZkClient>,
    call: impl FnOnce(&ZkClient) -> T + Send + 'static,
) -> T {
    let (done, result) = bounded(1);
    let client = Arc::clone(client);
    std::thread::spawn(move || done.send(call(&client)));
    result.recv_timeout(LIMIT).expect("the call ends")
}

fn a_call_without_server_ends_at_its_deadline(mut server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 2000);
    server.kill();
    await_session(&events, SessionEvent::Disconnected);
    let begun = Instant::now();
    let read = within_limit(&client, |client| client.get("/a")).unwrap_err();
    assert!(matches!(read, ZkError::Timeout { path } if path == "/a"));
    let elapsed = begun.elapsed();
    assert!(
        elapsed >= Duration::from_secs(2) && elapsed < Duration::from_secs(4),
        "{elapsed:?}"
    );

    server.restart();
    server.pause();
    // Sent or not, the answer cannot come.
    let write = within_limit(&client, |client| client.set("/", b"", None)).unwrap_err();
    server.resume();
    assert!(
        matches!(&write, ZkError::Timeout { path } | ZkError::ConnectionLost { path } if path == "/"),
        "{write:?}"
    );
}

fn a_call_within_the_lease_ends_with_the_lease(mut server: Box<dyn TestZooKeeper>) {
    // A rebalance that waited for ZooKeeper went on delivering for `zookeeper.connection.timeout.ms`, and a
    // commit that waited held up whoever wanted to give the partitions up.
    let (client, events) = ZkClient::connect(ZkConfig {
        connect: server.connect_string(),
        session_timeout: Duration::from_secs(2),
        connection_timeout: LIMIT,
    })
    .unwrap();
    let within = client.within_lease();
    server.pause();
    let read = within_limit(&within, |within| within.get("/a")).unwrap_err();
    assert!(matches!(read, ZkError::Timeout { path } if path == "/a"));
    let late = Instant::now().checked_duration_since(client.lease_ends());
    assert!(
        late.is_some_and(|late| late < Duration::from_secs(5)),
        "{late:?}"
    );
    await_session(&events, SessionEvent::Disconnected);

    std::thread::scope(|scope| {
        let patient = scope.spawn(|| client.exists("/"));
        server.resume();
        assert!(
            patient.join().unwrap().unwrap(),
            "others wait as long as ever"
        );
    });
    assert!(within.exists("/").unwrap());
}

fn cancel_ends_a_call_that_waits(mut server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 20_000);
    server.kill();
    await_session(&events, SessionEvent::Disconnected);
    cancelled_at_once(&client);
}

fn cancel_ends_a_call_that_was_sent(mut server: Box<dyn TestZooKeeper>) {
    let (client, _events) = connect(&*server, 20_000);
    server.pause();
    cancelled_at_once(&client);
    server.resume();
}

fn calls_are_cancelled_at_the_time_set_unless_the_client_is_closed_before(
    mut server: Box<dyn TestZooKeeper>,
) {
    // A shutdown right after the death of ZooKeeper waited for a commit, which waited for ZooKeeper.
    let (client, _events) = connect(&*server, 20_000);
    let (closed, _events) = connect(&*server, 20_000);
    closed.cancel_at(Instant::now() + LIMIT);
    let begun = Instant::now();
    closed.close();
    assert!(
        begun.elapsed() < Duration::from_millis(400),
        "nothing waits for the time"
    );

    server.pause();
    let time = Instant::now() + Duration::from_millis(300);
    client.cancel_at(time);
    assert!(matches!(client.get("/a"), Err(ZkError::Cancelled)));
    let now = Instant::now();
    server.resume();
    assert!(now >= time && now < time + Duration::from_secs(1));
}

fn cancelled_at_once(client: &ZkClient) {
    std::thread::scope(|scope| {
        let (begins, begun) = crossbeam_channel::bounded(1);
        let call = scope.spawn(move || {
            begins.send(()).unwrap();
            let result = client.get("/a");
            (result, Instant::now())
        });
        begun.recv().unwrap();
        // Long enough for the call to be waiting; the test holds in any case.
        let (_never, nothing) = crossbeam_channel::bounded::<()>(0);
        assert!(nothing.recv_timeout(Duration::from_millis(50)).is_err());
        let cancelled = Instant::now();
        client.cancel();
        let (result, ended) = call.join().unwrap();
        assert!(matches!(result, Err(ZkError::Cancelled)), "{result:?}");
        assert!(ended - cancelled < Duration::from_millis(100));
    });
    let begun = Instant::now();
    assert!(matches!(client.get("/a"), Err(ZkError::Cancelled)));
    assert!(begun.elapsed() < Duration::from_millis(100));
}

#[test]
fn hosts_that_cannot_be_reached_are_named_in_time() {
    // Bound, so that nobody else gets the port, but nobody listens.
    let unused = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    unused.bind(&any_port.into()).unwrap();
    let closed = unused.local_addr().unwrap().as_socket().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_address = silent.local_addr().unwrap();
    for (hosts, reason) in [
        (closed.to_string(), "refused"),
        (silent_address.to_string(), "no answer"),
        (String::from("no-such-host.invalid:2181"), "lookup"),
        (format!("{closed},{silent_address}"), "refused"),
    ] {
        let begun = Instant::now();
        let config = ZkConfig {
            connect: hosts.clone(),
            session_timeout: Duration::from_secs(2),
            connection_timeout: Duration::from_secs(2),
        };
        let error = ZkClient::connect(config).err().unwrap();
        let elapsed = begun.elapsed();
        assert!(matches!(error, Error::ZooKeeper { .. }), "{error:?}");
        let text = error.chain();
        assert!(text.contains(&hosts) && text.contains(reason), "{text}");
        assert!(elapsed < Duration::from_secs(3), "{hosts}: {elapsed:?}");
    }
}
