//! Offsets in two places at once.

use std::collections::HashMap;

use crate::cluster::TopicPartition;
use crate::consumer::offset_store::OffsetCall;
use crate::consumer::offset_store::OffsetStore;
use crate::consumer::offset_store::OffsetStoreError;

/// Offsets in Kafka and ZooKeeper, as `dual.commit.enabled` says, so that a group can be moved from one to the other
/// member by member.
pub(crate) struct DualOffsets<K, Z> {
    pub(crate) kafka: K,
    pub(crate) zookeeper: Z,
}

impl<K: OffsetStore, Z: OffsetStore> OffsetStore for DualOffsets<K, Z> {
    /// The larger of the two counts: the members of the group that know only one of them move only that.
    fn fetch(
        &self,
        partitions: &[TopicPartition],
        call: &OffsetCall,
    ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
        let mut offsets = self.kafka.fetch(partitions, call)?;
        for (partition, offset) in self.zookeeper.fetch(partitions, call)? {
            let larger = offsets.entry(partition).or_insert(offset);
            *larger = offset.max(*larger);
        }
        Ok(offsets)
    }

    /// To ZooKeeper goes what Kafka has stored.
    fn commit(
        &self,
        offsets: &[(TopicPartition, i64)],
        call: &OffsetCall,
    ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError> {
        let mut results = self.kafka.commit(offsets, call)?;
        let stored: Vec<(TopicPartition, i64)> = offsets
            .iter()
            .zip(&results)
            .filter(|(_, result)| result.is_ok())
            .map(|(offset, _)| offset.clone())
            .collect();
        let second = self.zookeeper.commit(&stored, call)?;
        let places = results.iter_mut().filter(|result| result.is_ok());
        for (place, result) in places.zip(second) {
            *place = result;
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use crate::thread::Stopper;

    use super::*;

    /// Refuses the partitions that it is told to.
    #[derive(Default)]
    struct Place {
        stored: Mutex<HashMap<TopicPartition, i64>>,
        refused: Vec<i32>,
    }

    impl Place {
        fn new(stored: &[(i32, i64)], refused: &[i32]) -> Self {
            let stored = stored
                .iter()
                .map(|(number, offset)| (partition(*number), *offset));
            Self {
                stored: Mutex::new(stored.collect()),
                refused: refused.to_vec(),
            }
        }
    }

    impl OffsetStore for Place {
        fn fetch(
            &self,
            partitions: &[TopicPartition],
            _call: &OffsetCall,
        ) -> Result<HashMap<TopicPartition, i64>, OffsetStoreError> {
            let stored = self.stored.lock();
            let found = partitions
                .iter()
                .filter_map(|it| Some((it.clone(), *stored.get(it)?)));
            Ok(found.collect())
        }

        fn commit(
            &self,
            offsets: &[(TopicPartition, i64)],
            _call: &OffsetCall,
        ) -> Result<Vec<Result<(), OffsetStoreError>>, OffsetStoreError> {
            let results = offsets.iter().map(|(partition, offset)| {
                if self.refused.contains(&partition.partition()) {
                    return Err("refused".into());
                }
                self.stored.lock().insert(partition.clone(), *offset);
                Ok(())
            });
            Ok(results.collect())
        }
    }

    fn partition(number: i32) -> TopicPartition {
        TopicPartition::new("orders", number)
    }

    #[test]
    fn the_larger_offset_counts_and_one_place_is_enough() {
        let dual = DualOffsets {
            kafka: Place::new(&[(0, 5), (1, 7), (2, 0)], &[]),
            zookeeper: Place::new(&[(0, 6), (1, 2), (3, 9)], &[]),
        };
        let stopper = Stopper::new();
        let call = OffsetCall::new(None, &stopper.signal());
        let all = [0, 1, 2, 3, 4].map(partition);
        let expected = [(0, 6), (1, 7), (2, 0), (3, 9)].map(|(it, offset)| (partition(it), offset));
        assert_eq!(dual.fetch(&all, &call).unwrap(), HashMap::from(expected));
    }

    #[test]
    fn zookeeper_gets_what_kafka_has_stored_and_each_partition_tells_its_failure() {
        let dual = DualOffsets {
            kafka: Place::new(&[], &[1]),
            zookeeper: Place::new(&[], &[2]),
        };
        let stopper = Stopper::new();
        let call = OffsetCall::new(None, &stopper.signal());
        let offsets = [0, 1, 2].map(|number| (partition(number), 10));
        let results = dual.commit(&offsets, &call).unwrap();
        let is_ok: Vec<bool> = results.iter().map(Result::is_ok).collect();
        assert_eq!(is_ok, [true, false, false]);
        let stored = |place: &Place| {
            let mut stored: Vec<i32> = place
                .stored
                .lock()
                .keys()
                .map(|it| it.partition())
                .collect();
            stored.sort_unstable();
            stored
        };
        assert_eq!(stored(&dual.kafka), [0, 2]);
        assert_eq!(stored(&dual.zookeeper), [0]);
    }
}
