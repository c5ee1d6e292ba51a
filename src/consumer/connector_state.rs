//! What a connector is doing, for those who watch it from outside.

use std::fmt;

use parking_lot::Mutex;

/// What a connector is doing, or waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectorState {
    /// Connected to ZooKeeper; not in the group, because no streams were created yet.
    Created,
    /// Working out what it owns, or waiting for the next attempt.
    Rebalancing {
        /// Attempts that failed since the last success.
        failed_attempts: u32,
        /// Why the last of them failed.
        last_failure: Option<String>,
    },
    /// Owns its part of the partitions, which may be none.
    Consuming {
        /// Number of the assignment, from 1.
        generation: u64,
        /// How many partitions.
        partitions: usize,
    },
    /// Waits for a broker to register in ZooKeeper.
    WaitingForBrokers,
    /// Goes on consuming while ZooKeeper is out of reach: in a group until the session may have ended, and with
    /// partitions that were chosen without it for as long as that takes.
    Disconnected,
    /// Has given up its partitions, because the ZooKeeper session ended or may have ended; waits for ZooKeeper.
    SessionLost,
    /// Shut down, for good.
    ShutDown,
}

impl fmt::Display for ConnectorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("created"),
            Self::Rebalancing {
                failed_attempts: 0, ..
            } => f.write_str("rebalancing"),
            Self::Rebalancing {
                failed_attempts,
                last_failure,
            } => {
                write!(f, "rebalancing, {failed_attempts} attempts failed")?;
                match last_failure {
                    Some(reason) => write!(f, ": {reason}"),
                    None => Ok(()),
                }
            }
            Self::Consuming {
                generation,
                partitions,
            } => write!(
                f,
                "consuming {partitions} partitions, generation {generation}"
            ),
            Self::WaitingForBrokers => f.write_str("waiting for brokers"),
            Self::Disconnected => f.write_str("consuming, disconnected from zookeeper"),
            Self::SessionLost => f.write_str("zookeeper session lost, waiting for zookeeper"),
            Self::ShutDown => f.write_str("shut down"),
        }
    }
}

/// The present state, written by the thread that changes it.
#[derive(Debug)]
pub(crate) struct StateCell {
    state: Mutex<ConnectorState>,
}

impl StateCell {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(ConnectorState::Created),
        }
    }

    pub(crate) fn get(&self) -> ConnectorState {
        self.state.lock().clone()
    }

    /// Nothing follows a shutdown.
    pub(crate) fn set(&self, state: ConnectorState) {
        let mut present = self.state.lock();
        if *present != ConnectorState::ShutDown {
            *present = state;
        }
    }
}
