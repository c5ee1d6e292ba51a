//! What the original's tools make of the offsets that ours have stored.

use crate::scenarios::topics_support::LIMIT;
use crate::scenarios::topics_support::config;
use crate::scenarios::topics_support::connect;
use crate::scenarios::topics_support::only_stream;
use crate::scenarios::topics_support::produce_numbers;
use crate::scenarios::topics_support::shut_down;
use crate::support::Cluster;
use crate::support::ConsumerOffsetChecker;
use crate::support::KafkaVersion;
use crate::support::RealCluster;

pub(crate) fn the_original_reads_the_offsets_that_ours_have_stored(version: KafkaVersion) {
    let cluster = RealCluster::start(version, 1);
    cluster.create_topic("orders", 2, 1);
    produce_numbers(&cluster, "orders", 0, 0..10);
    let connector = connect(config(&cluster.connect_string(), "g").consumer_id("ours"));
    let mut stream = only_stream(&connector, "orders");
    for offset in 0..7 {
        let message = stream.next_timeout(LIMIT).unwrap().unwrap();
        assert_eq!(message.offset(), offset);
    }
    stream.mark_consumed();
    connector.commit_offsets().unwrap();
    // Its clients of 0.8.2.2 understand each broker.
    let check = ConsumerOffsetChecker::check(
        KafkaVersion::V0_8_2_2,
        &cluster.connect_string(),
        "g",
        "orders",
    );
    let owner = Some(String::from("g_ours-0"));
    let seen: Vec<_> = check
        .iter()
        .map(|line| (line.partition, line.offset, line.log_size, &line.owner))
        .collect();
    assert_eq!(
        seen,
        [
            (0, Some(7), Some(10), &owner),
            (1, Some(0), Some(0), &owner)
        ]
    );
    shut_down(&connector);
}
