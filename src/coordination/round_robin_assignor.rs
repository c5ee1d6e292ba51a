//! `partition.assignment.strategy=roundrobin`.

use std::collections::BTreeSet;

use crate::cluster::TopicPartition;
use crate::cluster::java_hash;
use crate::config::RoundRobinVersion;
use crate::coordination::assignment::Assignment;
use crate::coordination::assignment::AssignmentContext;
use crate::coordination::assignment::PartitionAssignor;
use crate::coordination::assignment::TopicContext;
use crate::coordination::consumer_id::ConsumerThreadId;
use crate::error::Error;

/// How many topics are named where all of a thread's are meant.
const NAMED: usize = 3;

/// Deals out the partitions of all topics together, shuffled by their hashes, one to each thread in turn that asks
/// for the topic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundRobinAssignor {
    version: RoundRobinVersion,
}

impl RoundRobinAssignor {
    pub(crate) fn new(version: RoundRobinVersion) -> Self {
        Self { version }
    }

    /// All partitions in the order in which they are dealt out.
    ///
    /// Unlike Kafka 0.8.2.2: equal hashes, which there come in the order of a hash table, are in the order of the
    /// topics and partitions.
    fn deck<'a>(&self, topics: &[(&'a str, &'a TopicContext)]) -> Vec<(i32, &'a str, i32)> {
        let mut deck: Vec<_> = topics
            .iter()
            .flat_map(|(topic, context)| context.partitions.iter().map(|number| (*topic, *number)))
            .map(|(topic, number)| (self.hash(topic, number), topic, number))
            .collect();
        deck.sort_unstable();
        deck
    }

    fn hash(&self, topic: &str, partition: i32) -> i32 {
        java_hash(&match self.version {
            RoundRobinVersion::V0_8_2 | RoundRobinVersion::V0_10_2 => {
                format!("[{topic},{partition}]")
            }
            RoundRobinVersion::V1_0 => format!("{topic}-{partition}"),
        })
    }
}

impl PartitionAssignor for RoundRobinAssignor {
    fn is_by_topic(&self) -> bool {
        false
    }

    fn assign(&self, context: &AssignmentContext) -> Result<Assignment, Error> {
        let topics: Vec<(&str, &TopicContext)> = context
            .topics()
            .filter(|(_, context)| !context.consumers.is_empty())
            .collect();
        if self.version == RoundRobinVersion::V0_8_2 {
            check_equal(&topics)?;
        }
        let ring: BTreeSet<&ConsumerThreadId> = topics
            .iter()
            .flat_map(|(_, context)| &context.consumers)
            .collect();
        let mut assignment = Assignment::default();
        let mut turns = ring.iter().cycle();
        for (_, topic, partition) in self.deck(&topics) {
            let consumers = topics
                .binary_search_by_key(&topic, |(topic, _)| topic)
                .ok()
                .and_then(|index| topics.get(index))
                .map(|(_, context)| &context.consumers);
            let asks = |thread: &&&ConsumerThreadId| {
                consumers.is_some_and(|consumers| consumers.binary_search(thread).is_ok())
            };
            // One round finds a thread, as every topic has one.
            if let Some(thread) = turns.by_ref().take(ring.len()).find(asks) {
                let partition = TopicPartition::new(topic, partition);
                assignment.give(partition, (*thread).clone());
            }
        }
        tell_idle(&topics, &ring, &mut assignment);
        Ok(assignment)
    }
}

/// As in Kafka 0.8.2.2: every topic must have the same threads.
fn check_equal(topics: &[(&str, &TopicContext)]) -> Result<(), Error> {
    let Some(((first, reference), others)) = topics.split_first() else {
        return Ok(());
    };
    for (topic, context) in others {
        let (here, there) = (&context.consumers, &reference.consumers);
        let lacks =
            |of: &[ConsumerThreadId], thread: &&ConsumerThreadId| of.binary_search(thread).is_err();
        let differ = |thread: &ConsumerThreadId, topic: &str, other_topic: &str| {
            Err(Error::SubscriptionsDiffer {
                thread: thread.to_string(),
                topic: topic.to_owned(),
                other_topic: other_topic.to_owned(),
            })
        };
        if let Some(thread) = here.iter().find(|thread| lacks(there, thread)) {
            return differ(thread, topic, first);
        }
        if let Some(thread) = there.iter().find(|thread| lacks(here, thread)) {
            return differ(thread, first, topic);
        }
    }
    Ok(())
}

/// A thread is idle that gets nothing at all.
fn tell_idle(
    topics: &[(&str, &TopicContext)],
    ring: &BTreeSet<&ConsumerThreadId>,
    assignment: &mut Assignment,
) {
    let busy: BTreeSet<ConsumerThreadId> = assignment.busy().cloned().collect();
    for thread in ring.iter().filter(|thread| !busy.contains(thread)) {
        let asked: Vec<&str> = topics
            .iter()
            .filter(|(_, context)| context.consumers.binary_search(thread).is_ok())
            .map(|(topic, _)| *topic)
            .collect();
        let named = match asked.len() {
            ..=NAMED => asked.join(", "),
            many => format!("{many} topics"),
        };
        assignment.leave_idle(named, (*thread).clone());
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::btree_map;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::coordination::assignment::test_members::Members;
    use crate::coordination::assignment::test_members::members;
    use crate::coordination::topic_count::TopicCount;

    const VERSIONS: [RoundRobinVersion; 3] = [
        RoundRobinVersion::V0_8_2,
        RoundRobinVersion::V0_10_2,
        RoundRobinVersion::V1_0,
    ];

    fn assign(
        version: RoundRobinVersion,
        topics: &[(&str, i32)],
        members: &Members,
    ) -> Result<Assignment, Error> {
        let topics = topics
            .iter()
            .map(|(topic, partitions)| ((*topic).to_owned(), (0..*partitions).collect()));
        let members = members
            .iter()
            .map(|(member, count)| (member.as_str(), count));
        RoundRobinAssignor::new(version).assign(&AssignmentContext::new(topics, members))
    }

    /// `topic/partition thread` of all partitions, in their order.
    fn dealt(version: RoundRobinVersion, topics: &[(&str, i32)], members: &Members) -> Vec<String> {
        let assignment = assign(version, topics, members).unwrap();
        let owners = assignment.owners().iter();
        owners
            .map(|(partition, thread)| format!("{partition} {thread}"))
            .collect()
    }

    fn both(topics: &[&str]) -> Members {
        let topics: Vec<(&str, usize)> = topics.iter().map(|topic| (*topic, 1)).collect();
        members(&[("g_b", &topics), ("g_a", &topics)])
    }

    #[test]
    fn the_names_of_partitions_are_hashed_as_java_hashes_them() {
        let hash =
            |version, topic, partition| RoundRobinAssignor::new(version).hash(topic, partition);
        for old in [RoundRobinVersion::V0_8_2, RoundRobinVersion::V0_10_2] {
            assert_eq!(hash(old, "orders", 0), -1_093_576_615);
            assert_eq!(hash(old, "t", 10), -1_581_226_645);
            // Two names with the same hash are in their own order.
            assert_eq!(hash(old, "Aa", 0), hash(old, "BB", 0));
        }
        assert_eq!(hash(RoundRobinVersion::V1_0, "orders", 0), 1_234_322_248);
        assert_eq!(hash(RoundRobinVersion::V1_0, "t", 10), 3_500_568);
        assert_eq!(
            dealt(
                RoundRobinVersion::V0_8_2,
                &[("BB", 1), ("Aa", 1)],
                &both(&["Aa", "BB"])
            ),
            ["Aa/0 g_a-0", "BB/0 g_b-0"]
        );
    }

    #[test]
    fn partitions_are_dealt_out_in_the_order_of_their_hashes_which_changed_with_1_0() {
        let topics = [("orders", 1), ("clicks", 2)];
        let group = both(&["orders", "clicks"]);
        for old in [RoundRobinVersion::V0_8_2, RoundRobinVersion::V0_10_2] {
            assert_eq!(
                dealt(old, &topics, &group),
                ["clicks/0 g_b-0", "clicks/1 g_a-0", "orders/0 g_a-0"]
            );
        }
        assert_eq!(
            dealt(RoundRobinVersion::V1_0, &topics, &group),
            ["clicks/0 g_a-0", "clicks/1 g_b-0", "orders/0 g_a-0"]
        );
    }

    #[test]
    fn ten_and_more_come_before_or_behind_the_digits() {
        let group = both(&["t"]);
        let of_a = |version| {
            let assignment = assign(version, &[("t", 12)], &group).unwrap();
            let owned = assignment.of_thread(&ConsumerThreadId::new("g_a", 0));
            owned
                .iter()
                .map(TopicPartition::partition)
                .collect::<Vec<_>>()
        };
        // 10 a, 11 b, 0 a, 1 b, and so on; then 0 a, 1 b to 9 b, 10 a, 11 b: the same share in another order.
        assert_eq!(of_a(RoundRobinVersion::V0_8_2), [0, 2, 4, 6, 8, 10]);
        assert_eq!(of_a(RoundRobinVersion::V1_0), [0, 2, 4, 6, 8, 10]);
        let three = members(&[("g_a", &[("t", 3)])]);
        let first = |version| dealt(version, &[("t", 12)], &three)[0].clone();
        assert_eq!(first(RoundRobinVersion::V0_8_2), "t/0 g_a-2");
        assert_eq!(first(RoundRobinVersion::V1_0), "t/0 g_a-0");
    }

    #[test]
    fn the_turn_goes_on_from_one_topic_to_the_next() {
        let topics = [("orders", 3), ("payments", 3)];
        for version in VERSIONS {
            assert_eq!(
                dealt(version, &topics, &both(&["orders", "payments"])),
                [
                    "orders/0 g_a-0",
                    "orders/1 g_b-0",
                    "orders/2 g_a-0",
                    "payments/0 g_b-0",
                    "payments/1 g_a-0",
                    "payments/2 g_b-0"
                ]
            );
        }
    }

    #[test]
    fn differing_subscriptions_are_an_error_up_to_0_10_1_and_skip_threads_later() {
        let topics = [("orders", 3), ("payments", 3)];
        let group = members(&[
            ("g_a", &[("orders", 1)]),
            ("g_b", &[("orders", 1), ("payments", 1)]),
        ]);
        for version in [RoundRobinVersion::V0_10_2, RoundRobinVersion::V1_0] {
            assert_eq!(
                dealt(version, &topics, &group),
                [
                    "orders/0 g_a-0",
                    "orders/1 g_b-0",
                    "orders/2 g_a-0",
                    "payments/0 g_b-0",
                    "payments/1 g_b-0",
                    "payments/2 g_b-0"
                ]
            );
        }
        let error = assign(RoundRobinVersion::V0_8_2, &topics, &group).unwrap_err();
        assert_eq!(
            error.to_string(),
            "round robin needs equal subscriptions: g_a-0 asks for orders, but not for payments"
        );
        // Another number of threads is another subscription, and so is a topic that does not exist.
        let more = members(&[("g_a", &[("orders", 1), ("payments", 2)])]);
        let error = assign(RoundRobinVersion::V0_8_2, &topics, &more).unwrap_err();
        assert!(
            error.to_string().contains("g_a-1 asks for payments"),
            "{error}"
        );
        let none = assign(
            RoundRobinVersion::V0_8_2,
            &[("orders", 3), ("payments", 0)],
            &group,
        );
        assert!(none.is_err());
    }

    #[test]
    fn a_thread_that_gets_nothing_at_all_is_idle() {
        let group = members(&[("g_a", &[("orders", 3), ("bills", 3)])]);
        let assignment = assign(
            RoundRobinVersion::V0_8_2,
            &[("orders", 1), ("bills", 1)],
            &group,
        );
        let idle = (
            String::from("bills, orders"),
            ConsumerThreadId::new("g_a", 2),
        );
        assert_eq!(assignment.unwrap().idle(), [idle]);
    }

    #[test]
    fn nothing_is_dealt_without_topics_members_or_threads() {
        // KAFKA-1648: 0.8.2 failed without a topic.
        for version in VERSIONS {
            let nobody = members(&[("g_a", &[])]);
            for (topics, group) in [
                (vec![], members(&[("g_a", &[("t", 1)])])),
                (vec![("t", 3)], members(&[])),
                (vec![("t", 3)], nobody),
            ] {
                assert_eq!(
                    assign(version, &topics, &group).unwrap(),
                    Assignment::default()
                );
            }
        }
    }

    proptest! {
        #[test]
        fn with_equal_subscriptions_every_partition_has_one_owner_and_shares_differ_by_one_at_most(
            topics in btree_map("topic-[0-9]{1,2}", 0..119_i32, 0..20),
            streams in vec(1..9_usize, 1..10),
        ) {
            let topics: Vec<_> = topics.iter().map(|(topic, n)| (topic.as_str(), *n)).collect();
            let names: Vec<String> = topics.iter().map(|(topic, _)| (*topic).to_owned()).collect();
            let group: Members = (0..).zip(&streams).map(|(i, streams)| {
                let text = format!(r#"{{"subscription":{{".*":{streams}}},"pattern":"white_list"}}"#);
                let filter = TopicCount::parse(text.as_bytes()).unwrap();
                (format!("g1c{i}"), filter.narrowed(&names, true, &|| false).unwrap())
            }).collect();
            for version in VERSIONS {
                let assignment = assign(version, &topics, &group).unwrap();
                let all: usize = topics.iter().map(|(_, n)| usize::try_from(*n).unwrap()).sum();
                prop_assert_eq!(assignment.owners().len(), all);
                let mut shares = BTreeMap::<_, usize>::new();
                for thread in assignment.busy() {
                    *shares.entry(thread).or_default() += 1;
                }
                let threads: usize = streams.iter().sum();
                let least = all / threads;
                prop_assert!(shares.values().all(|n| *n == least || *n == least + 1));
                if !topics.is_empty() {
                    prop_assert_eq!(shares.len() + assignment.idle().len(), threads);
                }
            }
        }

        #[test]
        fn with_differing_subscriptions_every_partition_goes_to_a_thread_that_asks_for_it(
            count in 5..11_usize,
        ) {
            // As in Kafka's own test: member i asks for the first topics only, with three threads each.
            let names: Vec<String> = (1..=10).map(|n| format!("topic-{n}")).collect();
            let topics: Vec<(&str, i32)> = names.iter().map(|name| (name.as_str(), 10)).collect();
            let group: Members = (0..count).map(|i| {
                let asked = names.iter().take(10 - i % 5).map(|name| (name.clone(), 3));
                (format!("g1c{i}"), TopicCount::fixed(asked).unwrap())
            }).collect();
            for version in [RoundRobinVersion::V0_10_2, RoundRobinVersion::V1_0] {
                let assignment = assign(version, &topics, &group).unwrap();
                prop_assert_eq!(assignment.owners().len(), 100);
                for (partition, thread) in assignment.owners() {
                    let (_, asked) = group.iter().find(|(id, _)| id == thread.member()).unwrap();
                    prop_assert!(thread.number() < asked.streams(partition.topic()));
                }
            }
        }
    }
}
