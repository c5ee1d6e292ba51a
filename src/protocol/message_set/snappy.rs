//! Snappy: a bare block, or blocks in the framing of the xerial library.

use snap::raw;

use crate::protocol::message_set::codec::Failure;

/// Begins the framing. No bare block begins so: after its size, which is two bytes, it would copy out of nothing.
const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];

/// As Java writes it: version 1, readable from version 1 on.
const XERIAL_VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];

/// What Java puts into one chunk.
const CHUNK: usize = 32 * 1024;

/// No block holds more than this many times its own bytes: a copy of 64 bytes takes three.
const MOST_PER_BYTE: usize = 22;

/// Replaces the content of `out` by what `payload` holds; on failure what is in it means nothing.
///
/// What is there is overwritten and not cleared first, so that it need not be zeroed.
pub(super) fn decompress(payload: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let size = overwrite(payload, limit, out)?;
    out.truncate(size);
    Ok(())
}

/// Unpacks over the front of `out`, which gets larger if need be, and returns how much it was.
fn overwrite(payload: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<usize, Failure> {
    let mut decoder = raw::Decoder::new();
    let Some(framed) = payload.strip_prefix(&XERIAL_MAGIC) else {
        return block(&mut decoder, payload, limit, out, 0);
    };
    let Some((_versions, mut chunks)) = framed.split_first_chunk::<8>() else {
        return Err(Failure::malformed("xerial header is cut"));
    };
    let mut end = 0;
    while !chunks.is_empty() {
        let Some((size, rest)) = chunks.split_first_chunk() else {
            return Err(Failure::malformed("size of a xerial chunk is cut"));
        };
        let size = i32::from_be_bytes(*size);
        let chunk = usize::try_from(size).ok();
        let Some((chunk, rest)) = chunk.and_then(|size| rest.split_at_checked(size)) else {
            let left = rest.len();
            return Err(Failure::malformed(format_args!(
                "xerial chunk claims {size} bytes of {left}"
            )));
        };
        end = block(&mut decoder, chunk, limit, out, end)?;
        chunks = rest;
    }
    Ok(end)
}

pub(super) fn compress(set: &[u8]) -> Result<Vec<u8>, snap::Error> {
    let mut encoder = raw::Encoder::new();
    let mut framed = [XERIAL_MAGIC, XERIAL_VERSIONS].concat();
    for chunk in set.chunks(CHUNK) {
        let block = encoder.compress_vec(chunk)?;
        let size = i32::try_from(block.len()).unwrap_or(i32::MAX);
        framed.extend_from_slice(&size.to_be_bytes());
        framed.extend_from_slice(&block);
    }
    Ok(framed)
}

/// Unpacks one block to position `start` of `out`, and returns its end, which must not be beyond `limit`.
fn block(
    decoder: &mut raw::Decoder,
    block: &[u8],
    limit: usize,
    out: &mut Vec<u8>,
    start: usize,
) -> Result<usize, Failure> {
    let size = raw::decompress_len(block).map_err(Failure::malformed)?;
    if size > limit.saturating_sub(start) {
        return Err(Failure::OverLimit);
    }
    if size > block.len().saturating_mul(MOST_PER_BYTE) {
        return Err(Failure::malformed(format_args!(
            "a block of {} bytes claims to hold {size}",
            block.len()
        )));
    }
    let end = start.saturating_add(size);
    if out.len() < end {
        out.resize(end, 0);
    }
    let target = out.get_mut(start..end).unwrap_or_default();
    decoder
        .decompress(block, target)
        .map_err(Failure::malformed)?;
    Ok(end)
}
