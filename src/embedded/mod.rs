//! Servers inside the process, for demos, for development and for tests that need no Java.
//!
//! ```text
//!  EmbeddedCluster
//!    |-- EmbeddedZooKeeper <== clients
//!    |        ^ LocalSession
//!    |        |
//!    +---- Brokers         <== clients
//! ```
//!
//! They listen on real loopback sockets and speak the real protocols, so every client of a real
//! cluster can talk to them; what they know is in memory, and in a folder where one is given. They
//! are no production servers: one machine, no authentication, and faults on demand.
//!
//! Uses the leaves and `protocol`, nothing above.

mod clock;
mod reserved_port;
mod zookeeper;

mod broker;
mod broker_settings;
mod broker_version;
mod faults;
mod topic_name;

mod cluster_builder;
mod cluster_description;
mod embedded_cluster;

pub use zookeeper::CreateMode;
pub use zookeeper::EmbeddedZooKeeper;
pub use zookeeper::EmbeddedZooKeeperOptions;
pub use zookeeper::LocalEvent;
pub use zookeeper::LocalSession;
pub use zookeeper::NodeError;
pub use zookeeper::SessionInfo;
pub use zookeeper::Stat;

pub use broker_version::BrokerVersion;
pub use cluster_builder::ClusterBuilder;
pub use cluster_description::BrokerDescription;
pub use cluster_description::ClusterDescription;
pub use cluster_description::PartitionDescription;
pub use embedded_cluster::EmbeddedCluster;
pub use faults::AnswerFault;
pub use faults::Api;
pub use faults::ConnectionFault;
