//! The command-line tool on embedded clusters: its own, and those of the test.

use std::io::BufRead;
use std::io::BufReader;
use std::net::TcpListener;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::EmbeddedCluster;

use crate::reading::wait_until;

/// Exit status, standard output, standard error.
fn kzc(words: &[&str], input: &str) -> (i32, String, String) {
    let output = assert_cmd::Command::cargo_bin("kzc")
        .unwrap()
        .env_remove("RUST_LOG")
        .args(words)
        .write_stdin(input)
        .timeout(Duration::from_secs(90))
        .output()
        .unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn produce(to: [&str; 2], topic: &str, more: &[&str], input: &str) -> (i32, String) {
    let words = [&["produce", to[0], to[1], "--topic", topic], more].concat();
    let (status, stdout, stderr) = kzc(&words, input);
    assert_eq!(stdout, "");
    (status, stderr)
}

/// A running `kzc` that is killed at the latest with the test.
struct Running {
    child: Child,
}

impl Running {
    fn start(words: &[&str]) -> Self {
        let child = Command::new(assert_cmd::cargo::cargo_bin("kzc"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child }
    }

    fn interrupt(&mut self) -> i32 {
        let id = self.child.id().to_string();
        let kill = Command::new("kill").args(["-INT", &id]).status().unwrap();
        assert!(kill.success());
        self.end()
    }

    /// Its status, once it has ended by itself.
    fn end(&mut self) -> i32 {
        let mut status = None;
        wait_until("kzc ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.and_then(|it| it.code()).unwrap_or(-1)
    }

    /// All that it has said on standard error when it has ended.
    fn stderr(&mut self) -> String {
        std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `kzc dev-cluster` with any ports, its connect string and its broker list.
fn dev_cluster(more: &[&str]) -> (Running, String, String) {
    let ports = ["--zookeeper-port", "0", "--broker-port", "0"];
    let mut running = Running::start(&[&["dev-cluster"], &ports[..], more].concat());
    let mut lines = BufReader::new(running.child.stdout.take().unwrap()).lines();
    let mut value = |name: &str| {
        let line = lines.next().unwrap().unwrap();
        let value = line.strip_prefix(&format!("export {name}="));
        value.unwrap_or_else(|| panic!("{line}")).to_owned()
    };
    let (zookeeper, brokers) = (value("ZOOKEEPER"), value("BROKERS"));
    (running, zookeeper, brokers)
}

/// Standard output of a run that reads everything.
fn consumed(zookeeper: &str, topic: &str, messages: usize) -> Vec<String> {
    let messages = messages.to_string();
    let (status, stdout, stderr) = kzc(
        &[
            "consume",
            "--zookeeper",
            zookeeper,
            "--topic",
            topic,
            "--from-beginning",
            "--max-messages",
            &messages,
            "--print",
            "partition,key,value",
        ],
        "",
    );
    assert_eq!(status, 0, "{stderr}");
    let mut lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn the_demo_ends_with_the_verdict_that_nothing_was_lost() {
    let (status, stdout, stderr) = kzc(&["demo", "--seconds", "6"], "");
    assert_eq!(status, 0, "{stdout}\n{stderr}");
    for part in [
        "member-1 joins the group",
        "member-1: owns 0 1 2 3 4 5",
        "broker 2 is killed",
        "broker 2 comes back",
        "member-1 leaves",
        "member-4 joins the group",
        "\n  lost      0\n",
        "ms  member-4, generation 1,",
        "ms  broker 2 killed, 2 partitions",
    ] {
        assert!(stdout.contains(part), "no {part:?} in\n{stdout}");
    }
    let count = |name: &str| {
        let line = stdout.lines().find(|line| line.trim().starts_with(name));
        let count = line.unwrap().split_whitespace().nth(1);
        count.unwrap().parse::<u64>().unwrap()
    };
    assert!(count("written   ") > 100, "{stdout}");
    assert!(count("read   ") >= count("written   "), "{stdout}");
}

/// What `kzc demo` shows on a terminal of this type.
#[cfg(target_os = "linux")]
fn demo_on_terminal(kind: &str) -> String {
    let command = format!(
        "stty cols 100 rows 30; {} demo --seconds 3",
        env!("CARGO_BIN_EXE_kzc")
    );
    let output = Command::new("script")
        .env("TERM", kind)
        .args(["--quiet", "--return", "--command", &command, "/dev/null"])
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    shown
}

/// The last table flashed up below the verdict once for each of its lines, and was taken away again.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_the_demo_is_live_until_the_verdict() {
    let shown = demo_on_terminal("xterm");
    let (live, verdict) = shown.split_once("Verdict\r\n").unwrap();
    let table = "member-1: owns 0 1; fetcher-";
    for part in ["\u{1b}[", "\u{2588}", table, "/s, lag "] {
        assert!(live.contains(part), "no {part:?} in\n{live}");
    }
    assert!(verdict.contains("  lost      0\r\n"), "{verdict}");
    assert!(!verdict.contains('\u{1b}'), "{verdict:?}");
}

/// It said nothing before the verdict.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_that_cannot_draw_the_demo_writes_lines() {
    let shown = demo_on_terminal("dumb");
    for part in ["member-1: rebalance finished", "/s, lag ", "Verdict\r\n"] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown:?}");
}

#[test]
fn the_demo_goes_on_with_a_single_broker_and_a_single_member() {
    let words = ["demo", "--seconds", "3", "--brokers", "1", "--members", "1"];
    let (status, stdout, stderr) = kzc(&words, "");
    assert_eq!(status, 0, "{stdout}\n{stderr}");
    assert!(stdout.contains("\n  lost      0\n"), "{stdout}");
}

/// A broker was killed that led nothing, so that there was no change of leaders to be seen.
#[test]
fn the_demo_kills_a_broker_that_leads_something() {
    let words = ["demo", "--seconds", "3", "--members", "1"];
    let (status, stdout, stderr) = kzc(&words, "");
    assert_eq!(status, 0, "{stdout}\n{stderr}");
    assert!(stdout.contains(" ms  broker 1 killed, "), "{stdout}");
}

#[test]
fn a_demo_that_is_interrupted_still_judges_what_it_did() {
    let mut demo = Running::start(&["demo", "--seconds", "600"]);
    let mut lines = BufReader::new(demo.child.stdout.take().unwrap()).lines();
    let mut until = |part: &str| {
        let found = lines.find(|line| line.as_ref().unwrap().contains(part));
        assert!(found.is_some(), "the demo ended without {part:?}");
    };
    until("member-3: rebalance finished");
    let id = demo.child.id().to_string();
    Command::new("kill").args(["-INT", &id]).status().unwrap();
    until("  lost      0");
    // Reads the rest, so that nothing is written into a closed pipe.
    assert!(lines.count() > 0);
    assert!(demo.child.wait().unwrap().success());
}

#[test]
fn lines_of_every_codec_come_back_from_a_dev_cluster_until_it_is_interrupted() {
    for version in ["0.8.2", "0.10.2.2", "2.3"] {
        let more = [
            "--brokers",
            "2",
            "--topic",
            "orders:3",
            "--kafka-version",
            version,
        ];
        let (mut cluster, zookeeper, brokers) = dev_cluster(&more);
        let mut expected = Vec::new();
        for codec in ["none", "gzip", "snappy", "lz4"] {
            let by_broker = ["--broker", brokers.as_str()];
            let by_zookeeper = ["--zookeeper", zookeeper.as_str()];
            for (to, line) in [(by_broker, "b"), (by_zookeeper, "c")] {
                let more = ["--key-separator", ":", "--compression", codec];
                let input = format!("{line}:{codec}-1\n{line}:{codec}-2");
                let (status, stderr) = produce(to, "orders", &more, &input);
                assert_eq!(status, 0, "{stderr}");
                assert!(stderr.ends_with("Produced a total of 2 messages\n"));
                // As Java's String.hashCode, modulo: "b" is 98, "c" is 99.
                let partition = if line == "b" { 2 } else { 0 };
                for number in 1..=2 {
                    expected.push(format!("{partition}\t{line}\t{codec}-{number}"));
                }
            }
        }
        expected.sort();
        assert_eq!(consumed(&zookeeper, "orders", expected.len()), expected);
        assert_eq!(cluster.interrupt(), 0);
    }
}

#[test]
fn a_dev_cluster_with_a_folder_has_its_messages_again_in_its_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let more = [
        "--topic",
        "orders:1",
        "--data-dir",
        folder.path().to_str().unwrap(),
    ];
    let (mut cluster, _, brokers) = dev_cluster(&more);
    let (status, stderr) = produce(["--broker", &brokers], "orders", &[], "a\nb\n");
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(cluster.interrupt(), 0);
    let (mut cluster, zookeeper, _) = dev_cluster(&more);
    assert_eq!(
        consumed(&zookeeper, "orders", 2),
        ["0\tnull\ta", "0\tnull\tb"]
    );
    assert_eq!(cluster.interrupt(), 0);
}

/// A file that a program has used names ZooKeeper and the group; it was refused for want of `--zookeeper`.
#[test]
fn a_property_file_and_a_topic_are_enough_to_go_on_in_the_name_of_its_group() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("consumer.properties");
    let connect = cluster.connect_string();
    let text = format!("zookeeper.connect={connect}\ngroup.id=g\nauto.offset.reset=smallest\n");
    std::fs::write(&file, text).unwrap();
    let broker = cluster.bootstrap()[0].to_string();
    // The name that the option has in later versions.
    let to = ["--bootstrap-server", broker.as_str()];
    let (status, stderr) = produce(to, "orders", &[], "a\nb\nc\n");
    assert_eq!(status, 0, "{stderr}");
    for (messages, expected) in [("2", "a\nb\n"), ("1", "c\n")] {
        let words = ["consume", "--config", file.to_str().unwrap()];
        let what = ["--topic", "orders", "--max-messages", messages];
        let (status, stdout, stderr) = kzc(&[&words[..], &what].concat(), "");
        assert_eq!((status, stdout.as_str()), (0, expected), "{stderr}");
    }
}

#[test]
fn offsets_in_kafka_are_gone_on_from_in_the_next_run() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    cluster.produce("orders", 0, ["a", "b", "c"]).unwrap();
    let zookeeper = cluster.connect_string();
    for (messages, expected) in [("2", "a\nb\n"), ("1", "c\n")] {
        let words = ["consume", "--zookeeper", &zookeeper, "--topic", "orders"];
        let group = [
            "--group",
            "g",
            "--from-beginning",
            "--max-messages",
            messages,
        ];
        let storage = ["--property", "offsets.storage=kafka"];
        let only = ["--property", "dual.commit.enabled=false"];
        let (status, stdout, stderr) = kzc(&[&words[..], &group, &storage, &only].concat(), "");
        assert_eq!((status, stdout.as_str()), (0, expected), "{stderr}");
    }
    let session = cluster.zookeeper().local_session();
    let node = session.exists("/consumers/g/offsets/orders/0").unwrap();
    assert_eq!(node, None);
}

#[test]
fn lines_without_keys_go_round_the_partitions() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 3, 1)
        .start()
        .unwrap();
    let broker = cluster.bootstrap()[0].to_string();
    let (status, stderr) = produce(["--broker", &broker], "orders", &[], "one\ntwo\r\n\nfour\n");
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(
        consumed(&cluster.connect_string(), "orders", 4),
        ["0\tnull\tfour", "0\tnull\tone", "1\tnull\ttwo", "2\tnull\t"]
    );
}

#[test]
fn lines_find_the_new_leader_after_the_death_of_the_old_one() {
    let cluster = EmbeddedCluster::builder()
        .brokers(2)
        .broker_session_timeout(Duration::from_secs(1))
        .topic("orders", 2, 2)
        .start()
        .unwrap();
    cluster.kill(1).unwrap();
    // The survivor takes the dead one for the leader of a partition until its session is over.
    let broker = cluster.bootstrap()[0].to_string();
    let (status, stderr) = produce(["--broker", &broker], "orders", &[], "1\n2\n3\n4\n");
    assert_eq!(status, 0, "{stderr}");
    let expected = ["1", "2", "3", "4"];
    let lines = consumed(&cluster.connect_string(), "orders", expected.len());
    let mut values: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.rsplit('\t').next())
        .collect();
    values.sort_unstable();
    assert_eq!(values, expected);
}

#[test]
fn brokers_of_another_network_are_written_to_and_read_through_an_address_map() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .advertised_host_name("kafka.invalid")
        .start()
        .unwrap();
    let reachable = &cluster.bootstrap()[0];
    let map = format!("kafka.invalid:{}={reachable}", reachable.port);
    let zookeeper = cluster.connect_string();
    let to = ["--zookeeper", zookeeper.as_str()];
    let (status, stderr) = produce(to, "orders", &["--broker-address-map", &map], "a\nb\n");
    assert_eq!(status, 0, "{stderr}");
    let property = format!("broker.address.map={map}");
    let words = ["consume", to[0], to[1], "--topic", "orders"];
    let more = ["--from-beginning", "--max-messages", "2", "--property"];
    let (status, stdout, stderr) = kzc(&[&words[..], &more, &[&property]].concat(), "");
    assert_eq!((status, stdout.as_str()), (0, "a\nb\n"), "{stderr}");

    let property = "broker.address.map=kafka.invalid";
    let (status, _, stderr) = kzc(&[&words[..], &more, &[property]].concat(), "");
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("`kafka.invalid` is not"), "{stderr}");
}

#[test]
fn a_topic_or_broker_that_is_not_there_is_named_with_status_1() {
    let cluster = EmbeddedCluster::builder().start().unwrap();
    let broker = cluster.bootstrap()[0].to_string();
    let began = Instant::now();
    let (status, stderr) = produce(["--broker", &broker], "nowhere", &[], "x\n");
    assert_eq!(status, 1, "{stderr}");
    for part in [
        "topic nowhere does not exist",
        "`kzc dev-cluster --topic nowhere:1`",
        "auto.create.topics.enable",
    ] {
        assert!(stderr.contains(part), "no {part:?} in {stderr}");
    }

    // Bound and closed again: nobody listens there.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap().to_string();
    drop(listener);
    let (status, stderr) = produce(["--broker", &closed], "orders", &[], "x\n");
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains(&closed), "{stderr}");

    let chroot = format!("{}/nowhere", cluster.connect_string());
    let (status, stderr) = produce(["--zookeeper", &chroot], "orders", &[], "x\n");
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("/nowhere"), "{stderr}");

    cluster.stop(0).unwrap();
    let zookeeper = cluster.connect_string();
    let (status, stderr) = produce(["--zookeeper", &zookeeper], "orders", &[], "x\n");
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("no broker"), "{stderr}");
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_broker_that_is_left_out_is_named_with_what_it_listens_on() {
    // "there is no broker to ask" was all that was said of a listener whose name was mistyped.
    let cluster = EmbeddedCluster::builder().version(BrokerVersion::V2_3);
    let cluster = cluster.topic("orders", 1, 1).start().unwrap();
    let words = ["consume", "--topic", "orders", "--timeout-ms", "3000"];
    let zookeeper = cluster.connect_string();
    let mistyped = ["--property", "broker.listener.name=TUNEL"];
    let words = [&words[..], &["--zookeeper", &zookeeper], &mistyped].concat();
    let (_, stdout, stderr) = kzc(&words, "");
    assert_eq!(stdout, "");
    for part in ["/brokers/ids/0", "no listener TUNEL", "PLAINTEXT://"] {
        assert!(stderr.contains(part), "`{part}` is not in: {stderr}");
    }
}

#[test]
fn a_line_or_message_that_is_refused_ends_with_a_count_of_those_before_it() {
    let cluster = EmbeddedCluster::builder()
        .message_max_bytes(1000)
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    let broker = cluster.bootstrap()[0].to_string();
    let to = ["--broker", broker.as_str()];
    let (status, stderr) = produce(to, "orders", &["--key-separator", ":"], "a:1\nb2\nc:3\n");
    assert_eq!(status, 1);
    assert!(
        stderr.contains("Produced a total of 1 messages"),
        "{stderr}"
    );
    assert!(stderr.contains("line 2: "), "{stderr}");

    let (status, stderr) = produce(to, "orders", &[], &"x".repeat(2000));
    assert_eq!(status, 1);
    assert!(
        stderr.contains("Produced a total of 0 messages"),
        "{stderr}"
    );
    assert!(stderr.contains("orders/0: MessageTooLarge"), "{stderr}");
}

#[test]
fn a_producer_that_waits_for_lines_ends_by_a_signal() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    let broker = cluster.bootstrap()[0].to_string();
    let mut running = Running::start(&["produce", "--broker", &broker, "--topic", "orders"]);
    let mut input = running.child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"one\n").unwrap();
    wait_until("the line is appended", || {
        cluster.describe().partition("orders", 0).unwrap().log_end == 1
    });
    assert_eq!(running.interrupt(), 0);
    drop(input);
}

/// `timeout 5 kzc consume ...` signals its child and then its process group, which is the same signal twice: now and
/// then both were seen, and the run ended on the spot, with nothing committed.
#[test]
fn a_signal_that_comes_twice_at_once_counts_once() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    let broker = cluster.bootstrap()[0].to_string();
    for _ in 0..5 {
        let mut running = Running::start(&["produce", "--broker", &broker, "--topic", "orders"]);
        let mut input = running.child.stdin.take().unwrap();
        let before = cluster.describe().partition("orders", 0).unwrap().log_end;
        std::io::Write::write_all(&mut input, b"one\n").unwrap();
        wait_until("the line is appended", || {
            cluster.describe().partition("orders", 0).unwrap().log_end > before
        });
        let id = running.child.id().to_string();
        let twice = ["-TERM", &id, &id];
        Command::new("kill").args(twice).status().unwrap();
        assert_eq!(running.end(), 0);
        drop(input);
    }
}

#[test]
fn a_topic_with_more_replicas_than_brokers_is_named() {
    let (status, _, stderr) = kzc(&["dev-cluster", "--topic", "orders:2:3"], "");
    assert_eq!(status, 2, "{stderr}");
    let text = "--topic orders: 3 replicas, but --brokers is 1";
    assert!(stderr.contains(text), "{stderr}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let words = [
        "dev-cluster",
        "--zookeeper-port",
        &port,
        "--broker-port",
        "0",
    ];
    let (status, stdout, stderr) = kzc(&words, "");
    assert_eq!((status, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains(&port), "{stderr}");
}

#[test]
fn a_whitelist_and_a_blacklist_choose_the_topics_and_a_bad_one_is_refused_before_anything() {
    let more = [
        "--topic",
        "orders-eu:1",
        "--topic",
        "orders-us:1",
        "--topic",
        "bills:1",
    ];
    let (mut cluster, zookeeper, brokers) = dev_cluster(&more);
    for topic in ["orders-eu", "orders-us", "bills"] {
        let (status, stderr) =
            produce(["--broker", &brokers], topic, &[], &format!("of {topic}\n"));
        assert_eq!(status, 0, "{stderr}");
    }
    let consume = |more: &[&str]| {
        let words = ["consume", "--zookeeper", &zookeeper, "--from-beginning"];
        kzc(&[&words[..], more].concat(), "")
    };
    let print = [
        "--print",
        "topic,value",
        "--streams",
        "2",
        "--max-messages",
        "2",
    ];
    for (flag, regex, expected) in [
        ("--whitelist", "orders-.*", ["orders-eu", "orders-us"]),
        ("--whitelist", "bills, orders-us", ["bills", "orders-us"]),
        ("--blacklist", "orders-eu", ["bills", "orders-us"]),
    ] {
        let (status, stdout, stderr) = consume(&[&[flag, regex], &print[..]].concat());
        assert_eq!(status, 0, "{stderr}");
        let mut lines: Vec<&str> = stdout.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected.map(|topic| format!("{topic}\tof {topic}")));
    }
    let (status, stdout, stderr) = consume(&["--whitelist", "a{1,3}"]);
    assert_eq!((status, stdout.as_str()), (2, ""), "{stderr}");
    assert!(stderr.contains("regex `a{1|3}`"), "{stderr}");
    let (status, _, stderr) = consume(&["--whitelist", "returns", "--timeout-ms", "500"]);
    assert_eq!(status, 0, "{stderr}");
    assert!(
        stderr.contains("no topic passes the filter `returns`"),
        "{stderr}"
    );
    assert_eq!(cluster.interrupt(), 0);
}

#[test]
fn without_a_rule_a_missing_offset_ends_it_with_an_error_that_names_the_log() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    cluster.produce("orders", 0, ["a", "b"]).unwrap();
    let zookeeper = cluster.connect_string();
    let words = [
        "consume",
        "--zookeeper",
        &zookeeper,
        "--topic",
        "orders",
        "--property",
        "auto.offset.reset=none",
        "--property",
        "on.bad.message=skip",
    ];
    let (status, stdout, stderr) = kzc(&words, "");
    assert_eq!((status, stdout.as_str()), (1, ""), "{stderr}");
    let reason = "no offset of orders/0 is stored; the log goes from 0 to 2";
    assert!(stderr.contains(reason), "{stderr}");
}

/// Lines on standard output, sorted, and standard error of a run that ends where the partitions end.
fn read_to_the_end(zookeeper: &str, topic: &str, more: &[&str]) -> (Vec<String>, String) {
    let of = ["--zookeeper", zookeeper, "--topic", topic];
    let words = [&["consume"], &of[..], &["--exit-at-end"], more].concat();
    let (status, stdout, stderr) = kzc(&words, "");
    assert_eq!(status, 0, "{stderr}");
    let mut lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
    lines.sort();
    (lines, stderr)
}

#[test]
fn consume_ends_where_the_partitions_end_and_goes_on_there_the_next_time() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 3, 1)
        .topic("empty", 2, 1)
        .start()
        .unwrap();
    let zookeeper = cluster.connect_string();
    for partition in 0..2 {
        let values = (10..60).map(|number| format!("{partition}-{number}"));
        let values: Vec<String> = values.collect();
        cluster.produce("orders", partition, &values).unwrap();
    }
    for streams in ["1", "4"] {
        let more = ["--from-beginning", "--streams", streams, "-v"];
        let (lines, stderr) = read_to_the_end(&zookeeper, "orders", &more);
        assert_eq!(lines.len(), 100);
        assert_eq!((lines[0].as_str(), lines[99].as_str()), ("0-10", "1-59"));
        for line in [
            "orders/0 from 0 to 50 of 50: end reached",
            "orders/1 from 0 to 50 of 50: end reached",
            "orders/2 from 0 to 0 of 0: end reached",
            "Processed a total of 100 messages",
        ] {
            assert!(stderr.contains(line), "{line}: {stderr}");
        }
    }
    let group = ["--group", "g", "--from-beginning"];
    assert_eq!(read_to_the_end(&zookeeper, "orders", &group).0.len(), 100);
    cluster.produce("orders", 2, ["new"]).unwrap();
    let (lines, stderr) = read_to_the_end(&zookeeper, "orders", &group);
    assert_eq!(lines, ["new"]);
    assert!(!stderr.contains("end reached"), "told by -v only: {stderr}");
    let (lines, _) = read_to_the_end(&zookeeper, "empty", &["--from-beginning"]);
    assert!(lines.is_empty());
    // A new group begins behind the newest message.
    assert!(read_to_the_end(&zookeeper, "orders", &[]).0.is_empty());
}

/// A run of `consume` that reads `orders` as the group `g` until something ends it.
fn consuming(cluster: &EmbeddedCluster) -> Running {
    let zookeeper = cluster.connect_string();
    let of = ["--zookeeper", &zookeeper, "--topic", "orders"];
    let as_group = ["--group", "g", "--from-beginning"];
    Running::start(&[&["consume"], &of[..], &as_group].concat())
}

#[test]
fn consume_ends_by_a_signal_with_what_it_wrote_committed_and_its_nodes_gone() {
    // D78: the original hung when it was to end, or logged the end of its stream as an error (KAFKA-2585, KAFKA-2819).
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    cluster.produce("orders", 0, ["a", "b"]).unwrap();
    let mut running = consuming(&cluster);
    let mut lines = BufReader::new(running.child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "a");
    assert_eq!(lines.next().unwrap().unwrap(), "b");
    assert_eq!(running.interrupt(), 0);
    assert!(lines.next().is_none());
    assert_eq!(running.stderr(), "Processed a total of 2 messages\n");
    let session = cluster.zookeeper().local_session();
    let (offset, _) = session.get("/consumers/g/offsets/orders/0").unwrap();
    assert_eq!(offset, b"2");
    assert!(session.children("/consumers/g/ids").unwrap().is_empty());
    let owner = session.exists("/consumers/g/owners/orders/0").unwrap();
    assert_eq!(owner, None);
}

#[test]
fn a_closed_pipe_ends_consume_quietly_and_what_was_not_written_does_not_count() {
    // Whose reader has gone must neither read on to the end nor count what nobody got.
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    let values: Vec<String> = (0..20_000).map(|number| format!("{number:0200}")).collect();
    cluster.produce("orders", 0, &values).unwrap();
    let mut running = consuming(&cluster);
    let mut lines = BufReader::new(running.child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), values[0]);
    drop(lines);
    assert_eq!(running.end(), 0);
    let session = cluster.zookeeper().local_session();
    let stored = session.get("/consumers/g/offsets/orders/0");
    let stored = stored.map(|(offset, _)| String::from_utf8(offset).unwrap());
    let written: usize = stored.map_or(0, |offset| offset.parse().unwrap());
    let told = format!("Processed a total of {written} messages\n");
    assert_eq!(running.stderr(), told);
    assert!(written < values.len(), "{written}");
}

#[test]
fn a_closed_pipe_ends_consume_also_while_no_messages_come() {
    // `kzc consume ... | head -1` had printed its line, and hung until somebody wrote to the topic.
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    cluster.produce("orders", 0, ["one", "two"]).unwrap();
    let mut running = consuming(&cluster);
    let mut lines = BufReader::new(running.child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "one");
    drop(lines);
    assert_eq!(running.end(), 0);
    assert_eq!(running.stderr(), "Processed a total of 2 messages\n");
}

#[test]
fn a_whitelist_is_read_to_the_ends_of_its_topics() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders-eu", 2, 1)
        .topic("orders-us", 1, 1)
        .topic("bills", 1, 1)
        .start()
        .unwrap();
    let zookeeper = cluster.connect_string();
    for (topic, partition) in [("orders-eu", 1), ("orders-us", 0), ("bills", 0)] {
        let values = ["a", "b"].map(|value| format!("{topic} {value}"));
        cluster.produce(topic, partition, &values).unwrap();
    }
    let read = |flag, regex| {
        let of = ["--zookeeper", zookeeper.as_str(), flag, regex];
        let how = ["--exit-at-end", "--from-beginning", "-v"];
        let (status, stdout, stderr) = kzc(&[&["consume"], &of[..], &how].concat(), "");
        assert_eq!(status, 0, "{stderr}");
        let mut lines: Vec<String> = stdout.lines().map(str::to_owned).collect();
        lines.sort();
        (lines, stderr)
    };
    let orders = ["orders-eu a", "orders-eu b", "orders-us a", "orders-us b"];
    let (lines, stderr) = read("--whitelist", "orders-.*");
    assert_eq!(lines, orders);
    for line in [
        "orders-eu/0 from 0 to 0 of 0: end reached",
        "orders-eu/1 from 0 to 2 of 2: end reached",
        "orders-us/0 from 0 to 2 of 2: end reached",
    ] {
        assert!(stderr.contains(line), "{line}: {stderr}");
    }
    assert_eq!(read("--blacklist", "bills").0, orders);
    assert!(read("--whitelist", "returns").0.is_empty());
}

#[test]
fn a_bound_may_come_before_the_end_and_a_bad_message_fails() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    let zookeeper = cluster.connect_string();
    let values: Vec<String> = (0..10).map(|number| format!("value {number}")).collect();
    cluster.produce("orders", 0, &values).unwrap();
    let few = ["--from-beginning", "--max-messages", "4"];
    assert_eq!(read_to_the_end(&zookeeper, "orders", &few).0, values[..4]);
    cluster.corrupt("orders", 0, 6).unwrap();
    let skip = ["--from-beginning", "--property", "on.bad.message=skip"];
    let (lines, stderr) = read_to_the_end(&zookeeper, "orders", &skip);
    assert_eq!(lines.len(), 9);
    assert!(stderr.contains("offset 6"), "{stderr}");
    let of = ["--zookeeper", &zookeeper, "--topic", "orders"];
    let words = [
        &["consume"],
        &of[..],
        &["--exit-at-end", "--from-beginning"],
    ]
    .concat();
    let (status, stdout, stderr) = kzc(&words, "");
    assert_eq!((status, stdout.lines().count()), (1, 6), "{stderr}");
    assert!(stderr.contains("orders/0 at offset 6"), "{stderr}");
}
