//! What the cluster tells ZooKeeper.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use crate::cluster::TopicPartition;
use crate::embedded::broker::cluster_state::BrokerState;
use crate::embedded::broker::partition::Partition;
use crate::embedded::clock::milliseconds_now;
use crate::embedded::zookeeper::CreateMode;
use crate::embedded::zookeeper::EmbeddedZooKeeper;
use crate::embedded::zookeeper::LocalSession;
use crate::embedded::zookeeper::NodeError;

/// Nodes that a broker of 0.8.2 makes when it starts.
const LAYOUT: [&str; 7] = [
    "/consumers",
    "/brokers/ids",
    "/brokers/topics",
    "/config/topics",
    "/config/changes",
    "/admin/delete_topics",
    "/controller_epoch",
];

/// Writes the nodes of a cluster. Every call may be repeated: it makes a node what it has to be.
#[derive(Debug)]
pub(super) struct Registry {
    zookeeper: Arc<EmbeddedZooKeeper>,
    /// Makes the persistent nodes.
    own: LocalSession,
    /// Hold the ephemeral nodes of each broker.
    brokers: BTreeMap<i32, LocalSession>,
}

impl Registry {
    pub(super) fn new(zookeeper: Arc<EmbeddedZooKeeper>) -> Self {
        Self {
            own: zookeeper.local_session(),
            zookeeper,
            brokers: BTreeMap::new(),
        }
    }

    pub(super) fn write_layout(&mut self) -> Result<(), NodeError> {
        for path in LAYOUT {
            self.create(path, b"")?;
        }
        Ok(())
    }

    /// Registers a broker, under a new session if the old one has ended.
    pub(super) fn write_broker(&mut self, id: i32, broker: &BrokerState) -> Result<(), NodeError> {
        let path = format!("/brokers/ids/{id}");
        let data = broker_json(broker).to_string();
        self.write_ephemeral(id, &path, data.as_bytes())
    }

    /// Ends a broker's session, and its nodes with it.
    pub(super) fn forget_broker(&mut self, id: i32) {
        self.brokers.remove(&id);
    }

    /// Whether the broker's registration is there.
    pub(super) fn has_broker(&self, id: i32) -> bool {
        let session = self.brokers.get(&id);
        let found = session.map(|session| session.exists(&format!("/brokers/ids/{id}")));
        match found {
            Some(Ok(node)) => node.is_some(),
            // A server that is stopped tells nothing about the registration.
            Some(Err(error)) => error != NodeError::SessionExpired,
            None => false,
        }
    }

    pub(super) fn write_controller(&mut self, id: i32, epoch: i32) -> Result<(), NodeError> {
        let data = json!({"version": 1, "brokerid": id, "timestamp": timestamp()}).to_string();
        self.write_ephemeral(id, "/controller", data.as_bytes())?;
        self.write("/controller_epoch", epoch.to_string().as_bytes())
    }

    pub(super) fn write_topic(
        &mut self,
        topic: &str,
        partitions: &[Partition],
    ) -> Result<(), NodeError> {
        let numbers = (0..partitions.len()).map(|number| number.to_string());
        let replicas = partitions
            .iter()
            .map(|partition| json!(partition.replicas()));
        let partitions: Map<String, Value> = numbers.zip(replicas).collect();
        let config = json!({"version": 1, "config": {}}).to_string();
        self.create(&format!("/config/topics/{topic}"), config.as_bytes())?;
        let data = json!({"version": 1, "partitions": partitions}).to_string();
        self.write(&format!("/brokers/topics/{topic}"), data.as_bytes())
    }

    pub(super) fn delete_topic(&mut self, topic: &str) -> Result<(), NodeError> {
        self.delete(&format!("/brokers/topics/{topic}"))?;
        self.delete(&format!("/config/topics/{topic}"))
    }

    pub(super) fn write_partition(
        &mut self,
        of: &TopicPartition,
        partition: &Partition,
        controller_epoch: i32,
    ) -> Result<(), NodeError> {
        let data = json!({
            "controller_epoch": controller_epoch,
            "leader": partition.leader().unwrap_or(-1),
            "version": 1,
            "leader_epoch": partition.leader_epoch(),
            "isr": partition.isr(),
        });
        let path = format!(
            "/brokers/topics/{}/partitions/{}/state",
            of.topic(),
            of.partition()
        );
        self.write(&path, data.to_string().as_bytes())
    }

    /// Overwrites or creates a persistent node, and its parents.
    pub(super) fn write(&mut self, path: &str, data: &[u8]) -> Result<(), NodeError> {
        match self.own().set(path, data, None) {
            Ok(_) => Ok(()),
            Err(NodeError::NoNode) => self.create(path, data),
            Err(error) => Err(error),
        }
    }

    /// The text of a node; `None` where there is none.
    pub(super) fn read(&mut self, path: &str) -> Result<Option<Vec<u8>>, NodeError> {
        match self.own().get(path) {
            Ok((data, _)) => Ok(Some(data)),
            Err(NodeError::NoNode) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Names of the nodes below; none where the node itself is missing.
    pub(super) fn children(&mut self, path: &str) -> Result<Vec<String>, NodeError> {
        match self.own().children(path) {
            Err(NodeError::NoNode) => Ok(Vec::new()),
            children => children,
        }
    }

    /// Creates a persistent node, and its parents. One that exists stays as it is.
    fn create(&mut self, path: &str, data: &[u8]) -> Result<(), NodeError> {
        let created = self
            .own()
            .create_with_parents(path, data, CreateMode::Persistent);
        match created {
            Ok(_) | Err(NodeError::NodeExists) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes a node and all below it.
    fn delete(&mut self, path: &str) -> Result<(), NodeError> {
        let children = match self.own().children(path) {
            Ok(children) => children,
            Err(NodeError::NoNode) => return Ok(()),
            Err(error) => return Err(error),
        };
        for child in children {
            self.delete(&format!("{path}/{child}"))?;
        }
        self.own().delete(path, None)
    }

    /// Makes a node of the broker's session. What another session left there is replaced.
    fn write_ephemeral(&mut self, id: i32, path: &str, data: &[u8]) -> Result<(), NodeError> {
        let is_open = self.brokers.get(&id).is_some_and(is_open);
        if !is_open {
            self.brokers.insert(id, self.zookeeper.local_session());
        }
        let Some(session) = self.brokers.get(&id) else {
            return Err(NodeError::SessionExpired);
        };
        if let Some(stat) = session.exists(path)? {
            if stat.ephemeral_owner == Some(session.id()) {
                return session.set(path, data, None).map(drop);
            }
            session.delete(path, None)?;
        }
        session
            .create_with_parents(path, data, CreateMode::Ephemeral)
            .map(drop)
    }

    /// The session for persistent nodes, a new one if the old one has ended.
    fn own(&mut self) -> &LocalSession {
        if !is_open(&self.own) {
            self.own = self.zookeeper.local_session();
        }
        &self.own
    }
}

fn is_open(session: &LocalSession) -> bool {
    session.exists("/") != Err(NodeError::SessionExpired)
}

fn broker_json(broker: &BrokerState) -> Value {
    let version = broker.protocol.behaviour().registration;
    let address = &broker.advertised;
    let mut registration = json!({
        "jmx_port": -1,
        "timestamp": timestamp(),
        "host": address.host,
        "version": version,
        "port": address.port,
    });
    let Some(fields) = registration.as_object_mut() else {
        return registration;
    };
    if version >= 2 {
        let endpoints = json!([format!("PLAINTEXT://{address}")]);
        fields.insert(String::from("endpoints"), endpoints);
    }
    if version >= 4 {
        let protocols = json!({"PLAINTEXT": "PLAINTEXT"});
        fields.insert(String::from("listener_security_protocol_map"), protocols);
    }
    registration
}

/// Milliseconds since 1970, as text.
fn timestamp() -> String {
    milliseconds_now().to_string()
}
