//! Checks one standing: its keys against each other, and against its terms.

use super::store::{self, Look, Manner, Sum, Total};
use super::{Check, Place, report};
use crate::domain::board::Board;
use crate::domain::period::{Period, Unit};
use crate::domain::plan::stretch;
use crate::domain::series::{Derived, List, Standing};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::moves;
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, keys};

impl Check<'_> {
    pub(super) async fn check_standing(
        &mut self,
        shard: &Shard,
        kind: Kind,
        zset: &str,
    ) -> Result<(), StoreError> {
        let place = Place::of_key(shard, zset);
        let standing = keys::standing_of(shard, zset);
        let of_events = standing.filter(|_| kind == Kind::Standing);
        let expires = of_events.and_then(|standing| shard.expires_at_ms(&standing.period));
        // With later revisions the retention may have been different when the standing began.
        let is_first = shard.revision == 1 && of_events.is_some();
        let (mut phase, mut cursor) = (String::new(), "0".to_owned());
        let (mut is_whole, mut is_sound) = (false, true);
        loop {
            let (store, manner, expiry) = (self.store, self.manner(shard), (expires, is_first));
            let part =
                store::check_standing(store, shard, kind, zset, expiry, (&phase, &cursor), manner);
            let part = part.await;
            let part = match self.unless_damaged(|| place.clone(), part)? {
                Some(Look::Found(part)) => part,
                Some(Look::Gone) => {
                    if phase.is_empty() && is_first && expires.is_none() {
                        let detail = "it was there, and is gone, though it never expires";
                        self.report.tell(place, "lost", false, detail);
                    }
                    return Ok(());
                }
                Some(Look::Impossible) | None => return Ok(()),
            };
            is_whole |= part.is_whole;
            is_sound &= part.differences.iter().all(|found| found.is_mended);
            self.report.tell_all(shard, &place, part.differences);
            let Some(next) = part.phase else { break };
            (phase, cursor) = (next, part.cursor);
        }
        self.report.standings += 1;
        if shard.layout().summed && !is_whole && is_sound {
            self.check_total(shard, zset, place).await?;
        }
        match of_events {
            Some(standing) => self.check_carried(shard, standing, zset).await,
            None => Ok(()),
        }
    }

    /// Checks the total of a large standing, or of a damaged one.
    async fn check_total(
        &mut self,
        shard: &Shard,
        zset: &str,
        place: Place,
    ) -> Result<(), StoreError> {
        let mends = self.manner(shard).mends;
        let total = store::check_total(self.store, shard, zset, mends).await;
        match self.unless_damaged(|| place.clone(), total)? {
            Some(Total::Agrees) | None => {}
            Some(Total::Changing) => self.report.unsure += 1,
            Some(Total::Differs {
                stored,
                sum,
                is_mended,
            }) => {
                let detail = report::total(shard, stored, sum);
                self.report.tell(place, "total", is_mended, detail);
            }
        }
        Ok(())
    }

    /// Compares a period's standing with carryover with the standings without it.
    async fn check_carried(
        &mut self,
        shard: &Shard,
        standing: Standing,
        zset: &str,
    ) -> Result<(), StoreError> {
        let List::Period(unit) = standing.series.list else {
            return Ok(());
        };
        let ratio = shard.definition.carryover.get(&unit);
        let is_current = keys::sorted_set(shard, &standing) == zset;
        let Some(ratio) = ratio.filter(|_| is_current && has_whole_base(shard, unit)) else {
            return Ok(());
        };
        let base = shard.base(unit, standing.series.track);
        let periods = stretch(shard, standing.period, 2);
        if self.has_expired(shard, &periods) {
            return Ok(());
        }
        let terms = periods.into_iter().map(|period| Standing::of(base, period));
        // The ratio may have been different.
        let ratio = (shard.revision == 1).then_some(ratio.millionths());
        let sum = Sum::carried(standing, terms.collect(), ratio);
        self.check_sum(shard, &sum).await
    }

    /// Whether some of these periods may have expired.
    fn has_expired(&self, shard: &Board, periods: &[Period]) -> bool {
        let now = self.clock.now().ms();
        let mut expires = periods.iter().map(|period| shard.expires_at_ms(period));
        expires.any(|expires| expires.is_some_and(|expires| expires <= now))
    }

    /// Compares the complete standings of a derived series with their terms.
    pub(super) async fn check_derived(
        &mut self,
        shard: &Shard,
        derived: &Derived,
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
            self.check_sum(shard, &sum).await?;
        }
        Ok(())
    }

    async fn check_sum(&mut self, shard: &Shard, sum: &Sum) -> Result<(), StoreError> {
        let zset = keys::sorted_set(shard, &sum.standing);
        let place = Place::of_key(shard, &zset);
        // The new shards of a board that has moved know nothing of terms that expired before.
        let has_moved = !shard.placement.former.is_empty();
        let mut may_drop = !has_moved;
        let (mut term, mut cursor) = (0, "0".to_owned());
        loop {
            let manner = self.manner(shard);
            let mends = manner.mends && may_drop;
            let look = Manner { mends, ..manner };
            let part = store::check_sum(self.store, shard, sum, (term, &cursor), look);
            let part = part.await;
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
                    "{} of {} differs from what is left of its history",
                    keys::short(shard, &zset),
                    shard.tag()
                ));
                return Ok(());
            }
            if !is_clear && manner.mends && !may_drop {
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
}

/// Whether the base has everything that was added to the period: it has been recorded for at least as long.
fn has_whole_base(board: &Board, unit: Unit) -> bool {
    let own = board.epoch(Some(Window::Period(unit)));
    let is_of_unit = |window: &&Window| window.is_rolling() && window.unit() == unit;
    let rolling = board.definition.windows.iter().filter(is_of_unit);
    let mut epochs = rolling.map(|window| board.epoch(Some(*window)));
    epochs.any(|epoch| epoch <= own)
}
