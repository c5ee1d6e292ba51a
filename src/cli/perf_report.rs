//! The figures of `kzc perf`, as rows of the original's tool (1.1.1) or as JSON.

use std::time::Duration;
use std::time::SystemTime;

use serde_json::Value;
use serde_json::json;

use crate::cli::utc_time::utc_time;

pub(crate) const SUMMARY_HEADER: &str =
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec";
pub(crate) const DETAILED_HEADER: &str =
    "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec";

const BYTES_PER_MEGABYTE: f64 = 1_048_576.0;

/// Messages and the bytes of their values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Volume {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(before.messages),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }

    fn megabytes(self) -> f64 {
        real(self.bytes) / BYTES_PER_MEGABYTE
    }
}

/// A whole run.
#[derive(Clone, Debug)]
pub(crate) struct Summary {
    pub(crate) start: SystemTime,
    /// Until the last message.
    pub(crate) elapsed: Duration,
    pub(crate) volume: Volume,
    /// Of the whole process, the start included.
    pub(crate) cpu: Option<Duration>,
    /// From the first message to the last.
    pub(crate) cpu_consuming: Option<Duration>,
    pub(crate) peak_resident_bytes: Option<u64>,
}

impl Summary {
    pub(crate) fn row(&self) -> String {
        format!(
            "{}, {}, {:.4}, {:.4}, {}, {:.4}",
            utc_time(self.start),
            utc_time(self.start + self.elapsed),
            self.volume.megabytes(),
            per_second(self.volume.megabytes(), self.elapsed),
            self.volume.messages,
            per_second(real(self.volume.messages), self.elapsed)
        )
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "start_time": utc_time(self.start),
            "end_time": utc_time(self.start + self.elapsed),
            "elapsed_seconds": self.elapsed.as_secs_f64(),
            "megabytes": self.volume.megabytes(),
            "megabytes_per_second": per_second(self.volume.megabytes(), self.elapsed),
            "messages": self.volume.messages,
            "messages_per_second": per_second(real(self.volume.messages), self.elapsed),
            "cpu_seconds": self.cpu.map(|time| time.as_secs_f64()),
            "cpu_seconds_consuming": self.cpu_consuming.map(|time| time.as_secs_f64()),
            "peak_resident_bytes": self.peak_resident_bytes,
        })
    }
}

/// One stream at the end of one interval.
#[derive(Clone, Debug)]
pub(crate) struct DetailedRow {
    pub(crate) time: SystemTime,
    pub(crate) stream: usize,
    /// Since the start.
    pub(crate) total: Volume,
    /// In the interval.
    pub(crate) recent: Volume,
    pub(crate) interval: Duration,
}

impl DetailedRow {
    pub(crate) fn row(&self) -> String {
        format!(
            "{}, {}, {:.4}, {:.4}, {}, {:.4}",
            utc_time(self.time),
            self.stream,
            self.total.megabytes(),
            per_second(self.recent.megabytes(), self.interval),
            self.total.messages,
            per_second(real(self.recent.messages), self.interval)
        )
    }
}

/// 0 where no time has passed.
fn per_second(amount: f64, time: Duration) -> f64 {
    if time.is_zero() {
        return 0.0;
    }
    amount / time.as_secs_f64()
}

/// Exact up to 53 bits, as any conversion.
fn real(number: u64) -> f64 {
    let low = u32::try_from(number & u64::from(u32::MAX)).unwrap_or(u32::MAX);
    let high = u32::try_from(number >> 32).unwrap_or(u32::MAX);
    f64::from(high) * 4_294_967_296.0 + f64::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    fn summary() -> Summary {
        Summary {
            start: UNIX_EPOCH,
            elapsed: Duration::from_millis(2_500),
            volume: Volume {
                messages: 1_000,
                bytes: 5 << 20,
            },
            cpu: Some(Duration::from_millis(750)),
            cpu_consuming: None,
            peak_resident_bytes: Some(7),
        }
    }

    fn detailed() -> DetailedRow {
        DetailedRow {
            time: UNIX_EPOCH,
            stream: 3,
            total: summary().volume,
            recent: Volume {
                messages: 10,
                bytes: 1 << 20,
            },
            interval: Duration::from_secs(5),
        }
    }

    fn columns(line: &str) -> usize {
        line.split(", ").count()
    }

    #[test]
    fn headers_have_as_many_columns_as_rows() {
        assert_eq!(columns(SUMMARY_HEADER), columns(&summary().row()));
        assert_eq!(columns(DETAILED_HEADER), columns(&detailed().row()));
    }

    #[test]
    fn rows_have_the_format_of_kafka_1_1_1() {
        assert_eq!(
            summary().row(),
            "1970-01-01 00:00:00:000, 1970-01-01 00:00:02:500, 5.0000, 2.0000, 1000, 400.0000"
        );
        assert_eq!(
            detailed().row(),
            "1970-01-01 00:00:00:000, 3, 5.0000, 0.2000, 1000, 2.0000"
        );
    }

    #[test]
    fn json_has_the_same_figures_and_null_for_what_is_unknown() {
        let json = summary().json();
        assert_eq!(json["megabytes_per_second"], 2.0);
        assert_eq!(json["messages"], 1_000);
        assert_eq!(json["cpu_seconds"], 0.75);
        assert!(json["cpu_seconds_consuming"].is_null());
        assert_eq!(json["peak_resident_bytes"], 7);
    }

    #[test]
    fn a_run_without_a_message_has_no_speed() {
        let empty = Summary {
            elapsed: Duration::ZERO,
            volume: Volume::default(),
            ..summary()
        };
        assert!(
            empty.row().ends_with("0.0000, 0.0000, 0, 0.0000"),
            "{}",
            empty.row()
        );
    }

    #[test]
    fn large_numbers_stay_what_they_are() {
        assert_eq!(real((1 << 40) + 3), 1_099_511_627_779.0);
    }
}
