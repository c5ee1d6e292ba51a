use std::io;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;

use socket2::Domain;
use socket2::Socket;
use socket2::Type;

const BACKLOG: i32 = 128;

/// A loopback port that stays ours while nobody listens on it: connecting is refused then.
///
/// A socket that is bound and never listens keeps others away, and lets ours come back.
#[derive(Debug)]
pub(super) struct ReservedPort {
    address: SocketAddr,
    _bound: Socket,
}

impl ReservedPort {
    /// Port 0 stands for any that is free.
    pub(super) fn new(port: u16) -> io::Result<Self> {
        let bound = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
        let address = bound.local_addr()?.as_socket();
        let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok(Self {
            address,
            _bound: bound,
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Fails when somebody listens already.
    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        let socket = bind(self.address)?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn a_port_is_ours_whether_we_listen_or_not() {
        let port = ReservedPort::new(0).unwrap();
        for _ in 0..3 {
            let refused = TcpStream::connect(port.address()).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
            let listener = port.listen().unwrap();
            let client = TcpStream::connect(port.address()).unwrap();
            let (server, _) = listener.accept().unwrap();
            assert!(ReservedPort::new(port.port()).is_err(), "somebody listens");
            drop((listener, server, client));
        }
    }
}
