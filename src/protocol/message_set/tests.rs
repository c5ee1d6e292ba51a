//! Message sets: what goes in comes out, and what is wrong is named.

mod later_formats;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::ProptestConfig;
use proptest::prelude::Strategy;
use proptest::prelude::any;
use proptest::prop_assert_eq;
use proptest::proptest;

use crate::protocol::message_set::Codec;
use crate::protocol::message_set::CorruptMessage;
use crate::protocol::message_set::CorruptReason;
use crate::protocol::message_set::Entry;
use crate::protocol::message_set::EntryCursor;
use crate::protocol::message_set::MessageAndOffset;
use crate::protocol::message_set::MessageFormat;
use crate::protocol::message_set::MessageSet;
use crate::protocol::message_set::MessageSetBuilder;
use crate::protocol::message_set::Outline;
use crate::protocol::message_set::SetEnd;

const CODECS: [Codec; 3] = [Codec::Gzip, Codec::Snappy, Codec::Lz4];

/// Plain messages `0`, `1`, ... at the offsets given.
fn plain(offsets: std::ops::Range<i64>) -> MessageSet {
    let mut builder = MessageSetBuilder::new();
    for offset in offsets {
        let value = offset.to_string();
        builder
            .message(offset, None, Some(value.as_bytes()))
            .unwrap();
    }
    builder.build().unwrap()
}

/// The entries of `set` in a wrapper.
fn wrapped(codec: Codec, set: &MessageSet) -> MessageSet {
    let mut builder = MessageSetBuilder::compressed(codec);
    builder.entries(set);
    builder.build().unwrap()
}

/// Sets one after the other.
fn joined(sets: &[&MessageSet]) -> MessageSet {
    let bytes: Vec<&[u8]> = sets.iter().map(|set| set.as_bytes()).collect();
    MessageSet::from(bytes.concat())
}

/// Flips a bit of the byte at `position`.
fn damaged(set: &MessageSet, position: usize) -> MessageSet {
    let mut bytes = set.as_bytes().to_vec();
    bytes[position] ^= 1;
    MessageSet::from(bytes)
}

/// A wrapper around bytes that are no message set.
fn wrapper_of(codec: Codec, offset: i64, inner: &[u8]) -> MessageSet {
    let payload = codec.compress(MessageFormat::V0, inner).unwrap();
    let mut builder = MessageSetBuilder::new();
    builder.message(offset, None, Some(&payload)).unwrap();
    let mut bytes = builder.build().unwrap().as_bytes().to_vec();
    bytes[17] = codec.attributes();
    with_checksum(bytes)
}

/// A single entry with its checksum made right again.
fn with_checksum(mut entry: Vec<u8>) -> MessageSet {
    let checksum = crc32fast::hash(&entry[16..]);
    entry[12..16].copy_from_slice(&checksum.to_be_bytes());
    MessageSet::from(entry)
}

fn offsets(set: &MessageSet) -> Vec<i64> {
    set.messages()
        .map(|message| message.unwrap().offset)
        .collect()
}

fn outcomes(set: &MessageSet) -> Vec<Result<i64, (i64, Option<i64>)>> {
    let outcome = |message: Result<MessageAndOffset, CorruptMessage>| match message {
        Ok(message) => Ok(message.offset),
        Err(corrupt) => Err((corrupt.offset(), corrupt.resume_at())),
    };
    set.messages().map(outcome).collect()
}

fn first_error(set: &MessageSet) -> CorruptMessage {
    set.messages().find_map(Result::err).unwrap()
}

#[test]
fn an_entry_beyond_the_log_ends_the_whole_ones_and_names_the_batch_behind_it() {
    let batch = |offset: i64| {
        let mut set = MessageSetBuilder::new().in_format(MessageFormat::V2);
        set.message(offset, None, Some(b"value")).unwrap();
        set.build().unwrap().as_bytes().to_vec()
    };
    let set = [batch(3), batch(90), batch(5)].concat();
    let first = batch(3).len();
    let outline = Outline::within(&set, Some(10));
    let end = SetEnd::Beyond {
        last: 90,
        next: Some(5),
    };
    assert_eq!(outline.end, end);
    assert_eq!((outline.valid_bytes, outline.last_offset), (first, Some(3)));
    assert_eq!(Outline::within(&set, Some(91)), Outline::of(&set));
    let alone = Outline::within(&set[first..], Some(90));
    assert_eq!((alone.valid_bytes, alone.last_offset), (0, None));
}

#[test]
fn a_compressed_set_gives_every_message_with_its_own_offset() {
    for codec in CODECS {
        let set = wrapped(codec, &plain(0..10));
        let messages: Vec<_> = set.messages().map(Result::unwrap).collect();
        for (offset, message) in (0..10).zip(&messages) {
            assert_eq!(message.offset, offset);
            assert_eq!(message.value, Some(Bytes::from(offset.to_string())));
            assert_eq!(message.key, None);
        }
        assert_eq!(messages.len(), 10);
        assert_eq!(Outline::of(set.as_bytes()).last_offset, Some(9));
    }
}

#[test]
fn null_and_empty_are_told_apart() {
    let mut builder = MessageSetBuilder::new();
    builder.message(0, None, Some(b"")).unwrap();
    builder.message(1, Some(b""), None).unwrap();
    let set = builder.build().unwrap();
    let messages: Vec<_> = set.messages().map(Result::unwrap).collect();
    let empty = Some(Bytes::new());
    assert_eq!((&messages[0].key, &messages[0].value), (&None, &empty));
    assert_eq!((&messages[1].key, &messages[1].value), (&empty, &None));
}

#[test]
fn a_bad_checksum_stops_one_message_and_not_its_neighbours() {
    let set = plain(0..3);
    let size = set.len() / 3;
    let set = damaged(&set, size * 2 - 1);
    assert_eq!(outcomes(&set), [Ok(0), Err((1, Some(2))), Ok(2)]);
    let error = first_error(&set);
    assert!(
        matches!(error.reason(), CorruptReason::Checksum { stored, computed } if stored != computed)
    );
    let text = error.to_string();
    assert!(
        text.starts_with("message at offset 1 is corrupt: its checksum is 0x"),
        "{text}"
    );
}

#[test]
fn a_bad_checksum_in_a_compressed_set_is_found_too() {
    for codec in CODECS {
        let inner = plain(0..3);
        let size = inner.len() / 3;
        let set = wrapped(codec, &damaged(&inner, size * 2 - 1));
        let set = joined(&[&set, &plain(3..4)]);
        let expected = [Ok(0), Err((1, Some(2))), Ok(2), Ok(3)];
        assert_eq!(outcomes(&set), expected, "{codec}");
    }
}

#[test]
fn a_bad_checksum_of_a_wrapper_keeps_its_content_back() {
    let set = wrapped(Codec::Snappy, &plain(0..3));
    let bad = damaged(&set, set.len() - 1);
    let set = joined(&[&bad, &plain(3..4)]);
    assert_eq!(outcomes(&set), [Err((2, Some(3))), Ok(3)]);
}

#[test]
fn an_entry_that_is_too_short_makes_the_rest_unusable() {
    let good = plain(0..1);
    let mut short = plain(1..2).as_bytes().to_vec();
    short[8..12].copy_from_slice(&13i32.to_be_bytes());
    let short = MessageSet::from(short);
    let set = joined(&[&good, &short, &plain(2..3)]);
    assert_eq!(outcomes(&set), [Ok(0), Err((1, None))]);
    let outline = Outline::of(set.as_bytes());
    let end = SetEnd::TooShort {
        offset: 1,
        size: 13,
        least: 14,
    };
    assert_eq!(
        (outline.valid_bytes, outline.last_offset),
        (good.len(), Some(0))
    );
    assert_eq!(outline.end, end);
    assert!(!outline.is_oversize());
    let text = "message at offset 1 is corrupt: it claims a size of 13, the least is 14";
    assert_eq!(first_error(&set).to_string(), text);
}

#[test]
fn broken_framing_in_a_wrapper_costs_that_wrapper_only() {
    for cut in [1, 11, 13] {
        let inner = plain(0..2);
        let inner = &inner.as_bytes()[..inner.len() - cut];
        let set = joined(&[&wrapper_of(Codec::Gzip, 1, inner), &plain(2..3)]);
        assert_eq!(outcomes(&set), [Ok(0), Err((1, Some(2))), Ok(2)]);
        let reason = first_error(&set).reason().clone();
        assert!(matches!(reason, CorruptReason::CutTail { .. }), "{reason}");
    }
    let mut inner = plain(0..2).as_bytes().to_vec();
    inner[8..12].copy_from_slice(&(-1i32).to_be_bytes());
    let set = joined(&[&wrapper_of(Codec::Gzip, 1, &inner), &plain(2..3)]);
    assert_eq!(outcomes(&set), [Err((1, Some(2))), Ok(2)]);
    let reason = CorruptReason::EntrySize {
        size: -1,
        least: 14,
    };
    assert_eq!(*first_error(&set).reason(), reason);
}

#[test]
fn a_wrapper_without_messages_is_corrupt() {
    for codec in CODECS {
        let set = joined(&[&wrapper_of(codec, 4, &[]), &plain(5..6)]);
        assert_eq!(outcomes(&set), [Err((4, Some(5))), Ok(5)], "{codec}");
        let reason = CorruptReason::EmptyWrapper;
        assert_eq!(*first_error(&set).reason(), reason, "{codec}");
    }
    let mut builder = MessageSetBuilder::new();
    builder.message(4, None, None).unwrap();
    let mut entry = builder.build().unwrap().as_bytes().to_vec();
    entry[17] = 1;
    let set = with_checksum(entry);
    assert_eq!(*first_error(&set).reason(), CorruptReason::EmptyWrapper);
}

#[test]
fn messages_of_an_inner_wrapper_share_its_offset() {
    let twice = wrapped(
        Codec::Lz4,
        &joined(&[&wrapped(Codec::Gzip, &plain(0..2)), &plain(2..3)]),
    );
    assert_eq!(offsets(&twice), [1, 1, 2]);
}

#[test]
fn a_third_level_of_compression_is_refused() {
    let twice = wrapped(Codec::Snappy, &wrapped(Codec::Gzip, &plain(0..2)));
    let thrice = wrapped(Codec::Lz4, &twice);
    let set = joined(&[&thrice, &plain(2..3)]);
    assert_eq!(outcomes(&set), [Err((1, Some(2))), Ok(2)]);
    assert_eq!(*first_error(&set).reason(), CorruptReason::NestedTooDeep);
}

#[test]
fn another_format_or_codec_is_named_by_its_number() {
    for (position, value, reason) in [
        (16, 3, CorruptReason::Magic(3)),
        (16, 0xff, CorruptReason::Magic(0xff)),
        (17, 4, CorruptReason::Codec(4)),
        (17, 0xff, CorruptReason::Codec(7)),
    ] {
        let mut entry = plain(3..4).as_bytes().to_vec();
        entry[position] = value;
        assert_eq!(*first_error(&with_checksum(entry)).reason(), reason);
    }
}

#[test]
fn attributes_beside_the_codec_are_ignored() {
    let mut entry = plain(3..4).as_bytes().to_vec();
    entry[17] = 0xf8;
    assert_eq!(offsets(&with_checksum(entry)), [3]);
}

#[test]
fn lengths_within_a_message_cannot_leave_it() {
    for (position, length, field) in [
        (18, 6, "key"),
        (18, -2, "key"),
        (18, i32::MIN, "key"),
        (18, i32::MAX, "key"),
        (18, 2, "length field"),
        (22, 2, "value"),
        (22, -7, "value"),
    ] {
        let mut entry = plain(3..4).as_bytes().to_vec();
        entry[position..position + 4].copy_from_slice(&i32::to_be_bytes(length));
        let error = first_error(&with_checksum(entry));
        let CorruptReason::Length { field: named, .. } = error.reason() else {
            panic!("{error}");
        };
        assert_eq!(*named, field, "{error}");
        assert_eq!(error.resume_at(), Some(4));
    }
}

#[test]
fn the_limit_holds_to_the_byte() {
    let inner = plain(0..200);
    for codec in CODECS {
        let set = wrapped(codec, &inner);
        assert_eq!(
            set.messages_within(inner.len())
                .filter(Result::is_ok)
                .count(),
            200
        );
        let limit = inner.len() - 1;
        let refused = set.messages_within(limit).next().unwrap().unwrap_err();
        assert_eq!(
            *refused.reason(),
            CorruptReason::OverLimit { limit },
            "{codec}"
        );
        assert_eq!(refused.resume_at(), Some(200));
    }
}

#[test]
fn a_cut_head_tells_its_offset_and_the_size_that_is_needed() {
    let set = plain(7..8);
    for length in 1..12 {
        let outline = Outline::of(&set.as_bytes()[..length]);
        assert!(outline.is_oversize());
        let (offset, needed) = (None, None);
        assert_eq!(outline.end, SetEnd::Cut { offset, needed });
    }
    for length in 12..set.len() {
        let outline = Outline::of(&set.as_bytes()[..length]);
        assert!(outline.is_oversize());
        let (offset, needed) = (Some(7), Some(set.len()));
        assert_eq!(outline.end, SetEnd::Cut { offset, needed });
    }
    assert_eq!(Outline::of(set.as_bytes()).end, SetEnd::Whole);
    let empty = Outline::of(&[]);
    assert_eq!((empty.end, empty.is_oversize()), (SetEnd::Whole, false));
}

#[test]
fn a_cut_tail_after_whole_entries_is_ordinary() {
    let two = plain(7..9);
    let cut = MessageSet::from(two.as_bytes()[..two.len() - 1].to_vec());
    let outline = Outline::of(cut.as_bytes());
    assert_eq!(outline.valid_bytes, two.len() / 2);
    assert_eq!(outline.last_offset, Some(7));
    assert!(!outline.is_oversize());
    assert_eq!(outcomes(&cut), [Ok(7)]);
}

#[test]
fn the_filler_of_converted_sets_is_no_message_and_not_too_large() {
    let mut filler = (-1i64).to_be_bytes().to_vec();
    filler.extend(1000i32.to_be_bytes());
    filler.extend([0; 40]);
    for length in 8..filler.len() {
        let outline = Outline::of(&filler[..length]);
        assert_eq!(outline.end, SetEnd::Filler);
        assert!(!outline.is_oversize());
    }
    assert_eq!(outcomes(&MessageSet::from(filler)), []);
}

#[test]
fn a_cursor_reuses_the_buffer_it_decompresses_into() {
    let set = wrapped(Codec::Lz4, &plain(0..3));
    let mut cursor = EntryCursor::outer();
    let Some(Ok(Entry::Wrapper(wrapper))) = cursor.next(set.as_bytes()) else {
        panic!("no wrapper");
    };
    let mut buffer = vec![9; 1 << 16];
    let address = buffer.as_ptr();
    let mut inner = cursor
        .open(&wrapper, set.as_bytes(), 1 << 16, &mut buffer)
        .unwrap();
    assert_eq!(buffer.as_ptr(), address);
    assert_eq!(buffer, plain(0..3).as_bytes());
    let mut messages = 0;
    while let Some(entry) = inner.next(&buffer) {
        assert!(matches!(entry.unwrap(), Entry::Message(_)));
        messages += 1;
    }
    assert_eq!(messages, 3);
    assert_eq!(inner.next(&buffer), None);
    assert_eq!(cursor.next(set.as_bytes()), None);
}

#[test]
fn compressed_sets_look_like_those_of_java() {
    let set = |codec| wrapped(codec, &plain(0..3));
    let payload = |set: &MessageSet, bytes: usize| set.as_bytes()[26..26 + bytes].to_vec();
    let lz4 = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x1a];
    assert_eq!(payload(&set(Codec::Lz4), 7), lz4);
    let snappy = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
    assert_eq!(payload(&set(Codec::Snappy), 16), snappy);
    assert_eq!(payload(&set(Codec::Gzip), 3), [0x1f, 0x8b, 8]);
}

/// Frames that Java does not write and other clients may: lz4_flex writes them with the right header checksum.
#[test]
fn lz4_frames_of_every_kind_are_read() {
    use lz4_flex::frame::BlockMode;
    use lz4_flex::frame::BlockSize;
    use lz4_flex::frame::FrameEncoder;
    use lz4_flex::frame::FrameInfo;
    use std::io::Write;

    let content: Vec<u8> = (0..300_000u32)
        .map(|n| (n.wrapping_mul(n) >> 7).to_le_bytes()[0])
        .collect();
    let checksum = u64::try_from(content.len()).unwrap();
    for mode in [BlockMode::Independent, BlockMode::Linked] {
        for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
            for extras in [false, true] {
                let info = FrameInfo::new()
                    .block_mode(mode)
                    .block_size(size)
                    .block_checksums(extras)
                    .content_checksum(extras)
                    .content_size(extras.then_some(checksum));
                let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                encoder.write_all(&content).unwrap();
                let frame = encoder.finish().unwrap();
                let mut out = Vec::new();
                Codec::Lz4
                    .decompress(&frame, content.len(), &mut out)
                    .unwrap();
                assert!(out == content, "{mode:?} {size:?} {extras}");
            }
        }
    }
}

#[test]
fn gzip_members_with_every_optional_field_are_read() {
    use flate2::Compression;
    use flate2::GzBuilder;
    use std::io::Write;

    let builder = GzBuilder::new()
        .extra(vec![7; 300])
        .filename("name")
        .comment("why");
    let mut encoder = builder.write(Vec::new(), Compression::best());
    encoder.write_all(b"one").unwrap();
    let mut payload = encoder.finish().unwrap();
    // A checksum of the header, which that library does not write, stands after the ten bytes here.
    let mut second = Codec::Gzip.compress(MessageFormat::V0, b", two").unwrap();
    second[3] |= 2;
    second.splice(10..10, [1, 2]);
    payload.extend(second);
    let mut out = Vec::new();
    Codec::Gzip.decompress(&payload, 8, &mut out).unwrap();
    assert_eq!(out, b"one, two");
    let reason = Codec::Gzip.decompress(&payload, 7, &mut out).unwrap_err();
    assert_eq!(reason, CorruptReason::OverLimit { limit: 7 });
}

#[test]
fn gzip_with_a_wrong_checksum_or_more_bytes_is_refused() {
    let good = Codec::Gzip.compress(MessageFormat::V0, b"content").unwrap();
    let mut bad = good.clone();
    bad[good.len() - 8] ^= 1;
    let reason = Codec::Gzip
        .decompress(&bad, 100, &mut Vec::new())
        .unwrap_err();
    let text = "cannot decompress gzip: the checksum of a gzip member is wrong";
    assert_eq!(reason.to_string(), text);
    let mut longer = good.clone();
    longer.extend([0; 20]);
    let reason = Codec::Gzip
        .decompress(&longer, 100, &mut Vec::new())
        .unwrap_err();
    let text = "cannot decompress gzip: not a gzip member";
    assert_eq!(reason.to_string(), text);
    // The failures before leave nothing behind.
    let mut out = Vec::new();
    Codec::Gzip.decompress(&good, 100, &mut out).unwrap();
    assert_eq!(out, b"content");
}

#[test]
fn an_lz4_frame_that_lies_about_its_content_is_refused() {
    let mut frame = vec![
        0x04, 0x22, 0x4d, 0x18, 0x68, 0x40, 3, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    frame.extend([2, 0, 0, 0x80, b'h', b'i', 0, 0, 0, 0]);
    let reason = Codec::Lz4
        .decompress(&frame, 100, &mut Vec::new())
        .unwrap_err();
    let text = "cannot decompress lz4: the frame claims to hold 3 bytes and holds 2";
    assert_eq!(reason.to_string(), text);
    frame[6] = 2;
    let mut out = Vec::new();
    Codec::Lz4.decompress(&frame, 100, &mut out).unwrap();
    assert_eq!(out, b"hi");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_is_built_is_read_again(
        codec in option::of((0..3usize).prop_map(|n| CODECS[n])),
        messages in vec((option::of(vec(any::<u8>(), 0..50)), option::of(vec(0..3u8, 0..5000))), 0..40),
    ) {
        let mut builder = codec.map_or_else(MessageSetBuilder::new, MessageSetBuilder::compressed);
        let mut expected = Vec::new();
        for (offset, (key, value)) in (5..).step_by(3).zip(messages) {
            builder.message(offset, key.as_deref(), value.as_deref()).unwrap();
            let [key, value] = [key, value].map(|bytes| bytes.map(Bytes::from));
            expected.push((offset, key, value));
        }
        let set = builder.build().unwrap();
        let read: Vec<_> = set.messages().map(Result::unwrap).map(|m| (m.offset, m.key, m.value)).collect();
        let outline = Outline::of(set.as_bytes());
        prop_assert_eq!(outline.last_offset, expected.last().map(|message| message.0));
        prop_assert_eq!(outline.valid_bytes, set.len());
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn every_codec_gives_back_what_it_got(codec in 0..3usize, content in vec(any::<u8>(), 0..100_000), stretch in 1..20usize) {
        let codec = CODECS[codec];
        let content: Vec<u8> = content.chunks(stretch).flat_map(|chunk| chunk.iter().map(|_| chunk[0])).collect();
        let payload = codec.compress(MessageFormat::V0, &content).unwrap();
        // A buffer is used again, be it shorter or longer than what comes.
        for before in [0, content.len() / 2, content.len() + 7] {
            let mut out = vec![9; before];
            codec.decompress(&payload, content.len(), &mut out).unwrap();
            prop_assert_eq!(out == content, true);
        }
    }
}
