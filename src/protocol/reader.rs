//! Checked reading of a frame.

use std::io;
use std::io::Read;
use std::time::Duration;

use crate::protocol::decode_error::DecodeError;

/// Bytes by which an empty buffer grows at the most before the first of them has come.
const LEAST_GROWTH: usize = 8 * 1024;

/// Reads the fields of one frame, big-endian, each by its name.
///
/// Counts and lengths are compared with the bytes that the frame has left before anything is done with them, and
/// buffers grow as bytes really arrive, so a peer that lies costs no memory.
pub(crate) struct Reader<R> {
    stream: R,
    remaining: usize,
}

#[cfg(test)]
impl<'a> Reader<&'a [u8]> {
    /// Reads a frame that is in memory.
    pub(crate) fn new(frame: &'a [u8]) -> Self {
        Self::of_frame(frame, frame.len())
    }
}

impl<R: Read> Reader<R> {
    /// Reads the rest of a frame, `remaining` bytes, from a stream and never more than that.
    pub(crate) fn of_frame(stream: R, remaining: usize) -> Self {
        Self { stream, remaining }
    }

    /// Begins a frame: reads its size, which must be from `least` to `most`, and reads no further.
    pub(crate) fn next_frame(
        mut stream: R,
        least: usize,
        most: usize,
    ) -> Result<Self, DecodeError> {
        let mut size = [0; 4];
        let source = stream.read_exact(&mut size);
        source.map_err(|source| DecodeError::Io {
            field: "size",
            source,
        })?;
        let size = i32::from_be_bytes(size);
        match usize::try_from(size) {
            Ok(remaining) if (least..=most).contains(&remaining) => {
                Ok(Self::of_frame(stream, remaining))
            }
            _ => Err(DecodeError::FrameSize { size, least, most }),
        }
    }

    /// Bytes of the frame that have not been read.
    pub(crate) fn remaining(&self) -> usize {
        self.remaining
    }

    /// Reads and forgets what the frame has left. Bytes beyond the known fields are no error.
    pub(crate) fn skip_rest(&mut self) -> Result<(), DecodeError> {
        let field = "rest of the frame";
        let mut rest = (&mut self.stream).take(length_of(self.remaining));
        let skipped = io::copy(&mut rest, &mut io::sink());
        let skipped = skipped.map_err(|source| DecodeError::Io { field, source })?;
        if skipped < length_of(self.remaining) {
            return Err(ended(field));
        }
        self.remaining = 0;
        Ok(())
    }

    /// One byte, signed.
    pub(crate) fn i8(&mut self, field: &'static str) -> Result<i8, DecodeError> {
        self.fixed(field).map(i8::from_be_bytes)
    }

    /// Two bytes, signed.
    pub(crate) fn i16(&mut self, field: &'static str) -> Result<i16, DecodeError> {
        self.fixed(field).map(i16::from_be_bytes)
    }

    /// Four bytes, signed.
    pub(crate) fn i32(&mut self, field: &'static str) -> Result<i32, DecodeError> {
        self.fixed(field).map(i32::from_be_bytes)
    }

    /// Eight bytes, signed.
    pub(crate) fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.fixed(field).map(i64::from_be_bytes)
    }

    /// Milliseconds in four bytes; a negative number counts as none.
    pub(crate) fn milliseconds(&mut self, field: &'static str) -> Result<Duration, DecodeError> {
        let milliseconds = self.i32(field)?;
        Ok(Duration::from_millis(
            u64::try_from(milliseconds).unwrap_or(0),
        ))
    }

    /// How long a quota held an answer back, in versions that have the field.
    pub(crate) fn throttle_time(
        &mut self,
        is_there: bool,
    ) -> Result<Option<Duration>, DecodeError> {
        match is_there {
            true => self.milliseconds("throttle_time_ms").map(Some),
            false => Ok(None),
        }
    }

    /// A string that must be there.
    pub(crate) fn string(&mut self, field: &'static str) -> Result<String, DecodeError> {
        match self.nullable_string(field)? {
            Some(text) => Ok(text),
            None => Err(DecodeError::Length {
                field,
                length: -1,
                left: self.remaining,
            }),
        }
    }

    /// A string, or null.
    pub(crate) fn nullable_string(
        &mut self,
        field: &'static str,
    ) -> Result<Option<String>, DecodeError> {
        let length = self.i16(field)?;
        if length == -1 {
            return Ok(None);
        }
        let length = self.checked_length(field, i64::from(length))?;
        let mut bytes = Vec::new();
        self.fill(field, length, &mut bytes)?;
        let text = String::from_utf8(bytes).map_err(|error| DecodeError::Utf8 {
            field,
            text: String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })?;
        Ok(Some(text))
    }

    /// Bytes with their length in front; null is read as empty.
    pub(crate) fn bytes(&mut self, field: &'static str) -> Result<Vec<u8>, DecodeError> {
        let length = self.length(field)?;
        let mut bytes = Vec::new();
        self.fill(field, length, &mut bytes)?;
        Ok(bytes)
    }

    /// A run of `item`s with their count in front; null is read as empty.
    pub(crate) fn array<T>(
        &mut self,
        field: &'static str,
        item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        // An element takes a byte at least, so a count is checked just as a length is.
        let count = self.length(field)?;
        self.items(count, item)
    }

    /// As [`array`](Self::array), where null has a meaning of its own.
    pub(crate) fn nullable_array<T>(
        &mut self,
        field: &'static str,
        item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        match self.i32(field)? {
            -1 => Ok(None),
            count => {
                let count = self.checked_length(field, i64::from(count))?;
                self.items(count, item).map(Some)
            }
        }
    }

    /// A length or count of four bytes, checked against the bytes left; -1, which is null, is read as 0.
    pub(crate) fn length(&mut self, field: &'static str) -> Result<usize, DecodeError> {
        match self.i32(field)? {
            -1 => Ok(0),
            length => self.checked_length(field, i64::from(length)),
        }
    }

    /// Replaces the content of `bytes` by `length` bytes; it grows no faster than they arrive.
    ///
    /// What `bytes` holds already is overwritten and not cleared first: only memory that was never used has to be
    /// zeroed before a stream may read into it, which takes a good part of the time that the reading takes.
    pub(crate) fn fill(
        &mut self,
        field: &'static str,
        length: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        self.claim(field, length)?;
        let (read, outcome) = self.overwrite(length, bytes);
        bytes.truncate(read);
        match outcome {
            Ok(()) if read == length => Ok(()),
            Ok(()) => Err(ended(field)),
            Err(source) => Err(DecodeError::Io { field, source }),
        }
    }

    /// Reads `length` bytes over the front of `bytes`, or what comes before the end or an error; says how many.
    fn overwrite(&mut self, length: usize, bytes: &mut Vec<u8>) -> (usize, io::Result<()>) {
        let mut read = 0;
        while read < length {
            if read == bytes.len() {
                let larger = bytes.len().saturating_mul(2).max(LEAST_GROWTH);
                bytes.resize(larger.min(length), 0);
            }
            let end = bytes.len().min(length);
            match self
                .stream
                .read(bytes.get_mut(read..end).unwrap_or_default())
            {
                Ok(0) => break,
                Ok(more) => read = read.saturating_add(more),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (read, Err(error)),
            }
        }
        (read, Ok(()))
    }

    fn items<T>(
        &mut self,
        count: usize,
        mut item: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn fixed<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        self.claim(field, N)?;
        let mut bytes = [0; N];
        match self.stream.read_exact(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(source) => Err(DecodeError::Io { field, source }),
        }
    }

    fn claim(&mut self, field: &'static str, needed: usize) -> Result<(), DecodeError> {
        let left = self.remaining;
        self.remaining = left.checked_sub(needed).ok_or(DecodeError::Truncated {
            field,
            needed,
            left,
        })?;
        Ok(())
    }

    fn checked_length(&self, field: &'static str, length: i64) -> Result<usize, DecodeError> {
        let left = self.remaining;
        match usize::try_from(length) {
            Ok(length) if length <= left => Ok(length),
            _ => Err(DecodeError::Length {
                field,
                length,
                left,
            }),
        }
    }
}

fn length_of(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn ended(field: &'static str) -> DecodeError {
    DecodeError::Io {
        field,
        source: io::Error::from(io::ErrorKind::UnexpectedEof),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket on which nothing more comes before its time-out.
    struct Silent;

    impl Read for Silent {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::WouldBlock))
        }
    }

    #[test]
    fn an_array_that_lies_about_its_length_is_refused() {
        let mut body = Reader::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]);
        let error = body
            .array("offsets", |body| body.i64("offset"))
            .unwrap_err();
        let text = "offsets claims a length of 2147483647, the frame has 4 bytes left";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn an_array_of_more_elements_than_bytes_is_cut_where_the_bytes_end() {
        let mut body = Reader::new(&[0, 0, 0, 2, 0, 0, 0, 1, 0, 0]);
        let error = body.array("isr", |body| body.i32("replica")).unwrap_err();
        let text = "replica needs 4 bytes, the frame has 2 left";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_null_array_and_null_bytes_are_empty() {
        let mut body = Reader::new(&[0xff; 8]);
        let isr = body.array("isr", |body| body.i32("replica"));
        assert!(isr.unwrap().is_empty());
        assert!(body.bytes("message_set").unwrap().is_empty());
    }

    #[test]
    fn a_null_string_is_refused_where_a_string_must_be() {
        assert_eq!(
            Reader::new(&[0xff; 2])
                .nullable_string("client_id")
                .unwrap(),
            None
        );
        let error = Reader::new(&[0xff; 2]).string("host").unwrap_err();
        let text = "host claims a length of -1, the frame has 0 bytes left";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn other_negative_lengths_are_refused() {
        let negative = [0xff, 0xff, 0xff, 0xfe];
        let error = Reader::new(&negative).bytes("message_set").unwrap_err();
        let text = "message_set claims a length of -2, the frame has 0 bytes left";
        assert_eq!(error.to_string(), text);
        let error = Reader::new(&negative[2..]).nullable_string("client_id");
        let text = "client_id claims a length of -2, the frame has 0 bytes left";
        assert_eq!(error.unwrap_err().to_string(), text);
    }

    #[test]
    fn a_string_that_is_not_utf8_is_shown() {
        let error = Reader::new(&[0, 2, b'a', 0xff])
            .string("topic")
            .unwrap_err();
        assert_eq!(error.to_string(), "topic is not UTF-8: \"a\u{fffd}\"");
    }

    #[test]
    fn a_frame_is_never_read_beyond_its_end() {
        let stream = [0, 0, 0, 6, 0, 0, 0, 1, 0, 2, 0, 0, 0, 9];
        let mut rest = &stream[..];
        let mut body = Reader::next_frame(&mut rest, 4, 100).unwrap();
        assert_eq!(body.i32("correlation_id").unwrap(), 1);
        assert!(matches!(
            body.i32("topics").unwrap_err(),
            DecodeError::Truncated { left: 2, .. }
        ));
        body.skip_rest().unwrap();
        assert_eq!(rest, [0, 0, 0, 9]);
    }

    #[test]
    fn a_frame_size_out_of_its_bounds_is_refused() {
        for size in [-1, 0, 3, 101, i32::MAX, i32::MIN] {
            let frame = size.to_be_bytes();
            let error = Reader::next_frame(&frame[..], 4, 100).err().unwrap();
            let text = format!("frame size {size} is not within 4 to 100");
            assert_eq!(error.to_string(), text);
            assert!(!error.is_io());
        }
    }

    #[test]
    fn a_stream_that_times_out_is_to_blame_and_not_its_bytes() {
        let error = Reader::next_frame(Silent, 4, 100).err().unwrap();
        assert!(error.is_io());
        let mut body = Reader::of_frame([0, 0, 0, 3, 1].as_slice().chain(Silent), 100);
        let error = body.bytes("message_set").unwrap_err();
        assert_eq!(error.field(), "message_set");
        let DecodeError::Io { source, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(source.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_buffer_grows_with_the_bytes_that_come_and_not_with_those_announced() {
        let mut body = Reader::of_frame(&[1; 10][..], 1 << 30);
        let mut bytes = Vec::new();
        assert!(
            body.fill("message_set", 1 << 30, &mut bytes)
                .unwrap_err()
                .is_io()
        );
        assert_eq!(bytes, [1; 10]);
        assert!(bytes.capacity() < 1 << 16);
    }

    #[test]
    fn a_used_buffer_holds_nothing_but_the_new_bytes() {
        let mut bytes = vec![9; 20];
        let mut body = Reader::of_frame(&[1; 30][..], 30);
        body.fill("message_set", 10, &mut bytes).unwrap();
        assert_eq!(bytes, [1; 10]);
        body.fill("message_set", 20, &mut bytes).unwrap();
        assert_eq!(bytes, [1; 20]);
        body.fill("message_set", 0, &mut bytes).unwrap();
        assert!(bytes.is_empty());
    }
}
