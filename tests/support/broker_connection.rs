//! Just enough of Kafka's protocol to fill a partition and to ask a broker what it knows, without
//! starting a JVM.

use std::io;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

const PRODUCE: i16 = 0;
const METADATA: i16 = 3;
const OFFSET_FETCH: i16 = 9;
const REPLICA_NOT_AVAILABLE: i16 = 9;
/// Of a broker that does not know yet, or no more, that it leads a partition.
const NOT_THE_LEADER: [i16; 3] = [3, 5, 6];

/// What [`BrokerConnection::answer_to_offset_fetch`] asks about.
#[derive(Clone, Copy, Debug)]
pub enum WantedOffsets {
    All,
    None,
    Of(&'static str, i32),
}

/// A connection to one broker.
pub struct BrokerConnection {
    socket: TcpStream,
}

impl BrokerConnection {
    pub fn open(address: &str) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Self { socket })
    }

    /// Partitions of a topic with their leaders, sorted; an error if the broker sees any trouble
    /// with the topic.
    pub fn leaders(&mut self, topic: &str) -> io::Result<Vec<(i32, i32)>> {
        let mut body = 1_i32.to_be_bytes().to_vec();
        put_string(&mut body, topic);
        let mut reply = self.exchange(METADATA, 0, &body)?;
        for _ in 0..reply.i32()? {
            reply.i32()?;
            reply.string()?;
            reply.i32()?;
        }
        reply.i32()?;
        check(reply.i16()?)?;
        reply.string()?;
        let mut leaders = Vec::new();
        for _ in 0..reply.i32()? {
            match reply.i16()? {
                REPLICA_NOT_AVAILABLE => {}
                code => check(code)?,
            }
            leaders.push((reply.i32()?, reply.i32()?));
            for _ in 0..2 {
                for _ in 0..reply.i32()? {
                    reply.i32()?;
                }
            }
        }
        leaders.sort_unstable();
        Ok(leaders)
    }

    /// Appends uncompressed messages `(key, value)` to a partition that this broker leads; returns
    /// the first offset. Answered when all replicas in sync have them.
    ///
    /// # Errors
    /// `NotFound` while the broker does not lead the partition: it has appended nothing.
    pub fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        messages: &[(Option<&[u8]>, &[u8])],
    ) -> io::Result<i64> {
        let mut set = Vec::new();
        for (key, value) in messages {
            put_message(&mut set, *key, value);
        }
        self.produce_set(topic, partition, &set)
    }

    /// Appends a message set as it stands: for compressed and broken ones.
    pub fn produce_set(&mut self, topic: &str, partition: i32, set: &[u8]) -> io::Result<i64> {
        let mut body = Vec::new();
        put_produce(&mut body, topic, partition, set);
        read_produce(self.exchange(PRODUCE, 0, &body)?)
    }

    /// Appends a batch of message format 2; brokers from 0.11 on know that. `transaction` is the id of the
    /// transaction that it is part of.
    pub fn produce_batch(
        &mut self,
        topic: &str,
        partition: i32,
        transaction: Option<&str>,
        batch: &[u8],
    ) -> io::Result<i64> {
        let mut body = Vec::new();
        match transaction {
            Some(id) => put_string(&mut body, id),
            None => body.extend_from_slice(&(-1_i16).to_be_bytes()),
        }
        put_produce(&mut body, topic, partition, batch);
        read_produce(self.exchange(PRODUCE, 3, &body)?)
    }

    /// What a group has stored in Kafka for the partitions 0, 1, ... of a topic: of each the next offset,
    /// `None` where there is nothing, or where this broker is not, or not yet, the group's coordinator.
    pub fn offsets_in_kafka(
        &mut self,
        group: &str,
        topic: &str,
        partitions: i32,
    ) -> io::Result<Vec<Option<i64>>> {
        let mut body = Vec::new();
        put_string(&mut body, group);
        body.extend_from_slice(&1_i32.to_be_bytes());
        put_string(&mut body, topic);
        body.extend_from_slice(&partitions.to_be_bytes());
        for partition in 0..partitions {
            body.extend_from_slice(&partition.to_be_bytes());
        }
        let mut reply = self.exchange(OFFSET_FETCH, 1, &body)?;
        reply.i32()?;
        reply.string()?;
        let mut offsets = Vec::new();
        for _ in 0..reply.i32()? {
            let partition = reply.i32()?;
            let offset = reply.i64()?;
            reply.string()?;
            let is_stored = reply.i16()? == 0 && offset >= 0;
            offsets.push((partition, is_stored.then_some(offset)));
        }
        offsets.sort_unstable();
        Ok(offsets.into_iter().map(|(_, offset)| offset).collect())
    }

    /// The whole answer to an OffsetFetch about one partition, about none, or, from version 2 on, about all that the
    /// group has.
    pub fn answer_to_offset_fetch(
        &mut self,
        version: i16,
        group: &str,
        wanted: &WantedOffsets,
    ) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        put_string(&mut body, group);
        match wanted {
            WantedOffsets::All => body.extend_from_slice(&(-1_i32).to_be_bytes()),
            WantedOffsets::None => body.extend_from_slice(&0_i32.to_be_bytes()),
            WantedOffsets::Of(topic, partition) => put_topic(&mut body, topic, *partition),
        }
        Ok(self.exchange(OFFSET_FETCH, version, &body)?.bytes)
    }

    pub(super) fn exchange(
        &mut self,
        api_key: i16,
        version: i16,
        body: &[u8],
    ) -> io::Result<Reply> {
        let mut request = api_key.to_be_bytes().to_vec();
        request.extend_from_slice(&version.to_be_bytes());
        request.extend_from_slice(&1_i32.to_be_bytes());
        put_string(&mut request, "test-support");
        request.extend_from_slice(body);
        let mut framed = Vec::new();
        put_bytes(&mut framed, Some(&request));
        self.socket.write_all(&framed)?;

        let mut length = [0; 4];
        self.socket.read_exact(&mut length)?;
        let mut bytes = Vec::new();
        (&self.socket)
            .take(u64::from(u32::from_be_bytes(length)))
            .read_to_end(&mut bytes)?;
        let mut reply = Reply { bytes, position: 0 };
        reply.i32()?;
        Ok(reply)
    }
}

/// Answered when all replicas in sync have the set.
fn put_produce(body: &mut Vec<u8>, topic: &str, partition: i32, set: &[u8]) {
    body.extend_from_slice(&(-1_i16).to_be_bytes());
    body.extend_from_slice(&10_000_i32.to_be_bytes());
    put_topic(body, topic, partition);
    put_bytes(body, Some(set));
}

/// The offset of the first message.
fn read_produce(mut reply: Reply) -> io::Result<i64> {
    reply.i32()?;
    reply.string()?;
    reply.i32()?;
    reply.i32()?;
    check(reply.i16()?)?;
    reply.i64()
}

/// One partition of one topic.
pub(super) fn put_topic(body: &mut Vec<u8>, topic: &str, partition: i32) {
    body.extend_from_slice(&1_i32.to_be_bytes());
    put_string(body, topic);
    body.extend_from_slice(&1_i32.to_be_bytes());
    body.extend_from_slice(&partition.to_be_bytes());
}

/// One entry of a message set: message format 0, no compression. The offset is for the broker to
/// fill in.
fn put_message(set: &mut Vec<u8>, key: Option<&[u8]>, value: &[u8]) {
    let mut rest = vec![0, 0];
    put_bytes(&mut rest, key);
    put_bytes(&mut rest, Some(value));
    let mut message = crc32(&rest).to_be_bytes().to_vec();
    message.extend_from_slice(&rest);
    set.extend_from_slice(&0_i64.to_be_bytes());
    put_bytes(set, Some(&message));
}

fn put_bytes(target: &mut Vec<u8>, bytes: Option<&[u8]>) {
    let length = bytes.map_or(-1, |bytes| {
        i32::try_from(bytes.len()).expect("less than 2 GiB")
    });
    target.extend_from_slice(&length.to_be_bytes());
    target.extend_from_slice(bytes.unwrap_or_default());
}

pub(super) fn put_string(target: &mut Vec<u8>, text: &str) {
    let length = i16::try_from(text.len()).expect("short string");
    target.extend_from_slice(&length.to_be_bytes());
    target.extend_from_slice(text.as_bytes());
}

fn crc32(bytes: &[u8]) -> u32 {
    crc(0xedb8_8320, bytes)
}

/// A checksum with this polynomial, whose lowest bit comes first.
pub(super) fn crc(polynomial: u32, bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (polynomial & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

pub(super) fn check(code: i16) -> io::Result<()> {
    match code {
        0 => Ok(()),
        code if NOT_THE_LEADER.contains(&code) => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("Kafka error {code}"),
        )),
        code => Err(io::Error::other(format!("Kafka error {code}"))),
    }
}

pub(super) struct Reply {
    bytes: Vec<u8>,
    position: usize,
}

impl Reply {
    fn take(&mut self, count: usize) -> io::Result<&[u8]> {
        let start = self.position;
        self.position += count;
        self.bytes
            .get(start..self.position)
            .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    pub(super) fn i16(&mut self) -> io::Result<i16> {
        self.take(2)
            .map(|bytes| i16::from_be_bytes(bytes.try_into().expect("two bytes")))
    }

    pub(super) fn i32(&mut self) -> io::Result<i32> {
        self.take(4)
            .map(|bytes| i32::from_be_bytes(bytes.try_into().expect("four bytes")))
    }

    pub(super) fn i64(&mut self) -> io::Result<i64> {
        self.take(8)
            .map(|bytes| i64::from_be_bytes(bytes.try_into().expect("eight bytes")))
    }

    pub(super) fn string(&mut self) -> io::Result<String> {
        let length = self.i16()?;
        let bytes = self.take(usize::try_from(length).unwrap_or(0))?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}
