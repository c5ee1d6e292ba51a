//! The values of `consumed.on`.

use crate::config::choices::choices;

/// `consumed.on`: when a message counts as consumed, so that its offset may be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConsumedOn {
    /// `next`: when the application comes back for the next one; a crash repeats the message.
    Next,
    /// `return`: as soon as it is handed out, as in Kafka; a crash loses the message.
    Return,
}

choices!(ConsumedOn, "consumed.on", any_case: false, {
    Next: "next",
    Return: "return",
});
