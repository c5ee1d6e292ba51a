//! What the versions of Kafka do differently.

use crate::embedded::faults::Api;

/// Which Kafka the brokers behave as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BrokerVersion {
    /// 0.8.2: hangs up on what it does not know, and answers newer versions of a request in its own layout.
    #[default]
    V0_8_2,
    /// 0.9.0: says nothing to what it does not know; Fetch and Produce have a version 1.
    V0_9_0,
}

/// What sets a version apart: all that the brokers look at when they behave as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// Version of the registration in ZooKeeper. From 2 on it lists endpoints besides host and port.
    pub(crate) registration: i32,
    /// Whether a request that cannot be read costs the connection; else nothing at all is said.
    pub(crate) hangs_up: bool,
    /// Whether a cluster that never had a topic tells clients of its brokers.
    pub(crate) tells_brokers_without_topics: bool,
    /// Version of keys and values in the offsets topic. Version 1 has a time of expiry.
    pub(crate) offset_record: i16,
    /// Whether offsets of topics that do not exist are stored in the offsets topic.
    pub(crate) stores_offsets_of_unknown_topics: bool,
    /// Whether who asks for offsets of a topic that does not exist hears that before anything else.
    pub(crate) looks_for_topics_before_offsets: bool,
    produce: Versions,
    fetch: Versions,
    list_offsets: Versions,
    metadata: Versions,
    offset_commit: Versions,
    offset_fetch: Versions,
    find_coordinator: Versions,
}

/// Which versions of a request are served; all count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Versions {
    /// Higher ones are read and answered as if they were this one.
    AnyAs(i16),
    /// Higher ones are refused.
    UpTo(i16),
}

const V0_8_2: Behaviour = Behaviour {
    registration: 1,
    hangs_up: true,
    tells_brokers_without_topics: false,
    offset_record: 0,
    stores_offsets_of_unknown_topics: true,
    looks_for_topics_before_offsets: true,
    produce: Versions::AnyAs(0),
    fetch: Versions::AnyAs(0),
    list_offsets: Versions::AnyAs(0),
    metadata: Versions::AnyAs(0),
    offset_commit: Versions::UpTo(1),
    offset_fetch: Versions::AnyAs(1),
    find_coordinator: Versions::AnyAs(0),
};

const V0_9_0: Behaviour = Behaviour {
    registration: 2,
    hangs_up: false,
    tells_brokers_without_topics: true,
    offset_record: 1,
    stores_offsets_of_unknown_topics: false,
    looks_for_topics_before_offsets: false,
    produce: Versions::AnyAs(1),
    fetch: Versions::AnyAs(1),
    offset_commit: Versions::UpTo(2),
    find_coordinator: Versions::UpTo(0),
    ..V0_8_2
};

impl BrokerVersion {
    pub(crate) const fn behaviour(self) -> &'static Behaviour {
        match self {
            Self::V0_8_2 => &V0_8_2,
            Self::V0_9_0 => &V0_9_0,
        }
    }
}

impl Behaviour {
    /// The layout in which a request is read and answered; `None` for a version that is refused.
    ///
    /// As in Kafka 0.8.2.2: most versions that are too high are taken for the highest known one.
    pub(crate) fn layout(&self, api: Api, version: i16) -> Option<i16> {
        let served = match api {
            Api::Produce => self.produce,
            Api::Fetch => self.fetch,
            Api::ListOffsets => self.list_offsets,
            Api::Metadata => self.metadata,
            Api::OffsetCommit => self.offset_commit,
            Api::OffsetFetch => self.offset_fetch,
            Api::FindCoordinator => self.find_coordinator,
        };
        let (highest, is_known) = match served {
            Versions::AnyAs(highest) => (highest, version >= 0),
            Versions::UpTo(highest) => (highest, (0..=highest).contains(&version)),
        };
        is_known.then_some(version.min(highest))
    }
}
