//! The table of all keys, and the checks over their values.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::config::auto_offset_reset::AutoOffsetReset;
use crate::config::broker_address_map::BrokerAddressMap;
use crate::config::checks;
use crate::config::consumed_on::ConsumedOn;
use crate::config::consumer_config::ConsumerConfig;
use crate::config::isolation_level::IsolationLevel;
use crate::config::offsets_storage::OffsetsStorage;
use crate::config::on_bad_message::OnBadMessage;
use crate::config::partition_assignment_strategy::PartitionAssignmentStrategy;
use crate::config::property_file;
use crate::config::property_reader::PropertyReader;
use crate::config::round_robin_version::RoundRobinVersion;
use crate::error::Error;

/// Collects properties, of setters, single strings and files alike; the last word on a key counts.
///
/// Nothing is checked before [`build`](Self::build).
#[derive(Clone, Debug, Default)]
pub struct ConsumerConfigBuilder {
    properties: BTreeMap<String, String>,
}

impl ConsumerConfigBuilder {
    /// Sets one property by its key, known or not, to a value written as in a file.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(key.into(), value.into());
        self
    }

    /// The present value of a property as it was written; `None` while it has its default.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.properties.get(key).map(String::as_str)
    }

    /// Sets every property of a Java `.properties` file, in UTF-8 or else ISO-8859-1.
    ///
    /// # Errors
    ///
    /// [`Error::PropertyFile`] when the file cannot be read or parsed.
    pub fn load(self, path: impl AsRef<Path>) -> Result<Self, Error> {
        let properties = property_file::read(path.as_ref())?;
        Ok(properties
            .into_iter()
            .fold(self, |builder, (key, value)| builder.set(key, value)))
    }

    /// Checks every value.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidConfig`] for the first value that cannot be used: `zookeeper.connect`, the
    /// other keys of ZooKeeper, `group.id`, then the rest in the order of the setters.
    pub fn build(self) -> Result<ConsumerConfig, Error> {
        checks::check(PropertyReader::new(self.properties))
    }

    /// `zookeeper.connect`: the ZooKeeper servers, `host:port,host:port`, with an optional chroot
    /// after the last.
    ///
    /// Required. A chroot such as `/kafka` must exist.
    pub fn zookeeper_connect(self, value: impl Into<String>) -> Self {
        self.set("zookeeper.connect", value)
    }

    /// `zookeeper.session.timeout.ms`: after how long without contact ZooKeeper gives this member
    /// up.
    ///
    /// Default 6,000 ms, at least 1. The servers may force it into their own limits.
    pub fn zookeeper_session_timeout(self, time: Duration) -> Self {
        self.set("zookeeper.session.timeout.ms", millis(time))
    }

    /// `zookeeper.connection.timeout.ms`: how long the first connection to ZooKeeper may take.
    ///
    /// Default: `zookeeper.session.timeout.ms`. At least 1 ms.
    pub fn zookeeper_connection_timeout(self, time: Duration) -> Self {
        self.set("zookeeper.connection.timeout.ms", millis(time))
    }

    /// `zookeeper.sync.time.ms`: how far a ZooKeeper server may lag behind its leader.
    ///
    /// Default 2,000 ms. Its only effect is to be the default of `rebalance.backoff.ms`.
    pub fn zookeeper_sync_time(self, time: Duration) -> Self {
        self.set("zookeeper.sync.time.ms", millis(time))
    }

    /// `group.id`: the group to join.
    ///
    /// Required, not empty, up to 32,767 of the characters `a-z A-Z 0-9 . _ -`, neither `.` nor `..`.
    pub fn group_id(self, value: impl Into<String>) -> Self {
        self.set("group.id", value)
    }

    /// `consumer.id`: replaces the generated part of the member id; two live members must not share
    /// it.
    ///
    /// Default: made of the host name, the time and random digits. Same characters as `group.id`.
    pub fn consumer_id(self, value: impl Into<String>) -> Self {
        self.set("consumer.id", value)
    }

    /// `client.id`: the name sent to the brokers with each request.
    ///
    /// Default: `group.id`. Same characters as `group.id`; it may be empty.
    pub fn client_id(self, value: impl Into<String>) -> Self {
        self.set("client.id", value)
    }

    /// `socket.timeout.ms`: how long connecting to a broker, or its answer, may take.
    ///
    /// Default 30,000 ms, at least 1. Less than `fetch.wait.max.ms` is refused by [`build`](Self::build).
    pub fn socket_timeout(self, time: Duration) -> Self {
        self.set("socket.timeout.ms", millis(time))
    }

    /// `socket.receive.buffer.bytes`: size of the receive buffer of the sockets that fetch.
    ///
    /// Default 65,536 bytes. `None`, in a file 0 or less, leaves it to the system.
    pub fn socket_receive_buffer_bytes(self, bytes: Option<usize>) -> Self {
        self.set(
            "socket.receive.buffer.bytes",
            bytes.unwrap_or(0).to_string(),
        )
    }

    /// `fetch.message.max.bytes`: how many bytes one fetch asks for of each partition, hence the
    /// largest message.
    ///
    /// Default 1,048,576 bytes, at least 1.
    pub fn fetch_message_max_bytes(self, value: i32) -> Self {
        self.set("fetch.message.max.bytes", value.to_string())
    }

    /// `num.consumer.fetchers`: fetcher threads for each broker.
    ///
    /// Default 1, at least 1.
    pub fn num_consumer_fetchers(self, value: usize) -> Self {
        self.set("num.consumer.fetchers", value.to_string())
    }

    /// `auto.commit.enable`: whether consumed offsets are committed by a timer, before a rebalance
    /// and at shutdown.
    ///
    /// Default `true`.
    pub fn auto_commit_enable(self, value: bool) -> Self {
        self.set("auto.commit.enable", value.to_string())
    }

    /// `auto.commit.interval.ms`: the period of that timer.
    ///
    /// Default 60,000 ms, at least 1 ms with `auto.commit.enable`.
    pub fn auto_commit_interval(self, time: Duration) -> Self {
        self.set("auto.commit.interval.ms", millis(time))
    }

    /// `queued.max.message.chunks`: how many fetched chunks may wait in the queue of each stream.
    ///
    /// Default 2, at least 1. `queued.max.bytes` bounds their bytes.
    pub fn queued_max_message_chunks(self, value: usize) -> Self {
        self.set("queued.max.message.chunks", value.to_string())
    }

    /// `rebalance.max.retries`: attempts, the first included, before a rebalance counts as failed.
    ///
    /// Default 4, at least 1. Only the first rebalance gives up then; those in the background go
    /// on.
    pub fn rebalance_max_retries(self, value: u32) -> Self {
        self.set("rebalance.max.retries", value.to_string())
    }

    /// `rebalance.backoff.ms`: pause after each failed attempt to rebalance.
    ///
    /// Default: `zookeeper.sync.time.ms`. Less than 10 ms counts as 10. All attempts together should
    /// outlast `zookeeper.session.timeout.ms`.
    pub fn rebalance_backoff(self, time: Duration) -> Self {
        self.set("rebalance.backoff.ms", millis(time))
    }

    /// `fetch.min.bytes`: how many bytes a broker waits for before it answers a fetch.
    ///
    /// Default 1 byte. Below 1 it answers at once; then there are 10 ms between two fetches that bring nothing.
    pub fn fetch_min_bytes(self, value: i32) -> Self {
        self.set("fetch.min.bytes", value.to_string())
    }

    /// `fetch.wait.max.ms`: how long a broker may sit on a fetch that lacks `fetch.min.bytes`.
    ///
    /// Default 100 ms. More than `socket.timeout.ms` is refused by [`build`](Self::build). With 0 there are 10 ms between
    /// two fetches that bring nothing.
    pub fn fetch_wait_max(self, time: Duration) -> Self {
        self.set("fetch.wait.max.ms", millis(time))
    }

    /// `fetch.max.bytes`: bound on the whole answer to a fetch, over all of its partitions.
    ///
    /// Default 52,428,800 bytes, at least 1. One message comes even if it is larger, so that nothing ever stands
    /// still (KIP-74). Brokers before 0.10.1 know no such bound, and give up to `fetch.message.max.bytes` of each
    /// partition.
    pub fn fetch_max_bytes(self, value: i32) -> Self {
        self.set("fetch.max.bytes", value.to_string())
    }

    /// `refresh.leader.backoff.ms`: pause between two searches for leaders, and after a failed
    /// fetch.
    ///
    /// Default 200 ms; less than 10 counts as 10.
    pub fn refresh_leader_backoff(self, time: Duration) -> Self {
        self.set("refresh.leader.backoff.ms", millis(time))
    }

    /// `auto.offset.reset`: where to begin when there is no usable offset: `smallest` (or `earliest`), `largest` (or
    /// `latest`), or `none` (or `error`), which tells the application by its stream and waits for a seek.
    ///
    /// Default `largest`.
    pub fn auto_offset_reset(self, choice: AutoOffsetReset) -> Self {
        self.set("auto.offset.reset", choice.to_string())
    }

    /// `consumer.timeout.ms`: how long a stream waits for a message before it reports a timeout.
    ///
    /// Default: for ever, which is `None` here and a negative number in a file.
    pub fn consumer_timeout(self, time: Option<Duration>) -> Self {
        self.set(
            "consumer.timeout.ms",
            time.map_or_else(|| String::from("-1"), millis),
        )
    }

    /// `exclude.internal.topics`: whether topic filters pass over Kafka's internal topics.
    ///
    /// Default `true`: `__consumer_offsets` and `__transaction_state` pass no filter. Also said of the filters of
    /// other members, so all members of a group must say the same. Topics by name are never left out.
    pub fn exclude_internal_topics(self, value: bool) -> Self {
        self.set("exclude.internal.topics", value.to_string())
    }

    /// `partition.assignment.strategy`: how partitions are dealt out to threads: `range` or `roundrobin`, see
    /// [`PartitionAssignmentStrategy`].
    ///
    /// Default `range`. All members of a group must say the same.
    pub fn partition_assignment_strategy(self, choice: PartitionAssignmentStrategy) -> Self {
        self.set("partition.assignment.strategy", choice.to_string())
    }

    /// `roundrobin.version`: as the members of which Kafka `roundrobin` deals out: `0.8.2`, `0.10.2` or `1.0`, see
    /// [`RoundRobinVersion`].
    ///
    /// Default `0.8.2`. All members of a group must deal alike. Not a key of Kafka's; no effect with `range`.
    pub fn round_robin_version(self, choice: RoundRobinVersion) -> Self {
        self.set("roundrobin.version", choice.to_string())
    }

    /// `offsets.storage`: where offsets are kept: `zookeeper` or `kafka`, see [`OffsetsStorage`].
    ///
    /// Default `zookeeper`. No effect with an [`OffsetStore`](crate::OffsetStore) of the application's own.
    pub fn offsets_storage(self, choice: OffsetsStorage) -> Self {
        self.set("offsets.storage", choice.to_string())
    }

    /// `offsets.channel.backoff.ms`: pause before offsets are read or committed again, and between two
    /// searches for the broker that keeps them.
    ///
    /// Default 1,000 ms; less than 10 counts as 10.
    pub fn offsets_channel_backoff(self, time: Duration) -> Self {
        self.set("offsets.channel.backoff.ms", millis(time))
    }

    /// `offsets.channel.socket.timeout.ms`: how long the broker that keeps offsets may take to
    /// answer.
    ///
    /// Default 10,000 ms, at least 1. Counts for connecting and again for each whole answer, those to the search for
    /// that broker included. No effect with offsets in ZooKeeper only.
    pub fn offsets_channel_socket_timeout(self, time: Duration) -> Self {
        self.set("offsets.channel.socket.timeout.ms", millis(time))
    }

    /// `offsets.commit.max.retries`: how often a failed commit is repeated before it is reported, and a look-up of
    /// offsets in Kafka before the attempt to rebalance has failed.
    ///
    /// Default 5; 0 means never. A commit by the timer is never repeated: the next one follows.
    pub fn offsets_commit_max_retries(self, value: u32) -> Self {
        self.set("offsets.commit.max.retries", value.to_string())
    }

    /// `dual.commit.enabled`: whether offsets kept in Kafka are written to ZooKeeper too.
    ///
    /// Default: `true` with `offsets.storage=kafka`. Then the larger of the two offsets counts when they are read, so
    /// that members with either storage go on where others stopped: the way to move a group from one to the other.
    /// As in Kafka, no effect with `offsets.storage=zookeeper`.
    pub fn dual_commit_enabled(self, value: bool) -> Self {
        self.set("dual.commit.enabled", value.to_string())
    }

    /// `queued.max.bytes`: bound on the fetched and decompressed bytes that wait in the queues of
    /// one connector.
    ///
    /// Default 67,108,864 bytes (64 MiB), or `fetch.message.max.bytes` if that is more, which is the
    /// least. The streams share it evenly; each may always fetch one chunk, and unpack one compressed
    /// message of 64 MiB, or more where this bound is larger: what unpacks to still more is refused as
    /// corrupt. Not a key of Kafka's.
    pub fn queued_max_bytes(self, value: i64) -> Self {
        self.set("queued.max.bytes", value.to_string())
    }

    /// `consumed.on`: when a message counts as consumed: `next` or `return`, see [`ConsumedOn`].
    ///
    /// Default `next`. Not a key of Kafka's.
    pub fn consumed_on(self, choice: ConsumedOn) -> Self {
        self.set("consumed.on", choice.to_string())
    }

    /// `on.bad.message`: what follows a corrupt or too large message: `fail` or `skip`, see
    /// [`OnBadMessage`].
    ///
    /// Default `fail`. Not a key of Kafka's.
    pub fn on_bad_message(self, choice: OnBadMessage) -> Self {
        self.set("on.bad.message", choice.to_string())
    }

    /// `isolation.level`: which messages of transactions are delivered: `read_uncommitted` or `read_committed`, see
    /// [`IsolationLevel`].
    ///
    /// Default `read_uncommitted`. No effect on brokers before 0.11, which have no transactions. Not a key of the
    /// original consumer's; that of the Java consumer since 0.11 (KIP-98).
    pub fn isolation_level(self, level: IsolationLevel) -> Self {
        self.set("isolation.level", level.to_string())
    }

    /// `metadata.max.age.ms`: the oldest age of the cached view of the cluster before it is read
    /// again.
    ///
    /// Default 300,000 ms. Not a key of the original consumer's.
    pub fn metadata_max_age(self, time: Duration) -> Self {
        self.set("metadata.max.age.ms", millis(time))
    }

    /// `broker.listener.name`: the listener of each broker to connect to, in any case.
    ///
    /// By default the one that is called `PLAINTEXT`, else the first that speaks it. It has to speak plain
    /// text; a broker that lacks it is left out, and told. Brokers before 0.9 have `PLAINTEXT` only. Not a key
    /// of Kafka's consumer; its listeners have had names since 0.10.2 (KIP-103).
    pub fn broker_listener_name(self, name: impl Into<String>) -> Self {
        self.set("broker.listener.name", name)
    }

    /// `broker.address.map`: where brokers are reached that are not reached where they say, through a tunnel
    /// or out of a container: `advertised-host:port=reachable-host:port,...`, with brackets around IPv6
    /// addresses, see [`BrokerAddressMap`].
    ///
    /// Default empty. Applied whenever a connection is made, whoever named the address. Not a key of Kafka's.
    pub fn broker_address_map(self, map: &BrokerAddressMap) -> Self {
        self.set("broker.address.map", map.to_string())
    }

    /// `max.poll.records`: how many messages one [`poll`](crate::Poller::poll) gives at most.
    ///
    /// Default 500, at least 1. No effect on streams. Not a key of the original consumer's, but of the later one's
    /// (KIP-41).
    pub fn max_poll_records(self, value: usize) -> Self {
        self.set("max.poll.records", value.to_string())
    }
}

/// Whole milliseconds, a started one counts: no positive time becomes 0.
fn millis(time: Duration) -> String {
    time.as_nanos().div_ceil(1_000_000).to_string()
}

#[cfg(test)]
mod tests;
