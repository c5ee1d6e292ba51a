//! Offsets in Kafka.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::cluster::TopicPartition;
use crate::consumer::offset_store::OffsetCall;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::offset_store::OffsetStoreError;
use crate::coordination::TopicRegistry;
use crate::error::Error;
use crate::error::ErrorCode;
use crate::net::CallEnd;
use crate::net::OffsetChannel;
use crate::stats::Stats;
use crate::zk::ZkClient;

/// Tells whether a ZooKeeper session is the present one and certainly alive. Does not block.
pub(crate) type Lease = Arc<dyn Fn(i64) -> bool + Send + Sync>;

/// Offsets in `__consumer_offsets`, as `offsets.storage=kafka` says.
///
/// All offsets are written each time, so that the brokers do not forget those that stand still (KAFKA-1510).
///
/// The protocol knows no conditional commits. So a commit of what was consumed is sent only while the session that
/// holds the owner nodes lives, and is given up when its lease ends. What is left: a commit that was sent in time and
/// reaches the log after the next owner's first one, and an owner node that somebody else has deleted.
pub(crate) struct KafkaOffsets {
    pub(crate) channel: OffsetChannel,
    pub(crate) lease: Lease,
    pub(crate) zk: Arc<ZkClient>,
    pub(crate) stats: Arc<Stats>,
    /// `offsets.commit.max.retries`.
    pub(crate) retries: u32,
    /// `offsets.channel.backoff.ms`.
    pub(crate) backoff: Duration,
}

/// The answers to one request.
#[derive(Default)]
struct Answers {
    offsets: HashMap<TopicPartition, i64>,
    /// Without an answer that settles it, with the reason.
    open: Vec<(TopicPartition, Error)>,
}

impl KafkaOffsets {
    fn end(&self, call: &OffsetCall) -> CallEnd {
        let lease = Arc::clone(&self.lease);
        let session = call.session();
        CallEnd {
            stop: call.stop().clone(),
            is_entitled: Arc::new(move || session.is_none_or(|session| lease(session))),
        }
    }

    /// Says why a call was given up that nobody has stopped.
    fn told(error: Error, call: &OffsetCall) -> Error {
        match error {
            Error::Closed if !call.is_cancelled() => Error::SessionExpired,
            error => error,
        }
    }

    /// Asks until every partition has an answer, or it has been asked often enough.
    fn ask_repeatedly(
        &self,
        partitions: &[TopicPartition],
        call: &OffsetCall,
    ) -> Result<Answers, Error> {
        let mut answers = Answers::default();
        let mut wanted = partitions.to_vec();
        let mut retries = self.retries;
        loop {
            let failure = match self.ask(&wanted, call) {
                Ok(some) => {
                    answers.offsets.extend(some.offsets);
                    answers.open = some.open;
                    wanted = answers.open.iter().map(|(of, _)| of.clone()).collect();
                    None
                }
                Err(error) => Some(error),
            };
            let is_settled = failure.is_none() && wanted.is_empty();
            if is_settled || retries == 0 || failure.as_ref().is_some_and(|it| !it.is_retriable()) {
                return failure.map_or(Ok(answers), Err);
            }
            if let Some(error) = failure {
                log::warn!("offsets not known yet: {}", error.chain());
            }
            retries -= 1;
            if !call.pause(self.backoff) {
                return Err(Error::Closed);
            }
        }
    }

    /// One request. An error that will not pass fails it.
    fn ask(&self, partitions: &[TopicPartition], call: &OffsetCall) -> Result<Answers, Error> {
        let mut answers = Answers::default();
        let results = self.channel.fetch(partitions, &self.end(call));
        let results = results.map_err(|error| Self::told(error, call))?;
        for (partition, result) in partitions.iter().zip(results) {
            match result {
                Ok(offset) => {
                    answers
                        .offsets
                        .extend(offset.map(|offset| (partition.clone(), offset)));
                }
                Err(error) if error.is_retriable() => {
                    log::warn!("offset not known yet: {}", error.chain());
                    answers.open.push((partition.clone(), error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(answers)
    }

    /// A broker of 0.8.2 that has just started says of every partition that it does not know it, and one that runs
    /// says so of new ones. Only of a partition that exists, and from a coordinator that was looked for anew, does it
    /// mean that nothing was stored (D36).
    fn ask_again_about_unknown(
        &self,
        open: Vec<(TopicPartition, Error)>,
        call: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, Error> {
        let mut unknown = Vec::with_capacity(open.len());
        for (partition, error) in open {
            if !is_unknown(&error) {
                return Err(error);
            }
            unknown.push(partition);
        }
        if !self.exist(&unknown, call)? {
            return Err(Error::GroupChanged);
        }
        self.channel.forget();
        let answers = self.ask(&unknown, call)?;
        match answers
            .open
            .into_iter()
            .find(|(_, error)| !is_unknown(error))
        {
            Some((_, error)) => Err(error),
            None => Ok(answers.offsets),
        }
    }

    fn exist(&self, partitions: &[TopicPartition], call: &OffsetCall) -> Result<bool, Error> {
        let mut topics: Vec<String> = partitions.iter().map(|it| it.topic().to_owned()).collect();
        topics.sort_unstable();
        topics.dedup();
        let registry = TopicRegistry::new(self.zk.observing(call.stop()));
        let existing = registry.partitions(&topics)?.partitions;
        Ok(partitions.iter().all(|it| {
            existing
                .get(it.topic())
                .is_some_and(|numbers| numbers.contains(&it.partition()))
        }))
    }
}

fn is_unknown(error: &Error) -> bool {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    matches!(error, Error::Partition { code, .. } if *code == unknown)
}

impl OffsetStore for KafkaOffsets {
    fn fetch(
        &self,
        partitions: &[TopicPartition],
        call: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
        // No partition at all stands for all of the group's on some brokers.
        if partitions.is_empty() {
            return Ok(HashMap::new());
        }
        let Answers { mut offsets, open } = self.ask_repeatedly(partitions, call)?;
        if !open.is_empty() {
            offsets.extend(self.ask_again_about_unknown(open, call)?);
        }
        Ok(offsets)
    }

    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError> {
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let results = self
            .channel
            .commit(offsets, call.metadata(), &self.end(call));
        let results = results.map_err(|error| Self::told(error, call))?;
        let stored = results.iter().filter(|result| result.is_ok()).count();
        self.stats
            .kafka_commits
            .add(u64::try_from(stored).unwrap_or(u64::MAX));
        Ok(results.into_iter().map(|result| Ok(result?)).collect())
    }
}
