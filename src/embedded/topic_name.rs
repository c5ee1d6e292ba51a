//! Which names a topic may have.

use crate::error::Error;

/// Longest name.
const LONGEST: usize = 255;

/// Refuses what brokers refuse.
pub(super) fn check(topic: &str) -> Result<(), Error> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let reason = match topic {
        "" => "is empty".to_owned(),
        "." | ".." => "is the name of a folder".to_owned(),
        _ if topic.len() > LONGEST => {
            format!("has {} characters, the most is {LONGEST}", topic.len())
        }
        _ if !topic.chars().all(is_legal) => {
            "has a character other than letters, digits, `.`, `_` and `-`".to_owned()
        }
        _ => return Ok(()),
    };
    Err(Error::InvalidArgument {
        name: "topic",
        reason: format!("`{topic}` {reason}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illegal_names_are_refused_with_the_reason() {
        for (topic, reason) in [
            ("", "is empty"),
            ("..", "folder"),
            ("a b", "character"),
            ("\u{e4}", "character"),
            (&"a".repeat(256), "256 characters"),
        ] {
            let error = check(topic).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        for topic in ["a", "A.b_c-9", "__consumer_offsets", &"a".repeat(255)] {
            check(topic).unwrap();
        }
    }
}
