//! Control over assignment and positions: listeners, chosen partitions, seeks, pauses, starts by time.

mod chosen;
mod listener;
mod positions;

use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::EmbeddedCluster;

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

/// The offset stored for the group `g`.
fn stored(cluster: &EmbeddedCluster, partition: i32) -> Option<i64> {
    let session = cluster.zookeeper().local_session();
    let path = format!("/consumers/g/offsets/orders/{partition}");
    let (data, _) = session.get(&path).ok()?;
    Some(String::from_utf8(data).unwrap().parse().unwrap())
}
