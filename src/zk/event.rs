/// What happened to the session or to a watched node; paths are relative to the chroot.
///
/// An event says only that it is time to look again: it may come once more than the node changed,
/// never once less.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ZkEvent {
    Session(SessionEvent),
    NodeCreated(String),
    NodeDeleted(String),
    DataChanged(String),
    ChildrenChanged(String),
}

/// A change of the connection or the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SessionEvent {
    /// The connection broke; the session lives on until its lease ends, or longer.
    Disconnected,
    /// A new connection of the same session; its watches were set again.
    Reconnected,
    /// The servers ended the session: its ephemeral nodes and its watches are gone.
    Expired,
    /// A new session, the one after an expired one.
    Established { session: i64 },
}
