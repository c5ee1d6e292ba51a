//! Gzip, with one member or several.
//!
//! The members' headers are read here and only the deflated data by `flate2`: its gzip decoder makes a new state of
//! some 50 KiB for each payload, which costs more than a small payload itself.

use std::cell::RefCell;
use std::io;
use std::io::Write;

use flate2::Compression;
use flate2::Decompress;
use flate2::FlushDecompress;
use flate2::Status;
use flate2::write::GzEncoder;

use crate::protocol::message_set::codec::Failure;

/// Flags of a member's header: which optional fields it has.
const HEADER_CHECKSUM: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;

/// How much room is made at a time at least.
const STEP: usize = 4 * 1024;

thread_local! {
    /// The state of the decoder, for use by one payload after the other.
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
}

/// Appends what `payload` holds to `out`, which is empty.
pub(super) fn decompress(payload: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    INFLATE.with_borrow_mut(|inflate| {
        let mut rest = member(payload, inflate, limit, out)?;
        while !rest.is_empty() {
            rest = member(rest, inflate, limit, out)?;
        }
        Ok(())
    })
}

pub(super) fn compress(set: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(set)?;
    encoder.finish()
}

/// Appends what one member holds, and returns what follows it.
fn member<'a>(
    bytes: &'a [u8],
    inflate: &mut Decompress,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], Failure> {
    let start = out.len();
    let deflated = after_header(bytes)?;
    let after = inflated(deflated, inflate, limit, out)?;
    let Some((checksum, after)) = after.split_first_chunk() else {
        return Err(cut());
    };
    let Some((_size, after)) = after.split_first_chunk::<4>() else {
        return Err(cut());
    };
    let content = out.get(start..).unwrap_or_default();
    if u32::from_le_bytes(*checksum) != crc32fast::hash(content) {
        return Err(Failure::malformed("the checksum of a gzip member is wrong"));
    }
    Ok(after)
}

/// Appends what the deflated data at the front of `bytes` holds, and returns what follows it.
fn inflated<'a>(
    mut bytes: &'a [u8],
    inflate: &mut Decompress,
    limit: usize,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], Failure> {
    inflate.reset(false);
    loop {
        if out.len() > limit {
            return Err(Failure::OverLimit);
        }
        // One byte more than the limit tells that there is more; room grows with what has really come.
        let left = limit.saturating_sub(out.len()).saturating_add(1);
        let step = bytes.len().saturating_mul(2).max(STEP);
        out.reserve(step.max(out.len()).min(left));
        let before = (inflate.total_in(), out.len());
        let status = inflate
            .decompress_vec(bytes, out, FlushDecompress::None)
            .map_err(Failure::malformed)?;
        let consumed = inflate.total_in().saturating_sub(before.0);
        let consumed = usize::try_from(consumed).unwrap_or(usize::MAX);
        bytes = bytes.get(consumed..).unwrap_or_default();
        match status {
            Status::StreamEnd if out.len() > limit => return Err(Failure::OverLimit),
            Status::StreamEnd => return Ok(bytes),
            Status::Ok | Status::BufError if consumed == 0 && out.len() == before.1 => {
                return Err(cut());
            }
            Status::Ok | Status::BufError => {}
        }
    }
}

/// The bytes after the header of a member.
fn after_header(bytes: &[u8]) -> Result<&[u8], Failure> {
    let Some((header, mut rest)) = bytes.split_first_chunk::<10>() else {
        return Err(cut());
    };
    let [0x1f, 0x8b, 8, flags, ..] = *header else {
        return Err(Failure::malformed("not a gzip member"));
    };
    if flags & EXTRA != 0 {
        let (size, after) = rest.split_first_chunk().ok_or_else(cut)?;
        let size = usize::from(u16::from_le_bytes(*size));
        rest = after.get(size..).ok_or_else(cut)?;
    }
    for field in [NAME, COMMENT] {
        if flags & field != 0 {
            let end = rest.iter().position(|byte| *byte == 0).ok_or_else(cut)?;
            rest = rest.get(end.saturating_add(1)..).ok_or_else(cut)?;
        }
    }
    if flags & HEADER_CHECKSUM != 0 {
        rest = rest.get(2..).ok_or_else(cut)?;
    }
    Ok(rest)
}

fn cut() -> Failure {
    Failure::malformed("a gzip member is cut")
}
