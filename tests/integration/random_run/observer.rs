//! Looks at the group's nodes in ZooKeeper all the time, and writes messages.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::embedded::EmbeddedCluster;

use crate::random_run::GROUP;
use crate::random_run::TOPIC;
use crate::random_run::random::Random;
use crate::random_run::record::Record;

/// What the threads of a run have in common.
pub(super) struct World {
    pub(super) cluster: EmbeddedCluster,
    pub(super) record: Arc<Record>,
    pub(super) partitions: AtomicI32,
    pub(super) is_over: AtomicBool,
    pub(super) is_writing: AtomicBool,
}

impl World {
    /// Owner nodes and stored offsets, again and again.
    pub(super) fn observe(&self) {
        let session = self.cluster.zookeeper().local_session();
        while !self.is_over.load(Ordering::Relaxed) {
            for partition in 0..self.partitions.load(Ordering::Relaxed) {
                let before = Instant::now();
                let path = format!("/consumers/{GROUP}/owners/{TOPIC}/{partition}");
                if let Ok((owner, stat)) = session.get(&path) {
                    let owner = String::from_utf8_lossy(&owner);
                    let times = (before, Instant::now());
                    let created_by = stat.czxid;
                    self.record.owner_seen(partition, created_by, &owner, times);
                }
                let path = format!("/consumers/{GROUP}/offsets/{TOPIC}/{partition}");
                if let Ok((offset, _)) = session.get(&path) {
                    let offset = String::from_utf8_lossy(&offset);
                    match offset.parse() {
                        Ok(offset) => self.record.stored_offset_seen(partition, offset),
                        Err(_) => self.record.violation(format!("{path} holds {offset:?}")),
                    }
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Numbered messages to any partition, each until all replicas have it.
    pub(super) fn write(&self, mut random: Random) {
        let mut number = 0_u64;
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(random.millis(2, 20));
            if !self.is_writing.load(Ordering::Relaxed) {
                continue;
            }
            let partitions = self.partitions.load(Ordering::Relaxed);
            let partitions = usize::try_from(partitions).unwrap();
            let partition = i32::try_from(random.below(partitions)).unwrap();
            let mut values = Vec::new();
            let longest = if random.is_one_in(20) { 100 } else { 10 };
            for _ in 0..=random.below(longest) {
                let padding = "x".repeat(random.below(200));
                values.push(format!("{number} {padding}"));
                number += 1;
            }
            if let Ok(first) = self.cluster.produce(TOPIC, partition, &values) {
                self.record.acknowledged(partition, first, &values);
            }
        }
    }
}
