//! Formats 1 and 2: what goes in comes out, and what is wrong is named.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::Just;
use proptest::prelude::Strategy;
use proptest::prelude::any;
use proptest::prop_assert;
use proptest::prop_assert_eq;
use proptest::prop_oneof;
use proptest::proptest;

use super::*;
use crate::protocol::AbortedTransaction;
use crate::protocol::message_set::NewMessage;
use crate::protocol::message_set::Timestamp;
use crate::protocol::message_set::TimestampType;
use crate::protocol::message_set::varint;

type Fields = Vec<(String, Option<Vec<u8>>)>;

/// A message with everything that any format has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Full {
    offset: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    timestamp: Option<i64>,
    headers: Fields,
}

impl Full {
    fn numbered(offset: i64) -> Self {
        Self {
            offset,
            key: (offset % 3 > 0).then(|| vec![b'k'; 3]),
            value: Some(offset.to_string().into_bytes()),
            timestamp: Some(1_500_000_000_000 - offset * 3),
            headers: (0..offset % 3)
                .map(|n| (format!("h{n}"), (n > 0).then(|| vec![7; 5])))
                .collect(),
        }
    }

    /// What is left of it in a format.
    fn within(mut self, format: MessageFormat) -> Self {
        if format < MessageFormat::V2 {
            self.headers.clear();
        }
        self.timestamp = self.timestamp.filter(|_| format > MessageFormat::V0);
        self
    }
}

impl From<MessageAndOffset> for Full {
    fn from(message: MessageAndOffset) -> Self {
        Self {
            offset: message.offset,
            key: message.key.as_ref().map(|bytes| bytes.to_vec()),
            value: message.value.as_ref().map(|bytes| bytes.to_vec()),
            timestamp: message.timestamp.map(|timestamp| timestamp.millis),
            headers: message
                .headers()
                .map(|header| (header.name.into_owned(), header.value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }
}

fn builder(format: MessageFormat, codec: Option<Codec>) -> MessageSetBuilder {
    let builder = codec.map_or_else(MessageSetBuilder::new, MessageSetBuilder::compressed);
    builder.in_format(format)
}

fn built(mut builder: MessageSetBuilder, messages: &[Full]) -> MessageSet {
    for message in messages {
        let headers: Vec<(&str, Option<&[u8]>)> = message
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_deref()))
            .collect();
        let new = NewMessage {
            key: message.key.as_deref(),
            value: message.value.as_deref(),
            timestamp: message.timestamp,
            headers: &headers,
        };
        builder.add(message.offset, &new).unwrap();
    }
    builder.build().unwrap()
}

/// Some messages in a format, alone or in a wrapper or batch.
fn set(format: MessageFormat, codec: Option<Codec>, offsets: std::ops::Range<i64>) -> MessageSet {
    let messages: Vec<Full> = offsets.map(Full::numbered).collect();
    built(builder(format, codec), &messages)
}

fn read(set: &MessageSet) -> Vec<Full> {
    set.messages()
        .map(|message| message.unwrap().into())
        .collect()
}

/// Codecs of a format that this build has, and none.
fn codecs_of(format: MessageFormat) -> Vec<Option<Codec>> {
    let mut codecs = vec![None];
    codecs.extend(CODECS.map(Some));
    if format == MessageFormat::V2 && cfg!(feature = "zstd") {
        codecs.push(Some(Codec::Zstd));
    }
    codecs
}

const ALL: [MessageFormat; 3] = [MessageFormat::V0, MessageFormat::V1, MessageFormat::V2];

fn each(mut check: impl FnMut(MessageFormat, Option<Codec>)) {
    for format in ALL {
        for codec in codecs_of(format) {
            check(format, codec);
        }
    }
}

/// A batch with its checksum made right again.
fn with_batch_checksum(mut batch: Vec<u8>) -> MessageSet {
    let checksum = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
    MessageSet::from(batch)
}

/// A plain batch of so many records, which are given as they stand, from offset 10 to 19.
fn batch_of(count: i32, records: &[u8]) -> MessageSet {
    let mut batch = set(MessageFormat::V2, None, 10..20).as_bytes()[..61].to_vec();
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    batch.extend_from_slice(records);
    let size = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&size.to_be_bytes());
    with_batch_checksum(batch)
}

/// A record of these parts, which begin behind its length.
fn record(parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut record = Vec::new();
    varint::write(i64::try_from(content.len()).unwrap(), &mut record);
    record.extend(content);
    record
}

/// The marker that ends a transaction.
fn marker(offset: i64, producer_id: i64, kind: u8) -> MessageSet {
    let mut builder = builder(MessageFormat::V2, None).transaction_of(producer_id);
    let key = [0, 0, 0, kind];
    builder.message(offset, Some(&key), Some(&[0; 6])).unwrap();
    let mut batch = builder.build().unwrap().as_bytes().to_vec();
    batch[22] |= 0x20;
    with_batch_checksum(batch)
}

fn of_transaction(producer_id: i64, offset: i64) -> MessageSet {
    let builder = builder(MessageFormat::V2, None).transaction_of(producer_id);
    built(builder, &[Full::numbered(offset)])
}

#[test]
fn every_format_and_codec_gives_back_what_it_can_hold() {
    each(|format, codec| {
        let set = set(format, codec, 100..110);
        let expected: Vec<Full> = (100..110)
            .map(|n| Full::numbered(n).within(format))
            .collect();
        assert_eq!(read(&set), expected, "{format} {codec:?}");
        let outline = Outline::of(set.as_bytes());
        assert_eq!(outline.last_offset, Some(109), "{format} {codec:?}");
        assert_eq!(outline.valid_bytes, set.len());
    });
}

#[test]
fn a_set_of_all_formats_is_read_to_its_end() {
    let mut sets = Vec::new();
    each(|format, codec| {
        let first = 10 * i64::try_from(sets.len()).unwrap();
        sets.push(set(format, codec, first..first + 10));
    });
    let sets: Vec<&MessageSet> = sets.iter().collect();
    let all = joined(&sets);
    let offsets: Vec<i64> = read(&all).iter().map(|message| message.offset).collect();
    let expected: Vec<i64> = (0..offsets.len()).map(|n| n.try_into().unwrap()).collect();
    assert_eq!(offsets, expected);
    let last = expected.last().copied();
    assert_eq!(Outline::of(all.as_bytes()).last_offset, last);
}

#[test]
fn a_time_set_by_the_broker_is_that_of_all_messages() {
    each(|format, codec| {
        let messages: Vec<Full> = (0..3).map(Full::numbered).collect();
        let set = built(builder(format, codec).log_append_time(77), &messages);
        let timestamp = (format > MessageFormat::V0).then_some(Timestamp {
            millis: 77,
            timestamp_type: TimestampType::LogAppendTime,
        });
        for message in set.messages() {
            assert_eq!(message.unwrap().timestamp, timestamp, "{format} {codec:?}");
        }
    });
}

#[test]
fn a_message_without_a_time_has_none() {
    each(|format, codec| {
        let mut builder = builder(format, codec);
        builder.message(0, None, None).unwrap();
        let set = builder.build().unwrap();
        let message = set.messages().next().unwrap().unwrap();
        assert_eq!(message.timestamp, None, "{format} {codec:?}");
        assert_eq!(message.headers().count(), 0);
    });
}

#[test]
fn a_set_that_is_cut_anywhere_gives_what_stands_before_the_cut() {
    each(|format, codec| {
        let whole = joined(&[&set(format, codec, 5..8), &set(format, codec, 8..11)]);
        let all = read(&whole);
        for length in 0..whole.len() {
            let cut = MessageSet::from(whole.as_bytes()[..length].to_vec());
            let read = read(&cut);
            assert_eq!(read, all[..read.len()], "{format} {codec:?} at {length}");
            let outline = Outline::of(cut.as_bytes());
            assert_eq!(outline.last_offset.is_some(), !read.is_empty());
            if read.is_empty() && length >= 12 {
                assert!(outline.is_oversize(), "{format} {codec:?} at {length}");
            }
        }
    });
}

/// Offset and size, and in a batch the leader's epoch, are outside the checksum in Kafka.
#[test]
fn a_bit_that_flips_is_found_wherever_a_checksum_covers_it() {
    each(|format, codec| {
        let whole = joined(&[&set(format, codec, 5..8), &set(format, codec, 8..10)]);
        let all = read(&whole);
        // One bit of each byte, each time another one.
        for bit in (0..whole.len()).map(|byte| byte * 8 + byte % 8) {
            let mut bytes = whole.as_bytes().to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let good: Vec<Full> = MessageSet::from(bytes)
                .messages()
                .filter_map(Result::ok)
                .map(Full::from)
                .collect();
            for message in good {
                let same = |other: &Full| {
                    Full {
                        offset: other.offset,
                        ..message.clone()
                    } == *other
                };
                assert!(
                    all.iter().any(same),
                    "{format} {codec:?} at bit {bit}: {message:?}"
                );
            }
        }
    });
}

#[test]
fn offsets_of_format_1_count_back_from_the_wrapper() {
    let messages = [0, 2, 5].map(|offset| Full::numbered(2000 + offset));
    let set = built(builder(MessageFormat::V1, Some(Codec::Gzip)), &messages);
    assert_eq!(offsets(&set), [2000, 2002, 2005]);
    // The first ones are compacted away: what is left keeps its relative offsets.
    let mut bytes = set.as_bytes().to_vec();
    bytes[..8].copy_from_slice(&9005i64.to_be_bytes());
    assert_eq!(
        offsets(&MessageSet::from(bytes.clone())),
        [9000, 9002, 9005]
    );
    // As a producer sent it.
    bytes[..8].copy_from_slice(&0i64.to_be_bytes());
    assert_eq!(offsets(&MessageSet::from(bytes.clone())), [0, 2, 5]);
    bytes[..8].copy_from_slice(&4i64.to_be_bytes());
    let error = first_error(&MessageSet::from(bytes));
    let text = "message at offset 4 is corrupt: its offset is less than that of the last of its compressed messages, 5";
    assert_eq!(error.to_string(), text);
    assert_eq!(error.resume_at(), Some(5));
}

/// The last message tells what the offsets are relative to.
#[test]
fn a_wrapper_of_format_1_with_a_cut_end_keeps_its_messages_back() {
    let inner = set(MessageFormat::V1, None, 0..3);
    let mut builder = MessageSetBuilder::new().in_format(MessageFormat::V1);
    let payload = Codec::Gzip.compress(MessageFormat::V1, &inner.as_bytes()[..inner.len() - 1]);
    builder.message(12, None, Some(&payload.unwrap())).unwrap();
    let mut bytes = builder.build().unwrap().as_bytes().to_vec();
    bytes[17] = 1;
    let set = joined(&[&with_checksum(bytes), &plain(13..14)]);
    assert_eq!(outcomes(&set), [Err((12, Some(13))), Ok(13)]);
    let reason = first_error(&set).reason().clone();
    assert!(matches!(reason, CorruptReason::CutTail { .. }), "{reason}");
}

#[test]
fn a_wrapper_holds_messages_of_its_own_format() {
    for (outer, inner) in [
        (MessageFormat::V0, 1),
        (MessageFormat::V1, 0),
        (MessageFormat::V1, 2),
    ] {
        let format = MessageFormat::of_magic(inner).unwrap();
        let mut builder = builder(outer, Some(Codec::Lz4));
        let set = builder
            .entries(&set(format, None, 0..1))
            .clone()
            .build()
            .unwrap();
        let reason = CorruptReason::ForeignFormat { inner, outer };
        assert_eq!(*first_error(&set).reason(), reason);
    }
}

#[test]
fn an_entry_too_short_for_its_format_makes_the_rest_unusable() {
    for (format, size, least) in [(MessageFormat::V1, 21, 22), (MessageFormat::V2, 48, 49)] {
        let good = set(format, None, 0..1);
        let mut short = good.as_bytes().to_vec();
        short[..8].copy_from_slice(&1i64.to_be_bytes());
        short[8..12].copy_from_slice(&i32::to_be_bytes(size));
        let set = joined(&[&good, &MessageSet::from(short)]);
        assert_eq!(outcomes(&set), [Ok(0), Err((1, None))]);
        let reason = CorruptReason::EntrySize { size, least };
        assert_eq!(*first_error(&set).reason(), reason);
        let outline = Outline::of(set.as_bytes());
        let offset = 1;
        assert_eq!(
            outline.end,
            SetEnd::TooShort {
                offset,
                size,
                least
            }
        );
        assert_eq!(outline.valid_bytes, good.len());
    }
}

#[test]
fn a_batch_ends_where_its_header_says_and_not_at_its_last_record() {
    let mut bytes = set(MessageFormat::V2, None, 10..12).as_bytes().to_vec();
    bytes[23..27].copy_from_slice(&9i32.to_be_bytes());
    let set = with_batch_checksum(bytes);
    assert_eq!(offsets(&set), [10, 11]);
    assert_eq!(Outline::of(set.as_bytes()).last_offset, Some(19));
    let mut cursor = EntryCursor::outer();
    while cursor.next(set.as_bytes()).is_some() {}
    assert_eq!(cursor.behind_batches(), 20);
}

#[test]
fn records_that_do_not_come_to_their_number_are_told() {
    let good = record(&[&[0, 0, 0, 1, 1, 0]]);
    let last = record(&[&[0, 0, 18, 1, 1, 0]]);
    let both = [good.clone(), last].concat();
    assert_eq!(outcomes(&batch_of(2, &both)), [Ok(10), Ok(19)]);
    for (count, ok) in [(1, 1), (3, 2), (0x7fff_ffff, 2)] {
        let set = joined(&[&batch_of(count, &both), &plain(20..21)]);
        let outcomes = outcomes(&set);
        assert_eq!(outcomes.len(), ok + 2, "{count}");
        assert_eq!(outcomes[ok..], [Err((10, Some(20))), Ok(20)], "{count}");
        let reason = CorruptReason::RecordCount { claimed: count };
        assert_eq!(*first_error(&set).reason(), reason);
    }
    let reason = first_error(&batch_of(-1, &both)).reason().clone();
    assert_eq!(reason, CorruptReason::RecordCount { claimed: -1 });
    // None is what compaction may leave.
    assert_eq!(outcomes(&batch_of(0, &[])), []);
}

#[test]
fn a_damaged_batch_does_not_take_the_sound_one_behind_it_along() {
    // Whoever skipped the batch went on where its damaged header said that it ends, and lost what came between.
    let mut damaged = set(MessageFormat::V2, None, 10..12).as_bytes().to_vec();
    damaged[23..27].copy_from_slice(&500i32.to_be_bytes());
    let damaged = MessageSet::from(damaged);
    let followed = joined(&[&damaged, &plain(12..14)]);
    assert_eq!(outcomes(&followed), [Err((10, Some(12))), Ok(12), Ok(13)]);
    assert_eq!(outcomes(&damaged), [Err((10, Some(511)))]);
}

#[test]
fn a_record_outside_its_batch_is_refused() {
    for (delta, bytes) in [(10, 20), (-1, 1)] {
        let set = batch_of(1, &record(&[&[0, 0, bytes, 1, 1, 0]]));
        let reason = CorruptReason::OffsetDelta { delta, last: 9 };
        assert_eq!(*first_error(&set).reason(), reason);
    }
    let mut bytes = batch_of(0, &[]).as_bytes().to_vec();
    bytes[23..27].copy_from_slice(&(-2i32).to_be_bytes());
    let error = first_error(&with_batch_checksum(bytes));
    let reason = CorruptReason::OffsetDelta { delta: 0, last: -2 };
    assert_eq!(*error.reason(), reason);
    assert_eq!((error.offset(), error.resume_at()), (10, Some(11)));
}

#[test]
fn lengths_within_a_record_cannot_leave_it() {
    for (fields, named) in [
        (&[0, 0, 0, 20, 1, 0][..], "key"),
        (&[0, 0, 0, 3, 1, 0], "key"),
        (&[0, 0, 0, 1, 20, 0], "value"),
        (&[0, 0, 0, 1, 1, 1], "header count"),
        (&[0, 0, 0, 1, 1, 2, 1, 1], "header name"),
        (&[0, 0, 0, 1, 1, 2, 20, 1], "header name"),
        (&[0, 0, 0, 1, 1, 2, 0, 20], "header value"),
    ] {
        let error = first_error(&batch_of(1, &record(&[fields])));
        let CorruptReason::Length { field, .. } = error.reason() else {
            panic!("{error}");
        };
        assert_eq!(*field, named, "{error}");
        assert_eq!((error.offset(), error.resume_at()), (10, Some(20)));
    }
    for (fields, named) in [
        (&[][..], "timestamp"),
        (&[0, 0x80], "timestamp"),
        (&[0, 0], "offset"),
        (&[0, 0, 0], "key"),
        (&[0, 0, 0, 1], "value"),
        (&[0, 0, 0, 1, 1], "header count"),
        (&[0, 0, 0, 1, 1, 4, 0, 1], "header name"),
        (&[0, 0, 0, 1, 1, 2, 0], "header value"),
    ] {
        let error = first_error(&batch_of(1, &record(&[fields])));
        assert_eq!(*error.reason(), CorruptReason::Varint { field: named });
    }
}

#[test]
fn bytes_behind_the_headers_of_a_record_are_passed() {
    let set = batch_of(
        1,
        &record(&[&[0, 0, 0, 1, 2, b'v', 2, 2, b'n', 1], &[9; 30]]),
    );
    let message = set.messages().next().unwrap().unwrap();
    assert_eq!(message.value, Some(Bytes::from("v")));
    let headers: Vec<_> = message
        .headers()
        .map(|h| (h.name.into_owned(), h.value))
        .collect();
    assert_eq!(headers, [(String::from("n"), None)]);
}

#[test]
fn a_header_name_that_is_not_utf8_is_shown_with_replacements() {
    let set = batch_of(1, &record(&[&[0, 0, 0, 1, 1, 2, 4, b'n', 0xff, 2, 7]]));
    let message = set.messages().next().unwrap().unwrap();
    let header = message.headers().next().unwrap();
    assert_eq!((&*header.name, header.value), ("n\u{fffd}", Some(&[7][..])));
}

#[test]
fn markers_are_never_delivered_and_aborted_messages_only_if_wanted() {
    let set = joined(&[
        &of_transaction(1, 0),
        &of_transaction(2, 1),
        &marker(2, 1, 0),
        &of_transaction(1, 3),
        &marker(4, 2, 1),
        &marker(5, 1, 1),
        &set(MessageFormat::V2, Some(Codec::Gzip), 6..7),
        &marker(7, 1, 99),
    ]);
    assert_eq!(offsets(&set), [0, 1, 3, 6]);
    let aborted = AbortedTransaction {
        producer_id: 1,
        first_offset: 0,
    };
    let committed = set.committed_messages(&[aborted]);
    let committed: Vec<i64> = committed.map(|message| message.unwrap().offset).collect();
    assert_eq!(committed, [1, 3, 6]);
    assert_eq!(Outline::of(set.as_bytes()).last_offset, Some(7));
}

#[test]
fn a_marker_of_an_unknown_layout_is_passed() {
    for key in [
        None,
        Some(&[][..]),
        Some(&[0, 0, 0]),
        Some(&[0, 9, 0, 9, 9]),
    ] {
        let mut builder = builder(MessageFormat::V2, None);
        builder.message(3, key, None).unwrap();
        let mut batch = builder.build().unwrap().as_bytes().to_vec();
        batch[22] |= 0x20;
        assert_eq!(outcomes(&with_batch_checksum(batch)), []);
    }
}

#[test]
fn the_limit_holds_for_every_format_and_codec() {
    each(|format, codec| {
        let Some(codec) = codec else { return };
        let set = set(format, Some(codec), 0..200);
        let mut content = Vec::new();
        let Some(Ok(Entry::Wrapper(wrapper))) = EntryCursor::outer().next(set.as_bytes()) else {
            panic!("no wrapper");
        };
        let payload = &set.as_bytes()[wrapper.payload.clone()];
        codec.decompress(payload, usize::MAX, &mut content).unwrap();
        let limit = content.len();
        assert_eq!(
            set.messages_within(limit).filter(Result::is_ok).count(),
            200
        );
        let limit = limit - 1;
        let refused = set.messages_within(limit).next().unwrap().unwrap_err();
        assert_eq!(
            *refused.reason(),
            CorruptReason::OverLimit { limit },
            "{format} {codec}"
        );
        assert_eq!(refused.resume_at(), Some(200));
    });
}

#[test]
fn lz4_has_the_checksum_that_readers_of_its_format_want() {
    for (format, checksum) in [
        (MessageFormat::V0, 0x1a),
        (MessageFormat::V1, 0x82),
        (MessageFormat::V2, 0x82),
    ] {
        let frame = Codec::Lz4.compress(format, b"content").unwrap();
        assert_eq!(frame[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, checksum]);
    }
}

#[test]
fn zstd_is_of_format_2_alone() {
    for format in [MessageFormat::V0, MessageFormat::V1] {
        let mut builder = builder(format, Some(Codec::Zstd));
        builder.message(0, None, None).unwrap();
        let error = builder.build().unwrap_err().to_string();
        assert!(
            error.contains(&format!("message format {format} has no zstd")),
            "{error}"
        );
        let mut entry = set(format, None, 0..1).as_bytes().to_vec();
        entry[17] |= 4;
        let reason = first_error(&with_checksum(entry)).reason().clone();
        assert_eq!(reason, CorruptReason::Codec(4));
    }
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_frames_one_behind_the_other_are_read_to_the_end() {
    let compress = |content: &[u8]| Codec::Zstd.compress(MessageFormat::V2, content).unwrap();
    let payload = [compress(&[1; 100_000]), compress(&[2; 10])].concat();
    let mut out = Vec::new();
    Codec::Zstd.decompress(&payload, 100_010, &mut out).unwrap();
    assert_eq!(out, [vec![1; 100_000], vec![2; 10]].concat());
    let cut = &payload[..payload.len() - 1];
    let reason = Codec::Zstd.decompress(cut, 1 << 20, &mut out).unwrap_err();
    assert!(
        matches!(reason, CorruptReason::Decompression { .. }),
        "{reason}"
    );
}

#[cfg(not(feature = "zstd"))]
#[test]
fn a_build_without_zstd_says_what_it_lacks() {
    let mut batch = set(MessageFormat::V2, None, 0..2).as_bytes().to_vec();
    batch[22] |= 4;
    let set = joined(&[&with_batch_checksum(batch), &plain(2..3)]);
    assert_eq!(outcomes(&set), [Err((0, Some(2))), Ok(2)]);
    let text = "message at offset 0 is corrupt: it is compressed with zstd, which this build cannot read: \
                it lacks the cargo feature `zstd`";
    assert_eq!(first_error(&set).to_string(), text);
}

#[test]
fn offsets_that_a_set_cannot_hold_are_refused() {
    for (format, codec) in [
        (MessageFormat::V2, None),
        (MessageFormat::V1, Some(Codec::Gzip)),
    ] {
        for (first, second) in [(5, 5), (5, 4), (0, 1 << 31), (-5, i64::MAX)] {
            let mut builder = builder(format, codec);
            builder.message(first, None, None).unwrap();
            assert!(builder.message(second, None, None).is_err());
        }
    }
    let mut batch = builder(MessageFormat::V2, None);
    batch.entries(&plain(0..1));
    let error = batch.build().unwrap_err().to_string();
    assert!(
        error.contains("a record batch holds no whole entries"),
        "{error}"
    );
}

fn fields() -> impl Strategy<Value = Full> {
    let bytes = || option::of(prop_oneof![vec(any::<u8>(), 0..50), vec(0..3u8, 0..3000)]);
    let timestamp = option::of(prop_oneof![0..i64::MAX, Just(1_500_000_000_000)]);
    (bytes(), bytes(), timestamp, vec((".{0,5}", bytes()), 0..4)).prop_map(
        |(key, value, timestamp, headers)| Full {
            offset: 0,
            key,
            value,
            timestamp,
            headers,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_built_in_any_format_is_read_again(
        format in (0..3usize).prop_map(|n| ALL[n]),
        codec in any::<usize>(),
        first in 0..i64::MAX >> 1,
        mut messages in vec((fields(), 1..1000i64), 1..20),
    ) {
        let codecs = codecs_of(format);
        let mut offset = first;
        for (message, step) in &mut messages {
            offset += *step;
            message.offset = offset;
        }
        let messages: Vec<Full> = messages.into_iter().map(|(message, _)| message).collect();
        let set = built(builder(format, codecs[codec % codecs.len()]), &messages);
        let outline = Outline::of(set.as_bytes());
        prop_assert_eq!(outline.last_offset, Some(offset));
        prop_assert_eq!(outline.valid_bytes, set.len());
        let expected: Vec<Full> = messages.into_iter().map(|m| m.within(format)).collect();
        prop_assert_eq!(read(&set), expected);
    }

    /// What a peer with a right checksum can do.
    #[test]
    fn damaged_records_are_read_or_refused(at in 21..400usize, byte in any::<u8>(), cut in 0..50usize) {
        let mut batch = set(MessageFormat::V2, None, 5..12).as_bytes().to_vec();
        let at = at % batch.len();
        if at > 20 {
            batch[at] = byte;
        }
        batch.truncate(batch.len() - cut);
        let size = i32::try_from(batch.len() - 12).unwrap();
        batch[8..12].copy_from_slice(&size.to_be_bytes());
        let set = joined(&[&with_batch_checksum(batch), &plain(12..13)]);
        let outcomes: Vec<_> = set.messages_within(1 << 16).collect();
        prop_assert!(outcomes.len() <= 9);
        // Whatever the batch holds, what follows it is found.
        prop_assert_eq!(outcomes.last().unwrap().as_ref().unwrap().offset, 12);
        for message in outcomes.into_iter().flatten() {
            prop_assert!(message.headers().count() < 400);
        }
    }
}
