//! Offsets by time, asked of brokers that know the times of messages.

use super::*;
use crate::fetch::OffsetLookup;
use crate::net::SimpleConsumerOptions;
use crate::thread::Stopper;

/// What the broker says of a time, one answer after the other.
type Times = Vec<Option<i64>>;

/// The offset found for one time, with what was asked for.
fn look_up(times: Times) -> (i64, Vec<OffsetTime>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (of_broker, times) = (Arc::clone(&asked), Mutex::new(times));
    let later = Arc::default();
    let bench = sessions::start_answering(&later, move |request: ListOffsetsRequest| {
        let time = request.partitions[0].time;
        of_broker.lock().push(time);
        let offset = match time {
            OffsetTime::Timestamp(_) => times.lock().remove(0),
            OffsetTime::Earliest => Some(500),
            OffsetTime::Latest => Some(1000),
        };
        ListOffsetsResponse {
            partitions: vec![PartitionOffsets {
                topic_partition: request.partitions[0].topic_partition.clone(),
                error: None,
                timestamp: None,
                leader_epoch: None,
                offsets: Vec::from_iter(offset),
            }],
            ..ListOffsetsResponse::default()
        }
    });
    let stopper = Stopper::new();
    let lookup = OffsetLookup {
        metadata: &bench.context.metadata,
        options: SimpleConsumerOptions::default(),
        stop: stopper.signal(),
    };
    let of = TopicPartition::new(TOPIC, 0);
    let time = OffsetTime::Timestamp(7_000);
    let found = lookup.find(&BTreeMap::from([(of.clone(), time)])).unwrap();
    let asked = asked.lock().clone();
    (found[&of], asked)
}

#[test]
fn a_time_is_asked_for_as_it_is_and_the_end_stands_for_no_message() {
    let time = OffsetTime::Timestamp(7_000);
    assert_eq!(look_up(vec![Some(700)]), (700, vec![time]));
    let asked = vec![time, OffsetTime::Latest, time];
    assert_eq!(look_up(vec![None, None]), (1000, asked));
}

#[test]
fn a_message_that_comes_while_the_end_is_asked_for_is_not_missed() {
    // It stands before the end that was told, and has the time that nobody had a moment ago.
    let (offset, _) = look_up(vec![None, Some(999)]);
    assert_eq!(offset, 999);
}
