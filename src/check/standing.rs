//! Checks one standing: its keys against each other, and against its terms.

use super::store::{self, Comparison, StandingFacts, Sum, Total};
use super::{Check, Place, Repair, RepairOutcome, report};
use crate::domain::board::Board;
use crate::domain::period::Unit;
use crate::domain::plan::stretch;
use crate::domain::series::{List, Standing};
use crate::domain::shard::Shard;
use crate::domain::window::Window;
use crate::redis::kinds::Kind;
use crate::redis::{StoreError, keys};

/// How many members with different entries a check remembers. If there are more, it repairs nothing in the standing.
const CONFLICTS_MAX: usize = 1_000;

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
        let mut facts = facts_of(shard, kind, of_events);
        let never_expires = facts.is_certain && facts.expires_at_ms.is_none();
        let (mut phase, mut cursor) = (String::new(), "0".to_owned());
        let (mut is_whole, mut of_derived) = (false, Vec::new());
        loop {
            let mut comparer = self.comparer(shard);
            if facts.conflicts.len() > CONFLICTS_MAX {
                comparer.repair = Repair::None;
            }
            let look = comparer
                .standing(kind, zset, &facts, (&phase, &cursor))
                .await;
            let is_gone = matches!(look, Ok(Comparison::Gone));
            if is_gone && phase.is_empty() && kind == Kind::Standing && never_expires {
                return self.report_lost_standing(shard, zset, &place).await;
            }
            let Some(part) = self.compared(&place, look)? else {
                return Ok(());
            };
            facts.note(&part.differences);
            if kind == Kind::Derived {
                of_derived.extend(part.differences);
            } else {
                self.report.add_all(shard, &place, part.differences);
            }
            let (next, next_cursor, was_whole) = part.progress;
            is_whole |= was_whole;
            // Then it is dropped or left unchanged.
            let is_hopeless = !facts.is_sound && of_derived.len() > CONFLICTS_MAX;
            let Some(next) = next.filter(|_| !is_hopeless) else {
                break;
            };
            (phase, cursor) = (next, next_cursor);
        }
        self.report.standings += 1;
        if shard.layout().summed && !is_whole && facts.is_sound {
            self.check_total(shard, zset, &place).await?;
        }
        if kind == Kind::Derived && !facts.is_sound {
            self.damaged.insert(zset.to_owned(), (place, of_derived));
            return Ok(());
        }
        self.report.add_all(shard, &place, of_derived);
        if facts.is_doubtful {
            self.doubtful.insert(zset.to_owned());
        }
        match of_events {
            Some(standing) => self.check_carried(shard, standing, zset).await,
            None => Ok(()),
        }
    }

    /// Reports a standing that was there, unless its last member was erased meanwhile.
    async fn report_lost_standing(
        &mut self,
        shard: &Shard,
        zset: &str,
        place: &Place,
    ) -> Result<(), StoreError> {
        if store::is_registered(self.store, shard, zset).await? {
            let detail = "it has disappeared, although it never expires";
            self.report.add(place, "lost", RepairOutcome::Left, detail);
        }
        Ok(())
    }

    /// Checks the total of a large standing, or of a damaged one.
    async fn check_total(
        &mut self,
        shard: &Shard,
        zset: &str,
        place: &Place,
    ) -> Result<(), StoreError> {
        let total = self.comparer(shard).total(zset).await;
        match self.unless_damaged(place, total)? {
            Some(Total::Agrees) | None => {}
            Some(Total::Changing) => self.report.unsure += 1,
            Some(Total::Differs {
                stored,
                sum,
                is_repaired,
            }) => {
                let detail = report::total(shard, stored, sum);
                self.report.add(place, "total", is_repaired.into(), detail);
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
        let ratio = (shard.amendment == 1).then_some(ratio.millionths());
        let sum = Sum::carried(standing, terms.collect(), ratio);
        self.check_sum(shard, &sum).await
    }
}

/// What is known of a standing at first: standings of events expire with their periods, others never.
fn facts_of(shard: &Shard, kind: Kind, of_events: Option<Standing>) -> StandingFacts {
    // With later revisions the retention may have been different when the standing began.
    let is_first = shard.amendment == 1 && of_events.is_some();
    StandingFacts {
        expires_at_ms: of_events.and_then(|standing| shard.kept_until_ms(&standing.period)),
        is_certain: is_first || kind != Kind::Standing,
        conflicts: Vec::new(),
        is_doubtful: false,
        is_sound: true,
    }
}

/// Whether the base has everything that was added to the period: it has been recorded for at least as long.
fn has_whole_base(board: &Board, unit: Unit) -> bool {
    let own = board.epoch(Some(Window::Period(unit)));
    let is_of_unit = |window: &&Window| window.is_rolling() && window.unit() == unit;
    board
        .definition
        .windows
        .iter()
        .filter(is_of_unit)
        .map(|window| board.epoch(Some(*window)))
        .any(|epoch| epoch <= own)
}
