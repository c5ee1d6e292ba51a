//! Writing of a frame.

use std::time::Duration;

use crate::protocol::encode_error::EncodeError;

/// Puts fields into a frame, big-endian.
pub(crate) struct Writer {
    frame: Vec<u8>,
}

impl Writer {
    /// Begins a frame in `buffer`, whose content is dropped and whose memory is used again.
    pub(crate) fn frame(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&[0; 4]);
        Self { frame: buffer }
    }

    /// The whole frame, its size in front.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, EncodeError> {
        let size = self.frame.len().saturating_sub(4);
        let size = length("size", size)?;
        if let Some(prefix) = self.frame.first_chunk_mut() {
            *prefix = size.to_be_bytes();
        }
        Ok(self.frame)
    }

    /// One byte, signed.
    pub(crate) fn i8(&mut self, value: i8) {
        self.frame.extend_from_slice(&value.to_be_bytes());
    }

    /// Two bytes, signed.
    pub(crate) fn i16(&mut self, value: i16) {
        self.frame.extend_from_slice(&value.to_be_bytes());
    }

    /// Four bytes, signed.
    pub(crate) fn i32(&mut self, value: i32) {
        self.frame.extend_from_slice(&value.to_be_bytes());
    }

    /// Eight bytes, signed.
    pub(crate) fn i64(&mut self, value: i64) {
        self.frame.extend_from_slice(&value.to_be_bytes());
    }

    /// Milliseconds in four bytes.
    pub(crate) fn milliseconds(
        &mut self,
        field: &'static str,
        duration: Duration,
    ) -> Result<(), EncodeError> {
        let milliseconds = duration.as_millis();
        let too_long = |_| EncodeError::Duration {
            field,
            milliseconds,
        };
        self.i32(i32::try_from(milliseconds).map_err(too_long)?);
        Ok(())
    }

    /// How long a quota held an answer back; not at all where that is not known.
    pub(crate) fn throttle_time(&mut self, time: Option<Duration>) -> Result<(), EncodeError> {
        self.milliseconds("throttle_time_ms", time.unwrap_or_default())
    }

    /// A string of at most 32,767 bytes.
    pub(crate) fn string(&mut self, field: &'static str, text: &str) -> Result<(), EncodeError> {
        let length = i16::try_from(text.len()).map_err(|_| EncodeError::Length {
            field,
            length: text.len(),
            most: usize::try_from(i16::MAX).unwrap_or(usize::MAX),
        })?;
        self.i16(length);
        self.frame.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// A string, or null.
    pub(crate) fn nullable_string(
        &mut self,
        field: &'static str,
        text: Option<&str>,
    ) -> Result<(), EncodeError> {
        match text {
            Some(text) => self.string(field, text),
            None => {
                self.i16(-1);
                Ok(())
            }
        }
    }

    /// Bytes with their length in front.
    pub(crate) fn bytes(&mut self, field: &'static str, bytes: &[u8]) -> Result<(), EncodeError> {
        self.count(field, bytes.len())?;
        self.frame.extend_from_slice(bytes);
        Ok(())
    }

    /// The count of a run of items.
    pub(crate) fn count(&mut self, field: &'static str, count: usize) -> Result<(), EncodeError> {
        self.i32(length(field, count)?);
        Ok(())
    }

    /// As [`array`](Self::array), or null.
    pub(crate) fn nullable_array<T>(
        &mut self,
        field: &'static str,
        items: Option<&[T]>,
        item: impl FnMut(&mut Self, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        match items {
            Some(items) => self.array(field, items, item),
            None => {
                self.i32(-1);
                Ok(())
            }
        }
    }

    /// A run of items with their count in front.
    pub(crate) fn array<T>(
        &mut self,
        field: &'static str,
        items: &[T],
        mut item: impl FnMut(&mut Self, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.count(field, items.len())?;
        items.iter().try_for_each(|each| item(self, each))
    }
}

fn length(field: &'static str, length: usize) -> Result<i32, EncodeError> {
    i32::try_from(length).map_err(|_| EncodeError::Length {
        field,
        length,
        most: usize::try_from(i32::MAX).unwrap_or(usize::MAX),
    })
}
