//! Servers inside the process, for demos, for development and for tests that need no Java.
//!
//! They listen on real loopback sockets and speak the real protocols, so every client of a real
//! cluster can talk to them; everything they know is in memory. They are no production servers:
//! one machine, no authentication, no disk, and faults on demand.
//!
//! Uses the leaves and `protocol`, nothing above.

mod reserved_port;
mod zookeeper;

pub use zookeeper::CreateMode;
pub use zookeeper::EmbeddedZooKeeper;
pub use zookeeper::EmbeddedZooKeeperOptions;
pub use zookeeper::LocalEvent;
pub use zookeeper::LocalSession;
pub use zookeeper::NodeError;
pub use zookeeper::SessionInfo;
pub use zookeeper::Stat;
