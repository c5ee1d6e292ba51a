use std::io::BufReader;
use std::io::Read;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use crate::embedded::zookeeper::database::Database;
use crate::embedded::zookeeper::four_letter_word;
use crate::embedded::zookeeper::node_error::NodeError;
use crate::embedded::zookeeper::outbox::Outbox;
use crate::embedded::zookeeper::record_reader::RecordReader;
use crate::embedded::zookeeper::record_writer::RecordWriter;
use crate::embedded::zookeeper::reply;
use crate::embedded::zookeeper::request::ConnectRequest;
use crate::embedded::zookeeper::request::Request;
use crate::embedded::zookeeper::request::RequestHeader;
use crate::embedded::zookeeper::server::Server;
use crate::embedded::zookeeper::session::Outlet;
use crate::embedded::zookeeper::watch_manager::WatchKind;
use crate::embedded::zookeeper::watch_manager::WatcherId;

/// `jute.maxbuffer`: who sends a longer frame is cut off.
const LONGEST_FRAME: usize = 0xf_ffff;

/// The reading side of one client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    server: Arc<Server>,
    outbox: Arc<Outbox>,
    watcher: WatcherId,
    session: Option<i64>,
}

/// Whether another request may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    HangUp,
}

impl Connection {
    pub(super) fn new(server: Arc<Server>, outbox: Arc<Outbox>) -> Self {
        let outlet = Outlet::Connection(Arc::clone(&outbox));
        let watcher = server.database().watcher(outlet);
        Self {
            server,
            outbox,
            watcher,
            session: None,
        }
    }

    /// Deals with one request after the other until the client or the server has enough. What goes
    /// wrong ends this connection and nothing else, as with the original.
    pub(super) fn serve(mut self, socket: TcpStream) {
        let mut input = BufReader::new(socket);
        let mut next = self.greet(&mut input);
        while next == Some(Next::GoOn) {
            next = read_frame(&mut input).and_then(|frame| self.deal_with(&frame));
        }
        if next.is_some() {
            self.outbox.finish();
        } else {
            self.outbox.cut();
        }
    }

    /// The first frame, or the four letters in its place. `None` when that fails.
    fn greet(&mut self, input: &mut impl Read) -> Option<Next> {
        let mut length = [0; 4];
        input.read_exact(&mut length).ok()?;
        if let Some(answer) = four_letter_word::answer(&self.server, length) {
            if self.outbox.admit_request() {
                self.outbox.push(answer.into_bytes());
            }
            return Some(Next::HangUp);
        }
        let frame = read_body(input, length)?;
        let request = ConnectRequest::decode(&frame).ok()?;
        if !self.outbox.admit_request() {
            return None;
        }
        self.connect(&request)
    }

    fn connect(&mut self, request: &ConnectRequest) -> Option<Next> {
        let wanted = Duration::from_millis(u64::try_from(request.timeout).unwrap_or(0));
        let timeout = self.server.options().negotiate(wanted);
        let mut database = self.server.database();
        if request.last_zxid > database.zxid() {
            // It has seen a future that we know nothing of.
            return None;
        }
        let mut replaced = None;
        let session = match request.session {
            None => Some(database.open_session(Some(timeout), self.watcher)),
            Some(id) => {
                let resumed = database.resume_session(id, &request.password, timeout, self.watcher);
                resumed.map(|before| {
                    replaced = before;
                    id
                })
            }
        };
        self.session = session;
        let (answer, next) = match session {
            Some(id) => (
                reply::connected(id, timeout, request.speaks_of_read_only),
                Next::GoOn,
            ),
            None => (reply::refused(request.speaks_of_read_only), Next::HangUp),
        };
        self.outbox.push(answer);
        drop(database);
        if let Some(replaced) = replaced {
            replaced.cut();
        }
        Some(next)
    }

    fn deal_with(&mut self, frame: &[u8]) -> Option<Next> {
        let mut reader = RecordReader::new(frame);
        let header = RequestHeader::decode(&mut reader).ok()?;
        let request = Request::decode(header.op_code, &mut reader);
        if !self.outbox.admit_request() {
            return None;
        }
        let session = self.session?;
        let server = Arc::clone(&self.server);
        let mut database = server.database();
        if !database.is_attached(session, self.watcher) {
            return None;
        }
        database.sessions.touch(session);
        let Ok(request) = request else {
            let zxid = database.zxid();
            let frame = reply::begin(header.xid, zxid, reply::MARSHALLING_ERROR);
            self.outbox.push(frame.finish());
            return Some(Next::GoOn);
        };
        let (frame, next) = self.answer(&mut database, session, header.xid, request);
        // Under the lock still: the reply is in order with the events.
        self.outbox.push(frame.finish());
        Some(next)
    }

    fn answer(
        &self,
        database: &mut Database,
        session: i64,
        xid: i32,
        request: Request,
    ) -> (RecordWriter, Next) {
        let frame = match request {
            Request::Ping => reply::begin(reply::PING_XID, database.zxid(), reply::OK),
            Request::Auth { scheme } if scheme == "digest" || scheme == "ip" => {
                reply::begin(xid, 0, reply::OK)
            }
            Request::Auth { .. } => {
                return (reply::begin(xid, 0, reply::AUTH_FAILED), Next::HangUp);
            }
            Request::Unknown => {
                // As in ZooKeeper 3.4: not even the connection survives.
                return (reply::begin(xid, -1, reply::UNIMPLEMENTED), Next::HangUp);
            }
            Request::CloseSession => {
                database.close_session(session);
                return (reply::begin(xid, database.zxid(), reply::OK), Next::HangUp);
            }
            Request::SetWatches(known) => {
                database.set_watches(known, self.watcher);
                reply::begin(xid, database.zxid(), reply::OK)
            }
            Request::Write(operation) => {
                let outcome = database.write(session, operation);
                answer_or_error(xid, database.zxid(), outcome, |frame, outcome| {
                    reply::outcome(frame, &outcome)
                })
            }
            Request::Multi(operations) => {
                let count = operations.len();
                let outcomes = database.write_all(session, operations);
                // The errors are inside.
                let frame = reply::begin(xid, database.zxid(), reply::OK);
                match outcomes {
                    Ok(outcomes) => reply::multi(frame, &outcomes),
                    Err(rejected) => reply::rejected_multi(frame, count, rejected),
                }
            }
            read => self.read(database, xid, read),
        };
        (frame, Next::GoOn)
    }

    fn read(&self, database: &mut Database, xid: i32, request: Request) -> RecordWriter {
        let zxid = database.zxid();
        let watcher = |watch: bool| watch.then_some(self.watcher);
        match request {
            Request::Exists { path, watch } => {
                let stat = database.exists(&path, watcher(watch));
                answer_or_error(xid, zxid, stat, |frame, stat| frame.stat(&stat))
            }
            Request::GetData { path, watch } => {
                let node = database.read(&path, WatchKind::Data, watcher(watch));
                answer_or_error(xid, zxid, node, |frame, node| {
                    frame.buffer(node.data.as_deref()).stat(&node.stat())
                })
            }
            Request::GetChildren { path, watch } => {
                let node = database.read(&path, WatchKind::Children, watcher(watch));
                answer_or_error(xid, zxid, node, |frame, node| {
                    frame.strings(node.children.iter())
                })
            }
            Request::GetChildren2 { path, watch } => {
                let node = database.read(&path, WatchKind::Children, watcher(watch));
                answer_or_error(xid, zxid, node, |frame, node| {
                    frame.strings(node.children.iter()).stat(&node.stat())
                })
            }
            Request::GetAcl { path } => {
                let node = database.tree.get(&path);
                answer_or_error(xid, zxid, node, |frame, node| {
                    frame.acl(&node.acl).stat(&node.stat())
                })
            }
            Request::Sync { path } => reply::begin(xid, zxid, reply::OK).string(&path),
            _ => reply::begin(xid, zxid, reply::UNIMPLEMENTED),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.server.database().detach(self.watcher, self.session);
    }
}

fn answer_or_error<T>(
    xid: i32,
    zxid: i64,
    answer: Result<T, NodeError>,
    body: impl FnOnce(RecordWriter, T) -> RecordWriter,
) -> RecordWriter {
    match answer {
        Ok(answer) => body(reply::begin(xid, zxid, reply::OK), answer),
        Err(error) => reply::begin(xid, zxid, error.wire_code()),
    }
}

/// `None` at the end, in the middle of a frame, too, or when the frame is too long.
fn read_frame(input: &mut impl Read) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    input.read_exact(&mut length).ok()?;
    read_body(input, length)
}

fn read_body(input: &mut impl Read, length: [u8; 4]) -> Option<Vec<u8>> {
    let length = usize::try_from(i32::from_be_bytes(length)).ok()?;
    if length > LONGEST_FRAME {
        return None;
    }
    let mut frame = Vec::new();
    let limit = u64::try_from(length).ok()?;
    input.by_ref().take(limit).read_to_end(&mut frame).ok()?;
    (frame.len() == length).then_some(frame)
}
