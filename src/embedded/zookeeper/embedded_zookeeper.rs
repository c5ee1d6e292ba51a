use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::embedded::reserved_port::ReservedPort;
use crate::embedded::zookeeper::acceptor::Acceptor;
use crate::embedded::zookeeper::local_session::LocalSession;
use crate::embedded::zookeeper::options::EmbeddedZooKeeperOptions;
use crate::embedded::zookeeper::server::Server;
use crate::embedded::zookeeper::session::SessionInfo;
use crate::error::Error;
use crate::thread::ShutdownableThread;

/// A ZooKeeper server of this process, for development and tests.
///
/// It speaks the protocol of ZooKeeper 3.4 on a loopback port. Dropping it ends its threads and
/// closes its sockets; the nodes are gone then, unless the options name a folder for them.
#[derive(Debug)]
pub struct EmbeddedZooKeeper {
    server: Arc<Server>,
    port: ReservedPort,
    running: Mutex<Running>,
}

/// What runs while the server does.
#[derive(Debug, Default)]
struct Running {
    acceptor: Option<Acceptor>,
    expiry: Option<ShutdownableThread>,
    refuses: bool,
}

impl EmbeddedZooKeeper {
    /// Starts to serve.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`] when the port is taken, [`Error::InvalidArgument`] when the options
    /// contradict each other, [`Error::DataFolder`] when the folder cannot be used.
    pub fn start(options: EmbeddedZooKeeperOptions) -> Result<Self, Error> {
        options.check()?;
        let port = ReservedPort::new(options.port).map_err(|error| Error::ZooKeeper {
            doing: format!("binding port {}", options.port),
            source: Box::new(error),
        })?;
        let path = options.data_dir.clone().unwrap_or_default();
        let server = Server::new(options);
        let server = server.map_err(|source| Error::DataFolder { path, source })?;
        let zookeeper = Self {
            server: Arc::new(server),
            port,
            running: Mutex::default(),
        };
        zookeeper.restart()?;
        Ok(zookeeper)
    }

    /// `127.0.0.1:<port>`
    pub fn connect_string(&self) -> String {
        self.port.address().to_string()
    }

    /// The port it listens on, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// A session that needs no connection.
    pub fn local_session(&self) -> LocalSession {
        LocalSession::open(&self.server)
    }

    /// All sessions in the order in which they were opened.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.server.database().session_infos()
    }

    /// Ends a session as if its time were over: its ephemeral nodes are deleted, its connection is
    /// cut, and its client will not get it back. `false` when there is no such session.
    pub fn expire_session(&self, id: i64) -> bool {
        self.server.expire_session(id)
    }

    /// Cuts all connections; clients may come back at once, and their sessions wait for them.
    pub fn drop_connections(&self) {
        self.server.drop_connections();
    }

    /// Whether new connections are refused, as if no server listened. Those that exist go on.
    ///
    /// # Errors
    /// As [`restart`](Self::restart)
    pub fn refuse_connections(&self, refuses: bool) -> Result<(), Error> {
        let mut running = self.running.lock();
        running.refuses = refuses;
        self.listen_or_not(&mut running)
    }

    /// Whether the server hangs: it lets clients connect, but reads no request and sends no answer
    /// until this is over. Sessions that are not heard of meanwhile expire.
    pub fn silence(&self, is_silent: bool) {
        self.server.set_silent(is_silent);
    }

    /// Holds every answer and every event back for so long; zero ends that.
    pub fn delay(&self, delay: Duration) {
        self.server.set_delay(delay);
    }

    /// Ends serving as a kill would: connections break, new ones are refused. The port stays ours,
    /// and the nodes and the sessions are there again after [`restart`](Self::restart).
    pub fn stop(&self) {
        self.stop_running(&mut self.running.lock());
    }

    /// Serves again, after [`stop`](Self::stop) if it still runs. No session has expired meanwhile,
    /// and each has all of its timeout before it.
    ///
    /// # Errors
    /// [`Error::ZooKeeper`] when the port is taken, [`Error::Thread`] when there are no threads.
    pub fn restart(&self) -> Result<(), Error> {
        let mut running = self.running.lock();
        self.stop_running(&mut running);
        self.server.set_running(true);
        let server = Arc::clone(&self.server);
        running.expiry = Some(ShutdownableThread::start("zk-expiry", move |stop| {
            server.expire_sessions(&stop);
        })?);
        self.listen_or_not(&mut running)
    }

    fn stop_running(&self, running: &mut Running) {
        self.server.set_running(false);
        running.acceptor = None;
        running.expiry = None;
        self.server.drop_connections();
    }

    fn listen_or_not(&self, running: &mut Running) -> Result<(), Error> {
        if running.refuses || !self.server.is_running() {
            running.acceptor = None;
        } else if running.acceptor.is_none() {
            let server = Arc::clone(&self.server);
            running.acceptor = Some(Acceptor::start(server, &self.port)?);
        }
        Ok(())
    }
}

impl Drop for EmbeddedZooKeeper {
    fn drop(&mut self) {
        self.stop();
    }
}
