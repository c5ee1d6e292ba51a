//! Decides what happens next, does it, and looks whether it ends in time.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use kafka_zk_consumer::Error;
use kafka_zk_consumer::ErrorCode;
use kafka_zk_consumer::embedded::AnswerFault;
use kafka_zk_consumer::embedded::Api;
use kafka_zk_consumer::embedded::ConnectionFault;

use crate::random_run::CALL_LIMIT;
use crate::random_run::GROUP;
use crate::random_run::JOIN_LIMIT;
use crate::random_run::LEAVE_LIMIT;
use crate::random_run::SETTLE_LIMIT;
use crate::random_run::TOPIC;
use crate::random_run::member::Member;
use crate::random_run::observer::World;
use crate::random_run::random::Random;
use crate::random_run::record::Record;
use crate::reading::config;
use crate::reading::quick_cluster;

const BROKERS: i32 = 3;
const FIRST_PARTITIONS: i32 = 4;
const MOST_PARTITIONS: i32 = 10;
const MOST_MEMBERS: usize = 5;

/// Something that has begun in a thread of its own.
struct Job {
    what: String,
    began: Instant,
    limit: Duration,
}

/// How a job ended.
enum Ended {
    Joined(u64, Box<Result<Member, Error>>),
    Done(u64),
}

pub(super) struct Driver {
    world: Arc<World>,
    random: Random,
    members: Vec<Arc<Member>>,
    jobs: BTreeMap<u64, Job>,
    next_number: u64,
    ended: (mpsc::Sender<Ended>, mpsc::Receiver<Ended>),
    /// Brokers that do not run.
    dead: BTreeSet<i32>,
    threads: Vec<JoinHandle<()>>,
}

impl Driver {
    pub(super) fn start(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let cluster = quick_cluster()
            .brokers(BROKERS)
            .topic(TOPIC, FIRST_PARTITIONS, 3)
            .start()
            .unwrap();
        let world = Arc::new(World {
            cluster,
            record: Arc::new(Record::new()),
            partitions: AtomicI32::new(FIRST_PARTITIONS),
            is_over: AtomicBool::new(false),
            is_writing: AtomicBool::new(true),
        });
        let (observed, written) = (Arc::clone(&world), Arc::clone(&world));
        let for_writer = Random::new(random.number());
        let threads = vec![
            std::thread::spawn(move || observed.observe()),
            std::thread::spawn(move || written.write(for_writer)),
        ];
        Self {
            world,
            random,
            members: Vec::new(),
            jobs: BTreeMap::new(),
            next_number: 0,
            ended: mpsc::channel(),
            dead: BTreeSet::new(),
            threads,
        }
    }

    /// Rounds of disturbance and quiet. `false` as soon as something is wrong.
    pub(super) fn run(&mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let round = Instant::now() + self.random.millis(2000, 6000);
            self.world.is_writing.store(true, Ordering::Relaxed);
            while Instant::now() < round.min(end) {
                self.act();
                let pause = self.random.millis(5, 250);
                self.look_after_jobs(Instant::now() + pause);
                if self.world.record.is_violated() {
                    return false;
                }
            }
            self.settle();
            if self.world.record.is_violated() {
                return false;
            }
        }
        while let Some(member) = self.members.pop() {
            self.leave(member);
        }
        self.await_jobs();
        !self.world.record.is_violated()
    }

    pub(super) fn finish(self) -> Arc<Record> {
        let record = Arc::clone(&self.world.record);
        self.world.is_over.store(true, Ordering::Relaxed);
        // After a violation, any of them may hang.
        if !record.is_violated() {
            for thread in self.threads {
                thread.join().unwrap();
            }
        }
        record
    }

    fn note(&self, what: impl Into<String>) {
        self.world.record.note(what);
    }

    fn act(&mut self) {
        match self.random.below(22) {
            0..=3 => self.join(),
            4 => self.let_one_leave(),
            5 => self.crash(),
            6 | 7 => self.end_session(),
            8..=10 => self.stall_or_resume(),
            11 | 12 => self.end_or_start_broker(),
            13 => self.move_leader(),
            14 => self.add_partition(),
            15 | 16 => self.disturb_broker(),
            17 => self.spoil_answers(),
            18 | 19 => self.disturb_zookeeper(),
            _ => self.pause(),
        }
    }

    fn join(&mut self) {
        let joining = self.jobs.values().filter(|job| job.limit == JOIN_LIMIT);
        if self.members.len() + joining.count() >= MOST_MEMBERS {
            return;
        }
        let streams = 1 + self.random.below(3);
        let chunks = 1 + self.random.below(10);
        // With slow ones there is something in the queues when partitions change hands.
        let paces = [0, 500, 1500].map(Duration::from_micros);
        let pace = *self.random.choice(&paces).unwrap();
        let number = self.begin(
            |number| format!("m{number} joins with {streams} streams"),
            JOIN_LIMIT,
        );
        // A session as short as ZooKeeper grants it, so that it may end by itself, too.
        let config = config(&self.world.cluster, GROUP)
            .consumer_id(format!("m{number}"))
            .zookeeper_session_timeout(Duration::from_secs(2))
            .zookeeper_connection_timeout(Duration::from_secs(2))
            .socket_timeout(Duration::from_millis(500))
            .queued_max_message_chunks(chunks)
            .fetch_message_max_bytes(4000);
        let (record, ended) = (Arc::clone(&self.world.record), self.ended.0.clone());
        std::thread::spawn(move || {
            let joined = Member::join(config, streams, pace, &record);
            let _ = ended.send(Ended::Joined(number, Box::new(joined)));
        });
    }

    fn let_one_leave(&mut self) {
        if let Some(member) = self.take_member() {
            self.leave(member);
        }
    }

    fn leave(&mut self, member: Arc<Member>) {
        let number = self.begin(|_| format!("{} leaves", member.id), LEAVE_LIMIT);
        let ended = self.ended.0.clone();
        std::thread::spawn(move || {
            member.leave();
            let _ = ended.send(Ended::Done(number));
        });
    }

    /// The application dies and the session ends, without a word to anybody.
    fn crash(&mut self) {
        if let Some(member) = self.take_member() {
            self.note(format!("{} crashes", member.id));
            member.crash();
            self.end_session_of(&member);
            self.leave(member);
        }
    }

    fn end_session(&mut self) {
        if let Some(member) = self.random.choice(&self.members).cloned() {
            self.end_session_of(&member);
        }
    }

    fn end_session_of(&self, member: &Member) {
        let zookeeper = self.world.cluster.zookeeper();
        let path = format!("/consumers/{GROUP}/ids/{}", member.id);
        let Ok(Some(stat)) = zookeeper.local_session().exists(&path) else {
            return;
        };
        if let Some(session) = stat.ephemeral_owner {
            self.note(format!("session of {} ends by force", member.id));
            self.world.record.session_ended_by_force(&member.id);
            zookeeper.expire_session(session);
        }
    }

    fn stall_or_resume(&mut self) {
        let Some(member) = self.random.choice(&self.members).cloned() else {
            return;
        };
        let stream = self.random.below(member.streams());
        match self.random.below(4) {
            0 => {
                self.note(format!("{} stalls altogether", member.id));
                (0..member.streams()).for_each(|stream| member.stall(stream, true));
            }
            1 => {
                self.note(format!("{} stalls in stream {stream}", member.id));
                member.stall(stream, true);
            }
            _ => {
                self.call(format!("{} goes on", member.id), move || member.resume());
            }
        }
    }

    /// Until its member goes on, or a rebalance ends the pause.
    fn pause(&mut self) {
        let Some(member) = self.random.choice(&self.members).cloned() else {
            return;
        };
        let owned = member.connector.owned_partitions();
        if let Some(partition) = self.random.choice(&owned).cloned() {
            self.call(format!("{} pauses {partition}", member.id), move || {
                // By then a rebalance may have taken it away.
                let _ = member.connector.pause(&[partition]);
            });
        }
    }

    fn end_or_start_broker(&mut self) {
        let broker = self.broker();
        let cluster = &self.world.cluster;
        let is_one_in_two = self.random.is_one_in(2);
        if self.dead.remove(&broker) {
            self.note(format!("broker {broker} starts"));
            match is_one_in_two {
                true => cluster.restart(broker).unwrap(),
                false => cluster.restart_on_new_port(broker).unwrap(),
            }
        } else if self.dead.len() < 2 || self.random.is_one_in(3) {
            self.dead.insert(broker);
            let how = if is_one_in_two { "is killed" } else { "stops" };
            self.note(format!("broker {broker} {how}"));
            match is_one_in_two {
                true => cluster.kill(broker).unwrap(),
                false => cluster.stop(broker).unwrap(),
            }
        }
    }

    fn move_leader(&mut self) {
        let partition = self.partition();
        let broker = self.broker();
        let cluster = &self.world.cluster;
        if cluster.move_leader(TOPIC, partition, broker).is_ok() {
            self.note(format!("broker {broker} leads {partition}"));
        }
    }

    fn add_partition(&mut self) {
        let partitions = self.world.partitions.load(Ordering::Relaxed);
        if partitions == MOST_PARTITIONS || self.dead.len() == 3 {
            return;
        }
        let added = self.world.cluster.add_partitions(TOPIC, partitions + 1);
        match added {
            Ok(()) => {
                self.note(format!("{TOPIC} has {} partitions", partitions + 1));
                let total = &self.world.partitions;
                total.store(partitions + 1, Ordering::Relaxed);
            }
            Err(error) => self.note(format!("no partition added: {error}")),
        }
    }

    fn disturb_broker(&mut self) {
        let broker = self.broker();
        let cluster = &self.world.cluster;
        let faults = [
            None,
            None,
            Some(ConnectionFault::Refuse),
            Some(ConnectionFault::Silence),
            Some(ConnectionFault::Delay(Duration::from_millis(100))),
        ];
        match self.random.choice(&faults).copied().flatten() {
            Some(fault) => {
                self.note(format!("broker {broker}: {fault:?}"));
                cluster.disturb(broker, fault).unwrap();
            }
            None => {
                self.note(format!("broker {broker}: healed, connections cut"));
                cluster.heal(broker).unwrap();
                cluster.cut_connections(broker).unwrap();
            }
        }
    }

    fn spoil_answers(&mut self) {
        let broker = self.broker();
        let apis = [Api::Fetch, Api::ListOffsets, Api::Metadata];
        let api = *self.random.choice(&apis).unwrap();
        let faults = [
            AnswerFault::HalfFrame,
            AnswerFault::LyingLength(7),
            AnswerFault::LyingLength(i32::MAX),
            AnswerFault::WrongCorrelationId,
            AnswerFault::NoAnswer,
            AnswerFault::Error(ErrorCode::UnknownServerError),
            AnswerFault::Error(ErrorCode::UnknownTopicOrPartition),
            AnswerFault::Error(ErrorCode::NotLeaderOrFollower),
        ];
        let fault = *self.random.choice(&faults).unwrap();
        self.note(format!("broker {broker}, next {api:?}: {fault:?}"));
        let cluster = &self.world.cluster;
        cluster.spoil_answer(broker, api, fault).unwrap();
    }

    /// Here and for a while: the other actions wait for it, or it would be nearly always away.
    fn disturb_zookeeper(&mut self) {
        let what = self.random.below(4);
        // Now and then for longer than a session lasts.
        let longest = if self.random.is_one_in(4) { 3500 } else { 500 };
        let end = Instant::now() + self.random.millis(10, longest);
        let world = Arc::clone(&self.world);
        let zookeeper = world.cluster.zookeeper();
        match what {
            0 => {
                self.note("zookeeper cuts its connections");
                zookeeper.drop_connections();
            }
            1 => {
                self.note("zookeeper hangs");
                zookeeper.silence(true);
                self.look_after_jobs(end);
                zookeeper.silence(false);
                self.note("zookeeper goes on");
            }
            2 => {
                self.note("zookeeper stops");
                zookeeper.stop();
                self.look_after_jobs(end);
                zookeeper.restart().unwrap();
                self.note("zookeeper is back");
            }
            _ => {
                self.note("zookeeper is slow");
                zookeeper.delay(Duration::from_millis(30));
                self.look_after_jobs(end);
                zookeeper.delay(Duration::ZERO);
                self.note("zookeeper is fast");
            }
        }
    }

    /// Ends all disturbance, and waits until the group has nothing left to do.
    fn settle(&mut self) {
        self.note("quiet");
        self.world.is_writing.store(false, Ordering::Relaxed);
        for broker in std::mem::take(&mut self.dead) {
            self.world.cluster.restart(broker).unwrap();
        }
        for broker in 0..BROKERS {
            self.world.cluster.heal(broker).unwrap();
        }
        for member in self.members.clone() {
            self.call(format!("{} goes on", member.id), move || member.resume());
        }
        let deadline = Instant::now() + SETTLE_LIMIT;
        self.await_jobs();
        while self.members.is_empty() && Instant::now() < deadline {
            self.join();
            self.await_jobs();
        }
        while let Some(reason) = self.unsettled() {
            if self.world.record.is_violated() {
                return;
            }
            if Instant::now() > deadline {
                let states = self.members.iter().map(|member| {
                    let (state, owned) = (
                        member.connector.state(),
                        member.connector.owned_partitions(),
                    );
                    format!("\n    {} {state:?} owns {owned:?}", member.id)
                });
                let states: String = states.collect();
                let what = format!(
                    "not settled: {reason}{states}\n{}",
                    self.world.cluster.describe()
                );
                return self.world.record.violation(what);
            }
            self.look_after_jobs(Instant::now() + Duration::from_millis(20));
        }
        // The observer has looked once more by then.
        self.look_after_jobs(Instant::now() + Duration::from_millis(100));
        self.world.record.judge_deliveries();
        self.note("settled");
    }

    /// What is still to come before the group is at rest.
    fn unsettled(&self) -> Option<String> {
        let session = self.world.cluster.zookeeper().local_session();
        let description = self.world.cluster.describe();
        let mut owned = BTreeMap::new();
        for member in &self.members {
            for partition in member.connector.owned_partitions() {
                if let Some(other) = owned.insert(partition.partition(), &member.id) {
                    return Some(format!("{partition} belongs to {} and {other}", member.id));
                }
            }
        }
        for partition in 0..self.world.partitions.load(Ordering::Relaxed) {
            let path = format!("/consumers/{GROUP}/owners/{TOPIC}/{partition}");
            let Ok((node, _)) = session.get(&path) else {
                return Some(format!("{partition} has no owner"));
            };
            let node = String::from_utf8_lossy(&node).into_owned();
            let owner = owned.get(&partition);
            if owner.is_none_or(|owner| !node.starts_with(&format!("{owner}-"))) {
                return Some(format!(
                    "{partition} belongs to {node}, in fact to {owner:?}"
                ));
            }
            let end = description.partition(TOPIC, partition)?.log_end;
            let stored = self.world.record.stored_offset(partition);
            if end > 0 && stored != Some(end) {
                return Some(format!("{partition} is consumed to {stored:?} of {end}"));
            }
        }
        let (count, partition, offset) = self.world.record.missing()?;
        Some(format!(
            "{count} messages are missing, the first {partition}@{offset}"
        ))
    }

    fn take_member(&mut self) -> Option<Arc<Member>> {
        match self.members.len() {
            0 => None,
            count => Some(self.members.swap_remove(self.random.below(count))),
        }
    }

    fn broker(&mut self) -> i32 {
        self.random.choice(&[0, 1, 2]).copied().unwrap()
    }

    fn partition(&mut self) -> i32 {
        let partitions = self.world.partitions.load(Ordering::Relaxed);
        let below = self.random.below(usize::try_from(partitions).unwrap());
        i32::try_from(below).unwrap()
    }

    fn begin(&mut self, what: impl Fn(u64) -> String, limit: Duration) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let job = Job {
            what: what(number),
            began: Instant::now(),
            limit,
        };
        self.note(job.what.clone());
        self.jobs.insert(number, job);
        number
    }

    /// A call that need not wait for anybody.
    fn call(&mut self, what: String, run: impl FnOnce() + Send + 'static) {
        let number = self.begin(|_| what.clone(), CALL_LIMIT);
        let ended = self.ended.0.clone();
        std::thread::spawn(move || {
            run();
            let _ = ended.send(Ended::Done(number));
        });
    }

    fn await_jobs(&mut self) {
        while !self.jobs.is_empty() && !self.world.record.is_violated() {
            self.look_after_jobs(Instant::now() + Duration::from_millis(20));
        }
    }

    /// Waits until then, and sees to what has ended, or should have.
    fn look_after_jobs(&mut self, until: Instant) {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.ended.1.recv_timeout(left) {
                Ok(Ended::Joined(number, joined)) => {
                    self.end(number);
                    match *joined {
                        Ok(member) => self.members.push(Arc::new(member)),
                        Err(error) => self.note(format!("m{number} cannot join: {error}")),
                    }
                }
                Ok(Ended::Done(number)) => self.end(number),
                Err(_) => break,
            }
        }
        let overdue: Vec<u64> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.began.elapsed() > job.limit)
            .map(|(number, _)| *number)
            .collect();
        for number in overdue {
            if let Some(job) = self.jobs.remove(&number) {
                let what = format!("{}: not done after {:?}", job.what, job.limit);
                self.world.record.violation(what);
            }
        }
    }

    fn end(&mut self, number: u64) {
        if let Some(job) = self.jobs.remove(&number) {
            let took = job.began.elapsed().as_millis();
            self.note(format!("done in {took} ms: {}", job.what));
        }
    }
}
