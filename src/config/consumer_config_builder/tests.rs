use std::fs;

use proptest::prelude::*;

use super::*;

fn minimal() -> ConsumerConfigBuilder {
    ConsumerConfig::builder()
        .zookeeper_connect("zk:2181/kafka")
        .group_id("group1")
}

fn built(properties: &[(&str, &str)]) -> Result<ConsumerConfig, Error> {
    let add =
        |builder: ConsumerConfigBuilder, (key, value): &(&str, &str)| builder.set(*key, *value);
    properties.iter().fold(minimal(), add).build()
}

/// Fails unless `properties` are refused for `key` with a message that holds all of `parts`.
#[track_caller]
fn refused(properties: &[(&str, &str)], key: &str, parts: &[&str]) {
    let error = built(properties).unwrap_err();
    let Error::InvalidConfig { key: blamed, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(blamed, key, "{error}");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{text}` lacks `{part}`");
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn every_key_has_the_default_of_the_table() {
    let config = minimal().build().unwrap();
    assert_eq!(config.zookeeper_connect(), "zk:2181/kafka");
    assert_eq!(config.zookeeper_session_timeout(), ms(6_000));
    assert_eq!(config.zookeeper_connection_timeout(), ms(6_000));
    assert_eq!(config.zookeeper_sync_time(), ms(2_000));
    assert_eq!(config.group_id(), "group1");
    assert_eq!(config.consumer_id(), None);
    assert_eq!(config.client_id(), "group1");
    assert_eq!(config.socket_timeout(), ms(30_000));
    assert_eq!(config.socket_receive_buffer_bytes(), Some(65_536));
    assert_eq!(config.fetch_message_max_bytes(), 1_048_576);
    assert_eq!(config.num_consumer_fetchers(), 1);
    assert!(config.auto_commit_enable());
    assert_eq!(config.auto_commit_interval(), ms(60_000));
    assert_eq!(config.queued_max_message_chunks(), 2);
    assert_eq!(config.rebalance_max_retries(), 4);
    assert_eq!(config.rebalance_backoff(), ms(2_000));
    assert_eq!(config.fetch_min_bytes(), 1);
    assert_eq!(config.fetch_wait_max(), ms(100));
    assert_eq!(config.fetch_max_bytes(), 52_428_800);
    assert_eq!(config.refresh_leader_backoff(), ms(200));
    assert_eq!(config.auto_offset_reset(), AutoOffsetReset::Largest);
    assert_eq!(config.consumer_timeout(), None);
    assert!(config.exclude_internal_topics());
    assert_eq!(
        config.partition_assignment_strategy(),
        PartitionAssignmentStrategy::Range
    );
    assert_eq!(config.round_robin_version(), RoundRobinVersion::V0_8_2);
    assert_eq!(config.offsets_channel_backoff(), ms(1_000));
    assert_eq!(config.offsets_channel_socket_timeout(), ms(10_000));
    assert_eq!(config.offsets_commit_max_retries(), 5);
    assert_eq!(config.offsets_storage(), OffsetsStorage::ZooKeeper);
    assert!(!config.dual_commit_enabled());
    assert_eq!(config.queued_max_bytes(), 64 * 1024 * 1024);
    assert_eq!(config.consumed_on(), ConsumedOn::Next);
    assert_eq!(config.on_bad_message(), OnBadMessage::Fail);
    assert_eq!(config.isolation_level(), IsolationLevel::ReadUncommitted);
    assert_eq!(config.metadata_max_age(), ms(300_000));
    assert_eq!(config.broker_listener_name(), None);
    assert!(config.broker_address_map().is_empty());
    assert_eq!(config.max_poll_records(), 500);
    assert!(config.unrecognised_keys().is_empty());
}

/// Every key, the value of its setter below as text, in the order of the table.
const ALL: [(&str, &str); 38] = [
    ("zookeeper.connect", "h:1"),
    ("zookeeper.session.timeout.ms", "1"),
    ("zookeeper.connection.timeout.ms", "2"),
    ("zookeeper.sync.time.ms", "3"),
    ("group.id", "g"),
    ("consumer.id", "me"),
    ("client.id", "c"),
    ("socket.timeout.ms", "500"),
    ("socket.receive.buffer.bytes", "0"),
    ("fetch.message.max.bytes", "6"),
    ("num.consumer.fetchers", "7"),
    ("auto.commit.enable", "false"),
    ("auto.commit.interval.ms", "0"),
    ("queued.max.message.chunks", "8"),
    ("rebalance.max.retries", "9"),
    ("rebalance.backoff.ms", "10"),
    ("fetch.min.bytes", "11"),
    ("fetch.wait.max.ms", "500"),
    ("fetch.max.bytes", "13"),
    ("refresh.leader.backoff.ms", "14"),
    ("auto.offset.reset", "smallest"),
    ("consumer.timeout.ms", "0"),
    ("exclude.internal.topics", "false"),
    ("partition.assignment.strategy", "roundrobin"),
    ("roundrobin.version", "1.0"),
    ("offsets.storage", "zookeeper"),
    ("offsets.channel.backoff.ms", "15"),
    ("offsets.channel.socket.timeout.ms", "16"),
    ("offsets.commit.max.retries", "0"),
    ("dual.commit.enabled", "false"),
    ("queued.max.bytes", "6"),
    ("consumed.on", "return"),
    ("on.bad.message", "skip"),
    ("isolation.level", "read_committed"),
    ("metadata.max.age.ms", "17"),
    ("broker.listener.name", "LAN"),
    ("broker.address.map", "b:1=[::1]:2"),
    ("max.poll.records", "18"),
];

fn all_setters() -> ConsumerConfigBuilder {
    ConsumerConfig::builder()
        .zookeeper_connect("h:1")
        .zookeeper_session_timeout(ms(1))
        .zookeeper_connection_timeout(ms(2))
        .zookeeper_sync_time(ms(3))
        .group_id("g")
        .consumer_id("me")
        .client_id("c")
        .socket_timeout(ms(500))
        .socket_receive_buffer_bytes(None)
        .fetch_message_max_bytes(6)
        .num_consumer_fetchers(7)
        .auto_commit_enable(false)
        .auto_commit_interval(ms(0))
        .queued_max_message_chunks(8)
        .rebalance_max_retries(9)
        .rebalance_backoff(ms(10))
        .fetch_min_bytes(11)
        .fetch_wait_max(ms(500))
        .fetch_max_bytes(13)
        .refresh_leader_backoff(ms(14))
        .auto_offset_reset(AutoOffsetReset::Smallest)
        .consumer_timeout(Some(ms(0)))
        .exclude_internal_topics(false)
        .partition_assignment_strategy(PartitionAssignmentStrategy::RoundRobin)
        .round_robin_version(RoundRobinVersion::V1_0)
        .offsets_storage(OffsetsStorage::ZooKeeper)
        .offsets_channel_backoff(ms(15))
        .offsets_channel_socket_timeout(ms(16))
        .offsets_commit_max_retries(0)
        .dual_commit_enabled(false)
        .queued_max_bytes(6)
        .consumed_on(ConsumedOn::Return)
        .on_bad_message(OnBadMessage::Skip)
        .isolation_level(IsolationLevel::ReadCommitted)
        .metadata_max_age(ms(17))
        .broker_listener_name("LAN")
        .broker_address_map(&"b:1=[::1]:2".parse().unwrap())
        .max_poll_records(18)
}

#[test]
fn a_setter_and_its_key_say_the_same() {
    let by_key = ALL
        .iter()
        .fold(ConsumerConfig::builder(), |builder, (key, value)| {
            builder.set(*key, *value)
        });
    assert_eq!(all_setters().properties, by_key.properties);
    assert_eq!(by_key.properties.len(), ALL.len());
    let config = by_key.build().unwrap();
    assert!(config.unrecognised_keys().is_empty());
}

#[test]
fn every_getter_returns_what_its_setter_was_told() {
    let config = all_setters().build().unwrap();
    assert_eq!(config.zookeeper_connect(), "h:1");
    assert_eq!(config.zookeeper_session_timeout(), ms(1));
    assert_eq!(config.zookeeper_connection_timeout(), ms(2));
    assert_eq!(config.zookeeper_sync_time(), ms(3));
    assert_eq!(config.group_id(), "g");
    assert_eq!(config.consumer_id(), Some("me"));
    assert_eq!(config.client_id(), "c");
    assert_eq!(config.socket_timeout(), ms(500));
    assert_eq!(config.socket_receive_buffer_bytes(), None);
    assert_eq!(config.fetch_message_max_bytes(), 6);
    assert_eq!(config.num_consumer_fetchers(), 7);
    assert!(!config.auto_commit_enable());
    assert_eq!(config.auto_commit_interval(), ms(0));
    assert_eq!(config.queued_max_message_chunks(), 8);
    assert_eq!(config.rebalance_max_retries(), 9);
    assert_eq!(config.rebalance_backoff(), ms(10));
    assert_eq!(config.fetch_min_bytes(), 11);
    assert_eq!(config.fetch_wait_max(), ms(500));
    assert_eq!(config.fetch_max_bytes(), 13);
    assert_eq!(config.refresh_leader_backoff(), ms(14));
    assert_eq!(config.auto_offset_reset(), AutoOffsetReset::Smallest);
    assert_eq!(config.consumer_timeout(), Some(ms(0)));
    assert!(!config.exclude_internal_topics());
    assert_eq!(
        config.partition_assignment_strategy(),
        PartitionAssignmentStrategy::RoundRobin
    );
    assert_eq!(config.round_robin_version(), RoundRobinVersion::V1_0);
    assert_eq!(config.offsets_channel_backoff(), ms(15));
    assert_eq!(config.offsets_channel_socket_timeout(), ms(16));
    assert_eq!(config.offsets_commit_max_retries(), 0);
    assert_eq!(config.queued_max_bytes(), 6);
    assert_eq!(config.consumed_on(), ConsumedOn::Return);
    assert_eq!(config.on_bad_message(), OnBadMessage::Skip);
    assert_eq!(config.isolation_level(), IsolationLevel::ReadCommitted);
    assert_eq!(config.metadata_max_age(), ms(17));
    assert_eq!(config.broker_listener_name(), Some("LAN"));
    assert_eq!(config.broker_address_map().to_string(), "b:1=[::1]:2");
    assert_eq!(config.max_poll_records(), 18);
}

#[test]
fn a_default_may_be_the_value_of_another_key() {
    let config = built(&[
        ("zookeeper.session.timeout.ms", "7000"),
        ("zookeeper.sync.time.ms", "3000"),
    ])
    .unwrap();
    assert_eq!(config.zookeeper_connection_timeout(), ms(7_000));
    assert_eq!(config.rebalance_backoff(), ms(3_000));
}

#[test]
fn the_last_word_on_a_key_counts() {
    let config = minimal().group_id("a").set("group.id", "b").build();
    assert_eq!(config.unwrap().group_id(), "b");
    let config = minimal().set("group.id", "a").group_id("b").build();
    assert_eq!(config.unwrap().group_id(), "b");
}

#[test]
fn values_are_trimmed() {
    let config = built(&[("socket.timeout.ms", " 100 "), ("group.id", "\tg ")]).unwrap();
    assert_eq!(config.socket_timeout(), ms(100));
    assert_eq!(config.group_id(), "g");
}

#[test]
fn a_missing_or_empty_required_key_is_named() {
    let error = ConsumerConfig::builder().build().unwrap_err().to_string();
    assert!(
        error.contains("`zookeeper.connect`") && error.contains("missing"),
        "{error}"
    );
    let builder = ConsumerConfig::builder().zookeeper_connect("h:1");
    let error = builder.build().unwrap_err().to_string();
    assert!(
        error.contains("`group.id`") && error.contains("missing"),
        "{error}"
    );
    refused(
        &[("zookeeper.connect", " ")],
        "zookeeper.connect",
        &["empty"],
    );
    refused(&[("group.id", "")], "group.id", &["empty"]);
}

#[test]
fn servers_that_cannot_be_are_refused_at_once() {
    // Unlike any other key this one was looked at by `connect` only, and a second name behind the chroot not even
    // there: the dependency refused it over and over until the time for connecting was up.
    let key = "zookeeper.connect";
    refused(
        &[(key, "zk1:2181,zk2:21x1/kafka")],
        key,
        &["`zk2:21x1`", "`21x1` is not a port"],
    );
    refused(
        &[(key, "zk1:2181/kafka,zk2")],
        key,
        &["`/kafka,zk2`", "after the last host"],
    );
}

#[test]
fn numbers_are_decimal_and_of_32_bits() {
    for value in [
        "",
        "1.5",
        "0x10",
        "2147483648",
        "-2147483649",
        "1 000",
        "ten",
    ] {
        let properties = [("fetch.min.bytes", value)];
        refused(
            &properties,
            "fetch.min.bytes",
            &[&format!("`{value}`"), "32"],
        );
    }
    refused(
        &[("queued.max.bytes", "9223372036854775808")],
        "queued.max.bytes",
        &["64"],
    );
    assert_eq!(
        built(&[("queued.max.bytes", "9223372036854775807")])
            .unwrap()
            .queued_max_bytes(),
        i64::MAX
    );
}

#[test]
fn a_flag_is_literally_true_or_false() {
    for key in [
        "auto.commit.enable",
        "exclude.internal.topics",
        "dual.commit.enabled",
    ] {
        for value in ["True", "yes", "1", ""] {
            refused(
                &[(key, value)],
                key,
                &[&format!("`{value}`"), "`true`", "`false`"],
            );
        }
    }
}

#[test]
fn a_number_below_its_least_is_refused_with_both() {
    for (key, value, least) in [
        ("num.consumer.fetchers", "0", "1"),
        ("queued.max.message.chunks", "0", "1"),
        ("rebalance.max.retries", "0", "1"),
        ("fetch.message.max.bytes", "0", "1"),
        ("fetch.max.bytes", "-7", "1"),
        ("auto.commit.interval.ms", "0", "1"),
        // It passed beside a `fetch.wait.max.ms` of 0, and then no broker could be reached.
        ("socket.timeout.ms", "0", "1"),
        ("offsets.commit.max.retries", "-1", "0"),
        ("offsets.channel.socket.timeout.ms", "0", "1"),
    ] {
        refused(
            &[(key, value)],
            key,
            &[&format!("{value} is less than {least}")],
        );
    }
}

#[test]
fn only_the_consumer_timeout_may_be_negative() {
    let times = ALL
        .iter()
        .map(|(key, _)| *key)
        .filter(|key| key.ends_with(".ms"));
    let times: Vec<&str> = times.filter(|key| *key != "consumer.timeout.ms").collect();
    assert_eq!(times.len(), 11);
    for key in times {
        refused(&[(key, "-5")], key, &["-5 is less than "]);
    }
    let config = built(&[("consumer.timeout.ms", "-5")]).unwrap();
    assert_eq!(config.consumer_timeout(), None);
}

#[test]
fn a_fetch_must_not_wait_longer_than_its_socket() {
    let longer = [("fetch.wait.max.ms", "501"), ("socket.timeout.ms", "500")];
    refused(
        &longer,
        "fetch.wait.max.ms",
        &["501", "socket.timeout.ms", "500"],
    );
}

#[test]
fn the_queues_hold_at_least_one_message() {
    let smaller = [("queued.max.bytes", "1048575")];
    refused(
        &smaller,
        "queued.max.bytes",
        &["1048575", "fetch.message.max.bytes", "1048576"],
    );
}

#[test]
fn a_file_for_kafka_with_large_messages_needs_no_key_of_ours() {
    let config = built(&[("fetch.message.max.bytes", "134217728")]).unwrap();
    assert_eq!(config.queued_max_bytes(), 134_217_728);
}

#[test]
fn names_are_of_the_characters_that_kafka_allows() {
    for key in ["group.id", "client.id", "consumer.id"] {
        for value in ["a/b", "a b", "a:b", "\u{e4}", "a,b"] {
            refused(
                &[(key, value)],
                key,
                &[&format!("`{value}`"), "may be used"],
            );
        }
        assert!(built(&[(key, "A-Za.z_09")]).is_ok());
    }
    assert_eq!(built(&[("client.id", "")]).unwrap().client_id(), "");
}

/// Such values were accepted, and the consumer failed where they were used: with `socket.timeout.ms=0` every
/// request, with a group `.` every attempt to register, with an overlong client id every look-up, all of them
/// again and again and without an error for the application.
#[test]
fn what_cannot_work_later_is_refused_at_once() {
    for key in [
        "zookeeper.session.timeout.ms",
        "zookeeper.connection.timeout.ms",
        "socket.timeout.ms",
    ] {
        refused(&[(key, "0"), ("fetch.wait.max.ms", "0")], key, &["0", "1"]);
    }
    for group in [".", ".."] {
        refused(&[("group.id", group)], "group.id", &[group, "node"]);
    }
    let longest = "x".repeat(32_767);
    assert!(built(&[("group.id", &longest), ("consumer.id", "..")]).is_ok());
    for key in ["group.id", "client.id", "consumer.id"] {
        let long = format!("{longest}x");
        refused(&[(key, &long)], key, &["32768", "32767"]);
    }
}

/// With 0, a member whose partition had no leader, or another owner, used a core for itself, wrote a
/// thousand warnings a second, and kept ZooKeeper and brokers as busy.
#[test]
fn what_is_repeated_without_end_has_a_least_pause() {
    let zero = [
        ("rebalance.backoff.ms", "0"),
        ("refresh.leader.backoff.ms", "0"),
    ];
    let config = built(&zero).unwrap();
    assert_eq!(config.rebalance_backoff(), ms(10));
    assert_eq!(config.refresh_leader_backoff(), ms(10));
    let config = built(&[("zookeeper.sync.time.ms", "0")]).unwrap();
    assert_eq!(config.rebalance_backoff(), ms(10));
}

#[test]
fn a_choice_is_one_of_its_words() {
    for (key, value, words) in [
        ("auto.offset.reset", "oldest", ["`smallest`", "`none`"]),
        ("consumed.on", "Next", ["`next`", "`return`"]),
        ("on.bad.message", "seek", ["`fail`", "`skip`"]),
        (
            "isolation.level",
            "committed",
            ["`read_uncommitted`", "`read_committed`"],
        ),
        ("offsets.storage", "disk", ["`zookeeper`", "`kafka`"]),
        (
            "partition.assignment.strategy",
            "Range",
            ["`range`", "`roundrobin`"],
        ),
        ("roundrobin.version", "0.9", ["`0.8.2`", "`1.0`"]),
    ] {
        let shown = format!("`{value}`");
        refused(&[(key, value)], key, &[&shown, words[0], words[1]]);
    }
}

#[test]
fn a_dual_commit_is_the_default_where_offsets_are_in_kafka() {
    let storage = |name| built(&[("offsets.storage", name)]).unwrap();
    for (name, storage) in [
        ("Kafka ", storage("Kafka ")),
        ("ZooKeeper", storage("ZooKeeper")),
    ] {
        let is_kafka = storage.offsets_storage() == OffsetsStorage::Kafka;
        assert_eq!(
            is_kafka,
            name.starts_with('K'),
            "case and blanks do not matter"
        );
        assert_eq!(storage.dual_commit_enabled(), is_kafka);
    }
    let only_kafka = [
        ("offsets.storage", "kafka"),
        ("dual.commit.enabled", "false"),
    ];
    assert!(!built(&only_kafka).unwrap().dual_commit_enabled());
}

#[test]
fn a_dual_commit_is_no_fault_where_offsets_are_in_zookeeper() {
    // Files of the original that say so for another day were refused, although it has no effect there.
    let file = [
        ("offsets.storage", "zookeeper"),
        ("dual.commit.enabled", "true"),
    ];
    assert!(built(&file).unwrap().dual_commit_enabled());
}

#[test]
fn the_first_error_is_that_of_the_original_order() {
    let wrong = [
        ("zookeeper.connect", ""),
        ("zookeeper.session.timeout.ms", "x"),
        ("zookeeper.sync.time.ms", "x"),
        ("group.id", ""),
        ("socket.timeout.ms", "x"),
        ("fetch.wait.max.ms", "x"),
        ("consumer.timeout.ms", "x"),
        ("dual.commit.enabled", "x"),
        ("client.id", "/"),
        ("group.id", "/"),
        ("consumer.id", "/"),
        ("auto.offset.reset", "x"),
        ("offsets.storage", "x"),
        ("partition.assignment.strategy", "x"),
    ];
    for first in 0..wrong.len() {
        let (key, _) = wrong[first];
        // Later entries of the same key override, so the rest goes in first.
        let properties: Vec<_> = wrong[first..].iter().rev().copied().collect();
        refused(&properties, key, &[]);
    }
}

#[test]
fn unknown_keys_are_kept_for_the_caller() {
    let config = built(&[
        ("shallow.iterator.enable", "true"),
        ("external.mine", "1"),
        ("kafka.metrics.reporters", "a.B"),
        ("auto.ofset.reset", "smallest"),
    ]);
    let expected = [
        "auto.ofset.reset",
        "kafka.metrics.reporters",
        "shallow.iterator.enable",
    ];
    assert_eq!(config.unwrap().unrecognised_keys(), expected);
}

/// The error said that the key was missing, while its reader looked at it, mistyped, in the file.
#[test]
fn a_required_key_that_is_mistyped_is_told_beside_the_missing_one() {
    for (key, mistyped) in [
        ("zookeeper.connect", "zookeper.connect"),
        ("group.id", "groupid"),
    ] {
        let given = [("zookeeper.connect", "h:1"), ("group.id", "g")];
        let given =
            given.map(|(known, value)| (if known == key { mistyped } else { known }, value));
        let builder = given
            .iter()
            .fold(ConsumerConfig::builder(), |builder, (key, value)| {
                builder.set(*key, *value)
            });
        let text = builder.build().unwrap_err().to_string();
        let expected = format!("`{key}`: is required, and missing; is it meant by `{mistyped}`?");
        assert!(text.ends_with(&expected), "{text}");
    }
}

#[test]
fn a_time_between_two_milliseconds_is_rounded_up() {
    let config = minimal().fetch_wait_max(Duration::from_micros(1)).build();
    assert_eq!(config.unwrap().fetch_wait_max(), ms(1));
    let error = minimal().socket_timeout(Duration::MAX).build().unwrap_err();
    assert!(error.to_string().contains("32 bits"), "{error}");
}

#[test]
fn a_file_is_one_more_source_of_properties() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("consumer.properties");
    let text =
        "# test\nzookeeper.connect=h:1,\\\n  h:2\ngroup.id : a\ngroup.id=b\nclient.id=caf\\u0065\n";
    fs::write(&path, text).unwrap();
    let config = ConsumerConfig::from_properties_file(&path).unwrap();
    assert_eq!(config.zookeeper_connect(), "h:1,h:2");
    assert_eq!(config.group_id(), "b", "the last line of a key counts");
    assert_eq!(config.client_id(), "cafe");
    let config = ConsumerConfig::builder()
        .load(&path)
        .unwrap()
        .group_id("c")
        .build();
    assert_eq!(config.unwrap().group_id(), "c");
}

#[test]
fn a_file_that_cannot_be_read_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("absent.properties");
    let error = ConsumerConfig::from_properties_file(&path).unwrap_err();
    assert!(matches!(error, Error::PropertyFile { line: None, .. }));
    assert!(error.to_string().contains("absent.properties"), "{error}");
    fs::write(&path, "a=1\nb=\\uzzzz\n").unwrap();
    let error = ConsumerConfig::from_properties_file(&path).unwrap_err();
    assert!(
        matches!(error, Error::PropertyFile { line: Some(2), .. }),
        "{error}"
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_builder_panic(key in 0..ALL.len(), value in "\\PC{0,20}") {
        let (key, _) = ALL[key];
        let _ = built(&[(key, &value)]);
    }
}

#[test]
fn a_builder_tells_what_was_set_and_nothing_of_defaults() {
    let builder = ConsumerConfigBuilder::default()
        .group_id("one")
        .set("group.id", "two");
    assert_eq!(builder.get("group.id"), Some("two"));
    assert_eq!(builder.get("auto.offset.reset"), None);
}

#[test]
fn a_listener_that_cannot_be_one_and_a_map_with_a_bad_entry_are_refused() {
    let key = "broker.listener.name";
    refused(&[(key, "")], key, &["empty"]);
    refused(&[(key, "LAN://h:1")], key, &["`LAN://h:1`", "':'"]);
    let key = "broker.address.map";
    refused(&[(key, "a:1=b:2,c:3")], key, &["`c:3`"]);
    let none = built(&[(key, " ")]).unwrap();
    assert!(none.broker_address_map().is_empty());
}
