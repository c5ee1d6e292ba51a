//! The layer against the embedded server and against real ones, the oldest and the newest that count.

mod calls;
mod closing;
mod proxy;
mod sessions;
mod watching;

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;

use crate::test_zookeeper::TestZooKeeper;
use crate::zk::SessionEvent;
use crate::zk::ZkClient;
use crate::zk::ZkConfig;
use crate::zk::ZkEvent;

/// Longer than anything here may take.
const LIMIT: Duration = Duration::from_secs(30);

type Connected = (Arc<ZkClient>, Receiver<ZkEvent>);

/// With a session timeout in milliseconds.
fn connect(server: &dyn TestZooKeeper, session: u64) -> Connected {
    connect_to(&server.connect_string(), session)
}

fn connect_to(connect: &str, session: u64) -> Connected {
    let config = ZkConfig {
        connect: connect.into(),
        session_timeout: Duration::from_millis(session),
        connection_timeout: Duration::from_millis(session),
    };
    ZkClient::connect(config).unwrap()
}

/// Waits for the event, and passes over others.
#[track_caller]
fn await_event(events: &Receiver<ZkEvent>, expected: &ZkEvent) {
    let deadline = Instant::now() + LIMIT;
    let mut others = Vec::new();
    loop {
        match events.recv_deadline(deadline) {
            Ok(event) if event == *expected => return,
            Ok(event) => others.push(event),
            Err(_) => panic!("no {expected:?}, but {others:?}"),
        }
    }
}

#[track_caller]
fn await_session(events: &Receiver<ZkEvent>, expected: SessionEvent) {
    await_event(events, &ZkEvent::Session(expected));
}

/// Waits until a new session is there, after the old one expired, and returns its id.
#[track_caller]
fn await_new_session(events: &Receiver<ZkEvent>) -> i64 {
    await_session(events, SessionEvent::Expired);
    match events.recv_timeout(LIMIT) {
        Ok(ZkEvent::Session(SessionEvent::Established { session })) => session,
        other => panic!("no new session, but {other:?}"),
    }
}

/// A call that the server answers after all that it sent before: what has not come by then was not
/// on its way.
fn settle(client: &ZkClient) {
    for _ in 0..3 {
        client.exists("/").unwrap();
    }
}

fn created(path: &str) -> ZkEvent {
    ZkEvent::NodeCreated(path.into())
}

fn deleted(path: &str) -> ZkEvent {
    ZkEvent::NodeDeleted(path.into())
}

fn changed(path: &str) -> ZkEvent {
    ZkEvent::DataChanged(path.into())
}

fn children_changed(path: &str) -> ZkEvent {
    ZkEvent::ChildrenChanged(path.into())
}
