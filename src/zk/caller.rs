use crate::thread::StopSignal;

/// What ends the calls made through one handle, besides their deadline.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) stop: StopSignal,
    /// They also end when they have no connection and the lease is over.
    pub(super) within_lease: bool,
    /// They write in this session or not at all. `None`: in the one that is there when the call is made.
    pub(super) session: Option<i64>,
}
