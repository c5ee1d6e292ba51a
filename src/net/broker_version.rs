//! Which Kafka a broker runs, as far as that is known before it is asked.

/// Which Kafka a broker runs: what may be sent to it, and whether it may be asked what it serves.
///
/// Old brokers answer versions that they do not know in another layout, so nothing is ever found out by trying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BrokerVersion {
    /// 0.8.0 or later: every request goes out in version 0, which brokers up to 3.9 serve, at the cost that newer ones
    /// convert their messages to the oldest format. The default, since it is right for all of them.
    #[default]
    V0_8,
    /// 0.9.0 or later, up to 3.9: Fetch and Produce go out in version 1.
    V0_9,
    /// 0.10.0 or later: asked on each new connection which versions it serves (KIP-35).
    ///
    /// Never to be used for an 0.9.0 broker: the question makes it drop what other clients have asked meanwhile.
    V0_10,
    /// Not known: found out once, over a connection of its own.
    ///
    /// That asks the same question, and so does the same harm where the broker is 0.9.0; a version that is known is
    /// better. Whoever closes that connection without a word counts as [`V0_8`](Self::V0_8).
    Probe,
}

impl BrokerVersion {
    /// By `version` of the broker's registration in ZooKeeper; `None` where there is none that can be read.
    ///
    /// 1 is written by 0.8.x; 2 by 0.9.0, and by later brokers whose `inter.broker.protocol.version` is that low;
    /// 3 and higher by 0.10.0 and later.
    pub(crate) fn of_registration(version: Option<i32>) -> Self {
        match version {
            Some(..=1) => Self::V0_8,
            Some(2) => Self::V0_9,
            Some(_) => Self::V0_10,
            None => Self::Probe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_tells_what_may_be_sent() {
        let expected = [
            (Some(1), BrokerVersion::V0_8),
            (Some(2), BrokerVersion::V0_9),
            (Some(3), BrokerVersion::V0_10),
            (Some(5), BrokerVersion::V0_10),
            (Some(i32::MAX), BrokerVersion::V0_10),
            (None, BrokerVersion::Probe),
        ];
        for (registration, version) in expected {
            assert_eq!(BrokerVersion::of_registration(registration), version);
        }
    }
}
