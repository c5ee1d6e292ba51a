//! One real Kafka broker.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;

use super::kafka_version::KafkaVersion;
use super::port::free_port;
use super::process::JavaCommand;
use super::process::JavaProcess;
use super::wait::wait_until;
use super::zookeeper_shell::ZooKeeperShell;

const START_LIMIT: Duration = Duration::from_secs(180);
const STOP_LIMIT: Duration = Duration::from_secs(90);

/// A broker on a loopback port. ZooKeeper notices its death within its session timeout and a second.
pub struct Kafka {
    version: KafkaVersion,
    id: i32,
    port: u16,
    zookeeper: String,
    full_speed: bool,
    process: JavaProcess,
    folder: TempDir,
}

impl Kafka {
    /// Starts a broker and waits until it is registered and accepts connections.
    ///
    /// `zookeeper` is a connect string; `overrides` are lines of `server.properties`.
    pub fn start(
        version: KafkaVersion,
        id: i32,
        zookeeper: &str,
        overrides: &[(&str, &str)],
    ) -> Self {
        let mut broker = Self::launch(version, id, zookeeper, overrides, false);
        broker.wait_until_serving();
        broker
    }

    /// Starts a broker without waiting for it. `full_speed` is for benchmarks.
    pub fn launch(
        version: KafkaVersion,
        id: i32,
        zookeeper: &str,
        overrides: &[(&str, &str)],
        full_speed: bool,
    ) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kzc-kafka-")
            .tempdir()
            .expect("temporary folder");
        let port = free_port();
        configure(version, id, port, zookeeper, folder.path(), overrides);
        let process = run(version, full_speed, folder.path());
        Self {
            version,
            id,
            port,
            zookeeper: zookeeper.to_owned(),
            full_speed,
            process,
            folder,
        }
    }

    /// Waits until it is registered and accepts connections.
    pub fn wait_until_serving(&mut self) {
        let shell = ZooKeeperShell::connect(&self.zookeeper);
        let registration = self.registration();
        wait_until(START_LIMIT, "a broker to serve", || {
            assert!(
                self.process.is_running(),
                "broker {} has ended:\n{}",
                self.id,
                self.process.log_tail()
            );
            shell.exists(&registration) && TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    pub fn id(&self) -> i32 {
        self.id
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:<port>`
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// SIGKILL. Its registration stays until its session has expired; data and port until it is
    /// dropped.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGTERM, and waits until it has shut down in order.
    pub fn stop(&mut self) {
        self.process.terminate();
        self.process.wait_for_exit(STOP_LIMIT);
    }

    /// Starts again with the same id, port and data, after killing it if it still runs.
    ///
    /// Waits for the end of the old registration first: brokers from 0.9 on refuse to start before.
    pub fn restart(&mut self) {
        self.kill();
        self.wait_until_deregistered();
        self.process = run(self.version, self.full_speed, self.folder.path());
        self.wait_until_serving();
    }

    /// Shuts down in order, and goes on with the same id, port and data as another version or with other lines of
    /// `server.properties`.
    pub fn restart_as(&mut self, version: KafkaVersion, overrides: &[(&str, &str)]) {
        self.stop();
        self.version = version;
        let folder = self.folder.path();
        configure(
            version,
            self.id,
            self.port,
            &self.zookeeper,
            folder,
            overrides,
        );
        self.restart();
    }

    /// Waits until ZooKeeper has noticed that it died.
    pub fn wait_until_deregistered(&self) {
        let shell = ZooKeeperShell::connect(&self.zookeeper);
        let registration = self.registration();
        wait_until(
            Duration::from_secs(90),
            "a broker's registration to vanish",
            || !shell.exists(&registration),
        );
    }

    /// Stops serving while its sockets stay open; it loses its session unless resumed within the timeout.
    pub fn pause(&mut self) {
        self.process.pause();
    }

    pub fn resume(&mut self) {
        self.process.resume();
    }

    pub fn process(&mut self) -> &mut JavaProcess {
        &mut self.process
    }

    /// Where it keeps the segments of a partition.
    pub fn partition_folder(&self, topic: &str, partition: i32) -> PathBuf {
        let logs = self.folder.path().join("logs");
        logs.join(format!("{topic}-{partition}"))
    }

    fn registration(&self) -> String {
        format!("/brokers/ids/{}", self.id)
    }
}

fn run(version: KafkaVersion, full_speed: bool, folder: &Path) -> JavaProcess {
    let command = JavaCommand::new("kafka", &version.class_path(), "kafka.Kafka")
        .arguments(["server.properties"]);
    match full_speed {
        true => command.full_speed().heap("1g").start(folder),
        false => command.start(folder),
    }
}

/// A small broker that notices and repairs everything fast. A version warns of the keys that it does not know.
const DEFAULTS: &[(&str, &str)] = &[
    ("num.partitions", "1"),
    ("auto.create.topics.enable", "false"),
    ("delete.topic.enable", "true"),
    ("controlled.shutdown.enable", "false"),
    ("auto.leader.rebalance.enable", "false"),
    ("zookeeper.connection.timeout.ms", "30000"),
    ("controller.socket.timeout.ms", "3000"),
    ("replica.socket.timeout.ms", "3000"),
    ("replica.lag.time.max.ms", "3000"),
    ("replica.fetch.wait.max.ms", "100"),
    ("offsets.topic.num.partitions", "4"),
    ("offsets.topic.replication.factor", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("num.network.threads", "2"),
    ("num.io.threads", "2"),
    ("background.threads", "2"),
    ("log.cleaner.enable", "false"),
    ("log.index.size.max.bytes", "1048576"),
];

/// Writes `server.properties`.
fn configure(
    version: KafkaVersion,
    id: i32,
    port: u16,
    zookeeper: &str,
    folder: &Path,
    overrides: &[(&str, &str)],
) {
    let mut text = format!(
        "broker.id={id}\nzookeeper.connect={zookeeper}\nlog.dirs={}\nzookeeper.session.timeout.ms={}\n",
        folder.join("logs").display(),
        version.session_timeout().as_millis()
    );
    text += &match version {
        KafkaVersion::V0_8_2_2 => {
            format!("port={port}\nhost.name=127.0.0.1\nadvertised.host.name=127.0.0.1\n")
        }
        _ => format!("listeners=PLAINTEXT://127.0.0.1:{port}\n"),
    };
    // The last of several equal keys counts in a Java property file.
    for (key, value) in DEFAULTS.iter().chain(overrides) {
        text += &format!("{key}={value}\n");
    }
    fs::write(folder.join("server.properties"), text).expect("write server.properties");
}
