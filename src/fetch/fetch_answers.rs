//! One fetch request in the making, and what becomes of its answers.

use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::Sender;

use crate::config::ConsumerConfig;
use crate::error::ErrorCode;
use crate::fetch::buffer_pool::PooledBuffer;
use crate::fetch::chunk_queue::Charge;
use crate::fetch::chunk_queue::Full;
use crate::fetch::fetch_position::Verdict;
use crate::fetch::fetcher_thread::FetchContext;
use crate::fetch::partition_end::EndLookUp;
use crate::fetch::partition_topic_info::PartitionTopicInfo;
use crate::fetch::queue_entry::BadEntry;
use crate::fetch::queue_entry::Chunk;
use crate::net::Absence;
use crate::net::means_stale;
use crate::protocol::AbortedTransactions;
use crate::protocol::CorruptReason;
use crate::protocol::FetchRequest;
use crate::protocol::FetchSink;
use crate::protocol::IsolationLevel;
use crate::protocol::Outline;
use crate::protocol::PartitionHeader;
use crate::protocol::SetEnd;

/// Least wait of one of several requests that share `fetch.wait.max.ms`: less is none at all on the wire.
const SHORTEST_SHARE: Duration = Duration::from_millis(1);

/// There is no offset behind this one, from which fetching could go on.
const NO_LOG_GOES_SO_FAR: i64 = i64::MAX;

/// Between two requests that bring nothing and that no broker may sit on: without it an idle fetcher would turn without
/// a pause, and its broker with it.
const IDLE_PAUSE: Duration = Duration::from_millis(10);

/// What the next request of a fetcher asks for, and what has to be done before.
pub(crate) struct FetchPlan {
    fetch_size: i32,
    /// `fetch.wait.max.ms`, or less while the stream of a partition does not keep up.
    max_wait: Duration,
    asked: Vec<Asked>,
    /// Partitions that were left out in favour of those asked for.
    crowded_out: usize,
    /// Partitions that need an offset from `auto.offset.reset` first, with their epoch.
    pub(crate) unresolved: Vec<(Arc<PartitionTopicInfo>, u64)>,
    /// Partitions that are read to their end only, which is to be looked up first.
    pub(crate) ends_wanted: Vec<(Arc<PartitionTopicInfo>, EndLookUp)>,
}

/// One partition of a request under way.
pub(crate) struct Asked {
    info: Arc<PartitionTopicInfo>,
    offset: i64,
    epoch: u64,
    charge: Charge,
}

impl FetchPlan {
    pub(crate) fn new(fetch_size: i32, max_wait: Duration) -> Self {
        Self {
            fetch_size,
            max_wait,
            asked: Vec::new(),
            crowded_out: 0,
            unresolved: Vec::new(),
            ends_wanted: Vec::new(),
        }
    }

    /// Asks for a partition if its stream's queue has room; otherwise leaves it out and has `wake` told
    /// when there is room.
    ///
    /// A broker may sit on the request no longer than the queue has been full already: a stream that comes
    /// back soon is served soon, and one that never reads costs the others no more than a long poll (D46).
    pub(crate) fn ask(
        &mut self,
        info: &Arc<PartitionTopicInfo>,
        offset: i64,
        epoch: u64,
        wake: &Sender<()>,
    ) {
        let bytes = info.expected_bytes(usize::try_from(self.fetch_size).unwrap_or(0));
        match info.queue().reserve(bytes, wake) {
            Ok(charge) => self.asked.push(Asked {
                info: Arc::clone(info),
                offset,
                epoch,
                charge,
            }),
            Err(Full::Since(since)) => self.max_wait = self.max_wait.min(since.elapsed()),
            Err(Full::Reserved) => self.crowded_out += 1,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// Which partitions are asked for, by the address of their infos.
    pub(crate) fn asked(&self) -> HashSet<*const PartitionTopicInfo> {
        self.asked
            .iter()
            .map(|asked| Arc::as_ptr(&asked.info))
            .collect()
    }

    /// The wait is shared by the requests that it takes to ask for every partition once.
    fn wait(&self) -> Duration {
        if self.crowded_out == 0 {
            return self.max_wait;
        }
        let share = self.max_wait / self.rounds();
        share.max(SHORTEST_SHARE.min(self.max_wait))
    }

    /// How many requests it takes to ask for every partition once.
    fn rounds(&self) -> u32 {
        let rounds = self.crowded_out.div_ceil(self.asked.len().max(1)) + 1;
        u32::try_from(rounds).unwrap_or(u32::MAX)
    }

    /// The pause after an answer with nothing in it, shared like the wait; `None` where brokers sit on such an answer.
    pub(crate) fn idle_pause(&self, config: &ConsumerConfig) -> Option<Duration> {
        let is_answered_at_once = config.fetch_wait_max().is_zero() || config.fetch_min_bytes() < 1;
        is_answered_at_once.then(|| IDLE_PAUSE / self.rounds())
    }

    /// `config` gives `fetch.min.bytes`, `fetch.max.bytes` and `isolation.level`.
    pub(crate) fn into_request(self, config: &ConsumerConfig) -> (FetchRequest, Vec<Asked>) {
        let request = FetchRequest {
            max_wait: self.wait(),
            min_bytes: config.fetch_min_bytes(),
            max_bytes: config.fetch_max_bytes(),
            isolation: config.isolation_level(),
            ..FetchRequest::default()
        };
        let request = self.asked.iter().fold(request, |request, asked| {
            let topic_partition = asked.info.topic_partition().clone();
            request.fetch(topic_partition, asked.offset, self.fetch_size)
        });
        (request, self.asked)
    }
}

/// What one answer left to do for the fetcher.
#[derive(Default)]
pub(crate) struct Handled {
    /// Partitions that put a chunk into a queue.
    pub(crate) delivered: Vec<Arc<PartitionTopicInfo>>,
    /// Partitions for the leader finder, with the reason.
    pub(crate) failed: Vec<(Arc<PartitionTopicInfo>, String)>,
    /// Partitions whose offset is outside the log, with their epoch.
    pub(crate) out_of_range: Vec<(Arc<PartitionTopicInfo>, u64)>,
    /// Partitions of which nothing came.
    empty: Vec<Asked>,
    /// Some partition brought something.
    is_filled: bool,
}

impl Handled {
    /// Whether the answer brought nothing at all.
    pub(crate) fn is_nothing(&self) -> bool {
        !self.is_filled
            && self.delivered.is_empty()
            && self.failed.is_empty()
            && self.out_of_range.is_empty()
    }
}

/// Takes the partitions of an answer while they arrive, and puts them into the queues of their streams.
pub(crate) struct FetchAnswers<'a> {
    context: &'a FetchContext,
    asked: HashMap<Arc<str>, HashMap<i32, Asked>>,
    handled: Handled,
}

impl<'a> FetchAnswers<'a> {
    pub(crate) fn new(asked: Vec<Asked>, context: &'a FetchContext) -> Self {
        let mut by_topic: HashMap<Arc<str>, HashMap<i32, Asked>> = HashMap::new();
        for asked in asked {
            let (topic, partition) = {
                let topic_partition = asked.info.topic_partition();
                (topic_partition.shared_topic(), topic_partition.partition())
            };
            by_topic.entry(topic).or_default().insert(partition, asked);
        }
        Self {
            context,
            asked: by_topic,
            handled: Handled::default(),
        }
    }

    /// After an answer, which says what it means that it lacks a partition; `None` when it broke off.
    pub(crate) fn finish(mut self, absence: Option<Absence>) -> Handled {
        let is_answered = matches!(absence, Some(Absence::Failed | Absence::NoNews));
        let absent = std::mem::take(&mut self.asked);
        for asked in absent.into_values().flat_map(HashMap::into_values) {
            match absence {
                Some(Absence::Failed) => {
                    self.context.metadata.request_refresh();
                    let reason = String::from("left out of the answer");
                    self.handled.failed.push((asked.info, reason));
                }
                Some(Absence::NoNews) => {
                    let high_watermark = asked.info.high_watermark();
                    self.nothing_came(asked, high_watermark);
                }
                Some(Absence::Untold) | None => {}
            }
        }
        let is_whole = is_answered && !self.handled.is_filled;
        for asked in std::mem::take(&mut self.handled.empty) {
            asked.info.note_empty(asked.offset, asked.epoch, is_whole);
        }
        self.handled
    }

    fn take(&mut self, topic: &str, partition: i32) -> Option<Asked> {
        self.asked.get_mut(topic)?.remove(&partition)
    }

    fn refused(&mut self, asked: Asked, code: ErrorCode) {
        if code == ErrorCode::OffsetOutOfRange {
            self.handled.out_of_range.push((asked.info, asked.epoch));
        } else {
            if means_stale(code) {
                self.context.metadata.request_refresh();
            }
            self.handled.failed.push((asked.info, reason(code)));
        }
    }

    fn fetched(&mut self, asked: Asked, header: PartitionHeader, mut set: Vec<u8>) {
        let high_watermark = header.high_watermark;
        // Who wants all messages is shown all of them, whatever the broker calls aborted.
        let (readable, aborted) = match self.context.config.isolation_level() {
            IsolationLevel::ReadCommitted => (
                header.last_stable_offset.or(high_watermark),
                header.aborted_transactions.unwrap_or_default(),
            ),
            IsolationLevel::ReadUncommitted => (high_watermark, Vec::new()),
        };
        let aborted = AbortedTransactions::new(aborted);
        asked.info.note_readable(readable);
        // What an entry claims about offsets is believed before its checksum is looked at, in the thread of the
        // application, but only as far as the log goes.
        let outline = Outline::within(&set, Some(high_watermark.unwrap_or(NO_LOG_GOES_SO_FAR)));
        self.handled.is_filled |= !set.is_empty();
        if !set.is_empty() {
            let bytes = set.len().saturating_add(aborted.bytes());
            asked.info.note_answer(bytes);
        }
        // What follows the whole entries is met again by the next fetch, at its start.
        set.truncate(outline.valid_bytes);
        let set = PooledBuffer::new(set, &self.context.pool);
        match (outline.last_offset, outline.end) {
            (Some(last), _) if last < asked.offset => self.behind(asked, last),
            (Some(last), _) => {
                let chunk = Chunk {
                    info: asked.info,
                    epoch: asked.epoch,
                    fetch_offset: asked.offset,
                    high_watermark,
                    message_set: set,
                    aborted,
                    charge: asked.charge,
                };
                self.deliver(chunk, last);
            }
            (None, SetEnd::Whole | SetEnd::Filler) => self.nothing_came(asked, high_watermark),
            (None, SetEnd::Cut { offset, needed }) => {
                let needed = needed.and_then(|bytes| u64::try_from(bytes).ok());
                self.stop(&asked, offset, BadEntry::TooLarge { needed });
            }
            (None, SetEnd::TooShort { size, least, .. }) => {
                let reason = CorruptReason::EntrySize { size, least };
                self.corrupt(asked, None, reason.to_string());
            }
            (None, SetEnd::Beyond { last, next }) => {
                let end = high_watermark.unwrap_or(last);
                let reason =
                    format!("it claims to reach to offset {last}, the log ends before {end}");
                self.corrupt(asked, next, reason);
            }
        }
    }

    /// An answer without messages. Before the end it says no more than that others had used the answer up.
    fn nothing_came(&mut self, asked: Asked, high_watermark: Option<i64>) {
        if high_watermark.is_none_or(|end| end <= asked.offset) {
            asked.info.note_answer(0);
        }
        asked.info.note_high_watermark(high_watermark);
        self.handled.empty.push(asked);
    }

    fn deliver(&mut self, mut chunk: Chunk, last: i64) {
        if !chunk.charge.settle(chunk.bytes()) {
            // More came than was expected and there is room for. It is asked for again, with room for it.
            return;
        }
        let bytes = chunk.message_set.len();
        let info = Arc::clone(&chunk.info);
        if info.enqueue(chunk, last.saturating_add(1)) {
            self.context.stats.chunks.increment();
            self.context
                .stats
                .bytes
                .add(u64::try_from(bytes).unwrap_or(0));
            self.handled.delivered.push(info);
        }
    }

    /// No broker means that: taken at its word it would be asked the same for ever, without a pause.
    fn behind(&mut self, asked: Asked, last: i64) {
        let reason = format!("the answer ends at {last}, before {}", asked.offset);
        self.handled.failed.push((asked.info, reason));
    }

    /// Damage at the position itself that shows before any checksum is looked at: fetched again after a back-off, and
    /// told when it is still there (D49). `next`: where the entry behind it begins, if that is known.
    fn corrupt(&mut self, asked: Asked, next: Option<i64>, reason: String) {
        match asked.info.suspect(asked.offset, asked.offset, asked.epoch) {
            Verdict::FetchAgain => self.handled.failed.push((asked.info, reason)),
            Verdict::Confirmed => {
                let last = next.map(|next| next.saturating_sub(1));
                self.stop(&asked, last, BadEntry::Corrupt { reason });
            }
        }
    }

    /// `last` is the offset of the entry itself, where that is known: of a compressed one all messages are
    /// to be passed at once.
    fn stop(&self, asked: &Asked, last: Option<i64>, entry: BadEntry) {
        let last = last.map_or(asked.offset, |last| last.max(asked.offset));
        let resume = last.saturating_add(1);
        asked
            .info
            .enqueue_bad(asked.offset, resume, asked.epoch, entry);
    }
}

impl FetchSink for FetchAnswers<'_> {
    fn buffer(&mut self, _topic: &str, _partition: i32, size: usize) -> Vec<u8> {
        let fetch_size = usize::try_from(self.context.config.fetch_message_max_bytes());
        self.context.pool.take(size.min(fetch_size.unwrap_or(0)))
    }

    fn partition(
        &mut self,
        topic: &str,
        partition: i32,
        header: PartitionHeader,
        message_set: Vec<u8>,
    ) {
        let Some(asked) = self.take(topic, partition) else {
            log::debug!("answer for {topic}/{partition}, which was not asked for");
            return;
        };
        match header.error {
            Some(code) => self.refused(asked, code),
            None => self.fetched(asked, header, message_set),
        }
    }
}

/// Why a broker gives nothing of a partition; with what can be done about it, where repeating does not help.
fn reason(code: ErrorCode) -> String {
    let remedy = match code {
        ErrorCode::UnsupportedVersion => {
            "its messages would have to be converted for this version of Fetch, and \
             message.downconversion.enable is false"
        }
        ErrorCode::UnsupportedCompressionType => {
            "its messages are compressed with zstd, which only Fetch 10 and later carry"
        }
        code => return code.to_string(),
    };
    format!("{code}: {remedy}")
}
