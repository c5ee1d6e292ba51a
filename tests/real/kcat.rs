//! Debian's `kcat` against embedded brokers: a client that shares no line of code with the original.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use kafka_zk_consumer::AutoOffsetReset;
use kafka_zk_consumer::ConsumerConfig;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Message;
use kafka_zk_consumer::embedded::BrokerVersion;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::protocol::NewMessage;

/// Seconds after which a run is ended from outside, also when this process has died meanwhile.
const LIMIT: &str = "60";

const PER_CODEC: usize = 20;

/// With what kcat has to be told of those that it cannot ask.
const VERSIONS: [(BrokerVersion, Option<&str>); 6] = [
    (BrokerVersion::V0_8_2, Some("0.8.2.2")),
    (BrokerVersion::V0_9_0, Some("0.9.0.1")),
    (BrokerVersion::V0_10_0, None),
    (BrokerVersion::V0_10_2, None),
    (BrokerVersion::V0_11_0, None),
    (BrokerVersion::V2_3, None),
];

fn start(version: BrokerVersion) -> EmbeddedCluster {
    let builder = EmbeddedCluster::builder().brokers(2).version(version);
    builder.topic("orders", 4, 2).start().unwrap()
}

/// Runs kcat to its end and returns what it prints. It asks brokers for their versions, unless it is told one.
fn kcat(
    cluster: &EmbeddedCluster,
    version: Option<&str>,
    arguments: &[&str],
    input: &str,
) -> String {
    let brokers = cluster.bootstrap();
    let brokers: Vec<String> = brokers.iter().map(ToString::to_string).collect();
    let mut child = Command::new("timeout")
        .args([LIMIT, "kcat", "-b", &brokers.join(",")])
        .args(version.map_or_else(Vec::new, |version| {
            let fallback = format!("broker.version.fallback={version}");
            ["-X", "api.version.request=false", "-X", &fallback]
                .map(str::to_owned)
                .to_vec()
        }))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("tests/setup.sh installs kcat");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Writes lines of every codec, the word before the colon being the key, and returns them.
fn produce(cluster: &EmbeddedCluster, version: Option<&str>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for codec in ["none", "gzip", "snappy", "lz4"] {
        let lines: Vec<String> = (0..PER_CODEC).map(|n| format!("{codec}{n}:{n}")).collect();
        let arguments = ["-P", "-t", "orders", "-K:", "-z", codec];
        kcat(cluster, version, &arguments, &lines.join("\n"));
        all.extend(lines);
    }
    all
}

#[test]
fn kcat_lists_brokers_topics_and_leaders() {
    for (version, name) in VERSIONS {
        let cluster = start(version);
        let listed = kcat(&cluster, name, &["-L", "-J"], "");
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let brokers = listed["brokers"].as_array().unwrap();
        let brokers: BTreeSet<&str> = brokers.iter().filter_map(|b| b["name"].as_str()).collect();
        let expected: Vec<String> = cluster
            .bootstrap()
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(brokers, expected.iter().map(String::as_str).collect());
        let partitions = listed["topics"][0]["partitions"].as_array().unwrap();
        assert_eq!(partitions.len(), 4);
        for partition in partitions {
            let number = i32::try_from(partition["partition"].as_i64().unwrap()).unwrap();
            let description = cluster.describe();
            let leader = description.partition("orders", number).unwrap().leader;
            assert_eq!(partition["leader"], leader.unwrap(), "partition {number}");
            assert_eq!(partition["isrs"].as_array().unwrap().len(), 2);
        }
    }
}

#[test]
fn what_kcat_writes_kcat_reads_from_the_begin_and_from_an_offset() {
    for (version, name) in VERSIONS {
        let cluster = start(version);
        let written = produce(&cluster, name);
        let consume = ["-C", "-t", "orders", "-e", "-q", "-f", "%k:%s\\n"];
        let from = |offset| {
            let arguments = [&consume[..], &["-o", offset]].concat();
            kcat(&cluster, name, &arguments, "")
        };
        let read = from("beginning");
        assert_eq!(read.lines().count(), written.len(), "each of them once");
        assert_eq!(
            read.lines().map(str::to_owned).collect::<BTreeSet<_>>(),
            written
        );
        let last_of_each = from("-1");
        assert_eq!(last_of_each.lines().count(), 4);
    }
}

#[test]
fn what_kcat_writes_a_consumer_of_a_group_reads() {
    for (version, name) in VERSIONS {
        let cluster = start(version);
        let written = produce(&cluster, name);
        let config = ConsumerConfig::builder()
            .zookeeper_connect(cluster.connect_string())
            .group_id("g")
            .auto_offset_reset(AutoOffsetReset::Smallest)
            .consumer_timeout(Some(Duration::from_secs(30)));
        let connector = ConsumerConnector::connect(config.build().unwrap()).unwrap();
        let mut streams = connector.create_message_streams([("orders", 1)]).unwrap();
        let stream = &mut streams.get_mut("orders").unwrap()[0];
        let text = |message: Message| {
            let part = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
            format!("{}:{}", part(message.key()), part(message.value()))
        };
        let read = stream
            .take(written.len())
            .map(|message| text(message.unwrap()));
        assert_eq!(read.collect::<BTreeSet<_>>(), written);
        connector.shutdown();
    }
}

#[test]
fn kcat_reads_times_and_headers_and_begins_at_a_time() {
    let cluster = start(BrokerVersion::V2_3);
    for number in 0..10_i64 {
        let value = number.to_string();
        let message = NewMessage {
            value: Some(value.as_bytes()),
            timestamp: Some(1_000_000 + number),
            headers: &[("trace", Some(b"x"))],
            ..NewMessage::default()
        };
        cluster.produce_messages("orders", 0, [message]).unwrap();
    }
    let from = |offset| {
        let format = [
            "-C",
            "-t",
            "orders",
            "-p",
            "0",
            "-e",
            "-q",
            "-f",
            "%s %T %h\\n",
        ];
        let arguments = [&format[..], &["-o", offset]].concat();
        kcat(&cluster, None, &arguments, "")
    };
    let expected: Vec<String> = (0..10)
        .map(|n| format!("{n} {} trace=x", 1_000_000 + n))
        .collect();
    assert_eq!(from("beginning").lines().collect::<Vec<_>>(), expected);
    assert_eq!(from("s@1000007").lines().collect::<Vec<_>>(), expected[7..]);
}
