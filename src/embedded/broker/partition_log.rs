//! The log of one replica.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::SystemTime;

use bytes::Bytes;

use crate::protocol::OffsetTime;

/// Entries in segments, as in a folder of a broker, but in memory.
///
/// Entries share their bytes with the logs of the other replicas.
#[derive(Clone, Debug)]
pub(super) struct PartitionLog {
    /// Oldest first; never empty, and the last one is appended to.
    segments: VecDeque<Segment>,
    /// The first offset that may be read.
    log_start: i64,
    /// The offset that the next message gets.
    log_end: i64,
    /// Size at which the next segment is begun.
    segment_bytes: usize,
}

/// One outer entry with its final offset.
#[derive(Clone, Debug)]
pub(super) struct StoredEntry {
    /// Its offset; of a compressed message that of the last message in it.
    pub(super) last_offset: i64,
    /// The entry, framing included.
    pub(super) bytes: Bytes,
}

/// What becomes of a first entry that is larger than what is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Oversize {
    /// It is cut.
    Cut,
    /// It comes whole, and nothing else.
    Whole,
    /// It is left out, and nothing comes.
    LeftOut,
}

/// Why nothing can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The offset lies outside of the log.
    OutOfRange,
    /// The broker has no code for it.
    Failed,
    /// The offset lies behind what may be shown, and within the log.
    AboveLimit,
}

#[derive(Clone, Debug)]
struct Segment {
    base_offset: i64,
    entries: Vec<StoredEntry>,
    bytes: usize,
    modified: SystemTime,
}

impl PartitionLog {
    pub(super) fn new(segment_bytes: usize) -> Self {
        Self::starting_at(0, segment_bytes)
    }

    /// Without a message, the next one getting `offset`.
    pub(super) fn starting_at(offset: i64, segment_bytes: usize) -> Self {
        Self {
            segments: VecDeque::from([Segment::starting_at(offset)]),
            log_start: offset,
            log_end: offset,
            segment_bytes,
        }
    }

    /// Made of segments that were kept elsewhere, oldest first: base offset, entries, and when they were last changed.
    pub(super) fn restored(
        segments: Vec<(i64, Vec<StoredEntry>, SystemTime)>,
        segment_bytes: usize,
    ) -> Self {
        let segments: VecDeque<Segment> = segments
            .into_iter()
            .map(|(base_offset, entries, modified)| Segment {
                base_offset,
                bytes: entries.iter().map(|entry| entry.bytes.len()).sum(),
                entries,
                modified,
            })
            .collect();
        let Some((first, last)) = segments.front().zip(segments.back()) else {
            return Self::new(segment_bytes);
        };
        let end = last.entries.last().map(|entry| entry.last_offset);
        Self {
            log_start: first.base_offset,
            log_end: end.map_or(last.base_offset, |end| end.saturating_add(1)),
            segments,
            segment_bytes,
        }
    }

    /// Base offset and entries of each segment, oldest first.
    pub(super) fn segments(&self) -> impl Iterator<Item = (i64, &[StoredEntry])> {
        let segments = self.segments.iter();
        segments.map(|segment| (segment.base_offset, segment.entries.as_slice()))
    }

    pub(super) fn log_start(&self) -> i64 {
        self.log_start
    }

    pub(super) fn log_end(&self) -> i64 {
        self.log_end
    }

    /// Bytes of all entries.
    pub(super) fn size(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Appends entries whose offsets begin at [`log_end`](Self::log_end) and after which `log_end` comes.
    pub(super) fn append(&mut self, entries: &[StoredEntry], log_end: i64) {
        let bytes: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
        let begins_segment = self.segments.back().is_none_or(|active| {
            active.bytes > 0 && active.bytes.saturating_add(bytes) > self.segment_bytes
        });
        if begins_segment {
            self.segments.push_back(Segment::starting_at(self.log_end));
        }
        if let Some(active) = self.segments.back_mut() {
            active.entries.extend_from_slice(entries);
            active.bytes = active.bytes.saturating_add(bytes);
            active.modified = SystemTime::now();
        }
        self.log_end = log_end;
    }

    /// The entries from the one that holds `offset` on, no further than a segment reaches, the last one cut so that
    /// there are `most` bytes at most. With a `limit`, entries are shown only as far as they lie below that offset.
    pub(super) fn read(
        &self,
        offset: i64,
        most: i32,
        limit: Option<i64>,
        oversize: Oversize,
    ) -> Result<Vec<Bytes>, ReadError> {
        if offset < self.log_start || offset > self.log_end {
            return Err(ReadError::OutOfRange);
        }
        if offset == self.log_end {
            return Ok(Vec::new());
        }
        let most = usize::try_from(most).map_err(|_| ReadError::Failed)?;
        if limit.is_some_and(|limit| limit < offset) {
            return Err(ReadError::AboveLimit);
        }
        let limit = limit.unwrap_or(i64::MAX);
        let first = self.segments.partition_point(|s| s.base_offset <= offset);
        let segments = self.segments.iter().skip(first.saturating_sub(1));
        let mut found = segments.map(|segment| segment.entries_from(offset));
        let entries = found.find(|entries| !entries.is_empty());
        Ok(cut(entries.unwrap_or_default(), most, limit, oversize))
    }

    /// All entries from `offset` on, over all segments, for another replica.
    pub(super) fn entries_from(&self, offset: i64) -> Vec<StoredEntry> {
        let all = self.segments.iter().flat_map(|segment| &segment.entries);
        all.filter(|entry| entry.last_offset >= offset)
            .cloned()
            .collect()
    }

    /// As in Kafka 0.8.2.2, version 0 of the request: base offsets of segments and the end of the log, newest first.
    pub(super) fn offsets_before(&self, time: OffsetTime, most: i32) -> Vec<i64> {
        let mut known: Vec<(i64, SystemTime)> = self
            .segments
            .iter()
            .map(|segment| (segment.base_offset.max(self.log_start), segment.modified))
            .collect();
        if self.segments.back().is_some_and(|active| active.bytes > 0) {
            known.push((self.log_end, SystemTime::now()));
        }
        let usable = match time {
            OffsetTime::Latest => known.len(),
            OffsetTime::Earliest => 1,
            OffsetTime::Timestamp(time) => {
                let time = Duration::from_millis(u64::try_from(time).unwrap_or(0));
                let time = SystemTime::UNIX_EPOCH.checked_add(time);
                let is_old = |modified| time.is_none_or(|time| modified <= time);
                let newest = known.iter().rposition(|(_, modified)| is_old(*modified));
                newest.map_or(0, |index| index.saturating_add(1))
            }
        };
        let most = usize::try_from(most).unwrap_or(0);
        let offsets = known.iter().take(usable).rev().take(most);
        offsets.map(|(offset, _)| *offset).collect()
    }

    /// Forgets everything from `offset` on.
    pub(super) fn truncate(&mut self, offset: i64) {
        if offset >= self.log_end {
            return;
        }
        while self.segments.len() > 1
            && self
                .segments
                .back()
                .is_some_and(|last| last.base_offset >= offset)
        {
            self.segments.pop_back();
        }
        if let Some(active) = self.segments.back_mut() {
            active.base_offset = active.base_offset.min(offset);
            active.entries.retain(|entry| entry.last_offset < offset);
            active.count_bytes();
        }
        self.log_end = offset;
        self.log_start = self.log_start.min(offset);
    }

    /// Makes `offset` the first that may be read. Past the end, the log is empty and goes on at `offset`.
    pub(super) fn set_log_start(&mut self, offset: i64) {
        if offset >= self.log_end {
            *self = Self::starting_at(offset, self.segment_bytes);
            return;
        }
        self.log_start = offset.max(self.log_start);
        while self.segments.len() > 1
            && self
                .segments
                .get(1)
                .is_some_and(|next| next.base_offset <= self.log_start)
        {
            self.segments.pop_front();
        }
        let log_start = self.log_start;
        if let Some(first) = self.segments.front_mut() {
            first.entries.retain(|entry| entry.last_offset >= log_start);
            first.base_offset = first.base_offset.max(log_start);
            first.count_bytes();
        }
    }

    /// Drops the oldest segments while the others have `most` bytes or more, and those last changed before `oldest`. As
    /// in Kafka, age takes the segment that is appended to as well; the log is empty then, and goes on.
    pub(super) fn retain(&mut self, most: Option<usize>, oldest: Option<SystemTime>) {
        while let Some(first) = self.segments.front() {
            let others = self.size().saturating_sub(first.bytes);
            let is_last = self.segments.len() == 1;
            let is_too_much = !is_last && most.is_some_and(|most| others >= most);
            let is_too_old = oldest.is_some_and(|oldest| first.modified < oldest);
            if !is_too_much && !is_too_old || is_last && first.entries.is_empty() {
                return;
            }
            if is_last {
                *self = Self::starting_at(self.log_end, self.segment_bytes);
                return;
            }
            self.segments.pop_front();
            if let Some(first) = self.segments.front() {
                self.log_start = self.log_start.max(first.base_offset);
            }
        }
    }

    /// Changes the last byte of the entry that holds `offset`. `false` when there is none.
    pub(super) fn corrupt(&mut self, offset: i64) -> bool {
        let entries = self
            .segments
            .iter_mut()
            .flat_map(|segment| &mut segment.entries);
        let mut holding = entries.filter(|entry| entry.last_offset >= offset);
        let Some(entry) = holding.next() else {
            return false;
        };
        let mut bytes = entry.bytes.to_vec();
        if let Some(last) = bytes.last_mut() {
            *last ^= 0xff;
        }
        entry.bytes = Bytes::from(bytes);
        true
    }
}

impl Segment {
    fn starting_at(base_offset: i64) -> Self {
        Self {
            base_offset,
            entries: Vec::new(),
            bytes: 0,
            modified: SystemTime::now(),
        }
    }

    fn entries_from(&self, offset: i64) -> &[StoredEntry] {
        let first = self
            .entries
            .partition_point(|entry| entry.last_offset < offset);
        self.entries.get(first..).unwrap_or_default()
    }

    fn count_bytes(&mut self) {
        self.bytes = self.entries.iter().map(|entry| entry.bytes.len()).sum();
    }
}

/// The bytes of the entries below `limit`, cut after `most` of them.
fn cut(entries: &[StoredEntry], most: usize, limit: i64, oversize: Oversize) -> Vec<Bytes> {
    let first = entries.first().filter(|entry| entry.last_offset < limit);
    if let Some(first) = first.filter(|entry| entry.bytes.len() > most) {
        match oversize {
            Oversize::Cut => (),
            Oversize::Whole => return vec![first.bytes.clone()],
            Oversize::LeftOut => return Vec::new(),
        }
    }
    let mut left = most;
    let mut bytes = Vec::new();
    for entry in entries {
        if left == 0 || entry.last_offset >= limit {
            break;
        }
        let part = entry.bytes.slice(..left.min(entry.bytes.len()));
        left = left.saturating_sub(part.len());
        bytes.push(part);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten-byte entries with the given offsets, three to a segment.
    fn log(offsets: &[i64]) -> PartitionLog {
        let mut log = PartitionLog::new(30);
        for offset in offsets {
            let bytes = Bytes::from(vec![u8::try_from(*offset).unwrap(); 10]);
            let entry = StoredEntry {
                last_offset: *offset,
                bytes,
            };
            log.append(&[entry], offset + 1);
        }
        log
    }

    fn read(log: &PartitionLog, offset: i64, most: i32) -> Vec<u8> {
        log.read(offset, most, None, Oversize::Cut)
            .unwrap()
            .concat()
    }

    #[test]
    fn a_read_begins_at_the_entry_that_holds_the_offset_and_ends_with_its_segment() {
        let log = log(&[1, 3, 4, 5]);
        assert_eq!(read(&log, 0, 100), [[1; 10], [3; 10], [4; 10]].concat());
        assert_eq!(read(&log, 2, 100), [[3; 10], [4; 10]].concat());
        assert_eq!(read(&log, 5, 100), [5; 10]);
        assert!(read(&log, 6, 100).is_empty());
    }

    #[test]
    fn a_read_is_cut_at_its_size_and_ends_at_its_limit() {
        let log = log(&[0, 1, 2]);
        assert_eq!(read(&log, 0, 12), [[0; 10].as_slice(), &[1; 2]].concat());
        assert!(read(&log, 0, 0).is_empty());
        let below = log.read(0, 100, Some(2), Oversize::Cut).unwrap().concat();
        assert_eq!(below, [[0; 10], [1; 10]].concat());
        assert!(log.read(2, 100, Some(2), Oversize::Cut).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_read_is_told_apart() {
        let log = log(&[0, 1, 2]);
        for outside in [-1, 4, i64::MAX] {
            assert_eq!(
                log.read(outside, 1, None, Oversize::Cut).unwrap_err(),
                ReadError::OutOfRange
            );
        }
        assert_eq!(
            log.read(2, 1, Some(1), Oversize::Cut).unwrap_err(),
            ReadError::AboveLimit
        );
        assert!(
            log.read(3, 1, Some(1), Oversize::Cut).unwrap().is_empty(),
            "at the end"
        );
        assert_eq!(
            log.read(0, -1, None, Oversize::Cut).unwrap_err(),
            ReadError::Failed
        );
    }

    #[test]
    fn offsets_are_those_of_segments_and_of_the_end_newest_first() {
        let log = log(&[0, 1, 2, 3, 4]);
        assert_eq!(log.offsets_before(OffsetTime::Latest, 10), [5, 3, 0]);
        assert_eq!(log.offsets_before(OffsetTime::Latest, 1), [5]);
        assert!(log.offsets_before(OffsetTime::Latest, 0).is_empty());
        assert_eq!(log.offsets_before(OffsetTime::Earliest, 10), [0]);
        let long_ago = OffsetTime::Timestamp(1000);
        assert!(log.offsets_before(long_ago, 10).is_empty());
        let empty = PartitionLog::starting_at(7, 30);
        assert_eq!(empty.offsets_before(OffsetTime::Latest, 10), [7]);
        let now = OffsetTime::Timestamp(i64::MAX);
        assert_eq!(log.offsets_before(now, 2), [5, 3]);
    }

    #[test]
    fn a_truncated_log_goes_on_where_it_was_cut() {
        let mut log = log(&[0, 1, 2, 3, 4]);
        log.truncate(9);
        assert_eq!(log.log_end(), 5);
        log.truncate(2);
        assert_eq!((log.log_start(), log.log_end(), log.size()), (0, 2, 20));
        assert_eq!(read(&log, 1, 100), [1; 10]);
        log.truncate(0);
        assert_eq!((log.log_end(), log.size()), (0, 0));
    }

    #[test]
    fn the_start_of_a_log_moves_within_a_segment_and_past_the_end() {
        let mut log = log(&[0, 1, 2, 3, 4]);
        log.set_log_start(1);
        assert_eq!(
            log.read(0, 1, None, Oversize::Cut).unwrap_err(),
            ReadError::OutOfRange
        );
        assert_eq!(read(&log, 1, 10), [1; 10]);
        log.set_log_start(4);
        assert_eq!(log.size(), 10);
        assert_eq!(log.offsets_before(OffsetTime::Earliest, 1), [4]);
        log.set_log_start(9);
        assert_eq!((log.log_start(), log.log_end(), log.size()), (9, 9, 0));
    }

    #[test]
    fn retention_drops_whole_segments_and_the_last_one_for_its_age_alone() {
        let mut log = log(&[0, 1, 2, 3, 4, 5, 6]);
        log.retain(Some(40), None);
        assert_eq!((log.log_start(), log.size()), (3, 40));
        let after = SystemTime::now() + Duration::from_secs(1);
        log.retain(Some(0), None);
        assert_eq!((log.log_start(), log.size()), (6, 10));
        log.retain(None, Some(after));
        assert_eq!((log.log_start(), log.log_end(), log.size()), (7, 7, 0));
        log.retain(None, Some(after));
        assert_eq!((log.log_start(), log.log_end(), log.size()), (7, 7, 0));
    }

    #[test]
    fn a_corrupted_entry_differs_in_one_byte_and_only_in_its_own_log() {
        let mut damaged = log(&[0, 2]);
        let sound = damaged.clone();
        assert!(damaged.corrupt(1));
        assert!(!damaged.corrupt(3));
        let mut expected = [2; 10];
        expected[9] ^= 0xff;
        assert_eq!(read(&damaged, 1, 100), expected);
        assert_eq!(read(&sound, 1, 100), [2; 10]);
    }
}
