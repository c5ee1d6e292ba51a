//! Which broker keeps the offsets of a group.

use std::io::Read;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cluster::Broker;
use crate::cluster::BrokerAddress;
use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::reader::Reader;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::request::check_decoded;
use crate::protocol::request::check_encoded;
use crate::protocol::writer::Writer;

/// Asks for the coordinator of a group ("ConsumerMetadata" in Kafka 0.8.2). Versions 0 and 1; any broker answers.
///
/// The first request ever creates the topic of the offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindCoordinatorRequest {
    /// Name of the group.
    pub group: String,
}

/// The kind of coordinator that groups have; transactions have another one (KIP-98).
const OF_GROUP: i8 = 0;

/// Answers a [`FindCoordinatorRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindCoordinatorResponse {
    /// How long a quota held the answer back; `None` in version 0, which does not say.
    pub throttle_time: Option<Duration>,
    /// Why there is no coordinator.
    pub error: Option<ErrorCode>,
    /// The error in the broker's words; version 0 has none.
    pub error_message: Option<String>,
    /// The coordinator; `None` with an error, or where its port makes no sense.
    pub coordinator: Option<Broker>,
}

impl Request for FindCoordinatorRequest {
    const API: &'static str = "FindCoordinator";
    const KEY: i16 = 10;
    const VERSIONS: RangeInclusive<i16> = 0..=1;
    type Response = FindCoordinatorResponse;

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<FindCoordinatorRequest>(version)?;
        body.string("group", &self.group)?;
        if version >= 1 {
            body.i8(OF_GROUP);
        }
        Ok(())
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<FindCoordinatorRequest>(version)?;
        let group = body.string("group")?;
        let key_type = match version {
            0 => OF_GROUP,
            _ => body.i8("key_type")?,
        };
        match key_type {
            OF_GROUP => Ok(Self { group }),
            value => Err(DecodeError::Value {
                field: "key_type",
                value: value.into(),
            }),
        }
    }
}

impl Response for FindCoordinatorResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<FindCoordinatorRequest>(version)?;
        if version >= 1 {
            body.throttle_time(self.throttle_time)?;
        }
        body.i16(self.error.map_or(0, ErrorCode::code));
        if version >= 1 {
            body.nullable_string("error_message", self.error_message.as_deref())?;
        }
        match &self.coordinator {
            Some(broker) => {
                body.i32(broker.id);
                body.string("host", &broker.address.host)?;
                body.i32(i32::from(broker.address.port));
            }
            None => {
                body.i32(-1);
                body.string("host", "")?;
                body.i32(-1);
            }
        }
        Ok(())
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<FindCoordinatorRequest>(version)?;
        let throttle_time = body.throttle_time(version >= 1)?;
        let error = ErrorCode::from_wire(body.i16("error_code")?);
        let error_message = match version {
            0 => None,
            _ => body.nullable_string("error_message")?,
        };
        let id = body.i32("node_id")?;
        let host = body.string("host")?;
        let port = u16::try_from(body.i32("port")?);
        let coordinator = port.ok().map(|port| Broker {
            id,
            address: BrokerAddress { host, port },
        });
        Ok(Self {
            throttle_time,
            error,
            error_message,
            coordinator: coordinator.filter(|_| error.is_none()),
        })
    }
}
