use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;

use crossbeam_channel::bounded;

use crate::consumer::batches::BatchLimits;
use crate::consumer::owned_partitions::OwnedPartition;
use crate::consumer::owned_partitions::OwnedPartitions;
use crate::coordination::ConsumerThreadId;
use crate::events::Event;
use crate::events::Events;
use crate::events::event_channel;
use crate::fetch::BadEntry;
use crate::fetch::BufferPool;
use crate::fetch::Chunk;
use crate::fetch::EndLookUp;
use crate::fetch::FetchPosition;
use crate::fetch::PooledBuffer;
use crate::protocol::AbortedTransaction;
use crate::protocol::AbortedTransactions;
use crate::protocol::Codec;
use crate::protocol::MessageFormat;
use crate::protocol::MessageSet;
use crate::protocol::MessageSetBuilder;
use crate::protocol::NewMessage;
use crate::protocol::Timestamp;
use crate::protocol::TimestampType;
use crate::protocol::tests::recorded;

use super::*;

/// A stream with one partition, `orders/0`, and no fetcher: the tests are the fetcher.
struct Bench {
    info: Arc<PartitionTopicInfo>,
    stream: MessageStream,
    events: Events,
    pool: Arc<BufferPool>,
}

impl Bench {
    fn new(fetched: i64) -> Self {
        Self::with(fetched, &[])
    }

    fn with(fetched: i64, properties: &[(&str, &str)]) -> Self {
        Self::with_end(fetched, None, properties)
    }

    /// The log is read up to `end`, if there is one.
    fn with_end(fetched: i64, end: Option<i64>, properties: &[(&str, &str)]) -> Self {
        let mut config = ConsumerConfig::builder()
            .zookeeper_connect("unused:2181")
            .group_id("group");
        for (key, value) in properties {
            config = config.set(*key, *value);
        }
        let queue = ChunkQueue::new(10, 1_000_000);
        let partition = TopicPartition::new("orders", 0);
        let ownership = Arc::new(Ownership::default());
        let bounds = Bounds::new([&queue].into_iter(), Arc::clone(&ownership));
        let of_partition = end.map(|_| bounds.end_of(&partition));
        let info = PartitionTopicInfo::with_end(
            partition.clone(),
            Arc::clone(&queue),
            Some(fetched),
            of_partition,
        );
        let owned = OwnedPartition {
            info: Arc::clone(&info),
            thread: ConsumerThreadId::new("group_member", 0),
        };
        ownership.replace(OwnedPartitions {
            generation: 1,
            session: Some(1),
            partitions: BTreeMap::from([(partition, owned)]),
        });
        let (sender, events) = event_channel();
        let context = StreamContext {
            config: Arc::new(config.build().unwrap()),
            ownership,
            stats: Arc::default(),
            events: sender,
        };
        let mut stream = MessageStream::new(queue, context);
        if let Some(end) = end {
            info.found_end(EndLookUp::Latest, end);
            stream.end_with(bounds);
        }
        Self {
            info,
            stream,
            events,
            pool: BufferPool::new(1_000_000),
        }
    }

    /// Puts a set into the queue as the fetcher does, asked for at the position of the partition.
    fn fetch(&self, set: impl AsRef<[u8]>, next: i64) {
        self.fetch_without(set, next, AbortedTransactions::default());
    }

    fn fetch_without(&self, set: impl AsRef<[u8]>, next: i64, aborted: AbortedTransactions) {
        let (waiter, _token) = bounded(1);
        let bytes = set.as_ref().to_vec();
        let FetchedAt { offset, epoch } = self.position();
        let chunk = Chunk {
            info: Arc::clone(&self.info),
            epoch,
            fetch_offset: offset,
            high_watermark: Some(1000),
            charge: self.info.queue().reserve(bytes.len(), &waiter).unwrap(),
            message_set: PooledBuffer::new(bytes, &self.pool),
            aborted,
        };
        assert!(self.info.enqueue(chunk, next));
    }

    fn position(&self) -> FetchedAt {
        match self.info.fetch_position() {
            FetchPosition::At { offset, epoch } => FetchedAt { offset, epoch },
            other => panic!("nothing to fetch: {other:?}"),
        }
    }

    /// Offset of the next message that is there.
    fn next(&mut self) -> Option<Result<i64, StreamError>> {
        let message = self.stream.try_next()?;
        Some(message.map(|message| {
            assert_eq!(message.value(), Some(value(message.offset()).as_bytes()));
            message.offset()
        }))
    }

    /// Offsets of all messages that are there.
    fn drain(&mut self) -> Vec<i64> {
        std::iter::from_fn(|| self.next()?.ok()).collect()
    }
}

struct FetchedAt {
    offset: i64,
    epoch: u64,
}

fn value(offset: i64) -> String {
    format!("value {offset}")
}

fn plain(offsets: impl IntoIterator<Item = i64>) -> MessageSet {
    filled(MessageSetBuilder::new(), offsets)
}

fn compressed(offsets: impl IntoIterator<Item = i64>) -> MessageSet {
    filled(MessageSetBuilder::compressed(Codec::Gzip), offsets)
}

fn filled(mut set: MessageSetBuilder, offsets: impl IntoIterator<Item = i64>) -> MessageSet {
    for offset in offsets {
        set.message(offset, None, Some(value(offset).as_bytes()))
            .unwrap();
    }
    set.build().unwrap()
}

/// Flips the last byte of the entry at `offset`, which its checksum covers.
fn damaged(offsets: impl IntoIterator<Item = i64>, offset: i64) -> Vec<u8> {
    damaged_where(offsets, |one| one == offset)
}

fn damaged_where(
    offsets: impl IntoIterator<Item = i64>,
    is_damaged: impl Fn(i64) -> bool,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    for one in offsets {
        bytes.extend_from_slice(plain([one]).as_bytes());
        if is_damaged(one) {
            *bytes.last_mut().unwrap() ^= 1;
        }
    }
    bytes
}

impl AsRef<[u8]> for MessageSet {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

#[test]
fn a_set_that_begins_before_the_position_is_delivered_from_the_position_on() {
    // T10 with the position where it really is: the broker sends whole compressed messages (KAFKA-546).
    for set in [compressed(0..10), plain(0..10)] {
        let mut bench = Bench::new(5);
        bench.fetch(set, 10);
        assert_eq!(bench.drain(), [5, 6, 7, 8, 9]);
        bench.stream.queue.close();
        assert!(bench.next().is_none());
        assert!(bench.next().is_none(), "the end is for ever");
    }
}

#[test]
fn a_set_wholly_before_the_position_delivers_nothing_and_the_next_one_is_used() {
    // The original delivered the last entry again and moved the consumed offset back (D43, T14).
    let mut bench = Bench::new(5);
    bench.fetch(plain(0..5), 6);
    bench.fetch(plain(6..8), 8);
    assert_eq!(bench.drain(), [6, 7]);
    assert_eq!(bench.info.consumed(), Some(8));
}

#[test]
fn a_message_is_consumed_when_the_application_comes_back_for_the_next_one() {
    let mut bench = Bench::new(0);
    bench.fetch(plain(0..3), 3);
    assert_eq!(bench.next(), Some(Ok(0)));
    assert_eq!(
        bench.info.consumed(),
        Some(0),
        "a crash now repeats message 0"
    );
    assert_eq!(bench.next(), Some(Ok(1)));
    assert_eq!(bench.info.consumed(), Some(1));
    bench.stream.mark_consumed();
    assert_eq!(bench.info.consumed(), Some(2));
    assert_eq!(bench.next(), Some(Ok(2)));
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    assert_eq!(bench.info.consumed(), Some(3));
}

#[test]
fn a_message_is_consumed_at_once_where_the_configuration_asks_for_the_original_behaviour() {
    let mut bench = Bench::with(0, &[("consumed.on", "return")]);
    bench.fetch(plain(0..3), 3);
    assert_eq!(bench.next(), Some(Ok(0)));
    assert_eq!(bench.info.consumed(), Some(1));
}

#[test]
fn a_batch_takes_what_is_there_over_chunks_and_is_consumed_as_a_whole() {
    let mut bench = Bench::new(0);
    bench.fetch(plain(0..3), 3);
    bench.fetch(compressed(3..6), 6);
    let batch = bench.stream.next_batch(5, Duration::ZERO).unwrap().unwrap();
    assert_eq!(
        batch.iter().map(Message::offset).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    assert_eq!(bench.info.consumed(), Some(0));
    let batch = bench.stream.next_batch(5, Duration::ZERO).unwrap().unwrap();
    assert_eq!(batch.len(), 1);
    assert_eq!(bench.info.consumed(), Some(5));
    let nothing = bench.stream.next_batch(5, Duration::ZERO).unwrap();
    assert_eq!(nothing.unwrap_err(), StreamError::Timeout);
    assert_eq!(bench.info.consumed(), Some(6));
    assert!(
        bench
            .stream
            .next_batch(0, Duration::ZERO)
            .unwrap()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_batch_left_in_the_middle_counts_up_to_there_whichever_chunk_that_is_in() {
    for (last, consumed) in [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)] {
        let mut bench = Bench::new(0);
        bench.fetch(plain(0..2), 2);
        bench.fetch(compressed(2..5), 5);
        let batch = bench.stream.next_batch(10, Duration::ZERO);
        let batch = batch.unwrap().unwrap();
        assert_eq!(batch.len(), 5);
        bench.stream.mark_consumed_through(&batch[last]);
        assert_eq!(bench.info.consumed(), Some(consumed));
        bench.stream.mark_consumed();
        assert_eq!(bench.info.consumed(), Some(5));
    }
}

#[test]
fn a_batch_left_before_a_reset_does_not_count_the_reset() {
    let mut bench = Bench::new(10);
    bench.fetch(plain(10..12), 12);
    assert!(bench.info.reset(100, 0));
    bench.fetch(plain(100..102), 102);
    let batch = bench.stream.next_batch(10, Duration::ZERO);
    let batch = batch.unwrap().unwrap();
    assert_eq!(batch.len(), 4);
    bench.stream.mark_consumed_through(&batch[1]);
    assert_eq!(bench.info.consumed(), Some(12));
    bench.stream.mark_consumed_through(&batch[2]);
    assert_eq!(bench.info.consumed(), Some(101));
}

#[test]
fn a_timeout_can_be_repeated_and_a_message_comes_after_it() {
    let mut bench = Bench::with(0, &[("consumer.timeout.ms", "1")]);
    assert_eq!(
        bench.stream.next().unwrap().unwrap_err(),
        StreamError::Timeout
    );
    assert_eq!(
        bench.stream.next().unwrap().unwrap_err(),
        StreamError::Timeout
    );
    bench.fetch(plain(0..1), 1);
    assert_eq!(bench.stream.next().unwrap().unwrap().offset(), 0);
}

#[test]
fn a_reset_moves_the_consumed_offset_when_the_stream_reaches_it() {
    // The original moved it at once, with older chunks still queued (D44, T15).
    for (reset, rest) in [(100, vec![100, 101]), (0, vec![0, 1])] {
        let mut bench = Bench::new(10);
        bench.fetch(plain(10..12), 12);
        bench.fetch(plain(12..14), 14);
        assert!(bench.info.reset(reset, 0));
        bench.fetch(plain(rest.clone()), rest[1] + 1);
        assert_eq!(bench.next(), Some(Ok(10)));
        assert_eq!(bench.info.consumed(), Some(10));
        assert_eq!(bench.drain(), [vec![11, 12, 13], rest.clone()].concat());
        assert_eq!(bench.info.consumed(), Some(rest[1] + 1));
    }
}

#[test]
fn a_reset_within_a_batch_does_not_count_before_the_batch_does() {
    let mut bench = Bench::new(10);
    bench.fetch(plain(10..12), 12);
    assert!(bench.info.reset(100, 0));
    let batch = bench
        .stream
        .next_batch(10, Duration::ZERO)
        .unwrap()
        .unwrap();
    assert_eq!(batch.len(), 2);
    assert_eq!(bench.info.consumed(), Some(10));
    bench.stream.mark_consumed();
    assert_eq!(bench.info.consumed(), Some(100));
}

#[test]
fn a_batch_goes_on_behind_a_reset_backwards_with_all_that_stands_there() {
    // The log had been cut. What came after the reset was left out up to the offset that counted as consumed, since
    // the reset counts only when the application comes back for the next batch.
    let mut bench = Bench::new(10);
    bench.fetch(plain(10..12), 12);
    assert!(bench.info.reset(0, 0));
    bench.fetch(plain(0..3), 3);
    let batch = bench.stream.next_batch(10, Duration::ZERO);
    let batch = batch.unwrap().unwrap();
    let offsets: Vec<i64> = batch.iter().map(Message::offset).collect();
    assert_eq!(offsets, [10, 11, 0, 1, 2]);
    assert_eq!(bench.info.consumed(), Some(10));
    bench.stream.mark_consumed();
    assert_eq!(bench.info.consumed(), Some(3));
}

#[test]
fn nothing_of_a_revoked_generation_is_delivered_wherever_the_revocation_falls() {
    // The original could publish a chunk again after it was cleared, and hand out a prefetched message
    // (D40, T16).
    let mut before_take = Bench::new(0);
    before_take.fetch(plain(0..3), 3);
    before_take.info.revoke();
    assert_eq!(before_take.next(), Some(Err(StreamError::Timeout)));

    let mut within_chunk = Bench::new(0);
    within_chunk.fetch(plain(0..3), 3);
    assert_eq!(within_chunk.next(), Some(Ok(0)));
    within_chunk.info.revoke();
    assert_eq!(within_chunk.next(), Some(Err(StreamError::Timeout)));
}

#[test]
fn what_a_rebalance_drops_does_not_count_by_the_marker_that_follows_it() {
    // The stream met the messages before the end, or before a reset, after the revocation, and left them out. The
    // marker behind them moved the position all the same, and the last commit of the generation wrote it: the next
    // owner began behind messages that nobody had been given.
    let bounded = Bench::with_end(0, Some(4), &[]);
    bounded.fetch(plain(0..4), 4);
    let reset = Bench::new(0);
    reset.fetch(plain(0..4), 4);
    assert!(reset.info.reset(100, 0));
    for mut bench in [bounded, reset] {
        assert_eq!(bench.next(), Some(Ok(0)));
        bench.info.revoke();
        for _ in 0..2 {
            assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
        }
        assert_eq!(bench.info.consumed(), Some(1));
    }
}

#[test]
fn a_corrupt_message_is_fetched_again_before_it_is_believed() {
    let mut bench = Bench::new(0);
    bench.fetch(damaged(0..4, 2), 4);
    bench.fetch(plain(4..6), 6);
    assert_eq!(bench.drain(), [0, 1], "the rest is fetched again from 2");
    assert_eq!(bench.position().offset, 2);
    bench.fetch(plain(2..4), 4);
    assert_eq!(bench.drain(), [2, 3], "it was sound at the second sight");
}

#[test]
fn a_corrupt_message_stops_its_partition_until_it_is_skipped() {
    let mut bench = Bench::new(0);
    bench.fetch(damaged(0..4, 2), 4);
    assert_eq!(bench.drain(), [0, 1]);
    bench.fetch(damaged(2..4, 2), 4);
    let Some(Err(StreamError::Corrupt {
        topic_partition,
        offset,
        reason,
    })) = bench.next()
    else {
        panic!("the corrupt message is told");
    };
    assert_eq!(
        (topic_partition.to_string().as_str(), offset),
        ("orders/0", 2)
    );
    assert!(reason.contains("checksum"), "{reason}");
    assert!(matches!(
        bench.events.try_next(),
        Some(Event::BadMessage { offset: 2, .. })
    ));
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)), "told once");
    assert_eq!(bench.info.consumed(), Some(2), "a commit does not pass it");
    assert_eq!(
        bench.stream.skip_bad_message(bench.info.topic_partition()),
        Some(2)
    );
    bench.fetch(damaged(2..4, 2), 4);
    assert_eq!(bench.drain(), [3]);
    assert_eq!(bench.info.consumed(), Some(4));
}

#[test]
fn a_corrupt_message_is_told_and_skipped_where_the_configuration_says_so() {
    let mut bench = Bench::with(0, &[("on.bad.message", "skip")]);
    bench.fetch(damaged(0..4, 2), 4);
    assert_eq!(bench.drain(), [0, 1]);
    bench.fetch(damaged(2..4, 2), 4);
    assert!(matches!(
        bench.next(),
        Some(Err(StreamError::Corrupt { offset: 2, .. }))
    ));
    bench.fetch(damaged(2..4, 2), 4);
    assert_eq!(bench.drain(), [3]);
}

#[test]
fn a_compressed_message_whose_bytes_are_damaged_is_skipped_as_a_whole() {
    let mut set = compressed(0..3).as_bytes().to_vec();
    *set.last_mut().unwrap() ^= 1;
    let mut bench = Bench::with(0, &[("on.bad.message", "skip")]);
    for _ in 0..2 {
        bench.fetch(&set, 3);
        if let Some(Err(StreamError::Corrupt { offset, .. })) = bench.next() {
            assert_eq!(offset, 2, "that of the compressed message");
        }
    }
    assert_eq!(bench.position().offset, 3);
}

#[test]
fn a_corrupt_message_met_by_a_batch_waits_for_its_turn() {
    let mut bench = Bench::new(0);
    bench.fetch(damaged(0..3, 1), 3);
    let batch = bench
        .stream
        .next_batch(10, Duration::ZERO)
        .unwrap()
        .unwrap();
    assert_eq!(batch.len(), 1);
    let nothing = bench.stream.next_batch(10, Duration::ZERO).unwrap();
    assert_eq!(nothing.unwrap_err(), StreamError::Timeout);
    assert_eq!(
        bench.info.consumed(),
        Some(1),
        "message 0 was not lost over it"
    );
    bench.fetch(damaged(1..3, 1), 3);
    let error = bench
        .stream
        .next_batch(10, Duration::ZERO)
        .unwrap()
        .unwrap_err();
    assert!(matches!(error, StreamError::Corrupt { offset: 1, .. }));
}

#[test]
fn a_message_too_large_is_told_with_the_size_that_it_needs() {
    let mut bench = Bench::new(7);
    let entry = BadEntry::TooLarge {
        needed: Some(2_000_000),
    };
    assert!(bench.info.enqueue_bad(7, 8, 0, entry));
    let Some(Err(StreamError::TooLarge {
        offset,
        fetch_size,
        needed,
        ..
    })) = bench.next()
    else {
        panic!("it is told");
    };
    assert_eq!(
        (offset, fetch_size, needed),
        (7, 1_048_576, Some(2_000_000))
    );
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    assert_eq!(
        bench.stream.skip_bad_message(bench.info.topic_partition()),
        Some(7)
    );
    bench.fetch(plain([8]), 9);
    assert_eq!(bench.drain(), [8]);
}

#[test]
fn a_seek_drops_what_was_fetched_and_goes_both_ways() {
    let mut bench = Bench::new(0);
    let partition = bench.info.topic_partition().clone();
    bench.fetch(plain(0..5), 5);
    assert_eq!(bench.next(), Some(Ok(0)));
    bench.stream.seek(&partition, 50).unwrap();
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    assert_eq!(bench.info.consumed(), Some(50));
    bench.stream.seek(&partition, 3).unwrap();
    bench.fetch(plain(3..5), 5);
    assert_eq!(bench.drain(), [3, 4]);
    assert!(bench.stream.seek(&partition, -1).is_err());
    let foreign = TopicPartition::new("orders", 9);
    let error = bench.stream.seek(&foreign, 0).unwrap_err();
    assert!(error.to_string().contains("orders/9"), "{error}");
}

#[test]
fn a_pause_holds_wherever_it_falls_and_what_it_held_comes_afterwards() {
    for set in [plain(0..5), compressed(0..5)] {
        // In the queue.
        let mut queued = Bench::new(0);
        queued.fetch(&set, 5);
        queued.info.pause();
        assert_eq!(queued.next(), Some(Err(StreamError::Timeout)));
        queued.info.resume();
        queued.fetch(&set, 5);
        assert_eq!(queued.drain(), [0, 1, 2, 3, 4]);
        // Within a chunk.
        let mut within = Bench::new(0);
        within.fetch(&set, 5);
        assert_eq!(within.next(), Some(Ok(0)));
        assert_eq!(within.next(), Some(Ok(1)));
        within.info.pause();
        assert_eq!(within.next(), Some(Err(StreamError::Timeout)));
        assert_eq!(within.info.consumed(), Some(2), "the application came back");
        within.info.resume();
        within.fetch(&set, 5);
        assert_eq!(within.drain(), [2, 3, 4]);
        // Within a batch, which ends early and counts when the application comes back.
        let mut batch = Bench::new(0);
        batch.fetch(&set, 5);
        let info = Arc::clone(&batch.info);
        let visited = batch.stream.visit_batch(10, Duration::ZERO, |message| {
            if message.offset() == 2 {
                info.pause();
            }
        });
        assert_eq!(visited, Some(Ok(3)));
        assert_eq!(batch.info.consumed(), Some(0));
        assert_eq!(batch.next(), Some(Err(StreamError::Timeout)));
        assert_eq!(batch.info.consumed(), Some(3));
        batch.info.resume();
        batch.fetch(&set, 5);
        assert_eq!(batch.drain(), [3, 4]);
        // Over before the stream has noticed: nothing is dropped.
        let mut short = Bench::new(0);
        short.fetch(&set, 5);
        short.info.pause();
        short.info.resume();
        assert_eq!(short.drain(), [0, 1, 2, 3, 4]);
    }
}

#[test]
fn a_pause_that_comes_and_goes_at_any_moment_loses_nothing() {
    // A pause that was over between the look at a message and the look at why it is held had the rest of the chunk
    // dropped and not fetched again. One that began between two looks at a bad message lost what came before it, or
    // left the partition standing without a word.
    const MESSAGES: i64 = 30_000;
    let mut bench = Bench::with(0, &[("on.bad.message", "skip")]);
    let is_over = AtomicBool::new(false);
    let (info, pool) = (Arc::clone(&bench.info), Arc::clone(&bench.pool));
    let is_bad = |offset: i64| offset % 100 == 50;
    let mut delivered = Vec::new();
    let mut bad = BTreeSet::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (waiter, _token) = bounded(1);
            while !is_over.load(Ordering::Relaxed) {
                let FetchPosition::At { offset, epoch } = info.fetch_position() else {
                    thread::yield_now();
                    continue;
                };
                let bytes = damaged_where(offset..offset + 7, is_bad);
                let Ok(charge) = info.queue().reserve(bytes.len(), &waiter) else {
                    thread::yield_now();
                    continue;
                };
                let chunk = Chunk {
                    info: Arc::clone(&info),
                    epoch,
                    fetch_offset: offset,
                    high_watermark: None,
                    charge,
                    message_set: PooledBuffer::new(bytes, &pool),
                    aborted: AbortedTransactions::default(),
                };
                info.enqueue(chunk, offset + 7);
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                info.pause();
                info.resume();
            }
        });
        while delivered.last() < Some(&MESSAGES) {
            match bench.stream.next_timeout(Duration::from_secs(20)) {
                Some(Ok(message)) => delivered.push(message.offset()),
                Some(Err(StreamError::Corrupt { offset, .. })) => {
                    bad.insert(offset);
                }
                other => {
                    is_over.store(true, Ordering::Relaxed);
                    panic!("{other:?} behind {:?}", delivered.last());
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let last = delivered.last().copied().unwrap();
    let expected: Vec<i64> = (0..=last).filter(|offset| !is_bad(*offset)).collect();
    let gap = delivered
        .iter()
        .zip(&expected)
        .find(|(is, should)| is != should);
    assert_eq!(gap, None);
    assert_eq!(bad, (0..last).filter(|offset| is_bad(*offset)).collect());
}

#[test]
fn what_is_held_by_a_pause_takes_no_room_in_the_queue() {
    let mut bench = Bench::new(0);
    let big = vec![b'x'; 900_000];
    let mut set = MessageSetBuilder::new();
    set.message(0, None, Some(&big)).unwrap();
    bench.fetch(set.build().unwrap(), 1);
    bench.info.pause();
    let (waiter, _token) = bounded(1);
    assert!(bench.info.queue().reserve(200_000, &waiter).is_err());
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    assert!(bench.info.queue().reserve(200_000, &waiter).is_ok());
}

#[test]
fn a_bad_message_of_a_paused_partition_is_told_after_the_resume() {
    let mut damage = Bench::new(0);
    for _ in 0..2 {
        damage.fetch(damaged(0..3, 0), 3);
        damage.info.pause();
        assert_eq!(damage.next(), Some(Err(StreamError::Timeout)));
        damage.info.resume();
    }
    damage.fetch(damaged(0..3, 0), 3);
    assert_eq!(
        damage.next(),
        Some(Err(StreamError::Timeout)),
        "a second look"
    );
    damage.fetch(damaged(0..3, 0), 3);
    let told = damage.next();
    assert!(matches!(
        told,
        Some(Err(StreamError::Corrupt { offset: 0, .. }))
    ));

    let mut large = Bench::new(0);
    let too_large = || BadEntry::TooLarge { needed: None };
    let epoch = large.position().epoch;
    assert!(large.info.enqueue_bad(0, 1, epoch, too_large()));
    large.info.pause();
    assert_eq!(large.next(), Some(Err(StreamError::Timeout)));
    large.info.resume();
    let epoch = large.position().epoch;
    assert!(
        large.info.enqueue_bad(0, 1, epoch, too_large()),
        "met again"
    );
    let told = large.next();
    assert!(matches!(
        told,
        Some(Err(StreamError::TooLarge { offset: 0, .. }))
    ));
}

#[test]
fn a_missing_offset_is_told_once_behind_what_is_queued_and_a_seek_takes_it_back() {
    let mut bench = Bench::new(0);
    bench.fetch(plain(0..2), 2);
    let epoch = bench.position().epoch;
    assert!(bench.info.enqueue_no_offset(epoch, Some(5..9)));
    assert_eq!(bench.next(), Some(Ok(0)));
    assert_eq!(bench.next(), Some(Ok(1)));
    let told = StreamError::NoOffset {
        topic_partition: bench.info.topic_partition().clone(),
        offset: Some(2),
        log: Some(5..9),
    };
    assert_eq!(bench.next(), Some(Err(told)));
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    assert!(bench.info.seek(5));
    bench.fetch(plain(5..6), 6);
    assert_eq!(bench.drain(), [5]);

    let epoch = bench.position().epoch;
    assert!(bench.info.enqueue_no_offset(epoch, None));
    assert!(bench.info.seek(7));
    assert_eq!(
        bench.next(),
        Some(Err(StreamError::Timeout)),
        "not any more"
    );
}

#[test]
fn unpacked_bytes_count_against_the_queue_until_they_are_read() {
    let mut bench = Bench::new(0);
    let big = vec![b'x'; 900_000];
    let mut set = MessageSetBuilder::compressed(Codec::Gzip);
    set.message(0, None, Some(&big)).unwrap();
    bench.fetch(set.build().unwrap(), 1);
    let message = bench.stream.try_next().unwrap().unwrap();
    let (waiter, _token) = bounded(1);
    assert!(bench.info.queue().reserve(200_000, &waiter).is_err());
    assert!(bench.next().is_some());
    assert!(bench.info.queue().reserve(200_000, &waiter).is_ok());
    assert_eq!(
        message.value().unwrap().len(),
        900_000,
        "a message that is kept stays whole"
    );
}

#[test]
fn a_message_that_is_kept_keeps_the_set_that_it_is_a_slice_of_and_no_more() {
    // D82: the original's are slices of whole answers, with the sets of all partitions. Ours keep the set that they
    // came in, or what it unpacks to; buffers that nobody keeps go back to the pool.
    let mut bench = Bench::new(0);
    bench.fetch(compressed(0..3), 3);
    bench.fetch(plain(3..6), 6);
    bench.fetch(plain(6..9), 9);
    let all: Vec<Message> = std::iter::from_fn(|| bench.stream.try_next()?.ok()).collect();
    assert_eq!(all.len(), 9);
    // A new buffer is empty, one that was in use holds what was in it.
    let returned = || {
        let of_pool = || Some(bench.pool.take(1)).filter(|buffer| !buffer.is_empty());
        std::iter::from_fn(of_pool).count()
    };
    assert_eq!(returned(), 1, "the compressed set");
    let kept = [all[0].clone(), all[4].clone()];
    drop(all);
    assert_eq!(returned(), 1, "the set of which nothing is kept");
    assert_eq!(kept.map(|message| message.offset()), [0, 4]);
    assert_eq!(returned(), 2, "what it unpacked to, and the other set");
}

#[test]
fn closing_the_queue_ends_a_blocked_stream() {
    let bench = Bench::new(0);
    let queue = Arc::clone(bench.info.queue());
    let mut stream = bench.stream;
    let blocked = thread::spawn(move || stream.next().is_none());
    queue.close();
    assert!(blocked.join().unwrap());
}

#[test]
fn a_null_key_is_not_an_empty_one() {
    let mut set = MessageSetBuilder::new();
    set.message(0, Some(b""), None).unwrap();
    set.message(1, None, Some(b"")).unwrap();
    let mut bench = Bench::new(0);
    bench.fetch(set.build().unwrap(), 2);
    let first = bench.stream.try_next().unwrap().unwrap();
    assert_eq!((first.key(), first.value()), (Some(&b""[..]), None));
    let second = bench.stream.try_next().unwrap().unwrap();
    assert_eq!((second.key(), second.value()), (None, Some(&b""[..])));
    assert_eq!(second.high_watermark(), Some(1000));
}

#[test]
fn a_visit_lends_what_a_batch_would_give() {
    let mut bench = Bench::new(0);
    bench.fetch(plain(0..3), 3);
    bench.fetch(compressed(3..6), 6);
    let mut seen = Vec::new();
    let mut visit = |max| {
        bench.stream.visit_batch(max, Duration::ZERO, |message| {
            assert_eq!(message.value(), Some(value(message.offset()).as_bytes()));
            assert_eq!(
                (message.key(), message.high_watermark()),
                (None, Some(1000))
            );
            assert_eq!(message.to_message().offset(), message.offset());
            seen.push(message.offset());
        })
    };
    assert_eq!(visit(4), Some(Ok(4)));
    assert_eq!(visit(4), Some(Ok(2)));
    assert_eq!(visit(4), Some(Err(StreamError::Timeout)));
    assert_eq!(visit(0), Some(Ok(0)));
    assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    assert_eq!(bench.info.consumed(), Some(6));
}

#[test]
fn a_rebalance_in_the_midst_of_a_visit_ends_it() {
    let mut bench = Bench::new(0);
    bench.fetch(plain(0..5), 5);
    let info = Arc::clone(&bench.info);
    let visited = bench.stream.visit_batch(10, Duration::ZERO, |message| {
        if message.offset() == 1 {
            info.revoke();
        }
    });
    assert_eq!(
        visited,
        Some(Ok(2)),
        "the other three belong to somebody else"
    );
}

#[test]
fn all_messages_of_a_nested_set_are_delivered_and_passed_together() {
    // Brokers of 0.9 store compressed messages within compressed ones, which share the offset of the inner one. The
    // first of them was taken for all, and the others were lost.
    let inner = filled(MessageSetBuilder::compressed(Codec::Gzip), [0, 1, 2]);
    let mut outer = MessageSetBuilder::compressed(Codec::Gzip);
    outer.entries(&inner);
    outer.message(3, None, Some(value(3).as_bytes())).unwrap();
    let mut bench = Bench::new(0);
    bench.fetch(outer.build().unwrap(), 4);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let message = bench.stream.try_next().unwrap().unwrap();
        let text = String::from_utf8(message.value().unwrap().to_vec()).unwrap();
        seen.push((message.offset(), text));
    }
    let expected = [(2, value(0)), (2, value(1)), (2, value(2)), (3, value(3))];
    assert_eq!(seen, expected);
    assert_eq!(
        bench.info.consumed(),
        Some(2),
        "passed when the stream asks behind it"
    );
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    assert_eq!(bench.info.consumed(), Some(4));
}

#[test]
fn a_nested_set_that_is_left_half_read_is_not_consumed() {
    let inner = filled(MessageSetBuilder::compressed(Codec::Gzip), [0, 1, 2]);
    let mut outer = MessageSetBuilder::compressed(Codec::Gzip);
    outer.entries(&inner);
    let mut bench = Bench::new(0);
    bench.fetch(outer.build().unwrap(), 3);
    for _ in 0..2 {
        assert_eq!(bench.stream.try_next().unwrap().unwrap().offset(), 2);
    }
    bench.stream.mark_consumed();
    assert_eq!(bench.info.consumed(), Some(2));
}

#[test]
fn the_partition_of_another_stream_is_not_moved() {
    // Its position belongs to the thread of that stream.
    let mut bench = Bench::new(0);
    let other = MessageStream::new(ChunkQueue::new(1, 1), bench.stream.context.clone());
    let mut other = std::mem::replace(&mut bench.stream, other);
    let partition = bench.info.topic_partition().clone();
    assert!(bench.stream.seek(&partition, 5).is_err());
    assert_eq!(bench.stream.skip_bad_message(&partition), None);
    other.seek(&partition, 5).unwrap();
}

/// A batch of format 2 at these offsets.
fn batch(codec: Option<Codec>, offsets: impl IntoIterator<Item = i64>) -> MessageSet {
    let builder = codec.map_or_else(MessageSetBuilder::new, MessageSetBuilder::compressed);
    filled(builder.in_format(MessageFormat::V2), offsets)
}

/// A set that a 3.9.1 broker stored: a committed transaction, an aborted one and a committed one, their markers at
/// offsets 3, 7 and 9, and other messages between them at 2 and 5.
fn transactions() -> Vec<u8> {
    recorded::from_hex(include_str!(
        "../../../tests/fixtures/vectors/log-3.9-transactions.hex"
    ))
}

fn offsets(bench: &mut Bench) -> Vec<i64> {
    std::iter::from_fn(|| Some(bench.stream.try_next()?.ok()?.offset())).collect()
}

#[test]
fn messages_of_every_format_come_one_after_the_other() {
    let mut bench = Bench::new(0);
    let wrapper = MessageSetBuilder::compressed(Codec::Gzip).in_format(MessageFormat::V1);
    let sets = [
        plain(0..2),
        filled(wrapper, 2..4),
        batch(None, 4..6),
        batch(Some(Codec::Lz4), 6..8),
        compressed(8..10),
    ];
    let bytes: Vec<&[u8]> = sets.iter().map(MessageSet::as_bytes).collect();
    bench.fetch(bytes.concat(), 10);
    assert_eq!(bench.drain(), (0..10).collect::<Vec<_>>());
    // And from within a batch on.
    for start in [5, 7] {
        let mut bench = Bench::new(start);
        bench.fetch(bytes.concat(), 10);
        assert_eq!(bench.drain(), (start..10).collect::<Vec<_>>());
    }
}

#[test]
fn time_and_headers_come_with_the_message() {
    for codec in [None, Some(Codec::Gzip)] {
        let mut bench = Bench::new(0);
        let builder = codec.map_or_else(MessageSetBuilder::new, MessageSetBuilder::compressed);
        let mut builder = builder.in_format(MessageFormat::V2);
        let headers: [(&str, Option<&[u8]>); 2] = [("a", Some(b"1")), ("a", None)];
        let message = NewMessage {
            value: Some(b"value 0"),
            timestamp: Some(7),
            headers: &headers,
            ..NewMessage::default()
        };
        builder.add(0, &message).unwrap();
        builder.message(1, None, Some(b"value 1")).unwrap();
        bench.fetch(builder.build().unwrap(), 2);
        let message = bench.stream.try_next().unwrap().unwrap();
        let timestamp = Timestamp {
            millis: 7,
            timestamp_type: TimestampType::CreateTime,
        };
        assert_eq!(message.timestamp(), Some(timestamp));
        let found: Vec<_> = message
            .headers()
            .map(|header| (header.name.into_owned(), header.value))
            .collect();
        let a = || String::from("a");
        assert_eq!(found, [(a(), Some(&b"1"[..])), (a(), None)]);
        let visited = bench.stream.visit_batch(1, Duration::ZERO, |message| {
            assert_eq!(message.timestamp(), None);
            assert_eq!(message.headers().len(), 0);
        });
        assert!(matches!(visited, Some(Ok(1))));
    }
}

#[test]
fn markers_are_not_delivered_and_count_as_consumed() {
    // They take up offsets: a position that stays before a marker would never reach the end of the log.
    let mut bench = Bench::new(0);
    bench.fetch(transactions(), 10);
    assert_eq!(offsets(&mut bench), [0, 1, 2, 4, 5, 6, 8]);
    assert!(bench.stream.try_next().unwrap().is_err());
    assert_eq!(bench.info.consumed(), Some(10));
}

#[test]
fn a_set_of_nothing_but_markers_counts_as_consumed() {
    let mut bench = Bench::new(9);
    let set = transactions();
    bench.fetch(&set[set.len() - 78..], 10);
    assert!(bench.stream.try_next().unwrap().is_err());
    assert!(bench.stream.try_next().unwrap().is_err());
    assert_eq!(bench.info.consumed(), Some(10));
}

#[test]
fn aborted_messages_are_left_out_where_the_chunk_names_them() {
    let set = transactions();
    // The aborted transaction is of the producer that wrote the first batch.
    let producer_id = i64::from_be_bytes(set[43..51].try_into().unwrap());
    let aborted = AbortedTransaction {
        producer_id,
        first_offset: 4,
    };
    let mut bench = Bench::new(0);
    bench.fetch_without(set, 10, AbortedTransactions::new(vec![aborted]));
    assert_eq!(offsets(&mut bench), [0, 1, 2, 5, 8]);
    assert!(bench.stream.try_next().unwrap().is_err());
    assert_eq!(bench.info.consumed(), Some(10));
}

#[test]
fn a_corrupt_batch_is_told_once_and_passed_as_a_whole() {
    let mut bench = Bench::new(6);
    let mut bad = batch(None, 5..8).as_bytes().to_vec();
    *bad.last_mut().unwrap() ^= 1;
    let set = [&bad, batch(None, 8..9).as_bytes()].concat();
    bench.fetch(set.clone(), 9);
    assert!(matches!(bench.next(), Some(Err(StreamError::Timeout))));
    // Fetched again, it is still there.
    bench.fetch(set, 9);
    let error = bench.next().unwrap().unwrap_err();
    assert!(
        matches!(error, StreamError::Corrupt { offset: 6, .. }),
        "{error}"
    );
    let partition = TopicPartition::new("orders", 0);
    assert_eq!(bench.stream.skip_bad_message(&partition), Some(6));
    assert_eq!(bench.position().offset, 8);
    bench.fetch(batch(None, 8..9), 9);
    assert_eq!(bench.drain(), [8]);
}

#[test]
fn a_batch_within_limits_does_not_count_what_it_holds_already() {
    // A reset in the middle of a batch moves the position only once the application has come back for the batch.
    let mut bench = Bench::with(0, &[("consumer.timeout.ms", "1")]);
    bench.fetch(plain(0..3), 3);
    assert!(bench.info.reset(20, 0));
    bench.fetch(plain(20..22), 22);
    let limits = BatchLimits {
        messages: 4,
        wait: Duration::ZERO,
        ..BatchLimits::default()
    };
    let batch = bench.stream.next_batch_within(limits).unwrap().unwrap();
    let offsets: Vec<i64> = batch.iter().map(Message::offset).collect();
    assert_eq!(offsets, [0, 1, 2, 20]);
    assert_eq!(bench.info.consumed(), Some(0));
    assert_eq!(bench.drain(), [21]);
    assert_eq!(bench.info.consumed(), Some(22));
}

#[test]
fn a_batch_that_only_time_bounds_ends_in_time_although_more_is_there() {
    // The time was looked at only where nothing was there. An application that wanted a batch each second was given
    // the whole backlog as the first one, however much memory that took.
    let mut bench = Bench::new(0);
    for first in [0, 2, 4] {
        bench.fetch(plain(first..first + 2), first + 2);
    }
    let limits = BatchLimits {
        messages: usize::MAX,
        bytes: usize::MAX,
        wait: Duration::from_nanos(1),
    };
    let batches = bench.stream.batches(limits).take(3);
    let sizes: Vec<usize> = batches.map(|batch| batch.unwrap().len()).collect();
    assert_eq!(sizes, [2, 2, 2]);
}

#[test]
fn what_is_there_is_what_was_there_at_the_first_message() {
    // Fetchers that kept up with the application filled the queue while it was read, so that a call which takes what
    // is there came to no end before the backlog did.
    let mut bench = Bench::new(0);
    bench.fetch(plain(0..1), 1);
    bench.fetch(plain(1..2), 2);
    let idle = MessageStream::new(Arc::clone(bench.info.queue()), bench.stream.context.clone());
    let mut stream = std::mem::replace(&mut bench.stream, idle);
    let mut read = Vec::new();
    for _ in 0..2 {
        let visit = |message: MessageRef<'_>| {
            read.push(message.offset());
            let next = bench.position().offset;
            bench.fetch(plain(next..next + 1), next + 1);
        };
        let count = stream.visit_batch(usize::MAX, Duration::ZERO, visit);
        assert!(matches!(count, Some(Ok(2))), "{count:?}");
    }
    assert_eq!(read, [0, 1, 2, 3]);
}

#[test]
fn the_last_batch_before_the_end_waits_for_nothing() {
    // It waited for more as long as it might, and without a bound on the time for ever: nothing comes behind the end.
    let mut bench = Bench::with_end(0, Some(4), &[]);
    bench.fetch(plain(0..2), 2);
    bench.fetch(plain(2..6), 6);
    let limits = BatchLimits {
        messages: 3,
        bytes: usize::MAX,
        wait: Duration::MAX,
    };
    let batches = bench.stream.batches(limits);
    let sizes: Vec<usize> = batches.map(|batch| batch.unwrap().len()).collect();
    assert_eq!(sizes, [3, 1]);
}

#[test]
fn a_log_that_ends_in_markers_is_read_to_its_end() {
    // No message tells that the end is reached, and what is behind the last one counts as consumed all the same.
    let set = transactions();
    let markers_only = set[set.len() - 78..].to_vec();
    for (start, set, delivered) in [
        (0, set.clone(), vec![0, 1, 2, 4, 5, 6, 8]),
        (9, markers_only, vec![]),
    ] {
        let mut bench = Bench::with_end(start, Some(10), &[]);
        bench.fetch(set, 10);
        let read: Vec<i64> = bench
            .stream
            .by_ref()
            .map(|it| it.unwrap().offset())
            .collect();
        assert_eq!(read, delivered);
        assert!(bench.info.is_done());
        assert_eq!(bench.info.consumed(), Some(10));
    }
}

#[test]
fn an_end_within_a_batch_splits_it_and_nothing_behind_it_counts() {
    for codec in [None, Some(Codec::Gzip)] {
        let mut bench = Bench::with_end(0, Some(5), &[]);
        bench.fetch(batch(codec, 0..8), 8);
        assert_eq!(offsets(&mut bench), [0, 1, 2, 3, 4]);
        assert!(bench.stream.next().is_none());
        assert_eq!(bench.info.consumed(), Some(5));
    }
    // A batch from which compaction took the messages before the end and behind it.
    let mut bench = Bench::with_end(0, Some(5), &[]);
    let mut sparse = MessageSetBuilder::new().in_format(MessageFormat::V2);
    for offset in [0, 2, 7] {
        let value = value(offset);
        sparse
            .message(offset, None, Some(value.as_bytes()))
            .unwrap();
    }
    bench.fetch(sparse.build().unwrap(), 8);
    assert_eq!(offsets(&mut bench), [0, 2]);
    assert!(bench.stream.next().is_none());
    assert_eq!(bench.info.consumed(), Some(5));
}

#[test]
fn what_a_pause_drops_is_fetched_again_and_the_end_is_reached_only_then() {
    // The marker that follows the dropped messages would have told that the end is reached.
    let mut bench = Bench::with_end(0, Some(4), &[]);
    bench.fetch(plain(0..4), 4);
    assert_eq!(bench.next(), Some(Ok(0)));
    bench.info.pause();
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    assert!(!bench.info.is_done());
    assert_eq!(bench.info.consumed(), Some(1));
    bench.info.resume();
    assert_eq!(bench.position().offset, 1);
    bench.fetch(plain(0..4), 4);
    assert_eq!(bench.drain(), [1, 2, 3]);
    assert!(bench.stream.next().is_none());
}

#[test]
fn a_partition_that_is_paused_before_a_bad_message_is_not_left_to_it() {
    let too_large = BadEntry::TooLarge { needed: None };
    let mut bench = Bench::with_end(0, Some(4), &[]);
    let at = bench.position();
    assert!(bench.info.enqueue_bad(0, 1, at.epoch, too_large.clone()));
    assert!(matches!(
        bench.next(),
        Some(Err(StreamError::TooLarge { .. }))
    ));
    bench.info.pause();
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    bench.info.resume();
    assert!(
        bench.next().is_none(),
        "the application came back and does not care"
    );
    // Paused before it was told: it is met again.
    let mut bench = Bench::with_end(0, Some(4), &[]);
    let at = bench.position();
    assert!(bench.info.enqueue_bad(0, 1, at.epoch, too_large.clone()));
    bench.info.pause();
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    bench.info.resume();
    let at = bench.position();
    assert!(bench.info.enqueue_bad(0, 1, at.epoch, too_large));
    assert!(matches!(
        bench.next(),
        Some(Err(StreamError::TooLarge { .. }))
    ));
    assert!(bench.next().is_none());
}

#[test]
fn a_stream_that_waits_for_a_message_counts_the_markers_that_went_by() {
    // They counted when the application came back, and one that waits for a message does not.
    let mut bench = Bench::new(9);
    let set = transactions();
    bench.fetch(&set[set.len() - 78..], 10);
    assert_eq!(bench.next(), Some(Err(StreamError::Timeout)));
    assert_eq!(bench.info.consumed(), Some(10));
}
