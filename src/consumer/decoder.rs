//! From bytes to keys and values.

use std::error::Error;

/// Why bytes could not be decoded; a text will do: `"too short".into()`.
pub type DecoderError = Box<dyn Error + Send + Sync>;

/// Makes a key or a value out of the bytes of a message (`kafka.serializer.Decoder`).
///
/// Null is not decoded: it stays `None`. Closures from `&[u8]` to a `Result<T, DecoderError>` are decoders.
pub trait Decoder<T> {
    /// Called by the thread that reads the stream, for each key or value that is not null.
    ///
    /// # Errors
    /// What is not as it should be; the message is reported with its place, and the stream goes on.
    fn decode(&mut self, bytes: &[u8]) -> Result<T, DecoderError>;
}

impl<T, F> Decoder<T> for F
where
    F: FnMut(&[u8]) -> Result<T, DecoderError>,
{
    fn decode(&mut self, bytes: &[u8]) -> Result<T, DecoderError> {
        self(bytes)
    }
}

/// Bytes as they are, copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct BytesDecoder;

impl Decoder<Vec<u8>> for BytesDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<Vec<u8>, DecoderError> {
        Ok(bytes.to_vec())
    }
}

/// Text in UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct StringDecoder {
    is_strict: bool,
}

impl StringDecoder {
    /// What is not UTF-8 is an error.
    pub fn strict() -> Self {
        Self { is_strict: true }
    }

    /// What is not UTF-8 becomes U+FFFD, as in the original.
    pub fn lossy() -> Self {
        Self { is_strict: false }
    }
}

impl Decoder<String> for StringDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<String, DecoderError> {
        if self.is_strict {
            let text = std::str::from_utf8(bytes)?;
            return Ok(text.to_owned());
        }
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// Two bytes, the most significant first, as Kafka's `ShortSerializer` writes them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShortDecoder;

impl Decoder<i16> for ShortDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<i16, DecoderError> {
        exactly(bytes).map(i16::from_be_bytes)
    }
}

/// Four bytes, the most significant first, as Kafka's `IntegerSerializer` writes them.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntegerDecoder;

impl Decoder<i32> for IntegerDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<i32, DecoderError> {
        exactly(bytes).map(i32::from_be_bytes)
    }
}

/// Eight bytes, the most significant first, as Kafka's `LongSerializer` writes them.
#[derive(Clone, Copy, Debug, Default)]
pub struct LongDecoder;

impl Decoder<i64> for LongDecoder {
    fn decode(&mut self, bytes: &[u8]) -> Result<i64, DecoderError> {
        exactly(bytes).map(i64::from_be_bytes)
    }
}

fn exactly<const N: usize>(bytes: &[u8]) -> Result<[u8; N], DecoderError> {
    bytes
        .try_into()
        .map_err(|_| format!("{} bytes instead of {N}", bytes.len()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_as_they_are() {
        for bytes in [&b""[..], b"\xff\x00caf\xc3"] {
            assert_eq!(BytesDecoder.decode(bytes).unwrap(), bytes);
        }
    }

    #[test]
    fn integers_are_read_as_kafkas_serializers_write_them() {
        assert_eq!(ShortDecoder.decode(&[0xff, 0xfe]).unwrap(), -2);
        assert_eq!(IntegerDecoder.decode(&[0, 0, 1, 2]).unwrap(), 258);
        let least = [0x80, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(LongDecoder.decode(&least).unwrap(), i64::MIN);
    }

    #[test]
    fn an_integer_of_another_length_is_an_error_that_tells_both() {
        let error = ShortDecoder.decode(&[]).unwrap_err();
        assert_eq!(error.to_string(), "0 bytes instead of 2");
        let error = IntegerDecoder.decode(&[1; 5]).unwrap_err();
        assert_eq!(error.to_string(), "5 bytes instead of 4");
        let error = LongDecoder.decode(&[1; 4]).unwrap_err();
        assert_eq!(error.to_string(), "4 bytes instead of 8");
    }

    #[test]
    fn text_that_is_not_utf_8_is_refused_or_patched_as_chosen() {
        let torn = b"caf\xc3";
        assert_eq!(StringDecoder::lossy().decode(torn).unwrap(), "caf\u{fffd}");
        assert!(StringDecoder::strict().decode(torn).is_err());
        let sound = "caf\u{e9}";
        for mut decoder in [StringDecoder::lossy(), StringDecoder::strict()] {
            assert_eq!(decoder.decode(sound.as_bytes()).unwrap(), sound);
            assert_eq!(decoder.decode(b"").unwrap(), "");
        }
    }

    #[test]
    fn a_closure_is_a_decoder_and_may_count() {
        let mut seen = 0;
        let mut decoder = |bytes: &[u8]| {
            seen += 1;
            match bytes.first() {
                Some(first) => Ok(*first),
                None => Err(DecoderError::from("empty")),
            }
        };
        assert_eq!(Decoder::decode(&mut decoder, b"a").unwrap(), b'a');
        assert!(Decoder::decode(&mut decoder, b"").is_err());
        assert_eq!(seen, 2);
    }
}
