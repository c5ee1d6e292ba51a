//! `kzc demo`.

use std::io;
use std::io::Write;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use log::LevelFilter;

use crate::cli::demo::ledger::Ledger;
use crate::cli::demo::play::Play;
use crate::cli::demo::screen::Screen;
use crate::cli::demo::stage::Stage;
use crate::cli::demo::stage::TOPIC;
use crate::cli::demo::status::Status;
use crate::cli::demo::writer::Writer;
use crate::cli::embedded_arguments::DemoArguments;
use crate::cli::ending::Ending;
use crate::cli::failure::Failure;

/// Between two looks at everything.
const TICK: Duration = Duration::from_millis(200);

/// How long the members have, in the end, to read the last messages.
const LAST_MESSAGES: Duration = Duration::from_secs(20);

/// Plays everything, or as much as there is time for before a signal, and judges it.
pub(crate) fn demo(arguments: &DemoArguments, ending: &Ending) -> Result<(), Failure> {
    // Broken connections are what the demo is about, and the screen tells of them.
    if log::max_level() <= LevelFilter::Warn {
        log::set_max_level(LevelFilter::Error);
    }
    let ledger = Arc::new(Ledger::default());
    let screen = Arc::new(Screen::new(arguments.seconds));
    let result = perform(arguments, ending, &ledger, &screen);
    screen.close();
    result?;
    judge(&ledger)
}

/// Prints the verdict.
fn judge(ledger: &Ledger) -> Result<(), Failure> {
    let verdict = ledger.verdict();
    // Of no use to a closed pipe; the exit status says the most important.
    let _ = writeln!(io::stdout(), "\n{verdict}");
    verdict.failure().map_or(Ok(()), Err)
}

fn perform(
    arguments: &DemoArguments,
    ending: &Ending,
    ledger: &Arc<Ledger>,
    screen: &Arc<Screen>,
) -> Result<(), Failure> {
    let mut stage = Stage::set(arguments, ledger, screen)?;
    ending.defer_signals();
    let mut writer = Writer::start(TOPIC, stage.cluster().bootstrap(), ledger)?;
    let mut status = Status::new();
    let mut play = Play::new(arguments.seconds);
    for _ in 0..arguments.members {
        if !ending.is_due() {
            stage.join()?;
        }
    }
    let began = Instant::now();
    while !play.is_over(began.elapsed()) && ending.pause(TICK) {
        let played = began.elapsed();
        if let Some(act) = play.next(played) {
            stage.perform(act)?;
        }
        screen.show(played, &status.table(&stage, ledger.progress()));
    }
    screen.tell("writing ends, the members read the rest");
    writer.finish();
    let deadline = Instant::now() + LAST_MESSAGES;
    while ledger.progress().unread > 0 && Instant::now() < deadline {
        screen.show(began.elapsed(), &status.table(&stage, ledger.progress()));
        // A signal has been obeyed already; a second one ends the process.
        thread::sleep(TICK / 4);
    }
    stage.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::demo::ledger::Progress;
    use std::process::ExitCode;

    #[track_caller]
    fn wait_until(what: &str, ledger: &Ledger, is_so: impl Fn(Progress) -> bool) {
        let deadline = Instant::now() + LAST_MESSAGES;
        while !is_so(ledger.progress()) {
            let progress = ledger.progress();
            assert!(Instant::now() < deadline, "{what}: {progress:?}");
            thread::yield_now();
        }
    }

    /// Nobody had ever seen the demo find that something is missing.
    #[test]
    fn messages_that_were_acknowledged_and_never_read_end_the_demo_with_status_1() {
        let arguments = DemoArguments {
            seconds: Duration::from_secs(1),
            brokers: 1,
            members: 1,
        };
        let (ledger, screen) = (
            Arc::new(Ledger::default()),
            Arc::new(Screen::new(arguments.seconds)),
        );
        let mut stage = Stage::set(&arguments, &ledger, &screen).unwrap();
        let mut writer = Writer::start(TOPIC, stage.cluster().bootstrap(), &ledger).unwrap();
        wait_until("messages", &ledger, |progress| progress.written >= 100);
        writer.finish();
        let written = stage.cluster().describe();
        let lost = written.partition(TOPIC, 0).unwrap().log_end - 1;
        stage.cluster().truncate(TOPIC, 0, 1).unwrap();
        stage.join().unwrap();
        let lost = u64::try_from(lost).unwrap();
        wait_until("what is left", &ledger, |progress| progress.unread == lost);
        stage.clear();
        let failure = judge(&ledger).unwrap_err();
        assert!(lost > 0);
        let named = format!("{lost} messages lost: ");
        assert!(failure.text().starts_with(&named), "{}", failure.text());
        assert_eq!(failure.exit_code(), ExitCode::FAILURE);
    }
}
