//! The command-line tool against real brokers.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::time::Duration;

use crate::scenarios::member::KilledOnDrop;
use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::RealCluster;
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(30);

fn kzc(cluster: &RealCluster, command: &str, more: &[&str]) -> Command {
    let mut kzc = Command::new(env!("CARGO_BIN_EXE_kzc"));
    kzc.env_remove("RUST_LOG")
        .args([command, "--zookeeper", &cluster.connect_string()])
        .args(["--topic", "orders"])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    kzc
}

/// Runs to the end, which must be a good one, and returns the lines and standard error.
#[track_caller]
fn run(cluster: &RealCluster, command: &str, more: &[&str]) -> (Vec<String>, String) {
    let output: Output = kzc(cluster, command, more).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{}: {stderr}", output.status);
    let stdout = String::from_utf8(output.stdout).unwrap();
    (stdout.lines().map(str::to_owned).collect(), stderr)
}

fn cluster(partitions: i32) -> RealCluster {
    let cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    cluster.create_topic("orders", partitions, 1);
    cluster
}

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}{number}"))
        .collect()
}

fn produce(cluster: &RealCluster, partition: i32, values: &[String]) {
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    for chunk in values.chunks(1_000) {
        cluster.produce("orders", partition, chunk);
    }
}

fn committed(cluster: &RealCluster, group: &str, partition: i32) -> Option<usize> {
    let path = format!("/consumers/{group}/offsets/orders/{partition}");
    cluster
        .shell()
        .get(&path)
        .ok()
        .map(|text| text.parse().unwrap())
}

#[test]
fn a_throw_away_group_reads_a_topic_and_leaves_nothing_behind() {
    let cluster = cluster(1);
    cluster.produce_keyed("orders", 0, &[(Some(b"k"), b"one"), (None, b"\xff")]);
    let all = ["--from-beginning", "--timeout-ms", "1500"];

    let (lines, stderr) = run(&cluster, "consume", &[&all[..], &["--json"]].concat());
    assert_eq!(
        lines,
        [
            r#"{"topic":"orders","partition":0,"offset":0,"key":"k","value":"one"}"#,
            r#"{"topic":"orders","partition":0,"offset":1,"key":null,"value_base64":"/w=="}"#,
        ]
    );
    assert!(
        stderr.contains("Processed a total of 2 messages"),
        "{stderr}"
    );

    let fields = ["--max-messages", "1", "--print", "value,key,offset"];
    let (lines, _) = run(&cluster, "consume", &[&all[..], &fields].concat());
    assert_eq!(lines, ["one\tk\t0"]);

    let (lines, _) = run(&cluster, "consume", &["--timeout-ms", "500"]);
    assert_eq!(
        lines, [""; 0],
        "without the flag it begins behind the newest message"
    );
    assert_eq!(cluster.shell().children("/consumers").unwrap(), [""; 0]);
}

#[test]
fn the_bound_holds_over_all_streams_and_nothing_beyond_it_counts_as_consumed() {
    let cluster = cluster(2);
    let (left, right) = (numbered("l", 3_000), numbered("r", 3_000));
    produce(&cluster, 0, &left);
    produce(&cluster, 1, &right);
    let expected: BTreeSet<String> = left.into_iter().chain(right).collect();

    let mut seen = Vec::new();
    for bound in ["3500", "1", "2000"] {
        let more = [
            "--group",
            "g",
            "--from-beginning",
            "--streams",
            "2",
            "--max-messages",
            bound,
        ];
        let (lines, stderr) = run(&cluster, "consume", &more);
        assert_eq!(lines.len().to_string(), bound, "{stderr}");
        seen.extend(lines);
        let sum: usize = (0..2).filter_map(|p| committed(&cluster, "g", p)).sum();
        assert_eq!(sum, seen.len(), "committed is what was printed");
    }
    let rest = [
        "--group",
        "g",
        "--from-beginning",
        "--timeout-ms",
        "1500",
        "--streams",
        "2",
    ];
    seen.extend(run(&cluster, "consume", &rest).0);
    assert_eq!(seen.len(), 6_000, "no message twice");
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
    assert_eq!(
        cluster.shell().children("/consumers/g/ids").unwrap(),
        [""; 0]
    );
}

#[test]
fn signals_end_it_with_its_offsets_committed_and_its_nodes_gone() {
    let cluster = cluster(1);
    cluster.produce("orders", 0, &["a", "b", "c"]);
    let more = ["--group", "g", "--from-beginning"];
    for (name, count) in [("-INT", 3), ("-TERM", 4), ("-HUP", 5)] {
        let mut running = KilledOnDrop(kzc(&cluster, "consume", &more).spawn().unwrap());
        let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
        // At the end of the log a message is shown at once.
        let first = lines.next().unwrap().unwrap();
        for _ in 1..if count == 3 { 3 } else { 1 } {
            lines.next().unwrap().unwrap();
        }
        assert_eq!(first, if count == 3 { "a" } else { "d" });
        running.signal(name);
        assert!(lines.next().is_none());
        assert!(running.0.wait().unwrap().success());
        let mut stderr = String::new();
        running
            .0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut stderr)
            .unwrap();
        assert!(stderr.contains("Processed a total of"), "{stderr}");
        assert_eq!(committed(&cluster, "g", 0), Some(count));
        assert_eq!(
            cluster.shell().children("/consumers/g/ids").unwrap(),
            [""; 0]
        );
        assert!(!cluster.shell().exists("/consumers/g/owners/orders/0"));
        cluster.produce("orders", 0, &["d"]);
    }
}

/// A closed terminal killed the tool, without a commit, while the original leaves in order. What `nohup`
/// keeps alive has to stay so.
#[test]
fn a_hangup_is_ignored_under_nohup() {
    let cluster = cluster(1);
    cluster.produce("orders", 0, &["a"]);
    let direct = kzc(&cluster, "consume", &["--group", "g", "--from-beginning"]);
    let mut command = Command::new("nohup");
    command
        .arg(direct.get_program())
        .args(direct.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut running = KilledOnDrop(command.spawn().unwrap());
    let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "a");
    running.signal("-HUP");
    cluster.produce("orders", 0, &["b"]);
    assert_eq!(lines.next().unwrap().unwrap(), "b");
    running.signal("-TERM");
    assert!(running.0.wait().unwrap().success());
    assert_eq!(committed(&cluster, "g", 0), Some(2));
}

#[test]
fn a_closed_pipe_ends_it_quietly_and_what_was_not_written_does_not_count() {
    let cluster = cluster(1);
    let values = numbered(&"x".repeat(200), 20_000);
    produce(&cluster, 0, &values);
    let more = ["--group", "g", "--from-beginning"];
    let mut running = KilledOnDrop(kzc(&cluster, "consume", &more).spawn().unwrap());
    let mut reader = BufReader::new(running.0.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), values[0]);
    drop(reader);
    assert!(running.0.wait().unwrap().success());
    let mut stderr = String::new();
    running
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    let total = committed(&cluster, "g", 0).unwrap_or(0);
    assert_eq!(stderr, format!("Processed a total of {total} messages\n"));
    assert!(total < values.len(), "{total}");
}

#[test]
fn without_commit_the_group_begins_anew_each_time() {
    let cluster = cluster(1);
    cluster.produce("orders", 0, &["a"]);
    let more = [
        "--group",
        "g",
        "--from-beginning",
        "--max-messages",
        "1",
        "--no-commit",
    ];
    for _ in 0..2 {
        assert_eq!(run(&cluster, "consume", &more).0, ["a"]);
    }
    assert_eq!(committed(&cluster, "g", 0), None);
}

#[test]
fn a_topic_that_does_not_exist_yet_is_waited_for() {
    let cluster = RealCluster::start(KafkaVersion::V0_8_2_2, 1);
    let more = ["--from-beginning", "--max-messages", "1"];
    let mut running = KilledOnDrop(kzc(&cluster, "consume", &more).spawn().unwrap());
    let mut stderr = BufReader::new(running.0.stderr.take().unwrap()).lines();
    let warning = stderr.next().unwrap().unwrap();
    assert!(warning.contains("waiting for topic orders"), "{warning}");
    cluster.create_topic("orders", 1, 1);
    cluster.produce("orders", 0, &["a"]);
    let mut text = String::new();
    running
        .0
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "a\n");
    assert!(running.0.wait().unwrap().success());
}

#[test]
fn two_members_share_the_partitions() {
    let cluster = cluster(2);
    let more = ["--group", "g", "--from-beginning", "--print", "partition"];
    let mut members: Vec<KilledOnDrop> = (0..2)
        .map(|_| KilledOnDrop(kzc(&cluster, "consume", &more).spawn().unwrap()))
        .collect();
    let shell = cluster.shell();
    wait_until(LIMIT, "two owners", || {
        let owner = |p| shell.get(&format!("/consumers/g/owners/orders/{p}")).ok();
        owner(0).is_some_and(|zero| owner(1).is_some_and(|one| zero != one))
    });
    cluster.produce("orders", 0, &["a"]);
    cluster.produce("orders", 1, &["b"]);
    let mut partitions = BTreeSet::new();
    for member in &mut members {
        let mut lines = BufReader::new(member.0.stdout.take().unwrap()).lines();
        partitions.insert(lines.next().unwrap().unwrap());
        member.signal("-TERM");
        assert!(member.0.wait().unwrap().success());
    }
    assert_eq!(
        partitions.len(),
        2,
        "each has printed a message of its own partition"
    );
}

#[test]
fn a_message_larger_than_the_fetch_size_fails_or_is_skipped() {
    let cluster = cluster(1);
    let large = "y".repeat(5_000);
    cluster.produce("orders", 0, &["a"]);
    cluster.produce("orders", 0, &[&large]);
    cluster.produce("orders", 0, &["b"]);
    let small = [
        "--group",
        "g",
        "--from-beginning",
        "--property",
        "fetch.message.max.bytes=1000",
    ];
    let output = kzc(&cluster, "consume", &small).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(output.stdout, b"a\n");
    assert!(stderr.contains("at offset 1"), "{stderr}");
    assert_eq!(committed(&cluster, "g", 0), Some(1));

    let skip = ["--property", "on.bad.message=skip", "--max-messages", "1"];
    let (lines, stderr) = run(&cluster, "consume", &[&small[..], &skip].concat());
    assert_eq!(lines, ["b"]);
    assert!(stderr.contains("at offset 1"), "{stderr}");
}

#[test]
fn perf_reads_everything_or_as_much_as_was_asked_for() {
    let cluster = cluster(2);
    produce(&cluster, 0, &numbered("l", 5_000));
    produce(&cluster, 1, &numbered("r", 5_000));

    let (lines, _) = run(&cluster, "perf", &["--json", "--streams", "2"]);
    let json: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!((lines.len(), &json["messages"]), (1, &10_000.into()));
    let seconds = json["elapsed_seconds"].as_f64().unwrap();
    assert!(
        seconds < 1.0,
        "the wait at the end does not count: {seconds}"
    );
    for key in [
        "cpu_seconds",
        "cpu_seconds_consuming",
        "peak_resident_bytes",
    ] {
        assert!(
            json[key].as_f64().is_some_and(|number| number > 0.0),
            "{key}: {json}"
        );
    }

    let (lines, _) = run(&cluster, "perf", &["--messages", "2500"]);
    let columns: Vec<&str> = lines[1].split(", ").collect();
    assert_eq!((lines.len(), columns.len(), columns[4]), (2, 6, "2500"));
    let detailed = ["--show-detailed-stats", "--hide-header", "--streams", "2"];
    let (lines, _) = run(&cluster, "perf", &detailed);
    assert_eq!(lines.len(), 2, "one row for each stream: {lines:?}");
    assert_eq!(cluster.shell().children("/consumers").unwrap(), [""; 0]);
}

#[test]
fn consume_ends_where_the_partitions_end() {
    let cluster = cluster(3);
    produce(&cluster, 0, &numbered("a", 5_000));
    produce(&cluster, 1, &numbered("b", 5_000));
    let words = ["--from-beginning", "--exit-at-end", "--group", "g"];
    let more = [&words[..], &["--streams", "2", "-v"]].concat();
    let (lines, stderr) = run(&cluster, "consume", &more);
    assert_eq!(lines.len(), 10_000);
    for partition in ["0 from 0 to 5000 of 5000", "2 from 0 to 0 of 0"] {
        let line = format!("orders/{partition}: end reached");
        assert!(stderr.contains(&line), "{line}: {stderr}");
    }
    assert_eq!(committed(&cluster, "g", 1), Some(5_000));
    produce(&cluster, 2, &numbered("c", 10));
    assert_eq!(run(&cluster, "consume", &words).0, numbered("c", 10));
}
