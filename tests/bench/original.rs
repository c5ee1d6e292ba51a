//! The original's own benchmark tool.

use crate::FETCH_SIZE;
use crate::process_usage::cpu_seconds;
use crate::process_usage::peak_resident_bytes;
use crate::report::Reading;
use crate::support::ConsumerPerformance;
use crate::support::ConsumerPerformanceOptions;
use crate::support::KafkaVersion;

/// Rows of detailed statistics in a whole run.
const ROWS: u64 = 20;

/// Largest heap that kafka-consumer-perf-test.sh asks for unless told otherwise.
const HEAP: &str = "512m";

/// Reads `messages` messages, and tells of the second half of them: by then the JVM has started,
/// joined and compiled what is hot.
pub(crate) fn read(zookeeper: &str, topic: &str, messages: u64) -> Reading {
    let options = ConsumerPerformanceOptions {
        threads: 1,
        fetch_threads: 1,
        messages,
        reporting_interval: messages / ROWS,
        fetch_size: FETCH_SIZE,
        heap: HEAP.to_owned(),
    };
    let mut usages = Vec::new();
    let mut peak = 0.0;
    let version = KafkaVersion::V0_8_2_2;
    let outcome =
        ConsumerPerformance::run_observed(version, zookeeper, topic, &options, |id, row| {
            usages.extend(cpu_seconds(id).map(|cpu| (row.messages, cpu)));
            peak = peak_resident_bytes(id).unwrap_or(peak);
        });
    let mut warmed = outcome;
    warmed.rows.retain(|row| row.messages >= messages / 2);
    usages.retain(|(read, _)| *read >= messages / 2);
    let (first, last) = (usages[0], usages[usages.len() - 1]);
    Reading {
        messages_per_second: warmed.messages_per_second(),
        cpu_seconds_per_message: Some((last.1 - first.1) / float(last.0 - first.0)),
        peak_resident_bytes: Some(peak),
    }
}

fn float(count: u64) -> f64 {
    f64::from(u32::try_from(count).expect("fewer than 2^32 messages"))
}
