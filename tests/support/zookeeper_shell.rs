//! A ZooKeeper client of its own, so that tests can look at what the crate wrote and act as
//! somebody else.

use std::io;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_CHILDREN: i32 = 8;
const PING: i32 = 11;
const CLOSE_SESSION: i32 = -11;

const PING_XID: i32 = -2;
const ANY_VERSION: i32 = -1;
const ALL_PERMISSIONS: i32 = 31;
const EPHEMERAL: i32 = 1;

/// A session. A thread keeps it alive; dropping it closes it, so its ephemeral nodes vanish at
/// once.
///
/// Errors of the server arrive as [`io::Error`]: a missing node as [`io::ErrorKind::NotFound`], one
/// that exists already as [`io::ErrorKind::AlreadyExists`].
pub struct ZooKeeperShell {
    /// Shared with the thread that pings; `None` once closed or abandoned.
    connection: Arc<Mutex<Option<Connection>>>,
    chroot: String,
    session_id: i64,
    password: Vec<u8>,
    timeout: Duration,
    /// Its end ends the thread that pings.
    _alive: Sender<()>,
}

/// What [`ZooKeeperShell::stat`] tells of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeStat {
    /// Transaction that created the node: another one after the node was deleted and created again.
    pub created: i64,
    pub version: i32,
    /// Session that owns an ephemeral node.
    pub ephemeral_owner: Option<i64>,
}

impl ZooKeeperShell {
    /// Opens a session of 30 s. The connect string may end in a chroot.
    ///
    /// # Panics
    /// When the server cannot be reached.
    #[track_caller]
    pub fn connect(connect_string: &str) -> Self {
        Self::try_connect(connect_string, Duration::from_secs(30)).expect("connect to ZooKeeper")
    }

    /// Opens a session with another timeout; [`timeout`](Self::timeout) tells what the server
    /// granted.
    pub fn try_connect(connect_string: &str, timeout: Duration) -> io::Result<Self> {
        Self::open(connect_string, timeout, 0, &[0; 16])
    }

    /// Ends the session of somebody else, as if it had expired: that of the owner of an ephemeral
    /// node, say.
    pub fn expire(connect_string: &str, session_id: i64) -> io::Result<()> {
        Self::open(
            connect_string,
            Duration::from_secs(30),
            session_id,
            &password_of(session_id),
        )
        .map(drop)
    }

    fn open(
        connect_string: &str,
        timeout: Duration,
        session_id: i64,
        password: &[u8],
    ) -> io::Result<Self> {
        let (address, chroot) = match connect_string.split_once('/') {
            Some((address, path)) => (address, format!("/{}", path.trim_end_matches('/'))),
            None => (connect_string, String::new()),
        };
        let mut connection = Connection::open(address)?;
        let granted = connection.open_session(timeout, session_id, password)?;
        let connection = Arc::new(Mutex::new(Some(connection)));
        let alive = keep_alive(Arc::clone(&connection), granted.timeout / 4);
        Ok(Self {
            connection,
            chroot: if chroot == "/" { String::new() } else { chroot },
            session_id: granted.session_id,
            password: granted.password,
            timeout: granted.timeout,
            _alive: alive,
        })
    }

    pub fn session_id(&self) -> i64 {
        self.session_id
    }

    pub fn password(&self) -> &[u8] {
        &self.password
    }

    /// Session timeout as granted.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Creates a persistent node; its parents must exist.
    pub fn create(&self, path: &str, data: &str) -> io::Result<()> {
        self.create_node(path, data, 0)
    }

    /// Creates a node that lives as long as this session.
    pub fn create_ephemeral(&self, path: &str, data: &str) -> io::Result<()> {
        self.create_node(path, data, EPHEMERAL)
    }

    /// Creates or overwrites a persistent node, with the parents it lacks.
    pub fn put(&self, path: &str, data: &str) -> io::Result<()> {
        for (end, _) in path.match_indices('/').skip(1) {
            match self.create(&path[..end], "") {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        match self.create(path, data) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.set(path, data),
            result => result,
        }
    }

    pub fn get(&self, path: &str) -> io::Result<String> {
        let mut reply = self.call(GET_DATA, self.request(path).flag(false))?;
        let data = reply.buffer()?.to_vec();
        String::from_utf8(data).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Overwrites whatever version there is.
    pub fn set(&self, path: &str, data: &str) -> io::Result<()> {
        let request = self.request(path).buffer(data.as_bytes()).i32(ANY_VERSION);
        self.call(SET_DATA, request).map(drop)
    }

    /// Deletes whatever version there is; fails if there are children.
    pub fn delete(&self, path: &str) -> io::Result<()> {
        self.call(DELETE, self.request(path).i32(ANY_VERSION))
            .map(drop)
    }

    pub fn exists(&self, path: &str) -> bool {
        self.stat(path).is_ok()
    }

    pub fn stat(&self, path: &str) -> io::Result<NodeStat> {
        let mut reply = self.call(EXISTS, self.request(path).flag(false))?;
        let created = reply.i64()?;
        reply.take(8 + 8 + 8)?;
        let version = reply.i32()?;
        reply.take(4 + 4)?;
        let owner = reply.i64()?;
        Ok(NodeStat {
            created,
            version,
            ephemeral_owner: (owner != 0).then_some(owner),
        })
    }

    /// Names of the children, sorted.
    pub fn children(&self, path: &str) -> io::Result<Vec<String>> {
        let mut reply = self.call(GET_CHILDREN, self.request(path).flag(false))?;
        let count = reply.i32()?;
        let mut names = (0..count)
            .map(|_| {
                reply
                    .buffer()
                    .map(|name| String::from_utf8_lossy(name).into_owned())
            })
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    /// Drops the connection but not the session: it expires after its timeout, as that of a member
    /// that crashed.
    pub fn abandon(self) {
        self.take_connection();
    }

    fn create_node(&self, path: &str, data: &str, flags: i32) -> io::Result<()> {
        let request = self.request(path).buffer(data.as_bytes());
        let open_to_all = request
            .i32(1)
            .i32(ALL_PERMISSIONS)
            .buffer(b"world")
            .buffer(b"anyone");
        self.call(CREATE, open_to_all.i32(flags)).map(drop)
    }

    fn request(&self, path: &str) -> Body {
        let full = match (self.chroot.as_str(), path) {
            (chroot, "/") if !chroot.is_empty() => chroot.to_owned(),
            (chroot, path) => format!("{chroot}{path}"),
        };
        Body(Vec::new()).buffer(full.as_bytes())
    }

    fn call(&self, operation: i32, body: Body) -> io::Result<Reply> {
        let mut guard = self
            .connection
            .lock()
            .expect("nobody panics with the connection");
        let connection = guard.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        connection.call(operation, &body.0)
    }

    fn take_connection(&self) -> Option<Connection> {
        self.connection.lock().ok()?.take()
    }
}

impl Drop for ZooKeeperShell {
    fn drop(&mut self) {
        if let Some(mut connection) = self.take_connection() {
            // Fails if the server is gone or has expired the session: nothing is left to be closed
            // then.
            let _ = connection.call(CLOSE_SESSION, &[]);
        }
    }
}

/// Pings until what it returns is dropped.
fn keep_alive(connection: Arc<Mutex<Option<Connection>>>, pause: Duration) -> Sender<()> {
    let (alive, end) = mpsc::channel();
    thread::spawn(move || {
        while end.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let Ok(mut guard) = connection.lock() else {
                return;
            };
            let Some(open) = guard.as_mut() else { return };
            if open.exchange(PING_XID, PING, &[]).is_err() {
                return;
            }
        }
    });
    alive
}

/// The password that a ZooKeeper server gives to a session: it depends on nothing but the id.
///
/// Servers draw it from `java.util.Random`, seeded with the id and a constant that all of them
/// share.
fn password_of(session_id: i64) -> Vec<u8> {
    const SHARED: u64 = 0xb341_5c00;
    const MULTIPLIER: u64 = 0x5_deec_e66d;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = (session_id.cast_unsigned() ^ SHARED ^ MULTIPLIER) & MASK;
    let mut password = Vec::new();
    for _ in 0..4 {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xb) & MASK;
        // Bits 16 to 47, the lowest byte first.
        password.extend_from_slice(&state.to_le_bytes()[2..6]);
    }
    password
}

struct Connection {
    socket: TcpStream,
    last_xid: i32,
}

struct Granted {
    timeout: Duration,
    session_id: i64,
    password: Vec<u8>,
}

impl Connection {
    fn open(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket.set_nodelay(true)?;
        Ok(Self {
            socket,
            last_xid: 0,
        })
    }

    fn open_session(
        &mut self,
        timeout: Duration,
        session_id: i64,
        password: &[u8],
    ) -> io::Result<Granted> {
        let millis = i32::try_from(timeout.as_millis()).map_err(io::Error::other)?;
        let request = Body(Vec::new())
            .i32(0)
            .i64(0)
            .i32(millis)
            .i64(session_id)
            .buffer(password)
            .flag(false);
        self.send(&request.0)?;
        let mut reply = self.receive()?;
        reply.i32()?;
        let millis = u64::try_from(reply.i32()?).map_err(io::Error::other)?;
        let granted = Granted {
            timeout: Duration::from_millis(millis),
            session_id: reply.i64()?,
            password: reply.buffer()?.to_vec(),
        };
        match granted.session_id {
            0 => Err(io::Error::other(format!(
                "session {session_id:#x} has expired"
            ))),
            _ => Ok(granted),
        }
    }

    fn call(&mut self, operation: i32, body: &[u8]) -> io::Result<Reply> {
        self.last_xid += 1;
        self.exchange(self.last_xid, operation, body)
    }

    fn exchange(&mut self, xid: i32, operation: i32, body: &[u8]) -> io::Result<Reply> {
        let mut request = Body(Vec::new()).i32(xid).i32(operation);
        request.0.extend_from_slice(body);
        self.send(&request.0)?;
        let mut reply = self.receive()?;
        let (answered, _zxid, code) = (reply.i32()?, reply.i64()?, reply.i32()?);
        if answered != xid {
            return Err(io::Error::other(format!(
                "ZooKeeper answered request {answered} instead of {xid}"
            )));
        }
        match code {
            0 => Ok(reply),
            -101 => Err(io::Error::new(io::ErrorKind::NotFound, "no such node")),
            -110 => Err(io::Error::new(io::ErrorKind::AlreadyExists, "node exists")),
            code => Err(io::Error::other(format!("ZooKeeper error {code}"))),
        }
    }

    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        let framed = Body(Vec::new()).buffer(request);
        self.socket.write_all(&framed.0)
    }

    fn receive(&mut self) -> io::Result<Reply> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut bytes = Vec::new();
        let length = u64::from(u32::from_be_bytes(length));
        (&self.socket).take(length).read_to_end(&mut bytes)?;
        Ok(Reply { bytes, position: 0 })
    }
}

struct Body(Vec<u8>);

impl Body {
    fn i32(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn i64(mut self, value: i64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    fn flag(mut self, value: bool) -> Self {
        self.0.push(u8::from(value));
        self
    }

    fn buffer(self, bytes: &[u8]) -> Self {
        let mut body = self.i32(i32::try_from(bytes.len()).expect("small buffer"));
        body.0.extend_from_slice(bytes);
        body
    }
}

struct Reply {
    bytes: Vec<u8>,
    position: usize,
}

impl Reply {
    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        let start = self.position;
        self.position += count;
        self.bytes
            .get(start..self.position)
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn i32(&mut self) -> io::Result<i32> {
        self.take(4)
            .map(|bytes| i32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    fn i64(&mut self) -> io::Result<i64> {
        self.take(8)
            .map(|bytes| i64::from_be_bytes(bytes.try_into().expect("eight bytes")))
    }

    /// A missing buffer, of length -1, reads as an empty one.
    fn buffer(&mut self) -> io::Result<&[u8]> {
        let length = self.i32()?;
        self.take(usize::try_from(length).unwrap_or(0))
    }
}
