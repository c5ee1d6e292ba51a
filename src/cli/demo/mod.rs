//! The demo: one group on a cluster that has its troubles, and a verdict about every message.
//!
//! ```text
//!  demo ---> Play, what happens when ---> Stage: EmbeddedCluster, Members
//!    |                                       |
//!    |          Writer --- numbers ---> Ledger <--- numbers --- each Member
//!    |                                       |
//!    +--- lines ---> Screen               Verdict
//! ```
//!
//! The messages go over sockets, like those of everybody else; only what a person would do to the cluster is done by
//! calls.

mod ledger;
mod verdict;

mod screen;

mod member;
mod writer;

mod play;
mod stage;
mod status;

mod demonstration;

pub(crate) use demonstration::demo;
