//! The words of the command line.

use std::path::PathBuf;

const USAGE: &str = "\
usage: cargo bench --features real-brokers --bench end_to_end -- [OPTIONS]
  --rounds N         rounds of each workload (default 5)
  --messages-100 N   messages of the workloads of 100 bytes (default 5000000)
  --messages-1000 N  messages of the workload of 1000 bytes (default 1000000)
  --partitions N     partitions of the rebalance (default 1000)
  --quick            a small run, to see that it works: its figures mean little
  --only NAME        one of plain-100, plain-1000, snappy-100, rebalance; may be repeated
  --kzc FILE         another build of kzc to measure instead of this one
  --json FILE        write the figures of all rounds there as well";

/// What to run.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) rounds: usize,
    pub(crate) messages_100: u64,
    pub(crate) messages_1000: u64,
    pub(crate) partitions: i32,
    pub(crate) kzc: PathBuf,
    pub(crate) json: Option<PathBuf>,
    only: Vec<String>,
}

impl Arguments {
    /// The error is the text to print.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            rounds: 5,
            messages_100: 5_000_000,
            messages_1000: 1_000_000,
            partitions: 1_000,
            kzc: PathBuf::from(env!("CARGO_BIN_EXE_kzc")),
            json: None,
            only: Vec::new(),
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .ok_or(format!("{word} lacks its value\n{USAGE}"))
            };
            match word.as_str() {
                // Cargo's own.
                "--bench" => {}
                "--quick" => arguments.shrink(),
                "--rounds" => arguments.rounds = number(&word, &value()?)?,
                "--messages-100" => arguments.messages_100 = number(&word, &value()?)?,
                "--messages-1000" => arguments.messages_1000 = number(&word, &value()?)?,
                "--partitions" => arguments.partitions = number(&word, &value()?)?,
                "--only" => arguments.only.push(value()?),
                "--kzc" => arguments.kzc = PathBuf::from(value()?),
                "--json" => arguments.json = Some(PathBuf::from(value()?)),
                _ => return Err(format!("{word} is unknown\n{USAGE}")),
            }
        }
        Ok(arguments)
    }

    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    fn shrink(&mut self) {
        self.rounds = 1;
        self.messages_100 = 400_000;
        self.messages_1000 = 100_000;
        self.partitions = 50;
    }
}

fn number<T: std::str::FromStr>(word: &str, value: &str) -> Result<T, String> {
    value
        .parse()
        .map_err(|_| format!("{word}: {value} is not a number\n{USAGE}"))
}
