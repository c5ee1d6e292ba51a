use std::io;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;

use crate::embedded::zookeeper::record_reader::RecordReader;
use crate::embedded::zookeeper::record_writer::RecordWriter;
use crate::embedded::zookeeper::request::op_code;
use crate::embedded::zookeeper::session::password_of;
use crate::embedded::zookeeper::stat::Stat;
use crate::embedded::zookeeper::tests::LIMIT;
use crate::embedded::zookeeper::transaction::Acl;

/// A client that sends what it is told to and shows what comes.
pub(super) struct WireClient {
    pub(super) socket: TcpStream,
    pub(super) session: i64,
    xid: i32,
}

/// A reply or an event.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) xid: i32,
    pub(super) zxid: i64,
    pub(super) error: i32,
    pub(super) body: Vec<u8>,
}

impl WireClient {
    pub(super) fn open(server: &str) -> Self {
        Self::resume(server, 0, 0, &[0; 16]).expect("a session")
    }

    /// Takes over a session, with the password that servers make up for it. `None` if refused.
    pub(super) fn resume(
        server: &str,
        session: i64,
        last_zxid: i64,
        password: &[u8],
    ) -> Option<Self> {
        let mut client = Self {
            socket: socket(server),
            session: 0,
            xid: 0,
        };
        let request = connect_request(session, last_zxid, 30_000, password);
        client.socket.write_all(&request).unwrap();
        let answer = client.frame().ok()?;
        let mut reader = RecordReader::new(&answer);
        reader.i32("version").unwrap();
        let timeout = reader.i32("timeout").unwrap();
        client.session = reader.i64("session").unwrap();
        let password = reader.buffer("password").unwrap().unwrap();
        assert!(!reader.bool("read only").unwrap());
        assert!(reader.is_empty());
        if client.session == 0 {
            assert_eq!((timeout, password), (0, &[0; 16][..]));
            return None;
        }
        assert_eq!(timeout, 30_000);
        assert_eq!(password, password_of(client.session));
        Some(client)
    }

    /// Sends a request with a body.
    pub(super) fn send(&mut self, op_code: i32, body: impl FnOnce(RecordWriter) -> RecordWriter) {
        self.xid += 1;
        let frame = body(RecordWriter::new().i32(self.xid).i32(op_code));
        self.socket.write_all(&frame.finish()).unwrap();
    }

    pub(super) fn call(
        &mut self,
        op_code: i32,
        body: impl FnOnce(RecordWriter) -> RecordWriter,
    ) -> Reply {
        self.send(op_code, body);
        let reply = self.reply();
        assert_eq!(reply.xid, self.xid);
        reply
    }

    pub(super) fn create(&mut self, path: &str, flags: i32) -> Reply {
        self.call(op_code::CREATE, |body| create(body, path, flags))
    }

    pub(super) fn delete(&mut self, path: &str, version: i32) -> Reply {
        self.call(op_code::DELETE, |body| body.string(path).i32(version))
    }

    pub(super) fn set(&mut self, path: &str, data: &[u8], version: i32) -> Reply {
        self.call(op_code::SET_DATA, |body| {
            body.string(path).buffer(Some(data)).i32(version)
        })
    }

    pub(super) fn exists(&mut self, path: &str, watch: bool) -> Reply {
        self.call(op_code::EXISTS, |body| body.string(path).bool(watch))
    }

    pub(super) fn stat(&mut self, path: &str) -> Stat {
        stat(&mut RecordReader::new(&self.exists(path, false).body))
    }

    pub(super) fn reply(&mut self) -> Reply {
        let frame = self.frame().unwrap();
        let mut reader = RecordReader::new(&frame);
        Reply {
            xid: reader.i32("xid").unwrap(),
            zxid: reader.i64("zxid").unwrap(),
            error: reader.i32("error").unwrap(),
            body: frame[16..].to_vec(),
        }
    }

    /// The type and the path of an event.
    #[track_caller]
    pub(super) fn event(&mut self) -> (i32, String) {
        let event = self.reply();
        assert_eq!((event.xid, event.zxid, event.error), (-1, -1, 0));
        let mut reader = RecordReader::new(&event.body);
        let kind = reader.i32("type").unwrap();
        assert_eq!(reader.i32("state").unwrap(), 3);
        (kind, reader.string("path").unwrap())
    }

    #[track_caller]
    pub(super) fn expect_end(&mut self) {
        let mut rest = Vec::new();
        match self.socket.read_to_end(&mut rest) {
            Ok(_) => assert!(rest.is_empty(), "more than the end: {rest:?}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
        }
    }

    pub(super) fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut frame = vec![0; usize::try_from(i32::from_be_bytes(length)).unwrap()];
        self.socket.read_exact(&mut frame)?;
        Ok(frame)
    }
}

pub(super) fn socket(server: &str) -> TcpStream {
    let socket = TcpStream::connect(server).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

pub(super) fn connect_request(
    session: i64,
    last_zxid: i64,
    timeout: i32,
    password: &[u8],
) -> Vec<u8> {
    RecordWriter::new()
        .i32(0)
        .i64(last_zxid)
        .i32(timeout)
        .i64(session)
        .buffer(Some(password))
        .bool(false)
        .finish()
}

/// The answer to a four letter word.
pub(super) fn ask(server: &str, word: &str) -> String {
    let mut socket = socket(server);
    socket.write_all(word.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

pub(super) fn create(body: RecordWriter, path: &str, flags: i32) -> RecordWriter {
    let body = body.string(path).buffer(Some(b"data"));
    body.acl(&Acl::open()).i32(flags)
}

pub(super) fn stat(reader: &mut RecordReader<'_>) -> Stat {
    Stat {
        czxid: reader.i64("czxid").unwrap(),
        mzxid: reader.i64("mzxid").unwrap(),
        ctime: reader.i64("ctime").unwrap(),
        mtime: reader.i64("mtime").unwrap(),
        version: reader.i32("version").unwrap(),
        cversion: reader.i32("cversion").unwrap(),
        aversion: reader.i32("aversion").unwrap(),
        ephemeral_owner: Some(reader.i64("owner").unwrap()).filter(|owner| *owner != 0),
        data_length: reader.i32("length").unwrap(),
        num_children: reader.i32("children").unwrap(),
        pzxid: reader.i64("pzxid").unwrap(),
    }
}
