//! What an application may say about partitions and positions, beside creating its streams.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::TopicPartition;
use crate::consumer::bounded_stream::BoundedStream;
use crate::consumer::bounds::Bounds;
use crate::consumer::chosen_partitions::ChosenPartitions;
use crate::consumer::connector::ConsumerConnector;
use crate::consumer::message_stream::MessageStream;
use crate::consumer::owned_partitions::seek;
use crate::consumer::rebalance_listener::RebalanceListener;
use crate::coordination::check_topic;
use crate::error::Error;
use crate::fetch::ChunkQueue;
use crate::fetch::OffsetLookup;
use crate::fetch::PartitionTopicInfo;
use crate::net::SimpleConsumerOptions;
use crate::protocol::OffsetTime;

impl ConsumerConnector {
    /// Has `listener` told, from now on, which partitions come and go. It takes the place of an earlier one.
    ///
    /// # Errors
    /// [`Error::MessageStreamsExist`] after the streams were created: it would have missed what they own.
    pub fn set_rebalance_listener(
        &self,
        listener: impl RebalanceListener + 'static,
    ) -> Result<(), Error> {
        self.check_caller()?;
        let group = self.group.lock();
        if group.zk_events.is_none() {
            return Err(Error::MessageStreamsExist);
        }
        self.parts.listener.set(Box::new(listener));
        Ok(())
    }

    /// Consumes exactly these partitions with so many streams, without joining the group: no other member hears of
    /// it, nothing is ever rebalanced, and the [`RebalanceListener`] is not called. The partitions are dealt out to
    /// the streams in turn; a stream may be left without.
    ///
    /// Offsets are read from and stored under the group's name all the same; whoever else consumes the same partitions
    /// under that name overwrites them. A lost ZooKeeper session does not stop the delivery, since there is no owner
    /// who could take over; commits to ZooKeeper fail until it is back. A connector creates streams once, in this way or
    /// with [`create_message_streams`](Self::create_message_streams).
    ///
    /// To start elsewhere than at the stored offset, [`seek`](Self::seek) before the streams are read.
    ///
    /// # Errors
    /// [`Error::MessageStreamsExist`] at the second call, [`Error::InvalidArgument`] for a partition that does not
    /// exist or is named twice, and where there is no partition or no stream, [`Error::ZooKeeper`] when the topics or
    /// offsets cannot be read. After an error the call may be repeated.
    pub fn create_message_streams_for(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
        streams: usize,
    ) -> Result<Vec<MessageStream>, Error> {
        let chosen = ChosenPartitions::new(partitions, streams)?;
        let queues = chosen.queues(&self.parts.config);
        self.consume(&chosen, queues, None)
    }

    /// As [`create_message_streams_for`](Self::create_message_streams_for), with streams that read up to where the
    /// logs end now, and then end by themselves. Whether a partition is deleted meanwhile is not looked after: it is
    /// waited for like any other that has no leader.
    ///
    /// # Errors
    /// As there.
    pub fn create_bounded_streams_for(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
        streams: usize,
    ) -> Result<Vec<BoundedStream>, Error> {
        let chosen = ChosenPartitions::new(partitions, streams)?;
        let queues = chosen.queues(&self.parts.config);
        let bounds = Bounds::new(queues.iter(), Arc::clone(&self.parts.ownership));
        let streams = self.consume(&chosen, queues, Some(&bounds))?.into_iter();
        let bounded = |stream| BoundedStream::new(stream, Arc::clone(&bounds));
        Ok(streams.map(bounded).collect())
    }

    /// Begins to consume without the group, and makes a stream of each queue.
    fn consume(
        &self,
        chosen: &ChosenPartitions,
        queues: Vec<Arc<ChunkQueue>>,
        bounds: Option<&Bounds>,
    ) -> Result<Vec<MessageStream>, Error> {
        self.check_caller()?;
        let mut group = self.group.lock();
        self.check_open()?;
        let zk_events = group.zk_events.take().ok_or(Error::MessageStreamsExist)?;
        match chosen.start(&self.parts, &queues, bounds, zk_events.clone()) {
            Ok(chosen) => {
                group.rebalance = Some(chosen.session_events);
                group.auto_commit = chosen.auto_commit;
                let context = self.parts.stream_context();
                let stream = |queue| MessageStream::new(Arc::clone(queue), context.clone());
                let streams = queues.iter().map(stream).collect();
                group.queues = queues;
                Ok(streams)
            }
            Err(error) => {
                group.zk_events = Some(zk_events);
                Err(error)
            }
        }
    }

    /// Stops fetching these partitions, all or none, and hands out nothing more of them, until
    /// [`resume`](Self::resume). A call on a stream that has begun before may still hand out what it has in hand.
    ///
    /// What had been fetched is dropped, so that it does not take the room of other partitions, and fetched again after
    /// the resume, from the message behind the last one handed out. Positions, commits and seeks are as ever. A pause
    /// outlasts changes of leaders; a rebalance that changes anything for this member ends it, also where the partition
    /// stays.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a partition that this member does not own now.
    pub fn pause(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        for info in self.owned("pause", partitions)? {
            info.pause();
        }
        Ok(())
    }

    /// Goes on with these partitions, all or none. Those that are not paused just go on.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a partition that this member does not own now.
    pub fn resume(&self, partitions: &[TopicPartition]) -> Result<(), Error> {
        for info in self.owned("resume", partitions)? {
            info.resume();
        }
        Ok(())
    }

    /// The partitions that are paused now, sorted.
    pub fn paused(&self) -> Vec<TopicPartition> {
        let owned = self.parts.ownership.current();
        let paused = owned.infos().filter(|info| info.is_paused());
        paused.map(|info| info.topic_partition().clone()).collect()
    }

    /// Goes on at `offset`, forwards or backwards, dropping what has been fetched; from any thread. What a stream has
    /// handed out already is not taken back, and no longer counts as consumed: `offset` does.
    ///
    /// An offset outside the log is corrected by `auto.offset.reset`. A paused partition stays paused. When the
    /// partition is given up the last commit stores `offset`, so the next owner begins there.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when this member does not own the partition now, or is just giving it up, and when
    /// `offset` is negative. Then nothing has changed.
    pub fn seek(&self, topic_partition: &TopicPartition, offset: i64) -> Result<(), Error> {
        let info = self.parts.ownership.info(topic_partition);
        seek(info, topic_partition, offset)
    }

    /// Goes on at the offset that [`offsets_for_times`](Self::offsets_for_times) finds, and returns it.
    ///
    /// # Errors
    /// As [`seek`](Self::seek) and [`offsets_for_times`](Self::offsets_for_times).
    pub fn seek_to_time(
        &self,
        topic_partition: &TopicPartition,
        time: OffsetTime,
    ) -> Result<i64, Error> {
        self.owned("seek", std::slice::from_ref(topic_partition))?;
        let found = self.offsets_for_times([(topic_partition.clone(), time)])?;
        let offset = found.into_iter().next().map(|(_, offset)| offset);
        let offset = offset.ok_or(Error::NoLeader {
            topic_partition: topic_partition.clone(),
        })?;
        self.seek(topic_partition, offset)?;
        Ok(offset)
    }

    /// Asks the leaders for the offsets of a time, also for partitions that this member does not own. Sorted; of a
    /// partition that is named twice the last time counts.
    ///
    /// A time is the beginning or the end of the log, or milliseconds since 1970. For these brokers from 0.10.1 on that
    /// store messages with times name the first message of that time or later (KIP-79), and the end of the log where
    /// there is none. Those that register with version 1 or 2, and logs in message format 0, know only when the segment
    /// files of a log were last written: the answer is never behind the first message of that time or later, but may be
    /// long before it, since it is the beginning of the newest file that was not written to after the time, or of the
    /// whole log. There a second earlier is asked for, since many know these times to the second only; with
    /// `log.segment.bytes` at its default of 1 GiB it may be the beginning of a log of days. Copying a log to another
    /// broker makes its files young, and the answer earlier. Filter by what the messages say.
    ///
    /// The leaders are asked in the calling thread, each request within `socket.timeout.ms`; where a leader has moved,
    /// once more.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an illegal topic and for a negative number of partition or time,
    /// [`Error::NoLeader`] where nobody leads, which a topic that does not exist shares, [`Error::Broker`] and
    /// [`Error::Partition`] where the leader cannot answer, [`Error::Closed`] after the shutdown.
    pub fn offsets_for_times(
        &self,
        times: impl IntoIterator<Item = (TopicPartition, OffsetTime)>,
    ) -> Result<Vec<(TopicPartition, i64)>, Error> {
        self.check_open()?;
        let times: BTreeMap<TopicPartition, OffsetTime> = times.into_iter().collect();
        times.iter().try_for_each(check_time)?;
        let config = &self.parts.config;
        let lookup = OffsetLookup {
            metadata: &self.parts.metadata,
            options: SimpleConsumerOptions {
                socket_timeout: config.socket_timeout(),
                client_id: config.client_id().to_owned(),
                address_map: config.broker_address_map().clone(),
                ..SimpleConsumerOptions::default()
            },
            stop: self.parts.closing.signal(),
        };
        Ok(lookup.find(&times)?.into_iter().collect())
    }

    /// The positions of partitions that are owned now; `call` is who wants them.
    fn owned(
        &self,
        call: &'static str,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Arc<PartitionTopicInfo>>, Error> {
        let owned = self.parts.ownership.current();
        let info = |partition: &TopicPartition| {
            let owned = owned.partitions.get(partition);
            let owned = owned.filter(|owned| !owned.info.is_revoked());
            let owned = owned.ok_or_else(|| Error::InvalidArgument {
                name: call,
                reason: format!("{partition} is not owned here"),
            })?;
            Ok(Arc::clone(&owned.info))
        };
        partitions.iter().map(info).collect()
    }
}

/// Lets pass what can be asked for: negative times mean something else to a broker.
fn check_time((partition, time): (&TopicPartition, &OffsetTime)) -> Result<(), Error> {
    let refused = |reason| {
        Err(Error::InvalidArgument {
            name: "time",
            reason,
        })
    };
    check_topic(partition.topic())?;
    match time {
        _ if partition.partition() < 0 => refused(format!("the number of {partition} is negative")),
        OffsetTime::Timestamp(time) if *time < 0 => {
            refused(format!("{time} ms for {partition} is negative"))
        }
        _ => Ok(()),
    }
}
