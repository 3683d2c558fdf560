//! The log: lines to standard error. Nothing waits for the log or fails because of it.
//!
//! A line goes into a buffer, and a thread writes it out. If nobody reads the other end of a pipe, the buffer becomes full
//! and further lines are lost. Lines that can't be written (a full disk, a closed pipe) are lost too. The metric
//! `standings_log_lines_lost_total` counts them, and when lines can be written again, one says how many were lost.
//!
//! `tracing-appender` would do most of that. But it does not count lines that it could not write. And at the end of the
//! program it prints to standard output, which may be the same pipe that nobody reads: the program would never end.

use std::io::{self, IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use metrics::counter;
use parking_lot::{Condvar, Mutex};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::LogFormat;
use crate::runtime::supervise;

/// How many bytes may wait to be written.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// How long the end of the program waits for lines to be written.
const FLUSH_TIME_MAX: Duration = Duration::from_secs(1);
/// The pause before the next attempt if standard error can't take a line at the moment.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The log that lines are put into. When it is dropped, waiting lines are written, unless that takes too long.
#[derive(Debug)]
pub struct Log(Arc<Buffer>);

#[derive(Debug, Default)]
struct Buffer {
    state: Mutex<State>,
    has_changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    is_writing: bool,
    /// How many lines were lost, and how many of them have been reported.
    lost: u64,
    told: u64,
}

impl Log {
    /// A log that a thread writes to this end.
    pub fn to(end: impl Write + Send + 'static) -> io::Result<Self> {
        let buffer = Arc::new(Buffer::default());
        let written = Arc::clone(&buffer);
        let writer = thread::Builder::new().name("log".to_owned());
        writer.spawn(move || written.write_to(end))?;
        Ok(Self(buffer))
    }

    /// Puts a line into the log, unchanged.
    pub fn line(&self, text: &str) {
        self.0.put(format!("{text}\n").as_bytes());
    }

    /// Sends all events of the program to this log, and panics too.
    pub fn record(&self, filter: &str, format: LogFormat) -> Result<(), ParseError> {
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::try_new(filter)?)
            .with_ansi(io::stderr().is_terminal())
            // It would print its errors to standard error, and panic if that fails.
            .log_internal_errors(false)
            .with_writer(Arc::clone(&self.0));
        match format {
            LogFormat::Text => subscriber.init(),
            LogFormat::Json => subscriber.json().init(),
        }
        std::panic::set_hook(Box::new(record_panic));
        Ok(())
    }
}

/// The standard library's hook waits for standard error, and panics again if that fails.
fn record_panic(panic: &PanicHookInfo<'_>) {
    let message = supervise::message_of(panic.payload());
    let place = panic.location().map(ToString::to_string);
    let backtrace = std::backtrace::Backtrace::capture();
    let is_captured = backtrace.status() == std::backtrace::BacktraceStatus::Captured;
    let backtrace = is_captured.then(|| backtrace.to_string());
    let thread = thread::current();
    tracing::error!(message, place, thread = thread.name(), backtrace, "a panic");
}

impl Drop for Log {
    fn drop(&mut self) {
        self.0.wait_until_written(FLUSH_TIME_MAX);
    }
}

impl Write for &Buffer {
    /// Takes everything or loses everything: it never fails, and never waits for the other end.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        self.put(lines);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    fn put(&self, lines: &[u8]) {
        let mut state = self.state.lock();
        if state.waiting.len() + lines.len() > WAITING_BYTES_MAX {
            state.lose(lines);
        } else {
            state.waiting.extend_from_slice(lines);
            self.has_changed.notify_all();
        }
    }

    /// Waits until everything is written or lost.
    fn wait_until_written(&self, time_max: Duration) {
        let end = Instant::now() + time_max;
        let mut state = self.state.lock();
        while state.is_writing || !state.waiting.is_empty() {
            if self.has_changed.wait_until(&mut state, end).timed_out() {
                return;
            }
        }
    }

    /// Takes what waits; waits until there is something.
    fn take(&self) -> Vec<u8> {
        let mut state = self.state.lock();
        state.is_writing = false;
        while state.waiting.is_empty() {
            self.has_changed.notify_all();
            self.has_changed.wait(&mut state);
        }
        state.is_writing = true;
        std::mem::take(&mut state.waiting)
    }

    /// Writes what is put in, forever.
    fn write_to(&self, mut end: impl Write) {
        let mut is_torn = false;
        loop {
            let lines = self.take();
            // Ends a line that was written in part.
            is_torn = is_torn && write_whole(&mut end, b"\n") == 0;
            let count = write_whole(&mut end, &lines);
            let (written, rest) = lines.split_at(count);
            is_torn = written.last().map_or(is_torn, |byte| *byte != b'\n');
            let mut state = self.state.lock();
            state.lose(rest);
            let untold = state.lost - state.told;
            if rest.is_empty() && untold > 0 {
                state.told = state.lost;
                drop(state);
                tracing::warn!(lines = untold, "log lines were lost");
            }
        }
    }
}

impl State {
    fn lose(&mut self, lines: &[u8]) {
        let count = lines.split_inclusive(|byte| *byte == b'\n').count();
        self.lost += u64::try_from(count).unwrap_or(u64::MAX);
        counter!("standings_log_lines_lost_total").absolute(self.lost);
    }
}

/// Writes as much as possible, and returns how much that was.
fn write_whole(end: &mut impl Write, lines: &[u8]) -> usize {
    let mut written = 0;
    while written < lines.len() {
        match end.write(&lines[written..]) {
            Ok(0) => break,
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Another program has made the shared pipe non-blocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                thread::sleep(RETRY_INTERVAL);
            }
            Err(_) => break,
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// An end whose writes are scripted, and that shows what it has received.
    struct End {
        told: mpsc::Receiver<io::Result<usize>>,
        got: mpsc::Sender<String>,
    }

    impl Write for End {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = self.told.recv().unwrap_or(Ok(usize::MAX))?.min(bytes.len());
            let text = String::from_utf8(bytes[..count].to_vec()).unwrap();
            // At the end of the test the receiver is gone.
            let _ = self.got.send(text);
            Ok(count)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Bench {
        log: Log,
        tell: mpsc::Sender<io::Result<usize>>,
        got: mpsc::Receiver<String>,
    }

    impl Bench {
        fn new() -> Self {
            let (tell, told) = mpsc::channel();
            let (got, getting) = mpsc::channel();
            let log = Log::to(End { told, got }).unwrap();
            Self {
                log,
                tell,
                got: getting,
            }
        }

        fn lost(&self) -> u64 {
            self.log.0.state.lock().lost
        }

        fn line_that_is(&self, text: &str, outcome: io::Result<usize>) {
            self.log.line(text);
            self.tell.send(outcome).unwrap();
        }

        fn flush(&self) {
            self.log.0.wait_until_written(Duration::from_mins(1));
        }
    }

    #[test]
    fn lines_that_cannot_be_written_are_dropped_and_counted() {
        let bench = Bench::new();
        bench.line_that_is("one", Ok(usize::MAX));
        assert_eq!(bench.got.recv().unwrap(), "one\n");
        bench.line_that_is("two", Err(io::ErrorKind::StorageFull.into()));
        bench.flush();
        assert_eq!(bench.lost(), 1);
        bench.line_that_is("three", Ok(2));
        assert_eq!(bench.got.recv().unwrap(), "th");
        bench
            .tell
            .send(Err(io::ErrorKind::BrokenPipe.into()))
            .unwrap();
        bench.flush();
        assert_eq!(bench.lost(), 2);
        bench.line_that_is("four", Err(io::ErrorKind::Interrupted.into()));
        for written in ["\n", "four\n"] {
            bench.tell.send(Ok(usize::MAX)).unwrap();
            assert_eq!(bench.got.recv().unwrap(), written);
        }
        assert_eq!(bench.lost(), 2);
    }

    #[test]
    fn nothing_waits_for_a_pipe_that_is_not_read() {
        let bench = Bench::new();
        let line = "x".repeat(1_023);
        for _ in 0..4_096 {
            bench.log.line(&line);
        }
        // What is being written, and what waits, is bounded; the rest was lost.
        let (lost, kept) = (bench.lost(), 2 * WAITING_BYTES_MAX as u64 / 1_024);
        assert!(lost >= 4_096 - kept, "{lost}");
        bench.log.0.wait_until_written(Duration::from_millis(1));
        drop(bench.tell);
        bench.log.0.wait_until_written(Duration::from_mins(1));
        let got: String = bench.got.try_iter().collect();
        assert_eq!(got.lines().count() as u64, 4_096 - lost);
        assert!(got.lines().all(|got| got == line));
    }

    #[test]
    fn the_number_of_lost_lines_is_written_once_lines_are_written_again() {
        let bench = Bench::new();
        let told = || bench.log.0.state.lock().told;
        bench.line_that_is("one\ntwo", Err(io::ErrorKind::StorageFull.into()));
        bench.flush();
        assert_eq!((bench.lost(), told()), (2, 0));
        bench.line_that_is("three", Ok(usize::MAX));
        bench.flush();
        assert_eq!(told(), 2);
    }
}
