use crate::thread::StopSignal;

/// What ends the calls made through one handle, besides their deadline.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) stop: StopSignal,
    /// They also end when they have no connection and the lease is over.
    pub(super) within_lease: bool,
}
