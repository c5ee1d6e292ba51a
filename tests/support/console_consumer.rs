//! The JVM's own high-level consumer, as a member of a group.

use std::fs;
use std::io::BufRead;
use std::io::BufReader;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use tempfile::TempDir;

use super::kafka_version::KafkaVersion;
use super::process::JavaCommand;
use super::process::JavaProcess;
use super::wait::POLL;

const STOP_LIMIT: Duration = Duration::from_secs(90);

/// Options of a [`ConsoleConsumer`].
#[derive(Clone, Debug, Default)]
pub struct ConsoleConsumerOptions<'a> {
    /// Lines of the consumer's property file, such as `("group.id", "g")`.
    ///
    /// Without `group.id` it makes up a group. It overrides `auto.offset.reset` by
    /// `from_beginning`.
    pub properties: &'a [(&'a str, &'a str)],
    /// Starts at the smallest offset. With a group that has offsets already it ends at once with an
    /// error.
    pub from_beginning: bool,
    /// More arguments, such as `["--property", "print.key=true"]`.
    pub arguments: &'a [&'a str],
}

/// `kafka.tools.ConsoleConsumer` as a process; the lines that it prints are collected while it
/// runs.
pub struct ConsoleConsumer {
    process: JavaProcess,
    lines: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
}

impl ConsoleConsumer {
    /// Consumes one topic.
    pub fn start(
        version: KafkaVersion,
        zookeeper: &str,
        topic: &str,
        options: &ConsoleConsumerOptions<'_>,
    ) -> Self {
        Self::start_on(version, zookeeper, "--topic", topic, options)
    }

    /// Consumes all topics that match a Java regular expression.
    pub fn start_on_whitelist(
        version: KafkaVersion,
        zookeeper: &str,
        whitelist: &str,
        options: &ConsoleConsumerOptions<'_>,
    ) -> Self {
        Self::start_on(version, zookeeper, "--whitelist", whitelist, options)
    }

    /// Consumes all topics that do not match a Java regular expression.
    pub fn start_on_blacklist(
        version: KafkaVersion,
        zookeeper: &str,
        blacklist: &str,
        options: &ConsoleConsumerOptions<'_>,
    ) -> Self {
        Self::start_on(version, zookeeper, "--blacklist", blacklist, options)
    }

    fn start_on(
        version: KafkaVersion,
        zookeeper: &str,
        selector: &str,
        topics: &str,
        options: &ConsoleConsumerOptions<'_>,
    ) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kzc-console-consumer-")
            .tempdir()
            .expect("temporary folder");
        let properties = options
            .properties
            .iter()
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect::<String>();
        fs::write(folder.path().join("consumer.properties"), properties)
            .expect("write consumer.properties");
        let command = JavaCommand::new(
            "console-consumer",
            &version.class_path(),
            "kafka.tools.ConsoleConsumer",
        )
        .arguments([
            "--zookeeper",
            zookeeper,
            selector,
            topics,
            "--consumer.config",
            "consumer.properties",
        ])
        .arguments(options.from_beginning.then_some("--from-beginning"))
        .arguments(options.arguments);
        let mut process = command.piped().start(folder.path());
        let lines = Arc::new(Mutex::new(Vec::new()));
        collect(
            process.take_stdout().expect("standard output is piped"),
            Arc::clone(&lines),
        );
        Self {
            process,
            lines,
            _folder: folder,
        }
    }

    /// What it has printed so far: a message each.
    pub fn lines(&self) -> Vec<String> {
        self.lines
            .lock()
            .expect("the collector does not panic")
            .clone()
    }

    /// Waits until it has printed so many lines, and returns all there are.
    #[track_caller]
    pub fn wait_for_lines(&mut self, count: usize, limit: Duration) -> Vec<String> {
        let deadline = Instant::now() + limit;
        while self.lines().len() < count {
            let running = self.process.is_running() && Instant::now() < deadline;
            assert!(
                running || self.lines().len() >= count,
                "{count} lines expected within {limit:?} of a console consumer that has printed {:?}",
                self.lines()
            );
            thread::sleep(POLL);
        }
        self.lines()
    }

    /// SIGTERM: it leaves the group in order, committing its offsets. Waits for its end.
    pub fn stop(&mut self) {
        self.process.terminate();
        self.process.wait_for_exit(STOP_LIMIT);
    }

    /// SIGKILL: its ephemeral nodes stay until its session has expired.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    pub fn process(&mut self) -> &mut JavaProcess {
        &mut self.process
    }
}

fn collect(stdout: ChildStdout, lines: Arc<Mutex<Vec<String>>>) {
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            match lines.lock() {
                Ok(mut lines) => lines.push(line),
                Err(_) => return,
            }
        }
    });
}
