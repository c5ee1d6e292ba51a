//! The support code does what it says: the other tests of this binary rely on it.

use std::io;
use std::time::Duration;

use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::ZooKeeper;
use crate::support::ZooKeeperShell;
use crate::support::ZooKeeperVersion;
use crate::support::wait_until;

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

#[test]
fn a_cluster_of_0_8_2_2_elects_another_leader_when_one_is_killed() {
    elects_another_leader(KafkaVersion::V0_8_2_2);
}

#[test]
fn a_cluster_of_0_9_0_1_elects_another_leader_when_one_is_killed() {
    elects_another_leader(KafkaVersion::V0_9_0_1);
}

fn elects_another_leader(version: KafkaVersion) {
    let mut cluster = RealCluster::start(version, 2);
    cluster.create_topic("letters", 2, 2);
    assert_eq!(
        (cluster.leader("letters", 0), cluster.leader("letters", 1)),
        (0, 1)
    );
    assert_eq!(cluster.produce("letters", 0, &["a", "b"]), 0);
    assert_eq!(cluster.produce("letters", 0, &["c"]), 2);

    cluster.broker(0).kill();
    cluster.broker(0).wait_until_deregistered();
    cluster.wait_for_leaders("letters");
    assert_eq!(cluster.leader("letters", 0), 1);
    assert_eq!(cluster.produce("letters", 0, &["d"]), 3);

    cluster.broker(0).restart();
    wait_until(
        Duration::from_secs(30),
        "the restarted replica to catch up",
        || {
            cluster
                .partition_state("letters", 0)
                .is_some_and(|state| state.isr.contains(&0))
        },
    );

    cluster.add_partitions("letters", 3, 2);
    assert_eq!(cluster.produce("letters", 2, &["x"]), 0);
    cluster.delete_topic("letters");
    assert_eq!(cluster.partition_state("letters", 0), None);
}

#[test]
fn a_session_ends_when_it_is_closed_abandoned_or_expired_by_somebody_else() {
    let server = ZooKeeper::start();
    let observer = ZooKeeperShell::connect(&server.connect_string());
    let member = |name| {
        let session =
            ZooKeeperShell::try_connect(&server.connect_string(), Duration::from_secs(1)).unwrap();
        assert_eq!(session.timeout(), Duration::from_secs(1));
        session.create_ephemeral(name, "data").unwrap();
        assert_eq!(
            observer.stat(name).unwrap().ephemeral_owner,
            Some(session.session_id())
        );
        session
    };

    let closed = member("/closed");
    drop(closed);
    assert!(!observer.exists("/closed"));

    member("/abandoned").abandon();
    assert!(observer.exists("/abandoned"));
    wait_until(
        Duration::from_secs(10),
        "an abandoned session to expire",
        || !observer.exists("/abandoned"),
    );

    let expired = member("/expired");
    ZooKeeperShell::expire(
        &server.connect_string(),
        expired.session_id(),
        expired.password(),
    )
    .unwrap();
    assert!(!observer.exists("/expired"));
    assert!(expired.get("/").is_err());
}

#[test]
fn a_shell_reads_what_it_writes_below_a_chroot() {
    let server = ZooKeeper::start();
    let plain = ZooKeeperShell::connect(&server.connect_string());
    plain.put("/some/chroot", "").unwrap();
    let shell = ZooKeeperShell::connect(&format!("{}/some/chroot", server.connect_string()));

    shell.put("/consumers/group/offsets", "1").unwrap();
    shell.put("/consumers/group/offsets", "2").unwrap();
    shell.create("/consumers/group/ids", "").unwrap();
    assert_eq!(
        plain.get("/some/chroot/consumers/group/offsets").unwrap(),
        "2"
    );
    assert_eq!(
        plain
            .stat("/some/chroot/consumers/group/offsets")
            .unwrap()
            .version,
        1
    );
    assert_eq!(
        shell.children("/consumers/group").unwrap(),
        ["ids", "offsets"]
    );
    assert_eq!(shell.children("/").unwrap(), ["consumers"]);

    assert_eq!(
        shell.create("/consumers", "").unwrap_err().kind(),
        io::ErrorKind::AlreadyExists
    );
    shell.delete("/consumers/group/ids").unwrap();
    assert_eq!(
        shell.get("/consumers/group/ids").unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    assert!(shell.delete("/consumers").is_err());
}
