//! `kzc perf`.

use std::io;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use kafka_zk_consumer::Message;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::OnBadMessage;
use kafka_zk_consumer::StreamError;

use crate::cli::arguments::PerfArguments;
use crate::cli::budget::Silence;
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
use crate::cli::settings::Settings;

/// Messages that a stream reads before it looks at the clock and at the other streams.
const STRETCH: u64 = 1_024;

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
    /// Look at the rest of the world when there are so many messages.
    look_at: u64,
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
    let streams = (arguments.common.topic.as_str(), arguments.common.streams);
    let result = session::run(&settings, streams, ending, |number, stream| {
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
    /// Of all ways to read, asking for what is there, and waiting only where nothing is, costs the least.
    fn read(&self, number: usize, mut stream: MessageStream) {
        let (_, counters) = self.started();
        self.silence.broken();
        let mut progress = Progress::new(number);
        while progress.total.messages < progress.look_at || self.look(counters, &mut progress) {
            match stream.try_next() {
                Some(Ok(message)) => progress.count(&message),
                Some(Err(StreamError::Timeout)) => {
                    if !self.look(counters, &mut progress) {
                        break;
                    }
                    match stream.next_timeout(self.silence.slice()) {
                        Some(Ok(message)) => progress.count(&message),
                        Some(Err(StreamError::Timeout)) => self.end_if_silent(),
                        Some(Err(error)) => self.report(&error),
                        None => break,
                    }
                }
                Some(Err(error)) => self.report(&error),
                None => break,
            }
        }
        self.add(counters, &mut progress);
        if self.interval.is_some() {
            self.print_row(&mut progress);
        }
    }

    fn started(&self) -> &(SystemTime, PerfCounters) {
        self.started
            .get_or_init(|| (SystemTime::now(), PerfCounters::new()))
    }

    /// Tells the other streams, and whether this one goes on. One stream alone stops exactly at the limit; of
    /// many, each may read a stretch more.
    fn look(&self, counters: &PerfCounters, progress: &mut Progress) -> bool {
        let all = self.add(counters, progress);
        if all >= self.limit {
            self.ending.end();
        }
        // The first message starts the CPU clock.
        let most = if progress.total.messages == 0 {
            1
        } else {
            STRETCH
        };
        let stretch = most.min(self.limit.saturating_sub(all));
        progress.look_at = progress.total.messages.saturating_add(stretch);
        if self
            .interval
            .is_some_and(|interval| progress.row_at.elapsed() >= interval)
        {
            self.print_row(progress);
        }
        !self.ending.is_due()
    }

    fn add(&self, counters: &PerfCounters, progress: &mut Progress) -> u64 {
        let new = progress.total.since(progress.added);
        if new.messages > 0 {
            self.silence.broken();
        }
        progress.added = progress.total;
        counters.add(new)
    }

    fn end_if_silent(&self) {
        if self.silence.is_over_the_limit() {
            self.ending.end();
        }
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
            OnBadMessage::Skip => log::warn!("skipped: {error}"),
            OnBadMessage::Fail => self.ending.fail(Failure::Runtime(error.to_string())),
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
            look_at: 0,
            row: Volume::default(),
            row_at: Instant::now(),
        }
    }

    #[inline]
    fn count(&mut self, message: &Message) {
        let bytes = message.value().map_or(0, <[u8]>::len);
        self.total.messages += 1;
        self.total.bytes += u64::try_from(bytes).unwrap_or(0);
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
