//! The messages of one chunk, compressed ones unpacked.

use std::sync::Arc;

use crate::consumer::message::MessageBuffer;
use crate::consumer::message::MessageRef;
use crate::fetch::Charge;
use crate::fetch::Chunk;
use crate::fetch::PartitionTopicInfo;
use crate::fetch::PooledBuffer;
use crate::protocol::CorruptMessage;
use crate::protocol::Entry;
use crate::protocol::EntryCursor;
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
    /// The first offset that is not delivered; the largest number where reading has no end.
    end: i64,
    outer: Level,
    /// Compressed messages that are open, the innermost last. They nest twice at the most.
    inner: Vec<Level>,
    /// Most bytes that a compressed message may unpack to.
    limit: usize,
    /// Of the queue, for the bytes in use here.
    charge: Charge,
    fetched_bytes: usize,
}

/// What stands behind the messages that a visit lent.
#[derive(Debug)]
pub(crate) enum Rest {
    /// The visit was full.
    More,
    /// Nothing that may be delivered.
    End,
    /// Something that a pause holds, or held a moment ago.
    Paused,
    Corrupt(CorruptEntry),
}

/// A buffer and how far it has been read.
struct Level {
    buffer: Arc<MessageBuffer>,
    cursor: EntryCursor,
    /// The offset that all messages in here share, in a compressed message within another one.
    shared_offset: Option<i64>,
}

impl ChunkReader {
    pub(crate) fn new(chunk: Chunk, limit: usize) -> Self {
        // Not where the application has come to: that lags behind what it was given, also over a reset backwards.
        let position = chunk.fetch_offset;
        let fetched_bytes = chunk.bytes();
        let buffer = Arc::new(MessageBuffer {
            topic_partition: chunk.info.topic_partition().clone(),
            high_watermark: chunk.high_watermark,
            bytes: chunk.message_set,
        });
        Self {
            end: chunk.info.limit(),
            info: chunk.info,
            epoch: chunk.epoch,
            position,
            outer: Level {
                buffer,
                cursor: EntryCursor::without(chunk.aborted),
                shared_offset: None,
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

    /// Lends up to `max` messages at or behind the position, and says how many, and what comes then.
    ///
    /// Every entry is tested against the position, the last one too (D43), and every message against a
    /// rebalance, seek or pause meanwhile.
    #[inline]
    pub(crate) fn visit(
        &mut self,
        max: usize,
        visit: &mut impl FnMut(MessageRef<'_>),
    ) -> (usize, Rest) {
        let mut count = 0;
        loop {
            let level = match self.inner.last_mut() {
                Some(level) => level,
                None => &mut self.outer,
            };
            let bytes: &[u8] = &level.buffer.bytes;
            let other = loop {
                if count >= max {
                    return (count, Rest::More);
                }
                match level.cursor.next(bytes) {
                    Some(Ok(Entry::Message(raw))) => {
                        if raw.offset < self.position {
                            continue;
                        }
                        if raw.offset >= self.end {
                            return (count, Rest::End);
                        }
                        if !self.info.is_current(self.epoch) {
                            return (count, self.held_back());
                        }
                        // Messages that share their offset are passed together, at the end of their level.
                        let behind = i64::from(level.shared_offset.is_none());
                        self.position = raw.offset.saturating_add(behind);
                        count += 1;
                        visit(MessageRef::new(&level.buffer, &raw));
                    }
                    other => break other,
                }
            };
            if let Some(rest) = self.enter_or_leave(other) {
                return (count, rest);
            }
        }
    }

    /// Why a message is not delivered. What is not outdated was held by a pause, be it over by now, and is still to
    /// come.
    #[cold]
    fn held_back(&self) -> Rest {
        if self.info.is_outdated(self.epoch) {
            return Rest::End;
        }
        Rest::Paused
    }

    /// Opens a wrapper, or leaves the one that has come to its end. Otherwise says what is there.
    fn enter_or_leave(&mut self, entry: Option<Result<Entry, CorruptMessage>>) -> Option<Rest> {
        if self.position >= self.end {
            return Some(Rest::End);
        }
        match entry {
            Some(Ok(Entry::Wrapper(wrapper))) if wrapper.offset >= self.position => {
                let corrupt = self.open(&wrapper).err()?;
                Some(Rest::Corrupt(self.corrupt(&corrupt)))
            }
            Some(Err(corrupt)) if corrupt.concerns(self.position) => {
                Some(Rest::Corrupt(self.corrupt(&corrupt)))
            }
            Some(_) => None,
            None => {
                let Some(left) = self.inner.pop() else {
                    // Behind markers, and behind records that are gone or belong to aborted transactions.
                    let behind = self.outer.cursor.behind_batches();
                    self.position = self.position.max(behind.min(self.end));
                    return Some(Rest::End);
                };
                if let Some(offset) = left.shared_offset {
                    self.position = self.position.max(offset.saturating_add(1));
                }
                self.charge_for_levels();
                None
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
        let is_nested = !self.inner.is_empty();
        self.inner.push(Level {
            buffer,
            cursor: opened?,
            shared_offset: is_nested.then_some(wrapper.offset),
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
