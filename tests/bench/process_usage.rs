//! What a process has used, from /proc.

use std::fs;

/// Clock ticks per second in /proc: the same on every Linux that runs a JVM.
const TICKS: f64 = 100.0;

/// CPU seconds of all threads, user and system. `None` when the process is gone.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let user = fields.next()?.parse::<f64>().ok()?;
    let system = fields.next()?.parse::<f64>().ok()?;
    Some((user + system) / TICKS)
}

/// Largest resident set so far, in bytes. `None` when the process is gone.
pub(crate) fn peak_resident_bytes(pid: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes = line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()?;
    Some(kibibytes * 1024.0)
}
