//! Gzip, with one member or several.

use std::io;
use std::io::Read;
use std::io::Write;

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use crate::protocol::message_set::codec::Failure;

/// Appends what `payload` holds to `out`, which is empty.
pub(super) fn decompress(payload: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), Failure> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut decoder = MultiGzDecoder::new(payload).take(most);
    let size = decoder.read_to_end(out).map_err(Failure::malformed)?;
    if size > limit {
        return Err(Failure::OverLimit);
    }
    Ok(())
}

pub(super) fn compress(set: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(set)?;
    encoder.finish()
}
