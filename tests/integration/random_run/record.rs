//! Everything that was seen in a run, and what must be true of it.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;

/// So long after the end of its session was forced, a member may not know of it yet: the session timeout, since no
/// consumer can know of an end that comes before its time, and the time to be told.
const FORCED_LOSS_NOTICED: Duration = Duration::from_millis(2500);

/// One message that a call on a stream handed out.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) member: String,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) value: String,
    /// When the application asked.
    pub(super) asked: Instant,
    /// When it had the message.
    pub(super) given: Instant,
}

/// An owner node, identified by the transaction that created it: while the same node is there, nobody else owns the
/// partition, whatever happened between two looks at it.
#[derive(Clone, Debug)]
struct Claim {
    created_by: i64,
    member: String,
    /// It was there at this time, or was created before.
    from: Instant,
    /// It was there until this time at least.
    until: Instant,
}

#[derive(Default)]
struct Seen {
    timeline: Vec<(Instant, String)>,
    violations: Vec<String>,
    claims: BTreeMap<i32, Vec<Claim>>,
    stored: BTreeMap<i32, i64>,
    deliveries: Vec<Delivery>,
    /// Offset after the last message delivered to anybody.
    delivered_end: BTreeMap<i32, i64>,
    /// Messages that all replicas had, by partition and offset.
    acknowledged: BTreeMap<(i32, i64), String>,
    delivered: BTreeMap<(i32, i64), String>,
    /// When the session of a member was ended by force.
    forced: Vec<(String, Instant)>,
}

/// Shared by all threads of a run.
pub(super) struct Record {
    began: Instant,
    seen: Mutex<Seen>,
}

impl Record {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            seen: Mutex::default(),
        }
    }

    pub(super) fn note(&self, what: impl Into<String>) {
        let mut seen = self.seen.lock();
        seen.timeline.push((Instant::now(), what.into()));
    }

    pub(super) fn violation(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(format!("VIOLATION {what}"));
        self.seen.lock().violations.push(what);
    }

    pub(super) fn is_violated(&self) -> bool {
        !self.seen.lock().violations.is_empty()
    }

    pub(super) fn acknowledged(&self, partition: i32, first_offset: i64, values: &[String]) {
        let mut seen = self.seen.lock();
        for (offset, value) in (first_offset..).zip(values) {
            seen.acknowledged.insert((partition, offset), value.clone());
        }
    }

    /// Called before the stream is asked again, so that no commit is ahead of it.
    pub(super) fn delivered(&self, batch: Vec<Delivery>) {
        let mut seen = self.seen.lock();
        for delivery in batch {
            let at = (delivery.partition, delivery.offset);
            let end = seen.delivered_end.entry(delivery.partition).or_default();
            *end = (*end).max(delivery.offset + 1);
            seen.delivered.insert(at, delivery.value.clone());
            seen.deliveries.push(delivery);
        }
    }

    pub(super) fn session_ended_by_force(&self, member: &str) {
        let mut seen = self.seen.lock();
        seen.forced.push((member.to_owned(), Instant::now()));
    }

    /// The owner node of a partition stood there at some time between `before` and `after`.
    pub(super) fn owner_seen(
        &self,
        partition: i32,
        created_by: i64,
        owner: &str,
        (before, after): (Instant, Instant),
    ) {
        // The rest is the number of the thread.
        let member = owner.rsplit_once('-').map_or(owner, |(member, _)| member);
        let mut seen = self.seen.lock();
        let claims = seen.claims.entry(partition).or_default();
        match claims.last_mut() {
            Some(last) if last.created_by == created_by => last.until = before,
            _ => {
                claims.push(Claim {
                    created_by,
                    member: member.to_owned(),
                    from: after,
                    until: before,
                });
                let what = format!("{partition} is claimed by {owner}");
                seen.timeline.push((after, what));
            }
        }
    }

    /// Stored offsets never go back, and are never ahead of what was delivered.
    pub(super) fn stored_offset_seen(&self, partition: i32, offset: i64) {
        let mut seen = self.seen.lock();
        let last = seen.stored.insert(partition, offset);
        let delivered = seen.delivered_end.get(&partition).copied().unwrap_or(0);
        drop(seen);
        if let Some(last) = last.filter(|last| *last > offset) {
            self.violation(format!(
                "stored offset of {partition}: {last}, then {offset}"
            ));
        }
        if offset > delivered {
            let what = format!("stored offset of {partition}: {offset}, delivered: {delivered}");
            self.violation(what);
        }
    }

    pub(super) fn stored_offset(&self, partition: i32) -> Option<i64> {
        self.seen.lock().stored.get(&partition).copied()
    }

    /// How many acknowledged messages nobody got yet, and the first of them.
    pub(super) fn missing(&self) -> Option<(usize, i32, i64)> {
        let seen = self.seen.lock();
        let delivered = &seen.delivered;
        let mut missing = seen
            .acknowledged
            .keys()
            .filter(|at| !delivered.contains_key(at));
        let (partition, offset) = *missing.next()?;
        Some((missing.count() + 1, partition, offset))
    }

    /// Judges the deliveries so far, and forgets them but for each stream's last one.
    pub(super) fn judge_deliveries(&self) {
        let mut seen = self.seen.lock();
        let mut complaints = Vec::new();
        let mut last: BTreeMap<(String, i32), Delivery> = BTreeMap::new();
        let mut kept = Vec::new();
        for delivery in std::mem::take(&mut seen.deliveries) {
            complaints.extend(seen.foreign(&delivery));
            complaints.extend(seen.altered(&delivery));
            let of = (delivery.member.clone(), delivery.partition);
            if let Some(before) = last.insert(of, delivery.clone()) {
                complaints.extend(seen.out_of_order(&before, &delivery));
            }
        }
        kept.extend(last.into_values());
        seen.deliveries = kept;
        drop(seen);
        for complaint in complaints.into_iter().take(20) {
            self.violation(complaint);
        }
    }

    pub(super) fn summary(&self) -> String {
        let seen = self.seen.lock();
        let claims: usize = seen.claims.values().map(Vec::len).sum();
        let (acknowledged, delivered) = (seen.acknowledged.len(), seen.delivered.len());
        format!("{acknowledged} messages, {delivered} delivered, {claims} claims")
    }

    /// What was wrong, and everything that happened before it.
    pub(super) fn story(&self) -> String {
        let mut seen = self.seen.lock();
        seen.timeline.sort_by_key(|(at, _)| *at);
        let mut story = String::from("timeline:\n");
        for (at, what) in &seen.timeline {
            let millis = at.duration_since(self.began).as_millis();
            story.push_str(&format!("{millis:>7} ms  {what}\n"));
        }
        story.push_str("violations:\n");
        for violation in &seen.violations {
            story.push_str(&format!("  {violation}\n"));
        }
        story
    }
}

impl Seen {
    /// Whether somebody else owned the partition for all of the call. A call that had begun before the claim was in
    /// flight.
    fn foreign(&self, delivery: &Delivery) -> Option<String> {
        let claims = self.claims.get(&delivery.partition)?;
        let other = claims.iter().find(|claim| {
            claim.member != delivery.member
                && claim.from <= delivery.asked
                && delivery.given <= claim.until
        })?;
        let is_excused = self.forced.iter().any(|(member, at)| {
            let noticed = *at + FORCED_LOSS_NOTICED;
            *member == delivery.member && (*at..noticed).contains(&delivery.given)
        });
        let late = delivery.asked.duration_since(other.from);
        (!is_excused).then(|| {
            format!(
                "{} delivers {}@{} {late:?} after the claim of {}",
                delivery.member, delivery.partition, delivery.offset, other.member
            )
        })
    }

    /// Whether it is another message than the one that was acknowledged for this offset.
    fn altered(&self, delivery: &Delivery) -> Option<String> {
        let at = (delivery.partition, delivery.offset);
        let written = self.acknowledged.get(&at)?;
        (*written != delivery.value).then(|| {
            format!(
                "{} got {} for {written} at {at:?}",
                delivery.member, delivery.value
            )
        })
    }

    /// Whether a message is missing or repeated within one ownership.
    fn out_of_order(&self, before: &Delivery, delivery: &Delivery) -> Option<String> {
        let claims = self.claims.get(&delivery.partition)?;
        let is_one_ownership = claims.iter().any(|claim| {
            claim.member == delivery.member
                && claim.from <= before.asked
                && delivery.given <= claim.until
        });
        (is_one_ownership && delivery.offset != before.offset + 1).then(|| {
            format!(
                "{} delivers {}@{} after @{}",
                delivery.member, delivery.partition, delivery.offset, before.offset
            )
        })
    }
}
