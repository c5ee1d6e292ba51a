//! One real ZooKeeper server.

use std::fs;
use std::io;
use std::io::Read;
use std::io::Write;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::components::Components;
use super::kafka_version::KafkaVersion;
use super::port::free_port;
use super::process::JavaCommand;
use super::process::JavaProcess;
use super::wait::wait_until;

const START_LIMIT: Duration = Duration::from_secs(180);

/// Which server to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZooKeeperVersion {
    /// The one that this Kafka was released with.
    BesideKafka(KafkaVersion),
    /// The one of Debian, 3.8.
    Debian,
}

impl ZooKeeperVersion {
    pub const V3_4_6: Self = Self::BesideKafka(KafkaVersion::V0_8_2_2);
}

/// A standalone server on a loopback port; grants session timeouts from 1 to 60 s, in steps of half
/// a second.
pub struct ZooKeeper {
    version: ZooKeeperVersion,
    port: u16,
    process: JavaProcess,
    folder: TempDir,
}

impl ZooKeeper {
    /// Starts version 3.4.6 and waits until it serves.
    pub fn start() -> Self {
        Self::start_version(ZooKeeperVersion::V3_4_6)
    }

    /// Starts a server and waits until it serves.
    pub fn start_version(version: ZooKeeperVersion) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kzc-zookeeper-")
            .tempdir()
            .expect("temporary folder");
        let port = free_port();
        fs::write(
            folder.path().join("zoo.cfg"),
            configuration(folder.path(), port),
        )
        .expect("write zoo.cfg");
        let process = launch(version, folder.path());
        let mut server = Self {
            version,
            port,
            process,
            folder,
        };
        server.wait_until_serving();
        server
    }

    pub fn version(&self) -> ZooKeeperVersion {
        self.version
    }

    /// `127.0.0.1:<port>`
    pub fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// SIGKILL. Data and port stay reserved for [`restart`](Self::restart).
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts again on the same port and data, after killing it if it still runs. Sessions survive.
    pub fn restart(&mut self) {
        self.kill();
        self.process = launch(self.version, self.folder.path());
        self.wait_until_serving();
    }

    /// Stops serving while its sockets stay open.
    pub fn pause(&mut self) {
        self.process.pause();
    }

    pub fn resume(&mut self) {
        self.process.resume();
    }

    /// Its sessions, when they expire, and their ephemeral nodes: the answer to `dump`.
    pub fn dump(&self) -> String {
        self.ask("dump").expect("ask ZooKeeper for a dump")
    }

    /// The answer to a four letter word.
    ///
    /// # Errors
    /// When the server does not answer within two seconds.
    pub fn ask(&self, word: &str) -> io::Result<String> {
        let limit = Duration::from_secs(2);
        let mut socket = TcpStream::connect_timeout(&self.address(), limit)?;
        socket.set_read_timeout(Some(limit))?;
        socket.write_all(word.as_bytes())?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer)?;
        Ok(answer)
    }

    pub fn process(&mut self) -> &mut JavaProcess {
        &mut self.process
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    fn wait_until_serving(&mut self) {
        wait_until(START_LIMIT, "ZooKeeper to serve", || {
            assert!(
                self.process.is_running(),
                "ZooKeeper has ended:\n{}",
                self.process.log_tail()
            );
            self.ask("srvr")
                .is_ok_and(|answer| answer.contains("Mode: standalone"))
        });
    }
}

fn launch(version: ZooKeeperVersion, folder: &Path) -> JavaProcess {
    let class_path = match version {
        ZooKeeperVersion::BesideKafka(kafka) => kafka.class_path(),
        ZooKeeperVersion::Debian => Components::zookeeper_debian(),
    };
    JavaCommand::new(
        "zookeeper",
        &class_path,
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
    )
    .arguments(["zoo.cfg"])
    .start(folder)
}

/// Keys that a version does not know become system properties that nobody reads.
fn configuration(folder: &Path, port: u16) -> String {
    format!(
        "dataDir={}\n\
         clientPortAddress=127.0.0.1\n\
         clientPort={port}\n\
         tickTime=500\n\
         minSessionTimeout=1000\n\
         maxSessionTimeout=60000\n\
         maxClientCnxns=0\n\
         forceSync=no\n\
         preAllocSize=1024\n\
         admin.enableServer=false\n\
         4lw.commands.whitelist=*\n",
        folder.join("data").display()
    )
}
