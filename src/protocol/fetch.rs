//! Messages of partitions, from given offsets on.

use std::io::Read;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::cluster::TopicPartition;
use crate::error::ErrorCode;
use crate::protocol::decode_error::DecodeError;
use crate::protocol::encode_error::EncodeError;
use crate::protocol::fetch_metadata::FetchMetadata;
use crate::protocol::fetch_stream;
use crate::protocol::fetch_stream::FetchSink;
use crate::protocol::isolation_level::IsolationLevel;
use crate::protocol::message_set::MessageSet;
use crate::protocol::partition_header::PartitionHeader;
use crate::protocol::reader::Reader;
use crate::protocol::replica::Replica;
use crate::protocol::request::Request;
use crate::protocol::request::Response;
use crate::protocol::request::check_decoded;
use crate::protocol::request::check_encoded;
use crate::protocol::topic_groups;
use crate::protocol::topic_groups::OfPartition;
use crate::protocol::writer::Writer;

/// Asks for messages. Versions 0 to 11; fields that a version does not have are not written.
///
/// Its lists can be cleared and filled again, so that a loop of fetches allocates nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// Who asks; an ordinary consumer leaves the default.
    pub replica: Replica,
    /// How long the broker may wait for `min_bytes`; zero asks for an answer at once.
    pub max_wait: Duration,
    /// How many bytes, over all partitions, the broker waits for.
    pub min_bytes: i32,
    /// Most bytes over all partitions; one message more comes where nothing else would (KIP-74). From version 3 on.
    /// Default 2,147,483,647.
    pub max_bytes: i32,
    /// Whether messages of open transactions are shown. From version 4 on.
    pub isolation: IsolationLevel,
    /// The fetch session that the request belongs to. From version 7 on.
    pub metadata: FetchMetadata,
    /// What is wanted, in the order of its importance. Neighbours of one topic share a group on the wire.
    pub partitions: Vec<FetchPartition>,
    /// Partitions of the session that are wanted no more. From version 7 on.
    pub forgotten: Vec<TopicPartition>,
    /// Where the consumer is, so that the broker can name a near replica (KIP-392); default empty. From version 11 on.
    pub rack: String,
}

/// What is wanted of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// The epoch of the leader that is meant (KIP-320); `None` for whichever there is. From version 9 on.
    pub current_leader_epoch: Option<i32>,
    /// The first offset wanted. The answer may begin before it.
    pub fetch_offset: i64,
    /// Where the asker's own log begins; for brokers that replicate. From version 5 on.
    pub log_start_offset: Option<i64>,
    /// Most bytes of the answer's message set, which is cut there up to version 2.
    pub max_bytes: i32,
}

/// Answers a [`FetchRequest`], in the broker's order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchResponse {
    /// How long a quota held the answer back; `None` in version 0, which does not say.
    pub throttle_time: Option<Duration>,
    /// Why nothing is answered at all, which concerns the session. From version 7 on.
    pub error: Option<ErrorCode>,
    /// The fetch session to go on with; `None` where the broker keeps none, and before version 7.
    pub session_id: Option<i32>,
    /// One answer for each partition that the broker answered for.
    pub partitions: Vec<FetchedPartition>,
}

/// What a broker gave of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedPartition {
    /// The partition.
    pub topic_partition: TopicPartition,
    /// What it said about the partition.
    pub header: PartitionHeader,
    /// Whole entries and possibly a piece of one. Empty does not say that the end was reached.
    pub message_set: MessageSet,
}

impl Default for FetchRequest {
    fn default() -> Self {
        Self {
            replica: Replica::default(),
            max_wait: Duration::ZERO,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation: IsolationLevel::default(),
            metadata: FetchMetadata::default(),
            partitions: Vec::new(),
            forgotten: Vec::new(),
            rack: String::new(),
        }
    }
}

impl FetchRequest {
    /// Adds one partition, for making a request in one expression.
    #[must_use]
    pub fn fetch(
        mut self,
        topic_partition: TopicPartition,
        fetch_offset: i64,
        max_bytes: i32,
    ) -> Self {
        self.partitions.push(FetchPartition {
            topic_partition,
            current_leader_epoch: None,
            fetch_offset,
            log_start_offset: None,
            max_bytes,
        });
        self
    }
}

impl Request for FetchRequest {
    const API: &'static str = "Fetch";
    const KEY: i16 = 1;
    const VERSIONS: RangeInclusive<i16> = 0..=11;
    type Response = FetchResponse;

    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<FetchRequest>(version)?;
        body.i32(self.replica.to_wire());
        body.milliseconds("max_wait_ms", self.max_wait)?;
        body.i32(self.min_bytes);
        if version >= 3 {
            body.i32(self.max_bytes);
        }
        if version >= 4 {
            body.i8(self.isolation.to_wire());
        }
        if version >= 7 {
            self.metadata.encode(body);
        }
        topic_groups::write(body, &self.partitions, |body, partition| {
            partition.encode(version, body);
            Ok(())
        })?;
        if version >= 7 {
            topic_groups::write(body, &self.forgotten, |_, _| Ok(()))?;
        }
        if version >= 11 {
            body.string("rack_id", &self.rack)?;
        }
        Ok(())
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        check_decoded::<FetchRequest>(version)?;
        let mut request = Self {
            replica: Replica::from_wire(body.i32("replica_id")?),
            max_wait: body.milliseconds("max_wait_ms")?,
            min_bytes: body.i32("min_bytes")?,
            ..Self::default()
        };
        if version >= 3 {
            request.max_bytes = body.i32("max_bytes")?;
        }
        if version >= 4 {
            request.isolation = IsolationLevel::from_wire(body.i8("isolation_level")?);
        }
        if version >= 7 {
            request.metadata = FetchMetadata::decode(body)?;
        }
        request.partitions = topic_groups::read(body, |body, topic_partition| {
            FetchPartition::decode(version, body, topic_partition)
        })?;
        if version >= 7 {
            request.forgotten = topic_groups::read(body, |_, forgotten| Ok(forgotten))?;
        }
        if version >= 11 {
            request.rack = body.string("rack_id")?;
        }
        Ok(request)
    }
}

impl FetchPartition {
    fn encode(&self, version: i16, body: &mut Writer) {
        if version >= 9 {
            body.i32(self.current_leader_epoch.unwrap_or(-1));
        }
        body.i64(self.fetch_offset);
        if version >= 5 {
            body.i64(self.log_start_offset.unwrap_or(-1));
        }
        body.i32(self.max_bytes);
    }

    fn decode<R: Read>(
        version: i16,
        body: &mut Reader<R>,
        topic_partition: TopicPartition,
    ) -> Result<Self, DecodeError> {
        let current_leader_epoch = match version {
            9.. => Some(body.i32("current_leader_epoch")?).filter(|epoch| *epoch >= 0),
            _ => None,
        };
        let fetch_offset = body.i64("fetch_offset")?;
        let log_start_offset = match version {
            5.. => Some(body.i64("log_start_offset")?).filter(|offset| *offset >= 0),
            _ => None,
        };
        Ok(Self {
            topic_partition,
            current_leader_epoch,
            fetch_offset,
            log_start_offset,
            max_bytes: body.i32("max_bytes")?,
        })
    }
}

impl Response for FetchResponse {
    fn encode(&self, version: i16, body: &mut Writer) -> Result<(), EncodeError> {
        check_encoded::<FetchRequest>(version)?;
        if version >= 1 {
            body.throttle_time(self.throttle_time)?;
        }
        if version >= 7 {
            body.i16(self.error.map_or(0, ErrorCode::code));
            body.i32(self.session_id.unwrap_or(0));
        }
        topic_groups::write(body, &self.partitions, |body, partition| {
            partition.header.encode(version, body)?;
            body.bytes("message_set", partition.message_set.as_bytes())
        })
    }

    fn decode<R: Read>(version: i16, body: &mut Reader<R>) -> Result<Self, DecodeError> {
        let mut collected = Collected::default();
        let header = fetch_stream::read_fetch_response(version, body, &mut collected)?;
        Ok(Self {
            throttle_time: header.throttle_time,
            error: header.error,
            session_id: header.session_id,
            partitions: collected.partitions,
        })
    }
}

impl OfPartition for FetchPartition {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}

impl OfPartition for FetchedPartition {
    fn topic_partition(&self) -> &TopicPartition {
        &self.topic_partition
    }
}

/// Keeps all partitions.
#[derive(Default)]
struct Collected {
    partitions: Vec<FetchedPartition>,
}

impl FetchSink for Collected {
    fn buffer(&mut self, _topic: &str, _partition: i32, _size: usize) -> Vec<u8> {
        Vec::new()
    }

    fn partition(
        &mut self,
        topic: &str,
        partition: i32,
        header: PartitionHeader,
        message_set: Vec<u8>,
    ) {
        self.partitions.push(FetchedPartition {
            topic_partition: TopicPartition::new(topic, partition),
            header,
            message_set: MessageSet::from(message_set),
        });
    }
}
