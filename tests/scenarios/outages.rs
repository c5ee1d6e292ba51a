//! ZooKeeper sessions end, and ZooKeeper goes away: a group of two gets over it by itself.

use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::Event;

use crate::scenarios::member::OffsetWatch;
use crate::scenarios::numbered::GROUP;
use crate::scenarios::numbered::Journal;
use crate::scenarios::numbered::Member;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::numbered::OwnershipWatch;
use crate::scenarios::numbered::TOPIC;
use crate::scenarios::numbered::id_path;
use crate::scenarios::numbered::member_config;
use crate::scenarios::numbered::owner_path;
use crate::scenarios::numbered::wait_for_owners;
use crate::support::Cluster;
use crate::support::Version;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

const PARTITIONS: i32 = 4;
const OWNERS: [&str; 4] = ["a", "a", "b", "b"];
/// More than a machine that is busy ever makes a thread wait.
const NOISE: Duration = Duration::from_secs(1);

/// Two members that consume what a producer writes, and those who watch them.
struct Group<C> {
    cluster: C,
    session: Duration,
    journal: Journal,
    a: Member,
    b: Member,
    producer: NumberedProducer,
    /// `None` where two may own a partition for a moment.
    ownership: Option<OwnershipWatch>,
    offsets: OffsetWatch,
}

impl<C: Cluster> Group<C> {
    fn start(version: impl Version<Cluster = C>, session: Duration) -> Self {
        // The broker keeps its own session through what the members have to get over.
        let overrides = [("zookeeper.session.timeout.ms", "60000")];
        let cluster = version.start_with(1, &overrides);
        cluster.create_topic(TOPIC, PARTITIONS, 1);
        let zookeeper = cluster.connect_string();
        let journal = Journal::default();
        let a = Member::join(member_config(&zookeeper, "a", session), &journal);
        let b = Member::join(member_config(&zookeeper, "b", session), &journal);
        let producer =
            NumberedProducer::start(&cluster, TOPIC, PARTITIONS, Duration::from_millis(10));
        let group = Self {
            ownership: Some(OwnershipWatch::start([&a, &b])),
            offsets: OffsetWatch::start(&zookeeper, GROUP, TOPIC, PARTITIONS),
            cluster,
            session,
            journal,
            a,
            b,
            producer,
        };
        group.wait_until_settled();
        group
    }

    /// Owners by the range rule, all partitions flowing, and both members content.
    #[track_caller]
    fn wait_until_settled(&self) {
        wait_for_owners(&self.cluster.shell(), &OWNERS);
        self.journal.wait_for_flow(PARTITIONS);
        for member in [&self.a, &self.b] {
            wait_until(self.session + NOISE, "a content member", || {
                matches!(
                    member.connector.state(),
                    ConnectorState::Consuming { partitions: 2, .. }
                )
            });
        }
        assert_eq!(
            (self.a.partitions(), self.b.partitions()),
            (vec![0, 1], vec![2, 3])
        );
    }

    /// Nothing was delivered by anybody in this time.
    #[track_caller]
    fn assert_silence(&self, from: Instant, to: Instant) {
        let late: Vec<_> = self
            .journal
            .deliveries()
            .into_iter()
            .filter(|delivery| delivery.at > from && delivery.at < to)
            .collect();
        assert!(
            late.is_empty(),
            "{} messages after the lease, the last {:?} after it: {:?}",
            late.len(),
            late.last().map(|delivery| delivery.at - from),
            late.last()
        );
    }

    /// Ends it all, and proves that nothing was lost. Returns what was delivered.
    #[track_caller]
    fn finish(self) -> Journal {
        let written = self.producer.stop();
        self.journal.wait_for_all(&written);
        if let Some(watch) = self.ownership {
            watch.finish();
        }
        self.a.leave();
        self.b.leave();
        let shell = self.cluster.shell();
        self.offsets.finish();
        for (partition, written) in (0..).zip(&written) {
            let stored = shell
                .get(&crate::scenarios::numbered::offset_path(partition))
                .unwrap();
            assert_eq!(stored, written.to_string(), "everything is committed");
        }
        self.journal.assert_without_gap(&written);
        self.journal
    }
}

pub(crate) fn an_expired_session_is_followed_by_another_one_that_takes_the_partitions_back(
    version: impl Version,
) {
    let mut group = Group::start(version, Duration::from_secs(3));
    // Whoever ends a session from outside lets others take the partitions over before its member can know.
    group.ownership = None;
    let zookeeper = group.cluster.connect_string();
    let shell = group.cluster.shell();
    for id in ["a", "b", "a"] {
        let member = if id == "a" { &group.a } else { &group.b };
        let since = Instant::now();
        let session = shell.stat(&id_path(id)).unwrap().ephemeral_owner.unwrap();
        wait_until(Duration::from_secs(20), "the member to notice", || {
            // The member may be faster: it takes its session back before it can be ended.
            let _ = ZooKeeperShell::expire(&zookeeper, session);
            let is_expired = |event: &Event| *event == Event::SessionExpired;
            member.event(since, is_expired).is_some()
        });
        wait_until(
            Duration::from_secs(20),
            "another session of the member",
            || {
                shell
                    .stat(&id_path(id))
                    .is_ok_and(|stat| stat.ephemeral_owner != Some(session))
            },
        );
        group.wait_until_settled();
    }
    group.finish();
}

pub(crate) fn a_hang_of_zookeeper_shorter_than_the_session_stops_nothing(version: impl Version) {
    let mut group = Group::start(version, Duration::from_secs(20));
    let rebalances = group.a.rebalances() + group.b.rebalances();
    let generations = [&group.a, &group.b].map(|member| member.connector.state());
    group.cluster.pause_zookeeper();
    // For a while, that is: the members do not notice at once.
    for _ in 0..10 {
        group.journal.wait_for_flow(PARTITIONS);
    }
    group.cluster.resume_zookeeper();
    group.wait_until_settled();
    assert_eq!(
        [&group.a, &group.b].map(|member| member.connector.state()),
        generations
    );
    assert_eq!(group.a.rebalances() + group.b.rebalances(), rebalances);
    let journal = group.finish();
    journal.assert_without_repeats();
    journal.assert_delivered_by(&OWNERS);
}

pub(crate) fn a_restart_of_zookeeper_within_the_session_stops_nothing(version: impl Version) {
    let mut group = Group::start(version, Duration::from_secs(30));
    let generations = [&group.a, &group.b].map(|member| member.connector.state());
    let since = Instant::now();
    group.cluster.kill_zookeeper();
    for member in [&group.a, &group.b] {
        let is_disconnected = |event: &Event| *event == Event::ZooKeeperDisconnected;
        member.wait_for_event(since, "a lost connection", is_disconnected);
    }
    group.journal.wait_for_flow(PARTITIONS);
    group.cluster.restart_zookeeper();
    for member in [&group.a, &group.b] {
        let is_back = |event: &Event| *event == Event::ZooKeeperReconnected;
        member.wait_for_event(since, "the connection to come back", is_back);
    }
    group.wait_until_settled();
    assert_eq!(
        [&group.a, &group.b].map(|member| member.connector.state()),
        generations,
        "what they owned they own still"
    );
    let journal = group.finish();
    journal.assert_without_repeats();
    journal.assert_delivered_by(&OWNERS);
}

pub(crate) fn a_zookeeper_away_for_longer_than_the_session_stops_the_delivery_until_it_is_back(
    version: impl Version,
) {
    let mut group = Group::start(version, Duration::from_secs(3));
    for _ in 0..2 {
        let since = Instant::now();
        group.cluster.kill_zookeeper();
        let ended = wait_for_leases_to_end(&group, since);
        group.cluster.restart_zookeeper();
        group.wait_until_settled();
        assert_owned_by_living_sessions(&group);
        println!("leases ended {:?} after the outage began", ended - since);
    }
    group.finish();
}

pub(crate) fn a_zookeeper_that_hangs_for_longer_than_the_session_stops_the_delivery_until_it_is_back(
    version: impl Version,
) {
    let mut group = Group::start(version, Duration::from_secs(3));
    for _ in 0..4 {
        let since = Instant::now();
        group.cluster.pause_zookeeper();
        let ended = wait_for_leases_to_end(&group, since);
        group.cluster.resume_zookeeper();
        group.wait_until_settled();
        assert_owned_by_living_sessions(&group);
        println!("leases ended {:?} after the outage began", ended - since);
    }
    group.finish();
}

/// Waits until both members have stopped for want of ZooKeeper, not later than a session after the last time
/// they can have heard of it, and until they have shown that they stay silent.
#[track_caller]
fn wait_for_leases_to_end(group: &Group<impl Cluster>, since: Instant) -> Instant {
    let over = since + group.session + NOISE;
    let ends = [&group.a, &group.b].map(|member| {
        let is_end = |event: &Event| *event == Event::LeaseEnded;
        member.wait_for_event(since, "the lease to end", is_end)
    });
    for end in ends {
        assert!(end < over, "the lease ended {:?} too late", end - over);
    }
    let heard = group.journal.deliveries().iter().any(|delivery| {
        delivery.at > since + group.session / 3 && delivery.at < since + group.session
    });
    assert!(heard, "delivery goes on until the lease ends");
    // The event was told before the delivery had stopped: who read it still saw the old state.
    for member in [&group.a, &group.b] {
        assert_eq!(member.connector.state(), ConnectorState::SessionLost);
        assert_eq!(member.partitions(), [0; 0]);
    }
    let last = ends[0].max(ends[1]);
    wait_until(2 * NOISE, "some time to pass", || last.elapsed() > NOISE);
    group.assert_silence(over.max(last), Instant::now());
    last
}

#[track_caller]
fn assert_owned_by_living_sessions(group: &Group<impl Cluster>) {
    let dump = {
        let shell = group.cluster.shell();
        (0..PARTITIONS)
            .map(|partition| shell.stat(&owner_path(partition)).unwrap().ephemeral_owner)
            .zip(OWNERS.map(|id| shell.stat(&id_path(id)).unwrap().ephemeral_owner))
            .collect::<Vec<_>>()
    };
    for (owner, member) in dump {
        assert_eq!(owner, member, "one session holds all nodes of a member");
    }
}
