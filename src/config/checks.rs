//! Every default and every limit, in the order in which the first error is reported.

use std::time::Duration;

use crate::config::auto_offset_reset::AutoOffsetReset;
use crate::config::broker_address_map::BrokerAddressMap;
use crate::config::connect_string::ConnectString;
use crate::config::consumed_on::ConsumedOn;
use crate::config::consumer_config::ConsumerConfig;
use crate::config::isolation_level::IsolationLevel;
use crate::config::offsets_storage::OffsetsStorage;
use crate::config::on_bad_message::OnBadMessage;
use crate::config::partition_assignment_strategy::PartitionAssignmentStrategy;
use crate::config::property_reader::PropertyReader;
use crate::config::property_reader::invalid;
use crate::config::round_robin_version::RoundRobinVersion;
use crate::error::Error;

/// What shorter pauses count as. Kafka accepts 0, which gives up after some attempts; what never gives up
/// would turn without a pause, and ZooKeeper and brokers would turn with it.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Longest name that a request to a broker can say; the client id is the group's by default.
const LONGEST_NAME: usize = 32_767;

/// Reads and checks every key.
///
/// The order is Kafka's: ZooKeeper, group, the rest as in the table of setters, and last the texts
/// that are restricted to some characters or words.
pub(super) fn check(mut from: PropertyReader) -> Result<ConsumerConfig, Error> {
    let zookeeper_connect = from.required("zookeeper.connect")?;
    ConnectString::parse(&zookeeper_connect)?;
    let session_timeout = from.millis_from("zookeeper.session.timeout.ms", 1, ms(6_000))?;
    let connection_timeout =
        from.millis_from("zookeeper.connection.timeout.ms", 1, session_timeout)?;
    let sync_time = from.millis("zookeeper.sync.time.ms", ms(2_000))?;
    let group_id = from.required("group.id")?;
    let socket_timeout = from.millis_from("socket.timeout.ms", 1, ms(30_000))?;
    let receive_buffer = from.int("socket.receive.buffer.bytes", 65_536)?;
    let fetch_message_max_bytes = from.int_from("fetch.message.max.bytes", 1, 1_048_576)?;
    let num_consumer_fetchers = from.int_from("num.consumer.fetchers", 1, 1)?;
    let auto_commit_enable = from.flag("auto.commit.enable", true)?;

    // The fields of a literal are evaluated as written, which keeps the order of errors.
    let config = ConsumerConfig {
        zookeeper_connect,
        zookeeper_session_timeout: session_timeout,
        zookeeper_connection_timeout: connection_timeout,
        zookeeper_sync_time: sync_time,
        socket_timeout,
        socket_receive_buffer_bytes: usize::try_from(receive_buffer).ok().filter(|n| *n > 0),
        fetch_message_max_bytes,
        num_consumer_fetchers,
        auto_commit_enable,
        auto_commit_interval: auto_commit_interval(&mut from, auto_commit_enable)?,
        queued_max_message_chunks: from.int_from("queued.max.message.chunks", 1, 2)?,
        rebalance_max_retries: from.int_from("rebalance.max.retries", 1, 4)?,
        rebalance_backoff: pause(&mut from, "rebalance.backoff.ms", sync_time)?,
        fetch_min_bytes: from.int("fetch.min.bytes", 1)?,
        fetch_wait_max: fetch_wait_max(&mut from, socket_timeout)?,
        fetch_max_bytes: from.int_from("fetch.max.bytes", 1, 52_428_800)?,
        refresh_leader_backoff: pause(&mut from, "refresh.leader.backoff.ms", ms(200))?,
        consumer_timeout: consumer_timeout(&mut from)?,
        exclude_internal_topics: from.flag("exclude.internal.topics", true)?,
        offsets_channel_backoff: pause(&mut from, "offsets.channel.backoff.ms", ms(1_000))?,
        offsets_channel_socket_timeout: offsets_channel_socket_timeout(&mut from)?,
        offsets_commit_max_retries: from.int_from("offsets.commit.max.retries", 0, 5)?,
        dual_commit_enabled: dual_commit_enabled(&mut from)?,
        queued_max_bytes: queued_max_bytes(&mut from, fetch_message_max_bytes)?,
        consumed_on: from.choice("consumed.on", ConsumedOn::Next)?,
        on_bad_message: from.choice("on.bad.message", OnBadMessage::Fail)?,
        isolation_level: from.choice("isolation.level", IsolationLevel::ReadUncommitted)?,
        round_robin_version: from.choice("roundrobin.version", RoundRobinVersion::V0_8_2)?,
        metadata_max_age: from.millis("metadata.max.age.ms", ms(300_000))?,
        broker_address_map: from.choice("broker.address.map", BrokerAddressMap::default())?,
        max_poll_records: from.int_from("max.poll.records", 1, 500)?,
        client_id: client_id(&mut from, &group_id)?,
        group_id: group_name(group_id)?,
        consumer_id: consumer_id(&mut from)?,
        broker_listener_name: broker_listener_name(&mut from)?,
        auto_offset_reset: from.choice("auto.offset.reset", AutoOffsetReset::Largest)?,
        offsets_storage: from.choice("offsets.storage", OffsetsStorage::ZooKeeper)?,
        // As in Kafka, the last of all.
        partition_assignment_strategy: partition_assignment_strategy(&mut from)?,
        unrecognised_keys: Vec::new(),
    };
    Ok(checked(config, from))
}

/// With the keys that nobody has read.
fn checked(config: ConsumerConfig, from: PropertyReader) -> ConsumerConfig {
    if let Some(warning) = short_rebalance(&config) {
        log::warn!("{warning}");
    }
    ConsumerConfig {
        unrecognised_keys: from.unrecognised(),
        ..config
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn pause(from: &mut PropertyReader, key: &str, default: Duration) -> Result<Duration, Error> {
    from.millis(key, default)
        .map(|pause| pause.max(SHORTEST_PAUSE))
}

fn auto_commit_interval(from: &mut PropertyReader, enabled: bool) -> Result<Duration, Error> {
    let key = "auto.commit.interval.ms";
    let interval = from.millis(key, ms(60_000))?;
    if enabled && interval.is_zero() {
        let reason = "0 is less than 1, with auto.commit.enable true";
        return Err(invalid(key, reason));
    }
    Ok(interval)
}

fn fetch_wait_max(from: &mut PropertyReader, socket_timeout: Duration) -> Result<Duration, Error> {
    let key = "fetch.wait.max.ms";
    let wait = from.millis(key, ms(100))?;
    if wait > socket_timeout {
        let (wait, timeout) = (wait.as_millis(), socket_timeout.as_millis());
        let reason = format!("{wait} is more than socket.timeout.ms, which is {timeout}");
        return Err(invalid(key, reason));
    }
    Ok(wait)
}

fn consumer_timeout(from: &mut PropertyReader) -> Result<Option<Duration>, Error> {
    let millis = from.int("consumer.timeout.ms", -1)?;
    Ok(u64::try_from(millis).ok().map(ms))
}

fn offsets_channel_socket_timeout(from: &mut PropertyReader) -> Result<Duration, Error> {
    from.millis_from("offsets.channel.socket.timeout.ms", 1, ms(10_000))
}

fn partition_assignment_strategy(
    from: &mut PropertyReader,
) -> Result<PartitionAssignmentStrategy, Error> {
    let default = PartitionAssignmentStrategy::Range;
    from.choice("partition.assignment.strategy", default)
}

/// By default as the storage, which is checked later, asks for.
fn dual_commit_enabled(from: &mut PropertyReader) -> Result<bool, Error> {
    let storage = from.peek("offsets.storage").map(str::parse);
    let is_kafka = matches!(storage, Some(Ok(OffsetsStorage::Kafka)));
    from.flag("dual.commit.enabled", is_kafka)
}

fn queued_max_bytes(from: &mut PropertyReader, message_max: i32) -> Result<i64, Error> {
    let key = "queued.max.bytes";
    // A file written for Kafka, with larger messages, is not refused for a key it cannot know.
    let bytes = from.long(key, i64::from(message_max).max(67_108_864))?;
    if bytes < i64::from(message_max) {
        let reason =
            format!("{bytes} is less than fetch.message.max.bytes, which is {message_max}");
        return Err(invalid(key, reason));
    }
    Ok(bytes)
}

/// A group id that cannot be used is blamed on `group.id`, not on the client id made of it.
fn client_id(from: &mut PropertyReader, group_id: &str) -> Result<String, Error> {
    let key = "client.id";
    from.text(key)
        .map_or_else(|| Ok(group_id.to_owned()), |text| name(key, text))
}

fn consumer_id(from: &mut PropertyReader) -> Result<Option<String>, Error> {
    let key = "consumer.id";
    from.text(key).map(|text| name(key, text)).transpose()
}

fn broker_listener_name(from: &mut PropertyReader) -> Result<Option<String>, Error> {
    let key = "broker.listener.name";
    match from.text(key) {
        Some(text) if text.is_empty() => Err(invalid(key, "is empty")),
        text => text.map(|text| name(key, text)).transpose(),
    }
}

/// The group's name is a node of its own, unlike the other names.
fn group_name(text: String) -> Result<String, Error> {
    let key = "group.id";
    if text == "." || text == ".." {
        return Err(invalid(
            key,
            format!("`{text}` is no name of a node in zookeeper"),
        ));
    }
    name(key, text)
}

/// Lets pass what may stand in a path of ZooKeeper and in a name of a metric.
fn name(key: &str, text: String) -> Result<String, Error> {
    if text.len() > LONGEST_NAME {
        let reason = format!("{} characters are more than {LONGEST_NAME}", text.len());
        return Err(invalid(key, reason));
    }
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match text.chars().find(|c| !legal(*c)) {
        None => Ok(text),
        Some(found) => {
            let reason = format!("`{text}` contains {found:?}; only a-z A-Z 0-9 . _ - may be used");
            Err(invalid(key, reason))
        }
    }
}

/// The warning that all attempts of a rebalance may end before the nodes of a crashed member do.
fn short_rebalance(config: &ConsumerConfig) -> Option<String> {
    let retries = config.rebalance_max_retries;
    let (backoff, session) = (config.rebalance_backoff, config.zookeeper_session_timeout);
    let total = backoff.checked_mul(retries).unwrap_or(Duration::MAX);
    (total < session).then(|| {
        format!(
            "rebalance.max.retries {retries} x rebalance.backoff.ms {} is less than \
             zookeeper.session.timeout.ms {}: what a crashed member leaves outlives all attempts",
            backoff.as_millis(),
            session.as_millis(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_end_before_the_session_of_a_crashed_member_are_worth_a_warning() {
        let warning = |backoff| {
            let config = ConsumerConfig::builder()
                .zookeeper_connect("h:1")
                .group_id("g")
                .rebalance_max_retries(4)
                .rebalance_backoff(ms(backoff))
                .zookeeper_session_timeout(ms(6_000))
                .build();
            short_rebalance(&config.unwrap())
        };
        let text = warning(1_499).unwrap();
        assert!(text.contains("4 x") && text.contains("1499") && text.contains("6000"));
        assert_eq!(warning(1_500), None);
    }
}
