//! LZ4 frames, with the header checksum that Kafka gets wrong in message format 0.
//!
//! The frame is read here and only its blocks by `lz4_flex`: that library insists on the right header checksum, takes
//! a frame that is cut between blocks for whole, and allocates up to 8 MiB on the header's word. None of the frame's
//! checksums is looked at, because the CRC of the message or record batch covers all of them.

use lz4_flex::block;
use lz4_flex::block::DecompressError;

use crate::protocol::message_set::codec::Failure;
use crate::protocol::message_set::format::MessageFormat;

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// What Java writes after the magic number: version 1 and independent blocks, of 64 KiB.
const JAVA_DESCRIPTOR: [u8; 2] = [0x60, 0x40];

/// The checksum of the descriptor.
const CHECKSUM: u8 = 0x82;

/// As in Kafka 0.8.2.2: the checksum covers the magic number too, which is wrong, but brokers and clients before 0.10
/// refuse the right one. Those of 0.10 and later want it so in format 0 and right in the others (KIP-57).
const CHECKSUM_OF_V0: u8 = 0x1a;

const JAVA_BLOCK: usize = 64 * 1024;

/// Set in the size of a block that is stored as it is.
const STORED: u32 = 0x8000_0000;

/// How far back a linked block may refer.
const WINDOW: usize = 64 * 1024;

/// No block holds more than this many times its own bytes.
const MOST_PER_BYTE: usize = 256;

/// Appends what `payload` holds to `out`, which is empty. Bytes after the frame are ignored, as Java does.
pub(super) fn decompress(payload: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let (frame, mut rest) = Frame::parse(payload)?;
    loop {
        let size = u32::from_le_bytes(*take(&mut rest, "size of a block")?);
        if size == 0 {
            break;
        }
        let stored = size & STORED != 0;
        let size = usize::try_from(size & !STORED).unwrap_or(usize::MAX);
        let Some((block, after)) = rest.split_at_checked(size) else {
            let left = rest.len();
            return Err(Failure::malformed(format_args!(
                "a block claims {size} bytes of {left}"
            )));
        };
        rest = after;
        if frame.block_checksums {
            take::<4>(&mut rest, "checksum of a block")?;
        }
        if stored {
            frame.store(block, limit, out)?;
        } else {
            frame.decompress(block, limit, out)?;
        }
    }
    let size = u64::try_from(out.len()).unwrap_or(u64::MAX);
    match frame.content_size {
        Some(claimed) if claimed != size => Err(Failure::malformed(format_args!(
            "the frame claims to hold {claimed} bytes and holds {size}"
        ))),
        _ => Ok(()),
    }
}

pub(super) fn compress(format: MessageFormat, set: &[u8]) -> Vec<u8> {
    let mut frame = MAGIC.to_vec();
    frame.extend_from_slice(&JAVA_DESCRIPTOR);
    frame.push(match format {
        MessageFormat::V0 => CHECKSUM_OF_V0,
        MessageFormat::V1 | MessageFormat::V2 => CHECKSUM,
    });
    for chunk in set.chunks(JAVA_BLOCK) {
        let block = block::compress(chunk);
        let (block, flag) = match block.len() < chunk.len() {
            true => (block.as_slice(), 0),
            false => (chunk, STORED),
        };
        // A chunk has 64 KiB at most, and the block no more than the chunk.
        let size = u32::try_from(block.len()).unwrap_or(0);
        frame.extend_from_slice(&(size | flag).to_le_bytes());
        frame.extend_from_slice(block);
    }
    frame.extend_from_slice(&[0; 4]);
    frame
}

/// What the header of a frame says.
struct Frame {
    linked: bool,
    block_checksums: bool,
    content_size: Option<u64>,
    /// Most bytes that a block may hold.
    block_size: usize,
}

impl Frame {
    /// Reads the header; returns what follows it too.
    fn parse(payload: &[u8]) -> Result<(Self, &[u8]), Failure> {
        let mut rest = payload;
        if *take::<4>(&mut rest, "magic number")? != MAGIC {
            return Err(Failure::malformed("not an lz4 frame"));
        }
        let [flags, block_size] = *take(&mut rest, "frame descriptor")?;
        if flags >> 6 != 1 {
            return Err(Failure::malformed("unknown version of the lz4 frame"));
        }
        if flags & 1 != 0 {
            return Err(Failure::malformed("the lz4 frame needs a dictionary"));
        }
        let content_size = match flags & 8 {
            0 => None,
            _ => Some(u64::from_le_bytes(*take(&mut rest, "content size")?)),
        };
        take::<1>(&mut rest, "header checksum")?;
        let frame = Self {
            linked: flags & 0x20 == 0,
            block_checksums: flags & 0x10 != 0,
            content_size,
            block_size: match block_size >> 4 & 7 {
                4 => 64 * 1024,
                5 => 256 * 1024,
                6 => 1024 * 1024,
                7 => 4 * 1024 * 1024,
                _ => return Err(Failure::malformed("unknown block size of the lz4 frame")),
            },
        };
        Ok((frame, rest))
    }

    fn store(&self, block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        if block.len() > self.block_size {
            return Err(Failure::malformed(
                "a block is larger than the frame allows",
            ));
        }
        if block.len() > limit.saturating_sub(out.len()) {
            return Err(Failure::OverLimit);
        }
        out.extend_from_slice(block);
        Ok(())
    }

    fn decompress(&self, block: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
        let start = out.len();
        let left = limit.saturating_sub(start);
        let possible = block.len().saturating_mul(MOST_PER_BYTE);
        let room = self.block_size.min(possible).min(left);
        out.resize(start.saturating_add(room), 0);
        let (before, target) = out.split_at_mut_checked(start).unwrap_or_default();
        let window = match self.linked {
            true => before.get(start.saturating_sub(WINDOW)..),
            false => None,
        };
        match block::decompress_into_with_dict(block, target, window.unwrap_or_default()) {
            Ok(size) => {
                out.truncate(start.saturating_add(size));
                Ok(())
            }
            Err(DecompressError::OutputTooSmall { .. }) if room == left => Err(Failure::OverLimit),
            Err(error) => Err(Failure::malformed(error)),
        }
    }
}

/// Takes `N` bytes off the front of `rest`.
fn take<'a, const N: usize>(rest: &mut &'a [u8], what: &str) -> Result<&'a [u8; N], Failure> {
    let cut = || Failure::malformed(format_args!("{what} is cut"));
    let (taken, after) = rest.split_first_chunk().ok_or_else(cut)?;
    *rest = after;
    Ok(taken)
}
