use std::sync::Arc;

use zookeeper_client::Error;
use zookeeper_client::OneshotWatcher;
use zookeeper_client::Stat;

use crate::zk::client::Znode;
use crate::zk::link::Link;
use crate::zk::request::Attempt;
use crate::zk::request::Failure;
use crate::zk::request::Request;
use crate::zk::request::optional;
use crate::zk::request::sorted;
use crate::zk::request::znode;
use crate::zk::watches::Seen;
use crate::zk::watches::WatchKey;
use crate::zk::watches::WatchKind;

/// How often a node may come and go while a watch on its children is being set.
const COME_AND_GO: usize = 16;

/// Sets a watch on a node's data and existence, then reads it, both in one round trip.
pub(super) struct WatchData(pub(super) String);

impl Request for WatchData {
    type Reply = Option<Znode>;
    const WRITES: bool = false;

    fn path(&self) -> &str {
        &self.0
    }

    fn send<'a>(
        &'a self,
        attempt: Attempt<'a>,
    ) -> impl Future<Output = Result<Option<Znode>, Failure>> + Send + 'a {
        let link = attempt.link;
        let key = (WatchKind::Data, self.0.clone());
        // An exists-watch, as it can be set whether or not there is a node.
        let claimed = link.watches.claim(link, &key);
        let watch = claimed.then(|| link.client.check_and_watch_stat(&self.0));
        let read = link.client.get_data(&self.0);
        async move {
            if let Some(watch) = watch {
                settle_data_watch(link, key, watch.await)?;
            }
            let got = read.await.map_err(|error| Failure::new(&self.0, error));
            Ok(optional(got)?.map(|(data, stat)| znode(data, &stat)))
        }
    }
}

/// Sets a watch on a node's children and lists them; where there is no node, watches for one.
pub(super) struct WatchChildren(pub(super) String);

impl Request for WatchChildren {
    type Reply = Option<Vec<String>>;
    const WRITES: bool = false;

    fn path(&self) -> &str {
        &self.0
    }

    fn send<'a>(
        &'a self,
        attempt: Attempt<'a>,
    ) -> impl Future<Output = Result<Option<Vec<String>>, Failure>> + Send + 'a {
        let link = attempt.link;
        let path = self.0.as_str();
        async move {
            for _ in 0..COME_AND_GO {
                let key = (WatchKind::Children, self.0.clone());
                let listed = if link.watches.claim(link, &key) {
                    let listed = link.client.get_and_watch_children(path).await;
                    settle_children_watch(link, key, listed)
                } else {
                    let listed = link.client.list_children(path).await;
                    listed.map_err(|error| Failure::new(path, error))
                };
                if let Some(children) = optional(listed)? {
                    return Ok(Some(sorted(children)));
                }
                let key = (WatchKind::Data, self.0.clone());
                if !link.watches.claim(link, &key) {
                    // That watch fires, or has an event on its way already.
                    return Ok(None);
                }
                let watch = link.client.check_and_watch_stat(path).await;
                if settle_data_watch(link, key, watch)? == Seen::Missing {
                    return Ok(None);
                }
            }
            Err(Failure::Lost)
        }
    }
}

/// Sets the watches of the session again, over a new link, and reports what happened in between.
///
/// All requests are on the wire before it waits for the first answer. Each path goes into a request
/// of its own: there is no limit to their number.
pub(super) async fn restore(link: Arc<Link>) {
    let mut data = Vec::new();
    let mut children = Vec::new();
    let keys = link.watches.claim_unset(&link);
    for key in &keys {
        match key.0 {
            WatchKind::Data => data.push((key, link.client.check_and_watch_stat(&key.1))),
            WatchKind::Children => {
                children.push((key, link.client.get_and_watch_children(&key.1)));
            }
        }
    }
    for (key, sent) in data {
        let watch = sent.await;
        if let Err(Failure::Refused(error)) = settle_data_watch(&link, key.clone(), watch) {
            log::warn!("lost the watch of {}: {error}", key.1);
        }
    }
    for (key, sent) in children {
        // An error has been dealt with: the node is gone, or the next link tries again.
        let _ = settle_children_watch(&link, key.clone(), sent.await);
    }
}

fn settle_data_watch(
    link: &Link,
    key: WatchKey,
    watch: Result<(Option<Stat>, OneshotWatcher), Error>,
) -> Result<Seen, Failure> {
    match watch {
        Ok((stat, watcher)) => {
            let seen = Seen::data(stat.as_ref());
            link.watches.set(link, key, seen, watcher);
            Ok(seen)
        }
        Err(error) => Err(not_set(link, key, error)),
    }
}

fn settle_children_watch(
    link: &Link,
    key: WatchKey,
    listed: Result<(Vec<String>, Stat, OneshotWatcher), Error>,
) -> Result<Vec<String>, Failure> {
    match listed {
        Ok((children, stat, watcher)) => {
            link.watches.set(link, key, Seen::children(&stat), watcher);
            Ok(children)
        }
        Err(error) => Err(not_set(link, key, error)),
    }
}

fn not_set(link: &Link, key: WatchKey, error: Error) -> Failure {
    let failure = Failure::new(&key.1, error);
    match &failure {
        Failure::Lost => link.watches.postpone(link, &key),
        Failure::Refused(_) => link.watches.forget_and_tell(link, key),
    }
    failure
}
