//! Where the lines go.

use std::io;
use std::io::Stdout;
use std::io::Write;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::event::poll;

use crate::cli::message_format::MessageFormat;
use crate::cli::message_format::Record;

/// Lines are written in pieces of about this size.
const PIECE: usize = 64 * 1024;

/// Standard output, shared by the threads of all streams: whole lines only, counted.
#[derive(Debug)]
pub(crate) struct Output<W> {
    sink: Mutex<W>,
    format: MessageFormat,
    written: AtomicU64,
}

/// How many messages of a batch were written and flushed, and what stopped the rest.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) messages: usize,
    pub(crate) result: io::Result<()>,
}

impl Output<Stdout> {
    /// Whether its reader has gone. Only a write would tell otherwise, and there may be nothing to write for hours.
    pub(crate) fn is_closed(&self) -> bool {
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = PollFlags::ERR | PollFlags::HUP;
        let mut asked = [PollFd::new(&*sink, PollFlags::empty())];
        match poll(&mut asked, Some(&Timespec::default())) {
            Ok(_) => asked.iter().any(|fd| fd.revents().intersects(gone)),
            Err(_) => false,
        }
    }
}

impl<W: Write> Output<W> {
    pub(crate) fn new(sink: W, format: MessageFormat) -> Self {
        Self {
            sink: Mutex::new(sink),
            format,
            written: AtomicU64::new(0),
        }
    }

    /// Messages that were written.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Writes and flushes the messages. `piece` is a thread's own buffer, to be used again.
    pub(crate) fn write<'a>(
        &self,
        messages: impl IntoIterator<Item = Record<'a>>,
        piece: &mut Vec<u8>,
    ) -> Written {
        let mut written = Written {
            messages: 0,
            result: Ok(()),
        };
        let mut pending = 0;
        piece.clear();
        for message in messages {
            written.result = self.format.append(message, piece);
            if written.result.is_ok() {
                pending += 1;
                if piece.len() < PIECE {
                    continue;
                }
                written.result = self.flush(piece, &mut pending, &mut written.messages);
            }
            if written.result.is_err() {
                return written;
            }
        }
        written.result = self.flush(piece, &mut pending, &mut written.messages);
        written
    }

    fn flush(
        &self,
        piece: &mut Vec<u8>,
        pending: &mut usize,
        written: &mut usize,
    ) -> io::Result<()> {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        sink.write_all(piece)?;
        sink.flush()?;
        drop(sink);
        piece.clear();
        let messages = std::mem::take(pending);
        *written += messages;
        let messages = u64::try_from(messages).unwrap_or(u64::MAX);
        self.written.fetch_add(messages, Ordering::SeqCst);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kafka_zk_consumer::Headers;

    use super::*;
    use crate::cli::message_format::Field;

    /// Takes so many bytes and then is a closed pipe.
    struct Pipe {
        room: usize,
        flushed: usize,
        bytes: Vec<u8>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            if taken == 0 && !bytes.is_empty() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            self.room -= taken;
            self.bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.flushed = self.bytes.len();
            Ok(())
        }
    }

    fn output(room: usize) -> Output<Pipe> {
        let pipe = Pipe {
            room,
            flushed: 0,
            bytes: Vec::new(),
        };
        Output::new(pipe, MessageFormat::Fields(vec![Field::Value]))
    }

    fn records(count: usize, value: &[u8]) -> impl Iterator<Item = Record<'_>> {
        std::iter::repeat_n(value, count).map(|value| Record {
            topic: "orders",
            partition: 0,
            offset: 0,
            timestamp: None,
            headers: Headers::default(),
            key: None,
            value: Some(value),
        })
    }

    #[test]
    fn ten_messages_are_ten_lines_and_flushed() {
        let output = output(usize::MAX);
        let written = output.write(records(10, b"abc"), &mut Vec::new());
        assert!(written.result.is_ok());
        assert_eq!((written.messages, output.written()), (10, 10));
        let pipe = output.sink.into_inner().unwrap();
        assert_eq!(pipe.bytes, b"abc\n".repeat(10));
        assert_eq!(pipe.flushed, 40);
    }

    #[test]
    fn after_a_write_error_only_what_was_written_counts() {
        let value = vec![b'x'; PIECE - 1];
        let output = output(2 * PIECE + 100);
        let written = output.write(records(10, &value), &mut Vec::new());
        let error = written.result.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!((written.messages, output.written()), (2, 2));
    }
}
