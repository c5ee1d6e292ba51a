//! What a stream tells instead of a message.

use std::sync::Arc;

use crate::config::OnBadMessage;
use crate::consumer::chunk_reader::CorruptEntry;
use crate::consumer::deferred::Deferred;
use crate::consumer::deferred::is_to_be_told;
use crate::consumer::message_stream::MessageStream;
use crate::consumer::stream_error::StreamError;
use crate::events::Event;
use crate::fetch::BadEntry;
use crate::fetch::Halt;
use crate::fetch::PartitionTopicInfo;
use crate::fetch::StoppedAt;
use crate::fetch::Verdict;

impl MessageStream {
    /// What the application has to be told; `None` when it does not concern it any more, or not yet.
    pub(super) fn tell(&mut self, deferred: Deferred) -> Option<StreamError> {
        match deferred {
            Deferred::Paused => self.set_aside(),
            Deferred::Corrupt(_) if self.is_paused() => self.set_aside(),
            Deferred::Corrupt(entry) => self.corrupt(&entry),
            Deferred::Halt(Halt::Bad {
                info,
                epoch,
                offset,
                entry,
            }) => is_to_be_told(&info, Some(offset), epoch).then(|| self.bad(&info, offset, entry)),
            Deferred::Halt(Halt::NoOffset {
                info,
                epoch,
                offset,
                log,
            }) => is_to_be_told(&info, offset, epoch).then(|| StreamError::NoOffset {
                topic_partition: info.topic_partition().clone(),
                offset,
                log,
            }),
        }
    }

    /// Whether the present chunk's partition is.
    fn is_paused(&self) -> bool {
        let reader = self.current.as_ref();
        reader.is_some_and(|reader| reader.info().is_paused())
    }

    /// Drops the present chunk, whose partition is paused: the rest of it is fetched again after the resume.
    fn set_aside(&mut self) -> Option<StreamError> {
        let reader = self.current.as_ref()?;
        reader
            .info()
            .rewind(Some(reader.position()), reader.epoch());
        self.leave_chunk();
        None
    }

    /// What the application has to be told of a corrupt entry of the present chunk. `None` while it is being
    /// fetched again, or when its partition is not this stream's any more.
    fn corrupt(&mut self, entry: &CorruptEntry) -> Option<StreamError> {
        let (info, epoch, position) = {
            let reader = self.current.as_ref()?;
            (Arc::clone(reader.info()), reader.epoch(), reader.position())
        };
        // The chunk's room in the queue is free from here on, whatever the application does (D45).
        self.leave_chunk();
        match info.suspect(entry.offset, position, epoch) {
            Verdict::FetchAgain => None,
            Verdict::Confirmed => {
                let at = StoppedAt {
                    offset: entry.offset,
                    resume: entry.resume,
                };
                if !info.stop_at(at, position, epoch) {
                    return None;
                }
                let reason = entry.reason.clone();
                Some(self.bad(&info, entry.offset, BadEntry::Corrupt { reason }))
            }
        }
    }

    /// Fetching has stopped at `offset`: tells it, and goes on behind it if the configuration says so.
    fn bad(&self, info: &PartitionTopicInfo, offset: i64, entry: BadEntry) -> StreamError {
        let topic_partition = info.topic_partition().clone();
        let error = match entry {
            BadEntry::TooLarge { needed } => StreamError::TooLarge {
                topic_partition: topic_partition.clone(),
                offset,
                fetch_size: self.context.config.fetch_message_max_bytes(),
                needed,
            },
            BadEntry::Corrupt { reason } => StreamError::Corrupt {
                topic_partition: topic_partition.clone(),
                offset,
                reason,
            },
        };
        self.context.stats.bad_messages.increment();
        self.context.events.send(Event::BadMessage {
            topic_partition,
            offset,
            reason: error.to_string(),
        });
        if self.context.config.on_bad_message() == OnBadMessage::Skip {
            info.skip();
        }
        error
    }
}
