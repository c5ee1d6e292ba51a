//! Which key was probably meant by a mistyped one.

/// Two keys are alike from here on, where 1 is the same: one letter in four may differ. A later consumer's key, such as
/// `session.timeout.ms`, must not be taken for `socket.timeout.ms`.
const ALIKE: f64 = 0.75;

/// The one of `keys` that is most like `key`; `None` if none is much like it.
pub(super) fn find<'a>(key: &str, keys: impl IntoIterator<Item = &'a String>) -> Option<&'a str> {
    keys.into_iter()
        .map(|other| (likeness(key, other), other.as_str()))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, nearest)| nearest)
}

/// From 0 to 1. The words may be in another order, as in the later consumer's `enable.auto.commit`.
fn likeness(one: &str, other: &str) -> f64 {
    let (one, other) = (one.to_lowercase(), other.to_lowercase());
    let as_written = strsim::normalized_damerau_levenshtein(&one, &other);
    let sorted = strsim::normalized_damerau_levenshtein(&sorted(&one), &sorted(&other));
    as_written.max(sorted)
}

fn sorted(key: &str) -> String {
    let mut words: Vec<&str> = key.split('.').collect();
    words.sort_unstable();
    words.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 12] = [
        "zookeeper.connect",
        "zookeeper.session.timeout.ms",
        "group.id",
        "consumer.timeout.ms",
        "socket.timeout.ms",
        "auto.commit.enable",
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "fetch.message.max.bytes",
        "fetch.wait.max.ms",
        "rebalance.backoff.ms",
        "socket.receive.buffer.bytes",
    ];

    fn found(key: &str) -> Option<String> {
        let known = KNOWN.map(String::from);
        find(key, &known).map(str::to_owned)
    }

    #[test]
    fn a_mistyped_key_is_near_the_one_that_was_meant() {
        for (typed, meant) in [
            ("auto.commit.intervall.ms", "auto.commit.interval.ms"),
            ("auto.commit.interval", "auto.commit.interval.ms"),
            ("autocommit.interval.ms", "auto.commit.interval.ms"),
            ("auto_commit_interval_ms", "auto.commit.interval.ms"),
            ("Auto.Offset.Reset", "auto.offset.reset"),
            ("auto.ofsfet.reset", "auto.offset.reset"),
            ("zookeper.conect", "zookeeper.connect"),
            ("groupid", "group.id"),
            ("enable.auto.commit", "auto.commit.enable"),
            ("fetch.max.wait.ms", "fetch.wait.max.ms"),
        ] {
            assert_eq!(found(typed).as_deref(), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_key_of_another_client_is_near_none() {
        for key in [
            "",
            "a",
            "bootstrap.servers",
            "session.timeout.ms",
            "heartbeat.interval.ms",
            "request.timeout.ms",
            "reconnect.backoff.ms",
            "max.partition.fetch.bytes",
            "key.deserializer",
            "shallow.iterator.enable",
            "kafka.metrics.reporters",
        ] {
            assert_eq!(found(key), None, "{key}");
        }
    }
}
