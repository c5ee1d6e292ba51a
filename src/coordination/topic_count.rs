//! What a member subscribes to, and the registration that tells the others.

use std::collections::BTreeMap;
#[cfg(test)]
use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

#[cfg(test)]
use crate::coordination::consumer_id::ConsumerThreadId;
use crate::coordination::lenient_json;
use crate::coordination::topic_filter::TopicFilter;
use crate::coordination::topic_filter::WildcardPattern;
use crate::error::Error;

/// How many streams one member may ask for in all. The streams of every member become values in
/// memory, and a registration may claim any number of them.
const MAX_STREAMS: usize = 1_000_000;

/// The longest name of a topic that Kafka ever allowed.
const MAX_TOPIC_LENGTH: usize = 255;

/// How many streams a member has for which topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TopicCount {
    /// Topics by name, each with its number of streams.
    Static(BTreeMap<String, usize>),
    /// All topics that a regular expression lets pass. Has no topics or threads of its own, until it is
    /// [narrowed](Self::narrowed) to topics that exist.
    Wildcard {
        /// Which topics pass: those that match or those that do not.
        pattern: WildcardPattern,
        /// The expression, in Java's syntax.
        regex: String,
        /// Streams for every topic.
        streams: usize,
    },
}

impl TopicCount {
    /// A subscription to topics by name.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a topic without a stream, named twice, or with a name that no topic can
    /// have.
    pub(crate) fn fixed(topics: impl IntoIterator<Item = (String, usize)>) -> Result<Self, Error> {
        let mut counts = BTreeMap::new();
        for (topic, streams) in topics {
            check_topic(&topic)?;
            if streams == 0 {
                let reason =
                    format!("topic `{topic}` is asked for with 0 streams, at least 1 is needed");
                return Err(invalid(reason));
            }
            if counts.contains_key(&topic) {
                return Err(invalid(format!("topic `{topic}` is asked for twice")));
            }
            counts.insert(topic, streams);
        }
        check_total(&counts).map_err(invalid)?;
        Ok(Self::Static(counts))
    }

    /// A subscription to all topics that pass, with so many streams for each.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for no stream, or more than a million.
    pub(crate) fn by_filter(filter: &TopicFilter, streams: usize) -> Result<Self, Error> {
        if !(1..=MAX_STREAMS).contains(&streams) {
            let reason = format!(
                "{filter} is asked for with {streams} streams, 1 to {MAX_STREAMS} are possible"
            );
            return Err(invalid(reason));
        }
        Ok(Self::Wildcard {
            pattern: filter.pattern(),
            regex: filter.regex().to_owned(),
            streams,
        })
    }

    /// A member that asks for nothing.
    pub(crate) fn empty() -> Self {
        Self::Static(BTreeMap::new())
    }

    /// Reads the registration of any member of any version.
    ///
    /// The error says why the registration cannot be used; such a member counts as one that asks
    /// for [nothing](Self::empty), and must be reported.
    pub(crate) fn parse(registration: &[u8]) -> Result<Self, String> {
        let json = lenient_json::parse(registration)?;
        let field = |name| json.get(name).ok_or_else(|| format!("lacks `{name}`"));
        let pattern = field("pattern")?;
        let pattern = pattern
            .as_str()
            .ok_or_else(|| format!("`pattern` is {pattern}, no string"))?;
        let subscription = field("subscription")?;
        let subscription = subscription
            .as_object()
            .ok_or_else(|| String::from("`subscription` is no object"))?;
        let wildcard = match pattern {
            "white_list" => Some(WildcardPattern::WhiteList),
            "black_list" => Some(WildcardPattern::BlackList),
            _ => None,
        };
        match (wildcard, subscription.iter().next()) {
            (Some(pattern), Some((regex, streams))) => Ok(Self::Wildcard {
                pattern,
                regex: regex.clone(),
                streams: count(regex, streams)?,
            }),
            _ => fixed_of(subscription),
        }
    }

    /// The same subscription by name: a filter asks with its number of streams for each of `topics` that
    /// passes.
    ///
    /// `exclude_internal` is as in [`TopicFilter::allows`]. The error says why the filter cannot be evaluated;
    /// another member with such a one counts as one that asks for [nothing](Self::empty), and must be reported.
    /// Thousands of names take their time: once `is_over`, the rest is left out, and the result means nothing.
    pub(crate) fn narrowed(
        &self,
        topics: &[String],
        exclude_internal: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Result<Self, String> {
        match self {
            Self::Static(counts) => Ok(Self::Static(counts.clone())),
            Self::Wildcard {
                pattern,
                regex,
                streams,
            } => {
                let filter = TopicFilter::new(*pattern, regex)?;
                let mut counts = BTreeMap::new();
                for topic in topics {
                    if is_over() {
                        break;
                    }
                    if filter.allows(topic, exclude_internal)? {
                        counts.insert(topic.clone(), *streams);
                    }
                }
                check_total(&counts)?;
                Ok(Self::Static(counts))
            }
        }
    }

    /// The registration, with a time stamp in milliseconds since 1970.
    pub(crate) fn registration(&self, epoch_millis: u128) -> String {
        let mut subscription = Map::new();
        match self {
            Self::Static(topics) => subscription.extend(
                topics
                    .iter()
                    .map(|(topic, streams)| (topic.clone(), json!(streams))),
            ),
            Self::Wildcard { regex, streams, .. } => {
                subscription.insert(regex.clone(), json!(streams));
            }
        }
        // The order of the keys is Kafka's.
        json!({
            "version": 1,
            "subscription": subscription,
            "pattern": self.pattern(),
            "timestamp": epoch_millis.to_string(),
        })
        .to_string()
    }

    /// The regular expression of a filter; `None` for topics by name.
    pub(crate) fn regex(&self) -> Option<&str> {
        match self {
            Self::Static(_) => None,
            Self::Wildcard { regex, .. } => Some(regex),
        }
    }

    /// How many streams are asked for of one topic.
    pub(crate) fn streams(&self, topic: &str) -> usize {
        match self {
            Self::Static(topics) => topics.get(topic).copied().unwrap_or_default(),
            Self::Wildcard { .. } => 0,
        }
    }

    /// The topics asked for by name, in order.
    pub(crate) fn topics(&self) -> impl Iterator<Item = &str> {
        self.counts().map(|(topic, _)| topic)
    }

    #[cfg(test)]
    /// The threads of `member`, which has this subscription, each with its topic.
    pub(crate) fn threads(&self, member: &str) -> impl Iterator<Item = (&str, ConsumerThreadId)> {
        let member: Arc<str> = member.into();
        self.counts().flat_map(move |(topic, streams)| {
            let member = Arc::clone(&member);
            let thread = move |n| (topic, ConsumerThreadId::new(Arc::clone(&member), n));
            (0..streams).map(thread)
        })
    }

    fn counts(&self) -> impl Iterator<Item = (&str, usize)> {
        let topics = match self {
            Self::Static(topics) => Some(topics),
            Self::Wildcard { .. } => None,
        };
        topics
            .into_iter()
            .flatten()
            .map(|(topic, streams)| (topic.as_str(), *streams))
    }

    fn pattern(&self) -> &'static str {
        match self {
            Self::Static(_) => "static",
            Self::Wildcard { pattern, .. } => pattern.as_str(),
        }
    }
}

fn fixed_of(subscription: &Map<String, Value>) -> Result<TopicCount, String> {
    let topics: BTreeMap<String, usize> = subscription
        .iter()
        .map(|(topic, streams)| Ok((topic.clone(), count(topic, streams)?)))
        .collect::<Result<_, String>>()?;
    check_total(&topics)?;
    Ok(TopicCount::Static(topics))
}

fn count(topic: &str, streams: &Value) -> Result<usize, String> {
    streams
        .as_u64()
        .and_then(|streams| usize::try_from(streams).ok())
        .filter(|streams| *streams <= MAX_STREAMS)
        .ok_or_else(|| format!("`{topic}` is asked for with {streams} streams"))
}

fn check_total(topics: &BTreeMap<String, usize>) -> Result<(), String> {
    let total = topics
        .values()
        .fold(0_usize, |total, streams| total.saturating_add(*streams));
    if total > MAX_STREAMS {
        return Err(format!("{total} streams are more than {MAX_STREAMS}"));
    }
    Ok(())
}

/// Refuses what Kafka lets nobody call a topic, and what would not be one node of ZooKeeper.
pub(crate) fn check_topic(topic: &str) -> Result<(), Error> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let named = !topic.is_empty() && topic != "." && topic != "..";
    if named && topic.len() <= MAX_TOPIC_LENGTH && topic.chars().all(legal) {
        return Ok(());
    }
    let reason = format!(
        "`{topic}` is no name of a topic: 1 to {MAX_TOPIC_LENGTH} of the characters \
         a-z A-Z 0-9 . _ -, and neither `.` nor `..`"
    );
    Err(Error::InvalidArgument {
        name: "topic",
        reason,
    })
}

fn invalid(reason: String) -> Error {
    Error::InvalidArgument {
        name: "topic count",
        reason,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fixed(topics: &[(&str, usize)]) -> TopicCount {
        let owned = |(topic, n): &(&str, usize)| ((*topic).to_owned(), *n);
        TopicCount::fixed(topics.iter().map(owned)).unwrap()
    }

    fn parsed(text: &str) -> TopicCount {
        TopicCount::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_registration_has_the_keys_in_the_order_of_kafka() {
        assert_eq!(
            fixed(&[("b", 1), ("a", 2)]).registration(1_416_808_000_000),
            r#"{"version":1,"subscription":{"a":2,"b":1},"pattern":"static","timestamp":"1416808000000"}"#
        );
    }

    /// The registration knew the last count only, while a queue was made for each: a stream too many, which
    /// never got a message, and a sum of streams that could overflow.
    #[test]
    fn a_topic_is_asked_for_once() {
        let twice = [("a", 2), ("b", 1), ("a", 1)].map(|(topic, n)| (topic.to_owned(), n));
        let error = TopicCount::fixed(twice).unwrap_err();
        assert!(
            error.to_string().contains("`a` is asked for twice"),
            "{error}"
        );
    }

    #[test]
    fn a_registration_reads_back_identical() {
        let count = fixed(&[("topic.1", 3), ("x_y-z", 1)]);
        assert_eq!(parsed(&count.registration(0)), count);
        assert_eq!(
            parsed(&TopicCount::empty().registration(0)),
            TopicCount::empty()
        );
    }

    #[test]
    fn a_regex_is_escaped_once_and_reads_back_identical() {
        // Kafka 1.0.1 escaped it twice, so that filters with a backslash matched nothing.
        for regex in [
            "a\"b",
            r"a\b",
            "a/b",
            r"\b\f\n\r\t\u0000\u001f\u007f\u009f",
            "\u{1}\u{9f}",
        ] {
            let filter = TopicCount::Wildcard {
                pattern: WildcardPattern::WhiteList,
                regex: regex.to_owned(),
                streams: 1,
            };
            let text = filter.registration(0);
            assert_eq!(parsed(&text), filter);
            assert_eq!(text.matches(r"\\").count(), regex.matches('\\').count());
        }
    }

    #[test]
    fn version_and_timestamp_may_be_missing() {
        let text = r#" { "pattern" : "static", "subscription" : { "a" : 2 } } "#;
        assert_eq!(parsed(text), fixed(&[("a", 2)]));
        assert_eq!(
            parsed(r#"{"pattern":"other","subscription":{}}"#),
            TopicCount::empty()
        );
    }

    #[test]
    fn filters_of_other_members_keep_their_kind() {
        let whitelist = TopicCount::Wildcard {
            pattern: WildcardPattern::WhiteList,
            regex: String::from(r"test-\d+"),
            streams: 2,
        };
        // Written by 0.8.1, which escapes nothing, and by 0.8.2.
        for text in [
            r#"{"version":1,"subscription":{"test-\d+":2},"pattern":"white_list"}"#,
            r#"{"version":1,"subscription":{"test-\\d+":2,"b":9},"pattern":"white_list"}"#,
        ] {
            assert_eq!(parsed(text), whitelist);
        }
        assert_eq!(whitelist.topics().count(), 0);
        assert_eq!(whitelist.threads("m").count(), 0);
        let blacklist = parsed(r#"{"pattern":"black_list","subscription":{"a":1}}"#);
        assert!(matches!(
            blacklist,
            TopicCount::Wildcard {
                pattern: WildcardPattern::BlackList,
                ..
            }
        ));
        assert_eq!(
            parsed(r#"{"pattern":"white_list","subscription":{}}"#),
            TopicCount::empty()
        );
    }

    #[test]
    fn a_filter_has_its_streams_for_each_topic_that_passes() {
        let topics = ["test-1", "test-x", "other", "__consumer_offsets"].map(String::from);
        let narrowed = |text: &str, exclude_internal| {
            parsed(text)
                .narrowed(&topics, exclude_internal, &|| false)
                .unwrap()
        };
        let whitelist = r#"{"subscription":{"test-\\d+":2},"pattern":"white_list"}"#;
        assert_eq!(narrowed(whitelist, true), fixed(&[("test-1", 2)]));
        let blacklist = r#"{"subscription":{"test-.*":1},"pattern":"black_list"}"#;
        assert_eq!(narrowed(blacklist, true), fixed(&[("other", 1)]));
        assert_eq!(
            narrowed(blacklist, false),
            fixed(&[("other", 1), ("__consumer_offsets", 1)])
        );
        let by_name = r#"{"subscription":{"gone":3},"pattern":"static"}"#;
        assert_eq!(narrowed(by_name, true), fixed(&[("gone", 3)]));
    }

    #[test]
    fn the_names_that_are_left_at_a_stop_are_not_looked_at() {
        // A filter of any member of the group that took long for each of thousands of names held up the shutdown.
        let slow = parsed(
            r#"{"version":1,"pattern":"white_list","subscription":{"(?:(?=a)a|(?=a)aa)*x?(?!b)c":1}}"#,
        );
        let topics: Vec<String> = (0..10_000)
            .map(|n| format!("{}{n}", "a".repeat(14)))
            .collect();
        let looks = std::cell::Cell::new(0);
        let is_over = || {
            looks.set(looks.get() + 1);
            looks.get() > 3
        };
        assert_eq!(slow.narrowed(&topics, true, &is_over), Ok(fixed(&[])));
        assert_eq!(looks.get(), 4);
    }

    #[test]
    fn a_filter_that_cannot_be_evaluated_says_why() {
        let topics = [format!("{}x", "a".repeat(200)), String::from("b")];
        for (text, part) in [
            (
                r#"{"subscription":{"*a":1},"pattern":"white_list"}"#,
                "`*a`",
            ),
            // Two filters that would take for ever, or too much memory.
            (
                r#"{"subscription":{"(?=(a|aa|b\\1)+$)a+(?!b)":1},"pattern":"white_list"}"#,
                "aaaax",
            ),
            (
                r#"{"subscription":{".*":600000},"pattern":"white_list"}"#,
                "1200000 streams",
            ),
        ] {
            let reason = parsed(text).narrowed(&topics, true, &|| false).unwrap_err();
            assert!(reason.contains(part), "`{reason}` lacks `{part}`");
        }
    }

    #[test]
    fn a_registration_that_cannot_be_used_says_why() {
        for (text, part) in [
            ("", "EOF"),
            ("[]", "lacks `pattern`"),
            (r#"{"subscription":{}}"#, "lacks `pattern`"),
            (r#"{"pattern":"static"}"#, "lacks `subscription`"),
            (r#"{"pattern":1,"subscription":{}}"#, "`pattern` is 1"),
            (
                r#"{"pattern":"static","subscription":[1]}"#,
                "`subscription` is no object",
            ),
            (
                r#"{"pattern":"static","subscription":{"t":1.5}}"#,
                "`t` is asked for with 1.5",
            ),
            (
                r#"{"pattern":"static","subscription":{"t":-1}}"#,
                "`t` is asked for with -1",
            ),
            (
                r#"{"pattern":"static","subscription":{"t":"1"}}"#,
                "`t` is asked for with \"1\"",
            ),
            (
                r#"{"pattern":"static","subscription":{"t":2147483647}}"#,
                "2147483647 streams",
            ),
            (
                r#"{"pattern":"static","subscription":{"t":600000,"u":600000}}"#,
                "1200000 streams",
            ),
        ] {
            let reason = TopicCount::parse(text.as_bytes()).unwrap_err();
            assert!(reason.contains(part), "`{reason}` lacks `{part}`");
        }
    }

    #[test]
    fn a_topic_needs_a_stream_and_a_legal_name() {
        let refused = |topic: &str, streams| {
            let error = TopicCount::fixed([(topic.to_owned(), streams)]).unwrap_err();
            assert!(error.to_string().contains(&format!("`{topic}`")), "{error}");
        };
        refused("a", 0);
        for topic in ["", ".", "..", "a/b", "a b", "\u{e4}", &"a".repeat(256)] {
            refused(topic, 1);
        }
    }

    #[test]
    fn a_topic_that_is_named_twice_is_refused() {
        // The second number counted for the group and both for the streams, some of which then got nothing.
        let twice = [2, 3].map(|streams| (String::from("orders"), streams));
        let error = TopicCount::fixed(twice).unwrap_err();
        assert!(error.to_string().contains("`orders` is asked for twice"));
    }

    #[test]
    fn the_threads_of_a_member_are_numbered_for_each_topic() {
        let count = fixed(&[("a", 2), ("b", 1)]);
        let threads: Vec<_> = count
            .threads("g_m")
            .map(|(topic, thread)| format!("{topic} {thread}"))
            .collect();
        assert_eq!(threads, ["a g_m-0", "a g_m-1", "b g_m-0"]);
    }

    proptest! {
        #[test]
        fn no_registration_makes_the_reader_panic(bytes: Vec<u8>, text in "\\PC{0,80}") {
            let _ = TopicCount::parse(&bytes);
            let _ = TopicCount::parse(text.as_bytes());
        }
    }
}
