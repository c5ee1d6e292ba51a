use std::fs;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::support::ZooKeeperShell;
use crate::support::wait_until;
use crate::test_zookeeper::TestZooKeeper;
use crate::test_zookeeper::scenarios;
use crate::zk::CreateMode::Ephemeral;
use crate::zk::SessionEvent;
use crate::zk::ZkClient;
use crate::zk::ZkConfig;
use crate::zk::ZkError;
use crate::zk::tests::LIMIT;
use crate::zk::tests::await_session;
use crate::zk::tests::connect;
use crate::zk::tests::connect_to;
use crate::zk::tests::proxy::Proxy;

scenarios! {
    crate::test_zookeeper::ServerKind::start;
    closing_deletes_ephemerals_at_once,
    closing_works_after_cancel_and_twice,
    closing_while_disconnected_still_closes_the_session,
    closing_without_server_is_bounded,
    closing_a_hanging_server_is_bounded,
    closing_between_sessions_ends_at_once,
    a_closed_client_leaves_nothing_in_memory,
    connecting_and_closing_leaks_no_thread_and_no_file,
}

fn closing_deletes_ephemerals_at_once(server: Box<dyn TestZooKeeper>) {
    let other = ZooKeeperShell::connect(&server.connect_string());
    let (client, events) = connect(&*server, 30_000);
    let paths: Vec<_> = (0..100).map(|number| format!("/missing{number}")).collect();
    client.watch_data_all(&paths);
    client.watch_children("/").unwrap();
    client.create("/mine", b"", Ephemeral).unwrap();
    client.close();
    assert!(!other.exists("/mine"));
    assert!(events.iter().count() <= 2, "ends, after the event of /");
    assert!(matches!(client.get("/"), Err(ZkError::Cancelled)));
    assert!(!client.is_connected());
}

fn closing_works_after_cancel_and_twice(server: Box<dyn TestZooKeeper>) {
    let other = ZooKeeperShell::connect(&server.connect_string());
    let (client, _events) = connect(&*server, 30_000);
    client.create("/mine", b"", Ephemeral).unwrap();
    client.cancel();
    assert!(other.exists("/mine"));
    client.close();
    assert!(!other.exists("/mine"));
    client.close();
    drop(client);
}

fn closing_while_disconnected_still_closes_the_session(server: Box<dyn TestZooKeeper>) {
    let other = ZooKeeperShell::connect(&server.connect_string());
    let proxy = Proxy::start(server.port());
    let (client, events) = connect_to(&proxy.connect_string(), 30_000);
    client.create("/mine", b"", Ephemeral).unwrap();
    proxy.cut();
    await_session(&events, SessionEvent::Disconnected);
    std::thread::scope(|scope| {
        let close = scope.spawn(|| client.close());
        let refused = proxy.refused();
        wait_until(LIMIT, "an attempt to close", || proxy.refused() > refused);
        proxy.mend();
        close.join().unwrap();
    });
    assert!(!other.exists("/mine"));
}

fn closing_without_server_is_bounded(mut server: Box<dyn TestZooKeeper>) {
    let (client, events) = connect(&*server, 2000);
    server.kill();
    await_session(&events, SessionEvent::Disconnected);
    let begun = Instant::now();
    client.close();
    assert!(begun.elapsed() < Duration::from_millis(2500));
}

fn closing_a_hanging_server_is_bounded(mut server: Box<dyn TestZooKeeper>) {
    let (client, _events) = connect(&*server, 2000);
    server.pause();
    let begun = Instant::now();
    client.close();
    let elapsed = begun.elapsed();
    server.resume();
    assert!(elapsed < Duration::from_millis(2700), "{elapsed:?}");
}

fn closing_between_sessions_ends_at_once(server: Box<dyn TestZooKeeper>) {
    let proxy = Proxy::start(server.port());
    let (client, events) = connect_to(&proxy.connect_string(), 2000);
    client.create("/mine", b"", Ephemeral).unwrap();
    let other = ZooKeeperShell::connect(&server.connect_string());
    proxy.cut();
    await_session(&events, SessionEvent::Disconnected);
    wait_until(LIMIT, "the server to expire it", || !other.exists("/mine"));
    let begun = Instant::now();
    client.close();
    assert!(begun.elapsed() < Duration::from_secs(1));
}

fn a_closed_client_leaves_nothing_in_memory(mut server: Box<dyn TestZooKeeper>) {
    let (client, _events) = connect(&*server, 2000);
    client.watch_data("/missing").unwrap();
    let alive = Arc::downgrade(&client.session);
    drop(client);
    assert_eq!(alive.strong_count(), 0);

    let (client, _events) = connect(&*server, 2000);
    client.watch_data("/missing").unwrap();
    let alive = Arc::downgrade(&client.session);
    server.pause();
    let _unanswered = client.get("/");
    drop(client);
    server.resume();
    assert_eq!(alive.strong_count(), 0);
}

/// Runs this test again in a process of its own, as it counts threads and files of the process.
fn connecting_and_closing_leaks_no_thread_and_no_file(mut server: Box<dyn TestZooKeeper>) {
    const ALONE: &str = "KZC_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let scenario = "connecting_and_closing_leaks_no_thread_and_no_file";
        let name = format!("zk::tests::closing::{}::{scenario}", server.module());
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--nocapture"])
            .env(ALONE, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let missing = format!("{}/missing", server.connect_string());
    let round = || {
        let (client, _events) = connect(&*server, 6000);
        client.create("/mine", b"", Ephemeral).unwrap();
        client.watch_data("/mine").unwrap();
        client.watch_children("/missing").unwrap();
        drop(client);
        let refused = ZkClient::connect(ZkConfig {
            connect: missing.clone(),
            session_timeout: Duration::from_secs(6),
            connection_timeout: Duration::from_secs(6),
        });
        assert!(refused.is_err());
    };
    round();
    let (threads, files) = (count("task"), count("fd"));
    for _ in 0..20 {
        round();
    }
    wait_until(LIMIT, "threads and files to go", || {
        count("task") <= threads && count("fd") <= files
    });
    let (client, _events) = connect(&*server, 2000);
    server.pause();
    drop(client);
    server.resume();
    wait_until(LIMIT, "threads and files to go", || {
        count("task") <= threads && count("fd") <= files
    });
}

fn count(what: &str) -> usize {
    fs::read_dir(format!("/proc/self/{what}")).unwrap().count()
}
