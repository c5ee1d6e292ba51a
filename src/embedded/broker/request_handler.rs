//! What one broker does with a request.

use std::io::Read;
use std::sync::Arc;

use crate::embedded::broker::cluster_state::SharedState;
use crate::embedded::broker::controller::Controller;
use crate::embedded::broker::coordinating::OffsetCache;
use crate::embedded::broker::fetch_sessions::FetchSessions;
use crate::embedded::broker_version::Behaviour;
use crate::embedded::broker_version::Unreadable;
use crate::embedded::faults::AnswerFault;
use crate::embedded::faults::Api;
use crate::embedded::faults::BrokerFaults;
use crate::error::ErrorCode;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::FetchRequest;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::MetadataRequest;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetFetchRequest;
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
    shared: Arc<SharedState>,
    controller: Arc<Controller>,
    faults: Arc<BrokerFaults>,
    /// The offsets of the groups that this broker coordinates.
    offsets: OffsetCache,
    sessions: FetchSessions,
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
            shared,
            controller,
            faults,
            offsets: OffsetCache::default(),
            sessions: FetchSessions::default(),
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

    pub(super) fn behaviour(&self) -> &'static Behaviour {
        self.shared.read(|state| state.behaviour(self.id))
    }

    pub(super) fn sessions(&self) -> &FetchSessions {
        &self.sessions
    }

    pub(super) fn offsets(&self) -> &OffsetCache {
        &self.offsets
    }

    pub(super) fn faults(&self) -> &BrokerFaults {
        &self.faults
    }

    /// Carries out the request that begins in `frame`, and makes the answer.
    pub(super) fn handle<R: Read>(&self, frame: &mut Reader<R>, stop: &StopSignal) -> Reply {
        let header = match RequestHeader::decode(frame) {
            Ok(header) => header,
            Err(error) => return self.refused(None, &error),
        };
        match header.api_key {
            ProduceRequest::KEY => self.handle_produce(&header, frame, stop),
            FetchRequest::KEY => self.answer(
                Api::Fetch,
                &header,
                frame,
                |request, version| self.fetch(request, version, stop),
                Self::refuse_fetch,
            ),
            ListOffsetsRequest::KEY => self.answer(
                Api::ListOffsets,
                &header,
                frame,
                |request, version| self.list_offsets(request, version),
                Self::refuse_list_offsets,
            ),
            MetadataRequest::KEY => self.answer(
                Api::Metadata,
                &header,
                frame,
                |request, version| self.metadata(request, version),
                Self::refuse_metadata,
            ),
            OffsetCommitRequest::KEY | OffsetFetchRequest::KEY | FindCoordinatorRequest::KEY => {
                self.handle_group(&header, frame, stop)
            }
            ApiVersionsRequest::KEY => self.handle_api_versions(&header, frame),
            unknown => self.refused(None, &format!("unknown api key {unknown}")),
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
            |request: &ProduceRequest, version| {
                let response = self.produce(request, version, stop);
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

    /// Says what is served. As in Kafka 0.10: who asks in a version that is too high hears so in version 0.
    fn handle_api_versions<R: Read>(&self, header: &RequestHeader, frame: &mut Reader<R>) -> Reply {
        let behaviour = self.behaviour();
        let is_known = behaviour.layout(Api::ApiVersions, 0).is_some();
        let is_served = behaviour
            .layout(Api::ApiVersions, header.api_version)
            .is_some();
        if is_known && !is_served {
            let response = ApiVersionsResponse {
                error: Some(ErrorCode::UnsupportedVersion),
                ..ApiVersionsResponse::default()
            };
            return match response_frame(&response, 0, header.correlation_id, Vec::new()) {
                Ok(frame) => Reply::Frame(frame),
                Err(error) => self.refused(Some(Api::ApiVersions), &error),
            };
        }
        self.answer(
            Api::ApiVersions,
            header,
            frame,
            |_: &ApiVersionsRequest, _| ApiVersionsResponse {
                error: None,
                api_versions: behaviour.served(),
                throttle_time: None,
            },
            |_, code| ApiVersionsResponse {
                error: Some(code),
                ..ApiVersionsResponse::default()
            },
        )
    }

    /// What a group asks of its coordinator.
    fn handle_group<R: Read>(
        &self,
        header: &RequestHeader,
        frame: &mut Reader<R>,
        stop: &StopSignal,
    ) -> Reply {
        let is_in_zookeeper = header.api_version == 0;
        match header.api_key {
            OffsetCommitRequest::KEY => self.answer(
                Api::OffsetCommit,
                header,
                frame,
                |request, _| match is_in_zookeeper {
                    true => self.commit_to_zookeeper(request),
                    false => self.commit_to_log(request, stop),
                },
                Self::refuse_commit,
            ),
            OffsetFetchRequest::KEY => {
                let layout = self
                    .behaviour()
                    .layout(Api::OffsetFetch, header.api_version);
                self.answer(
                    Api::OffsetFetch,
                    header,
                    frame,
                    |request, version| match is_in_zookeeper {
                        true => self.offsets_of_zookeeper(request),
                        false => self.offsets_of_log(request, version),
                    },
                    |request, code| Self::refuse_offsets(request, layout.unwrap_or_default(), code),
                )
            }
            _ => self.answer(
                Api::FindCoordinator,
                header,
                frame,
                |request, _| self.find_coordinator(request),
                Self::refuse_coordinator,
            ),
        }
    }

    /// Reads the body, carries it out and makes the answer, or what a fault makes of it.
    fn answer<R: Read, Q: Request>(
        &self,
        api: Api,
        header: &RequestHeader,
        frame: &mut Reader<R>,
        carry_out: impl FnOnce(&Q, i16) -> Q::Response,
        refuse: impl FnOnce(&Q, ErrorCode) -> Q::Response,
    ) -> Reply {
        let Some(version) = self.behaviour().layout(api, header.api_version) else {
            return self.refused(Some(api), &format!("{} v{}", Q::API, header.api_version));
        };
        let decoded = Q::decode(version, frame).and_then(|request| {
            frame.skip_rest()?;
            Ok(request)
        });
        let request = match decoded {
            Ok(request) => request,
            Err(error) => return self.refused(Some(api), &error),
        };
        log::debug!("broker {} carries out {} v{version}", self.id, Q::API);
        let fault = self.faults.take_answer(api);
        let response = match fault {
            Some(AnswerFault::Error(code)) => refuse(&request, code),
            _ => carry_out(&request, version),
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

    /// What becomes of a request that cannot be read; `None` for one that is not known at all.
    fn refused(&self, api: Option<Api>, reason: &dyn std::fmt::Display) -> Reply {
        log::debug!("broker {} refuses a request: {reason}", self.id);
        match self.behaviour().unreadable {
            Unreadable::Silence => Reply::Nothing,
            Unreadable::SilenceToFetch if api == Some(Api::Fetch) => Reply::Nothing,
            Unreadable::SilenceToFetch | Unreadable::Closes => Reply::Close,
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
