//! What standings have earned: which of them are worth a mirror.

use std::collections::HashMap;
use std::time::Instant;

use crate::domain::series::Standing;

/// What a read from a mirror saves Redis, what filling an entry costs it, and what a change costs, in microseconds.
const READ_US: i64 = 20;
const ENTRY_US: i64 = 2;
const CHANGE_US: i64 = 3;
/// What even the smallest standing has to earn.
const EARNED_MIN_US: i64 = 2_000;
/// How many standings of a shard are considered at the same time.
const STANDINGS_MAX: usize = 64;

/// What the standings of a shard have earned. This is the problem of renting skis: whoever buys once the rents add up to the
/// price never pays more than twice what was best in hindsight.
#[derive(Debug, Default)]
pub(super) struct Earnings {
    earned_us: HashMap<Standing, i64>,
    /// The count of changes up to which all have paid.
    paid_to: u64,
    /// Until when nothing is earned.
    refused_until: Option<Instant>,
}

impl Earnings {
    /// A read could have been answered by a mirror of this standing.
    pub(super) fn earn(&mut self, standing: Standing) {
        if self
            .refused_until
            .is_some_and(|until| Instant::now() < until)
        {
            return;
        }
        if self.earned_us.len() >= STANDINGS_MAX && !self.earned_us.contains_key(&standing) {
            let least = self.earned_us.iter().min_by_key(|(_, earned)| **earned);
            if let Some((&least, _)) = least {
                self.earned_us.remove(&least);
            }
        }
        let earned = self.earned_us.entry(standing).or_default();
        *earned = earned.saturating_add(READ_US);
    }

    /// All pay for the changes up to this count.
    pub(super) fn pay(&mut self, changes: u64) {
        let new = changes.saturating_sub(self.paid_to.min(changes));
        if self.paid_to > 0 && new > 0 {
            let paid = CHANGE_US.saturating_mul(i64::try_from(new).unwrap_or(i64::MAX));
            for earned in self.earned_us.values_mut() {
                *earned = earned.saturating_sub(paid).max(0);
            }
        }
        self.paid_to = changes;
    }

    /// Whether a standing has earned what it costs to fill its mirror with this many entries.
    pub(super) fn pays_for(&self, standing: Standing, entries: u64) -> bool {
        let earned = self.earned_us.get(&standing).copied().unwrap_or(0);
        earned
            >= if entries == 0 {
                READ_US
            } else {
                cost_us(entries)
            }
    }

    /// Bounds what a standing with this many entries has earned, so that a mirror that no longer pays is dropped soon.
    pub(super) fn bound(&mut self, standing: Standing, entries: u64) {
        if let Some(earned) = self.earned_us.get_mut(&standing) {
            *earned = (*earned).min(2 * cost_us(entries));
        }
    }

    /// Whether a standing has earned more than it has paid.
    pub(super) fn has_earned(&self, standing: Standing) -> bool {
        self.earned_us
            .get(&standing)
            .is_some_and(|earned| *earned > 0)
    }

    /// The standings that have earned something, the most first.
    pub(super) fn best(&self) -> Vec<Standing> {
        let mut all: Vec<_> = self
            .earned_us
            .iter()
            .filter(|(_, earned)| **earned > 0)
            .collect();
        all.sort_by_key(|(_, earned)| std::cmp::Reverse(**earned));
        all.into_iter().map(|(standing, _)| *standing).collect()
    }

    /// Nothing is earned until then.
    pub(super) fn refuse(&mut self, until: Instant) {
        self.refused_until = Some(until);
    }

    pub(super) fn forget(&mut self, standing: Standing) {
        self.earned_us.remove(&standing);
    }
}

/// What filling a mirror with this many entries costs, in microseconds.
fn cost_us(entries: u64) -> i64 {
    let entries = i64::try_from(entries).unwrap_or(i64::MAX / 8);
    ENTRY_US.saturating_mul(entries).max(EARNED_MIN_US)
}
