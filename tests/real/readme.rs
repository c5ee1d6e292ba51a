//! Gives the examples of README.md a cluster to run against; see tests/readme.sh.

use std::env;
use std::process::Command;

use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::RealCluster;

const TOPIC: &str = "demo";
const PARTITIONS: i32 = 4;
const MESSAGES_PER_PARTITION: usize = 25;

#[test]
#[ignore = "tests/readme.sh runs it with the script to run in KZC_SCRIPT"]
fn every_smoke_example_succeeds_against_a_real_cluster() {
    let script = env::var("KZC_SCRIPT").expect("KZC_SCRIPT names the script to run");
    let cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic(TOPIC, PARTITIONS, 1);
    for partition in 0..PARTITIONS {
        let values = (0..MESSAGES_PER_PARTITION)
            .map(|n| format!("message-{partition}-{n}"))
            .collect::<Vec<_>>();
        cluster.produce(
            TOPIC,
            partition,
            &values.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    }
    let status = Command::new("bash")
        .args(["-euo", "pipefail", &script])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("ZOOKEEPER", cluster.connect_string())
        .env("BROKERS", cluster.broker_list())
        .status()
        .expect("run bash");
    assert!(status.success(), "{script} failed: {status}");
}
