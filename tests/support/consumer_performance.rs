//! How fast the JVM's consumer is.

use std::collections::HashSet;
use std::io::BufRead;
use std::io::BufReader;
use std::process::ChildStdout;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use super::kafka_version::KafkaVersion;
use super::process::JavaCommand;

const LIMIT: Duration = Duration::from_secs(600);
const DAY: u64 = 24 * 60 * 60 * 1000;

/// What to run.
#[derive(Clone, Debug)]
pub struct ConsumerPerformanceOptions {
    pub threads: usize,
    pub fetch_threads: usize,
    /// Per thread; the tool ends when a thread has read so many, or got none for
    /// `consumer.timeout.ms`.
    pub messages: u64,
    /// A row every so many messages of a thread. Below what takes a millisecond the tool divides by
    /// zero and hangs.
    pub reporting_interval: u64,
    pub fetch_size: usize,
    pub heap: String,
}

/// A row of `--show-detailed-stats`.
#[derive(Clone, Debug, PartialEq)]
pub struct PerformanceRow {
    /// Milliseconds since midnight.
    pub time: u64,
    pub thread: usize,
    /// Consumed by this thread so far, in units of 2^20 bytes of values.
    pub megabytes: f64,
    /// Consumed by this thread so far.
    pub messages: u64,
}

/// The outcome of `kafka.tools.ConsumerPerformance`.
#[derive(Clone, Debug)]
pub struct ConsumerPerformance {
    /// One for each full reporting interval of each thread, in the order of their printing.
    pub rows: Vec<PerformanceRow>,
}

impl ConsumerPerformance {
    /// Reads a topic from its smallest offsets with a group of its own.
    ///
    /// The consumer's time-out is fixed: 5 s in 0.8.2.2, 1 s in 0.9.0.1, which a busy machine may
    /// not meet before the first message.
    pub fn run(
        version: KafkaVersion,
        zookeeper: &str,
        topic: &str,
        options: &ConsumerPerformanceOptions,
    ) -> Self {
        Self::run_observed(version, zookeeper, topic, options, |_, _| {})
    }

    /// As [`run`](Self::run), and shows the tool's process id with each row as soon as it is
    /// printed.
    pub fn run_observed(
        version: KafkaVersion,
        zookeeper: &str,
        topic: &str,
        options: &ConsumerPerformanceOptions,
        mut observe: impl FnMut(u32, &PerformanceRow),
    ) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("kzc-consumer-performance-")
            .tempdir()
            .expect("temporary folder");
        let deadline = Instant::now() + LIMIT;
        let mut process = command(version, zookeeper, topic, options).start(folder.path());
        let lines = lines(process.take_stdout().expect("standard output is piped"));
        let (mut output, mut rows, mut seen) = (String::new(), Vec::new(), HashSet::new());
        while let Ok(line) = lines.recv_timeout(deadline.duration_since(Instant::now())) {
            output += &line;
            output.push('\n');
            // A thread that has run into its time-out prints another row then, which tells nothing
            // of its speed.
            let full = parse_row(&line).filter(|row| {
                row.messages > 0
                    && row.messages % options.reporting_interval == 0
                    && seen.insert((row.thread, row.messages))
            });
            if let Some(row) = full {
                observe(process.id(), &row);
                rows.push(row);
            }
        }
        let status = process.wait_for_exit(deadline.duration_since(Instant::now()));
        assert!(
            status.success() && !rows.is_empty(),
            "ConsumerPerformance ended with {status} and printed {} rows: {output}\n{}",
            rows.len(),
            process.log_tail()
        );
        Self { rows }
    }

    /// Messages of all threads, each counted in full reporting intervals.
    pub fn messages(&self) -> u64 {
        self.last_rows().map(|row| row.messages).sum()
    }

    /// Time between the first row and the last of any thread: leaves out the start of the JVM, the
    /// joining of the group and the time-out at the end.
    pub fn elapsed(&self) -> Duration {
        // Threads print side by side, so the first row need not be the earliest.
        let reference = self.rows[0].time + DAY / 2;
        let times = self
            .rows
            .iter()
            .map(|row| (row.time + DAY - reference % DAY) % DAY);
        let (earliest, latest) = times.fold((DAY, 0), |(low, high), time| {
            (low.min(time), high.max(time))
        });
        Duration::from_millis(latest - earliest)
    }

    /// Messages per second of all threads together, between the first row of each and its last.
    pub fn messages_per_second(&self) -> f64 {
        let first = self.first_rows().map(|row| row.messages).sum::<u64>();
        let read = u32::try_from(self.messages() - first).expect("fewer than 2^32 messages");
        f64::from(read) / self.elapsed().as_secs_f64()
    }

    /// Units of 2^20 bytes of values per second, likewise.
    pub fn megabytes_per_second(&self) -> f64 {
        let first = self.first_rows().map(|row| row.megabytes).sum::<f64>();
        let last = self.last_rows().map(|row| row.megabytes).sum::<f64>();
        (last - first) / self.elapsed().as_secs_f64()
    }

    fn first_rows(&self) -> impl Iterator<Item = &PerformanceRow> {
        self.rows.iter().enumerate().filter_map(|(index, row)| {
            let is_first = self.rows[..index]
                .iter()
                .all(|earlier| earlier.thread != row.thread);
            is_first.then_some(row)
        })
    }

    fn last_rows(&self) -> impl Iterator<Item = &PerformanceRow> {
        self.rows.iter().enumerate().filter_map(|(index, row)| {
            let is_last = self.rows[index + 1..]
                .iter()
                .all(|later| later.thread != row.thread);
            is_last.then_some(row)
        })
    }
}

fn command(
    version: KafkaVersion,
    zookeeper: &str,
    topic: &str,
    options: &ConsumerPerformanceOptions,
) -> JavaCommand {
    JavaCommand::new(
        "consumer-performance",
        &version.class_path(),
        "kafka.tools.ConsumerPerformance",
    )
    .arguments(["--zookeeper", zookeeper, "--topic", topic])
    .arguments(["--show-detailed-stats", "--hide-header"])
    .arguments(["--date-format", "HH:mm:ss:SSS"])
    .arguments(["--threads", &options.threads.to_string()])
    .arguments(["--num-fetch-threads", &options.fetch_threads.to_string()])
    .arguments(["--messages", &options.messages.to_string()])
    .arguments([
        "--reporting-interval",
        &options.reporting_interval.to_string(),
    ])
    .arguments(["--fetch-size", &options.fetch_size.to_string()])
    .heap(&options.heap)
    .log_level("WARN")
    .full_speed()
    .piped()
}

/// Reads in a thread of its own, so that waiting for a line can end at a deadline.
fn lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// `time, thread, [fetch size,] MB, MB/s, messages, messages/s`; only 0.8.2.2 has the fetch size,
/// though its header lacks a column. `None` for any other line.
fn parse_row(line: &str) -> Option<PerformanceRow> {
    let columns = line.split(", ").collect::<Vec<_>>();
    let (time, thread, rest) = match columns.as_slice() {
        [time, thread, _fetch_size, rest @ ..] if rest.len() == 4 => (time, thread, rest),
        [time, thread, rest @ ..] if rest.len() == 4 => (time, thread, rest),
        _ => return None,
    };
    Some(PerformanceRow {
        time: time_of_day(time)?,
        thread: thread.parse().ok()?,
        megabytes: rest[0].parse().ok()?,
        messages: rest[2].parse().ok()?,
    })
}

/// `HH:mm:ss:SSS` in milliseconds.
fn time_of_day(text: &str) -> Option<u64> {
    let parts = text
        .split(':')
        .map(|part| part.parse::<u64>().ok())
        .collect::<Option<Vec<_>>>()?;
    match parts.as_slice() {
        [hours, minutes, seconds, millis] => {
            Some(((hours * 60 + minutes) * 60 + seconds) * 1000 + millis)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_cross_midnight_out_of_order_still_measure() {
        let lines = [
            "23:59:59:990, 0, 1048576, 10.0000, 0.0000, 100, 0.0000",
            "23:59:59:980, 1, 1048576, 10.0000, 0.0000, 100, 0.0000",
            "00:00:00:480, 0, 1048576, 20.0000, 0.0000, 200, 0.0000",
            "00:00:00:400, 1, 20.0000, 0.0000, 200, 0.0000",
            "time, fetch.size, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec",
        ];
        let outcome = ConsumerPerformance {
            rows: lines.into_iter().filter_map(parse_row).collect(),
        };
        assert_eq!(outcome.rows.len(), 4);
        assert_eq!(outcome.messages(), 400);
        assert_eq!(outcome.elapsed(), Duration::from_millis(500));
        assert!((outcome.messages_per_second() - 400.0).abs() < 1e-9);
        assert!((outcome.megabytes_per_second() - 40.0).abs() < 1e-9);
    }
}
