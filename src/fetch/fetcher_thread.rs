//! The long-poll loop against one broker.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::bounded;
use crossbeam_channel::select;
use parking_lot::Mutex;

use crate::cluster::Broker;
use crate::cluster::TopicPartition;
use crate::config::AutoOffsetReset;
use crate::config::ConsumerConfig;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::fetch::buffer_pool::BufferPool;
use crate::fetch::fetch_answers::FetchAnswers;
use crate::fetch::fetch_answers::FetchPlan;
use crate::fetch::fetch_position::FetchPosition;
use crate::fetch::leaderless_partitions::LeaderlessPartitions;
use crate::fetch::missing_offset;
use crate::fetch::partition_end::EndLookUp;
use crate::fetch::partition_topic_info::PartitionTopicInfo;
use crate::net::BrokerVersion;
use crate::net::ClusterMetadata;
use crate::net::FetchSession;
use crate::net::SimpleConsumer;
use crate::net::SimpleConsumerOptions;
use crate::net::means_stale;
use crate::protocol::IsolationLevel;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::OffsetTime;
use crate::protocol::PartitionOffsets;
use crate::protocol::Replica;
use crate::stats::Stats;
use crate::thread::ShutdownableThread;
use crate::thread::StopSignal;

/// What all fetchers of a connector share.
#[derive(Clone)]
pub(crate) struct FetchContext {
    pub(crate) config: Arc<ConsumerConfig>,
    pub(crate) pool: Arc<BufferPool>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) events: EventSender,
    pub(crate) metadata: Arc<ClusterMetadata>,
    pub(crate) leaderless: Arc<LeaderlessPartitions>,
}

/// A thread that fetches its partitions from one broker until it is stopped.
pub(crate) struct FetcherThread {
    broker: Broker,
    version: BrokerVersion,
    shared: Arc<Shared>,
    thread: ShutdownableThread,
}

/// What the owner and the thread both touch.
struct Shared {
    /// In the order in which they are asked for; those that delivered go to the end.
    partitions: Mutex<VecDeque<Arc<PartitionTopicInfo>>>,
    /// Those that were added since the last request.
    newcomers: Mutex<Vec<TopicPartition>>,
    consumer: SimpleConsumer,
    /// Wakes the thread out of having nothing to ask for.
    wake: Sender<()>,
}

impl Shared {
    fn take_partitions(&self) -> VecDeque<Arc<PartitionTopicInfo>> {
        std::mem::take(&mut *self.partitions.lock())
    }
}

impl FetcherThread {
    pub(crate) fn start(
        name: String,
        broker: Broker,
        version: BrokerVersion,
        context: FetchContext,
    ) -> Result<Self, Error> {
        let options = SimpleConsumerOptions {
            socket_timeout: context.config.socket_timeout(),
            receive_buffer_bytes: context.config.socket_receive_buffer_bytes().unwrap_or(0),
            client_id: context.config.client_id().to_owned(),
            broker_version: version,
            address_map: context.config.broker_address_map().clone(),
        };
        let (wake, woken) = bounded(1);
        let shared = Arc::new(Shared {
            partitions: Mutex::default(),
            newcomers: Mutex::default(),
            consumer: SimpleConsumer::new(broker.address.clone(), options)?,
            wake,
        });
        let fetcher = Fetcher {
            broker: broker.clone(),
            shared: Arc::clone(&shared),
            woken,
            context,
        };
        let thread = ShutdownableThread::start(name, move |stop| fetcher.run(&stop))?;
        Ok(Self {
            broker,
            version,
            shared,
            thread,
        })
    }

    /// Whether it speaks to `broker` where and how that is to be spoken to now.
    pub(crate) fn is_for(&self, broker: &Broker, version: BrokerVersion) -> bool {
        self.broker == *broker && self.version == version
    }

    pub(crate) fn name(&self) -> &str {
        self.thread.name()
    }

    /// Adds a partition; it is asked for in the next request.
    pub(crate) fn add(&self, info: Arc<PartitionTopicInfo>) {
        info.note_leader();
        // First, so that it is known of every partition that is asked for.
        let newcomer = info.topic_partition().clone();
        self.shared.newcomers.lock().push(newcomer);
        self.shared.partitions.lock().push_back(info);
        let _ = self.shared.wake.try_send(());
    }

    /// Takes a partition away; what is under way for it still counts if it continues the position.
    pub(crate) fn remove(&self, topic_partition: &TopicPartition) {
        self.shared
            .partitions
            .lock()
            .retain(|info| info.topic_partition() != topic_partition);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.shared.partitions.lock().is_empty()
    }

    /// Whether the thread has ended although nobody stopped it (D24).
    pub(crate) fn is_dead(&self) -> bool {
        self.thread.is_finished()
    }

    /// The partitions that a dead fetcher leaves behind.
    pub(crate) fn take_partitions(&self) -> VecDeque<Arc<PartitionTopicInfo>> {
        self.shared.take_partitions()
    }

    /// Asks the thread to end, a read in the socket included, without waiting for it (KAFKA-4319).
    pub(crate) fn signal_stop(&self) {
        self.thread.signal_stop();
        self.shared.consumer.close();
    }
}

impl Drop for FetcherThread {
    fn drop(&mut self) {
        self.signal_stop();
    }
}

/// The thread's own side.
struct Fetcher {
    broker: Broker,
    shared: Arc<Shared>,
    woken: Receiver<()>,
    context: FetchContext,
}

impl Fetcher {
    fn run(&self, stop: &StopSignal) {
        let _last_will = LastWill(self);
        log::debug!("fetching from broker {}", self.broker);
        let mut session = FetchSession::new();
        while !stop.is_stopped() {
            let plan = self.plan();
            if !plan.unresolved.is_empty() {
                self.resolve(&plan.unresolved, stop);
            } else if !plan.ends_wanted.is_empty() {
                self.find_ends(&plan.ends_wanted, stop);
            } else if plan.is_empty() {
                self.wait(stop);
            } else {
                self.fetch(&mut session, plan, stop);
            }
        }
    }

    /// What to ask for next: every partition with a position and with room in its stream's queue.
    fn plan(&self) -> FetchPlan {
        let fetch_size = self.context.config.fetch_message_max_bytes();
        let mut plan = FetchPlan::new(fetch_size, self.context.config.fetch_wait_max());
        let mut partitions = self.shared.partitions.lock();
        partitions.retain(|info| match info.position_or_wake(&self.shared.wake) {
            FetchPosition::Revoked => false,
            FetchPosition::Waiting | FetchPosition::AtEnd => true,
            FetchPosition::Unresolved { epoch } => {
                plan.unresolved.push((Arc::clone(info), epoch));
                true
            }
            FetchPosition::EndWanted(which) => {
                plan.ends_wanted.push((Arc::clone(info), which));
                true
            }
            FetchPosition::At { offset, epoch } => {
                plan.ask(info, offset, epoch, &self.shared.wake);
                true
            }
        });
        plan
    }

    fn wait(&self, stop: &StopSignal) {
        select! {
            recv(self.woken) -> _ => {}
            recv(stop.receiver()) -> _ => {}
            default(self.context.config.refresh_leader_backoff().max(Duration::from_millis(1))) => {}
        }
    }

    fn fetch(&self, session: &mut FetchSession, plan: FetchPlan, stop: &StopSignal) {
        self.context.stats.fetch_requests.increment();
        let asked_for = plan.asked();
        let (mut wanted, asked) = plan.into_request(&self.context.config);
        let mut answers = FetchAnswers::new(asked, &self.context);
        for newcomer in self.shared.newcomers.lock().drain(..) {
            session.welcome(&newcomer);
        }
        let outcome = self
            .shared
            .consumer
            .fetch_into(session, &mut wanted, &mut answers);
        let handled = answers.finish(outcome.as_ref().ok().map(|outcome| outcome.absence));
        self.take_turns(&asked_for, &handled.delivered);
        match outcome {
            Ok(_) => {
                self.give_up(handled.failed);
                self.resolve(&handled.out_of_range, stop);
            }
            Err(_) if stop.is_stopped() => {}
            Err(error) => {
                self.context.stats.fetch_failures.increment();
                let all = self.shared.take_partitions();
                self.give_up_all(all.into(), &error, stop);
            }
        }
    }

    /// Next time those come first that were left out now, then those without news, and last those that
    /// delivered: neither a partition that always has data nor one that never has any may keep the
    /// queue's room from the others.
    fn take_turns(
        &self,
        asked: &HashSet<*const PartitionTopicInfo>,
        delivered: &[Arc<PartitionTopicInfo>],
    ) {
        let delivered: HashSet<*const PartitionTopicInfo> =
            delivered.iter().map(Arc::as_ptr).collect();
        let mut partitions = self.shared.partitions.lock();
        partitions.make_contiguous().sort_by_key(|info| {
            let info = Arc::as_ptr(info);
            (delivered.contains(&info), asked.contains(&info))
        });
    }

    /// Hands partitions over to the leader finder, each kind of trouble with those that met it.
    fn give_up(&self, failed: Vec<(Arc<PartitionTopicInfo>, String)>) {
        let mut by_reason: BTreeMap<String, Vec<Arc<PartitionTopicInfo>>> = BTreeMap::new();
        for (info, reason) in failed {
            by_reason.entry(reason).or_default().push(info);
        }
        for (reason, infos) in by_reason {
            let count = u64::try_from(infos.len()).unwrap_or(u64::MAX);
            self.context.stats.partition_errors.add(count);
            self.context.events.send(Event::FetchFailed {
                address: self.broker.address.clone(),
                partitions: infos
                    .iter()
                    .map(|info| info.topic_partition().clone())
                    .collect(),
                reason,
            });
            let lost: HashSet<_> = infos.iter().map(Arc::as_ptr).collect();
            self.shared
                .partitions
                .lock()
                .retain(|info| !lost.contains(&Arc::as_ptr(info)));
            self.context.leaderless.add(infos);
        }
    }

    /// A request failed as a whole: its partitions go to the leader finder, and the broker gets a rest (D50).
    fn give_up_all(&self, infos: Vec<Arc<PartitionTopicInfo>>, error: &Error, stop: &StopSignal) {
        let reason = error.chain();
        self.context.metadata.request_refresh();
        self.give_up(
            infos
                .into_iter()
                .map(|info| (info, reason.clone()))
                .collect(),
        );
        stop.pause(self.context.config.refresh_leader_backoff());
    }

    /// Asks this broker, the leader, for the offsets that `auto.offset.reset` chooses, or has the streams told that it
    /// chooses none. A partition whose reset fails goes to the leader finder alone (D25).
    fn resolve(&self, partitions: &[(Arc<PartitionTopicInfo>, u64)], stop: &StopSignal) {
        if partitions.is_empty() {
            return;
        }
        let time = match self.context.config.auto_offset_reset() {
            AutoOffsetReset::Smallest => OffsetTime::Earliest,
            AutoOffsetReset::Largest => OffsetTime::Latest,
            AutoOffsetReset::None => {
                let consumer = &self.shared.consumer;
                let failed = missing_offset::tell(partitions, consumer, &self.context, stop);
                return self.give_up_and_rest(failed, stop);
            }
        };
        let request = ListOffsetsRequest {
            isolation: self.context.config.isolation_level(),
            ..ListOffsetsRequest::default()
        };
        let request = partitions.iter().fold(request, |request, (info, _)| {
            request.list(info.topic_partition().clone(), time)
        });
        let infos = partitions.iter().map(|(info, _)| info);
        let Some(mut answers) = self.list(&request, infos, stop) else {
            return;
        };
        let mut failed = Vec::new();
        for (info, epoch) in partitions {
            let answer = answers.remove(info.topic_partition());
            if let Err(reason) = self.take_offset(info, *epoch, answer) {
                failed.push((Arc::clone(info), reason));
            }
        }
        self.give_up_and_rest(failed, stop);
    }

    /// Asks this broker, the leader, for the ends of partitions that are read no further. One that fails
    /// goes to the leader finder alone.
    fn find_ends(&self, wanted: &[(Arc<PartitionTopicInfo>, EndLookUp)], stop: &StopSignal) {
        for (which, replica, isolation) in [
            // Up to where it can be read: no further than to the first open transaction, where that counts.
            (
                EndLookUp::Latest,
                Replica::Consumer,
                self.context.config.isolation_level(),
            ),
            (
                EndLookUp::OfLeader,
                Replica::Debugging,
                IsolationLevel::ReadUncommitted,
            ),
        ] {
            let infos = wanted.iter().filter(|(_, wanted)| *wanted == which);
            let infos: Vec<&Arc<PartitionTopicInfo>> = infos.map(|(info, _)| info).collect();
            if infos.is_empty() {
                continue;
            }
            let request = ListOffsetsRequest {
                replica,
                isolation,
                ..ListOffsetsRequest::default()
            };
            let request = infos.iter().fold(request, |request, info| {
                request.list(info.topic_partition().clone(), OffsetTime::Latest)
            });
            let Some(mut answers) = self.list(&request, infos.iter().copied(), stop) else {
                return;
            };
            let mut failed = Vec::new();
            for info in infos {
                match self.first_offset(answers.remove(info.topic_partition())) {
                    Ok(offset) => info.found_end(which, offset),
                    Err(reason) => failed.push((Arc::clone(info), reason)),
                }
            }
            self.give_up_and_rest(failed, stop);
        }
    }

    /// The answers to `request`, about `infos`; `None` when it failed, and they went to the leader finder.
    fn list<'a>(
        &self,
        request: &ListOffsetsRequest,
        infos: impl Iterator<Item = &'a Arc<PartitionTopicInfo>>,
        stop: &StopSignal,
    ) -> Option<HashMap<TopicPartition, PartitionOffsets>> {
        match self.shared.consumer.offsets_before(request) {
            Ok(response) => {
                let answers = response.partitions.into_iter();
                Some(
                    answers
                        .map(|answer| (answer.topic_partition.clone(), answer))
                        .collect(),
                )
            }
            Err(_) if stop.is_stopped() => None,
            Err(error) => {
                self.give_up_all(infos.cloned().collect(), &error, stop);
                None
            }
        }
    }

    /// The offset in an answer. What means another leader has the leaders looked up again.
    fn first_offset(&self, answer: Option<PartitionOffsets>) -> Result<i64, String> {
        let error = answer.as_ref().map(|answer| answer.error);
        if error.is_none_or(|error| error.is_some_and(means_stale)) {
            self.context.metadata.request_refresh();
        }
        first_offset(answer)
    }

    /// Goes on at the offset in `answer`, or says why the partition needs a rest first.
    fn take_offset(
        &self,
        info: &Arc<PartitionTopicInfo>,
        epoch: u64,
        answer: Option<PartitionOffsets>,
    ) -> Result<(), String> {
        let offset = self.first_offset(answer)?;
        let from = info.fetched();
        // Out of range where a reset has led, or is to lead again: it would go on like that without a pause.
        let is_futile = |from: &i64| *from == offset || info.was_reset_to(*from);
        let futile = from.filter(is_futile);
        if from != Some(offset) {
            self.reset(info, offset, epoch);
        }
        match futile {
            Some(from) => Err(format!("offset {from} is out of range")),
            None => Ok(()),
        }
    }

    /// Partitions without an offset go to the leader finder, and the broker gets a rest.
    fn give_up_and_rest(&self, failed: Vec<(Arc<PartitionTopicInfo>, String)>, stop: &StopSignal) {
        if !failed.is_empty() {
            self.give_up(failed);
            stop.pause(self.context.config.refresh_leader_backoff());
        }
    }

    fn reset(&self, info: &Arc<PartitionTopicInfo>, offset: i64, epoch: u64) {
        let from = info.fetched();
        if !info.reset(offset, epoch) {
            return;
        }
        self.context.stats.offset_resets.increment();
        let topic_partition = info.topic_partition().clone();
        match from {
            Some(from) => self.context.events.send(Event::OffsetReset {
                topic_partition,
                from,
                to: offset,
            }),
            None => log::debug!("{topic_partition} starts at {offset}"),
        }
    }
}

fn first_offset(answer: Option<PartitionOffsets>) -> Result<i64, String> {
    let answer = answer.ok_or_else(|| String::from("left out of the answer with offsets"))?;
    match (answer.error, answer.offset()) {
        (Some(code), _) => Err(format!("no offset: {code}")),
        (None, Some(offset)) => Ok(offset),
        (None, None) => Err(String::from("no offset in the answer with offsets")),
    }
}

/// Hands the partitions of a fetcher that panics to the leader finder, which starts another one (D24).
struct LastWill<'a>(&'a Fetcher);

impl Drop for LastWill<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let all = self.0.shared.take_partitions();
            self.0.context.leaderless.add(all);
        }
    }
}
