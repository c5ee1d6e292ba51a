//! What this process has used so far.

use std::fs;
use std::time::Duration;

/// CPU time of all threads, user and system; `None` where the system does not tell it.
pub(crate) fn cpu_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let seconds = u64::try_from(time.tv_sec).ok()?;
        Some(Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?))
    }
    #[cfg(not(unix))]
    None
}

/// Largest resident set; `None` where there is no `/proc`.
pub(crate) fn peak_resident_bytes() -> Option<u64> {
    high_water_mark(&fs::read_to_string("/proc/self/status").ok()?)
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_is_read_in_bytes() {
        let status = "Name:\tkzc\nVmPeak:\t  9999 kB\nVmHWM:\t    5120 kB\n";
        assert_eq!(high_water_mark(status), Some(5 * 1024 * 1024));
        assert_eq!(high_water_mark("Name:\tkzc\n"), None);
        assert_eq!(high_water_mark("VmHWM:\tmuch kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn linux_tells_both() {
        assert!(cpu_time().is_some_and(|time| !time.is_zero()));
        assert!(peak_resident_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
