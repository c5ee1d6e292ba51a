//! A stream of decoded messages.

use std::fmt;

use crate::consumer::bounded_stream::BoundedStream;
use crate::consumer::decoder::Decoder;
use crate::consumer::decoder::DecoderError;
use crate::consumer::message::Message;
use crate::consumer::message_and_metadata::MessageAndMetadata;
use crate::consumer::message_stream::MessageStream;
use crate::consumer::stream_error::StreamError;

/// A [`MessageStream`] or [`BoundedStream`] whose keys and values are decoded, made by their `decoded`.
///
/// Waits, ends and counts as consumed as that stream does. A message that cannot be decoded is
/// [`StreamError::Undecodable`]; it has been handed out like any other, and the next call goes on behind it.
pub struct DecodedStream<K, V, S = MessageStream> {
    stream: S,
    key: Box<dyn Decoder<K> + Send>,
    value: Box<dyn Decoder<V> + Send>,
}

impl MessageStream {
    /// The same stream with its keys and values decoded.
    pub fn decoded<K, V>(
        self,
        key: impl Decoder<K> + Send + 'static,
        value: impl Decoder<V> + Send + 'static,
    ) -> DecodedStream<K, V> {
        DecodedStream::new(self, key, value)
    }
}

impl BoundedStream {
    /// The same stream with its keys and values decoded.
    pub fn decoded<K, V>(
        self,
        key: impl Decoder<K> + Send + 'static,
        value: impl Decoder<V> + Send + 'static,
    ) -> DecodedStream<K, V, Self> {
        DecodedStream::new(self, key, value)
    }
}

impl<K, V, S> DecodedStream<K, V, S> {
    fn new(
        stream: S,
        key: impl Decoder<K> + Send + 'static,
        value: impl Decoder<V> + Send + 'static,
    ) -> Self {
        Self {
            stream,
            key: Box::new(key),
            value: Box::new(value),
        }
    }

    /// The stream underneath, to mark messages as consumed, to seek, or to skip a bad message.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The stream underneath, to read what follows as bytes.
    pub fn into_stream(self) -> S {
        self.stream
    }

    fn decode(&mut self, raw: Message) -> Result<MessageAndMetadata<K, V>, StreamError> {
        let key = decode(&mut *self.key, raw.key());
        let key = key.map_err(|error| undecodable(&raw, "key", &error))?;
        let value = decode(&mut *self.value, raw.value());
        let value = value.map_err(|error| undecodable(&raw, "value", &error))?;
        Ok(MessageAndMetadata::new(raw, key, value))
    }
}

impl<K, V, S> Iterator for DecodedStream<K, V, S>
where
    S: Iterator<Item = Result<Message, StreamError>>,
{
    type Item = Result<MessageAndMetadata<K, V>, StreamError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.stream.next()?;
        Some(next.and_then(|message| self.decode(message)))
    }
}

impl<K, V, S: fmt::Debug> fmt::Debug for DecodedStream<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecodedStream")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

fn decode<T>(
    decoder: &mut dyn Decoder<T>,
    bytes: Option<&[u8]>,
) -> Result<Option<T>, DecoderError> {
    bytes.map(|bytes| decoder.decode(bytes)).transpose()
}

fn undecodable(message: &Message, part: &'static str, error: &DecoderError) -> StreamError {
    StreamError::Undecodable {
        topic_partition: message.topic_partition().clone(),
        offset: message.offset(),
        part,
        reason: error.to_string(),
    }
}
