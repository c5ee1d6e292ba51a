//! A connected socket whose reads and writes end at a deadline.

use std::io;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::net::canceller::Canceller;

/// The shortest timeout that is set; the system takes zero for "wait for ever".
const SHORTEST: Duration = Duration::from_millis(1);

/// Reads and writes that fail with [`TimedOut`](ErrorKind::TimedOut) at the deadline, however the bytes trickle.
///
/// Unlike Kafka 0.8.2.2, where the timeout begins anew with every byte.
///
/// The timeout that the system knows stays the same however near or far the deadline is, and waits
/// are repeated: so the way of the data needs no system call besides the reads themselves.
///
/// The end of the stream is an error ([`UnexpectedEof`](ErrorKind::UnexpectedEof)): nobody reads
/// from here without expecting more bytes.
#[derive(Debug)]
pub(super) struct DeadlineSocket {
    socket: Arc<TcpStream>,
    canceller: Canceller,
    deadline: Instant,
    /// The read timeout that the system knows.
    read_timeout: Option<Duration>,
    /// The write timeout that the system knows.
    write_timeout: Option<Duration>,
}

impl DeadlineSocket {
    pub(super) fn new(socket: Arc<TcpStream>, canceller: Canceller) -> Self {
        Self {
            socket,
            canceller,
            deadline: Instant::now(),
            read_timeout: None,
            write_timeout: None,
        }
    }

    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Whether the peer has closed or sent something unasked, found without waiting.
    pub(super) fn is_stale(&self) -> bool {
        if self.socket.set_nonblocking(true).is_err() {
            return true;
        }
        let peeked = self.socket.peek(&mut [0]);
        if self.socket.set_nonblocking(false).is_err() {
            return true;
        }
        !matches!(peeked, Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    fn next_wait(&self, doing: &'static str) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(ErrorKind::TimedOut, doing));
        }
        Ok(left.min(self.canceller.longest_wait()).max(SHORTEST))
    }

    fn wait_for_read(&mut self) -> io::Result<()> {
        let wait = Some(self.next_wait("no complete answer in time")?);
        if self.read_timeout != wait {
            self.socket.set_read_timeout(wait)?;
            self.read_timeout = wait;
        }
        Ok(())
    }

    fn wait_for_write(&mut self) -> io::Result<()> {
        let wait = Some(self.next_wait("request not taken in time")?);
        if self.write_timeout != wait {
            self.socket.set_write_timeout(wait)?;
            self.write_timeout = wait;
        }
        Ok(())
    }

    fn may_go_on(&self, error: &io::Error) -> bool {
        is_passing(error) && !self.canceller.is_cancelled()
    }
}

impl Read for DeadlineSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait_for_read()?;
            match (&*self.socket).read(buffer) {
                Ok(0) if !buffer.is_empty() => {
                    return Err(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "connection closed by the broker",
                    ));
                }
                Err(error) if self.may_go_on(&error) => {}
                result => return result,
            }
        }
    }
}

impl Write for DeadlineSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.wait_for_write()?;
            match (&*self.socket).write(bytes) {
                Err(error) if self.may_go_on(&error) => {}
                result => return result,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The end of a wait or a signal, neither of which says anything about the connection.
fn is_passing(error: &io::Error) -> bool {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => true,
        // Windows says so at the end of a wait, all others when the system has given the peer up.
        ErrorKind::TimedOut => cfg!(windows),
        _ => false,
    }
}
