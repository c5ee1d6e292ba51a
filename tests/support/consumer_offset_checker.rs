//! How the JVM's tools see a group.

use std::time::Duration;

use super::kafka_version::KafkaVersion;
use super::process::JavaCommand;

const LIMIT: Duration = Duration::from_secs(180);

/// A line of `kafka.tools.ConsumerOffsetChecker`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetLine {
    pub group: String,
    pub topic: String,
    pub partition: i32,
    /// Next offset to consume; `None` without a commit.
    pub offset: Option<i64>,
    pub log_size: Option<i64>,
    /// Consumer id of the owner with the number of its thread; `None` without one.
    pub owner: Option<String>,
}

/// `kafka.tools.ConsumerOffsetChecker`, run to its end.
pub struct ConsumerOffsetChecker;

impl ConsumerOffsetChecker {
    /// A line for each partition of a topic, in their order.
    pub fn check(
        version: KafkaVersion,
        zookeeper: &str,
        group: &str,
        topic: &str,
    ) -> Vec<OffsetLine> {
        let folder = tempfile::Builder::new()
            .prefix("kzc-offset-checker-")
            .tempdir()
            .expect("temporary folder");
        let class = "kafka.tools.ConsumerOffsetChecker";
        let output = JavaCommand::new("consumer-offset-checker", &version.class_path(), class)
            .arguments(["--zookeeper", zookeeper, "--group", group, "--topic", topic])
            .run(folder.path(), LIMIT);
        let mut lines = output.lines().filter_map(parse).collect::<Vec<_>>();
        assert!(
            !lines.is_empty(),
            "no partition among what ConsumerOffsetChecker printed: {output}"
        );
        lines.sort_by_key(|line| line.partition);
        lines
    }
}

/// `Group Topic Pid Offset logSize Lag Owner`; `None` for the header and any other line.
fn parse(line: &str) -> Option<OffsetLine> {
    let columns = line.split_whitespace().collect::<Vec<_>>();
    let [group, topic, partition, offset, log_size, _lag, owner] = columns.as_slice() else {
        return None;
    };
    Some(OffsetLine {
        group: (*group).to_owned(),
        topic: (*topic).to_owned(),
        partition: partition.parse().ok()?,
        offset: offset.parse().ok().filter(|offset| *offset >= 0),
        log_size: log_size.parse().ok(),
        owner: (*owner != "none").then(|| (*owner).to_owned()),
    })
}
