//! The JVM's own producer, for messages that the small one of [`BrokerConnection`] cannot write.
//!
//! [`BrokerConnection`]: super::BrokerConnection

use std::fs;
use std::time::Duration;

use super::kafka_version::KafkaVersion;
use super::process::JavaCommand;

const LIMIT: Duration = Duration::from_secs(180);

/// `kafka.tools.ConsoleProducer`, run to its end.
pub struct ConsoleProducer;

impl ConsoleProducer {
    /// Appends a message per line, without keys, spread over the partitions.
    ///
    /// `compression` is `none`, `gzip`, `snappy` or `lz4`. The messages have the format of the
    /// producer's version.
    pub fn produce(
        version: KafkaVersion,
        broker_list: &str,
        topic: &str,
        compression: &str,
        lines: &[&str],
    ) {
        let folder = tempfile::Builder::new()
            .prefix("kzc-console-producer-")
            .tempdir()
            .expect("temporary folder");
        let input = folder.path().join("lines");
        fs::write(
            &input,
            lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>(),
        )
        .expect("write lines");
        JavaCommand::new(
            "console-producer",
            &version.class_path(),
            "kafka.tools.ConsoleProducer",
        )
        .arguments([
            "--broker-list",
            broker_list,
            "--topic",
            topic,
            "--compression-codec",
            compression,
        ])
        .arguments((version == KafkaVersion::V0_8_2_2).then_some("--new-producer"))
        // Its own defaults, no acknowledgement and 1.5 s, lose messages on a busy machine.
        .arguments([
            "--request-required-acks",
            "-1",
            "--request-timeout-ms",
            "30000",
        ])
        .input(&input)
        .run(folder.path(), LIMIT);
        // It reports a message that it could not send by nothing but a line of its log.
        let log =
            fs::read_to_string(folder.path().join("console-producer.log")).expect("read its log");
        assert!(
            !log.contains(" ERROR "),
            "the console producer lost messages:\n{log}"
        );
    }
}
