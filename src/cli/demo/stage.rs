//! The cluster and the group, and what is done to them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use kafka_zk_consumer::embedded::EmbeddedCluster;
use kafka_zk_consumer::embedded::PartitionDescription;

use crate::cli::demo::ledger::Ledger;
use crate::cli::demo::member::Member;
use crate::cli::demo::play::Act;
use crate::cli::demo::screen::Screen;
use crate::cli::embedded_arguments::DemoArguments;
use crate::cli::failure::Failure;

pub(super) const TOPIC: &str = "demo";

/// Most replicas of a partition.
const REPLICAS: i32 = 3;

/// Everything that acts can change.
pub(super) struct Stage {
    /// Leave before the cluster ends.
    members: Vec<Member>,
    cluster: EmbeddedCluster,
    /// The broker that is killed, and comes back.
    victim: i32,
    joined: usize,
    ledger: Arc<Ledger>,
    screen: Arc<Screen>,
}

impl Stage {
    /// A cluster without members.
    pub(super) fn set(
        arguments: &DemoArguments,
        ledger: &Arc<Ledger>,
        screen: &Arc<Screen>,
    ) -> Result<Self, Failure> {
        let partitions = arguments.members * 2;
        let replicas = usize::try_from(arguments.brokers.min(REPLICAS)).unwrap_or(1);
        let cluster = EmbeddedCluster::builder()
            .brokers(arguments.brokers)
            .topic(TOPIC, partitions, replicas)
            .start()
            .map_err(|error| Failure::runtime("starting the cluster", &error))?;
        screen.tell(&format!(
            "zookeeper at {}, {} brokers, topic {TOPIC}: {partitions} partitions of {replicas} replicas",
            cluster.connect_string(),
            arguments.brokers
        ));
        Ok(Self {
            members: Vec::new(),
            cluster,
            // Whose death matters: there may be more brokers than partitions.
            victim: arguments.brokers.min(partitions) - 1,
            joined: 0,
            ledger: Arc::clone(ledger),
            screen: Arc::clone(screen),
        })
    }

    pub(super) fn cluster(&self) -> &EmbeddedCluster {
        &self.cluster
    }

    pub(super) fn members(&self) -> &[Member] {
        &self.members
    }

    pub(super) fn perform(&mut self, act: Act) -> Result<(), Failure> {
        match act {
            Act::KillBroker => self.kill(),
            Act::RestartBroker => self.restart(),
            Act::MoveLeadersBack => self.move_leaders_back(),
            Act::MemberLeaves => {
                self.leave();
                Ok(())
            }
            Act::MemberJoins => self.join(),
        }
    }

    /// Another member, with the next number.
    pub(super) fn join(&mut self) -> Result<(), Failure> {
        self.joined += 1;
        let zookeeper = self.cluster.connect_string();
        let shared = (&self.ledger, &self.screen);
        let member = Member::join(self.joined, &zookeeper, TOPIC, shared)?;
        self.members.push(member);
        Ok(())
    }

    /// The member that has been there for the longest time goes.
    fn leave(&mut self) {
        if self.members.is_empty() {
            return;
        }
        let member = self.members.remove(0);
        self.screen.tell(&format!("{} leaves", member.name()));
        drop(member);
    }

    /// All members go, one after the other.
    pub(super) fn clear(&mut self) {
        while !self.members.is_empty() {
            self.leave();
        }
    }

    fn kill(&self) -> Result<(), Failure> {
        let victim = self.victim;
        self.screen.tell(&format!("broker {victim} is killed"));
        let led = self.partitions(|partition| partition.leader == Some(victim));
        let began = Instant::now();
        self.cluster
            .kill(victim)
            .map_err(|error| Failure::runtime("killing a broker", &error))?;
        let cause = format!("broker {victim} killed");
        self.ledger.leaders_change(cause, began, self.ends(&led));
        Ok(())
    }

    fn restart(&self) -> Result<(), Failure> {
        let victim = self.victim;
        self.screen.tell(&format!("broker {victim} comes back"));
        self.cluster
            .restart(victim)
            .map_err(|error| Failure::runtime("restarting a broker", &error))
    }

    fn move_leaders_back(&self) -> Result<(), Failure> {
        let victim = self.victim;
        let moved = self.partitions(|partition| {
            partition.replicas.first() == Some(&victim) && partition.leader != Some(victim)
        });
        if moved.is_empty() {
            return Ok(());
        }
        let count = moved.len();
        self.screen
            .tell(&format!("broker {victim} leads {count} partitions again"));
        let began = Instant::now();
        for partition in &moved {
            self.cluster
                .move_leader(TOPIC, *partition, victim)
                .map_err(|error| Failure::runtime("moving a leader", &error))?;
        }
        let cause = format!("leaders moved to broker {victim}");
        self.ledger.leaders_change(cause, began, self.ends(&moved));
        Ok(())
    }

    /// The partitions of the topic that are `wanted`.
    fn partitions(&self, wanted: impl Fn(&PartitionDescription) -> bool) -> Vec<i32> {
        let partitions = self.cluster.describe().partitions.into_iter();
        partitions
            .filter(|it| it.topic_partition.topic() == TOPIC && wanted(it))
            .map(|it| it.topic_partition.partition())
            .collect()
    }

    /// The offsets that the next messages of these partitions get.
    fn ends(&self, partitions: &[i32]) -> BTreeMap<i32, i64> {
        let cluster = self.cluster.describe();
        partitions
            .iter()
            .filter_map(|number| Some((*number, cluster.partition(TOPIC, *number)?.log_end)))
            .collect()
    }
}
