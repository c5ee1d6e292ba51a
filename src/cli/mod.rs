//! The command-line tool: reads topics to standard output, or measures how fast that goes.
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
//! Knows nothing of the library but what `lib.rs` exports. Every wait is cut into slices of 100 ms, between
//! which a thread looks whether it has to end.

mod arguments;
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

pub(crate) use run::run;
