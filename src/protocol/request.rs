//! What all requests and responses have in common, and the frames around them.

use std::io::Read;
use std::ops::RangeInclusive;

use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::reader::Reader;
use crate::protocol::writer::Writer;

/// The body of a request.
///
/// The version is chosen by who knows the broker, not by who makes the request, so it is an argument.
pub(crate) trait Request: Sized {
    /// Name of the API, for errors and logs.
    const API: &'static str;
    /// Number of the API on the wire.
    const KEY: i16;
    /// The versions whose layouts are known here.
    const VERSIONS: RangeInclusive<i16>;
    /// What answers it.
    type Response: Response;

    /// Whether the broker answers at all.
    fn is_answered(&self) -> bool {
        true
    }

    /// Writes the body in the layout of `version`.
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError>;

    /// Reads a body in the layout of `version`.
    #[cfg_attr(
        not(any(test, feature = "embedded")),
        expect(dead_code, reason = "the broker's side")
    )]
    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError>;
}

/// The body of a response.
pub(crate) trait Response: Sized {
    /// Writes the body in the layout of `version`.
    #[cfg_attr(
        not(any(test, feature = "embedded")),
        expect(dead_code, reason = "the broker's side")
    )]
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError>;

    /// Reads a body in the layout of `version`. Bytes after it are left alone.
    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError>;
}

/// Refuses to write a version whose layout is not known.
pub(super) fn check_encoded<Q: Request>(version: i16) -> Result<(), EncodeError> {
    let api = Q::API;
    match Q::VERSIONS.contains(&version) {
        true => Ok(()),
        false => Err(EncodeError::Version { api, version }),
    }
}

/// Refuses to read a version whose layout is not known.
pub(super) fn check_decoded<Q: Request>(version: i16) -> Result<(), DecodeError> {
    let api = Q::API;
    match Q::VERSIONS.contains(&version) {
        true => Ok(()),
        false => Err(DecodeError::Version { api, version }),
    }
}

/// The whole frame of a request, made in `buffer`, whose memory is used again.
pub(crate) fn request_frame<Q: Request>(
    request: &Q,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    buffer: Vec<u8>,
) -> Result<Vec<u8>, EncodeError> {
    let mut frame = Writer::frame(buffer);
    frame.i16(Q::KEY);
    frame.i16(version);
    frame.i32(correlation_id);
    frame.nullable_string("client_id", client_id)?;
    request.encode(version, &mut frame)?;
    frame.finish()
}

/// The whole frame of a response, made in `buffer`, whose memory is used again.
#[cfg(any(test, feature = "embedded"))]
pub(crate) fn response_frame<P: Response>(
    response: &P,
    version: i16,
    correlation_id: i32,
    buffer: Vec<u8>,
) -> Result<Vec<u8>, EncodeError> {
    let mut frame = Writer::frame(buffer);
    frame.i32(correlation_id);
    response.encode(version, &mut frame)?;
    frame.finish()
}

/// What stands before the body of a request.
#[cfg(any(test, feature = "embedded"))]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    /// Which API is asked.
    pub(crate) api_key: i16,
    /// In which layout.
    pub(crate) api_version: i16,
    /// What the answer must repeat.
    pub(crate) correlation_id: i32,
    /// The client's name; `None` when it keeps it to itself.
    pub(crate) client_id: Option<String>,
}

#[cfg(any(test, feature = "embedded"))]
impl RequestHeader {
    /// Reads the header; the body follows in the same reader.
    pub(crate) fn decode<R: Read>(frame: &mut Reader<R>) -> Result<Self, DecodeError> {
        Ok(Self {
            api_key: frame.i16("api_key")?,
            api_version: frame.i16("api_version")?,
            correlation_id: frame.i32("correlation_id")?,
            client_id: frame.nullable_string("client_id")?,
        })
    }
}
