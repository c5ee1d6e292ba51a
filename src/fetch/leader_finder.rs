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
use crate::net::ClusterView;
use crate::thread::StopSignal;

/// Why partitions have no leader.
type Reasons = BTreeMap<TopicPartition, String>;

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
        let mut told = Reasons::new();
        while self.context.leaderless.wait(stop) {
            let wanted = self.context.leaderless.snapshot();
            self.context.stats.leader_lookups.increment();
            if let Err(error) = self.look_up(&wanted, &mut told, stop)
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
    fn look_up(
        &self,
        wanted: &[Arc<PartitionTopicInfo>],
        told: &mut Reasons,
        stop: &StopSignal,
    ) -> Result<(), Error> {
        let partitions: Vec<TopicPartition> = wanted
            .iter()
            .map(|info| info.topic_partition().clone())
            .collect();
        let view = self.context.metadata.view_of(&partitions, stop)?;
        let mut placed: BTreeMap<Broker, Vec<TopicPartition>> = BTreeMap::new();
        let mut leaderless = Reasons::new();
        let mut outcome = Ok(());
        for info in wanted {
            if stop.is_stopped() {
                return Ok(());
            }
            let topic_partition = info.topic_partition();
            let Some(broker) = view.leader(topic_partition) else {
                leaderless.insert(
                    topic_partition.clone(),
                    why_leaderless(&view, topic_partition),
                );
                continue;
            };
            if !self.context.leaderless.remove(info) {
                continue;
            }
            match self
                .manager
                .place(info, broker, view.broker_version(broker.id))
            {
                // Nothing is fetched yet from one that was of no use the last time.
                Ok(()) if self.context.leaderless.is_unserved(topic_partition) => {}
                Ok(()) => placed
                    .entry(broker.clone())
                    .or_default()
                    .push(topic_partition.clone()),
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
        self.tell(&leaderless, told);
        *told = leaderless;
        outcome
    }

    /// Tells of the partitions of which it is news that nobody leads them, or why.
    fn tell(&self, leaderless: &Reasons, told: &Reasons) {
        let mut news: BTreeMap<&str, Vec<TopicPartition>> = BTreeMap::new();
        for (topic_partition, reason) in leaderless {
            if told.get(topic_partition) != Some(reason) {
                let partitions = news.entry(reason).or_default();
                partitions.push(topic_partition.clone());
            }
        }
        for (reason, partitions) in news {
            let reason = reason.to_owned();
            self.context
                .events
                .send(Event::NoLeader { partitions, reason });
        }
    }
}

/// What the brokers say of a partition without a known leader.
fn why_leaderless(view: &ClusterView, topic_partition: &TopicPartition) -> String {
    let Some(topic) = view.topic(topic_partition.topic()) else {
        return String::from("the topic is gone, or no broker tells of it");
    };
    let is_told = topic.partitions.contains_key(&topic_partition.partition());
    match (is_told, topic.error) {
        (false, Some(code)) => format!("of the topic comes {code}"),
        (false, None) => String::from("the brokers do not know the partition"),
        (true, _) => String::from("the brokers name none, or one without an address"),
    }
}
