//! The offsets that a fetcher asks its broker for: where to begin, and where to end.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::config::AutoOffsetReset;
use crate::events::Event;
use crate::fetch::fetcher_thread::Fetcher;
use crate::fetch::missing_offset;
use crate::fetch::partition_end::EndLookUp;
use crate::fetch::partition_topic_info::PartitionTopicInfo;
use crate::net::means_stale;
use crate::protocol::IsolationLevel;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::OffsetTime;
use crate::protocol::PartitionOffsets;
use crate::protocol::Replica;
use crate::thread::StopSignal;

impl Fetcher {
    /// Asks this broker, the leader, for the offsets that `auto.offset.reset` chooses, or has the streams told that it
    /// chooses none. A partition whose reset fails goes to the leader finder alone (D25).
    pub(super) fn resolve(&self, partitions: &[(Arc<PartitionTopicInfo>, u64)], stop: &StopSignal) {
        if partitions.is_empty() {
            return;
        }
        let time = match self.context.config.auto_offset_reset() {
            AutoOffsetReset::Smallest => OffsetTime::Earliest,
            AutoOffsetReset::Largest => OffsetTime::Latest,
            AutoOffsetReset::None => {
                let consumer = &self.shared.consumer;
                let failed = missing_offset::tell(partitions, consumer, &self.context, stop);
                return self.give_up_and_rest(failed, stop);
            }
        };
        let request = ListOffsetsRequest {
            isolation: self.context.config.isolation_level(),
            ..ListOffsetsRequest::default()
        };
        let request = partitions.iter().fold(request, |request, (info, _)| {
            request.list(info.topic_partition().clone(), time)
        });
        let infos = partitions.iter().map(|(info, _)| info);
        let Some(mut answers) = self.list(&request, infos, stop) else {
            return;
        };
        let mut failed = Vec::new();
        for (info, epoch) in partitions {
            let answer = answers.remove(info.topic_partition());
            if let Err(reason) = self.take_offset(info, *epoch, answer) {
                failed.push((Arc::clone(info), reason));
            }
        }
        self.give_up_and_rest(failed, stop);
    }

    /// Asks this broker, the leader, for the ends of partitions that are read no further. One that fails
    /// goes to the leader finder alone.
    pub(super) fn find_ends(
        &self,
        wanted: &[(Arc<PartitionTopicInfo>, EndLookUp)],
        stop: &StopSignal,
    ) {
        for (which, replica, isolation) in [
            // Up to where it can be read: no further than to the first open transaction, where that counts.
            (
                EndLookUp::Latest,
                Replica::Consumer,
                self.context.config.isolation_level(),
            ),
            (
                EndLookUp::OfLeader,
                Replica::Debugging,
                IsolationLevel::ReadUncommitted,
            ),
        ] {
            let infos = wanted.iter().filter(|(_, wanted)| *wanted == which);
            let infos: Vec<&Arc<PartitionTopicInfo>> = infos.map(|(info, _)| info).collect();
            if infos.is_empty() {
                continue;
            }
            let request = ListOffsetsRequest {
                replica,
                isolation,
                ..ListOffsetsRequest::default()
            };
            let request = infos.iter().fold(request, |request, info| {
                request.list(info.topic_partition().clone(), OffsetTime::Latest)
            });
            let Some(mut answers) = self.list(&request, infos.iter().copied(), stop) else {
                return;
            };
            let mut failed = Vec::new();
            for info in infos {
                match self.first_offset(answers.remove(info.topic_partition())) {
                    Ok(offset) => info.found_end(which, offset),
                    Err(reason) => failed.push((Arc::clone(info), reason)),
                }
            }
            self.give_up_and_rest(failed, stop);
        }
    }

    /// The answers to `request`, about `infos`; `None` when it failed, and they went to the leader finder.
    fn list<'a>(
        &self,
        request: &ListOffsetsRequest,
        infos: impl Iterator<Item = &'a Arc<PartitionTopicInfo>>,
        stop: &StopSignal,
    ) -> Option<HashMap<TopicPartition, PartitionOffsets>> {
        match self.shared.consumer.offsets_before(request) {
            Ok(response) => {
                let answers = response.partitions.into_iter();
                Some(
                    answers
                        .map(|answer| (answer.topic_partition.clone(), answer))
                        .collect(),
                )
            }
            Err(_) if stop.is_stopped() => None,
            Err(error) => {
                self.give_up_all(infos.cloned().collect(), &error, stop);
                None
            }
        }
    }

    /// The offset in an answer. What means another leader has the leaders looked up again.
    fn first_offset(&self, answer: Option<PartitionOffsets>) -> Result<i64, String> {
        let error = answer.as_ref().map(|answer| answer.error);
        if error.is_none_or(|error| error.is_some_and(means_stale)) {
            self.context.metadata.request_refresh();
        }
        first_offset(answer)
    }

    /// Goes on at the offset in `answer`, or says why the partition needs a rest first.
    fn take_offset(
        &self,
        info: &Arc<PartitionTopicInfo>,
        epoch: u64,
        answer: Option<PartitionOffsets>,
    ) -> Result<(), String> {
        let offset = self.first_offset(answer)?;
        let from = info.fetched();
        // Out of range where a reset has led, or is to lead again: it would go on like that without a pause.
        let is_futile = |from: &i64| *from == offset || info.was_reset_to(*from);
        let futile = from.filter(is_futile);
        if from != Some(offset) {
            self.reset(info, offset, epoch);
        }
        match futile {
            Some(from) => Err(format!("offset {from} is out of range")),
            None => Ok(()),
        }
    }

    /// Partitions without an offset go to the leader finder, and the broker gets a rest.
    fn give_up_and_rest(&self, failed: Vec<(Arc<PartitionTopicInfo>, String)>, stop: &StopSignal) {
        if !failed.is_empty() {
            self.give_up(failed);
            stop.pause(self.context.config.refresh_leader_backoff());
        }
    }

    fn reset(&self, info: &Arc<PartitionTopicInfo>, offset: i64, epoch: u64) {
        let from = info.fetched();
        if !info.reset(offset, epoch) {
            return;
        }
        self.context.stats.offset_resets.increment();
        let topic_partition = info.topic_partition().clone();
        match from {
            Some(from) => self.context.events.send(Event::OffsetReset {
                topic_partition,
                from,
                to: offset,
            }),
            None => log::debug!("{topic_partition} starts at {offset}"),
        }
    }
}

fn first_offset(answer: Option<PartitionOffsets>) -> Result<i64, String> {
    let answer = answer.ok_or_else(|| String::from("left out of the answer with offsets"))?;
    match (answer.error, answer.offset()) {
        (Some(code), _) => Err(format!("no offset: {code}")),
        (None, Some(offset)) => Ok(offset),
        (None, None) => Err(String::from("no offset in the answer with offsets")),
    }
}
