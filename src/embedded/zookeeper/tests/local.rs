//! Sessions inside the process.

use std::time::Duration;

use crate::embedded::CreateMode::Ephemeral;
use crate::embedded::CreateMode::EphemeralSequential;
use crate::embedded::CreateMode::Persistent;
use crate::embedded::LocalEvent;
use crate::embedded::NodeError;
use crate::embedded::zookeeper::tests::LIMIT;
use crate::embedded::zookeeper::tests::start;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

#[test]
fn a_local_session_does_all_that_a_client_can() {
    let server = start();
    let session = server.local_session();
    assert_eq!(session.create("/a", b"one", Persistent), Ok("/a".into()));
    assert_eq!(
        session.create("/a", b"two", Persistent),
        Err(NodeError::NodeExists)
    );
    assert_eq!(
        session.create_with_parents("/a/b/c/n-", b"", EphemeralSequential),
        Ok("/a/b/c/n-0000000000".into())
    );
    assert_eq!(
        session.create_with_parents("/a/b/c/n-0000000000/d", b"", Persistent),
        Err(NodeError::NoChildrenForEphemerals)
    );
    assert_eq!(session.children("/a"), Ok(vec!["b".into()]));
    assert_eq!(session.set("/a", b"two", Some(0)).unwrap().version, 1);
    assert_eq!(session.set("/a", b"", Some(0)), Err(NodeError::BadVersion));
    let (data, stat) = session.get("/a").unwrap();
    assert_eq!((data, stat.version), (b"two".to_vec(), 1));
    assert_eq!(session.get("/x"), Err(NodeError::NoNode));
    assert_eq!(session.exists("/x"), Ok(None));
    assert_eq!(session.delete("/a", None), Err(NodeError::NotEmpty));
    assert_eq!(session.delete("/a/b/c/n-0000000000", Some(0)), Ok(()));
    let other = ZooKeeperShell::connect(&server.connect_string());
    assert_eq!(other.get("/a").unwrap(), "two");
}

#[test]
fn ephemeral_nodes_go_with_their_session() {
    let server = start();
    let other = ZooKeeperShell::connect(&server.connect_string());
    for close in [true, false] {
        let session = server.local_session();
        session.create("/e", b"", Ephemeral).unwrap();
        let owner = other.stat("/e").unwrap().ephemeral_owner;
        assert_eq!(owner, Some(session.id()));
        if close {
            session.close();
            assert!(!other.exists("/e"));
        } else {
            session.abandon(Duration::from_secs(1));
            assert!(other.exists("/e"));
            wait_until(LIMIT, "the session to expire", || !other.exists("/e"));
        }
    }
    assert_eq!(server.sessions().len(), 1);
}

#[test]
fn a_local_session_is_told_what_it_watches() {
    let server = start();
    let session = server.local_session();
    let other = ZooKeeperShell::connect(&server.connect_string());
    assert_eq!(session.exists_and_watch("/a"), Ok(None));
    assert_eq!(session.next_event(Duration::ZERO), None);
    other.put("/a", "one").unwrap();
    // The event is there before the writer hears that it wrote.
    let created = LocalEvent::NodeCreated("/a".into());
    assert_eq!(session.next_event(Duration::ZERO), Some(created));
    session.get_and_watch("/a").unwrap();
    session.children_and_watch("/a").unwrap();
    other.put("/a", "two").unwrap();
    other.put("/a/b", "").unwrap();
    session.bell().recv_timeout(LIMIT).unwrap();
    let events = [
        LocalEvent::DataChanged("/a".into()),
        LocalEvent::ChildrenChanged("/a".into()),
    ];
    assert_eq!(session.take_events(), events);
    session.get_and_watch("/a/b").unwrap();
    other.delete("/a/b").unwrap();
    let deleted = LocalEvent::NodeDeleted("/a/b".into());
    assert_eq!(session.next_event(LIMIT), Some(deleted));
}

#[test]
fn a_local_session_can_expire_and_outlives_a_stop() {
    let server = start();
    let session = server.local_session();
    session.create("/e", b"", Ephemeral).unwrap();
    server.stop();
    assert_eq!(session.get("/e"), Err(NodeError::ConnectionLoss));
    server.restart().unwrap();
    assert!(session.get("/e").is_ok());

    assert!(server.expire_session(session.id()));
    assert!(!server.expire_session(session.id()));
    assert_eq!(session.next_event(LIMIT), Some(LocalEvent::Expired));
    assert_eq!(session.get("/e"), Err(NodeError::SessionExpired));
    assert_eq!(
        server.local_session().exists("/e"),
        Ok(None),
        "gone with its session"
    );

    let session = server.local_session();
    drop(server);
    assert_eq!(session.exists("/"), Err(NodeError::ConnectionLoss));
}
