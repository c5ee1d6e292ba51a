//! Groups' offsets as 0.9.0 answers for them, exchange by exchange.

use crate::embedded::BrokerVersion;
use crate::embedded::EmbeddedCluster;
use crate::embedded::broker::tests::Client;
use crate::embedded::broker::tests::cluster;

#[test]
fn offsets_are_answered_as_recorded_from_0_9_0() {
    let builder = EmbeddedCluster::builder().version(BrokerVersion::V0_9_0);
    let cluster = cluster(builder.offsets_topic(8, 2));
    // As in the recordings: broker 0 keeps the offsets of `g1`, and broker 1 those of `g2`.
    let replicas: Vec<Vec<i32>> = (0..8).map(|n| vec![n % 2, (n + 1) % 2]).collect();
    cluster
        .create_assigned_topic("__consumer_offsets", &replicas)
        .unwrap();
    let session = cluster.zookeeper().local_session();
    let garbage = "/consumers/g1/offsets/seg/0";
    let mode = crate::embedded::CreateMode::Persistent;
    session.create_with_parents(garbage, b"x", mode).unwrap();
    let mut client = Client::of(&cluster, 0);
    client.replay("k090-find-coordinator-v0-broker0");
    client.replay("k090-find-coordinator-v0-broker1");
    for name in [
        "commit-v0",
        "fetch-v0",
        "fetch-v0-none",
        "fetch-v0-unknown-topic",
        "commit-v0-unknown-topic",
        "commit-v0-metadata-too-large",
        "fetch-v0-garbage",
        "commit-v1",
        "fetch-v1",
        "fetch-v1-none",
        "fetch-v1-unknown-topic",
        "fetch-v1-unknown-partition",
        "fetch-v1-all",
    ] {
        client.replay(&format!("k090-offset-{name}"));
    }
    let mut other = Client::of(&cluster, 1);
    other.replay("k090-offset-fetch-v1-not-coordinator");
    other.replay("k090-offset-commit-v1-not-coordinator");
    for name in [
        "commit-v1-metadata-too-large",
        "commit-v1-unknown-topic",
        "commit-v1-generation",
        "commit-v1-timestamp",
        "commit-v2",
        "commit-v2-retention",
        "commit-v2-unknown-member",
        "fetch-v1-after-v2",
        "fetch-v2-answered-as-v1",
    ] {
        client.replay(&format!("k090-offset-{name}"));
    }
    // Passed over, while the connection stays open.
    client.send("k090-offset-commit-v3");
    client.send("k090-find-coordinator-v1");
    client.replay("k090-offset-fetch-v1-after-v2");
    cluster.stop(1).unwrap();
    client.replay("k090-find-coordinator-v0-failover");
}
