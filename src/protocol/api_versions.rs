//! Which requests a broker serves.

use std::io::Read;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::reader::Reader;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::request::check_decoded;
use crate::protocol::request::check_encoded;
use crate::protocol::writer::Writer;

/// Asks which versions of which requests a broker serves. Versions 0 to 2, of which every broker from 0.10.0 on serves
/// version 0.
///
/// Never to be sent to an 0.9.0 broker: it drops what other clients have asked it meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiVersionsRequest;

/// Answers an [`ApiVersionsRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiVersionsResponse {
    /// How long a quota held the answer back; `None` in version 0, which does not say.
    pub throttle_time: Option<Duration>,
    /// Why there is no list, or one of this request alone.
    pub error: Option<ErrorCode>,
    /// In the broker's order. A listed version is not always served: 4.x lists Produce 0 to 2 all the same.
    pub api_versions: Vec<ApiVersion>,
}

/// The versions of one request that a broker serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ApiVersion {
    /// Number of the request.
    pub api_key: i16,
    /// The lowest version.
    pub min_version: i16,
    /// The highest version.
    pub max_version: i16,
}

impl Request for ApiVersionsRequest {
    const API: &'static str = "ApiVersions";
    const KEY: i16 = 18;
    const VERSIONS: RangeInclusive<i16> = 0..=2;
    type Response = ApiVersionsResponse;

    fn encode(&self, version: i16, _body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<Self>(version)
    }

    fn decode<R: Read>(version: i16, _body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<Self>(version)?;
        Ok(Self)
    }
}

impl Response for ApiVersionsResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<ApiVersionsRequest>(version)?;
        body.i16(self.error.map_or(0, ErrorCode::code));
        body.array("api_versions", &self.api_versions, |body, api| {
            body.i16(api.api_key);
            body.i16(api.min_version);
            body.i16(api.max_version);
            Ok(())
        })?;
        match version {
            1.. => body.throttle_time(self.throttle_time),
            _ => Ok(()),
        }
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<ApiVersionsRequest>(version)?;
        let error = ErrorCode::from_wire(body.i16("error_code")?);
        let api_versions = body.array("api_versions", |body| {
            Ok(ApiVersion {
                api_key: body.i16("api_key")?,
                min_version: body.i16("min_version")?,
                max_version: body.i16("max_version")?,
            })
        })?;
        Ok(Self {
            throttle_time: body.throttle_time(version >= 1)?,
            error,
            api_versions,
        })
    }
}
