//! Members are killed, and start again at once: what their sessions hold is still there. Others stand still for
//! longer than their sessions live, and go on as if nothing had happened.

use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConsumerConfigBuilder;

use crate::scenarios::member::OffsetWatch;
use crate::scenarios::member::Process;
use crate::scenarios::member::kzc_consume;
use crate::scenarios::member::numbered;
use crate::scenarios::numbered::Delivery;
use crate::scenarios::numbered::GROUP;
use crate::scenarios::numbered::Journal;
use crate::scenarios::numbered::Member;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::numbered::TOPIC;
use crate::scenarios::numbered::group_config;
use crate::scenarios::numbered::id_path;
use crate::scenarios::numbered::member_config;
use crate::scenarios::numbered::owner_path;
use crate::scenarios::numbered::wait_for_owners;
use crate::support::Cluster;
use crate::support::Version;
use crate::support::wait_for;

const PARTITIONS: i32 = 4;
const PACE: Duration = Duration::from_millis(10);
const LIMIT: Duration = Duration::from_secs(90);
/// That of [`kzc_consume`] too.
const SESSION: Duration = Duration::from_secs(4);

pub(crate) fn a_killed_member_starts_again_at_once_with_the_same_id(version: impl Version) {
    restart_after_kill(version, &["consumer.id=a"], |zookeeper| {
        member_config(zookeeper, "a", SESSION)
    });
}

pub(crate) fn a_killed_member_starts_again_at_once_with_another_id(version: impl Version) {
    restart_after_kill(version, &[], |zookeeper| group_config(zookeeper, SESSION));
}

/// Kills a member twice, each time followed at once by another one, which has to wait until the old session
/// ends, and no longer.
fn restart_after_kill(
    version: impl Version,
    properties: &[&str],
    next: impl Fn(&str) -> ConsumerConfigBuilder,
) {
    let cluster = version.start(1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    let zookeeper = cluster.connect_string();
    let shell = cluster.shell();
    let journal = Journal::default();
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, PACE);
    let offsets = OffsetWatch::start(&zookeeper, GROUP, TOPIC, PARTITIONS);
    for _ in 0..2 {
        let mut killed = start(&zookeeper, properties, &journal);
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

pub(crate) fn a_member_that_stood_still_for_longer_than_its_session_disturbs_nobody(
    version: impl Version,
) {
    let cluster = version.start(1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    let zookeeper = cluster.connect_string();
    let shell = cluster.shell();
    let journal = Journal::default();
    let mut a = start(&zookeeper, &["consumer.id=a"], &journal);
    wait_for_owners(&shell, &["a"; 4]);
    let b = Member::join(member_config(&zookeeper, "b", SESSION), &journal);
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, PACE);
    let offsets = OffsetWatch::start(&zookeeper, GROUP, TOPIC, PARTITIONS);
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

/// `kzc consume`, whose messages go into the journal.
fn start(zookeeper: &str, properties: &[&str], journal: &Journal) -> Process {
    let journal = journal.clone();
    let properties = properties.iter().copied();
    let mut command = kzc_consume(zookeeper, GROUP, TOPIC);
    command
        .args(["--print", "partition,offset,value"])
        .args(["--property", "auto.commit.interval.ms=200"])
        .args(properties.flat_map(|property| ["--property", property]));
    Process::start_with(&mut command, move |line| journal.note(parse(line)))
}

fn parse(line: &str) -> Delivery {
    let fields: Vec<&str> = line.split('\t').collect();
    let (partition, number) = numbered(fields[2]);
    assert_eq!(fields[0], partition.to_string());
    Delivery {
        member: String::from("killed"),
        partition,
        offset: fields[1].parse().unwrap(),
        number,
        at: Instant::now(),
    }
}
