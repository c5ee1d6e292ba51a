//! A partition goes from one member to the next.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Event;
use kafka_zk_consumer::Events;
use kafka_zk_consumer::ListenerResult;
use kafka_zk_consumer::OffsetCall;
use kafka_zk_consumer::OffsetStore;
use kafka_zk_consumer::OffsetStoreError;
use kafka_zk_consumer::RebalanceListener;
use kafka_zk_consumer::RevokedPartitions;
use kafka_zk_consumer::TopicPartition;
use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::embedded::LocalSession;

use crate::reading::Reading;
use crate::reading::config;
use crate::reading::next;
use crate::reading::numbered;
use crate::reading::produce_numbers;
use crate::reading::quick_cluster;
use crate::reading::streams;
use crate::reading::value;
use crate::reading::wait_until;

/// The node of the partition that changes hands.
const OWNER: &str = "/consumers/g/owners/orders/1";

/// Offsets in memory, shared by the members.
#[derive(Clone, Default)]
struct Memory {
    stored: Arc<Mutex<HashMap<TopicPartition, i64>>>,
    /// Of a newcomer.
    slow: Option<Arc<Slow>>,
    is_away: Arc<AtomicBool>,
}

/// Reads offsets at once, but hands them over only when the previous owner has given the partition up.
struct Slow {
    zookeeper: LocalSession,
    has_read: AtomicBool,
}

impl OffsetStore for Memory {
    fn fetch(
        &self,
        partitions: &[TopicPartition],
        _call: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err("the database is away".into());
        }
        let stored = self.stored.lock().unwrap().clone();
        if let Some(slow) = &self.slow {
            slow.has_read.store(true, Ordering::SeqCst);
            wait_until(
                "the previous owner has gone",
                || !matches!(slow.zookeeper.get(OWNER), Ok((owner, _)) if owner == b"g_a-0"),
            );
        }
        let found = partitions.iter();
        let found = found.filter_map(|it| Some((it.clone(), *stored.get(it)?)));
        Ok(found.collect())
    }

    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        _call: &OffsetCall,
    ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError> {
        self.stored.lock().unwrap().extend(offsets.iter().cloned());
        Ok(offsets.iter().map(|_| Ok(())).collect())
    }
}

/// Holds the first release back until the newcomer has read offsets, or was refused the partition.
struct Hesitant {
    newcomer: Option<(Arc<Slow>, Events)>,
}

impl RebalanceListener for Hesitant {
    fn on_revoke(&mut self, _revoked: &RevokedPartitions<'_>) -> ListenerResult {
        if let Some((slow, events)) = self.newcomer.take() {
            let is_refusal = |event| matches!(event, Event::RebalanceAttemptFailed { .. });
            wait_until("the newcomer was here", || {
                slow.has_read.load(Ordering::SeqCst) || events.try_next().is_some_and(is_refusal)
            });
        }
        Ok(())
    }
}

/// A member that goes on for long when its start fails, and commits when it gives its partitions up.
fn connect(cluster: &EmbeddedCluster, id: &str, store: Memory) -> ConsumerConnector {
    let settings = config(cluster, "g").consumer_id(id);
    let settings = settings.auto_commit_interval(Duration::from_secs(3600));
    let settings = settings.rebalance_max_retries(50).build().unwrap();
    ConsumerConnector::connect_with_offset_store(settings, store).unwrap()
}

#[test]
fn a_newcomer_begins_where_the_previous_owner_stopped_however_late_that_commits() {
    // D22: the original read the offsets before it had won the partitions. What the previous owner committed between
    // the two was delivered twice.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    produce_numbers(&cluster, "orders", 2, 0..10);
    let slow = Arc::new(Slow {
        zookeeper: cluster.zookeeper().local_session(),
        has_read: AtomicBool::new(false),
    });
    let by_owner = Memory::default();
    let by_newcomer = Memory {
        slow: Some(Arc::clone(&slow)),
        ..by_owner.clone()
    };
    let owner = connect(&cluster, "a", by_owner.clone());
    let newcomer = connect(&cluster, "b", by_newcomer);
    let listener = Hesitant {
        newcomer: Some((slow, newcomer.events())),
    };
    owner.set_rebalance_listener(listener).unwrap();
    let mut reading = Reading::start(streams(&owner, "orders", 1));
    reading.until_numbers(2, 10);
    wait_until("all of it counts", || {
        let partitions = owner.stats().partitions;
        partitions.iter().all(|it| it.consumed == Some(10))
    });
    assert_eq!(
        by_owner.stored.lock().unwrap().len(),
        0,
        "not committed yet"
    );

    let mut stream = streams(&newcomer, "orders", 1).remove(0);
    produce_numbers(&cluster, "orders", 2, 10..11);
    assert_eq!(value(&next(&mut stream).unwrap()), numbered(1, 10));
}

#[test]
fn a_member_that_cannot_read_its_offsets_leaves_their_share_to_the_others() {
    // D18: the owner nodes that had been made before the error were forgotten, and were in everybody's way.
    let cluster = quick_cluster().topic("orders", 2, 1).start().unwrap();
    let without = Memory::default();
    without.is_away.store(true, Ordering::SeqCst);
    let first = connect(&cluster, "a", without.clone());
    let second = connect(&cluster, "b", Memory::default());
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| first.create_message_streams([("orders", 1)]).map(drop));
        let is_failure = |event| matches!(event, Event::RebalanceAttemptFailed { .. });
        wait_until("an attempt has failed", || {
            first.events().try_next().is_some_and(is_failure)
        });
        let by_second = second.create_message_streams([("orders", 1)]);
        assert!(by_second.is_ok(), "{:?}", by_second.map(drop));
        assert_eq!(
            second.owned_partitions(),
            [TopicPartition::new("orders", 1)]
        );
        without.is_away.store(false, Ordering::SeqCst);
        starting.join().unwrap().unwrap();
    });
    assert_eq!(first.owned_partitions(), [TopicPartition::new("orders", 0)]);
}
