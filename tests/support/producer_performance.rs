//! Fills topics fast, for benchmarks.

use std::fs;
use std::time::Duration;

use super::kafka_version::KafkaVersion;
use super::process::JavaCommand;

const LIMIT: Duration = Duration::from_secs(600);

/// The new producer's `ProducerPerformance` of 0.8.2.2, run to its end; later brokers understand it
/// as well.
pub struct ProducerPerformance;

impl ProducerPerformance {
    /// Appends `count` messages of `size` bytes, all of them the byte 1, without keys, in turn to
    /// each partition.
    ///
    /// `compression` is `none`, `gzip`, `snappy` or `lz4`. Returns what the tool printed.
    pub fn fill(
        broker_list: &str,
        topic: &str,
        count: u64,
        size: usize,
        compression: &str,
    ) -> String {
        let folder = tempfile::Builder::new()
            .prefix("kzc-producer-performance-")
            .tempdir()
            .expect("temporary folder");
        let class = "org.apache.kafka.clients.tools.ProducerPerformance";
        let output = JavaCommand::new(
            "producer-performance",
            &KafkaVersion::V0_8_2_2.class_path(),
            class,
        )
        .arguments([topic, &count.to_string(), &size.to_string(), "-1"])
        .arguments([
            format!("bootstrap.servers={broker_list}"),
            format!("compression.type={compression}"),
        ])
        .arguments([
            "acks=1",
            "batch.size=65536",
            "buffer.memory=67108864",
            "block.on.buffer.full=true",
        ])
        .full_speed()
        .run(folder.path(), LIMIT);
        // It counts a message that it could not send as sent, and prints why to its log.
        let log = fs::read_to_string(folder.path().join("producer-performance.log"))
            .expect("read its log");
        assert!(
            !log.contains("Exception"),
            "ProducerPerformance lost messages:\n{log}"
        );
        output
    }
}
