//! Regular expressions of Java, for the names of topics.

mod character_class;
mod escape;
mod translation;

use crate::coordination::java_regex::translation::Translation;

/// How often a match may backtrack. A name has at most 255 characters, so what goes over it twice needs fewer than
/// that; a filter just below the limit takes some milliseconds for a name, and there may be thousands of names.
const MOST_BACKTRACKS: usize = 100_000;

/// A regular expression in the syntax of `java.util.regex.Pattern`, against which whole names are matched.
///
/// All members of a group must agree on what matches. So syntax of Java that has no exact counterpart here
/// is refused, rather than read as something else; and names are taken to be names of topics, which hold
/// letters, digits, `.`, `_` and `-` of ASCII and no line ends.
#[derive(Clone, Debug)]
pub(crate) struct JavaRegex {
    /// As it was given.
    pattern: String,
    matcher: Matcher,
}

#[derive(Clone, Debug)]
enum Matcher {
    /// In time linear to the name.
    Automaton(regex::Regex),
    /// For look-around, back references, atomic groups and possessive quantifiers.
    Backtracking(fancy_regex::Regex),
}

impl JavaRegex {
    /// The error says what is wrong with `pattern`, or cannot be evaluated.
    pub(crate) fn new(pattern: &str) -> Result<Self, String> {
        let translation =
            Translation::of(pattern).map_err(|reason| format!("regex `{pattern}`: {reason}"))?;
        let whole = format!(r"\A(?:{})\z", translation.regex);
        let matcher = if translation.backtracks {
            fancy_regex::RegexBuilder::new(&whole)
                .backtrack_limit(MOST_BACKTRACKS)
                .build()
                .map(Matcher::Backtracking)
                .map_err(|error| format!("regex `{pattern}`: {error}"))?
        } else {
            regex::Regex::new(&whole)
                .map(Matcher::Automaton)
                .map_err(|error| format!("regex `{pattern}`: {error}"))?
        };
        Ok(Self {
            pattern: pattern.to_owned(),
            matcher,
        })
    }

    /// Whether all of `name` matches. The error tells that this took too many steps.
    pub(crate) fn matches(&self, name: &str) -> Result<bool, String> {
        match &self.matcher {
            Matcher::Automaton(regex) => Ok(regex.is_match(name)),
            Matcher::Backtracking(regex) => regex
                .is_match(name)
                .map_err(|error| format!("regex `{}` with `{name}`: {error}", self.pattern)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Right in Java, and refused here.
    const UNSUPPORTED: [&str; 5] = ["{2}", "^*a", r"\1a", "(?=a)*a", "(?=a)+a"];

    #[test]
    fn matches_what_java_matches_and_refuses_what_java_refuses() {
        let table = include_str!("../../tests/fixtures/java-regex.tsv");
        let mut lines = table.lines().skip(1);
        let names: Vec<&str> = lines.next().unwrap().split(' ').skip(1).collect();
        let mut wrong = Vec::new();
        for line in lines {
            let (pattern, java) = line.split_once('\t').unwrap();
            let ours = match JavaRegex::new(pattern) {
                Err(reason) if java == "error" || UNSUPPORTED.contains(&pattern) => {
                    assert!(reason.contains(&format!("`{pattern}`")), "{reason}");
                    continue;
                }
                Err(reason) => reason,
                Ok(regex) => names
                    .iter()
                    .map(|name| {
                        if regex.matches(name).unwrap() {
                            '1'
                        } else {
                            '0'
                        }
                    })
                    .collect(),
            };
            if ours != java {
                wrong.push(format!("{pattern} gives {ours} instead of {java}"));
            }
        }
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn a_list_of_thousands_of_topics_is_read_and_what_is_too_large_is_refused() {
        let list: Vec<String> = (0..5_000)
            .map(|n| format!("orders-of-customer-{n}"))
            .collect();
        let regex = JavaRegex::new(&list.join("|")).unwrap();
        assert!(regex.matches("orders-of-customer-4711").unwrap());
        assert!(!regex.matches("orders-of-customer-5000").unwrap());
        let nested = format!("{}a{}", "(".repeat(1_000), ")".repeat(1_000));
        for pattern in [&"a".repeat(300_000), &nested, "((a{999}){999}){999}"] {
            assert!(JavaRegex::new(pattern).is_err());
        }
    }

    #[test]
    fn a_match_that_takes_too_long_is_an_error() {
        // The error quoted what had been made of the expression, which nobody had written.
        let pattern = r"(?=(a|aa|b\1)+$)a+(?!b)";
        let regex = JavaRegex::new(pattern).unwrap();
        let reason = regex.matches(&format!("{}x", "a".repeat(200))).unwrap_err();
        assert!(reason.contains("aaaax"), "{reason}");
        let quoted = format!("regex `{pattern}` with ");
        assert!(reason.starts_with(&quoted), "{reason}");
    }

    #[test]
    fn the_longest_name_may_be_gone_over_twice() {
        let regex = JavaRegex::new(r"(?!.*-.*-x)[a-z-]+").unwrap();
        let name = format!("{}-", "a-".repeat(127));
        assert!(regex.matches(&name).unwrap());
        assert!(!regex.matches(&format!("{name}x")).unwrap());
    }

    proptest! {
        #[test]
        fn no_pattern_makes_the_reader_panic(
            text in r"\PC{0,20}",
            regex in r"[a\\\[\](){}*+?|^$.&\-<=!>:ipQEkx0-9]{0,20}",
        ) {
            for pattern in [text, regex] {
                if let Ok(regex) = JavaRegex::new(&pattern) {
                    let _ = regex.matches("a-b.0_c");
                }
            }
        }
    }
}
