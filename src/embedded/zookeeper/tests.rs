//! The server as its clients see it.

mod faults;
mod hostile;
mod local;
mod wire;
mod wire_client;

use std::time::Duration;

use crate::embedded::EmbeddedZooKeeper;
use crate::embedded::EmbeddedZooKeeperOptions;

/// Longer than anything here may take.
const LIMIT: Duration = Duration::from_secs(20);

fn start() -> EmbeddedZooKeeper {
    EmbeddedZooKeeper::start(EmbeddedZooKeeperOptions {
        tick: Duration::from_millis(50),
        min_session_timeout: Some(Duration::from_millis(200)),
        max_session_timeout: Some(Duration::from_secs(60)),
        ..EmbeddedZooKeeperOptions::default()
    })
    .unwrap()
}
