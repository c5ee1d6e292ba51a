//! Where the demo shows what happens.

use std::io;
use std::io::IsTerminal;
use std::io::Write;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use indicatif::MultiProgress;
use indicatif::ProgressBar;
use indicatif::ProgressDrawTarget;
use indicatif::ProgressStyle;

/// Between two tables where there is no live display.
const PLAIN_PAUSE: Duration = Duration::from_secs(2);

/// Standard output: a table that is drawn anew below the lines on a terminal, else lines only.
#[derive(Debug)]
pub(super) struct Screen {
    began: Instant,
    display: Display,
}

#[derive(Debug)]
enum Display {
    Live {
        all: MultiProgress,
        time: ProgressBar,
        /// One for each line of the table, so that each is cut at the terminal's width.
        lines: Mutex<Vec<ProgressBar>>,
    },
    Plain {
        last_table: Mutex<Option<Instant>>,
    },
}

impl Screen {
    /// `length` is how long the progress bar is.
    pub(super) fn new(length: Duration) -> Self {
        let target = ProgressDrawTarget::stdout();
        // One that cannot move its cursor, such as TERM=dumb, would show nothing at all.
        let display = if io::stdout().is_terminal() && !target.is_hidden() {
            let all = MultiProgress::with_draw_target(target);
            let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
            let time = all.add(ProgressBar::new(millis).with_style(style("[{wide_bar}] {msg}")));
            Display::Live {
                all,
                time,
                lines: Mutex::default(),
            }
        } else {
            Display::Plain {
                last_table: Mutex::default(),
            }
        };
        Self {
            began: Instant::now(),
            display,
        }
    }

    /// An event, which stays on the screen. A closed standard output loses lines and nothing else.
    pub(super) fn tell(&self, line: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        let line = format!("{seconds:7.3}  {line}");
        match &self.display {
            Display::Live { all, .. } => {
                let _ = all.println(line);
            }
            Display::Plain { .. } => {
                let _ = writeln!(io::stdout(), "{line}");
            }
        }
    }

    /// How things stand, which replaces how they stood; elsewhere than on a terminal only once in a while.
    pub(super) fn show(&self, played: Duration, table: &[String]) {
        match &self.display {
            Display::Live { all, time, lines } => {
                time.set_position(u64::try_from(played.as_millis()).unwrap_or(u64::MAX));
                time.set_message(format!("{} s", played.as_secs()));
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                while lines.len() < table.len() {
                    lines.push(all.add(ProgressBar::new(0).with_style(style("{wide_msg}"))));
                }
                while lines.len() > table.len() {
                    if let Some(line) = lines.pop() {
                        line.finish_and_clear();
                        all.remove(&line);
                    }
                }
                for (line, text) in lines.iter().zip(table) {
                    line.set_message(text.clone());
                }
            }
            Display::Plain { last_table } => {
                let mut last = last_table.lock().unwrap_or_else(PoisonError::into_inner);
                if last.is_none_or(|last| last.elapsed() >= PLAIN_PAUSE) {
                    *last = Some(Instant::now());
                    for line in table {
                        self.tell(&format!("  {line}"));
                    }
                }
            }
        }
    }

    /// Takes the live display away; what is printed from now on stands below the events.
    pub(super) fn close(&self) {
        if let Display::Live { all, .. } = &self.display {
            let _ = all.clear();
            // Or each line, as it goes, draws those that are left once more.
            all.set_draw_target(ProgressDrawTarget::hidden());
        }
    }
}

/// The templates are constants of this file; should one be wrong, the default shows as much.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
