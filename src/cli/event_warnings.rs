//! The events that a user at the terminal has to know of.

use std::collections::HashMap;
use std::mem::Discriminant;
use std::mem::discriminant;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::Event;

/// Where the library logs its events.
pub(crate) const EVENTS: &str = "kafka_zk_consumer::events";

/// Events of one kind come in swarms while a broker is away: the next is told after so long.
const PAUSE: Duration = Duration::from_secs(5);

/// Tells important events, each kind once in a while; nothing where the library's own log tells them all.
#[derive(Debug, Default)]
pub(crate) struct EventWarnings {
    told: HashMap<Discriminant<Event>, Instant>,
}

impl EventWarnings {
    pub(crate) fn tell(&mut self, event: &Event) {
        if log::log_enabled!(target: EVENTS, log::Level::Warn) {
            return;
        }
        if let Some(text) = self.text(event, Instant::now()) {
            log::warn!("{text}");
        }
    }

    fn text(&mut self, event: &Event, now: Instant) -> Option<String> {
        let text = text(event)?;
        let kind = discriminant(event);
        let last = self.told.get(&kind);
        if last.is_some_and(|last| now.saturating_duration_since(*last) < PAUSE) {
            return None;
        }
        self.told.insert(kind, now);
        Some(text)
    }
}

/// `None` for an event that the log tells well enough.
fn text(event: &Event) -> Option<String> {
    match event {
        Event::NoPartitions { topic } => Some(format!(
            "waiting for topic {topic}: it has no partitions in zookeeper"
        )),
        Event::NoTopics { .. } => Some(format!("waiting for a topic: {event}")),
        Event::NoBrokers => Some(String::from("waiting for a broker: zookeeper knows none")),
        Event::CommitFailed { .. }
        | Event::OffsetOverwritten { .. }
        | Event::SessionExpired
        | Event::LeaseEnded
        | Event::RebalanceFailed { .. }
        | Event::LeaderLookupFailed { .. }
        | Event::NoLeader { .. }
        | Event::UnusableZnode { .. }
        | Event::ShutdownIncomplete { .. } => Some(event.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_event_is_told_once_in_a_while() {
        let mut warnings = EventWarnings::default();
        let waiting = Event::NoPartitions {
            topic: String::from("orders"),
        };
        let now = Instant::now();
        let told = warnings.text(&waiting, now).unwrap();
        assert!(told.contains("waiting for topic orders"), "{told}");
        assert_eq!(warnings.text(&waiting, now), None);
        assert!(warnings.text(&Event::NoBrokers, now).is_some());
        assert!(warnings.text(&waiting, now + PAUSE).is_some());
        assert_eq!(warnings.text(&Event::ZooKeeperReconnected, now), None);
    }
}
