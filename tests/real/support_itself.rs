//! The support code does what it says: the other tests of this binary rely on it.

use std::env;
use std::fs;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use crate::support::Cluster;
use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::ConsoleProducer;
use crate::support::ConsumerOffsetChecker;
use crate::support::ConsumerPerformance;
use crate::support::ConsumerPerformanceOptions;
use crate::support::KafkaVersion;
use crate::support::ProducerPerformance;
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

/// What the table of tested brokers in docs/compatibility.md says.
pub(crate) fn a_broker_registers_in_the_version_of_its_line_at_the_zookeeper_of_its_release(
    version: KafkaVersion,
) {
    let (zookeeper, registration) = match version {
        KafkaVersion::V0_8_2_2 => ("3.4.6", 1),
        KafkaVersion::V0_9_0_1 => ("3.4.6", 2),
        KafkaVersion::V0_10_2_2 => ("3.4.9", 4),
        KafkaVersion::V0_11_0_3 | KafkaVersion::V1_1_1 | KafkaVersion::V2_3_1 => ("3.4.10", 4),
        KafkaVersion::V2_8_2 => ("3.5.9", 5),
        KafkaVersion::V3_9_2 => ("3.8.4", 5),
    };
    let mut cluster = RealCluster::start(version, 1);
    let answer = cluster.zookeeper().ask("srvr").unwrap();
    let expected = format!("Zookeeper version: {zookeeper}-");
    assert!(answer.starts_with(&expected), "{answer}");
    let node = cluster.shell().get("/brokers/ids/0").unwrap();
    let node: serde_json::Value = serde_json::from_str(&node).unwrap();
    assert_eq!(node["version"], registration, "{node}");
}

#[test]
fn a_session_on_3_4_6_ends_when_it_is_closed_abandoned_or_expired_by_somebody_else() {
    session_ends(ZooKeeperVersion::V3_4_6);
}

#[test]
fn a_session_on_debian_ends_when_it_is_closed_abandoned_or_expired_by_somebody_else() {
    session_ends(ZooKeeperVersion::Debian);
}

fn session_ends(version: ZooKeeperVersion) {
    let server = ZooKeeper::start_version(version);
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
    ZooKeeperShell::expire(&server.connect_string(), expired.session_id()).unwrap();
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

#[test]
fn jvm_tools_of_0_8_2_2_produce_consume_and_report() {
    produce_consume_and_report(KafkaVersion::V0_8_2_2);
}

#[test]
fn jvm_tools_of_0_9_0_1_produce_consume_and_report() {
    produce_consume_and_report(KafkaVersion::V0_9_0_1);
}

fn produce_consume_and_report(version: KafkaVersion) {
    const LIMIT: Duration = Duration::from_secs(60);
    let cluster = RealCluster::start(version, 1);
    let zookeeper = cluster.connect_string();
    cluster.create_topic("words", 2, 1);
    for compression in ["none", "gzip", "snappy", "lz4"] {
        ConsoleProducer::produce(
            version,
            &cluster.broker_list(),
            "words",
            compression,
            &[compression],
        );
    }
    cluster.produce("words", 0, &["zero"]);

    let properties = [("group.id", "g"), ("zookeeper.session.timeout.ms", "2000")];
    let options = ConsoleConsumerOptions {
        properties: &properties,
        from_beginning: true,
        ..Default::default()
    };
    let mut consumer = ConsoleConsumer::start(version, &zookeeper, "words", &options);
    let mut lines = consumer.wait_for_lines(5, LIMIT);
    lines.sort();
    assert_eq!(lines, ["gzip", "lz4", "none", "snappy", "zero"]);
    let shell = cluster.shell();
    assert!(shell.exists("/consumers/g/owners/words/0"));

    consumer.stop();
    assert_eq!(shell.children("/consumers/g/ids").unwrap(), [""; 0]);
    let report = ConsumerOffsetChecker::check(version, &zookeeper, "g", "words");
    assert_eq!(report.len(), 2);
    assert_eq!(report.iter().filter_map(|line| line.offset).sum::<i64>(), 5);
    assert!(
        report
            .iter()
            .all(|line| line.offset == line.log_size && line.owner.is_none()),
        "{report:?}"
    );

    let continuing = ConsoleConsumerOptions {
        properties: &properties,
        ..Default::default()
    };
    let mut killed = ConsoleConsumer::start_on_whitelist(version, &zookeeper, "wor.*", &continuing);
    wait_until(LIMIT, "the second member to own a partition", || {
        shell.exists("/consumers/g/owners/words/1")
    });
    cluster.produce("words", 1, &["more"]);
    assert_eq!(killed.wait_for_lines(1, LIMIT), ["more"]);
    killed.kill();
    assert!(shell.exists("/consumers/g/owners/words/1"));
    wait_until(LIMIT, "a killed member to vanish", || {
        shell
            .children("/consumers/g/ids")
            .is_ok_and(|ids| ids.is_empty())
    });
}

#[test]
fn performance_tools_fill_a_topic_and_measure_its_consumption() {
    let cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic("filled", 2, 1);
    ProducerPerformance::fill(&cluster.broker_list(), "filled", 400_000, 100, "snappy");
    let options = ConsumerPerformanceOptions {
        threads: 2,
        fetch_threads: 1,
        messages: 200_000,
        reporting_interval: 50_000,
        fetch_size: 1 << 20,
        heap: "256m".to_owned(),
    };
    let connect = cluster.connect_string();
    let outcome = ConsumerPerformance::run(KafkaVersion::V0_8_2_2, &connect, "filled", &options);
    assert!(outcome.messages() >= 300_000, "{outcome:?}");
    assert!(
        outcome.rows.len() <= 8,
        "rows printed after a time-out count: {outcome:?}"
    );
    assert!(outcome.messages_per_second() > 10_000.0, "{outcome:?}");
    assert!(outcome.megabytes_per_second() > 1.0, "{outcome:?}");
}

#[test]
fn a_dropped_server_is_gone_even_if_it_was_paused() {
    let mut server = ZooKeeper::start();
    let id = server.process().id();
    assert!(is_zookeeper(id));
    server.pause();
    drop(server);
    assert!(!is_zookeeper(id));
}

#[test]
fn a_killed_test_process_takes_its_servers_along() {
    const NAME: &str = "support_itself::a_killed_test_process_takes_its_servers_along";
    const HOST: &str = "KZC_HOST_A_SERVER";
    if env::var_os(HOST).is_some() {
        let mut server = ZooKeeper::start();
        println!("\nserver {}", server.process().id());
        // Until it is killed by the other side of this test, which ends with its standard input at
        // the latest.
        io::stdin().read_to_end(&mut Vec::new()).unwrap();
        return;
    }

    let mut host = Command::new(env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(HOST, "yes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(host.stdout.take().unwrap());
    let mut ids = output
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("server ")?.parse().ok());
    let id = ids.next().unwrap();
    assert!(is_zookeeper(id));

    host.kill().unwrap();
    host.wait().unwrap();
    wait_until(
        Duration::from_secs(10),
        "the server of a killed test process to die",
        || !is_zookeeper(id),
    );
}

/// Whether the process lives: one that waits to be reaped has no command line any more.
fn is_zookeeper(id: u32) -> bool {
    fs::read_to_string(format!("/proc/{id}/cmdline"))
        .is_ok_and(|line| line.contains("QuorumPeerMain"))
}
