//! Finding out which Kafka a broker runs that nobody knows.

use std::io;
use std::io::ErrorKind;
use std::time::Duration;
use std::time::Instant;

use crate::error::Error;
use crate::net::blocking_channel::BlockingChannel;
use crate::net::blocking_channel::Expected;
use crate::net::broker_version::BrokerVersion;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::EncodeError;
use crate::protocol::MetadataRequest;
use crate::protocol::Request;
use crate::protocol::request_frame;

/// No topic can have this name, so that no broker creates it.
const NO_TOPIC: &str = "?";

/// The largest answer; that to the question about versions has some hundreds of bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Sends two requests at once and looks which of them is answered first, over a connection that serves nothing else.
///
/// A broker from 0.10.0 on answers the first, 0.9.0 passes over it and answers the second, 0.8.x hangs up. So nobody
/// waits for a timeout; when one comes, the broker is stuck or is none.
pub(super) fn probe(
    mut channel: BlockingChannel,
    client_id: &str,
    correlation_ids: [i32; 2],
    timeout: Duration,
) -> Result<BrokerVersion, Error> {
    let frames = frames(client_id, correlation_ids).map_err(|source| Error::Request {
        api: ApiVersionsRequest::API,
        source: Box::new(source),
    })?;
    channel.connect()?;
    let deadline = Instant::now() + timeout;
    channel.send(&frames, deadline)?;
    let [first, _] = correlation_ids;
    let expected = Expected {
        api: ApiVersionsRequest::API,
        correlation_id: first,
        max_response_bytes: MAX_RESPONSE_BYTES,
        deadline,
    };
    match channel.receive_one_of(&expected, &correlation_ids, |id, _| Ok(id)) {
        Ok(id) if id == first => Ok(BrokerVersion::V0_10),
        Ok(_) => Ok(BrokerVersion::V0_9),
        Err(Error::Broker { source, .. }) if is_hang_up(&source) => Ok(BrokerVersion::V0_8),
        Err(error) => Err(error),
    }
}

fn frames(client_id: &str, [first, second]: [i32; 2]) -> Result<Vec<u8>, EncodeError> {
    let client_id = Some(client_id);
    let topics = Some(vec![NO_TOPIC.to_owned()]);
    let mut frames = request_frame(&ApiVersionsRequest, 0, first, client_id, Vec::new())?;
    let metadata = MetadataRequest {
        topics,
        ..MetadataRequest::default()
    };
    frames.extend(request_frame(&metadata, 0, second, client_id, Vec::new())?);
    Ok(frames)
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
    )
}
