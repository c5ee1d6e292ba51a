//! The public object: one member of a group.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::bounded;
use crossbeam_channel::select;
use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::config::ConsumerConfig;
use crate::consumer::committer::Committer;
use crate::consumer::connector_state::ConnectorState;
use crate::consumer::connector_state::StateCell;
use crate::consumer::member::Member;
use crate::consumer::message_stream::MessageStream;
use crate::consumer::message_stream::StreamContext;
use crate::consumer::offset_store::ZooKeeperOffsets;
use crate::consumer::owned_partitions::Ownership;
use crate::consumer::rebalancer::Rebalancer;
use crate::consumer::stream_queues::StreamQueues;
use crate::consumer::zookeeper_directory::ZooKeeperDirectory;
use crate::coordination::BrokerRegistry;
use crate::coordination::GroupRegistry;
use crate::coordination::RangeAssignor;
use crate::coordination::TopicCount;
use crate::coordination::TopicRegistry;
use crate::coordination::check_topic;
use crate::coordination::member_id;
use crate::error::Error;
use crate::events::Event;
use crate::events::EventSender;
use crate::events::Events;
use crate::events::event_channel;
use crate::fetch::BufferPool;
use crate::fetch::ChunkQueue;
use crate::fetch::FetchContext;
use crate::fetch::FetcherManager;
use crate::fetch::LeaderlessPartitions;
use crate::net::ClusterMetadata;
use crate::net::ClusterMetadataOptions;
use crate::net::ClusterView;
use crate::stats::Stats;
use crate::stats::StatsSnapshot;
use crate::thread::ShutdownableThread;
use crate::thread::StopSignal;
use crate::thread::Stopper;
use crate::zk::ZkClient;
use crate::zk::ZkConfig;
use crate::zk::ZkEvent;

/// How long a shutdown goes on trying to reach ZooKeeper, for the last commit.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// One member of a consumer group that is coordinated in ZooKeeper.
///
/// Made by [`connect`](Self::connect), it joins the group with
/// [`create_message_streams`](Self::create_message_streams), once, and leaves it with
/// [`shutdown`](Self::shutdown) or when dropped. All methods may be called from any thread.
///
/// ```no_run
/// use kafka_zk_consumer::{ConsumerConfig, ConsumerConnector};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = ConsumerConfig::builder()
///     .zookeeper_connect("localhost:2181")
///     .group_id("readers")
///     .build()?;
/// let connector = ConsumerConnector::connect(config)?;
/// let mut streams = connector.create_message_streams([("orders", 1)])?;
/// for message in streams.remove("orders").into_iter().flatten().flatten() {
///     let message = message?;
///     println!("{} at {}", message.topic_partition(), message.offset());
/// }
/// # Ok(())
/// # }
/// ```
pub struct ConsumerConnector {
    config: Arc<ConsumerConfig>,
    member_id: String,
    zk: Arc<ZkClient>,
    ownership: Arc<Ownership>,
    committer: Arc<Committer>,
    fetchers: Arc<FetcherManager>,
    metadata: Arc<ClusterMetadata>,
    stats: Arc<Stats>,
    state: Arc<StateCell>,
    sender: EventSender,
    events: Events,
    /// Stopped by the shutdown; observed by every thread and every wait of the connector.
    closing: Stopper,
    /// Held by the shutdown, so that a second one returns when there is nothing left to do.
    shutting_down: Mutex<()>,
    group: Mutex<GroupMembership>,
}

/// What creating the streams makes and the shutdown ends. Locked for as long as either takes.
struct GroupMembership {
    /// Taken by the rebalancer.
    zk_events: Option<Receiver<ZkEvent>>,
    /// Of all streams, each once (D35, KAFKA-1764).
    queues: Vec<Arc<ChunkQueue>>,
    rebalance: Option<ShutdownableThread>,
    auto_commit: Option<ShutdownableThread>,
}

impl ConsumerConnector {
    /// Connects to ZooKeeper, within `zookeeper.connection.timeout.ms`. Does not join the group yet.
    ///
    /// # Errors
    /// [`Error::MissingChroot`] when the chroot of `zookeeper.connect` does not exist, [`Error::ZooKeeper`]
    /// when no server can be reached.
    pub fn connect(config: ConsumerConfig) -> Result<Self, Error> {
        let config = Arc::new(config);
        let (sender, events) = event_channel();
        let (zk, zk_events) = ZkClient::connect(ZkConfig {
            connect: config.zookeeper_connect().to_owned(),
            session_timeout: config.zookeeper_session_timeout(),
            connection_timeout: config.zookeeper_connection_timeout(),
        })?;
        let stats = Arc::new(Stats::default());
        let ownership = Arc::new(Ownership::default());
        // A commit that waited for longer would hold up those who give the partitions up.
        let offsets = ZooKeeperOffsets::new(
            GroupRegistry::new(zk.within_lease(), config.group_id()),
            Arc::clone(&stats),
        );
        let of_session = Arc::clone(&zk);
        let committer = Arc::new(Committer::new(
            Box::new(offsets),
            Arc::clone(&ownership),
            Box::new(move || of_session.session_id()),
            Arc::clone(&stats),
            sender.clone(),
            config.offsets_channel_backoff(),
        ));
        let context = fetch_context(&config, &zk, &stats, &sender);
        Ok(Self {
            member_id: member_id(config.group_id(), config.consumer_id()),
            metadata: Arc::clone(&context.metadata),
            fetchers: FetcherManager::new(context),
            config,
            zk,
            ownership,
            committer,
            stats,
            state: Arc::new(StateCell::new()),
            sender,
            events,
            closing: Stopper::new(),
            shutting_down: Mutex::default(),
            group: Mutex::new(GroupMembership {
                zk_events: Some(zk_events),
                queues: Vec::new(),
                rebalance: None,
                auto_commit: None,
            }),
        })
    }

    /// Joins the group with so many streams for each topic, and returns them by topic.
    ///
    /// Registers the member and runs the first rebalance in the calling thread; later ones run in the
    /// background. Partitions are consumed as soon as they have a leader. A topic that does not exist yet is
    /// consumed once it does. No topic at all is legal: the member then owns nothing.
    ///
    /// # Errors
    /// [`Error::MessageStreamsExist`] at the second call, [`Error::InvalidArgument`] for a topic without
    /// streams, with an illegal name, or named twice, [`Error::RebalanceFailed`] when `rebalance.max.retries`
    /// attempts failed, [`Error::MemberIdTaken`] when another live member has the same `consumer.id`. After an
    /// error the member is not in the group, and the call may be repeated.
    pub fn create_message_streams<T: Into<String>>(
        &self,
        topics: impl IntoIterator<Item = (T, usize)>,
    ) -> Result<HashMap<String, Vec<MessageStream>>, Error> {
        let topics: Vec<(String, usize)> = topics
            .into_iter()
            .map(|(topic, streams)| (topic.into(), streams))
            .collect();
        let topic_count = TopicCount::fixed(topics.iter().cloned())?;
        let mut group = self.group.lock();
        if self.closing.signal().is_stopped() {
            return Err(Error::Closed);
        }
        let zk_events = group.zk_events.take().ok_or(Error::MessageStreamsExist)?;
        let queues = StreamQueues::new(&topics, &self.config);
        let member = self.member(topic_count, queues.clone());
        let mut rebalancer = Rebalancer::new(
            member,
            zk_events,
            Arc::clone(&self.state),
            Arc::clone(&self.stats),
        );
        // The threads come first: once the member has joined, nothing may fail any more.
        let (hand_over, handed_over) = bounded(1);
        let outcome = self
            .start_threads(handed_over)
            .and_then(|threads| rebalancer.first().map(|()| threads));
        match outcome {
            Ok((rebalance, auto_commit)) => {
                // The thread waits for it.
                let _ = hand_over.send(rebalancer);
                group.queues = queues.all().cloned().collect();
                group.rebalance = Some(rebalance);
                group.auto_commit = auto_commit;
                Ok(queues.streams(&StreamContext {
                    config: Arc::clone(&self.config),
                    ownership: Arc::clone(&self.ownership),
                    stats: Arc::clone(&self.stats),
                    events: self.sender.clone(),
                }))
            }
            Err(error) => {
                group.zk_events = Some(rebalancer.into_zk_events());
                Err(error)
            }
        }
    }

    /// Commits how far each owned partition has been consumed, and returns the offsets: of each partition
    /// the next one to read. Tries again up to `offsets.commit.max.retries` times.
    ///
    /// While the member owns nothing, as in a rebalance or after a lost session, nothing is committed, and
    /// nothing returned.
    ///
    /// # Errors
    /// [`Error::CommitFailed`] with a result for each partition, [`Error::SessionExpired`] when the
    /// partitions may belong to others by now, [`Error::Closed`] after the shutdown.
    pub fn commit_offsets(&self) -> Result<Vec<(TopicPartition, i64)>, Error> {
        self.check_open()?;
        self.committer
            .commit_owned(self.commit_attempts(), &self.closing.signal())
    }

    /// Commits exactly these offsets, each the next one to read, also of partitions that this member does
    /// not own. What the streams count as consumed does not change, and a later
    /// [`commit_offsets`](Self::commit_offsets) or automatic commit overwrites it.
    ///
    /// # Errors
    /// As [`commit_offsets`](Self::commit_offsets); [`Error::InvalidArgument`] for a negative offset or
    /// partition and for an illegal topic, and then nothing is committed.
    pub fn commit_offsets_for(
        &self,
        offsets: impl IntoIterator<Item = (TopicPartition, i64)>,
    ) -> Result<Vec<(TopicPartition, i64)>, Error> {
        self.check_open()?;
        let offsets: Vec<(TopicPartition, i64)> = offsets.into_iter().collect();
        offsets.iter().try_for_each(check_offset)?;
        self.committer
            .commit(&offsets, self.commit_attempts(), &self.closing.signal())
    }

    /// The id under which the member registers: `<group.id>_<consumer.id>`, or one made from host and time.
    pub fn member_id(&self) -> &str {
        &self.member_id
    }

    /// The partitions that this member owns now, sorted.
    pub fn owned_partitions(&self) -> Vec<TopicPartition> {
        self.ownership
            .current()
            .partitions
            .keys()
            .cloned()
            .collect()
    }

    /// What the connector is doing, or waiting for.
    pub fn state(&self) -> ConnectorState {
        self.state.get()
    }

    /// What happens in the background. All handles share one queue.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// What the brokers last said of the cluster, as far as it concerns the topics of this member.
    pub fn cluster_view(&self) -> Arc<ClusterView> {
        self.metadata.view()
    }

    /// Waits at most `timeout` for a view newer than version `known`. The leader finder makes one whenever
    /// a partition is without leader.
    pub fn await_cluster_view(&self, known: u64, timeout: Duration) -> Option<Arc<ClusterView>> {
        self.metadata
            .await_update(known, timeout, &self.closing.signal())
    }

    /// What the connector has counted, and where it stands in each partition that it owns.
    pub fn stats(&self) -> StatsSnapshot {
        let mut stats = self.stats.snapshot();
        stats.events_dropped = self.sender.dropped();
        stats.last_metadata_try = self.metadata.last_try();
        stats.last_metadata_success = self.metadata.last_success();
        stats.partitions = self
            .ownership
            .current()
            .infos()
            .map(|info| info.stats())
            .collect();
        stats
    }

    /// Leaves the group: stops fetching, ends the streams, commits if `auto.commit.enable`, and closes the
    /// ZooKeeper session, which deletes the member's nodes.
    ///
    /// Every step is done even if an earlier one failed; what failed is told by
    /// [`Event::ShutdownIncomplete`] and [`Event::CommitFailed`]. Takes a moment; with a ZooKeeper that is out
    /// of reach, or does not answer, two to four seconds. A second call does nothing but wait for the first.
    /// What a stream has handed out and the application not come back for is delivered again.
    pub fn shutdown(&self) {
        let _turn = self.shutting_down.lock();
        if !self.closing.stop() {
            return;
        }
        // From then on nobody waits for ZooKeeper any more, those included who do already.
        self.zk.cancel_at(Instant::now() + SHUTDOWN_GRACE);
        let mut group = self.group.lock();
        group.rebalance.take();
        group.auto_commit.take();
        self.fetchers.stop();
        for queue in &group.queues {
            queue.close();
        }
        self.await_zookeeper();
        if self.config.auto_commit_enable() {
            // The pause between attempts must not end at once, as `closing` would have it.
            let outcome = self
                .committer
                .commit_owned(self.commit_attempts(), &self.zk.cancel_signal());
            self.committer.report(outcome);
        }
        for info in self.ownership.current().infos() {
            info.revoke();
        }
        self.committer.withdraw();
        if self.zk.cancel_signal().is_stopped() {
            let reason = String::from("no answer of zookeeper in time, nodes go with the session");
            self.sender.send(Event::ShutdownIncomplete { reason });
        }
        self.zk.close();
        self.state.set(ConnectorState::ShutDown);
    }

    fn check_open(&self) -> Result<(), Error> {
        if self.closing.signal().is_stopped() {
            return Err(Error::Closed);
        }
        Ok(())
    }

    fn commit_attempts(&self) -> u32 {
        self.config.offsets_commit_max_retries().saturating_add(1)
    }

    /// Gives a short outage of ZooKeeper the time to end, as long as calls are not cancelled.
    fn await_zookeeper(&self) {
        let cancelled = self.zk.cancel_signal();
        while !self.zk.is_connected() && cancelled.pause(Duration::from_millis(20)) {}
    }

    fn member(&self, topic_count: TopicCount, queues: StreamQueues) -> Member {
        let stop = self.closing.signal();
        // Whatever the rebalance waits for, it has to stop the delivery when the lease ends.
        let zk = self.zk.observing(&stop).within_lease();
        Member {
            id: self.member_id.clone(),
            config: Arc::clone(&self.config),
            topic_count,
            queues,
            brokers: BrokerRegistry::new(Arc::clone(&zk)),
            topics: TopicRegistry::new(Arc::clone(&zk)),
            group: GroupRegistry::new(Arc::clone(&zk), self.config.group_id()),
            zk,
            assignor: Box::new(RangeAssignor),
            fetchers: Arc::clone(&self.fetchers),
            committer: Arc::clone(&self.committer),
            ownership: Arc::clone(&self.ownership),
            stats: Arc::clone(&self.stats),
            events: self.sender.clone(),
            stop,
            claimed: Default::default(),
            generation: 0,
        }
    }

    /// The threads of a member: one goes on with the rebalances once it is handed over, one commits.
    fn start_threads(
        &self,
        handed_over: Receiver<Rebalancer>,
    ) -> Result<(ShutdownableThread, Option<ShutdownableThread>), Error> {
        let rebalance = ShutdownableThread::start("rebalance", move |stop| {
            let rebalancer: Option<Rebalancer> = select! {
                recv(handed_over) -> rebalancer => rebalancer.ok(),
                recv(stop.receiver()) -> _ => None,
            };
            if let Some(rebalancer) = rebalancer {
                rebalancer.run();
            }
        })?;
        Ok((rebalance, self.start_auto_commit()?))
    }

    /// Commits once per interval, counted from the end of the commit before, so that a stall is not
    /// followed by a burst (D80). What fails is tried again with the next one.
    fn start_auto_commit(&self) -> Result<Option<ShutdownableThread>, Error> {
        if !self.config.auto_commit_enable() {
            return Ok(None);
        }
        let interval = self.config.auto_commit_interval();
        let committer = Arc::clone(&self.committer);
        let body = move |stop: StopSignal| {
            while stop.pause(interval) {
                committer.report(committer.commit_owned(1, &stop));
            }
        };
        ShutdownableThread::start("auto-commit", body).map(Some)
    }
}

/// Lets pass what is one node below the group's.
fn check_offset((partition, offset): &(TopicPartition, i64)) -> Result<(), Error> {
    check_topic(partition.topic())?;
    if *offset < 0 || partition.partition() < 0 {
        return Err(Error::InvalidArgument {
            name: "offset",
            reason: format!("{offset} of {partition} is negative"),
        });
    }
    Ok(())
}

impl Drop for ConsumerConnector {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn fetch_context(
    config: &Arc<ConsumerConfig>,
    zk: &Arc<ZkClient>,
    stats: &Arc<Stats>,
    events: &EventSender,
) -> FetchContext {
    let directory = ZooKeeperDirectory::new(
        Arc::clone(zk),
        Arc::clone(config),
        Arc::clone(stats),
        events.clone(),
    );
    let metadata = ClusterMetadata::new(
        Arc::new(directory),
        ClusterMetadataOptions {
            client_id: config.client_id().to_owned(),
            socket_timeout: config.socket_timeout(),
            backoff: config.refresh_leader_backoff(),
            max_age: config.metadata_max_age(),
            address_map: config.broker_address_map().clone(),
        },
    );
    let idle_bytes = usize::try_from(config.queued_max_bytes()).unwrap_or(usize::MAX);
    FetchContext {
        config: Arc::clone(config),
        pool: BufferPool::new(idle_bytes),
        stats: Arc::clone(stats),
        events: events.clone(),
        metadata: Arc::new(metadata),
        leaderless: LeaderlessPartitions::new(),
    }
}
