//! Answers of a broker to those who look for offsets.

use crate::cluster::TopicPartition;
use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::fetching::readable;
use crate::embedded::broker::partition_log::StoredEntry;
use crate::embedded::broker::request_handler::RequestHandler;
use crate::error::ErrorCode;
use crate::protocol::ListOffsetsPartition;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MessageFormat;
use crate::protocol::MessageSet;
use crate::protocol::OffsetTime;
use crate::protocol::PartitionOffsets;
use crate::protocol::Replica;

/// Where to look for a message.
struct Search {
    entries: Vec<StoredEntry>,
    from: i64,
    /// The first offset that is not shown.
    limit: i64,
}

impl RequestHandler {
    pub(super) fn list_offsets(
        &self,
        request: &ListOffsetsRequest,
        version: i16,
    ) -> ListOffsetsResponse {
        let partitions = request.partitions.iter().map(|wanted| match version {
            0 => self.shared().read(|state| {
                let offsets = before(state, self.id(), request.replica, wanted);
                listed(&wanted.topic_partition, offsets)
            }),
            _ => self.list_offset(request.replica, wanted),
        });
        ListOffsetsResponse {
            partitions: partitions.collect(),
            ..ListOffsetsResponse::default()
        }
    }

    pub(super) fn refuse_list_offsets(
        request: &ListOffsetsRequest,
        code: ErrorCode,
    ) -> ListOffsetsResponse {
        let partitions = request.partitions.iter();
        ListOffsetsResponse {
            partitions: partitions
                .map(|wanted| listed(&wanted.topic_partition, Err(code)))
                .collect(),
            ..ListOffsetsResponse::default()
        }
    }

    /// From version 1 on: the first message of the time or later, or an end of the log.
    fn list_offset(&self, replica: Replica, wanted: &ListOffsetsPartition) -> PartitionOffsets {
        let of = &wanted.topic_partition;
        let OffsetTime::Timestamp(time) = wanted.time else {
            let end = self.shared().read(|state| {
                let end = end_at(state, self.id(), replica, wanted)?;
                Ok(vec![end])
            });
            return listed(of, end);
        };
        let search = self
            .shared()
            .read(|state| search(state, self.id(), replica, of));
        match search.map(|search| search.first_from(time)) {
            Err(code) => listed(of, Err(code)),
            Ok(None) => listed(of, Ok(Vec::new())),
            Ok(Some((offset, time))) => PartitionOffsets {
                timestamp: Some(time),
                ..listed(of, Ok(vec![offset]))
            },
        }
    }
}

impl Search {
    /// Offset and time of the first message of `time` or later. Damaged messages have none.
    fn first_from(&self, time: i64) -> Option<(i64, i64)> {
        let sets = self.entries.iter();
        let sets = sets.map(|entry| MessageSet::from(entry.bytes.clone()));
        let messages = sets.flat_map(|set| set.messages()).flatten();
        let mut shown = messages
            .skip_while(|message| message.offset < self.from)
            .take_while(|message| message.offset < self.limit);
        shown.find_map(|message| {
            let timestamp = message.timestamp?.millis;
            (timestamp >= time).then_some((message.offset, timestamp))
        })
    }
}

fn search(
    state: &ClusterState,
    broker: i32,
    replica: Replica,
    of: &TopicPartition,
) -> Result<Search, ErrorCode> {
    let partition = state.known(of)?;
    let log = readable(partition, broker, replica)?;
    if state.message_format(broker) == MessageFormat::V0 {
        return Err(ErrorCode::UnsupportedForMessageFormat);
    }
    Ok(Search {
        entries: log.entries_from(log.log_start()),
        from: log.log_start(),
        limit: match replica {
            Replica::Consumer => partition.high_watermark(),
            Replica::Debugging | Replica::Broker(_) => log.log_end(),
        },
    })
}

fn end_at(
    state: &ClusterState,
    broker: i32,
    replica: Replica,
    wanted: &ListOffsetsPartition,
) -> Result<i64, ErrorCode> {
    let partition = state.known(&wanted.topic_partition)?;
    let log = readable(partition, broker, replica)?;
    Ok(match (wanted.time, replica) {
        (OffsetTime::Earliest, _) => log.log_start(),
        (_, Replica::Consumer) => partition.high_watermark(),
        (_, Replica::Debugging | Replica::Broker(_)) => log.log_end(),
    })
}

/// Version 0: what the files of the log tell.
fn before(
    state: &ClusterState,
    broker: i32,
    replica: Replica,
    wanted: &ListOffsetsPartition,
) -> Result<Vec<i64>, ErrorCode> {
    let partition = state.known(&wanted.topic_partition)?;
    let log = readable(partition, broker, replica)?;
    let offsets = log.offsets_before(wanted.time, wanted.max_offsets);
    let high_watermark = partition.high_watermark();
    let hidden = offsets.iter().filter(|offset| **offset > high_watermark);
    let hidden = hidden.count();
    // As in Kafka 0.8.2.2: for a consumer the high watermark stands for all that lies above it.
    if replica != Replica::Consumer || hidden == 0 {
        return Ok(offsets);
    }
    let shown = offsets.into_iter().skip(hidden);
    Ok(std::iter::once(high_watermark).chain(shown).collect())
}

fn listed(of: &TopicPartition, offsets: Result<Vec<i64>, ErrorCode>) -> PartitionOffsets {
    PartitionOffsets {
        topic_partition: of.clone(),
        error: offsets.as_ref().err().copied(),
        timestamp: None,
        leader_epoch: None,
        offsets: offsets.unwrap_or_default(),
    }
}
