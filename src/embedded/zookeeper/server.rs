use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;
use parking_lot::MutexGuard;

use crate::embedded::zookeeper::connection::Connection;
use crate::embedded::zookeeper::database::Database;
use crate::embedded::zookeeper::faults::Faults;
use crate::embedded::zookeeper::local_event::LocalEvent;
use crate::embedded::zookeeper::options::EmbeddedZooKeeperOptions;
use crate::embedded::zookeeper::outbox::Outbox;
use crate::embedded::zookeeper::session::Outlet;
use crate::thread::ShutdownableThread;
use crate::thread::StopSignal;

/// What the threads of a server share.
#[derive(Debug)]
pub(super) struct Server {
    options: EmbeddedZooKeeperOptions,
    is_running: AtomicBool,
    /// Locked before the database, if both are.
    connections: Mutex<Connections>,
    database: Mutex<Database>,
    faults: Arc<Faults>,
}

#[derive(Debug, Default)]
struct Connections {
    last: u64,
    open: HashMap<u64, OpenConnection>,
}

#[derive(Debug)]
struct OpenConnection {
    peer: SocketAddr,
    outbox: Arc<Outbox>,
    /// Reads, and owns the thread that writes.
    thread: ShutdownableThread,
}

/// What `cons` tells of a connection.
#[derive(Debug)]
pub(super) struct ConnectionInfo {
    pub(super) peer: SocketAddr,
    pub(super) received: u64,
    pub(super) sent: u64,
    pub(super) waiting: usize,
}

impl Server {
    /// Fails only when the folder for its data cannot be used.
    pub(super) fn new(options: EmbeddedZooKeeperOptions) -> io::Result<Self> {
        let database = Database::open(options.data_dir.as_deref())?;
        Ok(Self {
            options,
            is_running: AtomicBool::new(false),
            connections: Mutex::default(),
            database: Mutex::new(database),
            faults: Arc::default(),
        })
    }

    pub(super) fn options(&self) -> &EmbeddedZooKeeperOptions {
        &self.options
    }

    pub(super) fn database(&self) -> MutexGuard<'_, Database> {
        self.database.lock()
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::SeqCst)
    }

    /// Has sessions live and expire, or stand still.
    pub(super) fn set_running(&self, is_running: bool) {
        let mut database = self.database();
        database.sessions.touch_all();
        self.is_running.store(is_running, Ordering::SeqCst);
    }

    /// Serves a client with threads of its own.
    pub(super) fn admit(self: &Arc<Self>, socket: TcpStream, peer: SocketAddr) -> io::Result<()> {
        self.reap();
        let reading = socket.try_clone()?;
        let outbox = Arc::new(Outbox::new(socket, Arc::clone(&self.faults)));
        let connection = Connection::new(Arc::clone(self), Arc::clone(&outbox));
        let mut connections = self.connections.lock();
        connections.last += 1;
        let number = connections.last;
        let writer = Arc::clone(&outbox);
        let thread = ShutdownableThread::start(format!("zk-read-{number}"), move |_| {
            let written = Arc::clone(&writer);
            let name = format!("zk-write-{number}");
            match ShutdownableThread::start(name, move |_| written.write_frames()) {
                Ok(_writing) => connection.serve(reading),
                Err(error) => {
                    log::warn!("{}", error.chain());
                    writer.cut();
                }
            }
        });
        let thread = thread.map_err(io::Error::other)?;
        let open = OpenConnection {
            peer,
            outbox,
            thread,
        };
        connections.open.insert(number, open);
        Ok(())
    }

    pub(super) fn connection_infos(&self) -> Vec<ConnectionInfo> {
        self.reap();
        let connections = self.connections.lock();
        let mut numbered: Vec<_> = connections.open.iter().collect();
        numbered.sort_by_key(|(number, _)| **number);
        numbered
            .into_iter()
            .map(|(_, open)| {
                let (received, sent, waiting) = open.outbox.counts();
                ConnectionInfo {
                    peer: open.peer,
                    received,
                    sent,
                    waiting,
                }
            })
            .collect()
    }

    /// Cuts all connections and waits until their threads have ended.
    pub(super) fn drop_connections(&self) {
        let open = std::mem::take(&mut self.connections.lock().open);
        for connection in open.values() {
            connection.outbox.cut();
        }
        drop(open);
    }

    pub(super) fn set_silent(&self, is_silent: bool) {
        self.faults.set_silent(is_silent);
        for connection in self.connections.lock().open.values() {
            connection.outbox.nudge();
        }
    }

    pub(super) fn set_delay(&self, delay: Duration) {
        self.faults.set_delay(delay);
    }

    /// `false` when there is no such session.
    pub(super) fn expire_session(&self, id: i64) -> bool {
        let outlet = self.database().close_session(id);
        match outlet {
            Some(Some(Outlet::Connection(outbox))) => outbox.cut(),
            Some(Some(Outlet::Local(events))) => events.push(LocalEvent::Expired),
            Some(None) => {}
            None => return false,
        }
        true
    }

    /// The body of `zk-expiry`.
    pub(super) fn expire_sessions(&self, stop: &StopSignal) {
        while stop.pause(self.until_expiry()) {
            let overdue = self.database().sessions.overdue();
            for id in overdue {
                log::debug!("embedded zookeeper: session {id:#x} expires");
                self.expire_session(id);
            }
            self.reap();
        }
    }

    /// Never longer than a tick: sessions come and go meanwhile.
    fn until_expiry(&self) -> Duration {
        let next = self.database().sessions.next_deadline();
        let wait = next.map_or(self.options.tick, |next| {
            next.saturating_duration_since(Instant::now())
        });
        wait.clamp(Duration::from_millis(1), self.options.tick)
    }

    /// Lets go of connections that have ended.
    fn reap(&self) {
        let mut connections = self.connections.lock();
        let ended = connections
            .open
            .extract_if(|_, open| open.thread.is_finished());
        let ended: Vec<_> = ended.collect();
        drop(connections);
        drop(ended);
    }
}
