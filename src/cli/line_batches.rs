//! Lines of standard input in batches.

use std::io;
use std::io::BufRead;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::mpsc::TryRecvError;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::cli::failure::Failure;
use crate::cli::line_parser::Line;
use crate::cli::line_parser::LineParser;

/// Most lines of a batch.
const LINES: usize = 1_000;

/// Most bytes of a batch of several lines: well below what brokers take at once.
const BYTES: usize = 256 * 1024;

/// How long to wait for a line before the caller looks whether the run has to end.
const SLICE: Duration = Duration::from_millis(100);

/// Gives out what has been read already, without waiting for a batch to fill.
#[derive(Debug)]
pub(crate) struct LineBatches {
    lines: Receiver<io::Result<Vec<u8>>>,
    parser: LineParser,
    /// Of the last line received, from 1.
    number: u64,
    /// A line that had no room in the last batch.
    held: Option<Line>,
    /// Told after the lines before it.
    failure: Option<Failure>,
}

/// What there is now.
#[derive(Debug)]
pub(crate) enum Next {
    Batch(Vec<Line>),
    /// No line came for a while.
    Silence,
    /// There will be no more lines.
    End,
    /// A line cannot be read, or is no message.
    Failed(Failure),
}

impl LineBatches {
    /// Starts to read standard input, in a thread that nothing can wake from its waiting: it ends with the process.
    pub(crate) fn of_standard_input(parser: LineParser) -> Result<Self, Failure> {
        let (sender, lines) = sync_channel(LINES);
        let read = move || {
            let mut input = io::stdin().lock();
            loop {
                let mut line = Vec::new();
                let read = match input.read_until(b'\n', &mut line) {
                    Ok(0) => return,
                    Ok(_) => Ok(line),
                    Err(error) => Err(error),
                };
                let is_over = read.is_err();
                if sender.send(read).is_err() || is_over {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name(String::from("stdin"))
            .spawn(read)
            .map_err(|error| Failure::runtime("starting a thread for standard input", &error))?;
        Ok(Self::new(lines, parser))
    }

    fn new(lines: Receiver<io::Result<Vec<u8>>>, parser: LineParser) -> Self {
        Self {
            lines,
            parser,
            number: 0,
            held: None,
            failure: None,
        }
    }

    pub(crate) fn next(&mut self) -> Next {
        if let Some(failure) = self.failure.take() {
            return Next::Failed(failure);
        }
        let mut batch: Vec<Line> = self.held.take().into_iter().collect();
        let mut bytes: usize = batch.iter().map(Line::len).sum();
        while batch.len() < LINES {
            match self.receive(batch.is_empty()) {
                Next::Batch(lines) => {
                    for line in lines {
                        if !batch.is_empty() && bytes + line.len() > BYTES {
                            self.held = Some(line);
                            return Next::Batch(batch);
                        }
                        bytes += line.len();
                        batch.push(line);
                    }
                }
                other if batch.is_empty() => return other,
                Next::Failed(failure) => {
                    self.failure = Some(failure);
                    break;
                }
                Next::Silence | Next::End => break,
            }
        }
        Next::Batch(batch)
    }

    /// One line, if it is there already, or comes in time for one who `waits`.
    fn receive(&mut self, waits: bool) -> Next {
        let received = if waits {
            self.lines.recv_timeout(SLICE)
        } else {
            self.lines.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            })
        };
        let line = match received {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Next::Silence,
            Err(RecvTimeoutError::Disconnected) => return Next::End,
        };
        self.number += 1;
        let line = line.map_err(|error| error.to_string());
        match line.and_then(|line| self.parser.parse(&line)) {
            Ok(line) => Next::Batch(vec![line]),
            Err(reason) => {
                let text = format!("line {}: {reason}", self.number);
                Next::Failed(Failure::Runtime(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(lines: Vec<Vec<u8>>, separator: Option<&str>) -> LineBatches {
        let (sender, receiver) = sync_channel(lines.len());
        for line in lines {
            sender.send(Ok(line)).unwrap();
        }
        LineBatches::new(receiver, LineParser::new(separator.map(str::to_owned)))
    }

    #[track_caller]
    fn sizes(batches: &mut LineBatches) -> Vec<usize> {
        match batches.next() {
            Next::Batch(batch) => batch.iter().map(Line::len).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_line_that_has_no_room_opens_the_next_batch() {
        let small = vec![b'x'; BYTES / 2];
        let large = vec![b'y'; BYTES * 3];
        let mut batches = batches(vec![small.clone(), large, small], None);
        assert_eq!(sizes(&mut batches), [BYTES / 2]);
        assert_eq!(sizes(&mut batches), [BYTES * 3]);
        assert_eq!(sizes(&mut batches), [BYTES / 2]);
        assert!(matches!(batches.next(), Next::End));
    }

    #[test]
    fn a_batch_has_no_more_lines_than_it_may() {
        let mut batches = batches(vec![b"x\n".to_vec(); LINES + 1], None);
        assert_eq!(sizes(&mut batches).len(), LINES);
        assert_eq!(sizes(&mut batches), [1]);
    }

    #[test]
    fn a_bad_line_is_told_by_its_number_after_those_before_it() {
        let lines = ["a:1\n", "b:2\n", "c3\n", "d:4\n"].map(|line| line.as_bytes().to_vec());
        let mut batches = batches(lines.to_vec(), Some(":"));
        assert_eq!(sizes(&mut batches).len(), 2);
        match batches.next() {
            Next::Failed(failure) => assert!(failure.text().starts_with("line 3: ")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn silence_is_not_the_end() {
        let (sender, receiver) = sync_channel(1);
        let mut batches = LineBatches::new(receiver, LineParser::new(None));
        assert!(matches!(batches.next(), Next::Silence));
        sender.send(Err(io::Error::other("torn"))).unwrap();
        assert!(matches!(batches.next(), Next::Failed(_)));
        drop(sender);
        assert!(matches!(batches.next(), Next::End));
    }
}
