//! The summary of an import: the outcomes of its rows.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use indicatif::{HumanCount, HumanDuration};
use serde::{Deserialize, Serialize};

use super::rejects::{Place, Rejection};
use super::sender::ItemStatus;
use crate::cli::text::printable;
use crate::domain::time::Timestamp;

/// How many rejected rows of each kind are shown.
const EXAMPLES_MAX: usize = 3;
/// How many kinds of rejections are distinguished.
const KINDS_MAX: usize = 32;
/// The name for all further kinds.
const OTHER_KINDS: &str = "other";

/// Every row was taken.
const STATUS_DONE: u8 = 0;
/// Some rows were rejected.
const STATUS_REJECTED: u8 = 2;

/// Counts of rows by outcome.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub(super) struct Tally {
    /// Taken, and changed a standing.
    pub(super) applied: u64,
    /// Taken, and changed none: a `max` that did not improve.
    pub(super) unchanged: u64,
    /// Had been taken before.
    pub(super) duplicate: u64,
    /// How many of `duplicate` were in requests that were sent again, because the response was lost or the import was
    /// interrupted: most likely they were taken the first time.
    pub(super) duplicate_resent: u64,
    /// Queued to be applied later.
    pub(super) queued: u64,
    /// How many had a generated id.
    pub(super) generated: u64,
    /// Profiles that were stored.
    pub(super) profiles: u64,
    /// Lines of an export that have no member any more.
    pub(super) skipped: u64,
    /// Not taken, by kind: the name of a problem, or `unreadable`.
    pub(super) rejected: BTreeMap<String, Rejected>,
}

/// Rows that were rejected for the same reason.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Rejected {
    /// The reason, for people.
    pub(super) title: String,
    /// How many rows.
    pub(super) count: u64,
    /// The first few of them.
    pub(super) examples: Vec<Example>,
}

/// A row that was rejected.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Example {
    #[serde(flatten)]
    pub(super) place: Place,
    pub(super) detail: String,
}

/// The result of an import.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    /// How many rows the file has.
    pub(super) rows: u64,
    /// Their outcomes, including those of earlier runs of the same import.
    pub(super) tally: Tally,
    /// How many rows earlier runs had done.
    pub(super) rows_before: u64,
    /// How long this run took.
    pub(super) elapsed: Duration,
    /// Whether it was a stream, so that generated ids do not follow from a file.
    pub(super) is_stream: bool,
    /// Until when the board remembers all of them; `None` if it has begun to forget.
    pub(super) remembered_until: Option<Timestamp>,
    /// The file of rejected rows.
    pub(super) rejects: Option<PathBuf>,
}

impl Tally {
    /// Counts a row that was rejected.
    pub(super) fn reject(&mut self, rejection: &Rejection) {
        let kind = rejection.kind.as_str();
        let is_room = self.rejected.len() < KINDS_MAX || self.rejected.contains_key(kind);
        let kind = if is_room { kind } else { OTHER_KINDS };
        let rejected = self.rejected.entry(kind.to_owned()).or_default();
        rejected.count += 1;
        if rejected.title.is_empty() {
            rejected.title.clone_from(&rejection.title);
        }
        if rejected.examples.len() < EXAMPLES_MAX {
            rejected.examples.push(Example {
                place: rejection.source.place,
                detail: rejection.detail.clone(),
            });
        }
    }

    /// Counts what was taken.
    pub(super) fn count(&mut self, status: ItemStatus) {
        match status {
            ItemStatus::Applied => self.applied += 1,
            ItemStatus::Unchanged => self.unchanged += 1,
            ItemStatus::Duplicate => self.duplicate += 1,
            ItemStatus::Queued => self.queued += 1,
            ItemStatus::Stored => self.profiles += 1,
            // Rows are counted with their reasons.
            ItemStatus::Rejected => {}
        }
    }

    /// Whether any event was taken.
    pub(super) fn has_events(&self) -> bool {
        self.applied + self.unchanged + self.duplicate + self.queued > 0
    }

    /// Adds the counts of further rows that were taken.
    pub(super) fn add(&mut self, more: &Self) {
        self.applied += more.applied;
        self.unchanged += more.unchanged;
        self.duplicate += more.duplicate;
        self.duplicate_resent += more.duplicate_resent;
        self.queued += more.queued;
        self.generated += more.generated;
        self.profiles += more.profiles;
        self.skipped += more.skipped;
    }

    /// Writes the kinds of rejections, with examples.
    pub(super) fn fmt_reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, of_kind) in &self.rejected {
            let (title, count) = (&of_kind.title, HumanCount(of_kind.count));
            write!(f, "\n    {kind} ({title}): {count}")?;
            for Example { place, detail } in &of_kind.examples {
                write!(f, "\n      {place}: {detail}")?;
            }
        }
        Ok(())
    }

    /// The exit status of the process: 0 if all rows were taken, 2 if some were rejected.
    pub(super) fn exit_status(&self) -> u8 {
        if self.rejected.is_empty() {
            STATUS_DONE
        } else {
            STATUS_REJECTED
        }
    }

    /// How many rows were rejected.
    pub(super) fn rejected_count(&self) -> u64 {
        self.rejected.values().map(|rejected| rejected.count).sum()
    }
}

impl Summary {
    fn fmt_rejected(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rejects {
            _ if self.tally.rejected.is_empty() => {}
            Some(path) => write!(f, "  (all in {})", printable(&path.display().to_string()))?,
            None => f.write_str("  (--rejects FILE writes all of them to a file)")?,
        }
        self.tally.fmt_reasons(f)
    }

    /// Writes what generated ids ensure.
    fn fmt_generated(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_stream {
            let text =
                "rows had no id and got a random one: importing them again counts them again";
            return f.write_str(text);
        }
        f.write_str(
            "rows had no id and got one from their place in this file. If you change the file, all of them count \
             again, so import fixed rows alone. Importing this file again ",
        )?;
        match self.remembered_until {
            Some(until) => write!(f, "is safe until {until}; later it is refused"),
            None => f.write_str("is refused from now on"),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = &self.tally;
        let done = self.rows.saturating_sub(self.rows_before);
        write!(f, "{} rows", HumanCount(self.rows))?;
        if self.rows_before > 0 {
            write!(f, ", {} of them in this run", HumanCount(done))?;
        }
        write!(f, " in {}", HumanDuration(self.elapsed))?;
        if let Some(rate) = rate(done, self.elapsed) {
            write!(f, ", {} per second", HumanCount(rate))?;
        }
        fmt_count(f, "applied", tally.applied)?;
        fmt_count(f, "unchanged", tally.unchanged)?;
        fmt_count(f, "duplicate", tally.duplicate)?;
        if tally.duplicate_resent > 0 {
            let resent = HumanCount(tally.duplicate_resent);
            write!(f, "  ({resent} sent before by this import, counted once)")?;
        }
        for (name, count) in [("queued", tally.queued), ("profiles", tally.profiles)] {
            if count > 0 {
                fmt_count(f, name, count)?;
            }
        }
        if tally.skipped > 0 {
            fmt_count(f, "skipped", tally.skipped)?;
            f.write_str("  (erased members)")?;
        }
        fmt_count(f, "rejected", tally.rejected_count())?;
        self.fmt_rejected(f)?;
        if tally.generated > 0 {
            write!(f, "\n{} ", HumanCount(tally.generated))?;
            self.fmt_generated(f)?;
        }
        Ok(())
    }
}

/// Writes a line with a count.
pub(super) fn fmt_count(f: &mut fmt::Formatter<'_>, name: &str, count: u64) -> fmt::Result {
    let count = HumanCount(count).to_string();
    write!(f, "\n  {name:<10} {count:>12}")
}

/// Rows per second, if there is a time to divide by.
pub(super) fn rate(rows: u64, elapsed: Duration) -> Option<u64> {
    let rate = u128::from(rows) * 1_000_000 / elapsed.as_micros().max(1);
    (rows > 0).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::rejects::Source;
    use super::*;
    use crate::cli::text::TEXT_CHARS_MAX;

    fn rejection(kind: &str, title: &str, line: u64, detail: &str) -> Rejection {
        let place = Place::Line(line);
        Rejection::new(Source { place, text: None }, kind, title, detail)
    }

    #[test]
    fn a_summary_shows_counts_and_the_first_examples() {
        let mut tally = Tally {
            applied: 1_234_567,
            duplicate: 9,
            duplicate_resent: 8,
            ..Tally::default()
        };
        for line in 2..7 {
            tally.reject(&rejection(
                "event-too-late",
                "Event too late",
                line,
                "long\nago",
            ));
        }
        tally.reject(&rejection(
            "unreadable",
            "Row can't be read",
            40,
            "has no member",
        ));
        tally.add(&Tally {
            duplicate: 1,
            generated: 1_000,
            ..Tally::default()
        });
        let elapsed = Duration::from_secs(10);
        let mut summary = Summary {
            rows: 1_234_582,
            tally,
            rows_before: 1_000_000,
            elapsed,
            is_stream: false,
            remembered_until: Some(Timestamp::parse("2026-11-21T12:00:00Z").unwrap()),
            rejects: Some("re\u{1b}jects.csv".into()),
        };
        assert_eq!(
            summary.to_string(),
            "1,234,582 rows, 234,582 of them in this run in 10 seconds, 23,458 per second\n  \
             applied       1,234,567\n  \
             unchanged             0\n  \
             duplicate            10  (8 sent before by this import, counted once)\n  \
             rejected              6  (all in re jects.csv)\n    \
             event-too-late (Event too late): 5\n      \
             line 2: long ago\n      \
             line 3: long ago\n      \
             line 4: long ago\n    \
             unreadable (Row can't be read): 1\n      \
             line 40: has no member\n\
             1,000 rows had no id and got one from their place in this file. If you change the file, all of them count \
             again, so import fixed rows alone. Importing this file again is safe until 2026-11-21T12:00:00.000Z; later it is \
             refused"
        );
        assert_eq!(summary.tally.exit_status(), 2);

        for (is_stream, expected) in [
            (false, "Importing this file again is refused from now on"),
            (true, "random one: importing them again counts them again"),
        ] {
            (summary.is_stream, summary.remembered_until) = (is_stream, None);
            let text = summary.to_string();
            assert!(text.ends_with(expected), "{text}");
        }
    }

    #[test]
    fn kinds_and_texts_are_bounded() {
        let mut tally = Tally::default();
        for kind in 0..100 {
            let title = "x".repeat(1_000);
            tally.reject(&rejection(&format!("kind-{kind}"), &title, 1, ""));
        }
        assert_eq!(tally.rejected.len(), KINDS_MAX + 1);
        assert_eq!(tally.rejected[OTHER_KINDS].count, 68);
        assert_eq!(tally.rejected_count(), 100);
        assert_eq!(
            tally.rejected["kind-1"].title.chars().count(),
            TEXT_CHARS_MAX + 1
        );
    }
}
