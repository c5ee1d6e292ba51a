//! `partition.assignment.strategy=range`.

use crate::cluster::TopicPartition;
use crate::coordination::assignment::Assignment;
use crate::coordination::assignment::AssignmentContext;
use crate::coordination::assignment::PartitionAssignor;
use crate::coordination::assignment::TopicContext;
use crate::error::Error;

/// Deals out each topic by itself: the threads in order get runs of partitions, all of the same
/// length, except that the first threads get one more while the rest lasts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeAssignor;

impl PartitionAssignor for RangeAssignor {
    fn is_by_topic(&self) -> bool {
        true
    }

    fn assign(&self, context: &AssignmentContext) -> Result<Assignment, Error> {
        let mut assignment = Assignment::default();
        for (topic, context) in context.topics() {
            deal(topic, context, &mut assignment);
        }
        Ok(assignment)
    }
}

fn deal(topic: &str, context: &TopicContext, assignment: &mut Assignment) {
    let threads = context.consumers.len();
    if threads == 0 {
        return;
    }
    let least = context.partitions.len() / threads;
    let one_more = context.partitions.len() % threads;
    let mut rest = context.partitions.iter();
    for (position, thread) in context.consumers.iter().enumerate() {
        let share = least + usize::from(position < one_more);
        if share == 0 {
            assignment.leave_idle(topic, thread.clone());
        }
        for partition in rest.by_ref().take(share) {
            assignment.give(TopicPartition::new(topic, *partition), thread.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::btree_map;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::coordination::assignment::test_members::Members;
    use crate::coordination::assignment::test_members::members;
    use crate::coordination::consumer_id::ConsumerThreadId;
    use crate::coordination::topic_count::TopicCount;

    fn assign(topics: &[(&str, i32)], members: &Members) -> Assignment {
        let topics = topics
            .iter()
            .map(|(topic, partitions)| ((*topic).to_owned(), (0..*partitions).rev().collect()));
        let members = members
            .iter()
            .map(|(member, count)| (member.as_str(), count));
        RangeAssignor
            .assign(&AssignmentContext::new(topics, members))
            .unwrap()
    }

    /// The partitions of each thread of `member`, in numerical order of the threads.
    fn partitions(assignment: &Assignment, member: &str, threads: usize) -> Vec<Vec<i32>> {
        (0..threads)
            .map(|n| assignment.of_thread(&ConsumerThreadId::new(member, n)))
            .map(|owned| owned.iter().map(TopicPartition::partition).collect())
            .collect()
    }

    #[test]
    fn the_first_threads_get_one_more() {
        let group = members(&[("C2", &[("t", 2)]), ("C1", &[("t", 2)])]);
        let assignment = assign(&[("t", 5)], &group);
        assert_eq!(partitions(&assignment, "C1", 2), [vec![0, 1], vec![2]]);
        assert_eq!(partitions(&assignment, "C2", 2), [vec![3], vec![4]]);
        assert_eq!(assignment.idle(), []);
    }

    #[test]
    fn threads_are_in_the_order_of_their_texts() {
        let assignment = assign(&[("t", 14)], &members(&[("m", &[("t", 12)])]));
        let mut expected = vec![vec![0, 1], vec![2, 3]];
        expected.extend((6..14).map(|partition| vec![partition]));
        expected.extend([vec![4], vec![5]]);
        assert_eq!(partitions(&assignment, "m", 12), expected);
    }

    #[test]
    fn surplus_threads_are_idle() {
        let assignment = assign(&[("t", 1)], &members(&[("m", &[("t", 2)])]));
        assert_eq!(partitions(&assignment, "m", 2), [vec![0], vec![]]);
        let idle = (String::from("t"), ConsumerThreadId::new("m", 1));
        assert_eq!(assignment.idle(), [idle]);
    }

    #[test]
    fn nothing_is_dealt_without_topics_members_or_partitions() {
        let group = members(&[("m", &[("t", 1)])]);
        assert_eq!(assign(&[], &group), Assignment::default());
        assert_eq!(assign(&[("t", 3)], &members(&[])), Assignment::default());
        assert_eq!(
            assign(&[("t", 3)], &members(&[("m", &[("u", 1)])])),
            Assignment::default()
        );
        let missing = assign(&[("t", 0)], &group);
        assert!(missing.owners().is_empty());
        assert_eq!(missing.idle().len(), 1);
    }

    #[test]
    fn topics_are_dealt_out_one_by_one() {
        let group = members(&[("a", &[("t", 1), ("u", 1)]), ("b", &[("t", 1)])]);
        let assignment = assign(&[("t", 2), ("u", 2)], &group);
        let of = |member| -> Vec<String> {
            let owned = assignment.of_member(member).into_iter();
            owned.map(|(partition, _)| partition.to_string()).collect()
        };
        assert_eq!(of("a"), ["t/0", "u/0", "u/1"]);
        assert_eq!(of("b"), ["t/1"]);
        assert_eq!(of("c"), Vec::<String>::new());
    }

    #[test]
    fn a_member_that_asks_by_filter_gets_its_part_of_what_passes() {
        let filter = br#"{"pattern":"white_list","subscription":{"t.*":2}}"#;
        let topics = [String::from("t"), String::from("u")];
        let filter = TopicCount::parse(filter)
            .unwrap()
            .narrowed(&topics, true, &|| false);
        let mut group = members(&[("b", &[("t", 1), ("u", 1)])]);
        group.push((String::from("a"), filter.unwrap()));
        let assignment = assign(&[("t", 4), ("u", 1)], &group);
        let of = |member| {
            let owned = assignment.of_member(member).into_iter();
            owned
                .map(|(partition, thread)| format!("{partition} {thread}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("a"), ["t/0 a-0", "t/1 a-0", "t/2 a-1"]);
        assert_eq!(of("b"), ["t/3 b-0", "u/0 b-0"]);
    }

    proptest! {
        #[test]
        fn every_partition_has_one_owner_and_shares_differ_by_one_at_most(
            topics in btree_map("topic-[0-9]", 0..119_i32, 0..10),
            streams in vec(1..9_usize, 1..10),
        ) {
            let topics: Vec<_> = topics.iter().map(|(topic, n)| (topic.as_str(), *n)).collect();
            let group: Members = (0..).zip(&streams).map(|(i, streams)| {
                let subscribed = topics.iter().map(|(topic, _)| ((*topic).to_owned(), *streams));
                (format!("g1c{i}"), TopicCount::fixed(subscribed).unwrap())
            }).collect();
            let assignment = assign(&topics, &group);

            let owned: BTreeSet<_> = assignment.owners().keys().cloned().collect();
            let all: BTreeSet<_> = topics.iter()
                .flat_map(|(topic, n)| (0..*n).map(|p| TopicPartition::new(*topic, p)))
                .collect();
            prop_assert_eq!(&owned, &all);

            let mut parts = 0;
            for (member, _) in &group {
                parts += assignment.of_member(member).len();
            }
            prop_assert_eq!(parts, all.len());

            let threads: usize = streams.iter().sum();
            for (topic, partitions) in &topics {
                let shares = assignment.owners().iter().filter(|(p, _)| p.topic() == *topic);
                let mut by_thread = std::collections::BTreeMap::<_, usize>::new();
                for (_, thread) in shares {
                    *by_thread.entry(thread).or_default() += 1;
                }
                let least = usize::try_from(*partitions).unwrap() / threads;
                prop_assert!(by_thread.values().all(|n| *n == least || *n == least + 1));
                let idle = assignment.idle().iter().filter(|(t, _)| t == topic).count();
                prop_assert_eq!(by_thread.len() + idle, threads);
            }
        }

        #[test]
        fn all_members_decide_alike_whatever_order_they_read_in(
            partitions in 0..40_i32,
            streams in vec(1..5_usize, 1..6),
        ) {
            let count = |n: usize| TopicCount::fixed([(String::from("t"), n)]).unwrap();
            let mut group: Members = (0..).zip(&streams).map(|(i, n)| (format!("m{i}"), count(*n))).collect();
            let first = assign(&[("t", partitions)], &group);
            group.reverse();
            prop_assert_eq!(first, assign(&[("t", partitions)], &group));
        }
    }
}
