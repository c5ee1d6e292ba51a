use std::hint;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;

use crate::fetch::buffer_pool::BufferPool;
use crate::fetch::buffer_pool::PooledBuffer;
use crate::fetch::chunk_queue::Taken;
use crate::protocol::AbortedTransactions;

use super::*;

fn info(start: Option<i64>) -> Arc<PartitionTopicInfo> {
    let queue = ChunkQueue::new(10, 1000);
    PartitionTopicInfo::new(TopicPartition::new("orders", 3), queue, start)
}

fn chunk(info: &Arc<PartitionTopicInfo>, fetch_offset: i64, epoch: u64) -> Chunk {
    let (waiter, _token) = bounded(1);
    Chunk {
        info: Arc::clone(info),
        epoch,
        fetch_offset,
        high_watermark: Some(100),
        message_set: PooledBuffer::new(vec![1], &BufferPool::new(0)),
        aborted: AbortedTransactions::default(),
        charge: info.queue.reserve(1, &waiter).unwrap(),
    }
}

#[test]
fn the_next_answer_is_expected_to_be_as_large_as_the_last_one_and_no_larger_than_the_fetch_size() {
    let info = info(Some(5));
    assert_eq!(info.expected_bytes(1000), 1000, "nothing is known yet");
    info.note_answer(10);
    assert_eq!(info.expected_bytes(1_000_000), LEAST_EXPECTED);
    info.note_answer(9000);
    assert_eq!(info.expected_bytes(1_000_000), 18_000);
    assert_eq!(info.expected_bytes(10_000), 10_000);
    // One message larger than the fetch size: what was dropped for lack of room finds room for it next time.
    assert_eq!(info.expected_bytes(1000), 9000);
}

#[test]
fn a_chunk_moves_the_fetched_offset_once() {
    let info = info(Some(5));
    assert!(info.enqueue(chunk(&info, 5, 0), 9));
    assert_eq!((info.fetched(), info.consumed()), (Some(9), Some(5)));
    assert!(
        !info.enqueue(chunk(&info, 5, 0), 9),
        "a second fetcher came too late"
    );
    assert_eq!(info.queue.len(), 1);
    assert_eq!(info.stats().lag(), Some(91));
}

#[test]
fn a_reset_with_chunks_queued_leaves_the_consumed_offset_to_the_stream() {
    // The original moved the consumed offset at once and so lost or repeated what was queued (D44).
    let info = info(Some(5));
    assert!(info.enqueue(chunk(&info, 5, 0), 9));
    assert!(info.reset(0, 0));
    assert_eq!((info.fetched(), info.consumed()), (Some(0), Some(5)));
    assert!(matches!(
        info.queue.take(None),
        Taken::Entry(QueueEntry::Messages(_))
    ));
    let Taken::Entry(QueueEntry::Reposition { offset, .. }) = info.queue.take(None) else {
        panic!("the reset follows the chunk");
    };
    assert_eq!(offset, 0);
}

#[test]
fn a_first_position_counts_as_consumed_so_that_it_gets_committed() {
    let info = info(None);
    assert_eq!(
        info.fetch_position(),
        FetchPosition::Unresolved { epoch: 0 }
    );
    assert!(info.reset(42, 0));
    assert_eq!(info.consumed(), Some(42));
    assert_eq!(
        info.fetch_position(),
        FetchPosition::At {
            offset: 42,
            epoch: 0
        }
    );
}

#[test]
fn corruption_is_believed_at_the_second_sight() {
    let info = info(Some(5));
    assert!(info.enqueue(chunk(&info, 5, 0), 9));
    assert_eq!(info.suspect(7, 6, 0), Verdict::FetchAgain);
    assert_eq!(
        info.fetch_position(),
        FetchPosition::At {
            offset: 6,
            epoch: 1
        }
    );
    assert!(!info.is_current(0), "what was queued is dropped");
    assert_eq!(info.suspect(7, 6, 1), Verdict::Confirmed);
}

#[test]
fn corruption_behind_what_is_queued_leaves_the_queue_alone() {
    // A fetcher that met broken framing dropped the sound messages before it, which still waited for the
    // stream, and did not ask for them again: they were lost.
    let info = info(Some(5));
    assert!(info.enqueue(chunk(&info, 5, 0), 9));
    assert_eq!(info.suspect(9, 9, 0), Verdict::FetchAgain);
    assert!(info.is_current(0), "5 to 8 are still to be delivered");
    assert_eq!(
        info.fetch_position(),
        FetchPosition::At {
            offset: 9,
            epoch: 0
        }
    );
    assert_eq!(info.suspect(9, 9, 0), Verdict::Confirmed);
}

#[test]
fn a_bad_message_met_by_a_fetcher_that_came_too_late_stops_nothing() {
    let info = info(Some(5));
    assert!(info.enqueue(chunk(&info, 5, 0), 9));
    assert!(!info.enqueue_bad(5, 6, 0, BadEntry::TooLarge { needed: None }));
    assert_eq!(info.stats().stopped_at, None);
}

#[test]
fn a_bad_message_stops_fetching_until_it_is_skipped() {
    let info = info(Some(5));
    let too_large = BadEntry::TooLarge { needed: Some(12) };
    assert!(info.enqueue_bad(5, 6, 0, too_large));
    assert_eq!(info.fetch_position(), FetchPosition::Waiting);
    assert_eq!(info.stats().stopped_at, Some(5));
    assert_eq!(
        info.consumed(),
        Some(5),
        "a commit must not pass the bad message"
    );
    assert_eq!(
        info.skip(),
        Some(StoppedAt {
            offset: 5,
            resume: 6
        })
    );
    assert_eq!(info.skip(), None);
    assert_eq!(
        info.fetch_position(),
        FetchPosition::At {
            offset: 6,
            epoch: 1
        }
    );
    assert_eq!(info.consumed(), Some(6));
}

#[test]
fn nothing_of_a_revoked_partition_is_taken_or_delivered() {
    let info = info(Some(5));
    info.revoke();
    assert!(!info.enqueue(chunk(&info, 5, 0), 9));
    assert!(!info.is_current(0));
    assert!(!info.reset(1, 0));
    assert_eq!(info.fetch_position(), FetchPosition::Revoked);
}

#[test]
fn a_late_acknowledgement_does_not_undo_a_seek() {
    let info = info(Some(5));
    info.seek(50);
    info.mark_consumed(6, 0);
    assert_eq!(info.consumed(), Some(50));
}

#[test]
fn a_mark_that_a_seek_of_another_thread_overtakes_does_not_count() {
    // The mark looked at the epoch first and was written after the seek: the seek was undone.
    let info = info(Some(5));
    let epoch = 0;
    assert!(info.seek(50));
    info.consumed.mark(6, epoch);
    assert_eq!(info.consumed(), Some(50));
    info.mark_consumed(51, 1);
    assert_eq!(info.consumed(), Some(51));
}

#[test]
fn a_revoked_partition_cannot_be_sought_but_told_what_to_commit() {
    let info = info(Some(5));
    info.mark_consumed(7, 0);
    info.revoke();
    assert!(!info.seek(50));
    assert_eq!(info.consumed(), Some(7));
    info.set_consumed(6);
    info.mark_consumed(8, 0);
    assert_eq!(info.consumed(), Some(6), "what is set last holds");
}

#[test]
fn a_paused_partition_is_neither_fetched_nor_delivered_until_it_is_resumed() {
    let info = info(Some(5));
    assert!(info.enqueue(chunk(&info, 5, 0), 9));
    info.mark_consumed(7, 0);
    info.pause();
    assert_eq!(info.fetch_position(), FetchPosition::Waiting);
    assert!(!info.is_current(0));
    assert!(
        !info.enqueue(chunk(&info, 9, 0), 12),
        "an answer that was under way is asked for again"
    );
    info.rewind(Some(7), 0);
    assert_eq!(info.consumed(), Some(7), "what was consumed stays so");
    info.resume();
    let at = FetchPosition::At {
        offset: 7,
        epoch: 1,
    };
    assert_eq!(info.fetch_position(), at);
    info.rewind(Some(5), 0);
    assert_eq!(info.fetch_position(), at, "the stream came too late");
}

#[test]
fn without_an_offset_a_partition_waits_for_a_seek() {
    for (start, expected) in [(None, None), (Some(5), Some(5))] {
        let info = info(start);
        assert!(info.enqueue_no_offset(0, Some(10..20)));
        assert_eq!(info.fetch_position(), FetchPosition::Waiting);
        assert_eq!(info.stats().stopped_at, expected);
        assert_eq!(info.skip(), None, "there is no message to skip");
        let Taken::Entry(QueueEntry::Halt(Halt::NoOffset { offset, log, .. })) =
            info.queue.take(None)
        else {
            panic!("the stream is told");
        };
        assert_eq!((offset, log), (expected, Some(10..20)));
        assert!(info.seek(15));
        let at = FetchPosition::At {
            offset: 15,
            epoch: 1,
        };
        assert_eq!(info.fetch_position(), at);
    }
}

#[test]
fn a_seek_is_not_undone_by_a_skip_at_the_same_time() {
    // The skip looked where the bad message stood, let a seek in, and then went to where it had looked.
    for _ in 0..2_000 {
        let info = info(Some(5));
        let at = StoppedAt {
            offset: 5,
            resume: 6,
        };
        assert!(info.stop_at(at, 5, 0));
        let together = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                info.skip()
            });
            together.wait();
            assert!(info.seek(100));
        });
        assert_eq!(info.fetched(), Some(100));
        assert_eq!(info.consumed(), Some(100));
    }
}

#[test]
fn a_resume_wakes_the_fetcher_at_whatever_moment_it_comes() {
    // Between the fetcher's look at the pause and its wish to be woken a resume woke nobody, and the partition waited
    // for refresh.leader.backoff.ms.
    const ROUNDS: usize = 5_000;
    let patience = Duration::from_secs(20);
    let info = info(Some(5));
    let (wake, woken) = bounded(1);
    let (seen, sights) = bounded(1);
    let round = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for mine in 1..=ROUNDS {
                while round.load(Ordering::Acquire) < mine {
                    thread::yield_now();
                }
                while info.position_or_wake(&wake) == FetchPosition::Waiting {
                    woken.recv_timeout(patience).unwrap();
                }
                seen.send(()).unwrap();
            }
        });
        for mine in 1..=ROUNDS {
            info.pause();
            round.store(mine, Ordering::Release);
            // At another moment of the look each time.
            (0..mine % 100).for_each(|_| hint::spin_loop());
            info.resume();
            if sights.recv_timeout(patience).is_err() {
                // So that the other thread, whose panic tells, comes to its end.
                round.store(ROUNDS, Ordering::Release);
                return;
            }
        }
    });
}
