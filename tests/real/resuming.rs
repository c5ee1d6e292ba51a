//! Members that commit by hand, and are killed: who comes next goes on where they have committed.

use std::env;
use std::process::Command;

use crate::scenarios::member::Numbers;
use crate::scenarios::member::Process;
use crate::scenarios::member::config;
use crate::scenarios::member::numbers;
use crate::scenarios::member::produce;
use crate::scenarios::member::wait_for_owners;
use crate::scenarios::resuming::GROUP;
use crate::scenarios::resuming::LIMIT;
use crate::scenarios::resuming::PARTITIONS;
use crate::scenarios::resuming::TOPIC;
use crate::scenarios::resuming::cluster;
use crate::scenarios::resuming::join;
use crate::scenarios::resuming::stored;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::only_stream;
use crate::support::Cluster;
use crate::support::KafkaVersion;
use crate::support::wait_until;

/// Set for the process that runs [`member_that_commits_by_hand`]: where ZooKeeper is.
const MEMBER_OF: &str = "KZC_TEST_MEMBER_OF";

/// How many messages that process takes between two commits.
const BETWEEN_COMMITS: usize = 50;

#[test]
fn after_kill_9_what_came_after_the_last_commit_by_hand_is_repeated() {
    // 507 messages, of which 500 get committed.
    assert_eq!(kill_while_committing_by_hand(169), 500);
}

#[test]
fn after_kill_9_amid_commits_by_hand_only_what_was_not_committed_is_repeated() {
    assert!(kill_while_committing_by_hand(5_000) >= 500);
}

/// Kills a member that has so many messages in each partition, once it has seen 507 in all, and has another
/// one take over. Returns how many messages were committed.
fn kill_while_committing_by_hand(count: i64) -> i64 {
    let cluster = cluster(KafkaVersion::V0_8_2_2);
    let shell = cluster.shell();
    produce(&cluster, TOPIC, PARTITIONS, 0, count);
    let mut process = Process::start(
        Command::new(env::current_exe().unwrap())
            .args(["resuming::member_that_commits_by_hand", "--exact"])
            .args(["--nocapture", "--test-threads=1"])
            .env(MEMBER_OF, cluster.connect_string()),
    );
    process.wait_for(10 * BETWEEN_COMMITS + 7);
    process.kill();
    let before = numbers(process.lines());

    let next = join(&cluster, "next");
    wait_for_owners(&shell, GROUP, TOPIC, PARTITIONS, &["resuming_next-0"]);
    // No commit of the dead one can arrive any more, and the next one has not made any yet.
    let committed = stored(&shell);
    let from = |partition: i32| committed.get(&partition).copied().unwrap_or(0);
    let sum: i64 = committed.values().sum();
    let rest = usize::try_from(i64::from(PARTITIONS) * count - sum).unwrap();
    wait_until(LIMIT, "the rest", || next.count() >= rest);
    let expected: Numbers = (0..PARTITIONS)
        .filter(|partition| from(*partition) < count)
        .map(|partition| (partition, (from(partition)..count).collect()))
        .collect();
    assert_eq!(numbers(next.leave()), expected);
    for partition in 0..PARTITIONS {
        let seen = before.get(&partition).cloned().unwrap_or_default();
        let end = i64::try_from(seen.len()).unwrap();
        assert_eq!(seen, (0..end).collect::<Vec<_>>());
        assert!(end >= from(partition), "{committed:?}, seen {end}");
    }
    sum
}

/// No test: the member of the tests above, in a process that can be killed.
#[test]
fn member_that_commits_by_hand() {
    let Ok(zookeeper) = env::var(MEMBER_OF) else {
        return;
    };
    let connector = connect(config(&zookeeper, GROUP).consumer_id("killed"));
    let mut stream = only_stream(&connector, TOPIC);
    for count in 1.. {
        let message = stream.next().unwrap().unwrap();
        println!("{}", String::from_utf8_lossy(message.value().unwrap()));
        if count % BETWEEN_COMMITS == 0 {
            stream.mark_consumed();
            connector.commit_offsets().unwrap();
        }
    }
}
