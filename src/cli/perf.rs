//! `kzc perf`.

use std::io;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::MessageRef;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::OnBadMessage;
use kafka_zk_consumer::StreamError;

use crate::cli::arguments::PerfArguments;
use crate::cli::ending::Ending;
use crate::cli::failure::Failure;
use crate::cli::perf_counters::PerfCounters;
use crate::cli::perf_report::DETAILED_HEADER;
use crate::cli::perf_report::DetailedRow;
use crate::cli::perf_report::SUMMARY_HEADER;
use crate::cli::perf_report::Summary;
use crate::cli::perf_report::Volume;
use crate::cli::process_usage::cpu_time;
use crate::cli::process_usage::peak_resident_bytes;
use crate::cli::session;
use crate::cli::session::Subscription;
use crate::cli::settings::Settings;
use crate::cli::silence::Silence;

/// Most messages that a stream reads before it looks at the clock and at the other streams.
const BATCH: usize = 1_024;

/// What the threads of all streams share.
struct Measurement<'a> {
    /// The clock starts when the group is joined.
    started: OnceLock<(SystemTime, PerfCounters)>,
    silence: Silence,
    limit: u64,
    /// Between the rows of a stream; `None` for a summary only.
    interval: Option<Duration>,
    on_bad_message: OnBadMessage,
    ending: &'a Ending,
}

/// One stream's share.
struct Progress {
    stream: usize,
    total: Volume,
    /// Of `total`, what the other streams know of.
    added: Volume,
    row: Volume,
    row_at: Instant,
}

/// Reads as fast as it can until there is a reason to end, and prints how fast that was.
pub(crate) fn perf(arguments: &PerfArguments, ending: &Ending) -> Result<(), Failure> {
    let settings = Settings::for_perf(arguments)?;
    let measurement = Measurement {
        started: OnceLock::new(),
        silence: Silence::new(settings.config.consumer_timeout()),
        limit: arguments.messages.unwrap_or(u64::MAX),
        interval: arguments
            .show_detailed_stats
            .then_some(arguments.reporting_interval),
        on_bad_message: settings.config.on_bad_message(),
        ending,
    };
    if !arguments.hide_header && !arguments.json {
        let detailed = arguments.show_detailed_stats;
        print(
            if detailed {
                DETAILED_HEADER
            } else {
                SUMMARY_HEADER
            },
            ending,
        );
    }
    let subscription = Subscription::Topic(arguments.topic.clone(), arguments.common.streams);
    let join = |connector: &ConsumerConnector| subscription.join(connector);
    let result = session::run(&settings, join, ending, |number, stream| {
        measurement.read(number, stream);
    });
    let summary = measurement.summary();
    if arguments.json {
        print(&summary.json().to_string(), ending);
    } else if !arguments.show_detailed_stats {
        print(&summary.row(), ending);
    }
    result.and(ending.outcome())
}

impl Measurement<'_> {
    /// Of all ways to read, visiting costs the least: half of the CPU time of reading one by one.
    fn read(&self, number: usize, stream: &mut MessageStream) {
        let (_, counters) = self.started();
        self.silence.broken();
        let mut progress = Progress::new(number);
        while let Some(most) = self.look(counters, &mut progress) {
            let count = |message: MessageRef<'_>| progress.count(message);
            match stream.visit_batch(most, self.silence.slice(), count) {
                Some(Ok(_)) => {}
                Some(Err(StreamError::Timeout)) => {
                    if self.silence.is_over_the_limit() {
                        self.ending.end();
                    }
                }
                Some(Err(error)) => self.report(&error),
                None => break,
            }
        }
        if self.interval.is_some() {
            self.print_row(&mut progress);
        }
    }

    fn started(&self) -> &(SystemTime, PerfCounters) {
        self.started
            .get_or_init(|| (SystemTime::now(), PerfCounters::new()))
    }

    /// Tells the other streams what this one has read. Returns how many messages to ask for next, `None` at
    /// the end. One stream alone stops exactly at the limit; of many, each may read a batch more.
    fn look(&self, counters: &PerfCounters, progress: &mut Progress) -> Option<usize> {
        let new = progress.total.since(progress.added);
        if new.messages > 0 {
            self.silence.broken();
        }
        progress.added = progress.total;
        let left = self.limit.saturating_sub(counters.add(new));
        if left == 0 {
            self.ending.end();
        }
        if self
            .interval
            .is_some_and(|interval| progress.row_at.elapsed() >= interval)
        {
            self.print_row(progress);
        }
        if self.ending.is_due() {
            return None;
        }
        // The first message starts the CPU clock.
        let most = if progress.total.messages == 0 {
            1
        } else {
            BATCH
        };
        Some(usize::try_from(left).map_or(most, |left| left.min(most)))
    }

    fn print_row(&self, progress: &mut Progress) {
        let row = DetailedRow {
            time: SystemTime::now(),
            stream: progress.stream,
            total: progress.total,
            recent: progress.total.since(progress.row),
            interval: progress.row_at.elapsed(),
        };
        print(&row.row(), self.ending);
        progress.row = progress.total;
        progress.row_at = Instant::now();
    }

    fn report(&self, error: &StreamError) {
        match self.on_bad_message {
            OnBadMessage::Skip if !matches!(error, StreamError::NoOffset { .. }) => {
                log::warn!("skipped: {error}");
            }
            _ => self.ending.fail(Failure::Runtime(error.to_string())),
        }
    }

    fn summary(&self) -> Summary {
        let (start, counters) = self.started();
        Summary {
            start: *start,
            elapsed: counters.elapsed(),
            volume: counters.volume(),
            cpu: cpu_time(),
            cpu_consuming: counters.cpu_consuming(),
            peak_resident_bytes: peak_resident_bytes(),
        }
    }
}

impl Progress {
    fn new(stream: usize) -> Self {
        Self {
            stream,
            total: Volume::default(),
            added: Volume::default(),
            row: Volume::default(),
            row_at: Instant::now(),
        }
    }

    fn count(&mut self, message: MessageRef<'_>) {
        self.total.messages += 1;
        let length = message.value().map_or(0, <[u8]>::len);
        self.total.bytes += u64::try_from(length).unwrap_or(0);
    }
}

/// A line on standard output. A closed pipe ends the run, any other trouble fails it.
fn print(line: &str, ending: &Ending) {
    match writeln!(io::stdout(), "{line}") {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ending.end(),
        Err(error) => ending.fail(Failure::runtime("writing to standard output", &error)),
    }
}
