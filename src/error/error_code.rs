//! The error codes of the wire protocol.

use std::fmt;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $retriable:literal;)*) => {
        /// An error code of the wire protocol. Code 0 is no error and never becomes one of these.
        ///
        /// The names are those of current Kafka; an unknown code survives as [`ErrorCode::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode {
            $($(#[$doc])* $name,)*
            /// A code that this version of the crate has no name for.
            Other(i16),
        }

        impl ErrorCode {
            /// The code on the wire; `None` for 0, which means that there is no error.
            pub fn from_wire(code: i16) -> Option<Self> {
                match code {
                    0 => None,
                    $($code => Some(Self::$name),)*
                    other => Some(Self::Other(other)),
                }
            }

            /// The number on the wire.
            pub fn code(self) -> i16 {
                match self {
                    $(Self::$name => $code,)*
                    Self::Other(code) => code,
                }
            }

            /// Whether Kafka's own clients would try again. Unknown codes count as retriable,
            /// as `UNKNOWN_SERVER_ERROR` does, which old brokers use for passing conditions.
            pub fn is_retriable(self) -> bool {
                match self {
                    $(Self::$name => $retriable,)*
                    Self::Other(_) => true,
                }
            }

            fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                    Self::Other(_) => "Other",
                }
            }
        }
    };
}

error_codes! {
    /// Any exception of the broker without a code of its own; old brokers use it for passing conditions.
    UnknownServerError = -1, true;
    /// The fetch offset lies outside the log.
    OffsetOutOfRange = 1, false;
    /// CRC or size of a message is wrong.
    CorruptMessage = 2, true;
    /// Not known to this broker, or not hosted by it.
    UnknownTopicOrPartition = 3, true;
    /// The fetch size is not acceptable.
    InvalidFetchSize = 4, false;
    /// No leader now, or the topic is being created.
    LeaderNotAvailable = 5, true;
    /// This broker does not lead the partition.
    NotLeaderOrFollower = 6, true;
    /// Not replicated in time.
    RequestTimedOut = 7, true;
    /// For tools only.
    BrokerNotAvailable = 8, false;
    /// The broker of some replica is down; in metadata to be ignored.
    ReplicaNotAvailable = 9, true;
    /// Larger than `message.max.bytes` of the broker.
    MessageTooLarge = 10, false;
    /// Between brokers only.
    StaleControllerEpoch = 11, false;
    /// The metadata of a committed offset is longer than the broker allows.
    OffsetMetadataTooLarge = 12, false;
    /// The connection broke before the answer.
    NetworkException = 13, true;
    /// The coordinator still reads its log.
    CoordinatorLoadInProgress = 14, true;
    /// There is no coordinator yet.
    CoordinatorNotAvailable = 15, true;
    /// This broker does not coordinate the group.
    NotCoordinator = 16, true;
    /// The topic's name is illegal, or the topic is internal.
    InvalidTopic = 17, false;
    /// A message set is larger than a segment.
    RecordListTooLarge = 18, false;
    /// Fewer replicas in sync than `min.insync.replicas`.
    NotEnoughReplicas = 19, true;
    /// The same, found after appending.
    NotEnoughReplicasAfterAppend = 20, true;
    /// Acks are not -1, 0 or 1.
    InvalidRequiredAcks = 21, false;
    /// The generation is not the group's.
    IllegalGeneration = 22, false;
    /// Members of a group share no protocol.
    InconsistentGroupProtocol = 23, false;
    /// The group id is empty or illegal.
    InvalidGroupId = 24, false;
    /// Not a member of the group.
    UnknownMemberId = 25, false;
    /// The session timeout is out of the broker's range.
    InvalidSessionTimeout = 26, false;
    /// The group rebalances.
    RebalanceInProgress = 27, false;
    /// The commit is too large for a message of the offsets topic.
    InvalidCommitOffsetSize = 28, false;
    /// Not authorised for the topic.
    TopicAuthorizationFailed = 29, false;
    /// Not authorised for the group.
    GroupAuthorizationFailed = 30, false;
    /// Not authorised for the cluster.
    ClusterAuthorizationFailed = 31, false;
    /// A timestamp is too far from the broker's clock.
    InvalidTimestamp = 32, false;
    /// The SASL mechanism is not supported.
    UnsupportedSaslMechanism = 33, false;
    /// Not allowed in this state of SASL.
    IllegalSaslState = 34, false;
    /// The version of the API is not supported, or conversion is switched off.
    UnsupportedVersion = 35, false;
    /// The topic exists already.
    TopicAlreadyExists = 36, false;
    /// The number of partitions is out of range.
    InvalidPartitions = 37, false;
    /// The replication factor is out of range.
    InvalidReplicationFactor = 38, false;
    /// The replica assignment is illegal.
    InvalidReplicaAssignment = 39, false;
    /// A configuration value is illegal.
    InvalidConfig = 40, false;
    /// This broker is not the controller.
    NotController = 41, true;
    /// Malformed or contradictory request.
    InvalidRequest = 42, false;
    /// The message format has no timestamps to search.
    UnsupportedForMessageFormat = 43, false;
    /// A policy of the cluster refuses it.
    PolicyViolation = 44, false;
    /// For producers: a sequence number came out of order.
    OutOfOrderSequenceNumber = 45, false;
    /// For producers: a sequence number came twice.
    DuplicateSequenceNumber = 46, false;
    /// For producers: an old epoch.
    InvalidProducerEpoch = 47, false;
    /// For producers: not allowed in this state of the transaction.
    InvalidTxnState = 48, false;
    /// For producers: the id does not belong to the transactional id.
    InvalidProducerIdMapping = 49, false;
    /// For producers: the timeout is more than the broker allows.
    InvalidTransactionTimeout = 50, false;
    /// For producers: another transaction of the same id is not over yet.
    ConcurrentTransactions = 51, true;
    /// Between brokers only.
    TransactionCoordinatorFenced = 52, false;
    /// Not authorised for the transactional id.
    TransactionalIdAuthorizationFailed = 53, false;
    /// Security features are switched off.
    SecurityDisabled = 54, false;
    /// Not tried, because another part of the request failed.
    OperationNotAttempted = 55, false;
    /// A disk of the broker failed.
    KafkaStorageError = 56, true;
    /// The broker has no such log directory.
    LogDirNotFound = 57, false;
    /// SASL refused the credentials.
    SaslAuthenticationFailed = 58, false;
    /// For producers: the broker has forgotten the id.
    UnknownProducerId = 59, false;
    /// The partitions are being reassigned.
    ReassignmentInProgress = 60, false;
    /// Delegation tokens are switched off.
    DelegationTokenAuthDisabled = 61, false;
    /// There is no such delegation token.
    DelegationTokenNotFound = 62, false;
    /// The delegation token belongs to somebody else.
    DelegationTokenOwnerMismatch = 63, false;
    /// Delegation tokens are not handed out over such a connection.
    DelegationTokenRequestNotAllowed = 64, false;
    /// Not authorised for the delegation token.
    DelegationTokenAuthorizationFailed = 65, false;
    /// The delegation token is too old.
    DelegationTokenExpired = 66, false;
    /// The kind of principal is not supported.
    InvalidPrincipalType = 67, false;
    /// The group still has members.
    NonEmptyGroup = 68, false;
    /// There is no such group.
    GroupIdNotFound = 69, false;
    /// The fetch session is not known.
    FetchSessionIdNotFound = 70, true;
    /// The epoch of the fetch session is wrong.
    InvalidFetchSessionEpoch = 71, true;
    /// The leader has no such listener.
    ListenerNotFound = 72, true;
    /// Deletion of topics is switched off.
    TopicDeletionDisabled = 73, false;
    /// The leader epoch is older than the broker's.
    FencedLeaderEpoch = 74, true;
    /// The leader epoch is newer than the broker's.
    UnknownLeaderEpoch = 75, true;
    /// The data is compressed in a way that the version of the request cannot carry.
    UnsupportedCompressionType = 76, false;
    /// Between brokers only.
    StaleBrokerEpoch = 77, false;
    /// The leader does not know its high watermark yet.
    OffsetNotAvailable = 78, true;
    /// A member has to join with the id it was given.
    MemberIdRequired = 79, false;
    /// The preferred leader is down.
    PreferredLeaderNotAvailable = 80, true;
    /// The group takes no more members.
    GroupMaxSizeReached = 81, false;
    /// Another member has the same instance id.
    FencedInstanceId = 82, false;
    /// No replica may become the leader.
    EligibleLeadersNotAvailable = 83, true;
    /// The leader is the wanted one already.
    ElectionNotNeeded = 84, true;
    /// There is no reassignment to look at.
    NoReassignmentInProgress = 85, false;
    /// The group still reads the topic.
    GroupSubscribedToTopic = 86, false;
    /// For producers: the broker refuses a record.
    InvalidRecord = 87, false;
    /// A transaction over the offsets is not over yet.
    UnstableOffsetCommit = 88, true;
    /// Over the quota.
    ThrottlingQuotaExceeded = 89, true;
    /// For producers: a newer one has taken over.
    ProducerFenced = 90, false;
    /// No topic has this id.
    UnknownTopicId = 100, true;
    /// The topic has another id.
    InconsistentTopicId = 103, true;
    /// A fetch session mixes topic ids and names.
    FetchSessionTopicIdError = 106, true;
    /// For followers: the offset is not on the leader's disk any more.
    OffsetMovedToTieredStorage = 109, false;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.name(), self.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_wire_survives_the_round_trip() {
        for code in i16::MIN..=i16::MAX {
            let back = ErrorCode::from_wire(code).map(ErrorCode::code);
            assert_eq!(back, (code != 0).then_some(code));
        }
    }

    #[test]
    fn an_unknown_code_keeps_its_number_and_is_retriable() {
        let code = ErrorCode::from_wire(4711).unwrap();
        assert_eq!(code, ErrorCode::Other(4711));
        assert!(code.is_retriable());
        assert_eq!(code.to_string(), "Other (code 4711)");
    }

    #[test]
    fn the_text_names_the_code() {
        assert_eq!(
            ErrorCode::NotLeaderOrFollower.to_string(),
            "NotLeaderOrFollower (code 6)"
        );
    }
}
