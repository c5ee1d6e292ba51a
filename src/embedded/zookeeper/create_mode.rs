/// How long a node lives, and whether the server completes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateMode {
    /// Until it is deleted.
    Persistent,
    /// As long as the session that created it.
    Ephemeral,
    /// As [`Persistent`](Self::Persistent), its name followed by ten digits that grow from child to
    /// child of the same parent.
    PersistentSequential,
    /// As [`Ephemeral`](Self::Ephemeral), with the digits of
    /// [`PersistentSequential`](Self::PersistentSequential).
    EphemeralSequential,
}

impl CreateMode {
    pub(super) fn from_flags(flags: i32) -> Option<Self> {
        match flags {
            0 => Some(Self::Persistent),
            1 => Some(Self::Ephemeral),
            2 => Some(Self::PersistentSequential),
            3 => Some(Self::EphemeralSequential),
            _ => None,
        }
    }

    pub(super) fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::PersistentSequential => 2,
            Self::EphemeralSequential => 3,
        }
    }

    pub(super) fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    pub(super) fn is_sequential(self) -> bool {
        matches!(self, Self::PersistentSequential | Self::EphemeralSequential)
    }
}
