//! The servers that tests of the layers above ZooKeeper run against.

use crate::support;

/// A server that grants session timeouts from 1 to 60 s, in steps of half a second.
pub(crate) trait TestZooKeeper: Send + Sync {
    /// The module that [`scenarios`] puts the tests against this server into.
    fn module(&self) -> &'static str;

    /// `127.0.0.1:<port>`
    fn connect_string(&self) -> String {
        format!("127.0.0.1:{}", self.port())
    }

    fn port(&self) -> u16;

    /// Breaks connections; what is stored, and the port, stay for [`restart`](Self::restart).
    fn kill(&mut self);

    /// After killing it if it still runs. Sessions survive.
    fn restart(&mut self);

    /// Stops serving while its sockets stay open.
    fn pause(&mut self);

    fn resume(&mut self);
}

/// Runs each scenario, a function of the surrounding module that takes what `$prepare` makes of a
/// server, against all servers that there are.
macro_rules! scenarios {
    ($prepare:expr; $($name:ident),* $(,)?) => {
        #[cfg(feature = "embedded")]
        mod on_embedded {
            $(#[test] fn $name() { super::$name($prepare(crate::test_zookeeper::embedded())); })*
        }
        #[cfg(feature = "real-brokers")]
        mod on_3_4_6 {
            $(#[test] fn $name() { super::$name($prepare(crate::test_zookeeper::v3_4_6())); })*
        }
        #[cfg(feature = "real-brokers")]
        mod on_3_8 {
            $(#[test] fn $name() { super::$name($prepare(crate::test_zookeeper::v3_8())); })*
        }
    };
}
pub(crate) use scenarios;

#[cfg(feature = "embedded")]
pub(crate) fn embedded() -> Box<dyn TestZooKeeper> {
    let options = crate::embedded::EmbeddedZooKeeperOptions {
        tick: std::time::Duration::from_millis(500),
        min_session_timeout: Some(std::time::Duration::from_secs(1)),
        max_session_timeout: Some(std::time::Duration::from_secs(60)),
        ..Default::default()
    };
    Box::new(crate::embedded::EmbeddedZooKeeper::start(options).unwrap())
}

#[cfg(feature = "real-brokers")]
pub(crate) fn v3_4_6() -> Box<dyn TestZooKeeper> {
    let version = support::ZooKeeperVersion::V3_4_6;
    Box::new(support::ZooKeeper::start_version(version))
}

#[cfg(feature = "real-brokers")]
pub(crate) fn v3_8() -> Box<dyn TestZooKeeper> {
    let version = support::ZooKeeperVersion::Debian;
    Box::new(support::ZooKeeper::start_version(version))
}

#[cfg(feature = "embedded")]
impl TestZooKeeper for crate::embedded::EmbeddedZooKeeper {
    fn module(&self) -> &'static str {
        "on_embedded"
    }

    fn port(&self) -> u16 {
        self.port()
    }

    fn kill(&mut self) {
        self.stop();
    }

    fn restart(&mut self) {
        crate::embedded::EmbeddedZooKeeper::restart(self).unwrap();
    }

    fn pause(&mut self) {
        self.silence(true);
    }

    fn resume(&mut self) {
        self.silence(false);
    }
}

#[cfg(feature = "real-brokers")]
impl TestZooKeeper for support::ZooKeeper {
    fn module(&self) -> &'static str {
        match self.version() {
            support::ZooKeeperVersion::V3_4_6 => "on_3_4_6",
            support::ZooKeeperVersion::Debian => "on_3_8",
        }
    }

    fn port(&self) -> u16 {
        self.port()
    }

    fn kill(&mut self) {
        self.kill();
    }

    fn restart(&mut self) {
        self.restart();
    }

    fn pause(&mut self) {
        self.pause();
    }

    fn resume(&mut self) {
        self.resume();
    }
}
