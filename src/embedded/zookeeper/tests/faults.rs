//! What can be done to the server's clients.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::time::Duration;
use std::time::Instant;

use crate::embedded::EmbeddedZooKeeper;
use crate::embedded::EmbeddedZooKeeperOptions;
use crate::embedded::zookeeper::session::password_of;
use crate::embedded::zookeeper::tests::LIMIT;
use crate::embedded::zookeeper::tests::start;
use crate::embedded::zookeeper::tests::wire_client::WireClient;
use crate::error::Error;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

fn resume(server: &EmbeddedZooKeeper, session: i64) -> Option<WireClient> {
    WireClient::resume(&server.connect_string(), session, 0, &password_of(session))
}

#[test]
fn an_expired_session_loses_its_connection_and_its_nodes() {
    let server = start();
    let mut client = WireClient::open(&server.connect_string());
    client.create("/e", 1);
    let sessions = server.sessions();
    assert_eq!(sessions[0].id, client.session);
    assert_eq!(sessions[0].ephemerals, ["/e"]);
    assert_eq!(sessions[0].timeout, Some(Duration::from_secs(30)));
    assert!(sessions[0].is_connected);
    assert!(server.expire_session(client.session));
    client.expect_end();
    assert!(resume(&server, client.session).is_none());
    assert_eq!(server.sessions(), []);
    assert_eq!(server.local_session().exists("/e"), Ok(None));
}

#[test]
fn a_session_expires_when_it_is_not_heard_of() {
    let server = start();
    let limit = Duration::from_millis(800);
    let silent = ZooKeeperShell::try_connect(&server.connect_string(), limit).unwrap();
    let lively = ZooKeeperShell::try_connect(&server.connect_string(), limit).unwrap();
    assert_eq!(silent.timeout(), limit);
    silent.create_ephemeral("/silent", "").unwrap();
    lively.create_ephemeral("/lively", "").unwrap();
    let begun = Instant::now();
    silent.abandon();
    wait_until(LIMIT, "the session to expire", || !lively.exists("/silent"));
    assert!(
        begun.elapsed() >= limit - limit / 4,
        "{:?}",
        begun.elapsed()
    );
    wait_until(LIMIT, "more than its time to pass", || {
        begun.elapsed() > limit * 3
    });
    assert!(lively.exists("/lively"));
}

#[test]
fn dropped_connections_leave_the_sessions_alone() {
    let server = start();
    let mut client = WireClient::open(&server.connect_string());
    client.create("/e", 1);
    server.drop_connections();
    client.expect_end();
    assert!(!server.sessions()[0].is_connected);
    let mut back = resume(&server, client.session).unwrap();
    assert_eq!(back.exists("/e", false).error, 0);
}

#[test]
fn refused_connections_leave_the_others_alone() {
    let server = start();
    let mut client = WireClient::open(&server.connect_string());
    for _ in 0..3 {
        server.refuse_connections(true).unwrap();
        let refused = TcpStream::connect(server.connect_string()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        assert_eq!(client.exists("/", false).error, 0);
        server.refuse_connections(false).unwrap();
        WireClient::open(&server.connect_string());
    }
    server.refuse_connections(true).unwrap();
    server.restart().unwrap();
    assert!(TcpStream::connect(server.connect_string()).is_err());
}

#[test]
fn a_silent_server_accepts_and_answers_later() {
    let server = start();
    let mut client = WireClient::open(&server.connect_string());
    server.silence(true);
    let short = Some(Duration::from_millis(100));
    client.socket.set_read_timeout(short).unwrap();
    client.send(3, |body| body.string("/").bool(false));
    assert!(client.frame().is_err(), "no answer in time");
    let _accepted = TcpStream::connect(server.connect_string()).unwrap();
    server.silence(false);
    client.socket.set_read_timeout(Some(LIMIT)).unwrap();
    assert_eq!(client.reply().error, 0);

    // Neither a client that goes nor a stop waits for the silence to end.
    server.silence(true);
    client.send(3, |body| body.string("/").bool(false));
    server.stop();
    client.expect_end();
}

#[test]
fn delayed_answers_come_in_order_and_do_not_add_up() {
    let server = start();
    let mut client = WireClient::open(&server.connect_string());
    let delay = Duration::from_millis(200);
    server.delay(delay);
    let begun = Instant::now();
    for _ in 0..10 {
        client.send(3, |body| body.string("/").bool(false));
    }
    for xid in 1..=10 {
        assert_eq!(client.reply().xid, xid);
    }
    let elapsed = begun.elapsed();
    assert!(elapsed >= delay && elapsed < delay * 5, "{elapsed:?}");
    server.delay(Duration::ZERO);
}

#[test]
fn a_restarted_server_knows_nodes_and_sessions_and_has_its_port() {
    let server = start();
    let port = server.port();
    let mut client = WireClient::open(&server.connect_string());
    client.create("/p", 0);
    client.create("/e", 1);
    let before = client.stat("/e");
    server.stop();
    server.stop();
    client.expect_end();
    let refused = TcpStream::connect(server.connect_string()).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    let mut back = resume(&server, client.session).unwrap();
    assert_eq!(back.stat("/e"), before);
    assert_eq!(back.exists("/p", false).error, 0);
    assert!(back.create("/new", 0).zxid > before.czxid);
}

#[test]
fn options_that_cannot_be_are_named() {
    let taken = start();
    let options = EmbeddedZooKeeperOptions {
        port: taken.port(),
        ..Default::default()
    };
    let error = EmbeddedZooKeeper::start(options).unwrap_err().chain();
    assert!(error.contains(&taken.port().to_string()), "{error}");
    let options = EmbeddedZooKeeperOptions {
        min_session_timeout: Some(Duration::from_secs(100)),
        ..Default::default()
    };
    let error = EmbeddedZooKeeper::start(options).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { .. }));
    assert!(error.to_string().contains("100s"), "{error}");
}

/// Runs this test again in a process of its own, as it counts threads and files of the process.
#[test]
fn a_dropped_server_leaves_no_thread_and_no_file() {
    const ALONE: &str = "KZC_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name =
            "embedded::zookeeper::tests::faults::a_dropped_server_leaves_no_thread_and_no_file";
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let before = (count("task"), count("fd"));
    for _ in 0..5 {
        let server = start();
        let mut clients: Vec<_> = (0..10)
            .map(|_| WireClient::open(&server.connect_string()))
            .collect();
        for client in &mut clients {
            client.exists("/missing", true);
        }
        assert!(count("task") >= before.0 + 20);
        server.silence(true);
        clients[0].send(3, |body| body.string("/").bool(false));
        drop(server);
        drop(clients);
        assert_eq!(count("fd"), before.1);
        // The system lists a thread for a moment after it was joined.
        wait_until(LIMIT, "joined threads to vanish", || {
            count("task") == before.0
        });
    }

    let server = start();
    for _ in 0..20 {
        WireClient::open(&server.connect_string());
    }
    wait_until(LIMIT, "threads of clients that went to end", || {
        count("task") <= before.0 + 2
    });
}

fn count(what: &str) -> usize {
    fs::read_dir(format!("/proc/self/{what}")).unwrap().count()
}
