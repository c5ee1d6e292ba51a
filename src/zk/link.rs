use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use async_executor::Executor;
use async_executor::Task;
use async_io::Timer;
use futures_lite::future;
use parking_lot::Mutex;
use zookeeper_client::Client;
use zookeeper_client::SessionInfo;

use crate::cluster::BrokerAddress;
use crate::zk::watches::Watches;

/// One connection to a server. It is never repaired: when it breaks, a new link takes its place.
pub(super) struct Link {
    pub(super) client: Client,
    /// Counts the links of a client from 1.
    pub(super) generation: u64,
    /// The session that this link belongs to.
    pub(super) session: i64,
    pub(super) watches: Arc<Watches>,
}

/// A link together with what its owner, the supervisor, holds of it.
pub(super) struct OwnedLink {
    pub(super) link: Arc<Link>,
    /// The task that reads and writes the socket. Dropping it closes the socket at once and leaves
    /// the session alone; letting it end after the last [`Link`] is dropped closes the session.
    pub(super) service: Task<()>,
    /// The session was alive at this time or later.
    pub(super) opened: Instant,
}

/// Why a link could not be opened.
pub(super) enum OpenError {
    /// The server does not know the session (any more).
    SessionRefused,
    Failed {
        server: BrokerAddress,
        /// `None` when the crate keeps it to itself; [`diagnose`] may find out.
        reason: Option<String>,
    },
}

/// What [`open`] needs besides the server's address.
pub(super) struct Opening<'a> {
    pub(super) executor: &'a Arc<Executor<'static>>,
    pub(super) watches: &'a Arc<Watches>,
    pub(super) chroot: &'a str,
    pub(super) session_timeout: Duration,
    /// The session to go on with; `None` for a new one.
    pub(super) session: Option<SessionInfo>,
    pub(super) generation: u64,
    /// For connecting and for the server's answer together.
    pub(super) patience: Duration,
}

/// Connects to one server.
pub(super) async fn open(
    server: &BrokerAddress,
    opening: Opening<'_>,
) -> Result<OwnedLink, OpenError> {
    let opened = Instant::now();
    // The oldest dialect that counts: servers 3.4 hang up on any later request.
    let mut connector = Client::connector()
        .with_server_version(3, 4, 6)
        .with_session_timeout(opening.session_timeout)
        .with_fail_eagerly();
    let resumes = opening.session.is_some();
    if let Some(session) = opening.session {
        connector = connector.with_session(session);
    }
    let cluster = format!("{server}{}", opening.chroot);
    let spawner = Spawner::new(opening.executor);
    let connected = future::or(
        async { Some(spawner.scope(connector.connect(&cluster)).await) },
        async {
            Timer::after(opening.patience).await;
            None
        },
    );
    let failed = |reason| OpenError::Failed {
        server: server.clone(),
        reason,
    };
    let client = match connected.await {
        Some(Ok(client)) => client,
        Some(Err(zookeeper_client::Error::SessionExpired)) if resumes => {
            return Err(OpenError::SessionRefused);
        }
        Some(Err(zookeeper_client::Error::NoHosts)) => return Err(failed(None)),
        Some(Err(error)) => return Err(failed(Some(error.to_string()))),
        None => return Err(failed(Some(String::from("no answer")))),
    };
    let Some(service) = spawner.into_spawned() else {
        return Err(failed(Some(String::from("no service task"))));
    };
    let link = Link {
        generation: opening.generation,
        session: client.session_id().0,
        watches: Arc::clone(opening.watches),
        client,
    };
    Ok(OwnedLink {
        link: Arc::new(link),
        service,
        opened,
    })
}

/// Says why a server that did not let us in did not, which the client keeps to itself.
pub(super) async fn diagnose(server: &BrokerAddress, patience: Duration) -> String {
    let connect = async_net::TcpStream::connect((server.host.as_str(), server.port));
    let timeout = async {
        Timer::after(patience).await;
        Err(std::io::ErrorKind::TimedOut.into())
    };
    match future::or(connect, timeout).await {
        Ok(_) => String::from("connected, but no answer as of a zookeeper server"),
        Err(error) => error.to_string(),
    }
}

/// Takes the one task that the crate spawns per client, so that it can be ended for certain.
struct Spawner {
    executor: Arc<Executor<'static>>,
    spawned: Mutex<Option<Task<()>>>,
}

impl Spawner {
    fn new(executor: &Arc<Executor<'static>>) -> Self {
        Self {
            executor: Arc::clone(executor),
            spawned: Mutex::new(None),
        }
    }

    /// Polls `inner` with this spawner in scope. The scope belongs to the thread, hence it must not
    /// outlast a poll: other tasks run in between.
    async fn scope<T>(&self, inner: impl Future<Output = T>) -> T {
        let mut inner = pin!(inner);
        poll_fn(|context| {
            let _scope = spawns_core::enter(self);
            inner.as_mut().poll(context)
        })
        .await
    }

    fn into_spawned(self) -> Option<Task<()>> {
        self.spawned.into_inner()
    }
}

impl spawns_core::Spawn for Spawner {
    fn spawn(&self, task: spawns_core::Task) {
        let task = self.executor.spawn(Box::into_pin(task.future));
        *self.spawned.lock() = Some(task);
    }
}
