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
//! not read holds back its own partitions and nothing else.
//! Lock order: fetchers, partitions of a fetcher, positions of a partition, its end, queue. None is held during I/O.
//! Knows nothing of ZooKeeper, groups or streams, and never looks into a message.

mod buffer_pool;
mod chunk_queue;
mod partition_end;
mod partition_topic_info;

mod fetch_answers;
mod fetcher_manager;
mod fetcher_thread;
mod leader_finder;
mod leaderless_partitions;

#[cfg(test)]
mod tests;

pub(crate) use buffer_pool::BufferPool;
pub(crate) use buffer_pool::PooledBuffer;
pub(crate) use chunk_queue::BadEntry;
pub(crate) use chunk_queue::Charge;
pub(crate) use chunk_queue::Chunk;
pub(crate) use chunk_queue::ChunkQueue;
pub(crate) use chunk_queue::QueueEntry;
pub(crate) use chunk_queue::Taken;
pub(crate) use fetcher_manager::FetcherManager;
pub(crate) use fetcher_thread::FetchContext;
pub(crate) use leaderless_partitions::LeaderlessPartitions;
pub(crate) use partition_end::EndBell;
pub(crate) use partition_end::PartitionEnd;
#[cfg(test)]
pub(crate) use partition_topic_info::FetchPosition;
pub(crate) use partition_topic_info::PartitionTopicInfo;
pub(crate) use partition_topic_info::StoppedAt;
pub(crate) use partition_topic_info::Verdict;
