use crate::embedded::zookeeper::transaction::Acl;

/// A record that ends before a field does, or that claims what cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {field} in the record")]
pub(super) struct MalformedRecord {
    pub(super) field: &'static str,
}

/// Reads fields in ZooKeeper's encoding, jute. Nothing is allocated by a length the peer claims.
#[derive(Debug)]
pub(super) struct RecordReader<'a> {
    rest: &'a [u8],
}

impl<'a> RecordReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Result<i32, MalformedRecord> {
        self.array(field).map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self, field: &'static str) -> Result<i64, MalformedRecord> {
        self.array(field).map(i64::from_be_bytes)
    }

    pub(super) fn bool(&mut self, field: &'static str) -> Result<bool, MalformedRecord> {
        self.array(field).map(|[byte]| byte != 0)
    }

    /// Length -1 stands for `None`.
    pub(super) fn buffer(
        &mut self,
        field: &'static str,
    ) -> Result<Option<&'a [u8]>, MalformedRecord> {
        let length = self.i32(field)?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| MalformedRecord { field })?;
        let split = self.rest.split_at_checked(length);
        let (buffer, rest) = split.ok_or(MalformedRecord { field })?;
        self.rest = rest;
        Ok(Some(buffer))
    }

    /// What is not UTF-8 is replaced, as Java does it.
    pub(super) fn string(&mut self, field: &'static str) -> Result<String, MalformedRecord> {
        let bytes = self.buffer(field)?.ok_or(MalformedRecord { field })?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    pub(super) fn strings(&mut self, field: &'static str) -> Result<Vec<String>, MalformedRecord> {
        self.vector(field, |reader| reader.string(field))
    }

    pub(super) fn acl(&mut self, field: &'static str) -> Result<Vec<Acl>, MalformedRecord> {
        self.vector(field, |reader| {
            Ok(Acl {
                permissions: reader.i32(field)?,
                scheme: reader.string(field)?,
                id: reader.string(field)?,
            })
        })
    }

    /// Length -1, a missing vector, reads as an empty one.
    fn vector<T>(
        &mut self,
        field: &'static str,
        mut item: impl FnMut(&mut Self) -> Result<T, MalformedRecord>,
    ) -> Result<Vec<T>, MalformedRecord> {
        let count = self.i32(field)?;
        if count < -1 {
            return Err(MalformedRecord { field });
        }
        // Every item takes bytes, so what is claimed too much ends soon.
        (0..count).map(|_| item(self)).collect()
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], MalformedRecord> {
        let split = self.rest.split_first_chunk();
        let (array, rest) = split.ok_or(MalformedRecord { field })?;
        self.rest = rest;
        Ok(*array)
    }
}
