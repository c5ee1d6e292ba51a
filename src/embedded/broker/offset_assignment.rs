//! The offsets of a produced set.

use bytes::Bytes;

use crate::embedded::broker::partition_log::StoredEntry;
use crate::error::ErrorCode;
use crate::protocol::Codec;
use crate::protocol::Entry;
use crate::protocol::EntryCursor;
use crate::protocol::MessageFormat;
use crate::protocol::MessageSet;
use crate::protocol::MessageSetBuilder;
use crate::protocol::OuterEntries;

/// A set ready to be appended.
#[derive(Debug)]
pub(super) struct AssignedSet {
    pub(super) entries: Vec<StoredEntry>,
    /// The offset after the last message.
    pub(super) log_end: i64,
}

/// Gives the messages of `set` their offsets, the first one `next_offset`, and checks all of them, as brokers up to 0.9
/// do, to which messages of another format than 0 are corrupt.
///
/// As in Kafka 0.8.2.2: a cut end is dropped; a set with a compressed message in it becomes one compressed message of
/// the last codec used, nested ones flattened; an entry of more than `most` bytes is refused before and after that.
pub(super) fn assign_offsets(
    set: &MessageSet,
    next_offset: i64,
    most: usize,
) -> Result<AssignedSet, ErrorCode> {
    if OuterEntries::new(set.as_bytes()).any(|entry| entry.magic() != MessageFormat::V0.magic()) {
        return Err(ErrorCode::CorruptMessage);
    }
    let mut rewritten = Vec::with_capacity(set.len());
    let mut cursor = EntryCursor::outer();
    let mut start = 0;
    let mut ends = Vec::new();
    let mut codec = None;
    while let Some(entry) = cursor.next(set.as_bytes()) {
        match entry.map_err(|_| ErrorCode::CorruptMessage)? {
            Entry::Message(_) => (),
            Entry::Wrapper(wrapper) => codec = Some(wrapper.codec),
        }
        let end = cursor.position();
        check_size(end.saturating_sub(start), most)?;
        let entry = set.as_bytes().get(start..end).unwrap_or_default();
        let offset = next_offset.saturating_add(count(ends.len()));
        rewritten.extend_from_slice(&offset.to_be_bytes());
        rewritten.extend_from_slice(entry.get(8..).unwrap_or_default());
        ends.push(end);
        start = end;
    }
    if let Some(codec) = codec {
        return recompress(set, codec, next_offset, most);
    }
    let rewritten = Bytes::from(rewritten);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let entries = starts.zip(&ends).enumerate();
    Ok(AssignedSet {
        entries: entries
            .map(|(index, (start, end))| StoredEntry {
                last_offset: next_offset.saturating_add(count(index)),
                bytes: rewritten.slice(start..*end),
            })
            .collect(),
        log_end: next_offset.saturating_add(count(ends.len())),
    })
}

fn recompress(
    set: &MessageSet,
    codec: Codec,
    next_offset: i64,
    most: usize,
) -> Result<AssignedSet, ErrorCode> {
    let mut builder = MessageSetBuilder::compressed(codec);
    let mut log_end = next_offset;
    for message in set.messages() {
        let message = message.map_err(|_| ErrorCode::CorruptMessage)?;
        let added = builder.message(log_end, message.key.as_deref(), message.value.as_deref());
        added.map_err(|_| ErrorCode::MessageTooLarge)?;
        log_end = log_end.saturating_add(1);
    }
    let set = builder.build().map_err(|_| ErrorCode::MessageTooLarge)?;
    check_size(set.len(), most)?;
    let entry = StoredEntry {
        last_offset: log_end.saturating_sub(1),
        bytes: Bytes::copy_from_slice(set.as_bytes()),
    };
    Ok(AssignedSet {
        entries: vec![entry],
        log_end,
    })
}

pub(super) fn check_size(size: usize, most: usize) -> Result<(), ErrorCode> {
    match size <= most {
        true => Ok(()),
        false => Err(ErrorCode::MessageTooLarge),
    }
}

fn count(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(codec: Option<Codec>, values: &[&str]) -> MessageSet {
        let mut builder = match codec {
            Some(codec) => MessageSetBuilder::compressed(codec),
            None => MessageSetBuilder::new(),
        };
        for value in values {
            builder.message(0, None, Some(value.as_bytes())).unwrap();
        }
        builder.build().unwrap()
    }

    fn nested(codec: Codec, sets: &[MessageSet]) -> MessageSet {
        let mut builder = MessageSetBuilder::compressed(codec);
        for set in sets {
            builder.entries(set);
        }
        builder.build().unwrap()
    }

    /// What a consumer would read.
    fn messages(assigned: &AssignedSet) -> Vec<(i64, String)> {
        let bytes: Vec<&[u8]> = assigned.entries.iter().map(|e| &e.bytes[..]).collect();
        let set = MessageSet::from(bytes.concat());
        set.messages()
            .map(|message| {
                let message = message.unwrap();
                let value = message.value.unwrap().to_vec();
                (message.offset, String::from_utf8(value).unwrap())
            })
            .collect()
    }

    fn numbered(first: i64, values: &[&str]) -> Vec<(i64, String)> {
        (first..)
            .zip(values.iter().map(|v| v.to_string()))
            .collect()
    }

    #[test]
    fn plain_messages_keep_their_entries() {
        let assigned = assign_offsets(&set(None, &["a", "b", "c"]), 7, 100).unwrap();
        assert_eq!(messages(&assigned), numbered(7, &["a", "b", "c"]));
        let offsets: Vec<i64> = assigned.entries.iter().map(|e| e.last_offset).collect();
        assert_eq!((offsets, assigned.log_end), (vec![7, 8, 9], 10));
    }

    #[test]
    fn compressed_messages_are_numbered_within_their_wrapper() {
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
            let assigned = assign_offsets(&set(Some(codec), &["a", "b"]), 7, 1000).unwrap();
            assert_eq!(messages(&assigned), numbered(7, &["a", "b"]));
            assert_eq!(assigned.entries.len(), 1);
            assert_eq!((assigned.entries[0].last_offset, assigned.log_end), (8, 9));
        }
    }

    #[test]
    fn nested_and_mixed_sets_become_one_wrapper() {
        let inner = [set(Some(Codec::Gzip), &["a", "b"]), set(None, &["c"])];
        let both = [
            nested(Codec::Snappy, &inner).as_bytes(),
            set(None, &["d"]).as_bytes(),
        ]
        .concat();
        let assigned = assign_offsets(&MessageSet::from(both), 0, 1000).unwrap();
        assert_eq!(messages(&assigned), numbered(0, &["a", "b", "c", "d"]));
        assert_eq!(assigned.entries.len(), 1);
    }

    #[test]
    fn an_empty_set_and_a_cut_end_append_nothing() {
        let assigned = assign_offsets(&MessageSet::default(), 7, 100).unwrap();
        assert_eq!((assigned.entries.len(), assigned.log_end), (0, 7));
        let whole = set(None, &["a", "b"]);
        let cut = MessageSet::from(whole.as_bytes()[..whole.len() - 1].to_vec());
        let assigned = assign_offsets(&cut, 7, 100).unwrap();
        assert_eq!(messages(&assigned), numbered(7, &["a"]));
    }

    #[test]
    fn messages_of_a_later_format_are_refused() {
        // Their offsets would have been written over what is none, and each record taken for an entry.
        for format in [MessageFormat::V1, MessageFormat::V2] {
            let mut builder = MessageSetBuilder::new().in_format(format);
            builder.message(0, None, Some(b"a")).unwrap();
            let later = builder.build().unwrap();
            let both = [set(None, &["b"]).as_bytes(), later.as_bytes()].concat();
            let code = assign_offsets(&MessageSet::from(both), 0, 1000).unwrap_err();
            assert_eq!(code, ErrorCode::CorruptMessage);
        }
    }

    #[test]
    fn damaged_and_oversize_messages_are_refused() {
        let whole = set(None, &["a", "b"]);
        let mut damaged = whole.as_bytes().to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        let code = assign_offsets(&MessageSet::from(damaged), 0, 100).unwrap_err();
        assert_eq!(code, ErrorCode::CorruptMessage);
        let short = MessageSet::from(vec![0; 20]);
        let code = assign_offsets(&short, 0, 100).unwrap_err();
        assert_eq!(code, ErrorCode::CorruptMessage);
        let code = assign_offsets(&whole, 0, 26).unwrap_err();
        assert_eq!(code, ErrorCode::MessageTooLarge);
        assert!(assign_offsets(&whole, 0, 27).is_ok());
    }
}
