//! Where the jars are.

use std::env;
use std::path::Path;
use std::path::PathBuf;

/// The jars that `tests/setup.sh` unpacked or installed.
pub struct Components;

impl Components {
    /// Class path of Kafka 0.8.2.2, broker and tools, and of ZooKeeper 3.4.6 which comes with it.
    pub fn kafka_0_8_2_2() -> String {
        Self::folder("kafka-0.8.2.2", "kafka_2.9.2-0.8.2.2.jar")
    }

    /// Class path of Kafka 0.9.0.1, broker and tools.
    pub fn kafka_0_9_0_1() -> String {
        Self::folder("kafka-0.9.0.1", "kafka_2.11-0.9.0.1.jar")
    }

    /// Class path of ZooKeeper 3.4.6.
    pub fn zookeeper_3_4_6() -> String {
        Self::folder("kafka-0.8.2.2", "zookeeper-3.4.6.jar")
    }

    /// Class path of the ZooKeeper that Debian ships (3.8): its manifest names all it needs but a
    /// logger.
    pub fn zookeeper_debian() -> String {
        let jars = ["zookeeper.jar", "slf4j-log4j12.jar", "log4j-1.2.jar"];
        let paths = jars.map(|jar| format!("/usr/share/java/{jar}"));
        for path in &paths {
            assert_present(Path::new(path));
        }
        paths.join(":")
    }

    fn folder(name: &str, witness: &str) -> String {
        let folder = root().join(name);
        assert_present(&folder.join(witness));
        format!("{}/*", folder.display())
    }
}

/// `KZC_COMPONENTS`, or `target/real-components` of the crate; as in tests/setup.sh.
fn root() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    match env::var_os("KZC_COMPONENTS") {
        Some(folder) => crate_folder.join(folder),
        None => crate_folder.join("target/real-components"),
    }
}

#[track_caller]
fn assert_present(path: &Path) {
    assert!(
        path.exists(),
        "{} is missing: run tests/setup.sh, which installs the real components these tests need",
        path.display()
    );
}
