//! Finds offsets by time, asking the leaders of the partitions.

use std::collections::BTreeMap;

use crate::cluster::Broker;
use crate::cluster::TopicPartition;
use crate::error::Error;
use crate::net::ClusterMetadata;
use crate::net::SimpleConsumer;
use crate::net::SimpleConsumerOptions;
use crate::net::means_stale;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::OffsetTime;
use crate::protocol::PartitionOffsets;
use crate::protocol::Request;
use crate::thread::StopSignal;

/// Rounds until an error is told: a leader that has just moved is found by the second.
const ROUNDS: usize = 2;

/// How much too old a broker may take a file for: before version 10 Java told its time in whole seconds (JDK-8177809).
const FILE_TIME_ERROR_MS: i64 = 1000;

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
            let options = self.options.clone();
            let consumer = SimpleConsumer::observing(leader.address.clone(), options, &self.stop)?;
            let mut before_all = Vec::new();
            for (topic_partition, offset) in ask(&consumer, &wanted)? {
                match offset {
                    Some(offset) => {
                        found.insert(topic_partition, offset);
                    }
                    // Everything in the log is younger than the time.
                    None => before_all.push((topic_partition, OffsetTime::Earliest)),
                }
            }
            for (topic_partition, offset) in ask(&consumer, &before_all)? {
                let lacks = || Error::Incomplete {
                    address: consumer.address().clone(),
                    api: ListOffsetsRequest::API,
                    what: format!("an offset of {topic_partition}"),
                };
                let offset = offset.ok_or_else(lacks)?;
                found.insert(topic_partition, offset);
            }
        }
        Ok(())
    }
}

/// One request to a leader. `None`: the whole log is younger than that.
///
/// Version 0 knows when the files of a log were last written, and names the beginning of the newest file that was not
/// written to after the time: of a file of older messages, never behind the first message of that time.
fn ask(
    consumer: &SimpleConsumer,
    wanted: &[(TopicPartition, OffsetTime)],
) -> Result<Vec<(TopicPartition, Option<i64>)>, Error> {
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let request = ListOffsetsRequest::default();
    let request = wanted.iter().fold(request, |request, (of, time)| {
        request.list(of.clone(), for_files(*time))
    });
    let response = consumer.offsets_before(&request)?;
    let mut answers: BTreeMap<TopicPartition, _> = response
        .partitions
        .into_iter()
        .map(|answer| (answer.topic_partition.clone(), answer))
        .collect();
    let (address, api) = (consumer.address(), ListOffsetsRequest::API);
    let offsets = wanted.iter().map(|(topic_partition, _)| {
        let lacks = || Error::Incomplete {
            address: address.clone(),
            api,
            what: format!("partition {topic_partition}"),
        };
        let answer = answers.remove(topic_partition).ok_or_else(lacks)?;
        match answer.error {
            Some(code) => Err(Error::Partition {
                address: address.clone(),
                api,
                topic_partition: topic_partition.clone(),
                code,
            }),
            None => Ok((topic_partition.clone(), offset_of(&answer))),
        }
    });
    offsets.collect()
}

/// No log has negative offsets; on the wire they stand for none.
fn offset_of(answer: &PartitionOffsets) -> Option<i64> {
    answer.offset().filter(|offset| *offset >= 0)
}

/// The time to ask a broker for that goes by the times of its files.
fn for_files(time: OffsetTime) -> OffsetTime {
    match time {
        OffsetTime::Timestamp(time) => {
            let early = time.saturating_sub(FILE_TIME_ERROR_MS).max(0);
            OffsetTime::Timestamp(early)
        }
        end => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::fake_broker::FakeBroker;
    use crate::protocol::ListOffsetsResponse;

    #[test]
    fn a_negative_offset_is_none() {
        // -1 was handed to the application as the offset of a time.
        let broker = FakeBroker::answering(|request: ListOffsetsRequest| ListOffsetsResponse {
            partitions: vec![PartitionOffsets {
                topic_partition: request.partitions[0].topic_partition.clone(),
                error: None,
                timestamp: None,
                offsets: vec![-1],
            }],
            ..ListOffsetsResponse::default()
        });
        let consumer = SimpleConsumer::new(broker.address(), SimpleConsumerOptions::default());
        let of = TopicPartition::new("orders", 0);
        let wanted = [(of.clone(), OffsetTime::Timestamp(7))];
        assert_eq!(ask(&consumer.unwrap(), &wanted).unwrap(), [(of, None)]);
    }
}
