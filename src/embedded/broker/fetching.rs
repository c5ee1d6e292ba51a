//! Answers of a broker to those who read.

use std::time::Instant;

use bytes::Bytes;

use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::fetch_sessions::Turn;
use crate::embedded::broker::partition::Partition;
use crate::embedded::broker::partition_log::Oversize;
use crate::embedded::broker::partition_log::PartitionLog;
use crate::embedded::broker::partition_log::ReadError;
use crate::embedded::broker::request_handler::RequestHandler;
use crate::error::ErrorCode;
use crate::protocol::ConversionError;
use crate::protocol::FetchPartition;
use crate::protocol::FetchRequest;
use crate::protocol::FetchResponse;
use crate::protocol::FetchedPartition;
use crate::protocol::IsolationLevel;
use crate::protocol::MessageFormat;
use crate::protocol::MessageSet;
use crate::protocol::OuterEntries;
use crate::protocol::PartitionHeader;
use crate::protocol::Replica;
use crate::protocol::down_convert;
use crate::thread::StopSignal;

/// What was read of one partition.
struct Found {
    high_watermark: i64,
    log_start: i64,
    /// The pieces of its entries.
    set: Vec<Bytes>,
}

impl RequestHandler {
    /// Waits until there is enough to read, anything fails, or the time is over.
    pub(super) fn fetch(
        &self,
        request: &FetchRequest,
        version: i16,
        stop: &StopSignal,
    ) -> FetchResponse {
        let incarnation = self.shared().read(|state| {
            let broker = state.brokers.get(&self.id());
            broker.map_or(0, |broker| broker.incarnation)
        });
        let turn = match self.sessions().begin(request, incarnation) {
            Ok(turn) => turn,
            Err(code) => {
                return FetchResponse {
                    error: Some(code),
                    ..FetchResponse::default()
                };
            }
        };
        let found = self.await_enough(request, version, &turn, stop);
        let parts = turn.wanted.iter().zip(found);
        let mut partitions: Vec<FetchedPartition> = parts
            .map(|(wanted, found)| {
                let readable = found.and_then(|found| found.readable(version, wanted));
                fetched(wanted, readable, request.isolation)
            })
            .collect();
        self.sessions().end(&turn, &mut partitions);
        FetchResponse {
            session_id: turn.session_id,
            partitions,
            ..FetchResponse::default()
        }
    }

    pub(super) fn refuse_fetch(request: &FetchRequest, code: ErrorCode) -> FetchResponse {
        let partitions = request.partitions.iter();
        FetchResponse {
            partitions: partitions
                .map(|wanted| fetched(wanted, Err(code), request.isolation))
                .collect(),
            ..FetchResponse::default()
        }
    }

    fn await_enough(
        &self,
        request: &FetchRequest,
        version: i16,
        turn: &Turn,
        stop: &StopSignal,
    ) -> Vec<Result<Found, ErrorCode>> {
        let deadline = Instant::now().checked_add(request.max_wait);
        let deadline = deadline.unwrap_or_else(Instant::now);
        let least = usize::try_from(request.min_bytes).unwrap_or(0);
        self.shared().wait_for(deadline, stop, |state| {
            let parts = self.read_all(state, request, version, &turn.wanted);
            let sizes = parts.iter().flatten().map(Found::size);
            let is_enough = sizes.sum::<usize>() >= least
                || turn.wanted.is_empty()
                || parts.iter().any(Result::is_err);
            if is_enough { Ok(parts) } else { Err(parts) }
        })
    }

    /// Reads the partitions in their order. From version 3 on no more than `max_bytes` in all, but one entry of the
    /// first that has any, and elsewhere no piece of a first entry (KIP-74).
    fn read_all(
        &self,
        state: &ClusterState,
        request: &FetchRequest,
        version: i16,
        wanted: &[FetchPartition],
    ) -> Vec<Result<Found, ErrorCode>> {
        let is_bounded = version >= 3;
        let mut left = match is_bounded {
            true => request.max_bytes,
            false => i32::MAX,
        };
        let mut oversize = match is_bounded {
            true => Oversize::Whole,
            false => Oversize::Cut,
        };
        let read_one = |wanted: &FetchPartition| {
            let most = wanted.max_bytes.min(left.max(0));
            let found = self.read(state, request.replica, wanted, most, oversize)?;
            if is_bounded && !found.set.is_empty() {
                let size = i32::try_from(found.size()).unwrap_or(i32::MAX);
                left = left.saturating_sub(size);
                oversize = Oversize::LeftOut;
            }
            Ok(found)
        };
        wanted.iter().map(read_one).collect()
    }

    fn read(
        &self,
        state: &ClusterState,
        replica: Replica,
        wanted: &FetchPartition,
        most: i32,
        oversize: Oversize,
    ) -> Result<Found, ErrorCode> {
        let partition = state.known(&wanted.topic_partition)?;
        let high_watermark = partition.high_watermark();
        let log = readable(partition, self.id(), replica)?;
        // A broker that replicates sees the whole log; everybody else what all replicas in sync have.
        let limit = match replica {
            Replica::Broker(_) => None,
            Replica::Consumer | Replica::Debugging => Some(high_watermark),
        };
        let fails_above = state.behaviour(self.id()).fails_above_high_watermark;
        let set = match log.read(wanted.fetch_offset, most, limit, oversize) {
            Ok(set) => set,
            Err(ReadError::OutOfRange) => return Err(ErrorCode::OffsetOutOfRange),
            Err(ReadError::AboveLimit) if !fails_above => Vec::new(),
            // As in Kafka 0.8.2.2: there is no code for it.
            Err(ReadError::AboveLimit | ReadError::Failed) => {
                return Err(ErrorCode::UnknownServerError);
            }
        };
        Ok(Found {
            high_watermark,
            log_start: log.log_start(),
            set,
        })
    }
}

impl Found {
    fn size(&self) -> usize {
        self.set.iter().map(Bytes::len).sum()
    }

    /// The same in a format that a reader with this version of the request knows. Of a set without a whole entry the
    /// piece stays as it is, so that the reader sees that more would come.
    fn readable(self, version: i16, wanted: &FetchPartition) -> Result<Self, ErrorCode> {
        let format = match version {
            ..=1 => MessageFormat::V0,
            2..=3 => MessageFormat::V1,
            _ => return Ok(self),
        };
        let set = self.set.concat();
        let is_later = OuterEntries::new(&set).any(|entry| entry.magic() > format.magic());
        if !is_later {
            return Ok(self);
        }
        let converted = down_convert(&set, format, wanted.fetch_offset);
        let converted = converted.map_err(|error| {
            log::debug!("{} cannot be read: {error}", wanted.topic_partition);
            match error {
                ConversionError::Codec(_) => ErrorCode::UnsupportedCompressionType,
                ConversionError::Corrupt(_) | ConversionError::Refused(_) => {
                    ErrorCode::CorruptMessage
                }
            }
        })?;
        Ok(Self {
            set: vec![Bytes::from(converted)],
            ..self
        })
    }
}

/// The log that `broker` may show to `replica`.
pub(super) fn readable(
    partition: &Partition,
    broker: i32,
    replica: Replica,
) -> Result<&PartitionLog, ErrorCode> {
    match replica {
        Replica::Debugging => partition.log(broker).ok_or(ErrorCode::ReplicaNotAvailable),
        Replica::Consumer | Replica::Broker(_) => partition.led_by(broker),
    }
}

/// No transaction is ever open or aborted here.
fn fetched(
    wanted: &FetchPartition,
    found: Result<Found, ErrorCode>,
    isolation: IsolationLevel,
) -> FetchedPartition {
    let header = match &found {
        Ok(found) => PartitionHeader {
            high_watermark: Some(found.high_watermark),
            last_stable_offset: Some(found.high_watermark),
            log_start_offset: Some(found.log_start),
            aborted_transactions: (isolation == IsolationLevel::ReadCommitted).then(Vec::new),
            ..PartitionHeader::default()
        },
        Err(code) => PartitionHeader {
            error: Some(*code),
            ..PartitionHeader::default()
        },
    };
    let set = found.map_or_else(|_| Vec::new(), |found| found.set.concat());
    FetchedPartition {
        topic_partition: wanted.topic_partition.clone(),
        header,
        message_set: MessageSet::from(set),
    }
}
