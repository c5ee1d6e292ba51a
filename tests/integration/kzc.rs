//! The command-line tool where it needs no real servers: what it refuses, and how it says so.

use std::fs;
use std::net::TcpListener;
use std::time::Duration;
use std::time::Instant;

use assert_cmd::Command;
#[cfg(feature = "embedded")]
use kafka_zk_consumer::embedded::ConnectionFault;
#[cfg(feature = "embedded")]
use kafka_zk_consumer::embedded::EmbeddedCluster;

const CONSUME: [&str; 5] = ["consume", "--zookeeper", "localhost:1", "--topic", "orders"];
const PERF: [&str; 5] = ["perf", "--zookeeper", "localhost:1", "--topic", "orders"];

/// Exit status, standard output, standard error.
fn kzc(words: &[&str], more: &[&str]) -> (i32, String, String) {
    let output = Command::cargo_bin("kzc")
        .unwrap()
        .env_remove("RUST_LOG")
        .args(words)
        .args(more)
        .timeout(Duration::from_secs(60))
        .output()
        .unwrap();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// Standard error of a run that is refused before anything is done.
#[track_caller]
fn refused(words: &[&str], more: &[&str]) -> String {
    let (status, stdout, stderr) = kzc(words, more);
    assert_eq!((status, stdout.as_str()), (2, ""), "{stderr}");
    stderr
}

#[test]
fn help_and_version_go_to_standard_output() {
    let (status, stdout, _) = kzc(&["--version"], &[]);
    assert_eq!(status, 0);
    assert_eq!(stdout.trim(), concat!("kzc ", env!("CARGO_PKG_VERSION")));
    for words in [
        &["--help"][..],
        &["consume", "--help"],
        &["perf", "--help"],
        &["produce", "--help"],
    ] {
        let (status, stdout, _) = kzc(words, &[]);
        assert_eq!(status, 0);
        assert!(stdout.contains("xit status"), "{stdout}");
    }
    let (_, stdout, _) = kzc(&["consume", "--help"], &[]);
    assert!(stdout.contains("kzc consume --zookeeper"), "{stdout}");
}

#[test]
fn what_is_missing_or_unknown_is_named() {
    for (words, more, named) in [
        (
            &["consume", "--topic", "orders"][..],
            &[][..],
            "--zookeeper",
        ),
        (&["consume", "--zookeeper", "localhost:1"], &[], "--topic"),
        (&CONSUME, &["--print", "value,colour"], "colour"),
        (&CONSUME, &["--print", ""], "--print"),
        (&CONSUME, &["--json", "--print", "value"], "--print"),
        (
            &CONSUME,
            &["--property", "fetch.min.bytes"],
            "fetch.min.bytes",
        ),
        (&CONSUME, &["--property", "=1"], "--property"),
        (&CONSUME, &["--streams", "0"], "--streams"),
        (&CONSUME, &["--whitelist", "o.*"], "--whitelist"),
        (&PERF, &["--json", "--hide-header"], "--json"),
        (&["publish"], &[], "publish"),
        (&["produce", "--topic", "orders"], &[], "--broker"),
    ] {
        let stderr = refused(words, more);
        assert!(stderr.contains(named), "{words:?} {more:?}: {stderr}");
    }
}

#[test]
fn a_configuration_that_cannot_be_used_is_refused_before_anything_is_done() {
    for (more, named) in [
        (
            &["--config", "/nowhere/consumer.properties"][..],
            "/nowhere/consumer.properties",
        ),
        (&["--property", "fetch.min.bytes=many"], "`fetch.min.bytes`"),
        (&["--property", "offsets.storage=disk"], "offsets.storage"),
        (&["--group", "a/b"], "group.id"),
        (&["--group", ""], "group.id"),
        (
            &["--group", "a", "--property", "group.id=b"],
            "--property group.id is `b`",
        ),
    ] {
        for words in [&CONSUME, &PERF] {
            let stderr = refused(words, more);
            assert!(
                stderr.starts_with("kzc: ") && stderr.contains(named),
                "{more:?}: {stderr}"
            );
        }
    }
}

#[test]
fn a_contradiction_names_both_places() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("consumer.properties");
    fs::write(&file, "group.id=filed\nauto.offset.reset=largest\n").unwrap();
    let file = file.to_str().unwrap();

    let stderr = refused(&CONSUME, &["--config", file, "--group", "flagged"]);
    for named in [file, "`filed`", "--group", "`flagged`"] {
        assert!(stderr.contains(named), "{stderr}");
    }
    let stderr = refused(&CONSUME, &["--config", file, "--from-beginning"]);
    for named in ["auto.offset.reset", "`largest`", "--from-beginning"] {
        assert!(stderr.contains(named), "{stderr}");
    }
}

#[test]
fn a_malformed_property_file_names_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("consumer.properties");
    fs::write(&file, "a=1\nb=\\u00g0\n").unwrap();
    let stderr = refused(&CONSUME, &["--config", file.to_str().unwrap()]);
    assert!(stderr.contains("consumer.properties, line 2"), "{stderr}");
}

#[test]
fn a_zookeeper_that_is_not_there_fails_in_time_and_is_named() {
    // Bound and closed again: nobody listens there.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let address = format!("127.0.0.1:{port}");
    let began = Instant::now();
    let words = ["consume", "--zookeeper", &address, "--topic", "orders"];
    let (status, _, stderr) = kzc(
        &words,
        &["--property", "zookeeper.connection.timeout.ms=500"],
    );
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains(&address), "{stderr}");
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn unknown_properties_are_warned_of_with_the_known_one_that_is_nearest() {
    let more = [
        "--property",
        "fetch.mim.bytes=1",
        "--property",
        "zookeeper.connection.timeout.ms=100",
    ];
    let (_, _, stderr) = kzc(&CONSUME, &more);
    assert!(
        stderr.contains(
            "property fetch.mim.bytes is unknown, and ignored; did you mean fetch.min.bytes?"
        ),
        "{stderr}"
    );
}

/// Addresses were taken apart only when the connector was made; that ended with the status of a failure.
#[test]
fn an_address_that_cannot_be_used_is_a_wrong_command_line() {
    for address in ["localhost:99999", "localhost:1/../x"] {
        let words = ["consume", "--zookeeper", address, "--topic", "orders"];
        let stderr = refused(&words, &[]);
        assert!(stderr.contains("zookeeper.connect"), "{stderr}");
    }
}

/// Every attempt to reach the broker was told, five a second, beside the event that is told every five seconds.
#[cfg(feature = "embedded")]
#[test]
fn a_broker_that_is_away_is_told_once_in_a_while() {
    let cluster = EmbeddedCluster::builder()
        .topic("orders", 1, 1)
        .start()
        .unwrap();
    cluster.disturb(0, ConnectionFault::Refuse).unwrap();
    let zookeeper = cluster.connect_string();
    let words = ["consume", "--zookeeper", &zookeeper, "--topic", "orders"];
    let (_, _, stderr) = kzc(&words, &["--timeout-ms", "2000"]);
    let told = stderr.matches("no answer from").count();
    assert_eq!(told, 1, "{stderr}");
    assert!(!stderr.contains("no metadata from broker"), "{stderr}");
}
