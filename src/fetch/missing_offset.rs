//! Partitions without a usable offset where `auto.offset.reset=none` chooses none.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::events::Event;
use crate::fetch::fetcher_thread::FetchContext;
use crate::fetch::partition_topic_info::PartitionTopicInfo;
use crate::net::SimpleConsumer;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::OffsetTime;
use crate::thread::StopSignal;

/// Stops these partitions, each with its position epoch, and has their streams tell where their logs begin and end.
///
/// Returns those whose offset is within the log after all, with the reason to ask their leader again.
pub(super) fn tell(
    partitions: &[(Arc<PartitionTopicInfo>, u64)],
    consumer: &SimpleConsumer,
    context: &FetchContext,
    stop: &StopSignal,
) -> Vec<(Arc<PartitionTopicInfo>, String)> {
    let mut starts = offsets(partitions, OffsetTime::Earliest, consumer);
    let mut ends = offsets(partitions, OffsetTime::Latest, consumer);
    if stop.is_stopped() {
        return Vec::new();
    }
    let mut failed = Vec::new();
    for (info, epoch) in partitions {
        let topic_partition = info.topic_partition();
        let ends = (starts.remove(topic_partition), ends.remove(topic_partition));
        let log: Option<Range<i64>> = match ends {
            (Some(start), Some(end)) if start <= end => Some(start..end),
            _ => None,
        };
        let offset = info.fetched();
        let is_within = |log: &Range<i64>| {
            offset.is_some_and(|offset| log.start <= offset && offset <= log.end)
        };
        if log.as_ref().is_some_and(is_within) {
            failed.push((
                Arc::clone(info),
                String::from("out of range within the log"),
            ));
            continue;
        }
        if info.enqueue_no_offset(*epoch, log.clone()) {
            context.events.send(Event::NoOffset {
                topic_partition: topic_partition.clone(),
                offset,
                log,
            });
        }
    }
    failed
}

/// One end of each log. What cannot be had is left out: it only makes the report more useful.
fn offsets(
    partitions: &[(Arc<PartitionTopicInfo>, u64)],
    time: OffsetTime,
    consumer: &SimpleConsumer,
) -> HashMap<TopicPartition, i64> {
    let request = ListOffsetsRequest::default();
    let request = partitions.iter().fold(request, |request, (info, _)| {
        request.list(info.topic_partition().clone(), time)
    });
    let answers = match consumer.offsets_before(&request) {
        Ok(response) => response.partitions,
        Err(error) => {
            log::debug!("ends of logs not known: {}", error.chain());
            Vec::new()
        }
    };
    let known = answers.into_iter().filter_map(|answer| {
        let offset = answer.offset().filter(|_| answer.error.is_none())?;
        Some((answer.topic_partition, offset))
    });
    known.collect()
}
