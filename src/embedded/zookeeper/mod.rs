//! A ZooKeeper server for development and tests: in this process, on a loopback port.
//!
//! ```text
//!  clients ==> Acceptor --> Connection: Request ---+          LocalSession (no socket)
//!                 |             ^                  v               |
//!              Faults         Outbox <------- Database <-----------+
//!                              reply,          |  |  |
//!                              event     DataTree | SessionTable <--- thread zk-expiry
//!                                            WatchManager
//! ```
//!
//! It answers as ZooKeeper 3.4 does, oddities included, to every request that such a server knows.
//! It stands alone (no quorum), keeps its persistent nodes in a Journal where it is given a folder,
//! and enforces no access list: it stores the lists and shows them. One lock orders all requests,
//! so a watch fires before the reply to the write that caused it, and a restart is a server that
//! forgot its connections and nothing else.

mod acceptor;
mod change;
mod connection;
mod create_mode;
mod data_tree;
mod database;
mod embedded_zookeeper;
mod faults;
mod four_letter_word;
mod journal;
mod local_event;
mod local_session;
mod node;
mod node_error;
mod node_path;
mod node_record;
mod options;
mod outbox;
mod record_reader;
mod record_writer;
mod reply;
mod request;
mod server;
mod session;
mod stat;
mod transaction;
mod watch_manager;

pub use create_mode::CreateMode;
pub use embedded_zookeeper::EmbeddedZooKeeper;
pub use local_event::LocalEvent;
pub use local_session::LocalSession;
pub use node_error::NodeError;
pub use options::EmbeddedZooKeeperOptions;
pub use session::SessionInfo;
pub use stat::Stat;

#[cfg(test)]
mod tests;
