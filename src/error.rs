//! What callers see when something fails.

mod error_code;
mod few;

use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;

pub use error_code::ErrorCode;
pub(crate) use few::Few;

/// Why a lower layer failed; its type stays inside the crate.
type Source = Box<dyn std::error::Error + Send + Sync>;

/// Everything that can go wrong, with the topic, partition, broker, path or key that it concerns.
///
/// The text says what was being done; [`source`](std::error::Error::source) says why it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration value is missing, malformed or out of range.
    #[error("invalid configuration `{key}`: {reason}")]
    InvalidConfig {
        /// The property's key.
        key: String,
        /// What is wrong with it, with the value.
        reason: String,
    },

    /// A `.properties` file cannot be read or parsed.
    #[error("property file {}{}: {reason}", path.display(), line.map(|n| format!(", line {n}")).unwrap_or_default())]
    PropertyFile {
        /// The file.
        path: PathBuf,
        /// The line, from 1, where the trouble has one.
        line: Option<usize>,
        /// What is wrong.
        reason: String,
    },

    /// An argument of a call is out of its range.
    #[error("invalid {name}: {reason}")]
    InvalidArgument {
        /// The argument.
        name: &'static str,
        /// What is wrong with it, with the value.
        reason: String,
    },

    /// Streams were asked for twice; a connector makes its streams once.
    #[error("message streams were already created by this connector")]
    MessageStreamsExist,

    /// The connector or client was closed, before or during the call.
    #[error("closed")]
    Closed,

    /// The system refused to start another thread.
    #[error("could not start thread {name}")]
    Thread {
        /// The thread's name.
        name: String,
        /// What the system said.
        source: io::Error,
    },

    /// A broker cannot be reached, broke the connection or did not answer in time.
    #[error("lost broker {address} while {doing}")]
    Broker {
        /// The broker.
        address: BrokerAddress,
        /// What was being done, e.g. "connecting".
        doing: &'static str,
        /// What the socket said.
        source: io::Error,
    },

    /// A broker answered with bytes that are not an answer to the request.
    #[error("unusable answer of broker {address} to {api}")]
    Response {
        /// The broker.
        address: BrokerAddress,
        /// The request that was answered.
        api: &'static str,
        /// The field and the trouble with it.
        source: Source,
    },

    /// A request cannot be put into bytes, e.g. for a name of more than 32,767 bytes.
    #[error("cannot encode {api} request")]
    Request {
        /// The request.
        api: &'static str,
        /// The field and the trouble with it.
        source: Source,
    },

    /// A broker serves no version of a request whose layout is known here, or not the request at all.
    #[error("broker {address} {}, known here are {} to {}", served(api, theirs.as_ref()), ours.start(), ours.end())]
    UnsupportedVersion {
        /// The broker.
        address: BrokerAddress,
        /// The request.
        api: &'static str,
        /// The versions known here.
        ours: RangeInclusive<i16>,
        /// The versions that the broker serves; `None` when it does not list the request.
        theirs: Option<RangeInclusive<i16>>,
    },

    /// A broker answered a whole request with an error code.
    #[error("broker {address} refused {api}: {code}")]
    Refused {
        /// The broker.
        address: BrokerAddress,
        /// The request.
        api: &'static str,
        /// The broker's code.
        code: ErrorCode,
    },

    /// A broker answered with an error code for one partition.
    #[error("broker {address} refused {api} of {topic_partition}: {code}")]
    Partition {
        /// The broker.
        address: BrokerAddress,
        /// The request.
        api: &'static str,
        /// The partition concerned.
        topic_partition: TopicPartition,
        /// The broker's code.
        code: ErrorCode,
    },

    /// A broker left a partition or topic that was asked for out of its answer, or said nothing of use about it.
    #[error("answer of broker {address} to {api} lacks {what}")]
    Incomplete {
        /// The broker.
        address: BrokerAddress,
        /// The request.
        api: &'static str,
        /// What is missing.
        what: String,
    },

    /// No broker could be found that keeps the offsets of the group (`offsets.storage=kafka`).
    #[error("no coordinator for group {group}: {reason}")]
    Coordinator {
        /// The group.
        group: String,
        /// What the brokers said, or why they could not be asked.
        reason: String,
        /// The code of the broker that answered; `None` when none did.
        code: Option<ErrorCode>,
        /// What happened to the last broker that was asked.
        source: Option<Box<Error>>,
    },

    /// An offset was not stored, because somebody else owns the partition by now.
    #[error("offset of {topic_partition} not stored: {path} is owned by {owner}")]
    OffsetFenced {
        /// The partition.
        topic_partition: TopicPartition,
        /// The owner node.
        path: String,
        /// Who owns it; "nobody" when there is no such node.
        owner: String,
    },

    /// The application's own [`OffsetStore`](crate::OffsetStore) failed.
    #[error("offset store: {doing}")]
    OffsetStore {
        /// What it was asked for.
        doing: String,
        /// What it said.
        source: Source,
    },

    /// No broker answered a metadata request.
    #[error("no metadata for {}: {}", Few(topics), unanswered(brokers))]
    Metadata {
        /// The topics asked for.
        topics: Vec<String>,
        /// The brokers tried, `host:port`.
        brokers: Vec<String>,
        /// The last broker's error; `None` when there was no broker to ask.
        source: Option<Box<Error>>,
    },

    /// Nobody is known to lead a partition, so that nobody can be asked about it.
    #[error("no leader of {topic_partition} is known")]
    NoLeader {
        /// The partition.
        topic_partition: TopicPartition,
    },

    /// ZooKeeper cannot be reached, or refused an operation.
    #[error("zookeeper: {doing}")]
    ZooKeeper {
        /// The operation, with its path.
        doing: String,
        /// What the client said.
        source: Source,
    },

    /// The chroot of `zookeeper.connect` does not exist; it is not created silently (KAFKA-2088).
    #[error("chroot {chroot} does not exist in zookeeper {hosts}")]
    MissingChroot {
        /// The missing path.
        chroot: String,
        /// The hosts of the connect string.
        hosts: String,
    },

    /// Another live process has registered the same member id (`consumer.id`).
    #[error("member id already registered: {path} is held by session {session:#x}")]
    MemberIdTaken {
        /// The registration node.
        path: String,
        /// The session that holds it.
        session: i64,
    },

    /// All attempts of the first rebalance failed; background rebalances go on instead.
    #[error("{member} could not rebalance in {attempts} attempts")]
    RebalanceFailed {
        /// The member's id.
        member: String,
        /// `rebalance.max.retries`.
        attempts: u32,
        /// Why the last attempt failed.
        source: Box<Error>,
    },

    /// Another member owns a partition that this member was assigned.
    #[error("{path} is owned by {owner}")]
    OwnershipConflict {
        /// The owner node.
        path: String,
        /// The thread id in it.
        owner: String,
    },

    /// With round robin as up to Kafka 0.10.1, every thread must ask for the same topics.
    #[error(
        "round robin needs equal subscriptions: {thread} asks for {topic}, but not for {other_topic}"
    )]
    SubscriptionsDiffer {
        /// One of the threads that make a difference, `<member>-<n>`.
        thread: String,
        /// A topic that it asks for.
        topic: String,
        /// A topic that others ask for.
        other_topic: String,
    },

    /// The assignment was made from a view of the group that has changed since.
    #[error("the group changed during the rebalance")]
    GroupChanged,

    /// The ZooKeeper session ended; what it owned may belong to others by now.
    #[error("zookeeper session expired")]
    SessionExpired,

    /// A file of the folder that an embedded cluster keeps its data in cannot be read or written.
    #[error("data folder {}", path.display())]
    DataFolder {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Some offsets could not be committed; the others were.
    #[error("could not commit {} of {} offsets, the first of {}", failed.len(), failed.len() + committed.len(), failed.first().map(|(partition, error)| format!("{partition}: {}", error.chain())).unwrap_or_default())]
    CommitFailed {
        /// The partitions that were committed, with their offsets.
        committed: Vec<(TopicPartition, i64)>,
        /// The others, each with the reason.
        failed: Vec<(TopicPartition, Error)>,
    },
}

impl Error {
    /// Whether the same call may succeed later without any change by the caller.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::InvalidConfig { .. }
            | Self::PropertyFile { .. }
            | Self::InvalidArgument { .. }
            | Self::MessageStreamsExist
            | Self::Closed
            | Self::MissingChroot { .. }
            | Self::MemberIdTaken { .. }
            | Self::OffsetFenced { .. }
            | Self::Request { .. }
            | Self::UnsupportedVersion { .. } => false,
            Self::Partition { code, .. } | Self::Refused { code, .. } => code.is_retriable(),
            Self::Coordinator { code, .. } => code.is_none_or(ErrorCode::is_retriable),
            Self::CommitFailed { failed, .. } => {
                failed.iter().any(|(_, error)| error.is_retriable())
            }
            Self::Thread { .. }
            | Self::Broker { .. }
            | Self::Response { .. }
            | Self::Incomplete { .. }
            | Self::Metadata { .. }
            | Self::NoLeader { .. }
            | Self::ZooKeeper { .. }
            | Self::DataFolder { .. }
            | Self::OffsetStore { .. }
            | Self::RebalanceFailed { .. }
            | Self::OwnershipConflict { .. }
            | Self::SubscriptionsDiffer { .. }
            | Self::GroupChanged
            | Self::SessionExpired => true,
        }
    }

    /// What an offset store said; an error of this crate stays what it is.
    pub(crate) fn of_store(doing: impl Into<String>, source: Source) -> Self {
        match source.downcast::<Self>() {
            Ok(error) => *error,
            Err(source) => Self::OffsetStore {
                doing: doing.into(),
                source,
            },
        }
    }

    /// The error and all its sources in one line, for logs and events.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            text.push_str(": ");
            text.push_str(&error.to_string());
            source = error.source();
        }
        text
    }
}

/// What a broker does with a request, as far as it says.
fn served(api: &str, versions: Option<&RangeInclusive<i16>>) -> String {
    match versions {
        Some(versions) => format!(
            "serves {api} in versions {} to {}",
            versions.start(),
            versions.end()
        ),
        None => format!("does not serve {api}"),
    }
}

/// Who did not answer, of the brokers that were asked.
fn unanswered(brokers: &[String]) -> String {
    if brokers.is_empty() {
        return String::from("there is no broker to ask");
    }
    format!("no answer from {}", Few(brokers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_metadata_is_told_apart_from_missing_brokers() {
        let error = |brokers: &[&str]| {
            Error::Metadata {
                topics: vec![String::from("orders"), String::from("bills")],
                brokers: brokers.iter().map(|it| String::from(*it)).collect(),
                source: None,
            }
            .to_string()
        };
        assert_eq!(
            error(&["a:9092", "b:9092"]),
            "no metadata for orders, bills: no answer from a:9092, b:9092"
        );
        assert_eq!(
            error(&[]),
            "no metadata for orders, bills: there is no broker to ask"
        );
    }

    #[test]
    fn of_thousands_of_topics_without_metadata_a_few_are_named() {
        // A member by filter told all of its topics, with each look for leaders, five times a second while no broker
        // was up: tens of kilobytes a line.
        let error = Error::Metadata {
            topics: (0..3000).map(|n| format!("topic-{n}")).collect(),
            brokers: (0..7).map(|n| format!("b{n}:9092")).collect(),
            source: None,
        };
        assert_eq!(
            error.to_string(),
            "no metadata for topic-0, topic-1, topic-2, topic-3, topic-4 and 2995 more: no answer from b0:9092, \
             b1:9092, b2:9092, b3:9092, b4:9092 and 2 more"
        );
    }

    #[test]
    fn a_chain_tells_what_was_done_and_why_it_failed() {
        let error = Error::Broker {
            address: BrokerAddress::new("localhost", 9092),
            doing: "connecting",
            source: io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused"),
        };
        assert_eq!(
            error.chain(),
            "lost broker localhost:9092 while connecting: connection refused"
        );
    }

    #[test]
    fn a_property_file_error_names_the_line_where_there_is_one() {
        let error = |line| {
            let path = PathBuf::from("consumer.properties");
            let reason = String::from("odd");
            Error::PropertyFile { path, line, reason }.to_string()
        };
        assert_eq!(
            error(Some(3)),
            "property file consumer.properties, line 3: odd"
        );
        assert_eq!(error(None), "property file consumer.properties: odd");
    }
}
