//! The JVM's mirror, as a member of a group with several streams.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use super::kafka_version::KafkaVersion;
use super::process::JavaCommand;
use super::process::JavaProcess;

const STOP_LIMIT: Duration = Duration::from_secs(60);

/// `kafka.tools.MirrorMaker` as a process. It copies topics under their names, to any partition.
///
/// Up to 0.8.2 its streams are those of one member, from 0.9 on each belongs to a member of its own.
pub struct MirrorMaker {
    process: JavaProcess,
    _folder: TempDir,
}

impl MirrorMaker {
    /// Copies all topics that match `whitelist` to the brokers of `target`, `host:port,host:port`.
    ///
    /// `properties` are lines of the consumer's property file, such as `("group.id", "g")`.
    pub fn start(
        version: KafkaVersion,
        whitelist: &str,
        streams: usize,
        properties: &[(&str, &str)],
        target: &str,
    ) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kzc-mirror-maker-")
            .tempdir()
            .expect("temporary folder");
        let lines = properties
            .iter()
            .map(|(key, value)| format!("{key}={value}\n"));
        let producer = format!(
            "bootstrap.servers={target}\nmetadata.broker.list={target}\nproducer.type=sync\n\
             request.required.acks=1\nacks=1\n"
        );
        for (name, text) in [
            ("consumer", lines.collect::<String>()),
            ("producer", producer),
        ] {
            let file = folder.path().join(format!("{name}.properties"));
            fs::write(file, text).expect("write a property file");
        }
        let process = JavaCommand::new(
            "mirror-maker",
            &version.class_path(),
            "kafka.tools.MirrorMaker",
        )
        .arguments(["--consumer.config", "consumer.properties"])
        .arguments(["--producer.config", "producer.properties"])
        .arguments(["--num.streams", &streams.to_string()])
        .arguments(["--whitelist", whitelist])
        .start(folder.path());
        Self {
            process,
            _folder: folder,
        }
    }

    /// SIGTERM: it copies what it has read, commits, and leaves the group. Waits for its end.
    pub fn stop(&mut self) {
        self.process.terminate();
        self.process.wait_for_exit(STOP_LIMIT);
    }

    pub fn process(&mut self) -> &mut JavaProcess {
        &mut self.process
    }
}
