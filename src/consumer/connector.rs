//! The public object: one member of a group.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::bounded;
use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::config::ConsumerConfig;
use crate::consumer::bounds::Bounds;
use crate::consumer::connector_parts::ConnectorParts;
use crate::consumer::connector_state::ConnectorState;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::rebalancer::Rebalancer;
use crate::consumer::stream_queues::StreamQueues;
use crate::coordination::TopicCount;
use crate::coordination::check_topic;
use crate::error::Error;
use crate::events::Event;
use crate::events::Events;
use crate::events::event_channel;
use crate::fetch::ChunkQueue;
use crate::net::ClusterView;
use crate::stats::StatsSnapshot;
use crate::thread::ShutdownableThread;
use crate::zk::ZkEvent;

/// How long a shutdown goes on trying to reach ZooKeeper, for the last commit.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(2);

/// One member of a consumer group that is coordinated in ZooKeeper.
///
/// Made by [`connect`](Self::connect), it joins the group once, with
/// [`create_message_streams`](Self::create_message_streams),
/// [`create_message_streams_by_filter`](Self::create_message_streams_by_filter),
/// [`create_bounded_streams`](Self::create_bounded_streams),
/// [`create_bounded_streams_by_filter`](Self::create_bounded_streams_by_filter) or
/// [`create_poller`](Self::create_poller), and leaves it with [`shutdown`](Self::shutdown) or when dropped. With
/// [`create_message_streams_for`](Self::create_message_streams_for) and
/// [`create_bounded_streams_for`](Self::create_bounded_streams_for) it reads partitions without joining. All methods
/// may be called from any thread.
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
    pub(super) parts: ConnectorParts,
    events: Events,
    /// Held by the shutdown, so that a second one returns when there is nothing left to do.
    shutting_down: Mutex<()>,
    pub(super) group: Mutex<GroupMembership>,
}

/// What creating the streams makes and the shutdown ends. Locked for as long as either takes.
pub(super) struct GroupMembership {
    /// Taken by whoever follows the session: the rebalancer, or `session-events`.
    pub(super) zk_events: Option<Receiver<ZkEvent>>,
    /// Of all streams, each once (D35, KAFKA-1764).
    pub(super) queues: Vec<Arc<ChunkQueue>>,
    /// `rebalance`, or `session-events` without a group.
    pub(super) rebalance: Option<ShutdownableThread>,
    pub(super) auto_commit: Option<ShutdownableThread>,
}

impl ConsumerConnector {
    /// Connects to ZooKeeper, within `zookeeper.connection.timeout.ms`. Does not join the group yet.
    ///
    /// # Errors
    /// [`Error::MissingChroot`] when the chroot of `zookeeper.connect` does not exist, [`Error::ZooKeeper`]
    /// when no server can be reached.
    pub fn connect(config: ConsumerConfig) -> Result<Self, Error> {
        Self::connect_with(config, None)
    }

    /// As [`connect`](Self::connect), with offsets in a store of the application's own, whatever `offsets.storage` says.
    ///
    /// Who owns what is agreed on in ZooKeeper all the same; all members of a group should keep their offsets in the
    /// same place.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); the store is not called yet.
    pub fn connect_with_offset_store(
        config: ConsumerConfig,
        store: impl OffsetStore + 'static,
    ) -> Result<Self, Error> {
        Self::connect_with(config, Some(Arc::new(store)))
    }

    fn connect_with(
        config: ConsumerConfig,
        own_store: Option<Arc<dyn OffsetStore>>,
    ) -> Result<Self, Error> {
        let (sender, events) = event_channel();
        let (parts, zk_events) = ConnectorParts::connect(config, own_store, sender)?;
        Ok(Self {
            parts,
            events,
            shutting_down: Mutex::default(),
            group: Mutex::new(GroupMembership {
                zk_events: Some(zk_events),
                queues: Vec::new(),
                rebalance: None,
                auto_commit: None,
            }),
        })
    }

    /// Commits how far each owned partition has been consumed, and returns the offsets: of each partition
    /// the next one to read. Tries again up to `offsets.commit.max.retries` times, as long as it owns the same
    /// partitions: if a rebalance or the end of the session comes between, the failure is returned.
    ///
    /// While the member owns nothing, as in a rebalance or after a lost session, nothing is committed, and
    /// nothing returned.
    ///
    /// # Errors
    /// [`Error::CommitFailed`] with a result for each partition, among them [`Error::OffsetFenced`] where somebody else
    /// owns the partition by now; [`Error::SessionExpired`] when the partitions may belong to others by now;
    /// [`Error::Coordinator`], [`Error::Broker`] or [`Error::OffsetStore`] when the store could not be asked;
    /// [`Error::Closed`] after the shutdown.
    pub fn commit_offsets(&self) -> Result<Vec<(TopicPartition, i64)>, Error> {
        self.check_open()?;
        self.parts
            .committer
            .commit_owned(self.parts.commit_attempts(), &self.parts.closing.signal())
    }

    /// As [`commit_offsets`](Self::commit_offsets), in one attempt: for a loop that commits again soon anyway.
    ///
    /// # Errors
    /// As [`commit_offsets`](Self::commit_offsets).
    pub fn commit_offsets_once(&self) -> Result<Vec<(TopicPartition, i64)>, Error> {
        self.check_open()?;
        self.parts
            .committer
            .commit_owned(1, &self.parts.closing.signal())
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
        self.commit_given(&offsets.into_iter().collect::<Vec<_>>(), Vec::new())
    }

    /// As [`commit_offsets_for`](Self::commit_offsets_for), and Kafka remembers a text beside each offset, which
    /// [`SimpleConsumer::fetch_offsets`](crate::SimpleConsumer::fetch_offsets) tells. ZooKeeper has no place for it.
    ///
    /// # Errors
    /// As [`commit_offsets_for`](Self::commit_offsets_for). Brokers refuse a text of more than
    /// `offset.metadata.max.bytes` with [`ErrorCode::OffsetMetadataTooLarge`](crate::ErrorCode::OffsetMetadataTooLarge).
    pub fn commit_offsets_with_metadata(
        &self,
        offsets: impl IntoIterator<Item = (TopicPartition, i64, String)>,
    ) -> Result<Vec<(TopicPartition, i64)>, Error> {
        let offsets = offsets.into_iter();
        let (offsets, metadata): (Vec<_>, Vec<_>) = offsets
            .map(|(partition, offset, metadata)| ((partition, offset), metadata))
            .unzip();
        self.commit_given(&offsets, metadata)
    }

    fn commit_given(
        &self,
        offsets: &[(TopicPartition, i64)],
        metadata: Vec<String>,
    ) -> Result<Vec<(TopicPartition, i64)>, Error> {
        self.check_open()?;
        offsets.iter().try_for_each(check_offset)?;
        self.parts.committer.commit(
            offsets,
            metadata,
            self.parts.commit_attempts(),
            &self.parts.closing.signal(),
        )
    }

    /// The id under which the member registers: `<group.id>_<consumer.id>`, or one made from host and time.
    pub fn member_id(&self) -> &str {
        &self.parts.member_id
    }

    /// The partitions that this member owns now, sorted.
    pub fn owned_partitions(&self) -> Vec<TopicPartition> {
        self.parts
            .ownership
            .current()
            .partitions
            .keys()
            .cloned()
            .collect()
    }

    /// What the connector is doing, or waiting for.
    pub fn state(&self) -> ConnectorState {
        self.parts.state.get()
    }

    /// What happens in the background. All handles share one queue.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// What the brokers last said of the cluster, as far as it concerns the topics of this member.
    pub fn cluster_view(&self) -> Arc<ClusterView> {
        self.parts.metadata.view()
    }

    /// Waits at most `timeout` for a view newer than version `known`; `None` when there is none by then, and at the
    /// shutdown. The leader finder makes one whenever a partition is without leader.
    pub fn await_cluster_view(&self, known: u64, timeout: Duration) -> Option<Arc<ClusterView>> {
        self.parts
            .metadata
            .await_update(known, timeout, &self.parts.closing.signal())
    }

    /// What the connector has counted, and where it stands in each partition that it owns.
    pub fn stats(&self) -> StatsSnapshot {
        let mut stats = self.parts.stats.snapshot();
        stats.events_dropped = self.parts.sender.dropped();
        stats.last_metadata_try = self.parts.metadata.last_try();
        stats.last_metadata_success = self.parts.metadata.last_success();
        stats.partitions = self
            .parts
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
    /// The last to be told is the [`RebalanceListener`](crate::RebalanceListener), which may take its time before the
    /// commit. A call from within the listener is refused with [`Event::ShutdownIncomplete`].
    ///
    /// Every step is done even if an earlier one failed; what failed is told by
    /// [`Event::ShutdownIncomplete`] and [`Event::CommitFailed`]. Takes a moment; with a ZooKeeper that is out
    /// of reach, or does not answer, two to four seconds. A second call does nothing but wait for the first.
    /// What a stream has handed out and the application not come back for is delivered again.
    pub fn shutdown(&self) {
        if self.parts.listener.is_caller() {
            // It would wait for the end of the very call that it comes from.
            let reason = String::from("called by the rebalance listener, nothing was done");
            self.parts.sender.send(Event::ShutdownIncomplete { reason });
            return;
        }
        self.shut_down();
    }

    fn shut_down(&self) {
        let _turn = self.shutting_down.lock();
        if !self.parts.closing.stop() {
            return;
        }
        // From then on nobody waits for ZooKeeper any more, those included who do already.
        self.parts.zk.cancel_at(Instant::now() + SHUTDOWN_GRACE);
        let mut group = self.group.lock();
        group.rebalance.take();
        group.auto_commit.take();
        self.parts.fetchers.stop();
        for queue in &group.queues {
            queue.close();
        }
        self.await_zookeeper();
        self.tell_listener();
        if self.parts.config.auto_commit_enable() {
            // The pause between attempts must not end at once, as `closing` would have it.
            let stop = self.parts.zk.cancel_signal();
            let owned = self.parts.ownership.current();
            let committer = &self.parts.committer;
            let outcome = committer.commit_owned(self.parts.commit_attempts(), &stop);
            committer.report(&owned, outcome);
        }
        for info in self.parts.ownership.current().infos() {
            info.revoke();
        }
        self.parts.committer.withdraw();
        if self.parts.zk.cancel_signal().is_stopped() {
            let reason = String::from("no answer of zookeeper in time, nodes go with the session");
            self.parts.sender.send(Event::ShutdownIncomplete { reason });
        }
        self.parts.zk.close();
        self.parts.state.set(ConnectorState::ShutDown);
    }

    /// Registers the member, runs the first rebalance, and starts the threads for what comes later.
    pub(super) fn join(
        &self,
        topic_count: TopicCount,
        queues: &StreamQueues,
        bounds: Option<Arc<Bounds>>,
    ) -> Result<(), Error> {
        self.check_caller()?;
        let mut group = self.group.lock();
        self.check_open()?;
        let zk_events = group.zk_events.take().ok_or(Error::MessageStreamsExist)?;
        let mut rebalancer = Rebalancer::new(
            self.parts.member(topic_count, queues.clone(), bounds),
            zk_events,
            Arc::clone(&self.parts.state),
            Arc::clone(&self.parts.stats),
        );
        // The threads come first: once the member has joined, nothing may fail any more.
        let (hand_over, handed_over) = bounded(1);
        let outcome = self
            .parts
            .start_threads(handed_over)
            .and_then(|threads| rebalancer.first().map(|()| threads));
        match outcome {
            Ok((rebalance, auto_commit)) => {
                // The thread waits for it.
                let _ = hand_over.send(rebalancer);
                group.queues = queues.all().cloned().collect();
                group.rebalance = Some(rebalance);
                group.auto_commit = auto_commit;
                Ok(())
            }
            Err(error) => {
                group.zk_events = Some(rebalancer.into_zk_events());
                Err(error)
            }
        }
    }

    /// The partitions of the group are about to be released, or are lost already: nobody has followed the session
    /// since the rebalances ended.
    fn tell_listener(&self) {
        let owned = self.parts.ownership.current();
        let is_told = self.parts.listener.is_set() && !owned.partitions.is_empty();
        let Some(session) = owned.session.filter(|_| is_told) else {
            return;
        };
        for info in owned.infos() {
            info.revoke();
        }
        if !self.parts.zk.is_leased(session) {
            if self.parts.config.auto_commit_enable() {
                let outcome = Err(Error::SessionExpired);
                self.parts.committer.report(&owned, outcome);
            }
            self.parts.committer.withdraw();
            self.parts.listener.lose(&owned);
            return;
        }
        // However long it takes, what it commits, and the commit after it, are not cut short.
        self.parts.zk.cancel_later();
        let attempts = self.parts.commit_attempts();
        let stop = self.parts.zk.cancel_signal();
        self.parts
            .listener
            .revoke(owned, &self.parts.committer, attempts, &stop);
        self.parts.zk.cancel_at(Instant::now() + SHUTDOWN_GRACE);
    }

    /// Refuses what waits for the end of a rebalance, while that waits for the caller.
    pub(super) fn check_caller(&self) -> Result<(), Error> {
        if self.parts.listener.is_caller() {
            return Err(Error::MessageStreamsExist);
        }
        Ok(())
    }

    pub(super) fn check_open(&self) -> Result<(), Error> {
        if self.parts.closing.signal().is_stopped() {
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Gives a short outage of ZooKeeper the time to end, as long as calls are not cancelled.
    fn await_zookeeper(&self) {
        let cancelled = self.parts.zk.cancel_signal();
        while !self.parts.zk.is_connected() && cancelled.pause(Duration::from_millis(20)) {}
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

impl fmt::Debug for ConsumerConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerConnector")
            .field("member_id", &self.parts.member_id)
            .field("state", &self.parts.state.get())
            .finish_non_exhaustive()
    }
}

impl Drop for ConsumerConnector {
    fn drop(&mut self) {
        self.shut_down();
    }
}
