//! The support code does what it says: the other tests of this binary rely on it.

use crate::support::ZooKeeper;
use crate::support::ZooKeeperVersion;

#[test]
fn zookeeper_3_4_6_serves_and_comes_back_after_a_kill() {
    serves_and_comes_back(ZooKeeperVersion::V3_4_6, "3.4.6");
}

#[test]
fn zookeeper_of_debian_serves_and_comes_back_after_a_kill() {
    serves_and_comes_back(ZooKeeperVersion::Debian, "3.8");
}

fn serves_and_comes_back(version: ZooKeeperVersion, expected: &str) {
    let mut server = ZooKeeper::start_version(version);
    let answer = server.ask("srvr").unwrap();
    assert!(
        answer.starts_with(&format!("Zookeeper version: {expected}")),
        "{answer}"
    );
    assert!(
        server.dump().contains("Sessions with Ephemerals"),
        "{}",
        server.dump()
    );

    server.kill();
    assert!(server.ask("srvr").is_err());

    server.restart();
    assert!(server.ask("srvr").unwrap().contains("Mode: standalone"));

    server.pause();
    assert!(server.ask("srvr").is_err());
    server.resume();
    assert!(server.ask("srvr").is_ok());
}
