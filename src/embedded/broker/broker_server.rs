//! The sockets of one broker.

use std::io;
use std::io::BufReader;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::cluster::BrokerAddress;
use crate::embedded::broker::request_handler::Reply;
use crate::embedded::broker::request_handler::RequestHandler;
use crate::embedded::reserved_port::ReservedPort;
use crate::error::Error;
use crate::protocol::Reader;
use crate::thread::ShutdownableThread;
use crate::thread::StopSignal;

/// Bytes of a request's header without its client id.
const LEAST_REQUEST: usize = 10;

/// `socket.request.max.bytes`.
const LARGEST_REQUEST: usize = 100 * 1024 * 1024;

/// Between two attempts to accept while the system has no socket left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);

/// A listening socket, and a thread for each connection. Its port stays reserved while it does not listen.
#[derive(Debug)]
pub(super) struct BrokerServer {
    port: ReservedPort,
    handler: Arc<RequestHandler>,
    acceptor: Option<ShutdownableThread>,
    connections: Arc<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    open: Mutex<Vec<Connection>>,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    thread: ShutdownableThread,
}

impl BrokerServer {
    /// Reserves the port (0 for any that is free), without listening.
    pub(super) fn new(port: ReservedPort, handler: RequestHandler) -> Self {
        Self {
            port,
            handler: Arc::new(handler),
            acceptor: None,
            connections: Arc::default(),
        }
    }

    pub(super) fn address(&self) -> BrokerAddress {
        BrokerAddress::new("127.0.0.1", self.port.port())
    }

    /// Begins to accept connections, unless it does already.
    pub(super) fn listen(&mut self) -> Result<(), Error> {
        if self.acceptor.is_some() {
            return Ok(());
        }
        let listener = self.port.listen().map_err(|source| Error::Broker {
            address: self.address(),
            doing: "listening",
            source,
        })?;
        let handler = Arc::clone(&self.handler);
        let connections = Arc::clone(&self.connections);
        let name = format!("embedded-broker-{}", handler.id());
        let acceptor = ShutdownableThread::start(name, move |stop| {
            accept(&listener, &handler, &connections, &stop);
        })?;
        self.acceptor = Some(acceptor);
        Ok(())
    }

    /// Refuses new connections and cuts the present ones.
    pub(super) fn stop(&mut self) {
        if let Some(mut acceptor) = self.acceptor.take() {
            acceptor.signal_stop();
            // Ends its wait for the next connection.
            drop(TcpStream::connect(self.port.address()));
            acceptor.stop();
        }
        self.cut_connections();
    }

    /// Ends all present connections.
    pub(super) fn cut_connections(&self) {
        let open: Vec<Connection> = self.connections.open.lock().drain(..).collect();
        for connection in &open {
            connection.thread.signal_stop();
            // A connection that the client has ended needs no end.
            let _ = connection.stream.shutdown(Shutdown::Both);
        }
        self.handler.shared().wake();
        self.handler.faults().wake();
        drop(open);
    }
}

impl Drop for BrokerServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Connections {
    fn add(&self, stream: TcpStream, handler: &Arc<RequestHandler>) -> Result<(), Error> {
        let failed = |source| Error::Broker {
            address: BrokerAddress::new("127.0.0.1", 0),
            doing: "accepting",
            source,
        };
        stream.set_nodelay(true).map_err(failed)?;
        let served = stream.try_clone().map_err(failed)?;
        let handler = Arc::clone(handler);
        let name = format!("embedded-connection-{}", handler.id());
        let thread = ShutdownableThread::start(name, move |stop| serve(served, &handler, &stop))?;
        let mut open = self.open.lock();
        open.retain(|connection| !connection.thread.is_finished());
        open.push(Connection { stream, thread });
        Ok(())
    }
}

fn accept(
    listener: &TcpListener,
    handler: &Arc<RequestHandler>,
    connections: &Connections,
    stop: &StopSignal,
) {
    while !stop.is_stopped() {
        let added = match listener.accept() {
            Ok(_) if stop.is_stopped() => return,
            Ok((stream, _)) => connections.add(stream, handler),
            Err(error) => {
                log::warn!("broker {} cannot accept: {error}", handler.id());
                stop.pause(ACCEPT_BACKOFF);
                continue;
            }
        };
        if let Err(error) = added {
            log::warn!("broker {} drops a connection: {error}", handler.id());
        }
    }
}

/// Serves one connection, one request after the other, until either side ends it.
fn serve(stream: TcpStream, handler: &RequestHandler, stop: &StopSignal) {
    match serve_requests(&stream, handler, stop) {
        Ok(()) => (),
        Err(error) => log::debug!("broker {} lost a client: {error}", handler.id()),
    }
    // The owner of the connection holds another handle, so dropping this one would not end it.
    let _ = stream.shutdown(Shutdown::Both);
}

fn serve_requests(
    stream: &TcpStream,
    handler: &RequestHandler,
    stop: &StopSignal,
) -> io::Result<()> {
    let mut requests = BufReader::new(stream);
    let mut answers = stream;
    while !stop.is_stopped() {
        let Ok(mut frame) = Reader::next_frame(&mut requests, LEAST_REQUEST, LARGEST_REQUEST)
        else {
            return Ok(());
        };
        let reply = handler.handle(&mut frame, stop);
        // What could not be read is left behind by a broker that stays on the line.
        if frame.skip_rest().is_err() || reply == Reply::Close {
            return Ok(());
        }
        if reply != Reply::Nothing && !handler.faults().hold_back(stop) {
            return Ok(());
        }
        match reply {
            Reply::Frame(frame) => answers.write_all(&frame)?,
            Reply::LastFrame(frame) => return answers.write_all(&frame),
            Reply::Nothing | Reply::Close => (),
        }
    }
    Ok(())
}
