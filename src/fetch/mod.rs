//! Moves message sets from the brokers into the queues of the streams.
//!
//! ```text
//!       +---- LeaderlessPartitions: a fetch failed, or a new generation ----+
//!       v                                                                   |
//!  LeaderFinder ---> FetcherManager ---> FetcherThread, one or more per broker ---> ChunkQueue, one per stream
//!       |                                      |    ^                                   ^
//!  ClusterMetadata                     SimpleConsumer                                   |
//!                                              |                                        |
//!                                       FetchAnswers ---> PartitionTopicInfo::enqueue --+
//! ```
//!
//! A fetcher asks only for partitions whose queue has room, and pushing never blocks; so a stream that is
//! not read holds back its own partitions and nothing else. What of that goes over the wire is the affair of the
//! fetcher's [`FetchSession`](crate::net::FetchSession). Where a partition begins by `auto.offset.reset`, and ends for a
//! member that reads no further (`PartitionEnd`), its fetcher asks the same broker. `OffsetLookup`, for starts by time,
//! works without fetchers, in the thread of the application.
//! Lock order: fetchers, partitions of a fetcher, positions of a partition, its end, queue. None is held during I/O.
//! Knows nothing of ZooKeeper, groups or streams, and never looks into a message.

mod buffer_pool;
mod chunk_queue;
mod consumed_marks;
mod fetch_position;
mod partition_end;
mod partition_topic_info;
mod queue_entry;

mod fetch_answers;
mod fetcher_manager;
mod fetcher_thread;
mod leader_finder;
mod leaderless_partitions;
mod missing_offset;
mod offset_lookup;

#[cfg(test)]
mod tests;

pub(crate) use buffer_pool::BufferPool;
pub(crate) use buffer_pool::PooledBuffer;
pub(crate) use chunk_queue::Charge;
pub(crate) use chunk_queue::ChunkQueue;
pub(crate) use chunk_queue::Taken;
#[cfg(test)]
pub(crate) use fetch_position::FetchPosition;
pub(crate) use fetch_position::Standstill;
pub(crate) use fetch_position::StoppedAt;
pub(crate) use fetch_position::Verdict;
pub(crate) use fetcher_manager::FetcherManager;
pub(crate) use fetcher_thread::FetchContext;
pub(crate) use leaderless_partitions::LeaderlessPartitions;
pub(crate) use offset_lookup::OffsetLookup;
pub(crate) use partition_end::EndBell;
#[cfg(test)]
pub(crate) use partition_end::EndLookUp;
pub(crate) use partition_end::PartitionEnd;
pub(crate) use partition_topic_info::PartitionTopicInfo;
pub(crate) use queue_entry::BadEntry;
pub(crate) use queue_entry::Chunk;
pub(crate) use queue_entry::Halt;
pub(crate) use queue_entry::QueueEntry;
