//! Shows the progress of an import on standard error: a bar on a terminal, otherwise a line now and then.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use tokio::time::{Interval, MissedTickBehavior};

use super::summary::rate;
use crate::cli::text::printable;

/// How often the bar is redrawn.
const BAR_INTERVAL: Duration = Duration::from_millis(250);
/// How often a line is written if there is no bar.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
const BAR_TEMPLATE: &str = "{wide_bar} {percent}% of {total_bytes} · {msg} · {eta} left";
/// For a stream, whose size isn't known.
const SPINNER_TEMPLATE: &str = "{spinner} {bytes} · {msg}";

/// Shows the progress of an import. May be used by several threads.
pub(super) struct ImportProgress {
    output: Output,
    bytes_total: Option<u64>,
    /// When this run began, and how many rows were done then, for its rate.
    begun: Mutex<(Instant, u64)>,
}

enum Output {
    Bar(ProgressBar),
    Lines(Mutex<Box<dyn Write + Send>>),
}

impl ImportProgress {
    /// On standard error. `bytes_total`: the stored size of the file; `None` for a stream.
    pub(super) fn on_stderr(bytes_total: Option<u64>) -> Self {
        let stderr = io::stderr();
        if !stderr.is_terminal() {
            return Self::lines(bytes_total, Box::new(stderr));
        }
        let (bar, template) = match bytes_total {
            Some(total) => (ProgressBar::new(total), BAR_TEMPLATE),
            None => (ProgressBar::new_spinner(), SPINNER_TEMPLATE),
        };
        // The templates are constants that a test parses; without a style the bar has its default one.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self::new(bytes_total, Output::Bar(bar))
    }

    pub(super) fn lines(bytes_total: Option<u64>, write: Box<dyn Write + Send>) -> Self {
        Self::new(bytes_total, Output::Lines(Mutex::new(write)))
    }

    fn new(bytes_total: Option<u64>, output: Output) -> Self {
        Self {
            output,
            bytes_total,
            begun: Mutex::new((Instant::now(), 0)),
        }
    }

    /// When to call [`ImportProgress::show`].
    pub(super) fn ticks(&self) -> Interval {
        let interval = match &self.output {
            Output::Bar(_) => BAR_INTERVAL,
            Output::Lines(_) => LINE_INTERVAL,
        };
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    }

    /// Shows a message once.
    pub(super) fn notice(&self, text: &str) {
        let text = printable(text);
        match &self.output {
            Output::Bar(bar) => bar.println(text),
            Output::Lines(write) => {
                // A closed standard error is no reason to stop the import.
                let _ = writeln!(write.lock(), "{text}");
            }
        }
    }

    /// Sets how many rows earlier runs have done: they don't count for the rate.
    pub(super) fn begin_at(&self, rows: u64) {
        *self.begun.lock() = (Instant::now(), rows);
    }

    /// Shows how many rows are done, and how many bytes of the file have been read for them.
    pub(super) fn show(&self, rows: u64, bytes_read: u64) {
        let (begun, rows_before) = *self.begun.lock();
        let rate = rate(rows.saturating_sub(rows_before), begun.elapsed()).unwrap_or(0);
        let done = format!(
            "{} rows · {} per second",
            HumanCount(rows),
            HumanCount(rate)
        );
        match (&self.output, self.bytes_total) {
            (Output::Bar(bar), _) => {
                bar.set_message(done);
                bar.set_position(bytes_read);
            }
            (Output::Lines(_), Some(total)) => {
                let percent = bytes_read.saturating_mul(100) / total.max(1);
                self.notice(&format!("{percent}% · {done}"));
            }
            (Output::Lines(_), None) => self.notice(&done),
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Output::Bar(bar) = &self.output {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_templates_are_valid() {
        for template in [BAR_TEMPLATE, SPINNER_TEMPLATE] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }
}
