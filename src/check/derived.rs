//! Checks derived standings against the standings that they are the sum of.
//!
//! A wrong one is dropped, so that it is built again, if all of its terms exist and none is in doubt. Otherwise it is kept, since
//! it may show what the terms have lost.

use std::collections::HashSet;

use super::store::{Comparer, Sum};
use super::{Check, Place, Repair, RepairOutcome};
use crate::domain::board::Board;
use crate::domain::period::Period;
use crate::domain::plan::stretch;
use crate::domain::series::Derived;
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::moves;
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, keys};

impl Check<'_> {
    /// Checks the derived standings of a shard, after all others.
    pub(super) async fn check_all_derived(&mut self, shard: &Shard) -> Result<(), StoreError> {
        let mut readable = Vec::new();
        let mut is_dropped = false;
        for derived in shard.derived() {
            let place = Place::of_key(shard, &keys::state(shard, derived.series));
            let is_sound = self.doubtful.is_empty();
            let look = self.comparer(shard).state(&derived, is_sound).await;
            if let Some(part) = self.compared(&place, look)? {
                let differences = part.differences;
                is_dropped |= differences
                    .iter()
                    .any(|difference| difference.outcome == RepairOutcome::Repaired);
                readable.extend(differences.is_empty().then_some(derived));
                self.report.add_all(shard, &place, differences);
            }
        }
        if is_dropped {
            // Its standings have no state now.
            self.check_registered(shard, |kind| kind == Kind::Derived)
                .await?;
        }
        let mut damaged = HashSet::new();
        for (zset, (place, mut differences)) in std::mem::take(&mut self.damaged) {
            let outcome = self.drop_derived(shard, &zset, &place).await?;
            for difference in &mut differences {
                if difference.outcome != RepairOutcome::Repaired {
                    difference.outcome = outcome;
                }
            }
            self.report.add_all(shard, &place, differences);
            damaged.insert(zset);
        }
        for derived in readable {
            self.check_derived(shard, &derived, &damaged).await?;
        }
        Ok(())
    }

    /// Drops a derived standing whose keys contradict each other.
    async fn drop_derived(
        &mut self,
        shard: &Shard,
        zset: &str,
        place: &Place,
    ) -> Result<RepairOutcome, StoreError> {
        // It may belong to a window that was removed.
        let derived = keys::standing_of(shard, zset)
            .filter(|standing| keys::sorted_set(shard, standing) == zset)
            .and_then(|standing| Some((standing, shard.derived_as(standing.series)?)));
        let Some((standing, derived)) = derived else {
            return Ok(RepairOutcome::Left);
        };
        let history = stretch(shard, standing.period, derived.periods);
        let sum = Sum::derived(shard, &derived, standing.period, &history);
        if self.has_expired(shard, &history) || self.is_doubted(shard, &sum) {
            return Ok(RepairOutcome::Left);
        }
        // After a move, the new shards don't know of terms that expired before it.
        let has_moved = !shard.placement.former.is_empty();
        let comparer = self.comparer(shard);
        let only_look = Comparer {
            repair: Repair::None,
            ..comparer
        };
        let mut outcome = RepairOutcome::Left;
        for comparer in has_moved.then_some(only_look).into_iter().chain([comparer]) {
            let look = comparer.sum(&sum, true, (0, "0")).await;
            let Some(part) = self.compared(place, look)? else {
                return Ok(RepairOutcome::Left);
            };
            let (_, _, absent) = part.progress;
            if has_moved && absent > 0 {
                return Ok(RepairOutcome::Left);
            }
            let dropped = part.differences.first();
            outcome = dropped.map_or(outcome, |dropped| dropped.outcome);
        }
        Ok(outcome)
    }

    /// Compares the complete standings of a derived series with their terms.
    async fn check_derived(
        &mut self,
        shard: &Shard,
        derived: &Derived,
        damaged: &HashSet<String>,
    ) -> Result<(), StoreError> {
        let place = Place::of_key(shard, &keys::state(shard, derived.series));
        let entries = moves::store::derived_entries(self.store, shard, derived.series).await;
        let Some(entries) = self.unless_damaged(&place, entries)? else {
            return Ok(());
        };
        let unit = derived.window.unit();
        for entry in entries.iter().filter(|entry| entry.done) {
            let start = Timestamp::from_ms_clamped(entry.start);
            let period = shard.calendar.containing(unit, start);
            let history = stretch(shard, period, derived.periods);
            if period.start_ms != entry.start || self.has_expired(shard, &history) {
                continue;
            }
            let sum = Sum::derived(shard, derived, period, &history);
            if !damaged.contains(&keys::sorted_set(shard, &sum.standing)) {
                self.check_sum(shard, &sum).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn check_sum(&mut self, shard: &Shard, sum: &Sum) -> Result<(), StoreError> {
        let zset = keys::sorted_set(shard, &sum.standing);
        let place = Place::of_key(shard, &zset);
        let may_repair = !self.is_doubted(shard, sum) && self.comparer(shard).repair.writes();
        // The new shards of a board that has moved know nothing of terms that expired before.
        let has_moved = !shard.placement.former.is_empty();
        let mut may_drop = may_repair && !has_moved;
        let (mut term, mut cursor) = (0, "0".to_owned());
        loop {
            let mut comparer = self.comparer(shard);
            if !may_drop {
                comparer.repair = Repair::None;
            }
            let look = comparer.sum(sum, false, (term, &cursor)).await;
            // An unreadable member is reported with the standing that has it.
            if matches!(look, Err(StoreError::Unexpected(_)))
                && self.report.has("unreadable", &place)
            {
                return Ok(());
            }
            let Some(part) = self.compared(&place, look)? else {
                return Ok(());
            };
            let (next, next_cursor, absent) = part.progress;
            let differs = !part.differences.is_empty();
            if differs && has_moved && absent > 0 {
                self.report.note(format!(
                    "{} of {} differs from its remaining history",
                    keys::short(shard, &zset),
                    shard.tag()
                ));
                return Ok(());
            }
            if differs && may_repair && !may_drop {
                // It is checked again, now that all of its history is there.
                may_drop = true;
                continue;
            }
            self.report.add_all(shard, &place, part.differences);
            if next < 0 {
                return Ok(());
            }
            (term, cursor) = (next, next_cursor);
        }
    }

    /// Whether some of the terms of a sum are in doubt.
    fn is_doubted(&self, shard: &Shard, sum: &Sum) -> bool {
        sum.terms
            .iter()
            .any(|term| self.doubtful.contains(&keys::sorted_set(shard, term)))
    }

    /// Whether some of these periods may have expired.
    pub(super) fn has_expired(&self, shard: &Board, periods: &[Period]) -> bool {
        let now = self.clock.now().ms();
        let mut expires = periods.iter().map(|period| shard.expires_at_ms(period));
        expires.any(|expires| expires.is_some_and(|expires| expires <= now))
    }
}
