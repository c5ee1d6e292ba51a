//! What stands before the messages of one partition in a fetch answer.

use std::io::Read;

use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::reader::Reader;
use crate::protocol::writer::Writer;

/// What a broker says about a partition beside its messages. Versions of Fetch that do not tell leave `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionHeader {
    /// Why there is no data.
    pub error: Option<ErrorCode>,
    /// The offset after the last message that consumers may see; `None` where the broker failed.
    pub high_watermark: Option<i64>,
    /// The offset of the first message of a transaction that is not over; the high watermark where there is none.
    /// From version 4 on.
    pub last_stable_offset: Option<i64>,
    /// The first offset that the log still holds. From version 5 on.
    pub log_start_offset: Option<i64>,
    /// The aborted transactions among the messages; `None` unless [`ReadCommitted`] was asked for. From version 4 on.
    ///
    /// [`ReadCommitted`]: crate::protocol::IsolationLevel::ReadCommitted
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// Id of a broker that is better asked (KIP-392). From version 11 on.
    pub preferred_read_replica: Option<i32>,
}

/// A transaction whose messages do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AbortedTransaction {
    /// Who wrote it.
    pub producer_id: i64,
    /// The offset of its first message.
    pub first_offset: i64,
}

impl PartitionHeader {
    pub(super) fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        body.i16(self.error.map_or(0, ErrorCode::code));
        body.i64(self.high_watermark.unwrap_or(-1));
        if version >= 4 {
            body.i64(self.last_stable_offset.unwrap_or(-1));
        }
        if version >= 5 {
            body.i64(self.log_start_offset.unwrap_or(-1));
        }
        if version >= 4 {
            let aborted = self.aborted_transactions.as_deref();
            body.nullable_array("aborted_transactions", aborted, |body, aborted| {
                body.i64(aborted.producer_id);
                body.i64(aborted.first_offset);
                Ok(())
            })?;
        }
        if version >= 11 {
            body.i32(self.preferred_read_replica.unwrap_or(-1));
        }
        Ok(())
    }

    pub(super) fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        let mut header = Self {
            error: ErrorCode::from_wire(body.i16("error_code")?),
            high_watermark: offset("high_watermark", body)?,
            ..Self::default()
        };
        if version >= 4 {
            header.last_stable_offset = offset("last_stable_offset", body)?;
        }
        if version >= 5 {
            header.log_start_offset = offset("log_start_offset", body)?;
        }
        if version >= 4 {
            header.aborted_transactions = body.nullable_array("aborted_transactions", |body| {
                Ok(AbortedTransaction {
                    producer_id: body.i64("producer_id")?,
                    first_offset: body.i64("first_offset")?,
                })
            })?;
        }
        if version >= 11 {
            let replica = body.i32("preferred_read_replica")?;
            header.preferred_read_replica = Some(replica).filter(|id| *id >= 0);
        }
        Ok(header)
    }
}

fn offset<R: Read>(field: &'static str, body: &mut Reader<R>) -> Result<Option<i64>, DecodeError> {
    Ok(Some(body.i64(field)?).filter(|offset| *offset >= 0))
}
