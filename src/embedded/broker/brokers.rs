//! All brokers of a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;

use crate::cluster::BrokerAddress;
use crate::cluster::TopicPartition;
use crate::embedded::broker::broker_server::BrokerServer;
use crate::embedded::broker::cluster_state::SharedState;
use crate::embedded::broker::controller::Controller;
use crate::embedded::broker::partition::Partition;
use crate::embedded::broker::registry::Registry;
use crate::embedded::broker::request_handler::RequestHandler;
use crate::embedded::broker_settings::BrokerSettings;
use crate::embedded::broker_version::BrokerVersion;
use crate::embedded::cluster_description::BrokerDescription;
use crate::embedded::cluster_description::ClusterDescription;
use crate::embedded::cluster_description::PartitionDescription;
use crate::embedded::faults::AnswerFault;
use crate::embedded::faults::Api;
use crate::embedded::faults::BrokerFaults;
use crate::embedded::faults::ConnectionFault;
use crate::embedded::reserved_port::ReservedPort;
use crate::embedded::zookeeper::EmbeddedZooKeeper;
use crate::error::Error;
use crate::error::ErrorCode;
use crate::protocol::MessageFormat;
use crate::protocol::MessageSet;
use crate::protocol::RequiredAcks;
use crate::thread::ShutdownableThread;
use crate::thread::Stopper;

/// Between two looks of the controller at what is due.
const TICK: Duration = Duration::from_millis(20);

/// How long a caller waits for replicas.
const REPLICATION_TIMEOUT: Duration = Duration::from_secs(10);

/// The brokers, dead or alive, the state that they share, and the controller.
#[derive(Debug)]
pub(crate) struct Brokers {
    /// Stops before the rest is taken apart.
    _ticker: ShutdownableThread,
    shared: Arc<SharedState>,
    controller: Arc<Controller>,
    servers: Mutex<BTreeMap<i32, Server>>,
    /// Ends the waits of callers, who have no other reason to stop.
    stopper: Stopper,
}

#[derive(Debug)]
struct Server {
    sockets: BrokerServer,
    faults: Arc<BrokerFaults>,
}

impl Brokers {
    /// Without a broker.
    pub(crate) fn new(
        settings: BrokerSettings,
        zookeeper: &Arc<EmbeddedZooKeeper>,
    ) -> Result<Self, Error> {
        let shared = Arc::new(SharedState::new(settings));
        let registry = Registry::new(Arc::clone(zookeeper));
        let controller = Arc::new(Controller::new(Arc::clone(&shared), registry));
        let ticking = Arc::clone(&controller);
        let ticker = ShutdownableThread::start("embedded-controller", move |stop| {
            while stop.pause(TICK) {
                ticking.tick();
            }
        })?;
        Ok(Self {
            _ticker: ticker,
            shared,
            controller,
            servers: Mutex::new(BTreeMap::new()),
            stopper: Stopper::new(),
        })
    }

    /// Brings back the topics of an earlier life, before the brokers 0 to `count` start, and returns their names.
    pub(crate) fn restore(&self, count: i32) -> Result<Vec<String>, Error> {
        self.controller.restore(|id| (0..count).contains(&id))
    }

    /// Starts a broker with a new id, on `port` or on any that is free for 0.
    pub(crate) fn add(&self, id: i32, port: u16) -> Result<(), Error> {
        let mut servers = self.servers.lock();
        let faults = Arc::new(BrokerFaults::default());
        let sockets = self.sockets(id, port, &faults)?;
        let server = Server { sockets, faults };
        servers
            .entry(id)
            .or_insert(server)
            .start(&self.controller, id)
    }

    pub(crate) fn kill(&self, id: i32) -> Result<(), Error> {
        self.with(id, |server| {
            self.controller.broker_killed(id);
            server.sockets.stop();
            Ok(())
        })
    }

    pub(crate) fn stop(&self, id: i32) -> Result<(), Error> {
        self.with(id, |server| {
            self.controller.broker_leaves(id);
            server.sockets.stop();
            Ok(())
        })
    }

    /// Starts a broker again, on its old port or on a new one, and as another version where one is given.
    pub(crate) fn restart(
        &self,
        id: i32,
        is_on_new_port: bool,
        version: Option<BrokerVersion>,
    ) -> Result<(), Error> {
        self.with(id, |server| {
            if self.shared.read(|state| state.is_running(id)) {
                let reason = format!("{id} is running");
                return Err(Error::InvalidArgument {
                    name: "broker",
                    reason,
                });
            }
            if let Some(version) = version {
                self.shared
                    .change(|state| state.settings.versions.insert(id, version));
            }
            server.faults.set_connections(None);
            if is_on_new_port {
                server.sockets = self.sockets(id, 0, &server.faults)?;
            }
            server.start(&self.controller, id)
        })
    }

    /// Disturbs the connections of a broker, or heals them with `None`.
    pub(crate) fn disturb(&self, id: i32, fault: Option<ConnectionFault>) -> Result<(), Error> {
        self.with(id, |server| {
            server.faults.set_connections(fault);
            match fault {
                Some(ConnectionFault::Refuse) => server.sockets.stop(),
                _ if self.shared.read(|state| state.is_running(id)) => server.sockets.listen()?,
                _ => (),
            }
            Ok(())
        })
    }

    pub(crate) fn cut_connections(&self, id: i32) -> Result<(), Error> {
        self.with(id, |server| {
            server.sockets.cut_connections();
            Ok(())
        })
    }

    pub(crate) fn add_answer_fault(
        &self,
        id: i32,
        api: Api,
        fault: AnswerFault,
    ) -> Result<(), Error> {
        self.with(id, |server| {
            server.faults.add_answer(api, fault);
            Ok(())
        })
    }

    pub(crate) fn answer_faults_left(&self, id: i32) -> Result<usize, Error> {
        self.with(id, |server| Ok(server.faults.answers_left()))
    }

    pub(crate) fn set_replicating(&self, id: i32, is_replicating: bool) -> Result<(), Error> {
        self.with(id, |_| {
            self.controller.set_replicating(id, is_replicating);
            Ok(())
        })
    }

    pub(crate) fn create_topic(
        &self,
        topic: &str,
        partitions: i32,
        replicas: usize,
    ) -> Result<(), Error> {
        let is_new = self.controller.create_topic(topic, partitions, replicas)?;
        check_new(topic, is_new)
    }

    pub(crate) fn create_assigned_topic(
        &self,
        topic: &str,
        replicas: &[Vec<i32>],
    ) -> Result<(), Error> {
        let is_new = self.controller.create_assigned_topic(topic, replicas)?;
        check_new(topic, is_new)
    }

    pub(crate) fn add_partitions(&self, topic: &str, total: i32) -> Result<(), Error> {
        self.controller.add_partitions(topic, total)
    }

    pub(crate) fn delete_topic(&self, topic: &str) -> Result<(), Error> {
        self.controller.delete_topic(topic)
    }

    pub(crate) fn move_leader(&self, of: &TopicPartition, broker: i32) -> Result<(), Error> {
        self.controller.move_leader(of, broker)
    }

    /// Appends on the leader, without a socket, and waits for the replicas. Returns the first offset.
    pub(crate) fn produce(
        &self,
        of: &TopicPartition,
        set: &MessageSet,
        acks: RequiredAcks,
    ) -> Result<i64, Error> {
        let leader = self.shared.read(|state| {
            let leader = state.partition(of).and_then(Partition::leader);
            leader.filter(|id| state.is_running(*id))
        });
        let leader = leader.ok_or_else(|| self.refused(of, ErrorCode::LeaderNotAvailable))?;
        let handler = self.handler(leader, &Arc::default());
        let appended = handler.append_set(of, set, acks);
        let appended = appended.map_err(|code| self.refused(of, code))?;
        let now = Instant::now();
        let deadline = now.checked_add(REPLICATION_TIMEOUT).unwrap_or(now);
        let stop = self.stopper.signal();
        let replicated = self.shared.wait_for(deadline, &stop, |state| {
            match handler.is_replicated(state, of, appended.log_end, acks) {
                Ok(true) => Ok(None),
                Ok(false) => Err(Some(ErrorCode::RequestTimedOut)),
                Err(code) => Ok(Some(code)),
            }
        });
        match replicated {
            None => Ok(appended.base_offset.unwrap_or(appended.log_end)),
            Some(code) => Err(self.refused(of, code)),
        }
    }

    /// The format in which the leader of a partition stores messages; format 0 where there is none.
    pub(crate) fn message_format(&self, of: &TopicPartition) -> MessageFormat {
        self.shared.read(|state| {
            let leader = state.partition(of).and_then(Partition::leader);
            leader
                .map(|leader| state.message_format(leader))
                .unwrap_or_default()
        })
    }

    /// Changes the logs of a partition.
    pub(super) fn change<T>(
        &self,
        of: &TopicPartition,
        change: impl FnOnce(&mut Partition) -> T,
    ) -> Result<T, Error> {
        let changed = self
            .shared
            .change(|state| state.change_partition(of, |partition, _| change(partition)));
        changed.ok_or_else(|| Error::InvalidArgument {
            name: "partition",
            reason: format!("{of} does not exist"),
        })
    }

    pub(crate) fn truncate(&self, of: &TopicPartition, offset: i64) -> Result<(), Error> {
        self.change(of, |partition| partition.truncate(offset))
    }

    pub(crate) fn lower_high_watermark(
        &self,
        of: &TopicPartition,
        offset: i64,
    ) -> Result<(), Error> {
        self.change(of, |partition| partition.lower_high_watermark(offset))
    }

    pub(crate) fn set_log_start(&self, of: &TopicPartition, offset: i64) -> Result<(), Error> {
        self.change(of, |partition| partition.set_log_start(offset))
    }

    pub(crate) fn corrupt(&self, of: &TopicPartition, offset: i64) -> Result<(), Error> {
        match self.change(of, |partition| partition.corrupt(offset))? {
            true => Ok(()),
            false => Err(Error::InvalidArgument {
                name: "offset",
                reason: format!("{of} has no message at {offset}, or no leader"),
            }),
        }
    }

    pub(crate) fn describe(&self) -> ClusterDescription {
        self.shared.read(|state| ClusterDescription {
            brokers: state
                .brokers
                .iter()
                .map(|(id, broker)| BrokerDescription {
                    id: *id,
                    address: broker.address.clone(),
                    version: state.version(*id),
                    is_running: broker.is_running,
                    is_registered: broker.is_registered,
                })
                .collect(),
            partitions: state
                .topics
                .iter()
                .flat_map(|(topic, partitions)| {
                    let numbered = (0..).zip(partitions);
                    numbered.map(|(n, p)| described(TopicPartition::new(topic.as_str(), n), p))
                })
                .collect(),
        })
    }

    fn sockets(
        &self,
        id: i32,
        port: u16,
        faults: &Arc<BrokerFaults>,
    ) -> Result<BrokerServer, Error> {
        let port = ReservedPort::new(port).map_err(|source| Error::Broker {
            address: BrokerAddress::new("127.0.0.1", port),
            doing: "reserving its port",
            source,
        })?;
        Ok(BrokerServer::new(port, self.handler(id, faults)))
    }

    fn handler(&self, id: i32, faults: &Arc<BrokerFaults>) -> RequestHandler {
        let shared = Arc::clone(&self.shared);
        let controller = Arc::clone(&self.controller);
        RequestHandler::new(id, shared, controller, Arc::clone(faults))
    }

    fn with<T>(
        &self,
        id: i32,
        run: impl FnOnce(&mut Server) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match self.servers.lock().get_mut(&id) {
            Some(server) => run(server),
            None => Err(Error::InvalidArgument {
                name: "broker",
                reason: format!("there is no broker {id}"),
            }),
        }
    }

    fn refused(&self, of: &TopicPartition, code: ErrorCode) -> Error {
        let address = self.shared.read(|state| {
            let leader = state.partition(of).and_then(Partition::leader);
            let leader = leader.and_then(|id| state.brokers.get(&id));
            leader.map(|broker| broker.address.clone())
        });
        Error::Partition {
            address: address.unwrap_or_else(|| BrokerAddress::new("embedded", 0)),
            api: "Produce",
            topic_partition: of.clone(),
            code,
        }
    }
}

impl Server {
    /// Listens first, so that whoever learns of the broker can connect to it.
    fn start(&mut self, controller: &Controller, id: i32) -> Result<(), Error> {
        self.sockets.listen()?;
        controller.broker_started(id, self.sockets.address());
        Ok(())
    }
}

fn check_new(topic: &str, is_new: bool) -> Result<(), Error> {
    match is_new {
        true => Ok(()),
        false => Err(Error::InvalidArgument {
            name: "topic",
            reason: format!("{topic} exists already"),
        }),
    }
}

fn described(of: TopicPartition, partition: &Partition) -> PartitionDescription {
    let log = partition.leading_log();
    PartitionDescription {
        topic_partition: of,
        leader: partition.leader(),
        replicas: partition.replicas().to_vec(),
        isr: partition.isr().to_vec(),
        log_start: log.map_or(0, |log| log.log_start()),
        high_watermark: partition.high_watermark(),
        log_end: log.map_or(0, |log| log.log_end()),
        bytes: log.map_or(0, |log| log.size()),
    }
}
