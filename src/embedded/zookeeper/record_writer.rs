use crate::embedded::zookeeper::stat::Stat;
use crate::embedded::zookeeper::transaction::Acl;

/// Writes a frame in ZooKeeper's encoding, jute.
#[derive(Debug)]
pub(super) struct RecordWriter {
    /// Begins with room for the length.
    bytes: Vec<u8>,
}

const LENGTH: usize = size_of::<i32>();

impl RecordWriter {
    pub(super) fn new() -> Self {
        Self {
            bytes: vec![0; LENGTH],
        }
    }

    pub(super) fn i32(mut self, value: i32) -> Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(super) fn i64(mut self, value: i64) -> Self {
        self.bytes.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(super) fn bool(mut self, value: bool) -> Self {
        self.bytes.push(u8::from(value));
        self
    }

    pub(super) fn buffer(self, buffer: Option<&[u8]>) -> Self {
        let Some(buffer) = buffer else {
            return self.i32(-1);
        };
        let mut writer = self.count(buffer.len());
        writer.bytes.extend_from_slice(buffer);
        writer
    }

    pub(super) fn string(self, text: &str) -> Self {
        self.buffer(Some(text.as_bytes()))
    }

    pub(super) fn strings<'a>(self, texts: impl ExactSizeIterator<Item = &'a String>) -> Self {
        let writer = self.count(texts.len());
        texts.fold(writer, |writer, text| writer.string(text))
    }

    pub(super) fn acl(self, entries: &[Acl]) -> Self {
        let writer = self.count(entries.len());
        entries.iter().fold(writer, |writer, entry| {
            let writer = writer.i32(entry.permissions);
            writer.string(&entry.scheme).string(&entry.id)
        })
    }

    pub(super) fn stat(self, stat: &Stat) -> Self {
        self.i64(stat.czxid)
            .i64(stat.mzxid)
            .i64(stat.ctime)
            .i64(stat.mtime)
            .i32(stat.version)
            .i32(stat.cversion)
            .i32(stat.aversion)
            .i64(stat.ephemeral_owner.unwrap_or(0))
            .i32(stat.data_length)
            .i32(stat.num_children)
            .i64(stat.pzxid)
    }

    /// The frame, its length in front.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let length = i32::try_from(self.bytes.len() - LENGTH).unwrap_or(i32::MAX);
        for (byte, part) in self.bytes.iter_mut().zip(length.to_be_bytes()) {
            *byte = part;
        }
        self.bytes
    }

    fn count(self, length: usize) -> Self {
        // What we hold came in frames of 1 MiB; there is no memory for 2^31 of them.
        self.i32(i32::try_from(length).unwrap_or(i32::MAX))
    }
}
