//! Waiting for a condition: with a deadline, and with words for the failure.

use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Pause between two looks.
pub const POLL: Duration = Duration::from_millis(20);

/// Polls until `condition` holds.
///
/// # Panics
/// When `limit` has passed; the message says what was waited for.
#[track_caller]
pub fn wait_until(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(limit, what, || condition().then_some(()));
}

/// Polls until `attempt` yields a value.
///
/// # Panics
/// When `limit` has passed; the message says what was waited for.
#[track_caller]
pub fn wait_for<T>(limit: Duration, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(
            Instant::now() < deadline,
            "waited {limit:?} in vain for {what}"
        );
        thread::sleep(POLL);
    }
}
