//! `kzc consume`.

use std::collections::HashSet;
use std::io;
use std::io::Stdout;
use std::sync::Mutex;
use std::sync::PoisonError;

use kafka_zk_consumer::BoundedOutcome;
use kafka_zk_consumer::ConsumerConnector;
use kafka_zk_consumer::Message;
use kafka_zk_consumer::MessageStream;
use kafka_zk_consumer::OnBadMessage;
use kafka_zk_consumer::StreamError;
use kafka_zk_consumer::TopicFilter;

use crate::cli::arguments::ConsumeArguments;
use crate::cli::budget::Budget;
use crate::cli::ending::Ending;
use crate::cli::failure::Failure;
use crate::cli::message_format::Field;
use crate::cli::message_format::MessageFormat;
use crate::cli::message_format::Record;
use crate::cli::output::Output;
use crate::cli::run::say;
use crate::cli::session;
use crate::cli::session::Subscription;
use crate::cli::settings::Settings;
use crate::cli::silence::Silence;

/// Most messages that are written before they are counted as consumed.
const BATCH: usize = 1_000;

/// What the threads of all streams share.
struct Consumption<'a> {
    output: Output<Stdout>,
    budget: Budget,
    silence: Silence,
    on_bad_message: OnBadMessage,
    ending: &'a Ending,
}

/// Prints messages until there is a reason to end.
pub(crate) fn consume(arguments: &ConsumeArguments, ending: &Ending) -> Result<(), Failure> {
    let settings = Settings::for_consume(arguments)?;
    let subscription = subscription(arguments)?;
    let consumption = Consumption {
        output: Output::new(io::stdout(), format(arguments)),
        budget: Budget::new(arguments.max_messages),
        silence: Silence::new(settings.config.consumer_timeout()),
        on_bad_message: settings.config.on_bad_message(),
        ending,
    };
    let result = if arguments.exit_at_end {
        consumption.run_to_the_end(&settings, &subscription)
    } else {
        let join = |connector: &ConsumerConnector| subscription.join(connector);
        session::run(&settings, join, ending, |_, stream| {
            consumption.read(stream)
        })
    };
    let written = consumption.output.written();
    if result.is_ok() || written > 0 {
        say(&format!("Processed a total of {written} messages"));
    }
    result
}

/// A regular expression that cannot be used is refused before anything is done.
fn subscription(arguments: &ConsumeArguments) -> Result<Subscription, Failure> {
    let streams = arguments.common.streams;
    let topics = &arguments.topics;
    let filter = match (&topics.whitelist, &topics.blacklist) {
        (Some(regex), _) => TopicFilter::whitelist(regex),
        (None, Some(regex)) => TopicFilter::blacklist(regex),
        (None, None) => {
            let topic = topics.topic.clone().unwrap_or_default();
            return Ok(Subscription::Topic(topic, streams));
        }
    };
    filter
        .map(|filter| Subscription::Filter(filter, streams))
        .map_err(|error| Failure::usage(&error))
}

fn format(arguments: &ConsumeArguments) -> MessageFormat {
    if arguments.json {
        MessageFormat::Json
    } else if arguments.print.is_empty() {
        MessageFormat::Fields(vec![Field::Value])
    } else {
        MessageFormat::Fields(arguments.print.clone())
    }
}

impl Consumption<'_> {
    /// Reads up to where the logs end now, and tells how each partition went.
    fn run_to_the_end(
        &self,
        settings: &Settings,
        subscription: &Subscription,
    ) -> Result<(), Failure> {
        let report = Mutex::new(Vec::new());
        let join = |connector: &ConsumerConnector| subscription.join_bounded(connector);
        let result = session::run(settings, join, self.ending, |_, stream| {
            self.read(stream);
            // The last stream to end knows how it went.
            let mut report = report.lock().unwrap_or_else(PoisonError::into_inner);
            *report = stream.report();
        });
        for partition in report.into_inner().unwrap_or_else(PoisonError::into_inner) {
            match partition.outcome {
                BoundedOutcome::Reached | BoundedOutcome::HandedOver | BoundedOutcome::Reading => {
                    log::info!("{partition}");
                }
                _ => log::warn!("{partition}"),
            }
        }
        result
    }

    fn read(&self, stream: &mut MessageStream) {
        let mut piece = Vec::new();
        self.silence.broken();
        while !self.ending.is_due() {
            if self.budget.is_spent() {
                return self.ending.end();
            }
            match stream.next_batch(self.budget.at_most(BATCH), self.silence.slice()) {
                None => return,
                Some(Ok(batch)) => {
                    let write = || self.deliver(stream, &batch, &mut piece);
                    self.silence.while_busy(write);
                }
                Some(Err(StreamError::Timeout)) => {
                    if self.silence.is_over_the_limit() || self.output_is_closed() {
                        self.ending.end();
                    }
                }
                Some(Err(error)) => self.report(&error),
            }
        }
    }

    /// Writes as much of the batch as may be, and counts as consumed what was written: neither more, when
    /// another stream took the last of the budget or the pipe is closed, nor less.
    fn deliver(&self, stream: &mut MessageStream, batch: &[Message], piece: &mut Vec<u8>) {
        let granted = self.budget.claim(batch.len());
        let records = batch.iter().take(granted).map(Record::from);
        let written = self.output.write(records, piece);
        if written.messages == batch.len() {
            stream.mark_consumed();
        } else {
            let mut seen = HashSet::new();
            for message in batch.iter().take(written.messages).rev() {
                if seen.insert(message.topic_partition()) {
                    stream.mark_consumed_through(message);
                }
            }
            // Asking the stream again would count the rest.
            self.ending.end();
        }
        match written.result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                log::info!("standard output is closed");
            }
            Err(error) => self
                .ending
                .fail(Failure::runtime("writing to standard output", &error)),
        }
    }

    /// Looked at while nothing comes; otherwise the write tells.
    fn output_is_closed(&self) -> bool {
        let closed = self.output.is_closed();
        if closed {
            log::info!("standard output is closed");
        }
        closed
    }

    fn report(&self, error: &StreamError) {
        match self.on_bad_message {
            OnBadMessage::Skip if !matches!(error, StreamError::NoOffset { .. }) => {
                log::warn!("skipped: {error}");
            }
            _ => self.ending.fail(Failure::Runtime(error.to_string())),
        }
    }
}
