//! What a connector is made of.

use std::sync::Arc;

use crossbeam_channel::Receiver;
use crossbeam_channel::select;

use crate::config::ConsumerConfig;
use crate::config::PartitionAssignmentStrategy;
use crate::consumer::bounds::Bounds;
use crate::consumer::built_in_store::built_in_store;
use crate::consumer::committer::Committer;
use crate::consumer::connector_state::StateCell;
use crate::consumer::listener_calls::ListenerCalls;
use crate::consumer::member::Member;
use crate::consumer::message_stream::StreamContext;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::owned_partitions::Ownership;
use crate::consumer::rebalancer::Rebalancer;
use crate::consumer::stream_queues::StreamQueues;
use crate::consumer::zookeeper_directory::ZooKeeperDirectory;
use crate::coordination::BrokerRegistry;
use crate::coordination::GroupRegistry;
use crate::coordination::PartitionAssignor;
use crate::coordination::RangeAssignor;
use crate::coordination::RoundRobinAssignor;
use crate::coordination::TopicCount;
use crate::coordination::TopicRegistry;
use crate::coordination::member_id;
use crate::error::Error;
use crate::events::EventSender;
use crate::fetch::BufferPool;
use crate::fetch::FetchContext;
use crate::fetch::FetcherManager;
use crate::fetch::LeaderlessPartitions;
use crate::net::ClusterMetadata;
use crate::net::ClusterMetadataOptions;
use crate::stats::Stats;
use crate::thread::ShutdownableThread;
use crate::thread::StopSignal;
use crate::thread::Stopper;
use crate::zk::ZkClient;
use crate::zk::ZkConfig;
use crate::zk::ZkEvent;

/// The parts of a connector, put together but not at work yet.
pub(crate) struct ConnectorParts {
    pub(crate) config: Arc<ConsumerConfig>,
    pub(crate) member_id: String,
    pub(crate) zk: Arc<ZkClient>,
    pub(crate) ownership: Arc<Ownership>,
    pub(crate) committer: Arc<Committer>,
    pub(crate) listener: Arc<ListenerCalls>,
    pub(crate) fetchers: Arc<FetcherManager>,
    pub(crate) metadata: Arc<ClusterMetadata>,
    pub(crate) stats: Arc<Stats>,
    pub(crate) state: Arc<StateCell>,
    pub(crate) sender: EventSender,
    /// Stopped by the shutdown; observed by every thread and every wait of the connector.
    pub(crate) closing: Stopper,
}

impl ConnectorParts {
    /// Connects to ZooKeeper; its events come by the receiver. Offsets are where the configuration says, unless the
    /// application has its own store.
    pub(crate) fn connect(
        config: ConsumerConfig,
        own_store: Option<Arc<dyn OffsetStore>>,
        sender: EventSender,
    ) -> Result<(Self, Receiver<ZkEvent>), Error> {
        let config = Arc::new(config);
        let (zk, zk_events) = ZkClient::connect(ZkConfig {
            connect: config.zookeeper_connect().to_owned(),
            session_timeout: config.zookeeper_session_timeout(),
            connection_timeout: config.zookeeper_connection_timeout(),
        })?;
        let stats = Arc::new(Stats::default());
        let ownership = Arc::new(Ownership::default());
        let store = own_store.unwrap_or_else(|| built_in_store(&config, &zk, &stats, &sender));
        let of_session = Arc::clone(&zk);
        let committer = Arc::new(Committer::new(
            store,
            Arc::clone(&ownership),
            Box::new(move || of_session.session_id()),
            Arc::clone(&stats),
            sender.clone(),
            config.offsets_channel_backoff(),
        ));
        let context = fetch_context(&config, &zk, &stats, &sender);
        let parts = Self {
            member_id: member_id(config.group_id(), config.consumer_id()),
            metadata: Arc::clone(&context.metadata),
            fetchers: FetcherManager::new(context),
            config,
            zk,
            ownership,
            committer,
            listener: Arc::new(ListenerCalls::new(sender.clone())),
            stats,
            state: Arc::new(StateCell::new()),
            sender,
            closing: Stopper::new(),
        };
        Ok((parts, zk_events))
    }

    /// What each stream needs of the connector.
    pub(crate) fn stream_context(&self) -> StreamContext {
        StreamContext {
            config: Arc::clone(&self.config),
            ownership: Arc::clone(&self.ownership),
            stats: Arc::clone(&self.stats),
            events: self.sender.clone(),
        }
    }

    pub(crate) fn commit_attempts(&self) -> u32 {
        self.config.offsets_commit_max_retries().saturating_add(1)
    }

    /// The member that feeds `queues`; with `bounds`, no further than to the ends.
    pub(crate) fn member(
        &self,
        topic_count: TopicCount,
        queues: StreamQueues,
        bounds: Option<Arc<Bounds>>,
    ) -> Member {
        let stop = self.closing.signal();
        // Whatever the rebalance waits for, it has to stop the delivery when the lease ends.
        let zk = self.zk.observing(&stop).within_lease();
        Member {
            id: self.member_id.clone(),
            config: Arc::clone(&self.config),
            topic_count,
            queues,
            bounds,
            brokers: BrokerRegistry::new(Arc::clone(&zk)),
            topics: TopicRegistry::new(Arc::clone(&zk)),
            group: GroupRegistry::new(Arc::clone(&zk), self.config.group_id()),
            zk,
            assignor: assignor(&self.config),
            fetchers: Arc::clone(&self.fetchers),
            committer: Arc::clone(&self.committer),
            ownership: Arc::clone(&self.ownership),
            listener: Arc::clone(&self.listener),
            stats: Arc::clone(&self.stats),
            events: self.sender.clone(),
            stop,
            claimed: Default::default(),
            generation: 0,
            passing: Vec::new(),
        }
    }

    /// The threads of a member: one goes on with the rebalances once it is handed over, one commits.
    pub(crate) fn start_threads(
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
    pub(crate) fn start_auto_commit(&self) -> Result<Option<ShutdownableThread>, Error> {
        if !self.config.auto_commit_enable() {
            return Ok(None);
        }
        let interval = self.config.auto_commit_interval();
        let ownership = Arc::clone(&self.ownership);
        let committer = Arc::clone(&self.committer);
        let body = move |stop: StopSignal| {
            while stop.pause(interval) {
                let owned = ownership.current();
                let outcome = committer.commit_owned(1, &stop);
                // One that the shutdown cut short is followed by the last commit, which tells how it ended.
                if !stop.is_stopped() {
                    committer.report(&owned, outcome);
                }
            }
        };
        ShutdownableThread::start("auto-commit", body).map(Some)
    }
}

fn assignor(config: &ConsumerConfig) -> Box<dyn PartitionAssignor> {
    match config.partition_assignment_strategy() {
        PartitionAssignmentStrategy::Range => Box::new(RangeAssignor),
        PartitionAssignmentStrategy::RoundRobin => {
            Box::new(RoundRobinAssignor::new(config.round_robin_version()))
        }
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
