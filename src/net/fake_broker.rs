//! A broker for tests: listens on a free local port and does what its handlers say, one handler per API.

use std::collections::HashMap;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use socket2::Domain;
use socket2::SockAddr;
use socket2::SockRef;
use socket2::Socket;
use socket2::Type;

use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::protocol::Reader;
use crate::protocol::Request;
use crate::protocol::RequestHeader;
use crate::protocol::Response;
use crate::protocol::response_frame;

/// What a handler wants done with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Read the next request.
    GoOn,
    /// Close in order.
    HangUp,
    /// Close with a reset.
    Reset,
}

/// One request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) header: RequestHeader,
    body: Vec<u8>,
    /// How many requests of this API came before, over all connections.
    pub(crate) before: usize,
}

type Handler = Box<dyn Fn(&Received, &mut TcpStream) -> Then + Send + Sync>;

/// The broker. Dropping it closes its port and all its connections.
pub(crate) struct FakeBroker {
    address: BrokerAddress,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    handlers: HashMap<i16, Handler>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_closed: bool,
    /// One for each connection that ever was.
    streams: Vec<TcpStream>,
    received: Vec<RequestHeader>,
}

/// Collects handlers, then [`start`](Self::start)s.
#[derive(Default)]
pub(crate) struct FakeBrokerBuilder {
    handlers: HashMap<i16, Handler>,
}

impl FakeBrokerBuilder {
    /// Whoever sends a `Q` is left to `handler`.
    pub(crate) fn on<Q: Request>(
        mut self,
        handler: impl Fn(&Received, &mut TcpStream) -> Then + Send + Sync + 'static,
    ) -> Self {
        self.handlers.insert(Q::KEY, Box::new(handler));
        self
    }

    /// Whoever sends a `Q` gets what `answer` makes of it.
    pub(crate) fn answer<Q: Request>(
        self,
        answer: impl Fn(Q) -> Q::Response + Send + Sync + 'static,
    ) -> Self {
        self.on::<Q>(move |received, stream| {
            received.send(stream, &answer(received.decode()));
            Then::GoOn
        })
    }

    pub(crate) fn start(self) -> FakeBroker {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            handlers: self.handlers,
            state: Mutex::default(),
        });
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || accept(&listener, &shared))
        };
        FakeBroker {
            address: BrokerAddress::new("127.0.0.1", port),
            shared,
            acceptor: Some(acceptor),
        }
    }
}

impl FakeBroker {
    /// One that answers `Q` only.
    pub(crate) fn answering<Q: Request>(
        answer: impl Fn(Q) -> Q::Response + Send + Sync + 'static,
    ) -> Self {
        FakeBrokerBuilder::default().answer(answer).start()
    }

    /// One that leaves `Q` to `handler`.
    pub(crate) fn handling<Q: Request>(
        handler: impl Fn(&Received, &mut TcpStream) -> Then + Send + Sync + 'static,
    ) -> Self {
        FakeBrokerBuilder::default().on::<Q>(handler).start()
    }

    pub(crate) fn address(&self) -> BrokerAddress {
        self.address.clone()
    }

    pub(crate) fn as_broker(&self, id: i32) -> Broker {
        Broker {
            id,
            address: self.address(),
        }
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.shared.state.lock().streams.len()
    }

    /// The headers of all requests so far.
    pub(crate) fn received(&self) -> Vec<RequestHeader> {
        self.shared.state.lock().received.clone()
    }

    /// Closes all connections in order, as a broker does with idle ones, and goes on listening.
    pub(crate) fn hang_up(&self) {
        for stream in &self.shared.state.lock().streams {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

impl Drop for FakeBroker {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.hang_up();
        // Wakes the acceptor.
        drop(TcpStream::connect((
            self.address.host.as_str(),
            self.address.port,
        )));
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
    }
}

impl Received {
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn decode<Q: Request>(&self) -> Q {
        let mut body = Reader::new(&self.body);
        Q::decode(self.header.api_version, &mut body).unwrap()
    }

    /// The whole frame of the answer.
    pub(crate) fn frame<P: Response>(&self, response: &P) -> Vec<u8> {
        let header = &self.header;
        response_frame(
            response,
            header.api_version,
            header.correlation_id,
            Vec::new(),
        )
        .unwrap()
    }

    /// Answers. That the client is gone is no concern of the broker's.
    pub(crate) fn send<P: Response>(&self, stream: &mut TcpStream, response: &P) {
        drop(stream.write_all(&self.frame(response)));
    }
}

/// Waits until the client hangs up: the handler of a broker that does not answer.
pub(crate) fn await_hang_up(stream: &mut TcpStream) -> Then {
    drop(stream.read(&mut [0]));
    Then::HangUp
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads = Vec::new();
    for stream in listener.incoming() {
        let stream = stream.unwrap();
        let mut state = shared.state.lock();
        if state.is_closed {
            break;
        }
        state.streams.push(stream.try_clone().unwrap());
        let shared = Arc::clone(shared);
        threads.push(thread::spawn(move || serve(stream, &shared)));
    }
    for thread in threads {
        drop(thread.join());
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) {
    while let Some(received) = receive(&mut stream, shared) {
        let handler = shared.handlers.get(&received.header.api_key);
        // As old brokers do with what they do not know.
        match handler.map_or(Then::HangUp, |handler| handler(&received, &mut stream)) {
            Then::GoOn => {}
            Then::HangUp => break,
            Then::Reset => {
                SockRef::from(&stream)
                    .set_linger(Some(Duration::ZERO))
                    .unwrap();
                forget(&stream, shared);
                return;
            }
        }
    }
    drop(stream.shutdown(Shutdown::Both));
}

/// Drops the broker's own handle, without which closing the stream would not close the connection.
fn forget(stream: &TcpStream, shared: &Shared) {
    let peer = stream.peer_addr().unwrap();
    let mut state = shared.state.lock();
    for kept in &mut state.streams {
        if kept.peer_addr().is_ok_and(|it| it == peer) {
            *kept = unconnected();
        }
    }
}

fn unconnected() -> TcpStream {
    Socket::new(Domain::IPV4, Type::STREAM, None)
        .unwrap()
        .into()
}

fn receive(stream: &mut TcpStream, shared: &Shared) -> Option<Received> {
    let mut frame = Reader::next_frame(stream, 8, 100 << 20).ok()?;
    let header = RequestHeader::decode(&mut frame).ok()?;
    let mut body = Vec::new();
    frame.fill("body", frame.remaining(), &mut body).ok()?;
    let mut state = shared.state.lock();
    let same = |it: &&RequestHeader| it.api_key == header.api_key;
    let before = state.received.iter().filter(same).count();
    state.received.push(header.clone());
    Some(Received {
        header,
        body,
        before,
    })
}

/// A port that nobody listens on: connections are refused.
pub(crate) fn closed_port() -> BrokerAddress {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    BrokerAddress::new("127.0.0.1", listener.local_addr().unwrap().port())
}

/// A port whose queue is full: connections to it neither succeed nor fail.
pub(crate) struct FullPort {
    pub(crate) address: BrokerAddress,
    _listener: Socket,
    _waiting: Vec<Socket>,
}

impl FullPort {
    pub(crate) fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        listener.bind(&SockAddr::from(any)).unwrap();
        listener.listen(1).unwrap();
        let target = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        loop {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            let is_full = socket
                .connect_timeout(&target, Duration::from_millis(100))
                .is_err();
            waiting.push(socket);
            if is_full {
                break;
            }
            assert!(waiting.len() < 1000, "the queue never fills");
        }
        Self {
            address: BrokerAddress::new("127.0.0.1", target.as_socket().unwrap().port()),
            _listener: listener,
            _waiting: waiting,
        }
    }
}
