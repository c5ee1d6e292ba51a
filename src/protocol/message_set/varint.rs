//! Integers of variable length: zigzag, then seven bits a byte, the low ones first.

/// Takes an integer of 32 bits off the front of `bytes`; `None` where it is cut or has more than five bytes.
#[inline]
pub(super) fn varint(bytes: &mut &[u8]) -> Option<i32> {
    // As in Kafka: bits beyond the 32nd are dropped.
    let bits = unsigned(bytes, 5)? & u64::from(u32::MAX);
    let bits = u32::try_from(bits).ok()?;
    Some((bits >> 1).cast_signed() ^ (bits & 1).cast_signed().wrapping_neg())
}

/// Takes an integer of 64 bits off the front of `bytes`; `None` where it is cut or has more than ten bytes.
#[inline]
pub(super) fn varlong(bytes: &mut &[u8]) -> Option<i64> {
    let bits = unsigned(bytes, 10)?;
    Some((bits >> 1).cast_signed() ^ (bits & 1).cast_signed().wrapping_neg())
}

#[inline]
fn unsigned(bytes: &mut &[u8], most: u32) -> Option<u64> {
    let (first, rest) = bytes.split_first()?;
    if *first < 0x80 {
        *bytes = rest;
        return Some(u64::from(*first));
    }
    longer(bytes, most)
}

fn longer(bytes: &mut &[u8], most: u32) -> Option<u64> {
    let mut bits = 0;
    for index in 0..most {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        bits |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Some(bits);
        }
    }
    None
}

/// Appends an integer, which takes one to ten bytes.
pub(super) fn write(value: i64, bytes: &mut Vec<u8>) {
    let mut bits = ((value << 1) ^ (value >> 63)).cast_unsigned();
    loop {
        let [low, ..] = bits.to_le_bytes();
        bits >>= 7;
        if bits == 0 {
            bytes.push(low & 0x7f);
            return;
        }
        bytes.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::prop_assert_eq;
    use proptest::proptest;

    use super::*;

    #[test]
    fn known_integers_have_their_known_bytes() {
        let known = include_str!("../../../tests/fixtures/vectors/varints.json");
        let known: serde_json::Value = serde_json::from_str(known).unwrap();
        for integer in known.as_array().unwrap() {
            let value = integer["value"].as_i64().unwrap();
            let mut written = Vec::new();
            write(value, &mut written);
            let hex: String = written.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, integer["hex"], "{value}");
            assert_eq!(varlong(&mut &*written), Some(value));
            if let Ok(value) = i32::try_from(value) {
                assert_eq!(varint(&mut &*written), Some(value));
            }
        }
    }

    #[test]
    fn an_integer_that_is_cut_or_too_long_is_none() {
        assert_eq!(varint(&mut &[][..]), None);
        assert_eq!(varint(&mut &[0x80, 0x80][..]), None);
        assert_eq!(varint(&mut &[0x80, 0x80, 0x80, 0x80, 0x80, 0][..]), None);
        assert_eq!(varlong(&mut &[0xff; 11][..]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in any::<i64>(), shift in 0..64u32) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            bytes.push(7);
            let mut rest = &bytes[..];
            prop_assert_eq!(varlong(&mut rest), Some(value));
            prop_assert_eq!(rest, [7]);
        }
    }
}
