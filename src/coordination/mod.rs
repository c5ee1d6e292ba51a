//! What a group keeps in ZooKeeper, and the rules over it.
//!
//! ```text
//!  BrokerRegistry  /brokers/ids/<id> -----------> LiveBrokers (BrokerRegistration)
//!
//!  TopicRegistry   /brokers/topics/<topic> -----> partitions ----+
//!                                                                v
//!  GroupRegistry   /consumers/<group>                     AssignmentContext
//!                    /ids/<member> -------------> TopicCount ----^    |
//!                    /owners/<topic>/<partition> <-- claim, release   | PartitionAssignor
//!                    /offsets/<topic>/<partition> <-- store offsets   v (RangeAssignor, RoundRobinAssignor)
//!                                                                Assignment
//! ```
//!
//! Whatever concerns many nodes goes through a few pipelines, however many they are. What other
//! members and brokers wrote is read leniently: a node that cannot be used counts for nothing and
//! is reported, and stops nobody.
//!
//! Knows nothing of brokers' sockets, streams or when to rebalance.

mod java_regex;

mod consumer_id;
mod topic_count;
mod topic_filter;

mod assignment;
mod range_assignor;
mod round_robin_assignor;

mod broker_registration;
mod broker_registry;
mod group_registry;
mod registered_brokers;
mod topic_registry;

mod lenient_json;

#[cfg(test)]
#[cfg(any(feature = "embedded", feature = "real-brokers"))]
mod tests;

pub(crate) use assignment::Assignment;
pub(crate) use assignment::AssignmentContext;
pub(crate) use assignment::PartitionAssignor;
pub(crate) use broker_registry::BrokerRegistry;
pub(crate) use consumer_id::ConsumerThreadId;
pub(crate) use consumer_id::epoch_millis;
pub(crate) use consumer_id::member_id;
pub(crate) use group_registry::Claim;
pub(crate) use group_registry::GroupRegistry;
pub(crate) use group_registry::Member as RegisteredMember;
pub(crate) use group_registry::OwnedOffset;
pub(crate) use group_registry::SeenNode;
pub(crate) use range_assignor::RangeAssignor;
pub use registered_brokers::registered_brokers;
pub(crate) use round_robin_assignor::RoundRobinAssignor;
pub(crate) use topic_count::TopicCount;
pub(crate) use topic_count::check_topic;
pub use topic_filter::TopicFilter;
pub(crate) use topic_filter::refused as refused_filter;
pub(crate) use topic_registry::TopicRegistry;
