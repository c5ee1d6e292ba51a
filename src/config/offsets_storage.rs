//! The values of `offsets.storage`.

use crate::config::choices::choices;

/// `offsets.storage`: where a group keeps its offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffsetsStorage {
    /// `zookeeper`: in the nodes `/consumers/<group>/offsets`.
    ZooKeeper,
    /// `kafka`: in the topic `__consumer_offsets`, through the broker that coordinates the group. Brokers from
    /// 0.8.2 on keep offsets.
    Kafka,
}

// As in Kafka, in any case.
choices!(OffsetsStorage, "offsets.storage", any_case: true, {
    ZooKeeper: "zookeeper",
    Kafka: "kafka",
});
