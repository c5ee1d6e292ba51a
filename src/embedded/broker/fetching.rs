//! Answers of a broker to those who read.

use std::time::Instant;

use crate::cluster::TopicPartition;
use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::partition::Partition;
use crate::embedded::broker::partition_log::PartitionLog;
use crate::embedded::broker::partition_log::ReadError;
use crate::embedded::broker::request_handler::RequestHandler;
use crate::error::ErrorCode;
use crate::protocol::FetchPartition;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::FetchedPartition;
use crate::protocol::ListOffsetsPartition;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::ListOffsetsResponse;
use crate::protocol::MessageSet;
use crate::protocol::PartitionHeader;
use crate::protocol::PartitionOffsets;
use crate::protocol::Replica;
use crate::thread::StopSignal;

/// What was read of one partition: the high watermark and the pieces of its entries.
type Read = Result<(i64, Vec<bytes::Bytes>), ErrorCode>;

impl RequestHandler {
    /// Waits until there is enough to read, anything fails, or the time is over.
    pub(super) fn fetch(&self, request: &FetchRequest, stop: &StopSignal) -> FetchResponse {
        let wanted = last_of_each(&request.partitions);
        let deadline = Instant::now().checked_add(request.max_wait);
        let deadline = deadline.unwrap_or_else(Instant::now);
        let least = usize::try_from(request.min_bytes).unwrap_or(0);
        let parts = self.shared().wait_for(deadline, stop, |state| {
            let parts: Vec<Read> = wanted
                .iter()
                .map(|wanted| read(state, self.id(), request.replica, wanted))
                .collect();
            let size: usize = parts.iter().flatten().map(|(_, set)| length(set)).sum();
            let is_enough = size >= least || wanted.is_empty() || parts.iter().any(Result::is_err);
            if is_enough { Ok(parts) } else { Err(parts) }
        });
        FetchResponse {
            partitions: wanted
                .iter()
                .zip(parts)
                .map(|(wanted, read)| fetched(&wanted.topic_partition, read))
                .collect(),
            ..FetchResponse::default()
        }
    }

    pub(super) fn refuse_fetch(request: &FetchRequest, code: ErrorCode) -> FetchResponse {
        let partitions = request.partitions.iter();
        FetchResponse {
            partitions: partitions
                .map(|wanted| fetched(&wanted.topic_partition, Err(code)))
                .collect(),
            ..FetchResponse::default()
        }
    }

    pub(super) fn list_offsets(&self, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        self.shared().read(|state| ListOffsetsResponse {
            partitions: request
                .partitions
                .iter()
                .map(|wanted| {
                    let offsets = offsets(state, self.id(), request.replica, wanted);
                    listed(&wanted.topic_partition, offsets)
                })
                .collect(),
            ..ListOffsetsResponse::default()
        })
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
}

/// As in Kafka 0.8.2.2: a partition that is asked for twice is answered once, by the last request.
fn last_of_each(wanted: &[FetchPartition]) -> Vec<&FetchPartition> {
    let all_after = |index: usize| wanted.iter().skip(index.saturating_add(1));
    let is_last = |(index, wanted): &(usize, &FetchPartition)| {
        let mut later = all_after(*index);
        !later.any(|later| later.topic_partition == wanted.topic_partition)
    };
    let lasting = wanted.iter().enumerate().filter(is_last);
    lasting.map(|(_, wanted)| wanted).collect()
}

fn read(state: &ClusterState, broker: i32, replica: Replica, wanted: &FetchPartition) -> Read {
    let partition = state.known(&wanted.topic_partition)?;
    let high_watermark = partition.high_watermark();
    let log = readable(partition, broker, replica)?;
    // A broker that replicates sees the whole log; everybody else what all replicas in sync have.
    let limit = match replica {
        Replica::Broker(_) => None,
        Replica::Consumer | Replica::Debugging => Some(high_watermark),
    };
    let set = log.read(wanted.fetch_offset, wanted.max_bytes, limit);
    let set = set.map_err(|error| match error {
        ReadError::OutOfRange => ErrorCode::OffsetOutOfRange,
        ReadError::Failed => ErrorCode::UnknownServerError,
    })?;
    Ok((high_watermark, set))
}

/// The log that `broker` may show to `replica`.
fn readable(
    partition: &Partition,
    broker: i32,
    replica: Replica,
) -> Result<&PartitionLog, ErrorCode> {
    match replica {
        Replica::Debugging => partition.log(broker).ok_or(ErrorCode::ReplicaNotAvailable),
        Replica::Consumer | Replica::Broker(_) => partition.led_by(broker),
    }
}

fn fetched(of: &TopicPartition, read: Read) -> FetchedPartition {
    let (error, high_watermark, set) = match read {
        Ok((high_watermark, set)) => (None, Some(high_watermark), set.concat()),
        Err(code) => (Some(code), None, Vec::new()),
    };
    FetchedPartition {
        topic_partition: of.clone(),
        header: PartitionHeader {
            error,
            high_watermark,
            ..PartitionHeader::default()
        },
        message_set: MessageSet::from(set),
    }
}

fn length(set: &[bytes::Bytes]) -> usize {
    set.iter().map(bytes::Bytes::len).sum()
}

fn offsets(
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
        offsets: offsets.unwrap_or_default(),
    }
}
