//! How long a group of two needs after the second member has joined.

use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use tempfile::TempDir;

use crate::support::Cluster;
use crate::support::JavaCommand;
use crate::support::JavaProcess;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::ZooKeeperShell;

const TOPIC: &str = "rebalance";
const LIMIT: Duration = Duration::from_secs(120);

/// A topic of many empty partitions.
pub(crate) struct Rebalance {
    partitions: i32,
}

/// Seconds of the original's pair of members, and of ours.
pub(crate) struct RebalanceRound {
    pub(crate) original: f64,
    pub(crate) ours: f64,
}

impl Rebalance {
    pub(crate) const NAME: &str = "rebalance";

    pub(crate) fn new(partitions: i32) -> Self {
        Self { partitions }
    }

    pub(crate) fn prepare(&self, cluster: &RealCluster) {
        eprintln!("creating {} partitions", self.partitions);
        cluster.create_topic(TOPIC, self.partitions, 1);
    }

    pub(crate) fn run(&self, cluster: &RealCluster, kzc: &Path, round: usize) -> RebalanceRound {
        let zookeeper = cluster.connect_string();
        RebalanceRound {
            original: self.measure(cluster, &format!("original-{round}"), |group| {
                OriginalMember::start(&zookeeper, group)
            }),
            ours: self.measure(cluster, &format!("ours-{round}"), |group| {
                OurMember::start(kzc, &zookeeper, group)
            }),
        }
    }

    /// Starts two members, and returns the seconds from the registration of the second one until every
    /// partition is owned as the range rule says.
    fn measure<M>(&self, cluster: &RealCluster, group: &str, start: impl Fn(&str) -> M) -> f64 {
        let shell = cluster.shell();
        let owned = Group {
            shell: &shell,
            path: format!("/consumers/{group}"),
            partitions: self.partitions,
        };
        let _first = start(group);
        poll(|| owned.members().len() == 1 && owned.is_settled());
        let _second = start(group);
        poll(|| owned.members().len() == 2);
        let joined = Instant::now();
        let mut settled = joined;
        poll(|| {
            settled = Instant::now();
            owned.is_settled()
        });
        settled.duration_since(joined).as_secs_f64()
    }
}

/// A group as it stands in ZooKeeper.
struct Group<'a> {
    shell: &'a ZooKeeperShell,
    path: String,
    partitions: i32,
}

impl Group<'_> {
    /// Sorted.
    fn members(&self) -> Vec<String> {
        let ids = self.shell.children(&format!("{}/ids", self.path));
        ids.unwrap_or_default()
    }

    /// Whether each partition is owned as the range rule says: two members share them half and half.
    fn is_settled(&self) -> bool {
        let members = self.members();
        let owners = format!("{}/owners/{TOPIC}", self.path);
        let count = self.shell.children(&owners).map_or(0, |names| names.len());
        let Ok(share) = i32::try_from(members.len()).map(|count| self.partitions / count) else {
            return false;
        };
        let is_right = |partition: i32| {
            let member = &members[usize::try_from(partition / share).expect("fits")];
            let owner = self.shell.get(&format!("{owners}/{partition}"));
            owner.is_ok_and(|owner| owner.strip_prefix(member.as_str()) == Some("-0"))
        };
        let last = self.partitions - 1;
        // The borders first: looking at all takes longer than what is measured.
        i32::try_from(count) == Ok(self.partitions)
            && [0, last / 2, last / 2 + 1, last].into_iter().all(is_right)
            && (0..self.partitions).all(is_right)
    }
}

/// Looks more often than the tests do: what is measured may take milliseconds.
fn poll(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "no end of a rebalance");
        thread::sleep(Duration::from_millis(2));
    }
}

/// `kafka.tools.ConsoleConsumer` with default settings.
struct OriginalMember {
    _process: JavaProcess,
    _folder: TempDir,
}

impl OriginalMember {
    fn start(zookeeper: &str, group: &str) -> Self {
        let folder = folder();
        let properties = format!("group.id={group}\n");
        std::fs::write(folder.path().join("consumer.properties"), properties)
            .expect("write consumer.properties");
        let process = JavaCommand::new(
            "console-consumer",
            &KafkaVersion::V0_8_2_2.class_path(),
            "kafka.tools.ConsoleConsumer",
        )
        .arguments(["--zookeeper", zookeeper, "--topic", TOPIC])
        .arguments(["--consumer.config", "consumer.properties"])
        .heap("512m")
        .log_level("WARN")
        .full_speed()
        .start(folder.path());
        Self {
            _process: process,
            _folder: folder,
        }
    }
}

/// `kzc consume` with default settings.
struct OurMember {
    process: Child,
    _folder: TempDir,
}

impl OurMember {
    fn start(kzc: &Path, zookeeper: &str, group: &str) -> Self {
        let folder = folder();
        let process = Command::new(kzc)
            .args(["consume", "--zookeeper", zookeeper, "--topic", TOPIC])
            .args(["--group", group])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("run kzc");
        Self {
            process,
            _folder: folder,
        }
    }
}

impl Drop for OurMember {
    fn drop(&mut self) {
        self.process.kill().expect("kill kzc");
        self.process.wait().expect("wait for kzc");
    }
}

fn folder() -> TempDir {
    tempfile::Builder::new()
        .prefix("kzc-bench-")
        .tempdir()
        .expect("temporary folder")
}
