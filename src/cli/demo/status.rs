//! How things stand, as a table.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::embedded::BrokerDescription;
use kafka_zk_consumer::embedded::ClusterDescription;

use crate::cli::demo::ledger::Progress;
use crate::cli::demo::member::Member;
use crate::cli::demo::stage::Stage;
use crate::cli::demo::stage::TOPIC;

/// Rates are those of so long a time, or a little more.
const INTERVAL: Duration = Duration::from_secs(1);

/// Makes the table, and remembers the counts of the last one for the rates.
#[derive(Debug)]
pub(super) struct Status {
    rates: HashMap<String, Rate>,
}

impl Status {
    pub(super) fn new() -> Self {
        Self {
            rates: HashMap::new(),
        }
    }

    pub(super) fn table(&mut self, stage: &Stage, progress: Progress) -> Vec<String> {
        let written = self.rate("written", progress.written);
        let read = self.rate("read", progress.read);
        let mut table = vec![format!(
            "written {} ({written}/s), read {} ({read}/s), lag {}",
            progress.written, progress.read, progress.unread
        )];
        let cluster = stage.cluster().describe();
        let brokers = cluster.brokers.iter();
        table.extend(brokers.map(|broker| broker_line(broker, &cluster)));
        for member in stage.members() {
            let rate = self.rate(member.name(), member.read());
            table.push(member_line(member, rate));
        }
        table
    }

    fn rate(&mut self, of: &str, count: u64) -> u64 {
        let now = Instant::now();
        let rate = self.rates.entry(of.to_owned());
        rate.or_insert_with(|| Rate::new(now, count))
            .update(now, count)
    }
}

fn broker_line(broker: &BrokerDescription, cluster: &ClusterDescription) -> String {
    let state = match (broker.is_running, broker.is_registered) {
        (true, _) => "up",
        (false, true) => "dead, not noticed yet",
        (false, false) => "dead",
    };
    let led: Vec<i32> = cluster
        .partitions
        .iter()
        .filter(|it| it.topic_partition.topic() == TOPIC && it.leader == Some(broker.id))
        .map(|it| it.topic_partition.partition())
        .collect();
    format!(
        "broker {} at {}: {state}, leads {}",
        broker.id,
        broker.address,
        numbers(&led)
    )
}

/// Fetcher threads are called `fetcher-<broker>-<number>`, and each member has one for a broker.
fn member_line(member: &Member, rate: u64) -> String {
    let connector = member.connector();
    let view = connector.cluster_view();
    let mut owned = Vec::new();
    let mut fetched: BTreeMap<Option<i32>, Vec<i32>> = BTreeMap::new();
    for partition in connector.owned_partitions() {
        let leader = view.leader(&partition).map(|broker| broker.id);
        fetched
            .entry(leader)
            .or_default()
            .push(partition.partition());
        owned.push(partition.partition());
    }
    let threads: Vec<String> = fetched
        .iter()
        .map(|(leader, partitions)| match leader {
            Some(leader) => format!("fetcher-{leader}-0 <- {}", numbers(partitions)),
            None => format!("nobody <- {}", numbers(partitions)),
        })
        .collect();
    let partitions = connector.stats().partitions;
    let lag: u64 = partitions.iter().filter_map(|it| it.lag()).sum();
    format!(
        "{}: owns {}; {}; {rate}/s, lag {lag}",
        member.name(),
        numbers(&owned),
        threads.join(", ")
    )
}

/// The numbers of partitions in words.
pub(super) fn numbers(partitions: &[i32]) -> String {
    if partitions.is_empty() {
        return String::from("nothing");
    }
    let texts: Vec<String> = partitions.iter().map(i32::to_string).collect();
    texts.join(" ")
}

/// How fast a count grows.
#[derive(Clone, Copy, Debug)]
struct Rate {
    since: Instant,
    count: u64,
    last: u64,
}

impl Rate {
    fn new(now: Instant, count: u64) -> Self {
        Self {
            since: now,
            count,
            last: 0,
        }
    }

    /// For each second, as of the last whole interval.
    fn update(&mut self, now: Instant, count: u64) -> u64 {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= INTERVAL {
            let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            let grown = count.saturating_sub(self.count).saturating_mul(1000);
            *self = Self {
                since: now,
                count,
                last: grown.checked_div(millis).unwrap_or(0),
            };
        }
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_whole_interval() {
        let start = Instant::now();
        let after = |millis| start + Duration::from_millis(millis);
        let mut rate = Rate::new(start, 100);
        assert_eq!(rate.update(after(999), 1100), 0);
        assert_eq!(rate.update(after(2000), 1100), 500);
        assert_eq!(rate.update(after(2500), 9999), 500);
        assert_eq!(rate.update(after(3000), 1100), 0);
    }

    #[test]
    fn partitions_are_listed_by_number() {
        assert_eq!(numbers(&[0, 2]), "0 2");
        assert_eq!(numbers(&[]), "nothing");
    }
}
