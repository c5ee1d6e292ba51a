//! Partitions that are read to their end only.

use crate::fetch::EndBell;
use crate::fetch::PartitionEnd;

use super::*;

/// Positions that one partition has, in one place: it is read from `start` to 10.
fn bench(
    start: i64,
    answers: impl Fn(&FetchPartition, usize) -> FetchedPartition + Send + Sync + 'static,
) -> Bench {
    let cluster = Arc::new(Cluster::default());
    let (of_metadata, of_fetch) = (Arc::clone(&cluster), Arc::clone(&cluster));
    let broker = FakeBrokerBuilder::default()
        .answer(move |_: MetadataRequest| of_metadata.metadata())
        .answer(move |request: FetchRequest| FetchResponse {
            partitions: request
                .partitions
                .iter()
                .map(|asked| {
                    let mut log = of_fetch.asked.lock();
                    log.push((asked.topic_partition.partition(), asked.fetch_offset));
                    answers(asked, log.len())
                })
                .collect(),
            ..FetchResponse::default()
        })
        .answer(|request: ListOffsetsRequest| ListOffsetsResponse {
            throttle_time: None,
            partitions: request
                .partitions
                .iter()
                .map(|asked| PartitionOffsets {
                    topic_partition: asked.topic_partition.clone(),
                    error: None,
                    timestamp: None,
                    leader_epoch: None,
                    offsets: vec![if asked.time == OffsetTime::Latest {
                        10
                    } else {
                        0
                    }],
                })
                .collect(),
        })
        .start();
    cluster.brokers.lock().push(broker.as_broker(0));
    let start = [Some(start)];
    let make = |partition, queue: Arc<ChunkQueue>, start| {
        let end = PartitionEnd::new(EndBell::new(vec![Arc::clone(&queue)]));
        PartitionTopicInfo::with_end(partition, queue, start, Some(end))
    };
    let properties = [("fetch.wait.max.ms", "10")];
    Bench::start_with_infos(cluster, vec![broker], &start, &properties, None, make)
}

fn answer(asked: &FetchPartition, high_watermark: i64, set: MessageSet) -> FetchedPartition {
    FetchedPartition {
        topic_partition: asked.topic_partition.clone(),
        header: PartitionHeader {
            high_watermark: Some(high_watermark),
            ..PartitionHeader::default()
        },
        message_set: set,
    }
}

impl Bench {
    /// Waits until the stream's side says so, as a stream does: woken by its queue.
    pub(super) fn await_end(&self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.infos[0].is_done() {
            match self.infos[0].queue().take(Some(deadline)) {
                Taken::Nudged => {}
                Taken::Entry(QueueEntry::Messages(chunk)) => {
                    self.infos[0].mark_consumed(chunk.fetch_offset, chunk.epoch);
                }
                Taken::Entry(QueueEntry::Reposition { offset, epoch, .. }) => {
                    self.infos[0].mark_consumed(offset, epoch);
                }
                other => panic!("the end is not reached: {other:?}"),
            }
        }
    }
}

#[test]
fn a_tail_without_messages_is_the_end() {
    // Compaction and aborted transactions leave offsets without messages: a reader that waits for a message at or
    // behind the last offset waits for ever.
    let bench = bench(4, |asked, _| match asked.fetch_offset {
        4 => answer(asked, 10, messages(4..7)),
        _ => answer(asked, 12, MessageSet::default()),
    });
    bench.await_end();
    assert_eq!(bench.infos[0].consumed(), Some(10));
    assert_eq!(bench.asked(0), [4, 7, 7], "and nothing beyond it");
}

#[test]
fn a_partition_all_of_whose_messages_are_gone_is_at_its_end() {
    let bench = bench(0, |asked, _| answer(asked, 10, MessageSet::default()));
    bench.await_end();
    assert_eq!(bench.infos[0].consumed(), Some(10));
}

#[test]
fn a_message_behind_the_end_tells_that_there_is_none_before_it() {
    let bench = bench(7, |asked, _| answer(asked, 20, messages(15..17)));
    bench.await_end();
    assert_eq!(bench.infos[0].consumed(), Some(10));
    assert_eq!(bench.asked(0), [7]);
}

#[test]
fn an_empty_answer_of_a_moment_is_no_end() {
    // A broker reads the log first and tells the high watermark afterwards: both may have grown in between.
    let bench = bench(7, |asked, number| match number {
        1 => answer(asked, 10, MessageSet::default()),
        _ => answer(asked, 10, messages(7..10)),
    });
    assert_eq!(bench.next_chunk(0), 7);
    bench.await_end();
    assert_eq!(bench.asked(0), [7, 7]);
}

#[test]
fn what_stands_behind_the_end_is_neither_delivered_nor_complained_of() {
    // The position lies behind the end. It is asked for once, to learn whether it lies within the log.
    for set in [messages(12..14), broken_framing(12), MessageSet::default()] {
        let bench = bench(12, move |asked, _| answer(asked, 20, set.clone()));
        bench.await_end();
        assert_eq!(bench.infos[0].consumed(), Some(12));
        assert_eq!(bench.infos[0].stats().stopped_at, None);
        assert_eq!(bench.infos[0].queue().len(), 0);
    }
}

#[test]
fn a_partition_at_its_end_is_not_asked_for_until_it_is_sought() {
    let bench = bench(10, |asked, _| answer(asked, 10, messages(8..10)));
    bench.await_end();
    assert!(bench.asked(0).is_empty());
    bench.infos[0].seek(8);
    assert!(!bench.infos[0].is_done());
    assert_eq!(bench.next_chunk(0), 8);
    bench.await_end();
    assert_eq!(bench.asked(0), [8]);
}

#[test]
fn the_end_is_looked_up_although_the_partition_is_paused_and_nothing_is_fetched() {
    let bench = bench(4, |asked, _| {
        answer(asked, 10, messages(asked.fetch_offset..10))
    });
    let info = &bench.infos[0];
    info.pause();
    let deadline = Instant::now() + PATIENCE;
    while info.limit() != 10 {
        assert!(Instant::now() < deadline, "it is looked up");
        std::thread::yield_now();
    }
    info.resume();
    bench.await_end();
    assert_eq!(info.consumed(), Some(10));
}
