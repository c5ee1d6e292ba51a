//! Batches of message format 2, made by hand.

use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use super::broker_connection::crc;

/// The polynomial of CRC-32C.
const CASTAGNOLI: u32 = 0x82f6_3b78;
const MAGIC: u8 = 2;
const TRANSACTIONAL: i16 = 0x10;

/// Messages that are sent as one, without compression.
#[derive(Clone, Debug, Default)]
pub struct RecordBatch {
    records: Vec<u8>,
    count: i32,
}

impl RecordBatch {
    /// Messages without keys and headers.
    pub fn of(values: &[&str]) -> Self {
        values
            .iter()
            .fold(Self::default(), |batch, value| batch.record(value, &[]))
    }

    /// Adds a message with headers.
    pub fn record(mut self, value: &str, headers: &[(&str, Option<&[u8]>)]) -> Self {
        let mut record = vec![0];
        put_varint(&mut record, 0);
        put_varint(&mut record, self.count);
        put_varint(&mut record, -1);
        put_sized(&mut record, value.as_bytes());
        put_varint(&mut record, length(headers));
        for (name, value) in headers {
            put_sized(&mut record, name.as_bytes());
            match value {
                Some(value) => put_sized(&mut record, value),
                None => put_varint(&mut record, -1),
            }
        }
        put_sized(&mut self.records, &record);
        self.count += 1;
        self
    }

    /// As it is sent; `producer` is the id of one that has a transaction and has sent nothing before.
    pub fn encode(&self, producer: Option<i64>) -> Vec<u8> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        let now = i64::try_from(now.as_millis()).expect("not that late");
        let (attributes, id, epoch, sequence) = match producer {
            Some(id) => (TRANSACTIONAL, id, 0_i16, 0_i32),
            None => (0, -1, -1, -1),
        };
        let mut checked = attributes.to_be_bytes().to_vec();
        checked.extend((self.count - 1).to_be_bytes());
        checked.extend(now.to_be_bytes());
        checked.extend(now.to_be_bytes());
        checked.extend(id.to_be_bytes());
        checked.extend(epoch.to_be_bytes());
        checked.extend(sequence.to_be_bytes());
        checked.extend(self.count.to_be_bytes());
        checked.extend(&self.records);

        let mut rest = (-1_i32).to_be_bytes().to_vec();
        rest.push(MAGIC);
        rest.extend(crc(CASTAGNOLI, &checked).to_be_bytes());
        rest.extend(checked);
        let mut batch = 0_i64.to_be_bytes().to_vec();
        batch.extend(length(&rest).to_be_bytes());
        batch.extend(rest);
        batch
    }
}

fn length<T>(items: &[T]) -> i32 {
    i32::try_from(items.len()).expect("less than 2 GiB")
}

fn put_sized(target: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(target, length(bytes));
    target.extend_from_slice(bytes);
}

fn put_varint(target: &mut Vec<u8>, number: i32) {
    let mut left = (number.cast_unsigned() << 1) ^ (number >> 31).cast_unsigned();
    while left > 0x7f {
        target.push(left.to_le_bytes()[0] | 0x80);
        left >>= 7;
    }
    target.push(left.to_le_bytes()[0]);
}
