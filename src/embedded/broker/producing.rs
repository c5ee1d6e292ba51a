//! Answers of a broker to those who write.

use std::time::Instant;

use crate::cluster::TopicPartition;
use crate::embedded::broker::append_rules::AppendRules;
use crate::embedded::broker::cluster_state::ClusterState;
use crate::embedded::broker::cluster_state::OFFSETS_TOPIC;
use crate::embedded::broker::partition::Appended;
use crate::embedded::broker::request_handler::RequestHandler;
use crate::embedded::clock::milliseconds_now;
use crate::error::ErrorCode;
use crate::protocol::MessageFormat;
use crate::protocol::MessageSet;
use crate::protocol::OuterEntries;
use crate::protocol::ProducePartition;
use crate::protocol::ProduceRequest;
use crate::protocol::ProduceResponse;
use crate::protocol::ProducedPartition;
use crate::protocol::RequiredAcks;
use crate::thread::StopSignal;

impl RequestHandler {
    /// Appends, and waits for the replicas that the request wants.
    pub(super) fn produce(
        &self,
        request: &ProduceRequest,
        version: i16,
        stop: &StopSignal,
    ) -> ProduceResponse {
        let mut outcomes: Vec<ProducedPartition> = Vec::new();
        let mut ends = Vec::new();
        for wanted in &request.partitions {
            let outcome = self.append(wanted, version, request.acks);
            if let Ok(appended) = outcome {
                ends.push((outcomes.len(), appended.log_end));
            }
            outcomes.push(produced(&wanted.topic_partition, outcome));
        }
        let late = self.await_replicas(request, &ends, stop);
        for (index, code) in late {
            if let Some(outcome) = outcomes.get_mut(index) {
                outcome.error = Some(code);
            }
        }
        ProduceResponse {
            partitions: outcomes,
            throttle_time: None,
        }
    }

    pub(super) fn refuse_produce(request: &ProduceRequest, code: ErrorCode) -> ProduceResponse {
        let partitions = request.partitions.iter();
        ProduceResponse {
            partitions: partitions
                .map(|wanted| produced(&wanted.topic_partition, Err(code)))
                .collect(),
            throttle_time: None,
        }
    }

    fn append(
        &self,
        wanted: &ProducePartition,
        version: i16,
        acks: RequiredAcks,
    ) -> Result<Appended, ErrorCode> {
        if matches!(acks, RequiredAcks::Replicas(_)) && !self.behaviour().counts_acks {
            return Err(ErrorCode::InvalidRequiredAcks);
        }
        if wanted.topic_partition.topic() == OFFSETS_TOPIC {
            return Err(ErrorCode::InvalidTopic);
        }
        if version >= 3 && !is_one_batch(&wanted.message_set) {
            return Err(ErrorCode::CorruptMessage);
        }
        self.append_set(&wanted.topic_partition, &wanted.message_set, acks)
    }

    /// Appends to any topic, an internal one too.
    pub(super) fn append_set(
        &self,
        of: &TopicPartition,
        set: &MessageSet,
        acks: RequiredAcks,
    ) -> Result<Appended, ErrorCode> {
        self.shared().change(|state| {
            check(state, of, set, acks)?;
            let rules = AppendRules::of(state, self.id(), milliseconds_now());
            let appended = state.change_partition(of, |partition, keeps_up| {
                partition.append(self.id(), set, &rules, keeps_up)
            });
            appended.unwrap_or(Err(ErrorCode::UnknownTopicOrPartition))
        })
    }

    /// The codes of those appends, by their index, that were not replicated in time.
    fn await_replicas(
        &self,
        request: &ProduceRequest,
        ends: &[(usize, i64)],
        stop: &StopSignal,
    ) -> Vec<(usize, ErrorCode)> {
        let deadline = Instant::now().checked_add(request.timeout);
        let deadline = deadline.unwrap_or_else(Instant::now);
        self.shared().wait_for(deadline, stop, |state| {
            let mut is_complete = true;
            let mut late = Vec::new();
            for (index, log_end) in ends {
                let wanted = request.partitions.get(*index);
                let of = wanted.map(|wanted| &wanted.topic_partition);
                match of.map(|of| self.is_replicated(state, of, *log_end, request.acks)) {
                    Some(Ok(true)) | None => (),
                    Some(Ok(false)) => {
                        is_complete = false;
                        late.push((*index, ErrorCode::RequestTimedOut));
                    }
                    Some(Err(code)) => late.push((*index, code)),
                }
            }
            if is_complete { Ok(late) } else { Err(late) }
        })
    }

    /// Whether as many replicas have everything before `log_end` as `acks` asks for.
    pub(super) fn is_replicated(
        &self,
        state: &ClusterState,
        of: &TopicPartition,
        log_end: i64,
        acks: RequiredAcks,
    ) -> Result<bool, ErrorCode> {
        if matches!(acks, RequiredAcks::None | RequiredAcks::Leader) {
            return Ok(true);
        }
        let partition = state.known(of)?;
        // After a change of the leader the messages may be gone.
        partition.led_by(self.id())?;
        Ok(match acks {
            RequiredAcks::Replicas(replicas) => usize::try_from(replicas)
                .is_ok_and(|replicas| partition.replicas_with(log_end) >= replicas),
            _ => partition.high_watermark() >= log_end,
        })
    }
}

fn check(
    state: &ClusterState,
    of: &TopicPartition,
    set: &MessageSet,
    acks: RequiredAcks,
) -> Result<(), ErrorCode> {
    let partition = state.known(of)?;
    let settings = &state.settings;
    if acks == RequiredAcks::All && partition.isr().len() < settings.min_insync_replicas {
        return Err(ErrorCode::NotEnoughReplicas);
    }
    match set.len() > state.segment_bytes(of.topic()) {
        true => Err(ErrorCode::RecordListTooLarge),
        false => Ok(()),
    }
}

/// As in Kafka 0.11: from version 3 on a request carries one record batch for each partition.
fn is_one_batch(set: &MessageSet) -> bool {
    let mut entries = OuterEntries::new(set.as_bytes());
    let first = entries.next();
    first.is_some_and(|entry| entry.magic() == MessageFormat::V2.magic())
        && entries.rest().is_empty()
}

fn produced(of: &TopicPartition, outcome: Result<Appended, ErrorCode>) -> ProducedPartition {
    ProducedPartition {
        topic_partition: of.clone(),
        error: outcome.as_ref().err().copied(),
        base_offset: outcome.ok().and_then(|appended| appended.base_offset),
        log_append_time: outcome.ok().and_then(|appended| appended.log_append_time),
    }
}
