//! Zstandard frames.
//!
//! A frame is unpacked in one go, because a decoder of streams allocates a window of up to 128 MiB on the frame's
//! word. Kafka's frames do not say what they hold, so that room is tried in steps.

use std::cell::RefCell;
use std::io;

use zstd::zstd_safe::DCtx;
use zstd::zstd_safe::get_error_name;
use zstd::zstd_safe::is_error_kind;
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;

use crate::protocol::message_set::codec::Failure;

/// How much room is tried at least.
const LEAST_ROOM: usize = 4 * 1024;

/// What text takes uncompressed, in its compressed size, and how much more room is tried each time.
const RATIO: usize = 8;

thread_local! {
    /// The state of the decoder, for use by one payload after the other.
    static CONTEXT: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
}

/// Appends what `payload` holds to `out`, which is empty; all frames, where there are several.
pub(super) fn decompress(payload: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let likely = payload.len().saturating_mul(RATIO).max(LEAST_ROOM);
    let mut room = likely.max(out.capacity()).min(limit);
    loop {
        out.clear();
        out.reserve(room);
        let unpacked = CONTEXT.with_borrow_mut(|context| context.decompress(out, payload));
        match unpacked {
            Ok(size) if size > limit => return Err(Failure::OverLimit),
            Ok(_) => return Ok(()),
            Err(code) if !is_error_kind(code, ZSTD_ErrorCode::ZSTD_error_dstSize_tooSmall) => {
                return Err(Failure::malformed(get_error_name(code)));
            }
            Err(_) if room < limit => room = room.saturating_mul(RATIO).min(limit),
            Err(_) => return Err(Failure::OverLimit),
        }
    }
}

pub(super) fn compress(set: &[u8]) -> io::Result<Vec<u8>> {
    // As Java: a stream, which does not say what it holds.
    zstd::stream::encode_all(set, zstd::DEFAULT_COMPRESSION_LEVEL)
}
