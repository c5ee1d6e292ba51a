//! Members are killed, and start again at once: what their sessions hold is still there. Others stand still for
//! longer than their sessions live, and go on as if nothing had happened.

use std::io::BufRead;
use std::io::BufReader;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConfigBuilder;

use crate::numbered::Delivery;
use crate::numbered::GROUP;
use crate::numbered::Journal;
use crate::numbered::Member;
use crate::numbered::NumberedProducer;
use crate::numbered::OffsetWatch;
use crate::numbered::TOPIC;
use crate::numbered::group_config;
use crate::numbered::id_path;
use crate::numbered::member_config;
use crate::numbered::owner_path;
use crate::numbered::wait_for_owners;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_for;

const PARTITIONS: i32 = 4;
const PACE: Duration = Duration::from_millis(10);
const LIMIT: Duration = Duration::from_secs(30);
const SESSION: Duration = Duration::from_secs(4);

#[test]
fn a_killed_member_starts_again_at_once_with_the_same_id() {
    restart_after_kill(&["consumer.id=a"], |zookeeper| {
        member_config(zookeeper, "a", SESSION)
    });
}

#[test]
fn a_killed_member_starts_again_at_once_with_another_id() {
    restart_after_kill(&[], |zookeeper| group_config(zookeeper, SESSION));
}

/// Kills a member twice, each time followed at once by another one, which has to wait until the old session
/// ends, and no longer.
fn restart_after_kill(properties: &[&str], next: impl Fn(&str) -> ConsumerConfigBuilder) {
    let mut cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    let zookeeper = cluster.connect_string();
    let shell = cluster.shell();
    let journal = Journal::default();
    let producer = NumberedProducer::start(&mut cluster, PARTITIONS, PACE);
    let offsets = OffsetWatch::start(&zookeeper, PARTITIONS);
    for _ in 0..2 {
        let mut killed = MemberProcess::start(&zookeeper, properties, &journal);
        let id = wait_for(LIMIT, "a member", || {
            let ids = shell.children(&format!("/consumers/{GROUP}/ids")).ok()?;
            without_group(ids.first()?)
        });
        wait_for_owners(&shell, &[id.as_str(); 4]);
        journal.wait_for_flow(PARTITIONS);
        let old = shell.stat(&id_path(&id)).unwrap().ephemeral_owner;
        killed.kill();
        assert_eq!(shell.stat(&owner_path(0)).unwrap().ephemeral_owner, old);

        let begun = Instant::now();
        let member = Member::join(next(&zookeeper), &journal);
        let id = without_group(member.connector.member_id()).unwrap();
        wait_for_owners(&shell, &[id.as_str(); 4]);
        let took = begun.elapsed();
        println!("member {id} owns all partitions after {took:?}");
        assert!(took < 2 * SESSION, "{took:?}");
        let new = shell.stat(&id_path(&id)).unwrap().ephemeral_owner;
        assert!(new.is_some() && new != old);
        for partition in 0..PARTITIONS {
            let owner = shell.stat(&owner_path(partition)).unwrap();
            assert_eq!(owner.ephemeral_owner, new);
        }
        journal.wait_for_flow(PARTITIONS);
        member.leave();
    }
    let last = Member::join(next(&zookeeper), &journal);
    let written = producer.stop();
    journal.wait_for_all(&written);
    last.leave();
    offsets.finish();
    journal.assert_without_gap(&written);
}

#[test]
fn a_member_that_stood_still_for_longer_than_its_session_disturbs_nobody() {
    let mut cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    let zookeeper = cluster.connect_string();
    let shell = cluster.shell();
    let journal = Journal::default();
    let mut a = MemberProcess::start(&zookeeper, &["consumer.id=a"], &journal);
    wait_for_owners(&shell, &["a"; 4]);
    let b = Member::join(member_config(&zookeeper, "b", SESSION), &journal);
    let producer = NumberedProducer::start(&mut cluster, PARTITIONS, PACE);
    let offsets = OffsetWatch::start(&zookeeper, PARTITIONS);
    for _ in 0..3 {
        wait_for_owners(&shell, &["a", "a", "b", "b"]);
        journal.wait_for_flow(PARTITIONS);
        a.signal("-STOP");
        wait_for_owners(&shell, &["b"; 4]);
        journal.wait_for_flow(PARTITIONS);
        // It still believes that it owns what it owned, and has messages queued and offsets to commit.
        a.signal("-CONT");
    }
    wait_for_owners(&shell, &["a", "a", "b", "b"]);
    journal.wait_for_flow(PARTITIONS);
    let written = producer.stop();
    journal.wait_for_all(&written);
    a.kill();
    b.leave();
    offsets.finish();
    journal.assert_without_gap(&written);
}

fn without_group(member: &str) -> Option<String> {
    member.strip_prefix(&format!("{GROUP}_")).map(str::to_owned)
}

/// `kzc consume`: a member in a process of its own; killed when dropped.
struct MemberProcess {
    child: Child,
    reader: Option<JoinHandle<()>>,
}

impl MemberProcess {
    /// Joins the group; what it prints goes into the journal.
    fn start(zookeeper: &str, properties: &[&str], journal: &Journal) -> Self {
        let session = format!("zookeeper.session.timeout.ms={}", SESSION.as_millis());
        let properties = properties.iter().copied();
        let mut child = Command::new(env!("CARGO_BIN_EXE_kzc"))
            .args(["consume", "--zookeeper", zookeeper, "--topic", TOPIC])
            .args(["--group", GROUP, "--from-beginning"])
            .args(["--print", "partition,offset,value"])
            .args(["--property", "auto.commit.interval.ms=200"])
            .args(["--property", &session])
            .args(properties.flat_map(|property| ["--property", property]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let journal = journal.clone();
        let reader = thread::spawn(move || {
            let mut line = String::new();
            // A line without end was cut by the kill.
            while output.read_line(&mut line).is_ok() && line.ends_with('\n') {
                journal.note(parse(&line));
                line.clear();
            }
        });
        Self {
            child,
            reader: Some(reader),
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([signal, &id]).status();
        assert!(status.unwrap().success());
    }

    /// SIGKILL: its session lives on for a while, and with it its nodes.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

impl Drop for MemberProcess {
    fn drop(&mut self) {
        // Fails if it is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(line: &str) -> Delivery {
    let mut fields = line.trim_end().split('\t');
    let mut next = || fields.next().unwrap().parse::<u64>().unwrap();
    Delivery {
        member: String::from("killed"),
        partition: i32::try_from(next()).unwrap(),
        offset: i64::try_from(next()).unwrap(),
        number: next(),
        at: Instant::now(),
    }
}
