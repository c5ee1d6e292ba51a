//! Nodes that somebody else holds stand in the way of members, and nodes of members are deleted.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Error;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::TopicPartition;

use crate::scenarios::member::OffsetWatch;
use crate::scenarios::numbered::GROUP;
use crate::scenarios::numbered::Journal;
use crate::scenarios::numbered::Member;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::numbered::SOON;
use crate::scenarios::numbered::TOPIC;
use crate::scenarios::numbered::id_path;
use crate::scenarios::numbered::member_config;
use crate::scenarios::numbered::owner_path;
use crate::scenarios::numbered::wait_for_owners;
use crate::support::Cluster;
use crate::support::Version;
use crate::support::ZooKeeperShell;
use crate::support::wait_for;
use crate::support::wait_until;

const PARTITIONS: i32 = 4;
const PACE: Duration = Duration::from_millis(10);
const LONG_SESSION: Duration = Duration::from_secs(20);

fn cluster<V: Version>(version: V) -> V::Cluster {
    let cluster = version.start(1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    cluster
}

pub(crate) fn an_id_that_lives_on_is_refused_after_a_bounded_wait(version: impl Version) {
    let cluster = cluster(version);
    let stranger = cluster.shell();
    stranger
        .put(&format!("/consumers/{GROUP}/ids"), "")
        .unwrap();
    stranger.create_ephemeral(&id_path("a"), "{}").unwrap();
    let session = Duration::from_secs(2);
    let config = member_config(&cluster.connect_string(), "a", session)
        .build()
        .unwrap();
    let connector = ConsumerConnector::connect(config).unwrap();
    let begun = Instant::now();
    let refused = connector.create_message_streams([(TOPIC, 1)]).unwrap_err();
    assert!(
        matches!(&refused, Error::MemberIdTaken { path, session }
            if *path == id_path("a") && *session == stranger.session_id()),
        "{refused}"
    );
    let took = begun.elapsed();
    assert!(took >= 2 * session && took < 4 * session, "{took:?}");
    assert_eq!(
        stranger.get(&id_path("a")).unwrap(),
        "{}",
        "it was left alone"
    );

    stranger.delete(&id_path("a")).unwrap();
    connector.create_message_streams([(TOPIC, 1)]).unwrap();
    wait_for_owners(&stranger, &["a"; 4]);
}

pub(crate) fn a_running_member_goes_on_trying_to_get_a_partition_that_somebody_else_holds(
    version: impl Version,
) {
    let cluster = cluster(version);
    let zookeeper = cluster.connect_string();
    let shell = cluster.shell();
    let journal = Journal::default();
    let config = member_config(&zookeeper, "a", Duration::from_secs(4))
        .rebalance_max_retries(3)
        .rebalance_backoff(Duration::from_millis(300));
    let member = Member::join(config, &journal);
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, PACE);
    let offsets = OffsetWatch::start(&zookeeper, GROUP, TOPIC, PARTITIONS);
    journal.wait_for_flow(PARTITIONS);

    let since = Instant::now();
    let stranger = hold(&zookeeper, 1);
    let reason = wait_for(SOON, "the retries to be told", || {
        let is_failure = |event: &Event| matches!(event, Event::RebalanceFailed { .. });
        member.event(since, is_failure)?;
        member
            .events()
            .into_iter()
            .find_map(|(_, event)| match event {
                Event::RebalanceFailed {
                    attempts: 3,
                    reason,
                } => Some(reason),
                _ => None,
            })
    });
    assert!(reason.contains(&owner_path(1)), "{reason}");
    let is_lost = |event: &Event| {
        *event
            == Event::NodesLost {
                path: owner_path(1),
            }
    };
    assert!(member.event(since, is_lost).is_some());
    // It goes on: more attempts than were told of fail.
    wait_until(SOON, "more attempts", || {
        let is_later = |event: &Event| matches!(event, Event::RebalanceAttemptFailed { attempt, .. } if *attempt > 5);
        member.event(since, is_later).is_some()
    });
    assert!(matches!(
        member.connector.state(),
        ConnectorState::Rebalancing { failed_attempts, last_failure: Some(reason) }
            if failed_attempts > 3 && reason.contains(&owner_path(1))
    ));
    assert_eq!(
        shell.get(&owner_path(1)).unwrap(),
        "stranger-0",
        "it was left alone"
    );

    let released = Instant::now();
    drop(stranger);
    wait_for_owners(&shell, &["a"; 4]);
    println!("taken {:?} after the release", released.elapsed());
    journal.wait_for_flow(PARTITIONS);
    let written = producer.stop();
    journal.wait_for_all(&written);
    member.leave();
    offsets.finish();
    journal.assert_without_gap(&written);
}

/// Takes a partition from whoever owns it.
fn hold(zookeeper: &str, partition: i32) -> ZooKeeperShell {
    let stranger = ZooKeeperShell::connect(zookeeper);
    let path = owner_path(partition);
    wait_until(SOON, "a stranger to own a partition", || {
        let _ = stranger.delete(&path);
        stranger.create_ephemeral(&path, "stranger-0").is_ok()
    });
    stranger
}

pub(crate) fn a_member_that_cannot_start_says_why_and_leaves_nothing_behind(version: impl Version) {
    let cluster = cluster(version);
    let zookeeper = cluster.connect_string();
    let stranger = cluster.shell();
    stranger
        .put(&format!("/consumers/{GROUP}/owners/{TOPIC}"), "")
        .unwrap();
    stranger
        .create_ephemeral(&owner_path(2), "stranger-0")
        .unwrap();
    let config = member_config(&zookeeper, "a", LONG_SESSION)
        .rebalance_max_retries(3)
        .rebalance_backoff(Duration::from_millis(300))
        .build()
        .unwrap();
    let connector = Arc::new(ConsumerConnector::connect(config).unwrap());
    let refused = connector.create_message_streams([(TOPIC, 1)]).unwrap_err();
    assert!(
        matches!(&refused, Error::RebalanceFailed { attempts, .. } if *attempts >= 3),
        "{refused}"
    );
    assert!(
        refused.chain().contains(&owner_path(2)),
        "{}",
        refused.chain()
    );
    let owners = format!("/consumers/{GROUP}/owners/{TOPIC}");
    assert_eq!(stranger.children(&owners).unwrap(), ["2"]);
    assert_eq!(stranger.get(&owner_path(2)).unwrap(), "stranger-0");
    let ids = stranger.children(&format!("/consumers/{GROUP}/ids"));
    assert_eq!(ids.unwrap(), [""; 0]);
    assert_eq!(connector.state(), ConnectorState::Created);
    assert_eq!(connector.owned_partitions(), Vec::<TopicPartition>::new());

    stranger.delete(&owner_path(2)).unwrap();
    let mut streams = connector.create_message_streams([(TOPIC, 1)]).unwrap();
    let journal = Journal::default();
    let member = Member::of(connector, streams.remove(TOPIC).unwrap(), &journal);
    wait_for_owners(&stranger, &["a"; 4]);
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, PACE);
    journal.wait_for_flow(PARTITIONS);
    let written = producer.stop();
    journal.wait_for_all(&written);
    member.leave();
    journal.assert_without_gap(&written);
    journal.assert_without_repeats();
}

pub(crate) fn nodes_that_somebody_deletes_come_back(version: impl Version) {
    let cluster = cluster(version);
    let zookeeper = cluster.connect_string();
    let shell = cluster.shell();
    let journal = Journal::default();
    let config = member_config(&zookeeper, "a", Duration::from_secs(3));
    let member = Member::join(config, &journal);
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, PACE);
    let offsets = OffsetWatch::start(&zookeeper, GROUP, TOPIC, PARTITIONS);
    journal.wait_for_flow(PARTITIONS);
    let session = shell.stat(&id_path("a")).unwrap().ephemeral_owner;
    let state = member.connector.state();

    // The registration: nothing of what the member owns has changed.
    for _ in 0..3 {
        shell.delete(&id_path("a")).unwrap();
        wait_until(SOON, "the registration to come back", || {
            shell
                .stat(&id_path("a"))
                .is_ok_and(|stat| stat.ephemeral_owner == session)
        });
        wait_until(SOON, "a content member", || {
            member.connector.state() == state
        });
    }
    let partitions = shell.get(&id_path("a")).unwrap();
    assert!(partitions.contains(TOPIC), "{partitions}");

    // An owner node: somebody may have taken the partition meanwhile, so that it is claimed anew.
    let since = Instant::now();
    shell.delete(&owner_path(3)).unwrap();
    let is_lost = |event: &Event| {
        *event
            == Event::NodesLost {
                path: owner_path(3),
            }
    };
    member.wait_for_event(since, "the loss to be noticed", is_lost);
    wait_for_owners(&shell, &["a"; 4]);
    assert_eq!(shell.stat(&owner_path(3)).unwrap().ephemeral_owner, session);

    // All at once, as `--delete-consumer-offsets` of the JVM's tools does, but for the offsets.
    let since = Instant::now();
    shell.delete(&id_path("a")).unwrap();
    for partition in 0..PARTITIONS {
        shell.delete(&owner_path(partition)).unwrap();
    }
    let is_done = |event: &Event| matches!(event, Event::RebalanceFinished { .. });
    member.wait_for_event(since, "a rebalance", is_done);
    wait_for_owners(&shell, &["a"; 4]);
    assert!(shell.exists(&id_path("a")));
    journal.wait_for_flow(PARTITIONS);
    let written = producer.stop();
    journal.wait_for_all(&written);
    member.leave();
    offsets.finish();
    journal.assert_without_gap(&written);
}
