//! The command-line tool: reads topics to standard output, measures how fast that goes, writes lines to a topic,
//! and shows all of it at work on an embedded cluster.
//!
//! ```text
//!  Arguments ---> Settings (file, then properties, then flags) ---> ConsumerConfig
//!      |                                                                 |
//!      +---> run ---> consume --+                                        v
//!                |              +---> Session: connector, events as warnings, throw-away group
//!                +--> perf -----+        |
//!                                        +--> one scoped thread a stream ---> Output or PerfCounters
//! ```
//!
//! `produce` writes through a `Producer`, which `demo` uses as well; `dev_cluster` only waits.
//!
//! Knows nothing of the library but what `lib.rs` exports. Every wait is cut into slices of 100 ms, between
//! which a thread looks whether it has to end.

mod arguments;
#[cfg(feature = "embedded")]
mod embedded_arguments;
mod produce_arguments;

mod failure;
mod settings;

mod run;

mod budget;
mod ending;
mod event_warnings;
mod session;
mod silence;

mod consume;
mod message_format;
mod output;

mod perf;
mod perf_counters;
mod perf_report;
mod process_usage;
mod utc_time;

mod key_partitioner;
mod line_batches;
mod line_parser;
mod produce;
mod producer;

#[cfg(feature = "embedded")]
mod demo;
#[cfg(feature = "embedded")]
mod dev_cluster;

pub(crate) use run::run;
