//! When and why a run ends.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::cli::failure::Failure;

/// Longest wait before a thread looks whether it has to end.
const SLICE: Duration = Duration::from_millis(50);

/// Signals that come so soon after the first one count as the same: `timeout` sends its own twice in a row.
const TOGETHER: Duration = Duration::from_millis(200);

/// Asked by every thread of a run before it waits again, and told by each of them what happened.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    /// Raised by the first signal.
    interrupted: Arc<AtomicBool>,
    /// The next signal ends the process on the spot. Raised a moment after the first one.
    at_once: Arc<AtomicBool>,
    due: AtomicBool,
    /// The first one.
    failure: Mutex<Option<Failure>>,
}

impl Ending {
    /// One that SIGINT, SIGTERM and SIGHUP bring about; on the spot until [`defer_signals`](Self::defer_signals).
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        let ending = Self::default();
        ending.at_once.store(true, Ordering::SeqCst);
        ending
            .observe()
            .map_err(|error| Failure::runtime("handling signals", &error))?;
        Ok(ending)
    }

    /// From now on there is something to clean up: the first signal ends the run, the second the process.
    pub(crate) fn defer_signals(&self) {
        self.at_once.store(false, Ordering::SeqCst);
    }

    /// Ends the run without fault.
    pub(crate) fn end(&self) {
        self.due.store(true, Ordering::SeqCst);
    }

    /// Ends the run with a failure, if it is the first one.
    pub(crate) fn fail(&self, failure: Failure) {
        let mut first = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(failure);
        drop(first);
        self.end();
    }

    /// Waits for `time`. `false` as soon as the run has to end.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while !self.is_due() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(SLICE));
        }
        false
    }

    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) || self.interrupted.load(Ordering::Relaxed)
    }

    /// How the run ended; the failure is handed out once.
    pub(crate) fn outcome(&self) -> Result<(), Failure> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or(Ok(()), Err)
    }

    fn observe(&self) -> io::Result<()> {
        let hangup = heeds_hangup().then_some(SIGHUP);
        let heeded: Vec<i32> = [SIGINT, SIGTERM].into_iter().chain(hangup).collect();
        for &signal in &heeded {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&self.at_once))?;
            flag::register(signal, Arc::clone(&self.interrupted))?;
        }
        let mut signals = Signals::new(heeded)?;
        let at_once = Arc::clone(&self.at_once);
        // Left behind at the end of the process. A thread, because those of the run may hang in a write by then.
        let arm = move || {
            if signals.forever().next().is_some() {
                thread::sleep(TOGETHER);
                at_once.store(true, Ordering::SeqCst);
            }
        };
        let thread = thread::Builder::new().name(String::from("signals"));
        thread.spawn(arm).map(drop)
    }
}

/// `nohup` has SIGHUP ignored, and it must stay so. Where the system does not tell, it keeps its meaning.
fn heeds_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit 0 stands for signal 1.
    ignored.is_some_and(|mask| mask & 1 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_counts_and_ends_the_run() {
        let ending = Ending::default();
        assert!(!ending.is_due());
        ending.fail(Failure::Runtime(String::from("first")));
        ending.fail(Failure::Runtime(String::from("second")));
        assert!(ending.is_due());
        assert_eq!(ending.outcome().unwrap_err().text(), "first");
        assert!(ending.outcome().is_ok());
    }
}
