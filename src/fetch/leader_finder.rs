//! Finds the leaders of partitions that have none, and places them with fetchers.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::Broker;
use crate::cluster::TopicPartition;
use crate::error::Error;
use crate::events::Event;
use crate::fetch::fetcher_manager::FetcherManager;
use crate::fetch::fetcher_thread::FetchContext;
use crate::fetch::partition_topic_info::PartitionTopicInfo;
use crate::thread::StopSignal;

/// The body of the `leader-finder` thread.
pub(super) struct LeaderFinder {
    manager: Arc<FetcherManager>,
    context: FetchContext,
}

impl LeaderFinder {
    pub(super) fn new(manager: Arc<FetcherManager>, context: FetchContext) -> Self {
        Self { manager, context }
    }

    /// Looks up whatever waits, once per `refresh.leader.backoff.ms`, until the stop.
    pub(super) fn run(&self, stop: &StopSignal) {
        while self.context.leaderless.wait(stop) {
            let wanted = self.context.leaderless.snapshot();
            self.context.stats.leader_lookups.increment();
            if let Err(error) = self.look_up(&wanted, stop)
                && !stop.is_stopped()
            {
                self.context.stats.leader_lookup_failures.increment();
                let reason = error.chain();
                self.context
                    .events
                    .send(Event::LeaderLookupFailed { reason });
            }
            self.manager.shut_down_idle();
            if !stop.pause(self.context.config.refresh_leader_backoff()) {
                return;
            }
        }
    }

    /// Places each partition by itself: one that fails waits for the next round alone (D25).
    fn look_up(&self, wanted: &[Arc<PartitionTopicInfo>], stop: &StopSignal) -> Result<(), Error> {
        let partitions: Vec<TopicPartition> = wanted
            .iter()
            .map(|info| info.topic_partition().clone())
            .collect();
        let view = self.context.metadata.view_of(&partitions, stop)?;
        let mut placed: BTreeMap<Broker, Vec<TopicPartition>> = BTreeMap::new();
        let mut outcome = Ok(());
        for info in wanted {
            if stop.is_stopped() {
                return Ok(());
            }
            let Some(broker) = view.leader(info.topic_partition()) else {
                continue;
            };
            if !self.context.leaderless.remove(info) {
                continue;
            }
            match self
                .manager
                .place(info, broker, view.broker_version(broker.id))
            {
                Ok(()) => placed
                    .entry(broker.clone())
                    .or_default()
                    .push(info.topic_partition().clone()),
                Err(error) => {
                    self.context.leaderless.add([Arc::clone(info)]);
                    outcome = Err(error);
                }
            }
        }
        for (broker, partitions) in placed {
            self.context
                .events
                .send(Event::FetchingFrom { broker, partitions });
        }
        outcome
    }
}
