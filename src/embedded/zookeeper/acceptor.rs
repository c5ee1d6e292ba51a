use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::embedded::reserved_port::ReservedPort;
use crate::embedded::zookeeper::server::Server;
use crate::error::Error;
use crate::thread::ShutdownableThread;
use crate::thread::StopSignal;

/// The pause after a failure to accept, e.g. for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(20);

/// Lets clients in, for as long as it exists. Then connecting is refused.
#[derive(Debug)]
pub(super) struct Acceptor {
    address: SocketAddr,
    thread: ShutdownableThread,
}

impl Acceptor {
    pub(super) fn start(server: Arc<Server>, port: &ReservedPort) -> Result<Self, Error> {
        let listener = port.listen().map_err(|error| Error::ZooKeeper {
            doing: format!("listening on {}", port.address()),
            source: Box::new(error),
        })?;
        let thread = ShutdownableThread::start("zk-accept", move |stop| {
            accept(&server, &listener, &stop);
        })?;
        Ok(Self {
            address: port.address(),
            thread,
        })
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.thread.signal_stop();
        // Nothing else ends the wait for a client everywhere; it is not served.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        self.thread.stop();
    }
}

fn accept(server: &Arc<Server>, listener: &TcpListener, stop: &StopSignal) {
    loop {
        let accepted = listener.accept();
        if stop.is_stopped() {
            return;
        }
        let admitted = accepted.and_then(|(socket, peer)| {
            socket.set_nodelay(true)?;
            server.admit(socket, peer)
        });
        if let Err(error) = admitted {
            log::warn!("embedded zookeeper could not admit a client: {error}");
            stop.pause(PAUSE);
        }
    }
}
