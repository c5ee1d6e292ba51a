//! Kafka brokers: real sockets, logs in memory and, where wanted, in a folder, one state for all of them.
//!
//! ```text
//!  client ==> BrokerServer, a thread for each connection
//!                  |  frame                      BrokerFaults: what goes wrong
//!                  v                                  |
//!            RequestHandler <-------------------------+
//!              |  producing, fetching, describing
//!              v
//!            SharedState: brokers, topics, Partition ---> PartitionLog of each replica
//!              ^
//!              |  elections, topics, sessions of killed brokers
//!            Controller ---> Announcements ---> Registry ---> ZooKeeper
//! ```
//!
//! Followers do not fetch: an append puts the set into the logs of all replicas that keep up, under the lock of the
//! state. So whatever a leader has acknowledged to anybody is on all of them, and its death loses nothing.
//!
//! Knows nothing of consumers and their groups.

mod append_rules;
mod offset_assignment;
mod partition;
mod partition_log;
mod partition_store;

mod announcements;
mod cluster_state;
mod controller;
mod registry;
mod replica_assignment;
mod restoring;

mod offset_record;

mod coordinating;
mod describing;
mod fetch_sessions;
mod fetching;
mod finding;
mod producing;
mod request_handler;

mod broker_server;
mod brokers;

pub(crate) use brokers::Brokers;

#[cfg(test)]
mod tests;
