//! The broker as keeper of the offsets of groups.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;

use crate::cluster::TopicPartition;
use crate::cluster::java_hash;
use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::cluster_state::OFFSETS_TOPIC;
use crate::embedded::broker::offset_record::OffsetKey;
use crate::embedded::broker::offset_record::StoredOffset;
use crate::embedded::broker::request_handler::RequestHandler;
use crate::embedded::clock::milliseconds_now;
use crate::error::ErrorCode;
use crate::protocol::CommittedOffset;
use crate::protocol::FetchedOffset;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::MessageSet;
use crate::protocol::MessageSetBuilder;
use crate::protocol::OffsetCommitPartition;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetCommitResponse;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::OffsetFetchResponse;
use crate::protocol::RequiredAcks;
use crate::thread::StopSignal;

/// `offsets.commit.timeout.ms`
const COMMIT_TIMEOUT: Duration = Duration::from_secs(5);

/// `offsets.retention.minutes`: a day.
const RETENTION: i64 = 24 * 60 * 60 * 1000;

/// The version of the fetch from which on the answer has an error of its own.
const TELLS_ERRORS_OF_GROUPS: i16 = 2;

/// Offsets by partition of the offsets topic. What is here is in the log, and replicated.
#[derive(Debug, Default)]
pub(super) struct OffsetCache {
    partitions: Mutex<BTreeMap<i32, Loaded>>,
}

/// The offsets of one partition of the offsets topic, as far as this broker led it in one term.
#[derive(Debug, Default)]
struct Loaded {
    term: u64,
    /// With the position in the log, by which a later commit is told from an earlier one.
    offsets: BTreeMap<OffsetKey, (i64, StoredOffset)>,
}

impl RequestHandler {
    /// The first request ever creates the topic, and is told to come again.
    pub(super) fn find_coordinator(
        &self,
        request: &FindCoordinatorRequest,
    ) -> FindCoordinatorResponse {
        let unknown = ErrorCode::CoordinatorNotAvailable;
        if !matches!(self.create_when_missing(OFFSETS_TOPIC), Ok(false)) {
            return Self::refuse_coordinator(request, unknown);
        }
        let coordinator = self.shared().read(|state| {
            let leader = state
                .partition(&partition_of(state, &request.group))?
                .leader()?;
            let mut registered = state.registered().into_iter();
            registered.find(|broker| broker.id == leader)
        });
        FindCoordinatorResponse {
            error: coordinator.is_none().then_some(unknown),
            coordinator,
            ..FindCoordinatorResponse::default()
        }
    }

    pub(super) fn refuse_coordinator(
        _request: &FindCoordinatorRequest,
        code: ErrorCode,
    ) -> FindCoordinatorResponse {
        FindCoordinatorResponse {
            error: Some(code),
            ..FindCoordinatorResponse::default()
        }
    }

    /// Version 0 of the commit: writes the nodes that classic consumers write themselves.
    pub(super) fn commit_to_zookeeper(
        &self,
        request: &OffsetCommitRequest,
    ) -> OffsetCommitResponse {
        committed(request, |partition| {
            self.check_known(&partition.topic_partition)?;
            self.check_metadata(partition)?;
            let path = node(&request.group, &partition.topic_partition);
            let text = partition.offset.to_string();
            let written = self
                .controller()
                .with_registry(|registry| registry.write(&path, text.as_bytes()));
            written.map_err(|_| ErrorCode::UnknownServerError)
        })
    }

    /// Version 0 of the fetch. As in Kafka 0.8.2.2: no offset is told as an unknown partition.
    pub(super) fn offsets_of_zookeeper(&self, request: &OffsetFetchRequest) -> OffsetFetchResponse {
        fetched(request.partitions.iter().flatten(), |of| {
            self.check_known(of)?;
            let path = node(&request.group, of);
            let read = self
                .controller()
                .with_registry(|registry| registry.read(&path));
            let text = match read {
                Ok(Some(text)) => text,
                Ok(None) => return Err(ErrorCode::UnknownTopicOrPartition),
                Err(_) => return Err(ErrorCode::UnknownServerError),
            };
            let text = std::str::from_utf8(&text).ok();
            let offset = text.and_then(|text| text.parse().ok());
            let offset = offset.ok_or(ErrorCode::UnknownServerError)?;
            Ok(Some((offset, Some(String::new()))))
        })
    }

    /// Later versions of the commit: appends to the offsets topic, waits for the replicas, and only then changes what
    /// is answered to those who ask.
    pub(super) fn commit_to_log(
        &self,
        request: &OffsetCommitRequest,
        stop: &StopSignal,
    ) -> OffsetCommitResponse {
        if self.behaviour().knows_generations && request.generation.is_some() {
            return Self::refuse_commit(request, ErrorCode::IllegalGeneration);
        }
        let now = milliseconds_now();
        let mut records = Vec::new();
        let mut checked = committed(request, |partition| {
            self.check_metadata(partition)?;
            if !self.behaviour().stores_offsets_of_unknown_topics {
                self.check_known(&partition.topic_partition)?;
            }
            records.push(record(request, partition, now));
            Ok(())
        });
        let stored = self.store(&request.group, records, stop);
        if let Err(code) = stored {
            let partitions = checked.partitions.iter_mut();
            partitions.for_each(|partition| partition.error = partition.error.or(Some(code)));
        }
        checked
    }

    /// Later versions of the fetch: answered from memory alone.
    pub(super) fn offsets_of_log(
        &self,
        request: &OffsetFetchRequest,
        version: i16,
    ) -> OffsetFetchResponse {
        let group = &request.group;
        let stored = match self.with_loaded(group, |loaded| loaded.of_group(group)) {
            Err(code) if version >= TELLS_ERRORS_OF_GROUPS => return refused_as_a_whole(code),
            stored => stored,
        };
        let all = stored.iter().flat_map(BTreeMap::keys);
        let is_all =
            |named: &Vec<_>| named.is_empty() && self.behaviour().takes_no_partition_for_all;
        let wanted = match request.partitions.as_ref().filter(|named| !is_all(named)) {
            Some(partitions) => partitions.iter().collect::<Vec<_>>(),
            None => all.collect(),
        };
        fetched(wanted, |of| {
            if self.behaviour().looks_for_topics_before_offsets {
                self.check_known(of)?;
            }
            let stored = stored.as_ref().map_err(|code| *code)?.get(of);
            Ok(stored.map(|stored| (stored.offset, stored.metadata.clone())))
        })
    }

    pub(super) fn refuse_commit(
        request: &OffsetCommitRequest,
        code: ErrorCode,
    ) -> OffsetCommitResponse {
        committed(request, |_| Err(code))
    }

    pub(super) fn refuse_offsets(
        request: &OffsetFetchRequest,
        version: i16,
        code: ErrorCode,
    ) -> OffsetFetchResponse {
        let concerns_partitions = matches!(
            code,
            ErrorCode::UnknownTopicOrPartition | ErrorCode::TopicAuthorizationFailed
        );
        match version >= TELLS_ERRORS_OF_GROUPS && !concerns_partitions {
            true => refused_as_a_whole(code),
            false => fetched(request.partitions.iter().flatten(), |_| Err(code)),
        }
    }

    fn store(
        &self,
        group: &str,
        records: Vec<(OffsetKey, StoredOffset)>,
        stop: &StopSignal,
    ) -> Result<(), ErrorCode> {
        let of = self.coordinated(group)?.0;
        if records.is_empty() {
            return Ok(());
        }
        let set = self.set_of(&records)?;
        let appended = self.append_set(&of, &set, RequiredAcks::All);
        let appended = appended.map_err(told_to_groups)?;
        let now = Instant::now();
        let deadline = now.checked_add(COMMIT_TIMEOUT).unwrap_or(now);
        self.shared().wait_for(deadline, stop, |state| {
            match self.is_replicated(state, &of, appended.log_end, RequiredAcks::All) {
                Ok(true) => Ok(Ok(())),
                Ok(false) => Err(Err(ErrorCode::RequestTimedOut)),
                Err(code) => Ok(Err(told_to_groups(code))),
            }
        })?;
        let first = appended.base_offset.unwrap_or(appended.log_end);
        self.with_loaded(group, |loaded| {
            for ((key, stored), position) in records.into_iter().zip(first..) {
                loaded.put(key, position, stored);
            }
        })
    }

    fn set_of(&self, records: &[(OffsetKey, StoredOffset)]) -> Result<MessageSet, ErrorCode> {
        let too_large = ErrorCode::InvalidCommitOffsetSize;
        let schema = self.behaviour().offset_record;
        let mut set = MessageSetBuilder::new();
        for (key, stored) in records {
            let key = key.encode(schema).ok_or(too_large)?;
            let value = stored.encode(schema).ok_or(too_large)?;
            let added = set.message(0, Some(&key), Some(&value));
            added.map_err(|_| too_large)?;
        }
        set.build().map_err(|_| too_large)
    }

    /// The partition that keeps the group's offsets and the term in which this broker leads it, or why it cannot help.
    fn coordinated(&self, group: &str) -> Result<(TopicPartition, u64), ErrorCode> {
        self.shared().read(|state| {
            let of = partition_of(state, group);
            let partition = state.known(&of).map_err(told_to_groups)?;
            partition.led_by(self.id()).map_err(told_to_groups)?;
            let (term, since) = partition.term();
            match since.elapsed() < state.settings.offsets_load_time {
                true => Err(ErrorCode::CoordinatorLoadInProgress),
                false => Ok((of, term)),
            }
        })
    }

    /// Runs with the offsets of the group's partition, which are read from the log at the begin of a term.
    fn with_loaded<T>(
        &self,
        group: &str,
        run: impl FnOnce(&mut Loaded) -> T,
    ) -> Result<T, ErrorCode> {
        let (of, term) = self.coordinated(group)?;
        let mut partitions = self.offsets().partitions.lock();
        let loaded = partitions.entry(of.partition()).or_default();
        if loaded.term != term {
            *loaded = Loaded {
                term,
                offsets: BTreeMap::new(),
            };
            let set = self
                .shared()
                .read(|state| replicated(state, &of, self.id()));
            loaded.read(&set);
        }
        Ok(run(loaded))
    }

    fn check_known(&self, of: &TopicPartition) -> Result<(), ErrorCode> {
        self.shared().read(|state| state.known(of).map(drop))
    }

    /// The limit counts as Java counts characters.
    fn check_metadata(&self, partition: &OffsetCommitPartition) -> Result<(), ErrorCode> {
        let most = self
            .shared()
            .read(|state| state.settings.offset_metadata_max_bytes);
        let metadata = partition.metadata.as_deref().unwrap_or_default();
        match metadata.encode_utf16().count() <= most {
            true => Ok(()),
            false => Err(ErrorCode::OffsetMetadataTooLarge),
        }
    }
}

impl Loaded {
    fn put(&mut self, key: OffsetKey, position: i64, stored: StoredOffset) {
        // The log gives the same position again, without a null.
        let is_newer = |(known, _): &(i64, StoredOffset)| position >= *known;
        if self.offsets.get(&key).is_none_or(is_newer) {
            self.offsets.insert(key, (position, stored));
        }
    }

    fn of_group(&self, group: &str) -> BTreeMap<TopicPartition, StoredOffset> {
        let offsets = self.offsets.iter().filter(|(key, _)| key.group == group);
        offsets
            .map(|(key, (_, stored))| (key.topic_partition.clone(), stored.clone()))
            .collect()
    }

    /// The last value of each key counts, and none takes the key away. What cannot be read is left out.
    fn read(&mut self, set: &MessageSet) {
        for message in set.messages() {
            let Ok(message) = message else {
                log::warn!("a message of {OFFSETS_TOPIC} cannot be read");
                continue;
            };
            let key = OffsetKey::decode(message.key.as_deref().unwrap_or_default());
            let Ok(Some(key)) = key else {
                continue;
            };
            match message.value.as_deref().map(StoredOffset::decode) {
                None => {
                    self.offsets.remove(&key);
                }
                Some(Ok(Some(stored))) => self.put(key, message.offset, stored),
                Some(_) => log::warn!("an offset of {} cannot be read", key.topic_partition),
            }
        }
    }
}

/// The log of the partition up to the high watermark.
fn replicated(state: &ClusterState, of: &TopicPartition, broker: i32) -> MessageSet {
    let mut bytes = Vec::new();
    if let Some(partition) = state.partition(of)
        && let Some(log) = partition.log(broker)
    {
        for entry in log.entries_from(log.log_start()) {
            if entry.last_offset < partition.high_watermark() {
                bytes.extend_from_slice(&entry.bytes);
            }
        }
    }
    MessageSet::from(bytes)
}

/// The partition of the offsets topic that keeps the offsets of `group`.
fn partition_of(state: &ClusterState, group: &str) -> TopicPartition {
    let partitions = state.topics.get(OFFSETS_TOPIC).map_or(1, Vec::len).max(1);
    let partitions = u32::try_from(partitions).unwrap_or(u32::MAX);
    let partition = java_hash(group).checked_abs().unwrap_or(0).unsigned_abs() % partitions;
    TopicPartition::new(OFFSETS_TOPIC, i32::try_from(partition).unwrap_or(0))
}

/// What a code of the offsets topic means for those who do not know of that topic.
fn told_to_groups(code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::UnknownTopicOrPartition => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge => {
            ErrorCode::InvalidCommitOffsetSize
        }
        code => code,
    }
}

fn record(
    request: &OffsetCommitRequest,
    partition: &OffsetCommitPartition,
    now: i64,
) -> (OffsetKey, StoredOffset) {
    let commit_timestamp = partition.timestamp.unwrap_or(now);
    let retention = request.retention.unwrap_or(RETENTION);
    let key = OffsetKey {
        group: request.group.clone(),
        topic_partition: partition.topic_partition.clone(),
    };
    let stored = StoredOffset {
        offset: partition.offset,
        metadata: partition.metadata.clone(),
        commit_timestamp,
        expire_timestamp: commit_timestamp.saturating_add(retention),
    };
    (key, stored)
}

fn committed(
    request: &OffsetCommitRequest,
    mut commit: impl FnMut(&OffsetCommitPartition) -> Result<(), ErrorCode>,
) -> OffsetCommitResponse {
    let partitions = request.partitions.iter().map(|partition| CommittedOffset {
        topic_partition: partition.topic_partition.clone(),
        error: commit(partition).err(),
    });
    OffsetCommitResponse {
        partitions: partitions.collect(),
        ..OffsetCommitResponse::default()
    }
}

fn fetched<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
    mut fetch: impl FnMut(&TopicPartition) -> Result<Option<(i64, Option<String>)>, ErrorCode>,
) -> OffsetFetchResponse {
    let partitions = partitions.into_iter().map(|of| {
        let found = fetch(of);
        let error = found.as_ref().err().copied();
        let found = found.ok().flatten();
        FetchedOffset {
            topic_partition: of.clone(),
            offset: found.as_ref().map(|(offset, _)| *offset),
            metadata: found.map_or(Some(String::new()), |(_, metadata)| metadata),
            error,
        }
    });
    OffsetFetchResponse {
        partitions: partitions.collect(),
        ..OffsetFetchResponse::default()
    }
}

/// What concerns the group is told once, without its partitions.
fn refused_as_a_whole(code: ErrorCode) -> OffsetFetchResponse {
    OffsetFetchResponse {
        error: Some(code),
        ..OffsetFetchResponse::default()
    }
}

fn node(group: &str, of: &TopicPartition) -> String {
    format!(
        "/consumers/{group}/offsets/{}/{}",
        of.topic(),
        of.partition()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_hashed_as_java_hashes_them() {
        let mut path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        path.extend(["tests", "fixtures", "vectors", "group-partition.json"]);
        let groups: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        for group in groups.as_array().unwrap() {
            let name = group["group"].as_str().unwrap();
            assert_eq!(java_hash(name), group["java_hash"], "{name}");
        }
    }

    #[test]
    fn an_earlier_commit_never_replaces_a_later_one() {
        let key = OffsetKey {
            group: "g".into(),
            topic_partition: TopicPartition::new("orders", 0),
        };
        let stored = |offset| StoredOffset {
            offset,
            metadata: None,
            commit_timestamp: 0,
            expire_timestamp: 0,
        };
        let mut loaded = Loaded::default();
        loaded.put(key.clone(), 5, stored(50));
        loaded.put(key.clone(), 4, stored(40));
        assert_eq!(loaded.offsets[&key].1.offset, 50);
        loaded.put(key.clone(), 6, stored(10));
        assert_eq!(loaded.offsets[&key].1.offset, 10);
    }
}
