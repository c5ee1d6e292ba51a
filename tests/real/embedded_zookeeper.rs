//! The embedded ZooKeeper server with the original's own client, and with brokers and a consumer of
//! Kafka.

use std::fs;
use std::time::Duration;

use kafka_zk_consumer::embedded::EmbeddedZooKeeper;
use kafka_zk_consumer::embedded::EmbeddedZooKeeperOptions;

use crate::support::ConsoleConsumer;
use crate::support::ConsoleConsumerOptions;
use crate::support::ConsoleProducer;
use crate::support::JavaCommand;
use crate::support::Kafka;
use crate::support::KafkaVersion;
use crate::support::ZooKeeper;
use crate::support::ZooKeeperShell;
use crate::support::wait_until;

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
    let printed = JavaCommand::new("zkCli", &KafkaVersion::V0_8_2_2.class_path(), main_class)
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

#[test]
fn brokers_elect_leaders_and_a_consumer_comes_back_after_its_session() {
    const VERSION: KafkaVersion = KafkaVersion::V0_8_2_2;
    let server = EmbeddedZooKeeper::start(EmbeddedZooKeeperOptions {
        tick: Duration::from_millis(500),
        ..EmbeddedZooKeeperOptions::default()
    })
    .unwrap();
    let connect_string = server.connect_string();
    let mut brokers = [0, 1].map(|id| Kafka::start(VERSION, id, &connect_string, &[]));
    let shell = ZooKeeperShell::connect(&connect_string);
    let topic = r#"{"version":1,"partitions":{"0":[0,1]}}"#;
    shell.put("/brokers/topics/letters", topic).unwrap();
    let is_led_by = |id: i32, replicas: &str| {
        let state = shell.get("/brokers/topics/letters/partitions/0/state");
        state.is_ok_and(|state| {
            state.contains(&format!(r#""leader":{id},"#)) && state.contains(replicas)
        })
    };
    wait_until(LIMIT, "a leader", || is_led_by(0, r#""isr":[0,1]"#));
    let all = format!("{},{}", brokers[0].address(), brokers[1].address());
    ConsoleProducer::produce(VERSION, &all, "letters", "none", &["a", "b"]);
    let options = ConsoleConsumerOptions {
        properties: &[("group.id", "g"), ("zookeeper.session.timeout.ms", "2000")],
        from_beginning: true,
        arguments: &[],
    };
    let mut consumer = ConsoleConsumer::start(VERSION, &connect_string, "letters", &options);
    consumer.wait_for_lines(2, LIMIT);

    brokers[0].kill();
    wait_until(LIMIT, "another leader", || is_led_by(1, r#""isr":[1]"#));
    let owner = || {
        let sessions = server.sessions().into_iter();
        let mut owners = sessions.filter(|session| {
            let owned = "/consumers/g/owners/letters/0";
            session.ephemerals.iter().any(|path| path == owned)
        });
        owners.next().map(|session| session.id)
    };
    let first = owner().expect("the consumer owns the partition");
    assert!(server.expire_session(first));
    wait_until(LIMIT, "the consumer to claim its partition again", || {
        owner().is_some_and(|owner| owner != first)
    });
    server.restart().unwrap();
    ConsoleProducer::produce(VERSION, &brokers[1].address(), "letters", "none", &["c"]);
    // The session ended before the offsets were stored: what was read may be read again.
    wait_until(LIMIT, "the last letter", || {
        consumer.lines().last().is_some_and(|line| line == "c")
    });
    consumer.stop();
    assert_eq!(owner(), None);
}
