//! The names of members and of their threads, and the order that decides who gets what.

use std::cmp::Ordering;
use std::fmt;
use std::hash::Hash;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::SystemTime;

use gethostname::gethostname;
use uuid::Uuid;

/// The id of a new member: `<group>_<consumer.id>`, or one that is unique on earth.
///
/// Made once for each connector; it survives the session.
pub(crate) fn member_id(group: &str, consumer_id: Option<&str>) -> String {
    match consumer_id {
        Some(id) => format!("{group}_{id}"),
        None => generated(group, host_name(), epoch_millis(), Uuid::new_v4()),
    }
}

/// Milliseconds since 1970, the unit of every time stamp in ZooKeeper.
pub(crate) fn epoch_millis() -> u128 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_millis())
}

/// The order of Java's strings, by UTF-16 code unit, on which all members must agree.
pub(crate) fn utf16_order(left: &str, right: &str) -> Ordering {
    left.encode_utf16().cmp(right.encode_utf16())
}

/// One thread of one member, written `<member>-<n>`: what the owner node of a partition holds.
///
/// Ordered as its text is in Java, so that `m-10` comes before `m-2`.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerThreadId {
    text: Arc<str>,
    member: Arc<str>,
    number: usize,
}

impl ConsumerThreadId {
    /// Thread `number`, from 0, of `member`.
    pub(crate) fn new(member: impl Into<Arc<str>>, number: usize) -> Self {
        let member = member.into();
        Self {
            text: format!("{member}-{number}").into(),
            member,
            number,
        }
    }

    /// The text form.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// The id of the member.
    pub(crate) fn member(&self) -> &str {
        &self.member
    }

    /// Number within the member and topic, from 0.
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

impl fmt::Display for ConsumerThreadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq for ConsumerThreadId {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ConsumerThreadId {}

impl Hash for ConsumerThreadId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Ord for ConsumerThreadId {
    fn cmp(&self, other: &Self) -> Ordering {
        utf16_order(&self.text, &other.text)
    }
}

impl PartialOrd for ConsumerThreadId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Unlike Kafka 0.8.2.2: always 8 digits, also for a number that begins with zeros, which made it
/// fail there.
fn generated(group: &str, host: String, millis: u128, random: Uuid) -> String {
    let (upper, _) = random.as_u64_pair();
    format!("{group}_{host}-{millis}-{:08x}", upper >> 32)
}

/// Unlike Kafka 0.8.2.2: a host without a usable name joins as `localhost` instead of failing.
fn host_name() -> String {
    usable_host(gethostname().to_str())
}

/// The name becomes part of a path, where a slash or a control character is an error.
fn usable_host(name: Option<&str>) -> String {
    name.filter(|name| !name.is_empty() && !name.contains('/'))
        .filter(|name| !name.contains(char::is_control))
        .unwrap_or("localhost")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_consumer_id_replaces_the_generated_part() {
        assert_eq!(member_id("group1", Some("consumer0")), "group1_consumer0");
    }

    #[test]
    fn a_generated_id_ends_in_eight_hex_digits_even_of_a_small_number() {
        let id = |upper| {
            let uuid = Uuid::from_u64_pair(upper, 0);
            generated("g", String::from("host"), 1_416_808_000_000, uuid)
        };
        assert_eq!(id(0x0123_4567_89ab_cdef), "g_host-1416808000000-01234567");
        assert_eq!(id(0x4711), "g_host-1416808000000-00000000");
        assert_eq!(id(u64::MAX), "g_host-1416808000000-ffffffff");
    }

    #[test]
    fn two_generated_ids_differ() {
        assert_ne!(member_id("g", None), member_id("g", None));
    }

    #[test]
    fn a_host_without_a_usable_name_is_localhost() {
        for name in [None, Some(""), Some("a/b"), Some("a\nb")] {
            assert_eq!(usable_host(name), "localhost");
        }
        assert_eq!(usable_host(Some("db_7.local")), "db_7.local");
    }

    #[test]
    fn threads_are_ordered_as_their_texts_are_in_java() {
        let expected = [
            "g_B-0", "g_a-0", "g_a-b-0", "g_ab-0", "g_c-0", "g_c-1", "g_c-10", "g_c-11", "g_c-2",
        ];
        let mut threads: Vec<_> = [2, 11, 1, 10, 0]
            .map(|n| ConsumerThreadId::new("g_c", n))
            .into_iter()
            .chain(["g_ab", "g_a-b", "g_a", "g_B"].map(|m| ConsumerThreadId::new(m, 0)))
            .collect();
        threads.sort();
        let texts: Vec<_> = threads.iter().map(ConsumerThreadId::as_str).collect();
        assert_eq!(texts, expected);
    }

    #[test]
    fn characters_beyond_16_bits_sort_before_the_last_ones_within() {
        assert_eq!(utf16_order("\u{1f600}", "\u{ffee}"), Ordering::Less);
        assert_eq!("\u{1f600}".cmp("\u{ffee}"), Ordering::Greater);
    }

    #[test]
    fn a_thread_id_knows_its_parts() {
        let thread = ConsumerThreadId::new("g_a-b", 7);
        assert_eq!(thread.to_string(), "g_a-b-7");
        assert_eq!((thread.member(), thread.number()), ("g_a-b", 7));
    }
}
