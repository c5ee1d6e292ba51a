use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use async_io::Timer;
use crossbeam_channel::Sender;
use futures_lite::future;
use zookeeper_client::SessionInfo;
use zookeeper_client::SessionState;

use crate::cluster::BrokerAddress;
use crate::error::Error;
use crate::zk::event::SessionEvent;
use crate::zk::event::ZkEvent;
use crate::zk::link::OpenError;
use crate::zk::link::Opening;
use crate::zk::link::OwnedLink;
use crate::zk::link::diagnose;
use crate::zk::link::open;
use crate::zk::session::Session;
use crate::zk::watch_request::restore;

/// The pause between attempts to connect starts here and stays there while the lease lasts.
const PACE: Duration = Duration::from_millis(100);
/// ... and grows up to here when there is nothing to be lost by waiting.
const SLOW_PACE: Duration = Duration::from_secs(1);
/// No host is given less time than this to answer.
const SHORTEST_TURN: Duration = Duration::from_millis(500);
/// The longest that closing a session may take. What a slow server has been asked by then it does later.
const CLOSE_LIMIT: Duration = Duration::from_millis(1500);
/// The longest that abandoned tasks may take to notice.
const DRAIN_LIMIT: Duration = Duration::from_millis(500);

/// The body of `zk-session`: reports how the first connection went, then keeps a session alive
/// until the client is closed.
pub(super) fn run(session: Arc<Session>, report: Sender<Result<(), Error>>) {
    let executor = Arc::clone(&session.executor);
    async_io::block_on(async {
        executor.run(supervise(Arc::clone(&session), report)).await;
        session.events.close();
        // Tasks hold the session, which holds the executor, which holds the tasks.
        let drain = async {
            while !executor.is_empty() {
                executor.tick().await;
            }
        };
        future::or(drain, rest(DRAIN_LIMIT)).await;
    });
}

async fn supervise(session: Arc<Session>, report: Sender<Result<(), Error>>) {
    let hosts = Box::new(session.connect.cycle());
    let mut supervisor = Supervisor {
        session,
        hosts,
        generation: 0,
    };
    match supervisor.begin().await {
        Ok(owned) => {
            // Whoever asked may have gone; closing tells.
            let _ = report.send(Ok(()));
            supervisor.keep(owned).await;
        }
        Err(error) => {
            let _ = report.send(Err(error));
        }
    }
}

struct Supervisor {
    session: Arc<Session>,
    /// Never ends.
    hosts: Box<dyn Iterator<Item = BrokerAddress> + Send>,
    generation: u64,
}

impl Supervisor {
    /// The first connection: within the connection timeout, or not at all.
    async fn begin(&mut self) -> Result<OwnedLink, Error> {
        let limit = self.session.config.connection_timeout;
        let deadline = Instant::now() + limit;
        let mut reasons = BTreeMap::new();
        loop {
            let time = remaining(deadline);
            match self.attempt(None, time).await {
                Ok(owned) => match self.has_chroot(&owned, remaining(deadline)).await {
                    Some(true) => {
                        self.adopt(&owned);
                        return Ok(owned);
                    }
                    Some(false) => {
                        self.close(owned).await;
                        return Err(Error::MissingChroot {
                            chroot: self.session.connect.chroot().into(),
                            hosts: self.session.connect.hosts(),
                        });
                    }
                    None => self.abandon(owned),
                },
                Err(OpenError::SessionRefused) => {}
                Err(OpenError::Failed { server, reason }) => {
                    let reason = match reason {
                        Some(reason) => reason,
                        None => diagnose(&server, remaining(deadline).min(SLOW_PACE)).await,
                    };
                    // What an attempt says that was cut short says nothing of the server.
                    let server = server.to_string();
                    if time >= SHORTEST_TURN || !reasons.contains_key(&server) {
                        reasons.insert(server, reason);
                    }
                }
            }
            if remaining(deadline) <= PACE {
                break;
            }
            rest(PACE).await;
        }
        let reasons = reasons
            .iter()
            .map(|(server, why)| format!("{server}: {why}"));
        let reasons: Vec<_> = reasons.collect();
        let hosts = self.session.connect.hosts();
        Err(Error::ZooKeeper {
            doing: format!("connecting to {hosts} within {} ms", limit.as_millis()),
            source: reasons.join("; ").into(),
        })
    }

    /// Goes from link to link, and from session to session, until the client is closed.
    async fn keep(&mut self, mut owned: OwnedLink) {
        loop {
            let info = owned.link.client.session().clone();
            let session = Arc::clone(&self.session);
            let broken = self.watch_over(&mut owned);
            if unless_closing(&session, broken).await.is_none() {
                self.close(owned).await;
                return;
            }
            self.abandon(owned);
            log::warn!("zookeeper session {}: disconnected", info.id());
            self.emit(SessionEvent::Disconnected);
            let next = self.next_link(&info);
            match unless_closing(&session, next).await {
                Some(next) => owned = next,
                None => {
                    self.close_without_link(info).await;
                    return;
                }
            }
        }
    }

    /// Ends when the link is broken. Keeps the session, and our knowledge of it, fresh.
    async fn watch_over(&self, owned: &mut OwnedLink) {
        let link = Arc::clone(&owned.link);
        let mut states = link.client.state_watcher();
        if link.client.state() != SessionState::SyncConnected {
            return;
        }
        let changed = async {
            // Whatever it changes to: the crate's own attempts to reconnect are not for us.
            states.changed().await;
        };
        let interval = (link.client.session_timeout() / 8).max(Duration::from_millis(10));
        let beat = async {
            loop {
                rest(interval).await;
                let sent = Instant::now();
                if sent.saturating_duration_since(self.session.last_contact()) >= interval
                    && link.client.check_stat("/").await.is_ok()
                {
                    self.session.contact(&link, sent);
                }
            }
        };
        future::or(future::or(changed, &mut owned.service), beat).await;
    }

    /// The same session over another connection or, only if the servers refuse that, a new session.
    async fn next_link(&mut self, info: &SessionInfo) -> OwnedLink {
        let mut pace = PACE;
        let resumed = loop {
            match self.attempt(Some(info.clone()), Duration::MAX).await {
                Ok(owned) => break Some(owned),
                Err(OpenError::SessionRefused) => break None,
                Err(OpenError::Failed { server, reason }) => {
                    log::debug!("zookeeper {server}: {}", reason.unwrap_or_default());
                }
            }
            rest(pace).await;
            if Instant::now() > self.session.lease_ends() {
                pace = (pace * 3 / 2).min(SLOW_PACE);
            }
        };
        if let Some(owned) = resumed {
            log::info!("zookeeper session {}: connected again", info.id());
            self.adopt(&owned);
            self.emit(SessionEvent::Reconnected);
            return owned;
        }
        log::warn!("zookeeper session {}: expired", info.id());
        self.session.watches.expire();
        self.session.expire();
        self.emit(SessionEvent::Expired);
        let owned = self.establish().await;
        log::info!("zookeeper session {:#x}: established", owned.link.session);
        self.adopt(&owned);
        let session = owned.link.session;
        self.emit(SessionEvent::Established { session });
        owned
    }

    async fn establish(&mut self) -> OwnedLink {
        let mut pace = PACE;
        loop {
            match self.attempt(None, Duration::MAX).await {
                Ok(owned) => return owned,
                Err(OpenError::SessionRefused) => {}
                Err(OpenError::Failed { server, reason }) => {
                    log::debug!("zookeeper {server}: {}", reason.unwrap_or_default());
                }
            }
            rest(pace).await;
            pace = (pace * 3 / 2).min(SLOW_PACE);
        }
    }

    /// Tries the next host.
    async fn attempt(
        &mut self,
        info: Option<SessionInfo>,
        limit: Duration,
    ) -> Result<OwnedLink, OpenError> {
        let Some(server) = self.hosts.next() else {
            return Err(OpenError::SessionRefused);
        };
        self.generation += 1;
        let timeout = self.session.timeout();
        // Every host gets its turn before the session is over, even if they all hang.
        let turns = u32::try_from(self.session.connect.len()).unwrap_or(u32::MAX);
        let turn = timeout / turns.saturating_add(1);
        let mut patience = turn.max(SHORTEST_TURN);
        if info.is_some() {
            patience = patience.min(timeout * 2 / 5);
        }
        let opening = Opening {
            executor: &self.session.executor,
            watches: &self.session.watches,
            chroot: self.session.connect.chroot(),
            session_timeout: self.session.config.session_timeout,
            session: info,
            generation: self.generation,
            patience: patience.min(limit),
        };
        open(&server, opening).await
    }

    /// `None` when the connection broke.
    async fn has_chroot(&self, owned: &OwnedLink, patience: Duration) -> Option<bool> {
        let asked = async { owned.link.client.check_stat("/").await.ok() };
        let late = async {
            rest(patience).await;
            None
        };
        let stat = future::or(asked, late).await?;
        Some(stat.is_some())
    }

    /// Sets the watches of the session on the link, then lets calls use it.
    fn adopt(&self, owned: &OwnedLink) {
        let link = Arc::clone(&owned.link);
        // A fresh link does not tell the server how far the session had read before. What follows
        // on this link must not be older; nobody needs to wait for the answer.
        drop(link.client.sync("/"));
        self.session.watches.attach(link.generation);
        self.session.executor.spawn(restore(link)).detach();
        self.session.publish(owned);
    }

    /// Lets go of a broken link and leaves the session alone.
    fn abandon(&self, owned: OwnedLink) {
        self.session.withdraw();
        // First the watchers, which cannot bear to see the service end before them.
        self.session.watches.detach();
        // Then the service, as it would close the session when it saw the last client go.
        drop(owned.service);
        drop(owned.link);
    }

    /// Closes the session over its link. Calls have been cancelled before.
    async fn close(&self, owned: OwnedLink) {
        let OwnedLink {
            link, mut service, ..
        } = owned;
        log::info!("zookeeper session {:#x}: closing", link.session);
        self.session.withdraw();
        // The service closes the session when it has served what is left and nobody can ask more.
        // The watchers stay with their tasks meanwhile: a server 3.4 would hang up on us if we
        // dropped them, before it has read that the session is to be closed.
        drop(link);
        future::or(&mut service, rest(self.close_limit())).await;
        self.session.watches.detach();
        drop(service);
    }

    /// As [`close`](Self::close), when there is no link: tries to open one just for that.
    async fn close_without_link(&mut self, info: SessionInfo) {
        let now = Instant::now();
        let lease = self.session.lease_ends().max(now + SHORTEST_TURN);
        let deadline = lease.min(now + self.close_limit());
        // Without a session there is nothing to close.
        while self.session.id().is_some() && remaining(deadline) > Duration::ZERO {
            match self.attempt(Some(info.clone()), remaining(deadline)).await {
                Ok(owned) => {
                    self.close(owned).await;
                    return;
                }
                Err(OpenError::SessionRefused) => return,
                Err(OpenError::Failed { .. }) => rest(PACE).await,
            }
        }
    }

    fn close_limit(&self) -> Duration {
        self.session.timeout().min(CLOSE_LIMIT)
    }

    fn emit(&self, event: SessionEvent) {
        self.session.events.emit(ZkEvent::Session(event));
    }
}

/// `None` as soon as the client is being closed.
async fn unless_closing<T>(session: &Session, work: impl Future<Output = T>) -> Option<T> {
    let closing = async {
        session.closing.listen().await;
        None
    };
    future::or(closing, async { Some(work.await) }).await
}

async fn rest(time: Duration) {
    Timer::after(time).await;
}

fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
