//! The values of `on.bad.message`.

use crate::config::choices::choices;

/// `on.bad.message`: what follows a corrupt or too large message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnBadMessage {
    /// `fail`: it is an error of the stream, which stays before it until the application skips or seeks.
    Fail,
    /// `skip`: it is reported once, as an error of the stream and as an event, and then skipped.
    Skip,
}

choices!(OnBadMessage, "on.bad.message", any_case: false, {
    Fail: "fail",
    Skip: "skip",
});
