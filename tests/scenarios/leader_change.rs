//! Brokers die, their partitions get other leaders, and the group does not even notice.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::ConnectorState;
use kafka_zk_consumer::Event;

use crate::scenarios::member::produce;
use crate::scenarios::member::value;
use crate::scenarios::numbered::GROUP;
use crate::scenarios::numbered::Journal;
use crate::scenarios::numbered::Member;
use crate::scenarios::numbered::NumberedProducer;
use crate::scenarios::numbered::SOON;
use crate::scenarios::numbered::TOPIC;
use crate::scenarios::numbered::member_config;
use crate::scenarios::numbered::wait_for_owners;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::join;
use crate::scenarios::topics_support::shut_down;
use crate::scenarios::topics_support::wait_for_event;
use crate::support::Cluster;
use crate::support::Version;
use crate::support::wait_for;
use crate::support::wait_until;

const PARTITIONS: i32 = 3;
const BACKOFF: Duration = Duration::from_millis(200);
/// For a machine that has other things to do.
const NOISE: Duration = Duration::from_secs(5);

pub(crate) fn killed_leaders_cost_neither_a_message_nor_a_rebalance(version: impl Version) {
    let overrides = [("unclean.leader.election.enable", "false")];
    let mut cluster = version.start_with(3, &overrides);
    cluster.create_topic(TOPIC, PARTITIONS, 3);
    let shell = cluster.shell();
    let journal = Journal::default();
    let config = member_config(&cluster.connect_string(), "a", Duration::from_secs(20));
    let member = Member::join(config.refresh_leader_backoff(BACKOFF), &journal);
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, Duration::from_millis(10));
    journal.wait_for_flow(PARTITIONS);
    let state = member.connector.state();
    let rebalances = member.rebalances();

    // The leader of partition 0, and then whoever leads it now, so that one broker is left.
    for _ in 0..2 {
        let victim = cluster.leader(TOPIC, 0);
        let led: Vec<i32> = (0..PARTITIONS)
            .filter(|partition| cluster.leader(TOPIC, *partition) == victim)
            .collect();
        cluster.kill_broker(victim);
        assert_flow_returns(&cluster, &journal, victim, &led);
        journal.wait_for_flow(PARTITIONS);
    }

    let written = producer.stop();
    journal.wait_for_all(&written);
    assert_eq!(member.connector.state(), state, "the same generation");
    assert_eq!(member.rebalances(), rebalances);
    wait_for_owners(&shell, &["a", "a", "a"]);
    member.leave();
    journal.assert_without_gap(&written);
    journal.assert_without_repeats();
    let ids = shell.children(&format!("/consumers/{GROUP}/ids"));
    assert_eq!(ids.unwrap(), [""; 0]);
}

/// Each gives its leaderships away before it stops, and none gets them back.
pub(crate) fn brokers_that_are_restarted_politely_one_after_the_other_disturb_nobody(
    version: impl Version,
) {
    let overrides = [("controlled.shutdown.enable", "true")];
    let mut cluster = version.start_with(3, &overrides);
    cluster.create_topic(TOPIC, PARTITIONS, 3);
    let journal = Journal::default();
    let config = member_config(&cluster.connect_string(), "a", Duration::from_secs(20));
    let member = Member::join(config.refresh_leader_backoff(BACKOFF), &journal);
    let producer = NumberedProducer::start(&cluster, TOPIC, PARTITIONS, Duration::from_millis(10));
    journal.wait_for_flow(PARTITIONS);
    let state = member.connector.state();
    let rebalances = member.rebalances();
    for broker in 0..3 {
        cluster.stop_broker(broker);
        journal.wait_for_flow(PARTITIONS);
        cluster.restart_broker(broker);
        cluster.wait_for_leaders(TOPIC);
        // Who is stopped next must not be the only one that has everything.
        wait_until(SOON, "replicas that are in sync", || {
            (0..PARTITIONS).all(|partition| {
                let state = cluster.partition_state(TOPIC, partition);
                state.is_some_and(|state| state.isr.len() == 3)
            })
        });
        journal.wait_for_flow(PARTITIONS);
    }
    let written = producer.stop();
    journal.wait_for_all(&written);
    assert_eq!(member.connector.state(), state, "the same generation");
    assert_eq!(member.rebalances(), rebalances);
    member.leave();
    journal.assert_without_gap(&written);
    journal.assert_without_repeats();
}

/// Leaders move while all brokers live: what the old leader answers says so, or nothing at all.
pub(crate) fn leadership_that_moves_is_followed(version: impl Version) {
    let cluster = version.start(2);
    cluster.create_topic(TOPIC, 2, 2);
    let journal = Journal::default();
    let config = member_config(&cluster.connect_string(), "a", Duration::from_secs(20));
    let member = Member::join(config.refresh_leader_backoff(BACKOFF), &journal);
    let producer = NumberedProducer::start(&cluster, TOPIC, 2, Duration::from_millis(10));
    journal.wait_for_flow(2);
    let state = member.connector.state();
    for round in 0..4 {
        for partition in 0..2 {
            let leader = (round + partition + 1) % 2;
            cluster.move_leader(TOPIC, partition, leader);
            assert_eq!(cluster.leader(TOPIC, partition), leader);
        }
        journal.wait_for_flow(2);
    }
    let written = producer.stop();
    journal.wait_for_all(&written);
    assert_eq!(member.connector.state(), state, "the same generation");
    member.leave();
    journal.assert_without_gap(&written);
    journal.assert_without_repeats();
}

/// T54: the messages that the new leader lacks are lost, and others get their offsets.
pub(crate) fn after_an_unclean_election_a_member_beyond_the_log_begins_where_the_rule_says(
    version: impl Version,
) {
    let overrides = [("unclean.leader.election.enable", "true")];
    let mut cluster = version.start_with(2, &overrides);
    cluster.create_topic(TOPIC, 1, 2);
    produce(&cluster, TOPIC, 1, 0, 10);
    let (connector, reader) = join(config(&cluster.connect_string(), GROUP), &[TOPIC]);
    let mut expected: Vec<String> = (0..10).map(|number| value(0, number)).collect();
    let wait_for = |expected: &[String]| {
        wait_until(SOON, &format!("{expected:?}"), || {
            let values = reader.values(TOPIC, 0);
            assert!(expected.starts_with(&values), "{values:?}");
            values.len() == expected.len()
        });
    };
    wait_for(&expected);
    let leader = cluster.leader(TOPIC, 0);
    let follower = 1 - leader;
    cluster.kill_broker(follower);
    cluster.wait_until_deregistered(follower);
    produce(&cluster, TOPIC, 1, 10, 20);
    expected.extend((10..20).map(|number| value(0, number)));
    wait_for(&expected);
    cluster.kill_broker(leader);
    cluster.wait_until_deregistered(leader);
    cluster.restart_broker(follower);
    cluster.wait_for_leaders(TOPIC);
    assert_eq!(cluster.leader(TOPIC, 0), follower);
    produce(&cluster, TOPIC, 1, 20, 25);
    expected.extend((0..10).chain(20..25).map(|number| value(0, number)));
    wait_for(&expected);
    wait_for_event(&connector.events(), "the news of a reset", |event| {
        let is_it = matches!(
            event,
            Event::OffsetReset {
                from: 20,
                to: 0,
                ..
            }
        );
        is_it.then_some(())
    });
    assert_eq!(reader.errors(), []);
    shut_down(&connector);
    reader.finish();
}

/// D25: one look-up that failed ended the look-up of all partitions.
pub(crate) fn a_partition_without_a_leader_does_not_starve_the_others(version: impl Version) {
    let mut cluster = version.start(2);
    cluster.create_topic(TOPIC, 4, 1);
    produce(&cluster, TOPIC, 4, 0, 10);
    let journal = Journal::default();
    let config = member_config(&cluster.connect_string(), "a", Duration::from_secs(20));
    let member = Member::join(config.refresh_leader_backoff(BACKOFF), &journal);
    journal.wait_for_all(&[10; 4]);
    cluster.kill_broker(1);
    cluster.wait_until_deregistered(1);
    let led = |id| (0..4).filter(move |partition| partition % 2 == id);
    assert_eq!(cluster.leader(TOPIC, 0), 0);
    for partition in led(0) {
        let values: Vec<String> = (10..20).map(|number| value(partition, number)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        cluster.produce(TOPIC, partition, &values);
    }
    journal.wait_for_all(&[20, 10, 20, 10]);
    cluster.restart_broker(1);
    cluster.wait_for_leaders(TOPIC);
    for partition in led(1) {
        let values: Vec<String> = (10..20).map(|number| value(partition, number)).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        cluster.produce(TOPIC, partition, &values);
    }
    journal.wait_for_all(&[20; 4]);
    member.leave();
    journal.assert_without_gap(&[20; 4]);
    journal.assert_without_repeats();
}

/// D14: after one empty list of brokers, every restart of a broker made the original rebalance, for ever.
pub(crate) fn a_cluster_whose_brokers_all_die_is_come_back_to_and_its_restarts_cause_no_rebalances(
    version: impl Version,
) {
    let mut cluster = version.start(2);
    cluster.create_topic(TOPIC, 2, 2);
    for broker in 0..2 {
        cluster.stop_broker(broker);
        cluster.wait_until_deregistered(broker);
    }
    let journal = Journal::default();
    let config = member_config(&cluster.connect_string(), "a", Duration::from_secs(20));
    let member = Member::join(config.refresh_leader_backoff(BACKOFF), &journal);
    wait_until(SOON, "the member to wait for brokers", || {
        member.connector.state() == ConnectorState::WaitingForBrokers
    });
    // The last one that stopped is the one that leads at once.
    for broker in [1, 0] {
        cluster.restart_broker(broker);
    }
    cluster.wait_for_leaders(TOPIC);
    produce(&cluster, TOPIC, 2, 0, 10);
    journal.wait_for_all(&[10; 2]);
    let state = member.connector.state();
    let rebalances = member.rebalances();
    for broker in 0..2 {
        wait_until(SOON, "replicas that are in sync", || {
            (0..2).all(|partition| {
                let state = cluster.partition_state(TOPIC, partition);
                state.is_some_and(|state| state.isr.len() == 2)
            })
        });
        cluster.stop_broker(broker);
        cluster.wait_until_deregistered(broker);
        cluster.wait_for_leaders(TOPIC);
        let end = i64::from(10 * (broker + 2));
        produce(&cluster, TOPIC, 2, end - 10, end);
        cluster.restart_broker(broker);
        cluster.wait_for_leaders(TOPIC);
        journal.wait_for_all(&[end; 2]);
    }
    assert_eq!(member.connector.state(), state, "the same generation");
    assert_eq!(member.rebalances(), rebalances);
    member.leave();
    journal.assert_without_gap(&[30; 2]);
    journal.assert_without_repeats();
}

/// Waits until each partition that `victim` led has another leader and delivers again, and measures the time
/// between the two.
#[track_caller]
fn assert_flow_returns(cluster: &impl Cluster, journal: &Journal, victim: i32, led: &[i32]) {
    let (tell, elected) = mpsc::channel();
    for partition in led {
        let (shell, tell, partition) = (cluster.shell(), tell.clone(), *partition);
        let path = format!("/brokers/topics/{TOPIC}/partitions/{partition}/state");
        let body = move || {
            let at = wait_for(SOON, "another leader", || {
                let state: serde_json::Value =
                    serde_json::from_str(&shell.get(&path).ok()?).ok()?;
                let leader = state["leader"].as_i64()?;
                (leader >= 0 && leader != i64::from(victim)).then(Instant::now)
            });
            tell.send((partition, at)).unwrap();
        };
        thread::spawn(body);
    }
    drop(tell);
    for (partition, elected) in elected {
        wait_until(SOON, "the flow to return", || {
            journal.count_since(partition, elected) > 0
        });
        let deliveries = journal.deliveries();
        let mut after = deliveries
            .iter()
            .filter(|delivery| delivery.partition == partition && delivery.at > elected);
        let took = after.next().unwrap().at - elected;
        println!("partition {partition}: flow returned {took:?} after its election");
        assert!(
            took <= 2 * BACKOFF + NOISE,
            "partition {partition}: {took:?}"
        );
    }
}
