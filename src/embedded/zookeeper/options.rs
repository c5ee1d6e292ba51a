use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;

/// How an [`EmbeddedZooKeeper`](crate::embedded::EmbeddedZooKeeper) is set up.
#[derive(Clone, Debug)]
pub struct EmbeddedZooKeeperOptions {
    /// `clientPort`, on the loopback interface; 0, the default, is any free port.
    pub port: u16,
    /// `tickTime`, 2 s by default: a session may live for one tick longer than its timeout.
    pub tick: Duration,
    /// `minSessionTimeout`; `None`, the default, is two ticks.
    pub min_session_timeout: Option<Duration>,
    /// `maxSessionTimeout`; `None`, the default, is twenty ticks.
    pub max_session_timeout: Option<Duration>,
    /// `dataDir`, the folder that keeps the persistent nodes for the next server, one at a time; with `None`, the
    /// default, they end with this one.
    pub data_dir: Option<PathBuf>,
}

impl Default for EmbeddedZooKeeperOptions {
    fn default() -> Self {
        Self {
            port: 0,
            tick: Duration::from_secs(2),
            min_session_timeout: None,
            max_session_timeout: None,
            data_dir: None,
        }
    }
}

impl EmbeddedZooKeeperOptions {
    pub(super) fn check(&self) -> Result<(), Error> {
        let (min, max) = (self.min(), self.max());
        let invalid = |name, reason| Err(Error::InvalidArgument { name, reason });
        if self.tick.is_zero() {
            return invalid("tick", String::from("0 s"));
        }
        if min > max {
            let reason = format!("{min:?} is more than the maximum of {max:?}");
            return invalid("minimum session timeout", reason);
        }
        Ok(())
    }

    /// The session timeout that a client gets that asks for `wanted`.
    pub(super) fn negotiate(&self, wanted: Duration) -> Duration {
        wanted.min(self.max()).max(self.min())
    }

    fn min(&self) -> Duration {
        self.min_session_timeout.unwrap_or(self.tick * 2)
    }

    fn max(&self) -> Duration {
        self.max_session_timeout.unwrap_or(self.tick * 20)
    }
}
