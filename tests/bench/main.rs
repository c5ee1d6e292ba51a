//! The benchmark from end to end against a real broker; see docs/benchmarks.md.
//!
//! ```text
//!  Arguments ---> main ---> Workload: fills a topic
//!                  |
//!                  +--> each round, one after the other
//!                  |      Original: kafka.tools.ConsumerPerformance, its warmed second half
//!                  |      Ours:     kzc perf
//!                  |      Limit:    one socket, one thread, checksums only
//!                  |
//!                  +--> Rebalance: a second member joins, of the original and of ours
//!                  v
//!               Report ---> table, JSON
//! ```

// Clippy takes only functions with the attribute `test` for tests; a benchmark is test code as well.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used
)]

#[path = "../support/mod.rs"]
mod support;

mod arguments;
mod limit;
mod original;
mod ours;
mod process_usage;
mod rebalance;
mod report;
mod workload;

use std::env;
use std::fs;

use arguments::Arguments;
use rebalance::Rebalance;
use report::Report;
use support::KafkaVersion;
use support::RealCluster;
use workload::Workload;

/// Bytes of each partition in one fetch: the default of both tools.
pub(crate) const FETCH_SIZE: usize = 1024 * 1024;

/// SO_RCVBUF: the default of the original tool.
pub(crate) const RECEIVE_BUFFER: usize = 2 * 1024 * 1024;

fn main() {
    let arguments = Arguments::parse(env::args().skip(1)).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(2);
    });
    let mut report = Report::new(arguments.rounds);
    let cluster = RealCluster::start_at_full_speed(
        KafkaVersion::V0_8_2_2,
        1,
        &[("log.flush.interval.messages", "9223372036854775807")],
    );
    for workload in Workload::all(&arguments) {
        if arguments.wants(workload.name) {
            eprintln!("filling {}: {} messages", workload.name, workload.messages);
            workload.fill(&cluster);
            for round in 1..=arguments.rounds {
                report.add_reading(&workload, round, &workload.run(&cluster, &arguments.kzc));
            }
        }
    }
    let rebalance = Rebalance::new(arguments.partitions);
    if arguments.wants(Rebalance::NAME) {
        rebalance.prepare(&cluster);
        for round in 1..=arguments.rounds {
            report.add_rebalance(round, &rebalance.run(&cluster, &arguments.kzc, round));
        }
    }
    println!("{}", report.table());
    if let Some(path) = &arguments.json {
        fs::write(path, report.json().to_string()).expect("write the JSON report");
    }
}
