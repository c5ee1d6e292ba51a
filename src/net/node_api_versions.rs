//! The versions of each request that one broker serves.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::cluster::BrokerAddress;
use crate::error::Error;
use crate::protocol::ApiVersionsResponse;
use crate::protocol::FetchRequest;
use crate::protocol::FindCoordinatorRequest;
use crate::protocol::ListOffsetsRequest;
use crate::protocol::MetadataRequest;
use crate::protocol::OffsetCommitRequest;
use crate::protocol::OffsetFetchRequest;
use crate::protocol::ProduceRequest;
use crate::protocol::Request;

/// Which versions of which requests a broker serves, lowest to highest, by the number of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeApiVersions {
    served: BTreeMap<i16, RangeInclusive<i16>>,
}

impl NodeApiVersions {
    /// What all brokers of 0.8.x serve, and all later ones up to 3.9.
    pub(super) fn v0_8() -> Self {
        Self::of([
            (ProduceRequest::KEY, 0..=0),
            (FetchRequest::KEY, 0..=0),
            (ListOffsetsRequest::KEY, 0..=0),
            (MetadataRequest::KEY, 0..=0),
            (OffsetCommitRequest::KEY, 0..=0),
            (OffsetFetchRequest::KEY, 0..=0),
        ])
    }

    /// What 0.9.0 brokers serve, and all later ones up to 3.9.
    pub(super) fn v0_9() -> Self {
        Self::of([
            (ProduceRequest::KEY, 0..=1),
            (FetchRequest::KEY, 0..=1),
            (ListOffsetsRequest::KEY, 0..=0),
            (MetadataRequest::KEY, 0..=0),
            (OffsetCommitRequest::KEY, 0..=2),
            (OffsetFetchRequest::KEY, 0..=1),
            (FindCoordinatorRequest::KEY, 0..=0),
        ])
    }

    /// What the broker says itself.
    pub(super) fn told(answer: &ApiVersionsResponse) -> Self {
        let apis = answer.api_versions.iter();
        Self::of(apis.map(|api| (api.api_key, api.min_version..=api.max_version)))
    }

    #[cfg(test)]
    fn common<Q: Request>(&self, address: &BrokerAddress) -> Result<i16, Error> {
        self.common_within::<Q>(Q::VERSIONS, address)
    }

    /// The highest version of `Q` among `ours` that the broker at `address` serves.
    pub(super) fn common_within<Q: Request>(
        &self,
        ours: RangeInclusive<i16>,
        address: &BrokerAddress,
    ) -> Result<i16, Error> {
        let served = self.served.get(&Q::KEY);
        let highest = served.map_or(-1, |served| *served.end().min(ours.end()));
        let is_common =
            |served: &RangeInclusive<i16>| served.contains(&highest) && ours.contains(&highest);
        if served.is_some_and(is_common) {
            return Ok(highest);
        }
        Err(Error::UnsupportedVersion {
            address: address.clone(),
            api: Q::API,
            ours,
            theirs: served.cloned(),
        })
    }

    fn of(served: impl IntoIterator<Item = (i16, RangeInclusive<i16>)>) -> Self {
        Self {
            served: served.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::ApiVersion;

    fn address() -> BrokerAddress {
        BrokerAddress::new("broker", 9092)
    }

    fn fetch(min_version: i16, max_version: i16) -> NodeApiVersions {
        NodeApiVersions::told(&ApiVersionsResponse {
            throttle_time: None,
            error: None,
            api_versions: vec![ApiVersion {
                api_key: FetchRequest::KEY,
                min_version,
                max_version,
            }],
        })
    }

    #[test]
    fn the_highest_common_version_is_taken() {
        for ((least, most), common) in [((0, 0), 0), ((0, 3), 3), ((0, 11), 11), ((4, 18), 11)] {
            let served = fetch(least, most);
            assert_eq!(served.common::<FetchRequest>(&address()).unwrap(), common);
        }
    }

    #[test]
    fn without_a_common_version_the_error_names_the_request_both_ranges_and_the_broker() {
        let text = "broker broker:9092 serves Fetch in versions 12 to 18, known here are 0 to 11";
        let error = fetch(12, 18)
            .common::<FetchRequest>(&address())
            .unwrap_err();
        assert_eq!(error.to_string(), text);
        assert!(!error.is_retriable());
        let text = "broker broker:9092 does not serve Metadata, known here are 0 to 5";
        let error = fetch(0, 1)
            .common::<MetadataRequest>(&address())
            .unwrap_err();
        assert_eq!(error.to_string(), text);
        for nonsense in [(5, 2), (-3, -1)] {
            let served = fetch(nonsense.0, nonsense.1);
            assert!(served.common::<FetchRequest>(&address()).is_err());
        }
    }

    #[test]
    fn the_tables_of_old_brokers_hold_what_these_serve() {
        let (old, newer) = (NodeApiVersions::v0_8(), NodeApiVersions::v0_9());
        assert_eq!(old.common::<FetchRequest>(&address()).unwrap(), 0);
        assert_eq!(newer.common::<FetchRequest>(&address()).unwrap(), 1);
        assert_eq!(newer.common::<ListOffsetsRequest>(&address()).unwrap(), 0);
        assert_eq!(newer.common::<OffsetCommitRequest>(&address()).unwrap(), 2);
    }
}
