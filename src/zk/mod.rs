//! ZooKeeper as blocking calls, pipelines of calls, and a channel of events.
//!
//! ```text
//!  any thread                                   thread zk-session
//!
//!  ZkClient ---- call: rounds of requests ----> Link, one connection --> server
//!     ^            (deadline, cancel, retry)      ^
//!     |                                           | opens, keeps alive, abandons
//!  Receiver<ZkEvent> <-- EventQueue <-- Watches   |
//!                             ^           ^       |
//!                             +-----------+-- Supervisor: one session after the other
//! ```
//!
//! A call that meets a short disconnect waits for the next link and finds out what became of its
//! first attempt. Watches fire once and live as long as the session, whatever becomes of the links.
//! This is the only place that knows the crate `zookeeper-client`, and it uses little of it: a
//! client of that crate serves for one connection and is abandoned with it, because its own
//! reconnection backs off without limit, re-sends watches in a form that cannot grow past 128 KiB,
//! and ends sessions which the server still honours.
//!
//! Knows nothing of groups, topics or brokers.

mod bell;
mod call;
mod caller;
mod client;
mod error;
mod event;
mod event_queue;
mod link;
mod request;
mod session;
mod supervisor;
mod watch_request;
mod watches;

pub(crate) use client::CreateMode;
pub(crate) use client::CreateOutcome;
pub(crate) use client::ZkClient;
pub(crate) use client::ZkConfig;
pub(crate) use client::Znode;
pub(crate) use error::ZkError;
pub(crate) use event::SessionEvent;
pub(crate) use event::ZkEvent;

#[cfg(test)]
#[cfg(any(feature = "embedded", feature = "real-brokers"))]
mod tests;
