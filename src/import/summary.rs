//! What became of the rows.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use indicatif::{HumanCount, HumanDuration};
use serde::{Deserialize, Serialize};

/// The kind of rejection of a row that was not sent, because it can't be read.
pub(super) const UNREADABLE: &str = "unreadable";
/// How many rejected rows of each kind are shown.
const EXAMPLES_MAX: usize = 3;
/// How many kinds of rejections are told apart.
const KINDS_MAX: usize = 32;
/// What stands for the kinds beyond them.
const OTHER_KINDS: &str = "other";
/// The longest text of others that is shown, in characters.
const TEXT_CHARS_MAX: usize = 200;

/// Everything was taken.
const STATUS_DONE: u8 = 0;
/// Some rows were rejected.
const STATUS_REJECTED: u8 = 2;

/// Counts of rows by what became of them.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Tally {
    /// Taken, and changed a standing.
    pub applied: u64,
    /// Taken, and changed none: a `max` that did not improve.
    pub unchanged: u64,
    /// Had been taken before.
    pub duplicate: u64,
    /// How many of `duplicate` were in requests that were sent again, because the answer was lost or the
    /// import was interrupted: most likely the first sending took them.
    pub duplicate_resent: u64,
    /// Not taken, by kind: the name of a problem, or `unreadable`.
    pub rejected: BTreeMap<String, Rejected>,
}

/// Rows that were rejected for the same reason.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Rejected {
    /// The reason, for people.
    pub title: String,
    /// How many rows.
    pub count: u64,
    /// The first few of them.
    pub examples: Vec<Example>,
}

/// A row that was rejected.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Example {
    /// The line on which it begins, from 1.
    pub line: u64,
    /// What exactly is wrong.
    pub detail: String,
}

/// What an import has done.
#[derive(Clone, Debug)]
pub struct Summary {
    /// How many rows the file has.
    pub rows: u64,
    /// What became of them, those of earlier runs of the same import included.
    pub tally: Tally,
    /// How many rows earlier runs had done.
    pub rows_before: u64,
    /// How long this run took.
    pub elapsed: Duration,
}

impl Tally {
    /// Counts a row that was not taken.
    pub(super) fn reject(&mut self, kind: &str, title: &str, line: u64, detail: &str) {
        let rejected = self.kind(kind, title);
        rejected.count += 1;
        if rejected.examples.len() < EXAMPLES_MAX {
            rejected.examples.push(Example {
                line,
                detail: shortened(detail),
            });
        }
    }

    fn kind(&mut self, kind: &str, title: &str) -> &mut Rejected {
        let is_room = self.rejected.len() < KINDS_MAX || self.rejected.contains_key(kind);
        let kind = if is_room {
            shortened(kind)
        } else {
            OTHER_KINDS.to_owned()
        };
        let rejected = self.rejected.entry(kind).or_default();
        if rejected.title.is_empty() {
            rejected.title = shortened(title);
        }
        rejected
    }

    /// Adds the counts of rows that come behind.
    pub(super) fn add(&mut self, later: &Self) {
        self.applied += later.applied;
        self.unchanged += later.unchanged;
        self.duplicate += later.duplicate;
        self.duplicate_resent += later.duplicate_resent;
        for (kind, more) in &later.rejected {
            let rejected = self.kind(kind, &more.title);
            rejected.count += more.count;
            let room = EXAMPLES_MAX.saturating_sub(rejected.examples.len());
            rejected
                .examples
                .extend(more.examples.iter().take(room).cloned());
        }
    }

    /// How many rows were not taken.
    pub fn rejected_count(&self) -> u64 {
        self.rejected.values().map(|rejected| rejected.count).sum()
    }
}

impl Summary {
    /// The exit status of the process: 0 if everything was taken, 2 if rows were rejected.
    pub fn exit_status(&self) -> u8 {
        if self.tally.rejected.is_empty() {
            STATUS_DONE
        } else {
            STATUS_REJECTED
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            applied,
            unchanged,
            duplicate,
            duplicate_resent,
            rejected,
        } = &self.tally;
        let done = self.rows.saturating_sub(self.rows_before);
        write!(f, "{} rows", HumanCount(self.rows))?;
        if self.rows_before > 0 {
            write!(f, ", {} of them now", HumanCount(done))?;
        }
        write!(f, " in {}", HumanDuration(self.elapsed))?;
        if let Some(rate) = rate(done, self.elapsed) {
            write!(f, ", {} a second", HumanCount(rate))?;
        }
        write!(f, "\n  applied    {:>12}", HumanCount(*applied).to_string())?;
        write!(
            f,
            "\n  unchanged  {:>12}",
            HumanCount(*unchanged).to_string()
        )?;
        write!(
            f,
            "\n  duplicate  {:>12}",
            HumanCount(*duplicate).to_string()
        )?;
        if *duplicate_resent > 0 {
            write!(
                f,
                "  ({} sent twice by this import, counted once)",
                HumanCount(*duplicate_resent)
            )?;
        }
        write!(
            f,
            "\n  rejected   {:>12}",
            HumanCount(self.tally.rejected_count()).to_string()
        )?;
        for (
            kind,
            Rejected {
                title,
                count,
                examples,
            },
        ) in rejected
        {
            write!(f, "\n    {kind} ({title}): {}", HumanCount(*count))?;
            for Example { line, detail } in examples {
                write!(f, "\n      line {line}: {detail}")?;
            }
        }
        Ok(())
    }
}

/// Rows a second, once there is something to divide by.
pub(super) fn rate(rows: u64, elapsed: Duration) -> Option<u64> {
    let rate = u128::from(rows) * 1_000_000 / elapsed.as_micros().max(1);
    (rows > 0).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// A text of others on one line and of bounded length, without what a terminal would obey.
pub(super) fn shortened(text: &str) -> String {
    let mut chars = text
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char });
    let mut short: String = chars.by_ref().take(TEXT_CHARS_MAX).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_shows_counts_and_the_first_examples() {
        let mut tally = Tally {
            applied: 1_234_567,
            duplicate: 9,
            duplicate_resent: 8,
            ..Tally::default()
        };
        for line in 2..7 {
            tally.reject("event-too-late", "Event too late", line, "long\nago");
        }
        let mut more = Tally::default();
        more.reject(UNREADABLE, "Row can't be read", 40, "no member");
        more.reject("event-too-late", "Event too late", 41, "long ago");
        tally.add(&more);
        let elapsed = Duration::from_secs(10);
        let summary = Summary {
            rows: 1_234_582,
            tally,
            rows_before: 1_000_000,
            elapsed,
        };
        assert_eq!(
            summary.to_string(),
            "1,234,582 rows, 234,582 of them now in 10 seconds, 23,458 a second\n  \
             applied       1,234,567\n  \
             unchanged             0\n  \
             duplicate             9  (8 sent twice by this import, counted once)\n  \
             rejected              7\n    \
             event-too-late (Event too late): 6\n      \
             line 2: long ago\n      \
             line 3: long ago\n      \
             line 4: long ago\n    \
             unreadable (Row can't be read): 1\n      \
             line 40: no member"
        );
        assert_eq!(summary.exit_status(), 2);
    }

    #[test]
    fn kinds_and_texts_are_bounded() {
        let mut tally = Tally::default();
        for kind in 0..100 {
            tally.reject(&format!("kind-{kind}"), &"x".repeat(1_000), 1, "");
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
