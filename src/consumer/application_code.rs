//! Calls of the application's own code, whose panics must not end a thread of the connector.

use std::any::Any;
use std::error::Error as StdError;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

/// What the application's code may fail with.
type Failure = Box<dyn StdError + Send + Sync>;

/// Calls; a panic counts as an error.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|panic| Err(format!("panicked: {}", panic_text(&*panic)).into()))
}

/// What a panic said, where it said something.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "without a word",
    }
}
