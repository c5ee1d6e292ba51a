//! The long-poll loop against one broker.

mod offsets;

use std::collections::BTreeMap;
use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::bounded;
use crossbeam_channel::select;
use parking_lot::Mutex;

use crate::cluster::Broker;
use crate::cluster::TopicPartition;
use crate::config::ConsumerConfig;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::fetch::buffer_pool::BufferPool;
use crate::fetch::fetch_answers::FetchAnswers;
use crate::fetch::fetch_answers::FetchPlan;
use crate::fetch::fetch_position::FetchPosition;
use crate::fetch::leaderless_partitions::LeaderlessPartitions;
use crate::fetch::partition_topic_info::PartitionTopicInfo;
use crate::net::BrokerVersion;
use crate::net::ClusterMetadata;
use crate::net::FetchSession;
use crate::net::SimpleConsumer;
use crate::net::SimpleConsumerOptions;
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
                let backoff = self.context.config.refresh_leader_backoff();
                self.wait(backoff.max(Duration::from_millis(1)), stop);
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

    fn wait(&self, most: Duration, stop: &StopSignal) {
        select! {
            recv(self.woken) -> _ => {}
            recv(stop.receiver()) -> _ => {}
            default(most) => {}
        }
    }

    fn fetch(&self, session: &mut FetchSession, plan: FetchPlan, stop: &StopSignal) {
        self.context.stats.fetch_requests.increment();
        let asked_for = plan.asked();
        let idle_pause = plan.idle_pause(&self.context.config);
        let (mut wanted, asked) = plan.into_request(&self.context.config);
        let mut answers = FetchAnswers::new(asked, &self.context);
        for newcomer in self.shared.newcomers.lock().drain(..) {
            session.welcome(&newcomer);
        }
        let begin = Instant::now();
        let outcome = self
            .shared
            .consumer
            .fetch_into(session, &mut wanted, &mut answers);
        let handled = answers.finish(outcome.as_ref().ok().copied());
        self.take_turns(&asked_for, &handled.delivered);
        if outcome.is_ok() {
            self.tell_served();
        }
        match outcome {
            // Whoever is not made to wait by the broker would ask again at once, and for ever.
            Ok(_) if handled.is_nothing() => {
                let pause = idle_pause.unwrap_or(wanted.max_wait.saturating_sub(begin.elapsed()));
                self.wait(pause, stop);
            }
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
            self.let_go(infos);
        }
    }

    fn let_go(&self, infos: Vec<Arc<PartitionTopicInfo>>) {
        let lost: HashSet<_> = infos.iter().map(Arc::as_ptr).collect();
        self.shared
            .partitions
            .lock()
            .retain(|info| !lost.contains(&Arc::as_ptr(info)));
        self.context.leaderless.add(infos);
    }

    /// A request failed as a whole: its partitions go to the leader finder, and the broker gets a rest (D50).
    ///
    /// That a broker serves nothing that is known here is told once: it stays so until somebody changes the broker.
    fn give_up_all(&self, infos: Vec<Arc<PartitionTopicInfo>>, error: &Error, stop: &StopSignal) {
        let reason = error.chain();
        let leaderless = &self.context.leaderless;
        let (told, known): (Vec<_>, Vec<_>) = match error {
            Error::UnsupportedVersion { .. } => infos
                .into_iter()
                .partition(|info| leaderless.note_unserved(info.topic_partition(), &reason)),
            _ => {
                leaderless.note_served(infos.iter().map(topic_partition));
                (infos, Vec::new())
            }
        };
        self.context.metadata.request_refresh();
        self.let_go(known);
        self.give_up(
            told.into_iter()
                .map(|info| (info, reason.clone()))
                .collect(),
        );
        stop.pause(self.context.config.refresh_leader_backoff());
    }

    /// Says of partitions whose leader was of no use that they are fetched now.
    fn tell_served(&self) {
        let served = {
            let partitions = self.shared.partitions.lock();
            let all = partitions.iter().map(topic_partition);
            self.context.leaderless.note_served(all)
        };
        if !served.is_empty() {
            self.context.events.send(Event::FetchingFrom {
                broker: self.broker.clone(),
                partitions: served,
            });
        }
    }
}

fn topic_partition(info: &Arc<PartitionTopicInfo>) -> &TopicPartition {
    info.topic_partition()
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

#[cfg(test)]
mod tests {
    use crate::fetch::ChunkQueue;
    use crate::fetch::tests::Bench;
    use crate::net::fake_broker::closed_port;

    use super::*;

    #[test]
    fn a_fetcher_that_panics_leaves_its_partitions_to_the_leader_finder() {
        // D24: in the original they stayed with the dead thread, and nothing of them came any more.
        let bench = Bench::start(&[], []);
        let of = TopicPartition::new("orders", 0);
        let info = PartitionTopicInfo::new(of.clone(), ChunkQueue::new(1, 1), Some(0));
        let address = closed_port();
        let (wake, woken) = bounded(1);
        let consumer = SimpleConsumer::new(address.clone(), SimpleConsumerOptions::default());
        let fetcher = Fetcher {
            broker: Broker { id: 0, address },
            shared: Arc::new(Shared {
                newcomers: Mutex::default(),
                partitions: Mutex::new(VecDeque::from([info])),
                consumer: consumer.unwrap(),
                wake,
            }),
            woken,
            context: FetchContext {
                leaderless: LeaderlessPartitions::new(),
                ..bench.context.clone()
            },
        };
        let leaderless = Arc::clone(&fetcher.context.leaderless);
        let thread = thread::spawn(move || {
            let _last_will = LastWill(&fetcher);
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
        let left: Vec<_> = leaderless.snapshot();
        assert_eq!(left.len(), 1);
        assert_eq!(*left[0].topic_partition(), of);
    }
}
