//! Figures of all rounds, and what is made of them.

use std::fmt::Write;

use serde_json::Value;
use serde_json::json;

use crate::rebalance::RebalanceRound;
use crate::workload::Round;
use crate::workload::Workload;

const MICROS: f64 = 1e6;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// What one reader did in one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) messages_per_second: f64,
    /// After start-up. `None` where it was not looked at.
    pub(crate) cpu_seconds_per_message: Option<f64>,
    /// `None` where it was not looked at.
    pub(crate) peak_resident_bytes: Option<f64>,
}

/// Collects figures, tells each round's while it goes, and sums up.
pub(crate) struct Report {
    rounds: usize,
    figures: Vec<Figure>,
}

/// One ratio with a goal, over all rounds.
struct Figure {
    workload: String,
    what: &'static str,
    unit: &'static str,
    goal: Goal,
    /// Ours and the other's.
    values: Vec<(f64, f64)>,
}

#[derive(Clone, Copy)]
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Report {
    pub(crate) fn new(rounds: usize) -> Self {
        Self {
            rounds,
            figures: Vec::new(),
        }
    }

    pub(crate) fn add_reading(&mut self, workload: &Workload, number: usize, round: &Round) {
        let (original, ours, limit) = (&round.original, &round.ours, &round.limit);
        let (of_original, of_limit) = workload.goals;
        eprintln!(
            "{} {number}/{}: messages per second: original {:.0}, ours {:.0}, limit {:.0}",
            workload.name,
            self.rounds,
            original.messages_per_second,
            ours.messages_per_second,
            limit.messages_per_second,
        );
        let speed = (ours.messages_per_second, original.messages_per_second);
        let goal = Goal::AtLeast(of_original);
        self.add(workload.name, "speed / original", "messages/s", goal, speed);
        let speed = (ours.messages_per_second, limit.messages_per_second);
        let goal = Goal::AtLeast(of_limit);
        self.add(workload.name, "speed / limit", "messages/s", goal, speed);
        if let (Some(ours), Some(original)) = (
            ours.cpu_seconds_per_message,
            original.cpu_seconds_per_message,
        ) {
            let cpu = (ours * MICROS, original * MICROS);
            let goal = Goal::AtMost(0.25);
            self.add(workload.name, "CPU / original", "us/message", goal, cpu);
        }
        if let (Some(ours), Some(original)) =
            (ours.peak_resident_bytes, original.peak_resident_bytes)
        {
            let memory = (ours / MEBIBYTE, original / MEBIBYTE);
            let goal = Goal::AtMost(0.125);
            self.add(workload.name, "memory / original", "MiB", goal, memory);
        }
    }

    pub(crate) fn add_rebalance(&mut self, number: usize, round: &RebalanceRound) {
        eprintln!(
            "rebalance {number}/{}: seconds: original {:.3}, ours {:.3}",
            self.rounds, round.original, round.ours
        );
        let seconds = (round.ours, round.original);
        let goal = Goal::AtMost(0.2);
        self.add("rebalance", "time / original", "s", goal, seconds);
    }

    /// Medians, also of the ratios: each ratio is of one round, since the speed of a host changes.
    pub(crate) fn table(&self) -> String {
        let mut table = String::from(
            "| workload | figure | unit | ours | other | ratio | least | most | goal | met |\n\
             |---|---|---|---|---|---|---|---|---|---|\n",
        );
        for figure in &self.figures {
            let ratios = figure.ratios();
            let (ours, others): (Vec<_>, Vec<_>) = figure.values.iter().copied().unzip();
            writeln!(
                table,
                "| {} | {} | {} | {} | {} | {:.3} | {:.3} | {:.3} | {} | {} |",
                figure.workload,
                figure.what,
                figure.unit,
                number(median(&ours)),
                number(median(&others)),
                median(&ratios),
                ratios.iter().copied().fold(f64::INFINITY, f64::min),
                ratios.iter().copied().fold(0.0, f64::max),
                figure.goal.text(),
                if figure.goal.is_met(median(&ratios)) {
                    "yes"
                } else {
                    "no"
                },
            )
            .expect("writing to a string");
        }
        table
    }

    pub(crate) fn json(&self) -> Value {
        let figure = |figure: &Figure| {
            json!({
                "workload": figure.workload,
                "figure": figure.what,
                "unit": figure.unit,
                "rounds": figure.values,
                "median_ratio": median(&figure.ratios()),
                "goal": figure.goal.text(),
                "met": figure.goal.is_met(median(&figure.ratios())),
            })
        };
        self.figures.iter().map(figure).collect()
    }

    fn add(
        &mut self,
        workload: &str,
        what: &'static str,
        unit: &'static str,
        goal: Goal,
        values: (f64, f64),
    ) {
        let is_same = |figure: &&mut Figure| figure.workload == workload && figure.what == what;
        match self.figures.iter_mut().find(is_same) {
            Some(figure) => figure.values.push(values),
            None => self.figures.push(Figure {
                workload: workload.to_owned(),
                what,
                unit,
                goal,
                values: vec![values],
            }),
        }
    }
}

impl Figure {
    fn ratios(&self) -> Vec<f64> {
        self.values
            .iter()
            .map(|(ours, other)| ours / other)
            .collect()
    }
}

impl Goal {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Self::AtLeast(least) => format!(">= {least}"),
            Self::AtMost(most) => format!("<= {most}"),
        }
    }
}

fn number(value: f64) -> String {
    match value {
        large if large >= 1000.0 => format!("{large:.0}"),
        small => format!("{small:.3}"),
    }
}

/// Of an even number the mean of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        0 => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}
