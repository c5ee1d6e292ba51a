//! Values of properties that are words.

use crate::error::Error;

/// Makes an enum the values of a property, written as words: the first of a value's words is the one that is written,
/// all of them are read. `any_case` says whether the case of the letters counts.
macro_rules! choices {
    ($type:ident, $key:literal, any_case: $any_case:literal, {
        $($value:ident: $word:literal $(or $other:literal)*,)+
    }) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $word,)+
                })
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::error::Error;

            /// The error names the key and all words.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let choices = [$((&[$word $(, $other)*][..], Self::$value)),+];
                $crate::config::choices::choose($key, text, $any_case, &choices)
            }
        }
    };
}

pub(super) use choices;

/// The value that one of the words stands for.
pub(super) fn choose<T: Copy>(
    key: &str,
    text: &str,
    any_case: bool,
    choices: &[(&[&str], T)],
) -> Result<T, Error> {
    let is_meant = |word: &&str| *word == text || (any_case && word.eq_ignore_ascii_case(text));
    let chosen = choices.iter().find(|(words, _)| words.iter().any(is_meant));
    let refused = || {
        let words: Vec<String> = choices.iter().map(|(words, _)| named(words)).collect();
        Error::InvalidConfig {
            key: key.to_owned(),
            reason: format!("`{text}` is neither {}", words.join(" nor ")),
        }
    };
    chosen.map(|(_, value)| *value).ok_or_else(refused)
}

/// The first word, and in brackets the others.
fn named(words: &[&str]) -> String {
    let mut words = words.iter().map(|word| format!("`{word}`"));
    let first = words.next().unwrap_or_default();
    match words.collect::<Vec<String>>() {
        others if others.is_empty() => first,
        others => format!("{first} ({})", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::fmt::Display;
    use std::str::FromStr;

    use crate::config::AutoOffsetReset;
    use crate::config::ConsumedOn;
    use crate::config::IsolationLevel;
    use crate::config::OffsetsStorage;
    use crate::config::OnBadMessage;
    use crate::config::PartitionAssignmentStrategy;
    use crate::config::RoundRobinVersion;

    use super::*;

    /// What each of `words` is written as after it was read, and what is said of a word that means nothing.
    fn read<T>(words: &[&str]) -> (Vec<String>, String)
    where
        T: FromStr<Err = Error> + Display + Debug,
    {
        let written = words
            .iter()
            .map(|word| word.parse::<T>().unwrap().to_string());
        let refusal = "sometimes".parse::<T>().unwrap_err();
        (written.collect(), refusal.to_string())
    }

    #[test]
    fn each_word_is_read_and_the_first_of_a_value_is_written() {
        let read = [
            read::<AutoOffsetReset>(&["smallest", "earliest", "latest", "largest", "error"]),
            read::<ConsumedOn>(&["next", "return"]),
            read::<IsolationLevel>(&["read_uncommitted", "read_committed"]),
            read::<OffsetsStorage>(&["ZooKeeper", "kafka", "KAFKA"]),
            read::<OnBadMessage>(&["fail", "skip"]),
            read::<PartitionAssignmentStrategy>(&["range", "roundrobin"]),
            read::<RoundRobinVersion>(&["0.8.2", "0.10.2", "1.0"]),
        ];
        let written = read.map(|(written, _)| written.join(" "));
        assert_eq!(
            written,
            [
                "smallest smallest largest largest none",
                "next return",
                "read_uncommitted read_committed",
                "zookeeper kafka kafka",
                "fail skip",
                "range roundrobin",
                "0.8.2 0.10.2 1.0",
            ]
        );
    }

    #[test]
    fn a_word_that_means_nothing_is_refused_with_the_key_and_those_that_do() {
        for (refusal, expected) in [
            (
                read::<AutoOffsetReset>(&[]).1,
                "invalid configuration `auto.offset.reset`: `sometimes` is neither \
                 `smallest` (`earliest`) nor `largest` (`latest`) nor `none` (`error`)",
            ),
            (
                read::<RoundRobinVersion>(&[]).1,
                "invalid configuration `roundrobin.version`: `sometimes` is neither \
                 `0.8.2` nor `0.10.2` nor `1.0`",
            ),
        ] {
            assert_eq!(refusal, expected);
        }
        let refusal = "Range".parse::<PartitionAssignmentStrategy>().unwrap_err();
        assert!(
            refusal.to_string().contains("`Range` is neither"),
            "as in Kafka"
        );
    }
}
