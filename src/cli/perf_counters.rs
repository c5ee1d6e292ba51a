//! What the threads of all streams of `kzc perf` have read together.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use crate::cli::perf_report::Volume;
use crate::cli::process_usage::cpu_time;
use crate::cli::silence::nanos;

/// "Not yet" in the atomics below; never leaves this file.
const NEVER: u64 = u64::MAX;

/// Sums over all streams, each of which adds what it has read once in a while.
#[derive(Debug)]
pub(crate) struct PerfCounters {
    began: Instant,
    messages: AtomicU64,
    bytes: AtomicU64,
    /// Nanoseconds from `began` to the last message.
    last: AtomicU64,
    /// CPU nanoseconds of the process at the first message, and at the last one so far.
    first_cpu: AtomicU64,
    last_cpu: AtomicU64,
}

impl PerfCounters {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            last: AtomicU64::new(0),
            first_cpu: AtomicU64::new(NEVER),
            last_cpu: AtomicU64::new(0),
        }
    }

    /// Adds what one stream has read; the last of it was read just now. Returns the messages of all streams.
    pub(crate) fn add(&self, volume: Volume) -> u64 {
        if volume == Volume::default() {
            return self.messages.load(Ordering::SeqCst);
        }
        let cpu = cpu_time().map_or(0, nanos);
        self.first_cpu.fetch_min(cpu, Ordering::SeqCst);
        self.last_cpu.fetch_max(cpu, Ordering::SeqCst);
        self.last
            .fetch_max(nanos(self.began.elapsed()), Ordering::SeqCst);
        self.bytes.fetch_add(volume.bytes, Ordering::SeqCst);
        let before = self.messages.fetch_add(volume.messages, Ordering::SeqCst);
        before + volume.messages
    }

    pub(crate) fn volume(&self) -> Volume {
        Volume {
            messages: self.messages.load(Ordering::SeqCst),
            bytes: self.bytes.load(Ordering::SeqCst),
        }
    }

    /// Until the last message.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.last.load(Ordering::SeqCst))
    }

    /// CPU time from the first message to the last.
    pub(crate) fn cpu_consuming(&self) -> Option<Duration> {
        cpu_time()?;
        let first = self.first_cpu.load(Ordering::SeqCst);
        let last = self.last_cpu.load(Ordering::SeqCst);
        Some(Duration::from_nanos(last.saturating_sub(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_stops_at_the_last_message() {
        let counters = PerfCounters::new();
        assert_eq!(counters.add(Volume::default()), 0);
        assert_eq!(counters.elapsed(), Duration::ZERO);
        let some = Volume {
            messages: 3,
            bytes: 30,
        };
        assert_eq!(counters.add(some), 3);
        let elapsed = counters.elapsed();
        assert!(elapsed > Duration::ZERO);
        assert_eq!(counters.add(Volume::default()), 3);
        assert_eq!((counters.elapsed(), counters.volume()), (elapsed, some));
    }
}
