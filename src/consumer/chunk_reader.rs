//! The messages of one chunk, compressed ones unpacked.

use std::ops::Range;
use std::sync::Arc;

use crate::consumer::message::Message;
use crate::consumer::message::MessageBuffer;
use crate::fetch::Charge;
use crate::fetch::Chunk;
use crate::fetch::PartitionTopicInfo;
use crate::fetch::PooledBuffer;
use crate::protocol::CorruptMessage;
use crate::protocol::Entry;
use crate::protocol::EntryCursor;
use crate::protocol::RawMessage;
use crate::protocol::RawWrapper;

/// A message that cannot be delivered: where it stands, where to go on behind it, and what is wrong.
#[derive(Debug)]
pub(crate) struct CorruptEntry {
    pub(crate) offset: i64,
    pub(crate) resume: i64,
    pub(crate) reason: String,
}

/// Walks one chunk in the application's thread: checks, unpacks, and leaves out what lies before the position.
pub(crate) struct ChunkReader {
    info: Arc<PartitionTopicInfo>,
    epoch: u64,
    /// The next offset to deliver: a set may begin before what was asked for.
    position: i64,
    outer: Level,
    /// Compressed messages that are open, the innermost last. Format 0 nests twice at the most.
    inner: Vec<Level>,
    /// Most bytes that a compressed message may unpack to.
    limit: usize,
    /// Of the queue, for the bytes in use here.
    charge: Charge,
    fetched_bytes: usize,
}

/// A buffer and how far it has been read.
struct Level {
    buffer: Arc<MessageBuffer>,
    cursor: EntryCursor,
}

impl ChunkReader {
    pub(crate) fn new(chunk: Chunk, limit: usize) -> Self {
        let consumed = chunk.info.consumed();
        let position = consumed.map_or(chunk.fetch_offset, |next| next.max(chunk.fetch_offset));
        let fetched_bytes = chunk.message_set.len();
        let buffer = Arc::new(MessageBuffer {
            topic_partition: chunk.info.topic_partition().clone(),
            high_watermark: chunk.high_watermark,
            bytes: chunk.message_set,
        });
        Self {
            info: chunk.info,
            epoch: chunk.epoch,
            position,
            outer: Level {
                buffer,
                cursor: EntryCursor::outer(),
            },
            inner: Vec::new(),
            limit,
            charge: chunk.charge,
            fetched_bytes,
        }
    }

    pub(crate) fn info(&self) -> &Arc<PartitionTopicInfo> {
        &self.info
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The next offset to deliver.
    pub(crate) fn position(&self) -> i64 {
        self.position
    }

    /// Whether its messages may still be delivered: neither revoked nor sought away from.
    pub(crate) fn is_current(&self) -> bool {
        self.info.is_current(self.epoch)
    }

    /// The next message at or behind the position; `None` at the end of the chunk.
    ///
    /// Every entry is tested against the position, the last one too (D43).
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Result<Message, CorruptEntry>> {
        loop {
            let level = self.inner.last_mut().unwrap_or(&mut self.outer);
            match level.cursor.next(&level.buffer.bytes) {
                Some(Ok(Entry::Message(raw))) if raw.offset >= self.position => {
                    let message = message(level, &raw);
                    self.position = raw.offset.saturating_add(1);
                    return Some(Ok(message));
                }
                Some(Ok(Entry::Message(_))) => {}
                Some(Ok(Entry::Wrapper(wrapper))) if wrapper.offset >= self.position => {
                    if let Err(corrupt) = self.open(&wrapper) {
                        return Some(Err(self.corrupt(&corrupt)));
                    }
                }
                Some(Ok(Entry::Wrapper(_))) => {}
                Some(Err(corrupt)) if corrupt.offset() >= self.position => {
                    return Some(Err(self.corrupt(&corrupt)));
                }
                Some(Err(_)) => {}
                None if self.inner.pop().is_some() => self.charge_for_levels(),
                None => return None,
            }
        }
    }

    fn open(&mut self, wrapper: &RawWrapper) -> Result<(), CorruptMessage> {
        let level = self.inner.last().unwrap_or(&self.outer);
        let pool = level.buffer.bytes.pool();
        // It holds more than that, but how much nobody can tell who is not to be believed.
        let mut unpacked = pool.take(wrapper.payload.len());
        let opened = level
            .cursor
            .open(wrapper, &level.buffer.bytes, self.limit, &mut unpacked);
        let bytes = PooledBuffer::new(unpacked, pool);
        let buffer = Arc::new(MessageBuffer {
            topic_partition: level.buffer.topic_partition.clone(),
            high_watermark: level.buffer.high_watermark,
            bytes,
        });
        self.inner.push(Level {
            buffer,
            cursor: opened?,
        });
        self.charge_for_levels();
        Ok(())
    }

    fn charge_for_levels(&mut self) {
        let unpacked: usize = self
            .inner
            .iter()
            .map(|level| level.buffer.bytes.len())
            .sum();
        self.charge
            .resize(self.fetched_bytes.saturating_add(unpacked));
    }

    fn corrupt(&self, corrupt: &CorruptMessage) -> CorruptEntry {
        let offset = corrupt.offset().max(self.position);
        let behind = offset.saturating_add(1);
        CorruptEntry {
            offset,
            resume: corrupt.resume_at().unwrap_or(behind).max(behind),
            reason: corrupt.reason().to_string(),
        }
    }
}

#[inline]
fn message(level: &Level, raw: &RawMessage) -> Message {
    Message::new(
        Arc::clone(&level.buffer),
        raw.offset,
        raw.key.clone().map(narrow),
        raw.value.clone().map(narrow),
    )
}

/// Positions in a buffer: a message set has an i32 for its size, and what it unpacks to is bounded as well.
#[inline]
fn narrow(range: Range<usize>) -> Range<u32> {
    let narrow = |position| u32::try_from(position).unwrap_or(u32::MAX);
    narrow(range.start)..narrow(range.end)
}
