//! Checks derived standings against the standings that they are the sum of.
//!
//! A wrong one is dropped, so that it is built again, if nothing of its terms is in doubt and all of them are there. Else it
//! may be what shows what they have lost.

use std::collections::HashSet;

use super::store::{self, Look, Sum};
use super::{Check, Outcome, Place, Repair};
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
            let (is_sound, repair) = (self.doubtful.is_empty(), self.manner(shard).repair);
            let checked = store::check_state(self.store, shard, &derived, is_sound, repair).await;
            let state = keys::state(shard, derived.series);
            let place = || Place::of_key(shard, &state);
            if let Some(differences) = self.unless_damaged(place, checked)? {
                is_dropped |= differences
                    .iter()
                    .any(|difference| difference.outcome == Outcome::Repaired);
                readable.extend(differences.is_empty().then_some(derived));
                self.report.tell_all(shard, &place(), differences);
            }
        }
        if is_dropped {
            // Its standings are without a state now.
            self.check_registered(shard, |kind| kind == Kind::Derived)
                .await?;
        }
        let mut damaged = HashSet::new();
        for (zset, (place, mut differences)) in std::mem::take(&mut self.damaged) {
            let outcome = self.drop_derived(shard, &zset, &place).await?;
            for difference in &mut differences {
                if difference.outcome != Outcome::Repaired {
                    difference.outcome = outcome;
                }
            }
            self.report.tell_all(shard, &place, differences);
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
    ) -> Result<Outcome, StoreError> {
        let repair = self.manner(shard).repair;
        // It may belong to a window that was removed.
        let derived = keys::standing_of(shard, zset)
            .filter(|standing| keys::sorted_set(shard, standing) == zset)
            .and_then(|standing| Some((standing, shard.derived_as(standing.series)?)));
        let Some((standing, derived)) = derived else {
            return Ok(Outcome::Left);
        };
        let history = stretch(shard, standing.period, derived.periods);
        let sum = Sum::derived(shard, &derived, standing.period, &history);
        if self.has_expired(shard, &history) || self.is_doubted(shard, &sum) {
            return Ok(Outcome::Left);
        }
        // The new shards of a board that has moved know nothing of terms that expired before.
        let has_moved = !shard.placement.former.is_empty();
        for repair in [has_moved.then_some(Repair::None), Some(repair)]
            .into_iter()
            .flatten()
        {
            let part = store::check_sum(self.store, shard, &sum, true, (0, "0"), repair).await;
            let Some(Look::Found(part)) = self.unless_damaged(|| place.clone(), part)? else {
                return Ok(Outcome::Left);
            };
            if has_moved && part.absent > 0 {
                return Ok(Outcome::Left);
            }
            if let (true, Some(dropped)) = (repair.writes(), part.differences.first()) {
                return Ok(dropped.outcome);
            }
        }
        Ok(Outcome::Left)
    }

    /// Compares the complete standings of a derived series with their terms.
    async fn check_derived(
        &mut self,
        shard: &Shard,
        derived: &Derived,
        damaged: &HashSet<String>,
    ) -> Result<(), StoreError> {
        let place = || Place::of_key(shard, &keys::state(shard, derived.series));
        let entries = moves::store::derived_entries(self.store, shard, derived.series).await;
        let Some(entries) = self.unless_damaged(place, entries)? else {
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
        let repair = if self.is_doubted(shard, sum) {
            Repair::None
        } else {
            self.manner(shard).repair
        };
        // The new shards of a board that has moved know nothing of terms that expired before.
        let has_moved = !shard.placement.former.is_empty();
        let mut may_drop = !has_moved;
        let (mut term, mut cursor) = (0, "0".to_owned());
        loop {
            let now = if may_drop { repair } else { Repair::None };
            let part = store::check_sum(self.store, shard, sum, false, (term, &cursor), now).await;
            let part = match part {
                // An unreadable member is reported with the standing that has it.
                Err(StoreError::Unexpected(_)) if self.report.has("unreadable", &place) => {
                    return Ok(());
                }
                part => part,
            };
            let Some(Look::Found(part)) = self.unless_damaged(|| place.clone(), part)? else {
                return Ok(());
            };
            let is_clear = part.differences.is_empty();
            if !is_clear && has_moved && part.absent > 0 {
                self.report.note(format!(
                    "{} of {} differs from its remaining history",
                    keys::short(shard, &zset),
                    shard.tag()
                ));
                return Ok(());
            }
            if !is_clear && repair.writes() && !may_drop {
                // It is checked again, now that all of its history is there.
                may_drop = true;
                continue;
            }
            self.report.tell_all(shard, &place, part.differences);
            if part.term < 0 {
                return Ok(());
            }
            (term, cursor) = (part.term, part.cursor);
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
