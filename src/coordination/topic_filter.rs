//! Which topics a subscription by pattern asks for.

use std::fmt;

use crate::coordination::java_regex::JavaRegex;
use crate::error::Error;

/// Topics that Kafka keeps for itself. The second one came with Kafka 0.11.
const INTERNAL_TOPICS: [&str; 2] = ["__consumer_offsets", "__transaction_state"];

/// Sense of a topic filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WildcardPattern {
    /// Topics that match.
    WhiteList,
    /// Topics that do not match.
    BlackList,
}

/// A subscription by pattern: all topics whose whole name matches a regular expression, or all whose does not.
///
/// The expression is one of Java, `java.util.regex`, as all members of a group must agree on what matches. As in
/// Kafka a comma separates alternatives, and blanks and quotation marks around it are dropped: `"orders, bills"` is
/// `orders|bills`, and `a{1,3}`, which would become `a{1|3}`, is refused.
///
/// ```
/// use kafka_zk_consumer::TopicFilter;
///
/// let filter = TopicFilter::whitelist(r"orders\.(eu|us), bills")?;
/// assert_eq!(filter.regex(), r"orders\.(eu|us)|bills");
/// # Ok::<(), kafka_zk_consumer::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TopicFilter {
    pattern: WildcardPattern,
    regex: JavaRegex,
    text: String,
}

impl WildcardPattern {
    /// The word in a registration.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::WhiteList => "white_list",
            Self::BlackList => "black_list",
        }
    }
}

impl TopicFilter {
    /// Lets topics pass that match.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`], which quotes the expression, for one that Java refuses, or that has no exact
    /// counterpart here: docs/compatibility.md lists those few.
    pub fn whitelist(regex: &str) -> Result<Self, Error> {
        Self::new(WildcardPattern::WhiteList, regex).map_err(refused)
    }

    /// Lets topics pass that do not match.
    ///
    /// # Errors
    /// As [`whitelist`](Self::whitelist).
    pub fn blacklist(regex: &str) -> Result<Self, Error> {
        Self::new(WildcardPattern::BlackList, regex).map_err(refused)
    }

    /// The expression as it is registered and evaluated.
    pub fn regex(&self) -> &str {
        &self.text
    }

    pub(crate) fn pattern(&self) -> WildcardPattern {
        self.pattern
    }

    /// `regex` is what the user wrote, or what is registered: reading it twice changes nothing.
    ///
    /// The error says why it cannot be evaluated.
    pub(crate) fn new(pattern: WildcardPattern, regex: &str) -> Result<Self, String> {
        let text = translated(regex);
        Ok(Self {
            pattern,
            regex: JavaRegex::new(&text)?,
            text,
        })
    }

    /// Whether the filter lets a topic pass. All of the name has to match.
    ///
    /// `exclude_internal` is the `exclude.internal.topics` of the member that asks, not of the one whose
    /// filter this is (D30). The error says why the filter cannot be evaluated.
    pub(crate) fn allows(&self, topic: &str, exclude_internal: bool) -> Result<bool, String> {
        if exclude_internal && INTERNAL_TOPICS.contains(&topic) {
            return Ok(false);
        }
        let matches = self.regex.matches(topic)?;
        Ok(match self.pattern {
            WildcardPattern::WhiteList => matches,
            WildcardPattern::BlackList => !matches,
        })
    }
}

impl fmt::Display for TopicFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sense = match self.pattern {
            WildcardPattern::WhiteList => "whitelist",
            WildcardPattern::BlackList => "blacklist",
        };
        write!(f, "{sense} `{}`", self.text)
    }
}

/// The error of a filter that cannot be used.
pub(crate) fn refused(reason: String) -> Error {
    Error::InvalidArgument {
        name: "topic filter",
        reason,
    }
}

/// What Kafka makes of a list of topics before it is a regular expression: commas separate alternatives,
/// blanks and quotation marks around it are dropped.
pub(crate) fn translated(regex: &str) -> String {
    let is_quote = |c| matches!(c, '"' | '\'');
    regex
        // What `String.trim` of Java takes away.
        .trim_matches(|c| c <= ' ')
        .replace(',', "|")
        .replace(' ', "")
        .trim_matches(is_quote)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whitelist(regex: &str) -> TopicFilter {
        TopicFilter::new(WildcardPattern::WhiteList, regex).unwrap()
    }

    fn blacklist(regex: &str) -> TopicFilter {
        TopicFilter::new(WildcardPattern::BlackList, regex).unwrap()
    }

    #[test]
    fn a_whitelist_lets_pass_what_matches() {
        for exclude_internal in [true, false] {
            let allows = |regex, topic| whitelist(regex).allows(topic, exclude_internal).unwrap();
            assert!(allows("white1,white2", "white2"));
            assert!(!allows("white1,white2", "black1"));
            assert!(allows(".+", "alltopics"));
            assert_eq!(allows(".+", "__consumer_offsets"), !exclude_internal);
            assert_eq!(allows(".+", "__transaction_state"), !exclude_internal);
            assert!(allows("white_listed-topic.+", "white_listed-topic1"));
            assert!(!allows("white_listed-topic.+", "black1"));
        }
    }

    #[test]
    fn a_blacklist_lets_pass_what_does_not_match() {
        for exclude_internal in [true, false] {
            let allows = |topic| blacklist("black1").allows(topic, exclude_internal).unwrap();
            assert!(allows("white2"));
            assert!(!allows("black1"));
            assert_eq!(allows("__consumer_offsets"), !exclude_internal);
        }
    }

    #[test]
    fn only_the_whole_name_counts() {
        for (regex, topic) in [
            ("a", "ab"),
            ("a", "ba"),
            ("a|b", "ab"),
            ("a|b", "ba"),
            ("", "a"),
        ] {
            assert!(
                !whitelist(regex).allows(topic, true).unwrap(),
                "{regex} {topic}"
            );
        }
        assert!(whitelist("a|ab|abc").allows("abc", true).unwrap());
    }

    #[test]
    fn a_filter_may_look_ahead() {
        let filter = whitelist(r"test-(?!bad\b)[\w]+");
        assert!(filter.allows("test-good", true).unwrap());
        assert!(filter.allows("test-baddest", true).unwrap());
        assert!(!filter.allows("test-bad", true).unwrap());
    }

    #[test]
    fn a_list_of_topics_becomes_a_regex_and_stays_it() {
        for (list, regex) in [
            ("white1,white2", "white1|white2"),
            (" \"a, b ,c\" ", "a|b|c"),
            ("\t'\"a\"'\n", "a"),
            ("[a,b]+", "[a|b]+"),
            ("a{1,3}", "a{1|3}"),
            ("", ""),
        ] {
            assert_eq!(translated(list), regex);
            assert_eq!(translated(regex), regex);
        }
    }

    #[test]
    fn a_regex_that_java_refuses_is_an_error_that_quotes_it() {
        for (list, regex) in [
            ("a{1,3}", "a{1|3}"),
            ("*abc", "*abc"),
            ("a**", "a**"),
            ("(", "("),
        ] {
            let reason = TopicFilter::new(WildcardPattern::BlackList, list).unwrap_err();
            assert!(reason.contains(&format!("`{regex}`")), "{reason}");
        }
    }
}
