//! The embedded ZooKeeper server with the original's own client, of version 3.4.6.

use std::fs;
use std::time::Duration;

use kafka_zk_consumer::embedded::EmbeddedZooKeeper;
use kafka_zk_consumer::embedded::EmbeddedZooKeeperOptions;

use crate::support::Components;
use crate::support::JavaCommand;
use crate::support::ZooKeeper;
use crate::support::ZooKeeperShell;

const LIMIT: Duration = Duration::from_secs(60);

const SCRIPT: &str = "\
ls /
create /a one
create -s /a/n- x
create -e /a/e y
ls2 /a
set /a four 0
set /a again 0
get /a true
set /a five
getAcl /a
setAcl /a world:anyone:cdrwa
addauth digest user:secret
stat /missing
delete /a
sync /a
rmr /zookeeper
rmr /a/n-0000000000
quit
";

/// Runs the script in `zkCli.sh`, and returns the results and the complaints that it printed.
fn play(connect_string: &str) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    fs::write(&input, SCRIPT).unwrap();
    let main_class = "org.apache.zookeeper.ZooKeeperMain";
    let printed = JavaCommand::new("zkCli", &Components::zookeeper_3_4_6(), main_class)
        .arguments(["-server", connect_string])
        .input(&input)
        .run(folder.path(), LIMIT);
    let complained = fs::read_to_string(folder.path().join("zkCli.log")).unwrap();
    (comparable(&printed), comparable(&complained))
}

fn comparable(text: &str) -> Vec<String> {
    // Times, sessions and ports; the log of the client begins with the time.
    let varies = |line: &&str| {
        ["ctime", "mtime", "ephemeralOwner", "Connecting to", "20"]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let lines = text.lines().filter(|line| !varies(line));
    lines.map(str::to_owned).collect()
}

#[test]
fn the_original_client_sees_what_it_sees_of_the_original_server() {
    let embedded = EmbeddedZooKeeper::start(EmbeddedZooKeeperOptions::default()).unwrap();
    let original = ZooKeeper::start();
    let seen = play(&embedded.connect_string());
    assert_eq!(seen, play(&original.connect_string()));
    for line in [
        "[zookeeper]",
        "four",
        "WatchedEvent state:SyncConnected type:NodeDataChanged path:/a",
    ] {
        assert!(seen.0.iter().any(|seen| seen == line), "{seen:?}");
    }
    let shell = ZooKeeperShell::connect(&embedded.connect_string());
    assert_eq!(shell.get("/a").unwrap(), "five");
    assert_eq!(shell.children("/a").unwrap(), Vec::<String>::new());
}
