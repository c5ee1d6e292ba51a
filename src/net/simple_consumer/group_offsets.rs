//! Offsets of any group, stored and asked for by hand.

use std::ops::RangeInclusive;

use crate::config::OffsetsStorage;
use crate::error::Error;
use crate::net::simple_consumer::SimpleConsumer;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::FindCoordinatorResponse;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetCommitResponse;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::OffsetFetchResponse;
use crate::protocol::Request;

/// Version 0 of OffsetCommit and OffsetFetch: the broker writes and reads ZooKeeper.
const IN_ZOOKEEPER: RangeInclusive<i16> = 0..=0;

/// Those that mean the topic of the offsets.
const IN_KAFKA: RangeInclusive<i16> = 1..=3;

impl SimpleConsumer {
    /// Asks which broker keeps the offsets of `group` in Kafka; any broker from 0.8.2 on answers. On a new cluster it
    /// says that there is none yet, and has the topic of the offsets created.
    ///
    /// # Errors
    ///
    /// The broker's own error stands in the response.
    pub fn find_coordinator(&self, group: &str) -> Result<FindCoordinatorResponse, Error> {
        let request = FindCoordinatorRequest {
            group: group.to_owned(),
        };
        self.call_or_lowest(&request, FindCoordinatorRequest::VERSIONS)
    }

    /// Stores offsets of a group, whoever owns the partitions: in ZooKeeper, through any broker, or in Kafka, through
    /// the [coordinator](Self::find_coordinator) of the group.
    ///
    /// # Errors
    ///
    /// The error of one partition stands in the response. [`Error::UnsupportedVersion`] when the broker says that it
    /// stores nothing there.
    pub fn commit_offsets(
        &self,
        request: &OffsetCommitRequest,
        storage: OffsetsStorage,
    ) -> Result<OffsetCommitResponse, Error> {
        self.call_or_lowest(request, versions_of(storage))
    }

    /// The offsets of a group: those in ZooKeeper, which any broker tells, or those in Kafka with their metadata, which
    /// the [coordinator](Self::find_coordinator) of the group tells.
    ///
    /// # Errors
    ///
    /// As [`commit_offsets`](Self::commit_offsets).
    pub fn fetch_offsets(
        &self,
        request: &OffsetFetchRequest,
        storage: OffsetsStorage,
    ) -> Result<OffsetFetchResponse, Error> {
        self.call_or_lowest(request, versions_of(storage))
    }

    /// The lowest of `versions`, which all brokers know that keep offsets, where the broker need or may not be asked.
    fn call_or_lowest<Q: Request>(
        &self,
        request: &Q,
        versions: RangeInclusive<i16>,
    ) -> Result<Q::Response, Error> {
        self.twice(
            |channel| {
                let version = channel.common_or_lowest_version_of::<Q>(versions.clone())?;
                channel.call(request, version)
            },
            || true,
        )
    }
}

fn versions_of(storage: OffsetsStorage) -> RangeInclusive<i16> {
    match storage {
        OffsetsStorage::ZooKeeper => IN_ZOOKEEPER,
        OffsetsStorage::Kafka => IN_KAFKA,
    }
}
