//! Where the jars are.

use std::env;
use std::path::Path;
use std::path::PathBuf;

/// The jars that `tests/setup.sh` unpacked or installed.
pub struct Components;

impl Components {
    /// Class path of a Kafka, broker and tools, and of the ZooKeeper which comes with it.
    ///
    /// `main_jar` is the one of the broker.
    pub fn kafka(number: &str, main_jar: &str) -> String {
        let folder = root().join(format!("kafka-{number}"));
        assert_present(&folder.join(main_jar));
        format!("{}/*", folder.display())
    }

    /// The logger that Kafka 1.0 and later ask for and do not depend upon.
    pub fn logger() -> String {
        debian(&["slf4j-log4j12.jar", "log4j-1.2.jar"])
    }

    /// Class path of the ZooKeeper that Debian ships (3.8): its manifest names all it needs but a
    /// logger.
    pub fn zookeeper_debian() -> String {
        format!("{}:{}", debian(&["zookeeper.jar"]), Self::logger())
    }
}

fn debian(jars: &[&str]) -> String {
    let paths: Vec<String> = jars
        .iter()
        .map(|jar| format!("/usr/share/java/{jar}"))
        .collect();
    for path in &paths {
        assert_present(Path::new(path));
    }
    paths.join(":")
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
        "{} is missing: run tests/setup.sh, which installs the real components these tests need; with \
         --all-brokers those of the tests on later brokers, too",
        path.display()
    );
}
