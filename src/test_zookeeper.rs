//! The servers that tests of the layers above ZooKeeper run against.

#[cfg(feature = "real-brokers")]
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

/// Which server to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    #[cfg(feature = "embedded")]
    Embedded,
    #[cfg(feature = "real-brokers")]
    Real(support::ZooKeeperVersion),
}

impl ServerKind {
    pub(crate) fn start(self) -> Box<dyn TestZooKeeper> {
        match self {
            #[cfg(feature = "embedded")]
            Self::Embedded => Box::new(start_embedded()),
            #[cfg(feature = "real-brokers")]
            Self::Real(version) => Box::new(support::ZooKeeper::start_version(version)),
        }
    }
}

#[cfg(feature = "embedded")]
fn start_embedded() -> crate::embedded::EmbeddedZooKeeper {
    use std::time::Duration;

    let options = crate::embedded::EmbeddedZooKeeperOptions {
        tick: Duration::from_millis(500),
        min_session_timeout: Some(Duration::from_secs(1)),
        max_session_timeout: Some(Duration::from_secs(60)),
        ..Default::default()
    };
    crate::embedded::EmbeddedZooKeeper::start(options).unwrap()
}

/// Runs scenarios, functions of the surrounding module that take what `$prepare` makes of a
/// [`ServerKind`], against all servers that there are.
macro_rules! scenarios {
    ($prepare:expr; $($name:ident),* $(,)?) => {
        crate::test_zookeeper::scenarios_of_3_4! { $prepare; $($name),* }
        #[cfg(feature = "real-brokers")]
        mod on_3_8 {
            use crate::support::ZooKeeperVersion;
            use crate::test_zookeeper::ServerKind;
            const KIND: ServerKind = ServerKind::Real(ZooKeeperVersion::Debian);
            $(#[test] fn $name() { super::$name($prepare(KIND)); })*
        }
    };
}
pub(crate) use scenarios;

/// As [`scenarios`], without the servers that know more than ZooKeeper 3.4.
macro_rules! scenarios_of_3_4 {
    ($prepare:expr; $($name:ident),* $(,)?) => {
        #[cfg(feature = "embedded")]
        mod on_embedded {
            use crate::test_zookeeper::ServerKind;
            $(#[test] fn $name() { super::$name($prepare(ServerKind::Embedded)); })*
        }
        #[cfg(feature = "real-brokers")]
        mod on_3_4_6 {
            use crate::support::ZooKeeperVersion;
            use crate::test_zookeeper::ServerKind;
            const KIND: ServerKind = ServerKind::Real(ZooKeeperVersion::V3_4_6);
            $(#[test] fn $name() { super::$name($prepare(KIND)); })*
        }
    };
}
pub(crate) use scenarios_of_3_4;

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
            support::ZooKeeperVersion::BesideKafka(_) => "on_3_4_6",
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
