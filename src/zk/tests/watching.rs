use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;

use crate::support::ZooKeeperShell;
use crate::support::wait_until;
use crate::test_zookeeper::TestZooKeeper;
use crate::test_zookeeper::scenarios;
use crate::zk::CreateMode::Ephemeral;
use crate::zk::CreateMode::Persistent;
use crate::zk::SessionEvent;
use crate::zk::ZkEvent;
use crate::zk::tests::LIMIT;
use crate::zk::tests::await_event;
use crate::zk::tests::await_session;
use crate::zk::tests::changed;
use crate::zk::tests::children_changed;
use crate::zk::tests::connect;
use crate::zk::tests::connect_to;
use crate::zk::tests::created;
use crate::zk::tests::deleted;
use crate::zk::tests::proxy::Proxy;
use crate::zk::tests::settle;

scenarios! {
    crate::test_zookeeper::ServerKind::start;
    a_watch_fires_once,
    a_watch_on_a_missing_node_tells_of_its_creation,
    a_watch_tells_of_the_deletion_of_its_node,
    asking_again_does_not_double_a_watch,
    events_name_paths_below_the_chroot,
    watches_survive_a_restart_and_nothing_is_missed,
    watches_of_any_number_of_bytes_survive_a_restart,
    a_client_that_goes_with_its_watches_disturbs_nobody,
    nothing_is_lost_however_often_the_line_breaks,
}

fn a_watch_fires_once(server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 6000);
    client.create("/a", b"one", Persistent).unwrap();
    assert_eq!(client.watch_data("/a").unwrap().unwrap().data, b"one");
    assert_eq!(client.watch_children("/a").unwrap(), Some(vec![]));
    client.set("/a", b"two", None).unwrap();
    await_event(&events, &changed("/a"));
    client.create("/a/b", b"", Persistent).unwrap();
    await_event(&events, &children_changed("/a"));
    client.set("/a", b"three", None).unwrap();
    client.create("/a/c", b"", Persistent).unwrap();
    settle(&client);
    assert!(events.is_empty());
    let names = client.watch_children("/a").unwrap();
    assert_eq!(names, Some(vec!["b".into(), "c".into()]));
    client.delete("/a/b", None).unwrap();
    await_event(&events, &children_changed("/a"));
    assert_eq!(client.watch_data("/a").unwrap().unwrap().data, b"three");
    client.set("/a", b"four", None).unwrap();
    await_event(&events, &changed("/a"));
}

fn a_watch_on_a_missing_node_tells_of_its_creation(server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 6000);
    assert_eq!(client.watch_data("/a").unwrap(), None);
    assert_eq!(client.watch_children("/b").unwrap(), None);
    assert_eq!(client.watch_data("/c").unwrap(), None);
    assert_eq!(client.watch_children("/c").unwrap(), None);
    for path in ["/a", "/b", "/c"] {
        client.create(path, b"", Persistent).unwrap();
        await_event(&events, &created(path));
    }
    settle(&client);
    assert!(events.is_empty());
    let paths = ["/a", "/x", "/b"].map(String::from);
    let read = client.watch_data_all(&paths);
    let there: Vec<_> = read
        .into_iter()
        .map(|read| read.unwrap().is_some())
        .collect();
    assert_eq!(there, [true, false, true]);
    client.create("/x", b"", Ephemeral).unwrap();
    await_event(&events, &created("/x"));
    client.set("/b", b"", None).unwrap();
    await_event(&events, &changed("/b"));
}

fn a_watch_tells_of_the_deletion_of_its_node(server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 6000);
    for path in ["/a", "/b"] {
        client.create(path, b"", Persistent).unwrap();
    }
    client.watch_data("/a").unwrap();
    client.watch_children("/b").unwrap();
    for path in ["/a", "/b"] {
        client.delete(path, None).unwrap();
        await_event(&events, &deleted(path));
    }
    assert_eq!(client.watch_children("/b").unwrap(), None);
    client.create("/b", b"", Persistent).unwrap();
    await_event(&events, &created("/b"));
}

fn asking_again_does_not_double_a_watch(server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 6000);
    client.create("/a", b"", Persistent).unwrap();
    for _ in 0..10 {
        client.watch_data("/a").unwrap();
        client.watch_children("/a").unwrap();
        client.watch_data("/x").unwrap();
    }
    client.set("/a", b"", None).unwrap();
    client.create("/a/b", b"", Persistent).unwrap();
    await_event(&events, &changed("/a"));
    await_event(&events, &children_changed("/a"));
    settle(&client);
    assert!(events.is_empty());
}

fn events_name_paths_below_the_chroot(server: Box<dyn TestZooKeeper>) {
    let other = ZooKeeperShell::connect(&server.connect_string());
    other.put("/kafka", "").unwrap();
    let (client, events) = connect_to(&format!("{}/kafka", server.connect_string()), 6000);
    client.watch_children("/").unwrap();
    client.watch_data("/a").unwrap();
    other.create("/kafka/a", "").unwrap();
    let mut both = [events.recv().unwrap(), events.recv().unwrap()];
    both.sort_by_key(|event| *event == children_changed("/"));
    assert_eq!(both, [created("/a"), children_changed("/")]);
}

fn watches_survive_a_restart_and_nothing_is_missed(mut server: Box<dyn TestZooKeeper>) {
    let (other, other_events) = connect(&*server, 30_000);
    for path in [
        "/set",
        "/gone",
        "/parent",
        "/recreated",
        "/quiet",
        "/quiet/child",
        "/late",
    ] {
        other.create(path, b"", Persistent).unwrap();
    }
    let proxy = Proxy::start(server.port());
    let (client, events) = connect_to(&proxy.connect_string(), 30_000);
    for path in [
        "/set",
        "/gone",
        "/new",
        "/recreated",
        "/quiet",
        "/missing",
        "/late",
    ] {
        client.watch_data(path).unwrap();
    }
    for path in ["/parent", "/quiet", "/gone", "/late"] {
        client.watch_children(path).unwrap();
    }
    let session = client.session_id();
    client.create("/mine", b"", Ephemeral).unwrap();

    proxy.cut();
    other.set("/set", b"", None).unwrap();
    other.delete("/gone", None).unwrap();
    other.create("/new", b"", Persistent).unwrap();
    other.create("/parent/child", b"", Persistent).unwrap();
    other.delete("/recreated", None).unwrap();
    other.create("/recreated", b"", Persistent).unwrap();
    server.restart();
    await_session(&other_events, SessionEvent::Reconnected);
    proxy.mend();
    let mut seen = Vec::new();
    for expected in [
        ZkEvent::Session(SessionEvent::Disconnected),
        ZkEvent::Session(SessionEvent::Reconnected),
        changed("/set"),
        deleted("/gone"),
        created("/new"),
        children_changed("/parent"),
        changed("/recreated"),
    ] {
        while !seen.contains(&expected) {
            let next = events.recv_timeout(LIMIT);
            seen.push(next.unwrap_or_else(|_| panic!("no {expected:?} in {seen:?}")));
        }
    }
    settle(&client);
    seen.extend(events.try_iter());
    for path in ["/quiet", "/missing", "/late"] {
        let about = format!("{path:?}");
        assert!(
            !seen
                .iter()
                .any(|event| format!("{event:?}").contains(&about)),
            "{seen:?}"
        );
    }
    assert_eq!(client.session_id(), session);
    assert_eq!(
        other.get("/mine").unwrap().unwrap().ephemeral_owner,
        session
    );

    // What did not fire still waits.
    other.set("/late", b"", None).unwrap();
    await_event(&events, &changed("/late"));
    other.create("/late/child", b"", Persistent).unwrap();
    await_event(&events, &children_changed("/late"));
    other.create("/missing", b"", Persistent).unwrap();
    await_event(&events, &created("/missing"));
}

fn watches_of_any_number_of_bytes_survive_a_restart(mut server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 30_000);
    client.create("/t", b"", Persistent).unwrap();
    let paths: Vec<_> = (0..2500)
        .map(|number| format!("/t/{number:0>77}"))
        .collect();
    assert!(paths.iter().map(String::len).sum::<usize>() > 190 * 1024);
    let nodes: Vec<_> = paths
        .iter()
        .map(|path| (path.clone(), Vec::new()))
        .collect();
    client.create_all(&nodes, Persistent);
    client.watch_data_all(&paths);
    for path in paths.iter().step_by(5) {
        client.watch_children(path).unwrap();
    }
    for _ in 0..2 {
        server.restart();
        await_session(&events, SessionEvent::Reconnected);
    }
    settle(&client);
    assert!(events.is_empty(), "{:?}", events.recv());
    let changes: Vec<_> = paths
        .iter()
        .map(|path| (path.clone(), Vec::new(), None))
        .collect();
    client.set_all(&changes);
    for path in &paths {
        await_event(&events, &changed(path));
    }
    client
        .create(&format!("{}/child", paths[0]), b"", Persistent)
        .unwrap();
    await_event(&events, &children_changed(&paths[0]));
}

fn a_client_that_goes_with_its_watches_disturbs_nobody(server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 6000);
    client.create("/a", b"", Persistent).unwrap();
    client.watch_data("/a").unwrap();
    client.watch_children("/a").unwrap();
    let (other, other_events) = connect(&*server, 6000);
    other.create("/theirs", b"", Ephemeral).unwrap();
    other.watch_data("/a").unwrap();
    other.watch_children("/a").unwrap();
    other.watch_data("/missing").unwrap();
    drop(other);
    assert!(
        other_events.iter().next().is_none(),
        "no event, just the end"
    );
    assert!(!client.exists("/theirs").unwrap());
    client.set("/a", b"", None).unwrap();
    await_event(&events, &changed("/a"));
    client.create("/a/b", b"", Persistent).unwrap();
    await_event(&events, &children_changed("/a"));
    assert!(events.is_empty(), "not even disconnected");
}

/// What a client knows that looks at nodes only when an event tells it to.
#[derive(Default, Debug, PartialEq)]
struct Mirror {
    children: Vec<String>,
    data: BTreeMap<String, Option<Vec<u8>>>,
}

/// Ends a loop even when the test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn nothing_is_lost_however_often_the_line_breaks(server: Box<dyn TestZooKeeper>) {
    const WRITES: usize = 1500;
    let (other, _other_events) = connect(&*server, 30_000);
    other.create("/m", b"", Persistent).unwrap();
    let paths: Vec<_> = (0..20).map(|number| format!("/m/{number}")).collect();
    let proxy = Proxy::start(server.port());
    let (client, events) = connect_to(&proxy.connect_string(), 30_000);
    let mirror = Mutex::new(Mirror::default());
    let look = |path: &str| {
        if path == "/m" {
            let children = client.watch_children(path).unwrap().unwrap();
            mirror.lock().children = children;
        } else {
            let data = client.watch_data(path).unwrap().map(|node| node.data);
            mirror.lock().data.insert(path.into(), data);
        }
    };
    look("/m");
    paths.iter().for_each(|path| look(path));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _done = Done(&done);
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                match events.recv_timeout(Duration::from_millis(20)) {
                    Ok(ZkEvent::Session(_)) | Err(_) => {}
                    Ok(
                        ZkEvent::NodeCreated(path)
                        | ZkEvent::NodeDeleted(path)
                        | ZkEvent::DataChanged(path)
                        | ZkEvent::ChildrenChanged(path),
                    ) => look(&path),
                }
            }
        });
        let writing = scope.spawn(|| {
            let mut random: u64 = 42;
            for number in 0..WRITES {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let path = &paths[usize::try_from(random >> 33).unwrap() % paths.len()];
                let data = number.to_string();
                if (random >> 20).is_multiple_of(3) {
                    other.delete(path, None).unwrap();
                } else if other.set(path, data.as_bytes(), None).is_err() {
                    other.create(path, data.as_bytes(), Persistent).unwrap();
                }
            }
        });
        let mut breaks = 0;
        while !writing.is_finished() || breaks < 10 {
            proxy.cut();
            let refused = proxy.refused();
            wait_until(LIMIT, "an attempt", || proxy.refused() > refused);
            proxy.mend();
            wait_until(LIMIT, "a new link", || client.is_connected());
            breaks += 1;
        }
        let truth = Mirror {
            children: other.children("/m").unwrap().unwrap(),
            data: paths
                .iter()
                .map(|path| (path.clone(), other.get(path).unwrap().map(|node| node.data)))
                .collect(),
        };
        wait_until(LIMIT, "the mirror to show the truth", || {
            *mirror.lock() == truth
        });
        println!("{breaks} breaks");
    });
}
