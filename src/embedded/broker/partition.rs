//! One partition with the logs of all its replicas.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;
use std::time::SystemTime;

use crate::embedded::broker::append_rules::AppendRules;
use crate::embedded::broker::partition_log::PartitionLog;
use crate::embedded::broker::partition_store::PartitionStore;
use crate::error::ErrorCode;
use crate::protocol::MessageSet;

/// The replicas of a partition, who leads them, and how far they agree.
///
/// Replication is a copy under the lock of the cluster's state: whatever the leader appends is in the logs of all
/// followers that keep up before anybody sees it. A follower that is down or held back gets it when it comes back.
#[derive(Clone, Debug)]
pub(super) struct Partition {
    /// Ids of the brokers, the preferred leader first.
    replicas: Vec<i32>,
    leader: Option<i32>,
    leader_epoch: i32,
    /// Counts the leaders, and since when there is the present one.
    term: u64,
    led_since: Instant,
    isr: Vec<i32>,
    /// By broker, also of those that are down.
    logs: BTreeMap<i32, PartitionLog>,
    /// The offset after the last message that all replicas in sync have.
    high_watermark: i64,
    /// Files that follow the log of the leader.
    store: Option<PartitionStore>,
}

/// Where a set was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Appended {
    /// Offset of the first message; `None` for an empty set.
    pub(super) base_offset: Option<i64>,
    /// The offset after the last one, which the high watermark must reach.
    pub(super) log_end: i64,
    /// When, in milliseconds since 1970, where the messages got that for their time.
    pub(super) log_append_time: Option<i64>,
}

impl Partition {
    /// A new partition; the replicas that are up are in sync.
    pub(super) fn new(
        replicas: Vec<i32>,
        segment_bytes: usize,
        is_up: impl Fn(i32) -> bool,
    ) -> Self {
        Self::with_log(replicas, PartitionLog::new(segment_bytes), is_up)
    }

    /// As [`new`](Self::new), every replica with the messages of `log`.
    pub(super) fn with_log(
        replicas: Vec<i32>,
        log: PartitionLog,
        is_up: impl Fn(i32) -> bool,
    ) -> Self {
        let isr: Vec<i32> = replicas.iter().copied().filter(|id| is_up(*id)).collect();
        Self {
            logs: replicas.iter().map(|id| (*id, log.clone())).collect(),
            replicas,
            leader: isr.first().copied(),
            leader_epoch: 0,
            term: 1,
            led_since: Instant::now(),
            isr,
            high_watermark: log.log_end(),
            store: None,
        }
    }

    /// Keeps the log in the files of `store` from now on; see [`save`](Self::save).
    pub(super) fn keep_in(&mut self, store: PartitionStore) {
        self.store = Some(store);
    }

    /// Continues the count of an earlier life.
    pub(super) fn continue_epoch(&mut self, before: i32) {
        self.leader_epoch = before.saturating_add(1);
    }

    /// Brings the files, if there are any, to what the log is. To be called after every change.
    pub(super) fn save(&mut self) -> io::Result<()> {
        let broker = self.leader.or_else(|| self.isr.first().copied());
        let log = broker.and_then(|broker| self.logs.get(&broker));
        match self.store.as_mut().zip(log) {
            Some((store, log)) => store.save(log),
            None => Ok(()),
        }
    }

    pub(super) fn replicas(&self) -> &[i32] {
        &self.replicas
    }

    pub(super) fn leader(&self) -> Option<i32> {
        self.leader
    }

    pub(super) fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Which leader this is, counted from the first, and since when it leads.
    pub(super) fn term(&self) -> (u64, Instant) {
        (self.term, self.led_since)
    }

    pub(super) fn isr(&self) -> &[i32] {
        &self.isr
    }

    pub(super) fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// The replica on `broker`; `None` where it has none.
    pub(super) fn log(&self, broker: i32) -> Option<&PartitionLog> {
        self.logs.get(&broker)
    }

    /// The log of the leader, or of the last one that led.
    pub(super) fn leading_log(&self) -> Option<&PartitionLog> {
        let broker = self.leader.or_else(|| self.isr.first().copied());
        broker.and_then(|broker| self.logs.get(&broker))
    }

    /// How many replicas have everything before `offset`.
    pub(super) fn replicas_with(&self, offset: i64) -> usize {
        let in_sync = self.isr.iter().filter_map(|id| self.logs.get(id));
        in_sync.filter(|log| log.log_end() >= offset).count()
    }

    /// The log of `broker` when it leads, else the error code that it answers with.
    pub(super) fn led_by(&self, broker: i32) -> Result<&PartitionLog, ErrorCode> {
        let log = self.logs.get(&broker);
        let log = log.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        match self.leader == Some(broker) {
            true => Ok(log),
            false => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// Appends to the log of `broker`, which must lead, and to those of the followers that keep up.
    pub(super) fn append(
        &mut self,
        broker: i32,
        set: &MessageSet,
        rules: &AppendRules,
        keeps_up: impl Fn(i32) -> bool,
    ) -> Result<Appended, ErrorCode> {
        let base_offset = self.led_by(broker)?.log_end();
        let assigned = rules.assign(set, base_offset)?;
        if assigned.entries.is_empty() {
            return Ok(Appended {
                base_offset: None,
                log_end: base_offset,
                log_append_time: None,
            });
        }
        let log = self.logs.get_mut(&broker);
        let log = log.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        log.append(&assigned.entries, assigned.log_end);
        self.replicate(keeps_up);
        self.save().map_err(|error| {
            log::error!("a message cannot be kept: {error}");
            ErrorCode::UnknownServerError
        })?;
        Ok(Appended {
            base_offset: Some(base_offset),
            log_end: assigned.log_end,
            log_append_time: rules.log_append_time,
        })
    }

    /// Brings the followers that keep up to the leader's end, and into the set of those in sync. `true` when that set
    /// has changed.
    pub(super) fn replicate(&mut self, keeps_up: impl Fn(i32) -> bool) -> bool {
        let Some(leader) = self.leader.and_then(|id| self.logs.get(&id)).cloned() else {
            return false;
        };
        let mut isr = Vec::new();
        for id in &self.replicas {
            let is_leader = self.leader == Some(*id);
            if !is_leader && keeps_up(*id) {
                let log = self.logs.entry(*id).or_insert_with(|| leader.clone());
                match self.isr.contains(id) {
                    true => follow(log, &leader),
                    // It may have messages that no later leader ever had.
                    false => leader.clone_into(log),
                }
            }
            if is_leader || keeps_up(*id) || self.isr.contains(id) {
                isr.push(*id);
            }
        }
        let has_changed = isr != self.isr;
        if has_changed {
            self.isr = isr;
            self.leader_epoch = self.leader_epoch.saturating_add(1);
        }
        self.raise_high_watermark();
        has_changed
    }

    /// Takes `broker` out of the replicas in sync, unless it is the last, and gives its leadership to another one.
    /// `true` when anything has changed.
    ///
    /// As in Kafka 0.8.2.2 with `unclean.leader.election.enable=false`: the last replica in sync stays in the set, and
    /// without it the partition has no leader.
    pub(super) fn lose(&mut self, broker: i32, is_up: impl Fn(i32) -> bool) -> bool {
        let was_in_sync = self.isr.contains(&broker);
        if was_in_sync && self.isr.len() > 1 {
            self.isr.retain(|id| *id != broker);
        }
        let has_lost_leader = self.leader == Some(broker);
        if has_lost_leader {
            self.leader = None;
            self.elect(is_up);
        } else if was_in_sync {
            self.leader_epoch = self.leader_epoch.saturating_add(1);
            self.raise_high_watermark();
        }
        was_in_sync || has_lost_leader
    }

    /// Finds a leader among the replicas in sync, where there is none. `true` when one was found.
    pub(super) fn elect(&mut self, is_up: impl Fn(i32) -> bool) -> bool {
        if self.leader.is_some() {
            return false;
        }
        self.leader_epoch = self.leader_epoch.saturating_add(1);
        let mut candidates = self.replicas.iter().copied();
        let elected = candidates.find(|id| self.isr.contains(id) && is_up(*id));
        if let Some(leader) = elected {
            self.lead(leader);
        }
        elected.is_some()
    }

    /// Finds a leader among all replicas, where there is none. What it lacks is lost. `true` when one was found.
    ///
    /// As in Kafka 0.8.2.2 with `unclean.leader.election.enable=true`.
    pub(super) fn elect_uncleanly(&mut self, is_up: impl Fn(i32) -> bool) -> bool {
        if self.leader.is_some() {
            return false;
        }
        let elected = self.replicas.iter().copied().find(|id| is_up(*id));
        if let Some(leader) = elected {
            self.leader_epoch = self.leader_epoch.saturating_add(1);
            self.isr = vec![leader];
            self.lead(leader);
        }
        elected.is_some()
    }

    /// Makes `broker` the leader. `false` when it is not in sync.
    pub(super) fn move_leader(&mut self, broker: i32) -> bool {
        if !self.isr.contains(&broker) {
            return false;
        }
        if self.leader != Some(broker) {
            self.leader_epoch = self.leader_epoch.saturating_add(1);
            self.lead(broker);
        }
        true
    }

    /// Forgets everything from `offset` on, on all replicas.
    pub(super) fn truncate(&mut self, offset: i64) {
        self.logs.values_mut().for_each(|log| log.truncate(offset));
        self.high_watermark = self.high_watermark.min(offset);
    }

    /// Takes the high watermark back to `offset`, until the next replication.
    pub(super) fn lower_high_watermark(&mut self, offset: i64) {
        self.high_watermark = self.high_watermark.min(offset);
    }

    /// Makes `offset` the first that may be read, on all replicas.
    pub(super) fn set_log_start(&mut self, offset: i64) {
        let logs = self.logs.values_mut();
        logs.for_each(|log| log.set_log_start(offset));
        self.high_watermark = self.high_watermark.max(offset);
    }

    /// Drops old segments of all replicas.
    pub(super) fn retain(&mut self, most: Option<usize>, oldest: Option<SystemTime>) {
        let logs = self.logs.values_mut();
        logs.for_each(|log| log.retain(most, oldest));
        let log_start = self.leading_log().map_or(0, PartitionLog::log_start);
        self.high_watermark = self.high_watermark.max(log_start);
    }

    /// Damages the leader's copy of the message at `offset`. `false` when there is none.
    pub(super) fn corrupt(&mut self, offset: i64) -> bool {
        if let Some(store) = &mut self.store {
            store.distrust();
        }
        let log = self.leader.and_then(|id| self.logs.get_mut(&id));
        log.is_some_and(|log| log.corrupt(offset))
    }

    fn lead(&mut self, broker: i32) {
        self.leader = Some(broker);
        self.term = self.term.saturating_add(1);
        self.led_since = Instant::now();
        if let Some(log) = self.logs.get(&broker) {
            let within = self.high_watermark.min(log.log_end());
            self.high_watermark = within.max(log.log_start());
        }
        // A follower drops what no leader ever showed, and fetches the rest anew.
        let high_watermark = self.high_watermark;
        for (id, log) in &mut self.logs {
            if *id != broker && self.isr.contains(id) {
                log.truncate(high_watermark);
            }
        }
        self.raise_high_watermark();
    }

    fn raise_high_watermark(&mut self) {
        if self.leader.is_none() {
            return;
        }
        let in_sync = self.isr.iter().filter_map(|id| self.logs.get(id));
        if let Some(end) = in_sync.map(PartitionLog::log_end).min() {
            self.high_watermark = self.high_watermark.max(end);
        }
    }
}

/// Makes `log` equal to the log of the leader from where the two part.
fn follow(log: &mut PartitionLog, leader: &PartitionLog) {
    log.truncate(leader.log_end());
    if log.log_end() < leader.log_start() {
        log.set_log_start(leader.log_start());
    }
    let missing = leader.entries_from(log.log_end());
    if !missing.is_empty() || log.log_end() < leader.log_end() {
        log.append(&missing, leader.log_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::broker::partition_log::Oversize;
    use crate::protocol::MessageFormat;
    use crate::protocol::MessageSetBuilder;

    const RULES: AppendRules = AppendRules {
        most: 100,
        format: MessageFormat::V0,
        known: MessageFormat::V0,
        has_zstd: false,
        flattens: true,
        log_append_time: None,
    };

    fn set(value: String) -> MessageSet {
        let mut builder = MessageSetBuilder::new();
        builder.message(0, None, Some(value.as_bytes())).unwrap();
        builder.build().unwrap()
    }

    fn partition() -> Partition {
        Partition::new(vec![1, 2, 3], 1000, |_| true)
    }

    fn append(partition: &mut Partition, broker: i32, keeping_up: &[i32]) -> Appended {
        let keeps_up = |id| keeping_up.contains(&id);
        partition
            .append(broker, &set(format!("of {broker}")), &RULES, keeps_up)
            .unwrap()
    }

    #[test]
    fn what_was_acknowledged_by_all_survives_two_leaders() {
        let mut partition = partition();
        append(&mut partition, 1, &[1, 2, 3]);
        assert!(partition.lose(1, |id| id != 1));
        assert_eq!(
            (partition.leader(), partition.isr()),
            (Some(2), &[2, 3][..])
        );
        append(&mut partition, 2, &[2, 3]);
        assert!(partition.lose(2, |id| id == 3));
        assert_eq!((partition.leader(), partition.isr()), (Some(3), &[3][..]));
        assert_eq!(partition.high_watermark(), 2);
        assert_eq!(partition.led_by(3).unwrap().log_end(), 2);
        assert_eq!(partition.leader_epoch(), 2);
    }

    #[test]
    fn a_follower_that_is_held_back_holds_the_high_watermark_back() {
        let mut partition = partition();
        append(&mut partition, 1, &[1, 2]);
        assert_eq!(partition.high_watermark(), 0);
        assert_eq!(partition.replicas_with(1), 2);
        assert!(
            !partition.replicate(|_| true),
            "it was in sync all the time"
        );
        assert_eq!(partition.high_watermark(), 1);
    }

    #[test]
    fn messages_that_only_a_lost_leader_had_are_gone_and_their_offsets_used_again() {
        let mut partition = partition();
        append(&mut partition, 1, &[1]);
        partition.lose(1, |id| id != 1);
        assert_eq!(partition.led_by(2).unwrap().log_end(), 0);
        append(&mut partition, 2, &[2, 3]);
        append(&mut partition, 2, &[2, 3]);
        assert!(partition.replicate(|_| true), "the old leader joins again");
        assert_eq!(partition.isr(), [1, 2, 3]);
        assert_eq!(partition.log(1).unwrap().log_end(), 2);
        let read = |id| {
            let log = partition.log(id).unwrap();
            log.read(0, 1000, None, Oversize::Cut).unwrap().concat()
        };
        assert_eq!(read(1), read(2));
    }

    #[test]
    fn without_a_replica_in_sync_there_is_no_leader() {
        let mut partition = partition();
        partition.lose(1, |id| id != 1);
        partition.lose(2, |id| id == 3);
        assert!(partition.lose(3, |_| false));
        assert_eq!((partition.leader(), partition.isr()), (None, &[3][..]));
        assert!(!partition.elect(|id| id == 1), "it is not in sync");
        assert!(partition.elect(|id| id == 3));
        let code = partition.led_by(1).unwrap_err();
        assert_eq!(code, ErrorCode::NotLeaderOrFollower);
        let code = partition.led_by(7).unwrap_err();
        assert_eq!(code, ErrorCode::UnknownTopicOrPartition);
    }

    #[test]
    fn leadership_moves_only_to_a_replica_in_sync() {
        let mut partition = partition();
        append(&mut partition, 1, &[1, 2, 3]);
        partition.lose(3, |id| id != 3);
        assert!(!partition.move_leader(3));
        assert!(partition.move_leader(2));
        assert_eq!(
            (partition.leader(), partition.high_watermark()),
            (Some(2), 1)
        );
    }

    #[test]
    fn damage_is_done_to_one_replica_only() {
        let mut partition = partition();
        append(&mut partition, 1, &[1, 2, 3]);
        assert!(partition.corrupt(0));
        assert!(!partition.corrupt(1));
        let read = |id| {
            let log = partition.log(id).unwrap();
            log.read(0, 100, None, Oversize::Cut).unwrap().concat()
        };
        assert_ne!(read(1), read(2));
        assert_eq!(read(2), read(3));
    }
}
