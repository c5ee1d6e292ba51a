//! The values of `roundrobin.version`.

use crate::config::choices::choices;

/// `roundrobin.version`: as the members of which Kafka `roundrobin` deals out.
///
/// The rules changed twice, and members that go by different ones claim the same partitions for ever. So all
/// members of a group must go by the same; the default fits all members from 0.8.2 to 0.11 whose subscriptions are
/// equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RoundRobinVersion {
    /// `0.8.2`: up to 0.10.1. Every member must ask for the same topics with as many threads for each; where one
    /// does not, nobody's rebalance succeeds.
    V0_8_2,
    /// `0.10.2`: from 0.10.2 to 0.11. The same order of partitions, and subscriptions may differ (KAFKA-2434).
    V0_10_2,
    /// `1.0`: from 1.0 to 1.1. Subscriptions may differ, and the partitions are in another order, since
    /// KAFKA-5822 changed their names.
    V1_0,
}

choices!(RoundRobinVersion, "roundrobin.version", any_case: false, {
    V0_8_2: "0.8.2",
    V0_10_2: "0.10.2",
    V1_0: "1.0",
});
