//! From host and port to a connected socket, within a timeout and cancellable.

use std::io;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::net::ToSocketAddrs;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::RecvTimeoutError;
use crossbeam_channel::bounded;
use socket2::Domain;
use socket2::Protocol;
use socket2::SockAddr;
use socket2::Socket;
use socket2::Type;

use crate::cluster::BrokerAddress;
use crate::net::canceller::Canceller;

/// How long a system call or a look at the resolver may keep us from noticing that we are cancelled.
const SLICE: Duration = Duration::from_millis(50);

/// The pause between two looks at a connection attempt that outlasted the first slice.
const LOOK: Duration = Duration::from_millis(10);

/// Connects to the first of the broker's addresses that takes the connection.
///
/// The host is resolved anew each time, since a broker may move; the timeout covers everything, and
/// each address gets an equal share of what the ones before it left over. The error is that of the
/// last address. `receive_buffer_bytes` 0 leaves the system's default.
pub(super) fn connect(
    address: &BrokerAddress,
    receive_buffer_bytes: usize,
    timeout: Duration,
    canceller: &Canceller,
) -> io::Result<TcpStream> {
    let deadline = Instant::now() + timeout;
    let targets = resolve(address, deadline, canceller)?;
    connect_to_one_of(&targets, receive_buffer_bytes, deadline, canceller)
}

fn connect_to_one_of(
    targets: &[SocketAddr],
    receive_buffer_bytes: usize,
    deadline: Instant,
    canceller: &Canceller,
) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "host has no address");
    for (index, target) in targets.iter().enumerate() {
        let later = u32::try_from(targets.len() - index).unwrap_or(u32::MAX);
        let share = deadline.saturating_duration_since(Instant::now()) / later;
        match connect_to(
            *target,
            receive_buffer_bytes,
            Instant::now() + share,
            canceller,
        ) {
            // The standard library's socket, since its writes raise no SIGPIPE.
            Ok(socket) => return Ok(socket.into()),
            Err(error) => failure = error,
        }
        if canceller.is_cancelled() {
            break;
        }
    }
    Err(failure)
}

fn resolve(
    address: &BrokerAddress,
    deadline: Instant,
    canceller: &Canceller,
) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = address.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, address.port)]);
    }
    let answer = ask_resolver(address)?;
    loop {
        let now = Instant::now();
        if now >= deadline {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                "host not resolved in time",
            ));
        }
        match answer.recv_deadline(deadline.min(now + SLICE)) {
            Ok(resolved) => return resolved,
            Err(RecvTimeoutError::Timeout) if !canceller.is_cancelled() => {}
            Err(_) => return Err(io::Error::other("host not resolved")),
        }
    }
}

/// Resolves in a thread that nobody joins: the system's resolver can neither be ended nor bounded,
/// and neither a shutdown nor a timeout may wait for it. The thread owns nothing and ends by itself.
fn ask_resolver(address: &BrokerAddress) -> io::Result<Receiver<io::Result<Vec<SocketAddr>>>> {
    let (sender, answer) = bounded(1);
    let target = (address.host.clone(), address.port);
    thread::Builder::new()
        // Not with the host, which is the word of a peer: a name with a zero byte in it is a panic.
        .name(String::from("resolver"))
        .spawn(move || {
            let resolved = target.to_socket_addrs().map(Iterator::collect);
            // Nobody may be waiting any more.
            drop(sender.send(resolved));
        })?;
    Ok(answer)
}

fn connect_to(
    target: SocketAddr,
    receive_buffer_bytes: usize,
    deadline: Instant,
    canceller: &Canceller,
) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(target),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if receive_buffer_bytes > 0 {
        // Before connecting, since the window scale is settled by the first packet.
        socket.set_recv_buffer_size(receive_buffer_bytes)?;
    }
    socket.set_keepalive(true)?;
    socket.set_tcp_nodelay(true)?;
    let slice = SLICE.min(deadline.saturating_duration_since(Instant::now()));
    match socket.connect_timeout(&SockAddr::from(target), slice) {
        Ok(()) => {}
        // Without a code it is the end of the slice, and the attempt goes on.
        Err(error) if error.kind() == ErrorKind::TimedOut && error.raw_os_error().is_none() => {
            await_connection(&socket, deadline, canceller)?;
        }
        Err(error) => return Err(error),
    }
    refuse_own_port(&socket)?;
    Ok(socket)
}

fn await_connection(socket: &Socket, deadline: Instant, canceller: &Canceller) -> io::Result<()> {
    loop {
        if socket.peer_addr().is_ok() {
            return Ok(());
        }
        if let Some(error) = socket.take_error()? {
            return Err(error);
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(io::Error::new(ErrorKind::TimedOut, "not connected in time"));
        }
        if canceller.wait_until(deadline.min(now + LOOK)) {
            return Err(io::Error::other("cancelled"));
        }
    }
}

/// A connect to a free local port can meet itself, when the system picks that port for our own end.
fn refuse_own_port(socket: &Socket) -> io::Result<()> {
    if socket.local_addr()? == socket.peer_addr()? {
        return Err(io::Error::from(ErrorKind::ConnectionRefused));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::net::fake_broker::FullPort;
    use crate::net::fake_broker::closed_port;

    fn at(address: &BrokerAddress) -> SocketAddr {
        SocketAddr::new(address.host.parse().unwrap(), address.port)
    }

    #[test]
    fn an_address_that_fails_or_hangs_leaves_time_for_the_next() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let good = listener.local_addr().unwrap();
        let hanging = FullPort::new();
        let targets = [at(&closed_port()), at(&hanging.address), good];
        let deadline = Instant::now() + Duration::from_secs(1);
        let stream = connect_to_one_of(&targets, 0, deadline, &Canceller::new()).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), good);
        assert!(Instant::now() < deadline);
    }

    #[test]
    fn a_host_that_no_system_takes_is_an_error() {
        // A zero byte in the host that a broker told was a panic: of the fetcher, again and again and without an
        // event, or of the thread that looks for leaders, after which nothing was fetched any more.
        let canceller = Canceller::new();
        for host in ["a\0b", "", " ", "\n", "..", &"x".repeat(40_000)] {
            let address = BrokerAddress::new(host, 9092);
            assert!(connect(&address, 0, Duration::from_secs(20), &canceller).is_err());
        }
    }

    #[test]
    fn the_options_of_the_socket_are_set() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = BrokerAddress::new("127.0.0.1", listener.local_addr().unwrap().port());
        let timeout = Duration::from_secs(20);
        let stream = connect(&address, 100_000, timeout, &Canceller::new()).unwrap();
        assert!(stream.nodelay().unwrap());
        let socket = Socket::from(stream);
        assert!(socket.keepalive().unwrap());
        assert!(socket.recv_buffer_size().unwrap() >= 100_000);
    }
}
