//! Our own benchmark tool.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::FETCH_SIZE;
use crate::RECEIVE_BUFFER;
use crate::report::Reading;

/// Reads `messages` messages in a new process, and tells of all of them.
pub(crate) fn read(kzc: &Path, zookeeper: &str, topic: &str, messages: u64) -> Reading {
    let receive_buffer = format!("socket.receive.buffer.bytes={RECEIVE_BUFFER}");
    let output = Command::new(kzc)
        .args(["perf", "--json", "--zookeeper", zookeeper, "--topic", topic])
        .args(["--messages", &messages.to_string()])
        .args(["--fetch-size", &FETCH_SIZE.to_string()])
        .args(["--property", &receive_buffer])
        // As the original tool has it: a busy machine may be silent for a second.
        .args(["--property", "consumer.timeout.ms=5000"])
        .output()
        .expect("run kzc");
    assert!(output.status.success(), "kzc perf failed: {output:?}");
    let outcome: Value = serde_json::from_slice(&output.stdout).expect("JSON from kzc perf");
    assert_eq!(outcome["messages"], messages, "{outcome}");
    let count = outcome["messages"].as_f64().expect("a number");
    Reading {
        messages_per_second: outcome["messages_per_second"].as_f64().expect("a number"),
        cpu_seconds_per_message: outcome["cpu_seconds_consuming"]
            .as_f64()
            .map(|seconds| seconds / count),
        peak_resident_bytes: outcome["peak_resident_bytes"].as_f64(),
    }
}
