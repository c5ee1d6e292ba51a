//! Who asks for data.

/// Who a broker takes the asker for. It decides how much of the log is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Replica {
    /// An ordinary consumer (-1): sees the log up to the high watermark, and only on the leader.
    #[default]
    Consumer,
    /// A debugging consumer (-2): may read a follower too.
    Debugging,
    /// A broker that replicates, by its id: sees the whole log. Not for consumers.
    Broker(i32),
}

impl Replica {
    pub(super) fn from_wire(id: i32) -> Self {
        match id {
            -1 => Self::Consumer,
            -2 => Self::Debugging,
            id => Self::Broker(id),
        }
    }

    pub(super) fn to_wire(self) -> i32 {
        match self {
            Self::Consumer => -1,
            Self::Debugging => -2,
            Self::Broker(id) => id,
        }
    }
}
