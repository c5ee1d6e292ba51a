//! What the versions of Kafka do differently.

use std::fmt;

use crate::embedded::faults::Api;
use crate::protocol::ApiVersion;
use crate::protocol::ApiVersionsRequest;
use crate::protocol::FetchRequest;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::MessageFormat;
use crate::protocol::MetadataRequest;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::ProduceRequest;
use crate::protocol::Request;

/// Which Kafka the brokers behave as; later ones are greater.
///
/// From 0.10.2 on the real ones serve higher versions of some requests too. Those here say which ones they serve, as
/// clients of 0.10 and later ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BrokerVersion {
    /// 0.8.2: hangs up on what it does not know, and answers newer versions of a request in its own layout.
    #[default]
    V0_8_2,
    /// 0.9.0: says nothing to what it does not know; Fetch and Produce have a version 1.
    V0_9_0,
    /// 0.10.0: says which requests it serves (KIP-35); messages have timestamps (KIP-32).
    V0_10_0,
    /// 0.10.2: bounds whole answers (KIP-74), finds offsets by the times of messages (KIP-79), tells all offsets of a
    /// group (KIP-88).
    V0_10_2,
    /// 0.11.0: messages come in batches and have headers (KIP-98, KIP-82).
    V0_11_0,
    /// 1.1: remembers what its readers ask for (KIP-227).
    V1_1,
    /// 2.3: knows zstd (KIP-110); Fetch up to version 11.
    V2_3,
}

/// What sets a version apart: all that the brokers look at when they behave as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// Version of the registration in ZooKeeper. From 2 on it lists endpoints besides host and port, from 4 on what
    /// they speak.
    pub(crate) registration: i32,
    /// What becomes of a request that cannot be read.
    pub(crate) unreadable: Unreadable,
    /// The latest format in which messages are stored.
    pub(crate) message_format: MessageFormat,
    pub(crate) has_zstd: bool,
    /// Whether a produced set becomes one entry with new offsets, as before KIP-31; later its entries stay what they are.
    pub(crate) flattens_produced_sets: bool,
    /// Whether writers may wait for any number of replicas.
    pub(crate) counts_acks: bool,
    /// Whether an offset between the high watermark and the end of the log is a failure without a code of its own.
    pub(crate) fails_above_high_watermark: bool,
    /// Whether one topic that cannot be created fails a whole metadata request.
    pub(crate) fails_metadata_as_a_whole: bool,
    /// Whether a cluster that never had a topic tells clients of its brokers.
    pub(crate) tells_brokers_without_topics: bool,
    /// Version of keys and values in the offsets topic. Version 1 has a time of expiry.
    pub(crate) offset_record: i16,
    /// Whether offsets of topics that do not exist are stored in the offsets topic.
    pub(crate) stores_offsets_of_unknown_topics: bool,
    /// Whether who asks for offsets of a topic that does not exist hears that before anything else.
    pub(crate) looks_for_topics_before_offsets: bool,
    /// Whether who names no partition gets the offsets of all that the group has.
    pub(crate) takes_no_partition_for_all: bool,
    /// Whether a commit that names a generation is one of a group that the broker itself coordinates; here are none.
    pub(crate) knows_generations: bool,
    produce: Versions,
    fetch: Versions,
    list_offsets: Versions,
    metadata: Versions,
    offset_commit: Versions,
    offset_fetch: Versions,
    find_coordinator: Versions,
    api_versions: Versions,
}

/// What becomes of a request that cannot be read: of another API, of a version that is too high, or broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// It costs the connection.
    Closes,
    /// Nothing is said, and the connection stays.
    Silence,
    /// Only Fetch is passed over so; anything else costs the connection.
    SilenceToFetch,
}

/// Which versions of a request are served; all count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Versions {
    /// The request is not known.
    None,
    /// Higher ones are read and answered as if they were this one.
    AnyAs(i16),
    /// Higher ones are refused.
    UpTo(i16),
}

const V0_8_2: Behaviour = Behaviour {
    registration: 1,
    unreadable: Unreadable::Closes,
    message_format: MessageFormat::V0,
    has_zstd: false,
    flattens_produced_sets: true,
    counts_acks: true,
    fails_above_high_watermark: true,
    fails_metadata_as_a_whole: true,
    tells_brokers_without_topics: false,
    offset_record: 0,
    stores_offsets_of_unknown_topics: true,
    looks_for_topics_before_offsets: true,
    takes_no_partition_for_all: false,
    knows_generations: false,
    produce: Versions::AnyAs(0),
    fetch: Versions::AnyAs(0),
    list_offsets: Versions::AnyAs(0),
    metadata: Versions::AnyAs(0),
    offset_commit: Versions::UpTo(1),
    offset_fetch: Versions::AnyAs(1),
    find_coordinator: Versions::AnyAs(0),
    api_versions: Versions::None,
};

const V0_9_0: Behaviour = Behaviour {
    registration: 2,
    unreadable: Unreadable::Silence,
    counts_acks: false,
    tells_brokers_without_topics: true,
    offset_record: 1,
    stores_offsets_of_unknown_topics: false,
    looks_for_topics_before_offsets: false,
    takes_no_partition_for_all: true,
    knows_generations: true,
    produce: Versions::AnyAs(1),
    fetch: Versions::AnyAs(1),
    offset_commit: Versions::UpTo(2),
    find_coordinator: Versions::UpTo(0),
    ..V0_8_2
};

const V0_10_0: Behaviour = Behaviour {
    registration: 3,
    unreadable: Unreadable::SilenceToFetch,
    message_format: MessageFormat::V1,
    flattens_produced_sets: false,
    fails_above_high_watermark: false,
    fails_metadata_as_a_whole: false,
    produce: Versions::UpTo(2),
    fetch: Versions::AnyAs(2),
    list_offsets: Versions::UpTo(0),
    metadata: Versions::UpTo(1),
    offset_fetch: Versions::UpTo(1),
    api_versions: Versions::UpTo(0),
    ..V0_9_0
};

const V0_10_2: Behaviour = Behaviour {
    registration: 4,
    unreadable: Unreadable::Closes,
    takes_no_partition_for_all: false,
    fetch: Versions::UpTo(3),
    list_offsets: Versions::UpTo(1),
    offset_fetch: Versions::UpTo(2),
    ..V0_10_0
};

const V0_11_0: Behaviour = Behaviour {
    message_format: MessageFormat::V2,
    produce: Versions::UpTo(3),
    fetch: Versions::UpTo(5),
    list_offsets: Versions::UpTo(2),
    offset_fetch: Versions::UpTo(3),
    ..V0_10_2
};

const V1_1: Behaviour = Behaviour {
    fetch: Versions::UpTo(7),
    ..V0_11_0
};

const V2_3: Behaviour = Behaviour {
    has_zstd: true,
    fetch: Versions::UpTo(11),
    ..V1_1
};

impl BrokerVersion {
    /// All of them, the oldest first.
    pub const ALL: [Self; 7] = [
        Self::V0_8_2,
        Self::V0_9_0,
        Self::V0_10_0,
        Self::V0_10_2,
        Self::V0_11_0,
        Self::V1_1,
        Self::V2_3,
    ];

    pub(crate) const fn behaviour(self) -> &'static Behaviour {
        match self {
            Self::V0_8_2 => &V0_8_2,
            Self::V0_9_0 => &V0_9_0,
            Self::V0_10_0 => &V0_10_0,
            Self::V0_10_2 => &V0_10_2,
            Self::V0_11_0 => &V0_11_0,
            Self::V1_1 => &V1_1,
            Self::V2_3 => &V2_3,
        }
    }
}

impl fmt::Display for BrokerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V0_8_2 => "0.8.2",
            Self::V0_9_0 => "0.9.0",
            Self::V0_10_0 => "0.10.0",
            Self::V0_10_2 => "0.10.2",
            Self::V0_11_0 => "0.11.0",
            Self::V1_1 => "1.1",
            Self::V2_3 => "2.3",
        })
    }
}

impl Behaviour {
    /// The layout in which a request is read and answered; `None` for a version that is refused.
    ///
    /// As in Kafka 0.8.2.2: most versions that are too high are taken for the highest known one.
    pub(crate) fn layout(&self, api: Api, version: i16) -> Option<i16> {
        let (highest, is_known) = match self.versions(api) {
            Versions::None => return None,
            Versions::AnyAs(highest) => (highest, version >= 0),
            Versions::UpTo(highest) => (highest, (0..=highest).contains(&version)),
        };
        is_known.then_some(version.min(highest))
    }

    /// What is served, in the order of the requests' numbers.
    pub(crate) fn served(&self) -> Vec<ApiVersion> {
        let numbered = [
            (ProduceRequest::KEY, Api::Produce),
            (FetchRequest::KEY, Api::Fetch),
            (ListOffsetsRequest::KEY, Api::ListOffsets),
            (MetadataRequest::KEY, Api::Metadata),
            (OffsetCommitRequest::KEY, Api::OffsetCommit),
            (OffsetFetchRequest::KEY, Api::OffsetFetch),
            (FindCoordinatorRequest::KEY, Api::FindCoordinator),
            (ApiVersionsRequest::KEY, Api::ApiVersions),
        ];
        let served = numbered.into_iter().filter_map(|(api_key, api)| {
            let (Versions::AnyAs(max_version) | Versions::UpTo(max_version)) = self.versions(api)
            else {
                return None;
            };
            Some(ApiVersion {
                api_key,
                min_version: 0,
                max_version,
            })
        });
        served.collect()
    }

    fn versions(&self, api: Api) -> Versions {
        match api {
            Api::Produce => self.produce,
            Api::Fetch => self.fetch,
            Api::ListOffsets => self.list_offsets,
            Api::Metadata => self.metadata,
            Api::OffsetCommit => self.offset_commit,
            Api::OffsetFetch => self.offset_fetch,
            Api::FindCoordinator => self.find_coordinator,
            Api::ApiVersions => self.api_versions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_their_order_and_none_serves_less_than_the_one_before() {
        let pairs = BrokerVersion::ALL.windows(2);
        for pair in pairs {
            assert!(pair[0] < pair[1]);
            let [before, after] = [pair[0].behaviour(), pair[1].behaviour()];
            assert!(before.registration <= after.registration);
            assert!(before.message_format <= after.message_format);
            for api in before.served() {
                let same = |other: &&ApiVersion| other.api_key == api.api_key;
                let later = after.served();
                let later = later.iter().find(same).unwrap();
                assert!(api.max_version <= later.max_version, "{pair:?} {api:?}");
            }
        }
    }

    #[test]
    fn every_version_that_is_served_can_be_read() {
        let newest = BrokerVersion::V2_3.behaviour().served();
        let highest = |key: i16| {
            let api = newest.iter().find(|api| api.api_key == key);
            api.unwrap().max_version
        };
        for (key, known) in [
            (ProduceRequest::KEY, ProduceRequest::VERSIONS),
            (FetchRequest::KEY, FetchRequest::VERSIONS),
            (ListOffsetsRequest::KEY, ListOffsetsRequest::VERSIONS),
            (MetadataRequest::KEY, MetadataRequest::VERSIONS),
            (OffsetCommitRequest::KEY, OffsetCommitRequest::VERSIONS),
            (OffsetFetchRequest::KEY, OffsetFetchRequest::VERSIONS),
            (
                FindCoordinatorRequest::KEY,
                FindCoordinatorRequest::VERSIONS,
            ),
            (ApiVersionsRequest::KEY, ApiVersionsRequest::VERSIONS),
        ] {
            assert!(known.contains(&highest(key)), "request {key}");
        }
    }
}
