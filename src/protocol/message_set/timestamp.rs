//! The time of a message.

/// When a message was made or appended, to the millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timestamp {
    /// Milliseconds since 1970-01-01 00:00 UTC, as the producer or the broker claims.
    pub millis: i64,
    /// Whose clock that was.
    pub timestamp_type: TimestampType,
}

/// What a timestamp tells (topic property `message.timestamp.type`, KIP-32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// When the producer made the message, or what else it wanted to say.
    CreateTime,
    /// When the broker appended the message to its log.
    LogAppendTime,
}

/// On the wire: no timestamp.
pub(super) const NO_TIMESTAMP: i64 = -1;

impl Timestamp {
    #[inline]
    pub(super) fn create_time(millis: i64) -> Option<Self> {
        Self::of(millis, TimestampType::CreateTime)
    }

    #[inline]
    pub(super) fn log_append_time(millis: i64) -> Option<Self> {
        Self::of(millis, TimestampType::LogAppendTime)
    }

    #[inline]
    fn of(millis: i64, timestamp_type: TimestampType) -> Option<Self> {
        (millis != NO_TIMESTAMP).then_some(Self {
            millis,
            timestamp_type,
        })
    }
}
