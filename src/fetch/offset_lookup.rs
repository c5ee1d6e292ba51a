//! Finds offsets by time, asking the leaders of the partitions.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::cluster::Broker;
use crate::cluster::TopicPartition;
use crate::error::Error;
use crate::error::ErrorCode;
use crate::net::ClusterMetadata;
use crate::net::SimpleConsumer;
use crate::net::SimpleConsumerOptions;
use crate::net::means_stale;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::OffsetTime;
use crate::protocol::Request;
use crate::thread::StopSignal;

/// Rounds until an error is told: a leader that has just moved is found by the second.
const ROUNDS: usize = 2;

/// How much too old a broker may take a file for: before version 10 Java told its time in whole seconds (JDK-8177809).
const FILE_TIME_ERROR_MS: i64 = 1000;

/// The version of ListOffsets that goes by the times of files.
const VERSION_OF_FILES: i16 = 0;

/// Whichever is the highest.
const ANY_VERSION: RangeInclusive<i16> = ListOffsetsRequest::VERSIONS;

/// Offsets by partition.
type Offsets = BTreeMap<TopicPartition, i64>;

/// Asks each leader once for all its partitions, in the thread that wants to know.
pub(crate) struct OffsetLookup<'a> {
    pub(crate) metadata: &'a ClusterMetadata,
    pub(crate) options: SimpleConsumerOptions,
    /// Ends a look-up under way.
    pub(crate) stop: StopSignal,
}

impl OffsetLookup<'_> {
    /// For each partition an offset from which on no message of its time or later is missed: at the latest the first
    /// such message, or the end of the log.
    ///
    /// # Errors
    ///
    /// [`Error::NoLeader`], [`Error::Broker`] or [`Error::Partition`] when one of the partitions cannot be had.
    pub(crate) fn find(
        &self,
        times: &BTreeMap<TopicPartition, OffsetTime>,
    ) -> Result<Offsets, Error> {
        let mut found = Offsets::new();
        let mut outcome = Ok(());
        for _ in 0..ROUNDS {
            let missing = times.iter().filter(|(of, _)| !found.contains_key(*of));
            let missing: BTreeMap<_, _> = missing.map(|(of, time)| (of.clone(), *time)).collect();
            if missing.is_empty() {
                break;
            }
            outcome = self.round(&missing, &mut found);
            if let Err(error) = &outcome
                && !self.is_worth_another(error)
            {
                break;
            }
        }
        outcome.map(|()| found)
    }

    /// Whether another leader may know better; then the next round looks for it.
    fn is_worth_another(&self, error: &Error) -> bool {
        let is_stale = match error {
            Error::Partition { code, .. } => means_stale(*code),
            Error::Broker { .. } | Error::Response { .. } | Error::NoLeader { .. } => true,
            _ => false,
        };
        if is_stale {
            self.metadata.request_refresh();
        }
        is_stale && !self.stop.is_stopped()
    }

    fn round(
        &self,
        times: &BTreeMap<TopicPartition, OffsetTime>,
        found: &mut Offsets,
    ) -> Result<(), Error> {
        let partitions: Vec<TopicPartition> = times.keys().cloned().collect();
        let view = self.metadata.view_of(&partitions, &self.stop)?;
        let mut by_leader: BTreeMap<&Broker, Vec<(TopicPartition, OffsetTime)>> = BTreeMap::new();
        for (topic_partition, time) in times {
            let leader = view.leader(topic_partition).ok_or(Error::NoLeader {
                topic_partition: topic_partition.clone(),
            })?;
            let wanted = by_leader.entry(leader).or_default();
            wanted.push((topic_partition.clone(), *time));
        }
        for (leader, wanted) in by_leader {
            let options = SimpleConsumerOptions {
                broker_version: view.broker_version(leader.id),
                ..self.options.clone()
            };
            let address = leader.address.clone();
            let consumer = SimpleConsumer::observing(address, options, &self.stop)?;
            LeaderLookup {
                consumer: &consumer,
            }
            .find(wanted, found)?;
        }
        Ok(())
    }
}

/// The questions to one leader.
struct LeaderLookup<'a> {
    consumer: &'a SimpleConsumer,
}

/// What a leader says of a time.
enum Place {
    At(i64),
    /// Everything in the log is younger.
    BeforeAll,
    /// Everything in the log is older.
    BehindAll,
    /// The log's messages have no times; its files have.
    FilesOnly,
}

impl LeaderLookup<'_> {
    fn find(
        &self,
        wanted: Vec<(TopicPartition, OffsetTime)>,
        found: &mut Offsets,
    ) -> Result<(), Error> {
        let mut ends = Vec::new();
        let mut behind_all = Vec::new();
        let mut by_files = Vec::new();
        for (of, time, place) in self.ask(wanted, ANY_VERSION)? {
            match place {
                Place::At(offset) => drop(found.insert(of, offset)),
                Place::BeforeAll => ends.push((of, OffsetTime::Earliest)),
                Place::BehindAll => behind_all.push((of, time)),
                Place::FilesOnly => by_files.push((of, time)),
            }
        }
        for (of, _, place) in self.ask(by_files, VERSION_OF_FILES..=VERSION_OF_FILES)? {
            match place {
                Place::At(offset) => drop(found.insert(of, offset)),
                _ => ends.push((of, OffsetTime::Earliest)),
            }
        }
        for (of, _, place) in self.ask(ends, ANY_VERSION)? {
            found.insert(of.clone(), self.end(&of, place)?);
        }
        self.find_behind_all(behind_all, found)
    }

    /// The ends of logs that have no message of the time. A message that came before the end was told would be missed,
    /// so the time is asked for once more.
    fn find_behind_all(
        &self,
        wanted: Vec<(TopicPartition, OffsetTime)>,
        found: &mut Offsets,
    ) -> Result<(), Error> {
        let latest = wanted
            .iter()
            .map(|(of, _)| (of.clone(), OffsetTime::Latest));
        for (of, _, place) in self.ask(latest.collect(), ANY_VERSION)? {
            found.insert(of.clone(), self.end(&of, place)?);
        }
        for (of, _, place) in self.ask(wanted, ANY_VERSION)? {
            if let Place::At(offset) = place {
                found.insert(of, offset);
            }
        }
        Ok(())
    }

    fn end(&self, of: &TopicPartition, place: Place) -> Result<i64, Error> {
        match place {
            Place::At(offset) => Ok(offset),
            _ => Err(self.lacks(format!("an offset of {of}"))),
        }
    }

    /// One request, in one of the versions `ours`.
    ///
    /// Version 0 knows when the files of a log were last written, and names the beginning of the newest file that was
    /// not written to after the time: of a file of older messages, never behind the first message of that time. From
    /// version 1 on (KIP-79) the answer is that message.
    fn ask(
        &self,
        wanted: Vec<(TopicPartition, OffsetTime)>,
        ours: RangeInclusive<i16>,
    ) -> Result<Vec<(TopicPartition, OffsetTime, Place)>, Error> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let (version, response) = self.consumer.offsets_by_version(ours, |version| {
            let request = ListOffsetsRequest::default();
            wanted.iter().fold(request, |request, (of, time)| {
                request.list(of.clone(), asked_for(*time, version))
            })
        })?;
        let mut answers: BTreeMap<TopicPartition, _> = response
            .partitions
            .into_iter()
            .map(|answer| (answer.topic_partition.clone(), answer))
            .collect();
        let places = wanted.into_iter().map(|(of, time)| {
            let answer = answers.remove(&of);
            let answer = answer.ok_or_else(|| self.lacks(format!("partition {of}")))?;
            let is_time = matches!(time, OffsetTime::Timestamp(_));
            let place = match (answer.error, answer.offset()) {
                (None, Some(offset)) => Place::At(offset),
                (None, None) if version == VERSION_OF_FILES => Place::BeforeAll,
                (None, None) => Place::BehindAll,
                (Some(ErrorCode::UnsupportedForMessageFormat), _) if is_time && version > 0 => {
                    Place::FilesOnly
                }
                (Some(code), _) => {
                    return Err(Error::Partition {
                        address: self.consumer.address().clone(),
                        api: ListOffsetsRequest::API,
                        topic_partition: of,
                        code,
                    });
                }
            };
            Ok((of, time, place))
        });
        places.collect()
    }

    fn lacks(&self, what: String) -> Error {
        Error::Incomplete {
            address: self.consumer.address().clone(),
            api: ListOffsetsRequest::API,
            what,
        }
    }
}

/// The time to ask for: a second less where the broker goes by the times of its files.
fn asked_for(time: OffsetTime, version: i16) -> OffsetTime {
    match time {
        OffsetTime::Timestamp(time) if version == VERSION_OF_FILES => {
            let early = time.saturating_sub(FILE_TIME_ERROR_MS).max(0);
            OffsetTime::Timestamp(early)
        }
        time => time,
    }
}

#[cfg(test)]
mod tests {
    use crate::net::fake_broker::FakeBroker;
    use crate::protocol::ListOffsetsResponse;
    use crate::protocol::PartitionOffsets;

    use super::*;

    #[test]
    fn a_negative_offset_is_none() {
        // -1 was handed to the application as the offset of a time.
        let broker = FakeBroker::answering(|request: ListOffsetsRequest| ListOffsetsResponse {
            partitions: vec![PartitionOffsets {
                topic_partition: request.partitions[0].topic_partition.clone(),
                error: None,
                timestamp: None,
                leader_epoch: None,
                offsets: vec![-1],
            }],
            ..ListOffsetsResponse::default()
        });
        let consumer = SimpleConsumer::new(broker.address(), SimpleConsumerOptions::default());
        let consumer = &consumer.unwrap();
        let wanted = vec![(TopicPartition::new("orders", 0), OffsetTime::Timestamp(7))];
        let mut found = Offsets::new();
        let error = LeaderLookup { consumer }
            .find(wanted, &mut found)
            .unwrap_err();
        assert!(matches!(error, Error::Incomplete { .. }), "{error:?}");
        assert!(found.is_empty());
    }
}
