//! From the command line to an exit status.

use std::env;
use std::ffi::OsString;
use std::io;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use log::LevelFilter;

use crate::cli::arguments::Arguments;
use crate::cli::arguments::Command;
use crate::cli::consume::consume;
#[cfg(feature = "embedded")]
use crate::cli::demo::demo;
#[cfg(feature = "embedded")]
use crate::cli::dev_cluster::dev_cluster;
use crate::cli::ending::Ending;
use crate::cli::event_warnings::EVENTS;
use crate::cli::failure::Failure;
use crate::cli::perf::perf;
use crate::cli::produce::produce;

/// Where the library logs each broker that does not answer for the others.
const METADATA: &str = "kafka_zk_consumer::net::metadata_round";

/// Runs the tool with these words, the first of which is its own name.
pub(crate) fn run(words: impl Iterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(words) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Of no use to a closed terminal either.
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    start_log(arguments.verbose);
    match dispatch(&arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("kzc: {}", failure.text()));
            failure.exit_code()
        }
    }
}

/// A line on standard error. Unlike `eprintln`, no panic where that is closed.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn dispatch(command: &Command) -> Result<(), Failure> {
    let ending = Ending::on_signals()?;
    match command {
        Command::Consume(arguments) => consume(arguments, &ending),
        Command::Perf(arguments) => perf(arguments, &ending),
        Command::Produce(arguments) => produce(arguments, &ending),
        #[cfg(feature = "embedded")]
        Command::Demo(arguments) => demo(arguments, &ending),
        #[cfg(feature = "embedded")]
        Command::DevCluster(arguments) => dev_cluster(arguments, &ending),
    }
}

/// `RUST_LOG` replaces all of it.
fn start_log(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::Warn,
        1 => LevelFilter::Info,
        _ => LevelFilter::Debug,
    };
    let mut builder = env_logger::Builder::new();
    if env::var_os("RUST_LOG").is_none() {
        // The dependencies' own words are worth no more than a warning.
        builder
            .filter_level(LevelFilter::Warn)
            .filter_module("kafka_zk_consumer", level)
            .filter_module("kzc", level);
        if verbose == 0 {
            // The important ones are told by `EventWarnings`, and not in swarms.
            builder.filter_module(EVENTS, LevelFilter::Off);
            // Each broker that is away, several times a second; `Event::LeaderLookupFailed` says as much.
            builder.filter_module(METADATA, LevelFilter::Off);
        }
    }
    builder.parse_default_env().init();
}
