//! Which partition a message with a key goes to.

use kafka_zk_consumer::java_hash;

/// As the default partitioner of Kafka 0.8.2.2 for text: Java's `String.hashCode`, its absolute value, modulo.
///
/// `partitions` are the numbers of all partitions in order; `None` when there are none. Bytes that are no UTF-8
/// count as U+FFFD, as in Java.
pub(crate) fn partition_for(key: &[u8], partitions: &[i32]) -> Option<i32> {
    // The absolute value of the least number counts as 0.
    let hash = java_hash(&String::from_utf8_lossy(key))
        .checked_abs()
        .unwrap_or(0);
    let count = i32::try_from(partitions.len()).ok()?;
    let index = usize::try_from(hash.checked_rem(count)?).ok()?;
    partitions.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_hash_as_in_java() {
        for (text, hash) in [
            ("", 0),
            ("a", 97),
            ("hello", 99_162_322),
            ("polygenelubricants", i32::MIN),
            ("\u{1d11e}", 0xd834 * 31 + 0xdd1e),
        ] {
            assert_eq!(java_hash(text), hash, "{text}");
        }
    }

    #[test]
    fn a_key_always_goes_to_the_same_partition_and_no_hash_goes_astray() {
        let partitions = [0, 1, 2, 5];
        assert_eq!(partition_for(b"a", &partitions), Some(1));
        assert_eq!(partition_for(b"hello", &partitions), Some(2));
        assert_eq!(partition_for(b"polygenelubricants", &partitions), Some(0));
        assert_eq!(partition_for(b"c", &partitions), Some(5));
        assert!(partition_for(&[0xff, 0xfe], &partitions).is_some());
        assert_eq!(partition_for(b"a", &[]), None);
    }
}
