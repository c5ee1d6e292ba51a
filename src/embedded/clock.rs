//! The time as Kafka tells it.

use std::time::SystemTime;

/// Milliseconds since 1970.
pub(crate) fn milliseconds_now() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}
