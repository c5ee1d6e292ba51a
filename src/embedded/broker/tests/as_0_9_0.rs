//! Groups' offsets as 0.9.0 answers for them, exchange by exchange.

use crate::embedded::BrokerVersion;
use crate::embedded::EmbeddedCluster;
use crate::embedded::broker::tests::Client;
use crate::embedded::broker::tests::ODD_COMMITS;
use crate::embedded::broker::tests::OFFSETS_IN_LOG;
use crate::embedded::broker::tests::OFFSETS_IN_ZOOKEEPER;
use crate::embedded::broker::tests::cluster;
use crate::embedded::broker::tests::leave_garbage;

#[test]
fn offsets_are_answered_as_recorded_from_0_9_0() {
    let builder = EmbeddedCluster::builder().version(BrokerVersion::V0_9_0);
    let cluster = cluster(builder.offsets_topic(8, 2));
    // As in the recordings: broker 0 keeps the offsets of `g1`, and broker 1 those of `g2`.
    let replicas: Vec<Vec<i32>> = (0..8).map(|n| vec![n % 2, (n + 1) % 2]).collect();
    cluster
        .create_assigned_topic("__consumer_offsets", &replicas)
        .unwrap();
    leave_garbage(&cluster, "g1");
    let mut client = Client::of(&cluster, 0);
    client.replay("k090-find-coordinator-v0-broker0");
    client.replay("k090-find-coordinator-v0-broker1");
    client.replay_all("k090-offset-", &OFFSETS_IN_ZOOKEEPER);
    client.replay_all("k090-offset-", &OFFSETS_IN_LOG);
    let mut other = Client::of(&cluster, 1);
    other.replay("k090-offset-fetch-v1-not-coordinator");
    other.replay("k090-offset-commit-v1-not-coordinator");
    client.replay_all("k090-offset-", &ODD_COMMITS);
    let newer = [
        "commit-v2",
        "commit-v2-retention",
        "commit-v2-unknown-member",
        "fetch-v1-after-v2",
        "fetch-v2-answered-as-v1",
    ];
    client.replay_all("k090-offset-", &newer);
    // Passed over, while the connection stays open.
    client.send("k090-offset-commit-v3");
    client.send("k090-find-coordinator-v1");
    client.replay("k090-offset-fetch-v1-after-v2");
    cluster.stop(1).unwrap();
    client.replay("k090-find-coordinator-v0-failover");
}
