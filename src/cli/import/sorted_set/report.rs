//! What a run says of each sorted set, and of all.

use std::fmt;

use indicatif::{HumanBytes, HumanCount};

use super::args::{Task, Work};
use super::copy::SetCopy;
use super::transfer::{Counts, Transfer};
use crate::cli::import::cost::Cost;
use crate::cli::text::printable;
use crate::domain::period::Unit;

/// The outcome for one sorted set.
pub(super) struct Report<'a> {
    pub(super) transfer: &'a Transfer<'a>,
    pub(super) counts: &'a Counts,
}

/// The outcome for all of them.
pub(super) struct Totals<'a> {
    work: &'a Work,
    sets: u64,
    equal: u64,
    sent: u64,
    /// Members that differ afterwards, as far as is known.
    unequal: u64,
    only_here: u64,
}

impl Report<'_> {
    /// About how much memory the events take, in bytes.
    fn memory(&self) -> u64 {
        let Cost { entry, event } = Cost::of(&self.transfer.target.board.definition);
        let standings = self.transfer.target.board.recorded_units().count() as u64;
        self.counts.sent * (standings * entry + event)
    }

    fn fmt_sent(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transfer {
            work, target, set, ..
        } = self.transfer;
        let counts = self.counts;
        line(f, name_of_sent(work), counts.sent)?;
        if let Some(first) = counts.first.filter(|_| counts.sent > 0) {
            write!(f, "  from {first}")?;
            let others = target.others(set.period.unit, first);
            if !others.is_empty() {
                write!(f, ", also in {}", others.join(", "))?;
            }
        }
        if counts.duplicate > 0 {
            line(f, "duplicate", counts.duplicate)?;
            f.write_str("  accepted before, and erased or undone since")?;
        }
        if work.is_dry {
            let memory = HumanBytes(self.memory());
            write!(f, "\n  memory     about {memory} in Redis")?;
        }
        Ok(())
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Transfer {
            work, set, copy, ..
        } = self.transfer;
        let (counts, task) = (self.counts, work.task);
        let standing = match set.period.unit {
            Unit::All => Unit::All.to_string(),
            unit => format!("{unit} {}", self.transfer.target.key(&set.period)),
        };
        let members = HumanCount(copy.members.len() as u64);
        write!(f, "{}, {standing}: {members} members", printable(&set.key))?;
        line(f, "equal", counts.equal)?;
        if task != Task::Compare {
            self.fmt_sent(f)?;
        }
        if task != Task::Compare && work.sets.profiles_from_hash.is_some() {
            line(f, "profiles", counts.profiles)?;
        }
        for (name, count, hint) in [
            (
                "nameless",
                counts.nameless,
                "  in the hash, but not with a name",
            ),
            ("rounded", copy.rounded, ""),
            ("refused", copy.refused_count(), "  left out by --skip"),
            (
                "better",
                counts.better,
                "  here, so the board keeps that score",
            ),
            ("changing", counts.changing, "  while they were compared"),
        ] {
            if count > 0 {
                line(f, name, count)?;
                f.write_str(hint)?;
            }
        }
        if counts.different > 0 || task == Task::Compare {
            line(f, "different", counts.different)?;
            if task == Task::Import {
                f.write_str("  have another score here: --sync sends the difference")?;
            }
            for example in &counts.examples {
                write!(f, "\n    {example}")?;
            }
        }
        for (kind, (count, examples)) in &counts.rejected {
            line(f, "rejected", *count)?;
            write!(f, "  {kind}")?;
            for example in examples {
                write!(f, "\n    {example}")?;
            }
        }
        if task == Task::Compare {
            line(f, "only here", counts.only_here())?;
        }
        Ok(())
    }
}

fn name_of_sent(work: &Work) -> &'static str {
    if work.is_dry { "to send" } else { "sent" }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, count: u64) -> fmt::Result {
    let count = HumanCount(count).to_string();
    write!(f, "\n  {name:<10} {count:>12}")
}

impl<'a> Totals<'a> {
    pub(super) fn new(work: &'a Work) -> Self {
        Self {
            work,
            sets: 0,
            equal: 0,
            sent: 0,
            unequal: 0,
            only_here: 0,
        }
    }

    pub(super) fn add(&mut self, counts: &Counts, copy: &SetCopy) {
        self.sets += 1;
        self.equal += counts.equal;
        self.sent += counts.sent;
        self.unequal += counts.different
            + counts.better
            + counts.changing
            + counts.duplicate
            + counts.rejected_count()
            + copy.refused_count();
        if self.work.task == Task::Compare {
            self.only_here += counts.only_here();
        }
    }

    /// Whether all members have the same score in both places, as far as is known.
    pub(super) fn is_equal(&self) -> bool {
        self.unequal == 0 && self.only_here == 0
    }
}

impl fmt::Display for Totals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} sorted sets", HumanCount(self.sets))?;
        line(f, "equal", self.equal)?;
        if self.work.task != Task::Compare {
            line(f, name_of_sent(self.work), self.sent)?;
        }
        line(f, "not equal", self.unequal)?;
        if self.work.task == Task::Compare {
            line(f, "only here", self.only_here)?;
        }
        Ok(())
    }
}
