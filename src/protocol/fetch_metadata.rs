//! What a fetch request says of its session.

use std::io::Read;

use crate::protocol::decode_error::DecodeError;
use crate::protocol::reader::Reader;
use crate::protocol::writer::Writer;

/// How a fetch request stands to a session, in which a broker remembers the partitions of a consumer (KIP-227).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchMetadata {
    /// No session is wanted, and the one to be closed ends. The request names all its partitions.
    Sessionless {
        /// A session of the same consumer.
        closing: Option<i32>,
    },
    /// A new session is wanted, and the one to be closed ends. The request names all its partitions.
    Full {
        /// A session of the same consumer.
        closing: Option<i32>,
    },
    /// The request names only the partitions whose wishes changed since the one before it.
    Incremental {
        /// As the broker gave it.
        session_id: i32,
        /// Counts the requests of the session, from 1; after 2,147,483,647 comes 1.
        epoch: i32,
    },
}

/// Epoch of a request that wants no session.
const FINAL_EPOCH: i32 = -1;

/// Epoch of a request that wants a new session.
const INITIAL_EPOCH: i32 = 0;

impl Default for FetchMetadata {
    fn default() -> Self {
        Self::Sessionless { closing: None }
    }
}

impl FetchMetadata {
    /// Whether the request names changes only.
    pub fn is_incremental(self) -> bool {
        matches!(self, Self::Incremental { .. })
    }

    /// The session that goes on or ends.
    pub fn session_id(self) -> Option<i32> {
        match self {
            Self::Sessionless { closing } | Self::Full { closing } => closing,
            Self::Incremental { session_id, .. } => Some(session_id),
        }
    }

    pub(super) fn encode(self, body: &mut Writer) {
        let (session_id, epoch) = match self {
            Self::Sessionless { closing } => (closing.unwrap_or(0), FINAL_EPOCH),
            Self::Full { closing } => (closing.unwrap_or(0), INITIAL_EPOCH),
            Self::Incremental { session_id, epoch } => (session_id, epoch),
        };
        body.i32(session_id);
        body.i32(epoch);
    }

    pub(super) fn decode<R: Read>(body: &mut Reader<R>) -> Result<Self, DecodeError> {
        let session_id = body.i32("session_id")?;
        let closing = (session_id != 0).then_some(session_id);
        Ok(match body.i32("session_epoch")? {
            FINAL_EPOCH => Self::Sessionless { closing },
            INITIAL_EPOCH => Self::Full { closing },
            epoch => Self::Incremental { session_id, epoch },
        })
    }
}
