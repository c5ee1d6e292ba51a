//! What one broker does with a request.

use std::io::Read;
use std::sync::Arc;

use crate::embedded::broker::cluster_state::SharedState;
use crate::embedded::broker::controller::Controller;
use crate::embedded::broker_settings::BrokerVersion;
use crate::embedded::faults::AnswerFault;
use crate::embedded::faults::Api;
use crate::embedded::faults::BrokerFaults;
use crate::error::ErrorCode;
use crate::protocol::FetchRequest;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::MetadataRequest;
use crate::protocol::ProduceRequest;
use crate::protocol::Reader;
use crate::protocol::Request;
use crate::protocol::RequestHeader;
use crate::protocol::response_frame;
use crate::thread::StopSignal;

/// Answers for one broker. Every connection has a thread that calls it.
#[derive(Debug)]
pub(super) struct RequestHandler {
    id: i32,
    version: BrokerVersion,
    shared: Arc<SharedState>,
    controller: Arc<Controller>,
    faults: Arc<BrokerFaults>,
}

/// What goes out after a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// These bytes.
    Frame(Vec<u8>),
    /// These bytes, and then the connection ends.
    LastFrame(Vec<u8>),
    /// Nothing, and the connection stays.
    Nothing,
    /// Nothing, and the connection ends.
    Close,
}

impl RequestHandler {
    pub(super) fn new(
        id: i32,
        shared: Arc<SharedState>,
        controller: Arc<Controller>,
        faults: Arc<BrokerFaults>,
    ) -> Self {
        Self {
            id,
            version: shared.read(|state| state.settings.version),
            shared,
            controller,
            faults,
        }
    }

    pub(super) fn id(&self) -> i32 {
        self.id
    }

    pub(super) fn shared(&self) -> &SharedState {
        &self.shared
    }

    pub(super) fn controller(&self) -> &Controller {
        &self.controller
    }

    pub(super) fn faults(&self) -> &BrokerFaults {
        &self.faults
    }

    /// Carries out the request that begins in `frame`, and makes the answer.
    pub(super) fn handle<R: Read>(&self, frame: &mut Reader<R>, stop: &StopSignal) -> Reply {
        let header = match RequestHeader::decode(frame) {
            Ok(header) => header,
            Err(error) => return self.refused(&error),
        };
        match header.api_key {
            ProduceRequest::KEY => self.handle_produce(&header, frame, stop),
            FetchRequest::KEY => self.answer(
                Api::Fetch,
                &header,
                frame,
                |request| self.fetch(request, stop),
                Self::refuse_fetch,
            ),
            ListOffsetsRequest::KEY => self.answer(
                Api::ListOffsets,
                &header,
                frame,
                |request| self.list_offsets(request),
                Self::refuse_list_offsets,
            ),
            MetadataRequest::KEY => self.answer(
                Api::Metadata,
                &header,
                frame,
                |request| self.metadata(request),
                Self::refuse_metadata,
            ),
            unknown => self.refused(&format!("unknown api key {unknown}")),
        }
    }

    /// Writing differs in that it may want no answer; then only the end of the connection tells of a failure.
    fn handle_produce<R: Read>(
        &self,
        header: &RequestHeader,
        frame: &mut Reader<R>,
        stop: &StopSignal,
    ) -> Reply {
        let mut is_answered = true;
        let mut has_failed = false;
        let reply = self.answer(
            Api::Produce,
            header,
            frame,
            |request: &ProduceRequest| {
                let response = self.produce(request, stop);
                is_answered = request.is_answered();
                has_failed = response.partitions.iter().any(|p| p.error.is_some());
                response
            },
            Self::refuse_produce,
        );
        match reply {
            reply if is_answered => reply,
            Reply::Frame(_) if !has_failed => Reply::Nothing,
            _ => Reply::Close,
        }
    }

    /// Reads the body, carries it out and makes the answer, or what a fault makes of it.
    fn answer<R: Read, Q: Request>(
        &self,
        api: Api,
        header: &RequestHeader,
        frame: &mut Reader<R>,
        carry_out: impl FnOnce(&Q) -> Q::Response,
        refuse: impl FnOnce(&Q, ErrorCode) -> Q::Response,
    ) -> Reply {
        let version = self.layout(api, header.api_version);
        let decoded = Q::decode(version, frame).and_then(|request| {
            frame.skip_rest()?;
            Ok(request)
        });
        let request = match decoded {
            Ok(request) => request,
            Err(error) => return self.refused(&error),
        };
        log::debug!("broker {} carries out {} v{version}", self.id, Q::API);
        let fault = self.faults.take_answer(api);
        let response = match fault {
            Some(AnswerFault::Error(code)) => refuse(&request, code),
            _ => carry_out(&request),
        };
        let correlation_id = match fault {
            Some(AnswerFault::WrongCorrelationId) => header.correlation_id.wrapping_sub(1),
            _ => header.correlation_id,
        };
        let frame = response_frame(&response, version, correlation_id, Vec::new());
        match frame {
            Ok(frame) => spoilt(frame, fault),
            Err(error) => {
                log::error!("broker {} cannot answer {}: {error}", self.id, Q::API);
                Reply::Close
            }
        }
    }

    /// The layout in which a request is read and answered.
    ///
    /// As in Kafka 0.8.2.2: a version that is too high is taken for the highest known one.
    fn layout(&self, api: Api, version: i16) -> i16 {
        let highest = match (self.version, api) {
            (BrokerVersion::V0_9_0, Api::Fetch | Api::Produce) => 1,
            _ => 0,
        };
        version.min(highest)
    }

    /// What becomes of a request that cannot be read.
    fn refused(&self, reason: &dyn std::fmt::Display) -> Reply {
        log::debug!("broker {} refuses a request: {reason}", self.id);
        match self.version {
            BrokerVersion::V0_8_2 => Reply::Close,
            BrokerVersion::V0_9_0 => Reply::Nothing,
        }
    }
}

/// The answer as a fault leaves it.
fn spoilt(mut frame: Vec<u8>, fault: Option<AnswerFault>) -> Reply {
    match fault {
        None | Some(AnswerFault::Error(_) | AnswerFault::WrongCorrelationId) => Reply::Frame(frame),
        Some(AnswerFault::HalfFrame) => {
            frame.truncate(frame.len() / 2);
            Reply::LastFrame(frame)
        }
        Some(AnswerFault::LyingLength(length)) => {
            if let Some(size) = frame.first_chunk_mut() {
                *size = length.to_be_bytes();
            }
            Reply::Frame(frame)
        }
        Some(AnswerFault::NoAnswer) => Reply::Close,
    }
}
