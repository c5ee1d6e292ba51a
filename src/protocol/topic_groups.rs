//! Partitions as they stand on the wire: in groups of one topic.

use std::io::Read;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::reader::Reader;
use crate::protocol::writer::Writer;

/// What concerns one partition.
pub(super) trait OfPartition {
    fn topic_partition(&self) -> &TopicPartition;
}

/// Writes `items` in their order. Neighbours of one topic share a group; a topic that comes again later gets another
/// group, which brokers accept.
pub(super) fn write<T: OfPartition>(
    body: &mut Writer,
    items: &[T],
    mut each: impl FnMut(&mut Writer, &T) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let groups = || items.chunk_by(|left, right| topic(left) == topic(right));
    body.count("topics", groups().count())?;
    for group in groups() {
        body.string("topic", group.first().map_or("", topic))?;
        body.array("partitions", group, |body, item| {
            body.i32(item.topic_partition().partition());
            each(body, item)
        })?;
    }
    Ok(())
}

/// Reads all partitions of all topics, in their order. A topic without partitions leaves no trace.
pub(super) fn read<R: Read, T>(
    body: &mut Reader<R>,
    each: impl FnMut(&mut Reader<R>, TopicPartition) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    Ok(read_nullable(body, each)?.unwrap_or_default())
}

/// As [`read`], where null has a meaning of its own.
pub(super) fn read_nullable<R: Read, T>(
    body: &mut Reader<R>,
    mut each: impl FnMut(&mut Reader<R>, TopicPartition) -> Result<T, DecodeError>,
) -> Result<Option<Vec<T>>, DecodeError> {
    let mut items = Vec::new();
    let groups = body.nullable_array("topics", |body| {
        let topic: Arc<str> = body.string("topic")?.into();
        for _ in 0..body.length("partitions")? {
            let partition = body.i32("partition")?;
            items.push(each(
                body,
                TopicPartition::new(Arc::clone(&topic), partition),
            )?);
        }
        Ok(())
    })?;
    Ok(groups.map(|_| items))
}

fn topic<T: OfPartition>(item: &T) -> &str {
    item.topic_partition().topic()
}
