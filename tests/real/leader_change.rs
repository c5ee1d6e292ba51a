//! Brokers die, their partitions get other leaders, and the group does not even notice.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crate::numbered::GROUP;
use crate::numbered::Journal;
use crate::numbered::Member;
use crate::numbered::NumberedProducer;
use crate::numbered::SOON;
use crate::numbered::TOPIC;
use crate::numbered::member_config;
use crate::numbered::wait_for_owners;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_for;
use crate::support::wait_until;

const PARTITIONS: i32 = 3;
const BACKOFF: Duration = Duration::from_millis(200);
/// For a machine that has other things to do.
const NOISE: Duration = Duration::from_secs(5);

pub(crate) fn killed_leaders_cost_neither_a_message_nor_a_rebalance(version: KafkaVersion) {
    let overrides = [("unclean.leader.election.enable", "false")];
    let mut cluster = RealCluster::start_with(version, 3, &overrides);
    cluster.create_topic(TOPIC, PARTITIONS, 3);
    let shell = cluster.shell();
    let journal = Journal::default();
    let config = member_config(&cluster.connect_string(), "a", Duration::from_secs(20));
    let member = Member::join(config.refresh_leader_backoff(BACKOFF), &journal);
    let producer =
        NumberedProducer::start(&mut cluster, TOPIC, PARTITIONS, Duration::from_millis(10));
    journal.wait_for_flow(PARTITIONS);
    let state = member.connector.state();
    let rebalances = member.rebalances();

    // The leader of partition 0, and then whoever leads it now, so that one broker is left.
    for _ in 0..2 {
        let victim = cluster.leader(TOPIC, 0);
        let led: Vec<i32> = (0..PARTITIONS)
            .filter(|partition| cluster.leader(TOPIC, *partition) == victim)
            .collect();
        cluster.broker(victim).kill();
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

/// Waits until each partition that `victim` led has another leader and delivers again, and measures the time
/// between the two.
#[track_caller]
fn assert_flow_returns(cluster: &RealCluster, journal: &Journal, victim: i32, led: &[i32]) {
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
