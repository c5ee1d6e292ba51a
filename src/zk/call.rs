use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::Receiver;
use crossbeam_channel::Sender;
use crossbeam_channel::bounded;
use crossbeam_channel::select;
use parking_lot::Mutex;

use crate::thread::Never;
use crate::zk::caller::Caller;
use crate::zk::error::ZkError;
use crate::zk::link::Link;
use crate::zk::request::Attempt;
use crate::zk::request::Failure;
use crate::zk::request::Request;
use crate::zk::session::Session;
use crate::zk::session::Stop;

/// Carries out requests as one pipeline, in rounds: what a broken link left without an answer goes
/// into the next round, over the next link, until the deadline or until `caller` gives
/// up. The results are in the order of the requests.
pub(super) fn call_all<R: Request>(
    session: &Arc<Session>,
    caller: &Caller,
    requests: Vec<R>,
) -> Vec<Result<R::Reply, ZkError>> {
    let deadline = Instant::now() + session.timeout().max(session.config.connection_timeout);
    let mut results: Vec<_> = requests.iter().map(|_| None).collect();
    let requests = Arc::new(requests);
    let mut todo = Todo {
        indices: (0..requests.len()).collect(),
        uncertain: false,
    };
    let mut failed = None;
    // A write of an earlier session must not happen in a later one: what it was meant for may
    // belong to others by then.
    let mut fence = match R::WRITES {
        true => caller.session.or_else(|| session.id()),
        false => None,
    };
    let stop = loop {
        if todo.indices.is_empty() {
            break Stop::Deadline;
        }
        let link = match session.link(failed, fence, deadline, caller) {
            Ok(link) => link,
            Err(stop) => break stop,
        };
        failed = Some(link.generation);
        if R::WRITES {
            fence = Some(link.session);
        }
        let round = Round::start(session, link, &requests, &todo);
        let waited = round.wait(session, deadline, caller);
        for (index, reply) in round.answers() {
            if let Some(result) = results.get_mut(index) {
                *result = Some(reply);
            }
        }
        todo.indices
            .retain(|index| matches!(results.get(*index), Some(None)));
        todo.uncertain = true;
        if let Err(stop) = waited {
            break stop;
        }
    };
    let without_answer = |index: usize| {
        let path = requests.get(index).map_or("", |request| request.path());
        Err(give_up(path, stop, R::WRITES && todo.uncertain))
    };
    let results = results.into_iter().enumerate();
    results
        .map(|(index, result)| result.unwrap_or_else(|| without_answer(index)))
        .collect()
}

/// Carries out one request.
pub(super) fn call<R: Request>(
    session: &Arc<Session>,
    caller: &Caller,
    request: R,
) -> Result<R::Reply, ZkError> {
    let path = String::from(request.path());
    let result = call_all(session, caller, vec![request]).pop();
    result.unwrap_or(Err(ZkError::Timeout { path }))
}

fn give_up(path: &str, stop: Stop, uncertain: bool) -> ZkError {
    let path = String::from(path);
    match stop {
        Stop::Cancelled => ZkError::Cancelled,
        Stop::Expired => ZkError::SessionExpired,
        Stop::Deadline if uncertain => ZkError::ConnectionLost { path },
        Stop::Deadline => ZkError::Timeout { path },
    }
}

/// The requests that have no answer yet.
struct Todo {
    indices: Vec<usize>,
    /// They have been sent before.
    uncertain: bool,
}

type Answer<T> = (usize, Result<T, ZkError>);

/// Requests on their way over one link. The task that waits for their answers goes on when nobody
/// waits for it any more: a watcher that comes with an answer must not be dropped.
struct Round<T> {
    answers: Arc<Mutex<Vec<Answer<T>>>>,
    /// Disconnected when all answers are there, or the link has broken.
    done: Receiver<Never>,
}

impl<T: Send + 'static> Round<T> {
    fn start<R: Request<Reply = T>>(
        session: &Arc<Session>,
        link: Arc<Link>,
        requests: &Arc<Vec<R>>,
        todo: &Todo,
    ) -> Self {
        let (finished, done) = bounded(0);
        let answers = Arc::default();
        let work = Work {
            session: Arc::clone(session),
            link,
            requests: Arc::clone(requests),
            indices: todo.indices.clone(),
            uncertain: todo.uncertain,
            answers: Arc::clone(&answers),
            finished,
        };
        session.executor.spawn(work.run()).detach();
        Self { answers, done }
    }

    fn wait(&self, session: &Session, deadline: Instant, caller: &Caller) -> Result<(), Stop> {
        let cancelled = session.cancel_signal();
        select! {
            recv(self.done) -> _ => Ok(()),
            recv(cancelled.receiver()) -> _ => Err(Stop::Cancelled),
            recv(caller.stop.receiver()) -> _ => Err(Stop::Cancelled),
            recv(crossbeam_channel::at(deadline)) -> _ => Err(Stop::Deadline),
        }
    }

    fn answers(&self) -> Vec<Answer<T>> {
        std::mem::take(&mut self.answers.lock())
    }
}

struct Work<R: Request> {
    session: Arc<Session>,
    link: Arc<Link>,
    requests: Arc<Vec<R>>,
    indices: Vec<usize>,
    uncertain: bool,
    answers: Arc<Mutex<Vec<Answer<R::Reply>>>>,
    finished: Sender<Never>,
}

impl<R: Request> Work<R> {
    async fn run(self) {
        let sent_at = Instant::now();
        let attempt = Attempt {
            link: &self.link,
            uncertain: self.uncertain,
        };
        let mut sent = Vec::with_capacity(self.indices.len());
        for index in self.indices {
            if let Some(request) = self.requests.get(index) {
                sent.push((index, request.send(attempt)));
            }
        }
        let mut answered = false;
        for (index, reply) in sent {
            let reply = match reply.await {
                Ok(reply) => Ok(reply),
                Err(Failure::Refused(error)) => Err(error),
                Err(Failure::Lost) => continue,
            };
            if !answered {
                answered = true;
                self.session.contact(&self.link, sent_at);
            }
            self.answers.lock().push((index, reply));
        }
        drop(self.finished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_without_answer_is_reported_as_unknown_a_read_as_late() {
        assert!(matches!(
            give_up("/a", Stop::Deadline, true),
            ZkError::ConnectionLost { path } if path == "/a"
        ));
        assert!(matches!(
            give_up("/a", Stop::Deadline, false),
            ZkError::Timeout { path } if path == "/a"
        ));
        assert!(matches!(
            give_up("/a", Stop::Cancelled, true),
            ZkError::Cancelled
        ));
        assert!(matches!(
            give_up("/a", Stop::Expired, true),
            ZkError::SessionExpired
        ));
    }
}
