//! Finishes a period of a league as part of its closing, a few cohorts at a time.
//!
//! For each cohort with data it decides the cohort, turns its members' seats, records its result with rewards, and sets
//! when its keys expire. Each of these can be repeated, so progress is kept only in memory. Cohorts that have a result are
//! skipped quickly.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::store;
use super::turning::{self, CohortState, PAUSE_MS};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::board::store::boards;
use crate::core::jobs::Progress;
use crate::core::{Engine, Error, LiveBoard};
use crate::domain::league::Section;
use crate::domain::period::Period;
use crate::periods::results::recording::message_of;
use crate::periods::results::store::PeriodResult;
use crate::periods::{closings, results};
use crate::runtime::join::try_join_all;

/// How many cohorts of each shard one step handles.
const COHORTS_AT_ONCE: usize = 2;

/// A period of a league that is being closed.
#[derive(Debug)]
pub(crate) struct Turnover {
    period: Period,
    /// The cohort after which each shard continues, as the name of a section; `None`: the shard is done.
    after: Vec<Option<String>>,
}

impl Turnover {
    /// Starts to close a period.
    pub(crate) fn new(live: &LiveBoard, period: Period) -> Self {
        // All names of its cohorts sort after this.
        let first = format!("{}/", live.board.calendar.key(&period));
        Self {
            period,
            after: vec![Some(first); live.shards.len()],
        }
    }

    /// Advances it by a bounded step. [`Error::Again`]: the definition has changed; repeat the step.
    pub(crate) async fn step(
        &mut self,
        engine: &Engine,
        live: &LiveBoard,
    ) -> Result<Progress, Error> {
        let (store, unit) = (&engine.store, self.period.unit);
        // `0` follows `/`, which precedes the cohort in a name.
        let stop = format!("{}0", live.board.calendar.key(&self.period));
        let names = live
            .shards
            .iter()
            .zip(&self.after)
            .map(async |(live, after)| {
                let Some(after) = after else {
                    return Ok(Vec::new());
                };
                let range = (Bound::Excluded(&**after), Bound::Excluded(&*stop));
                let range = (range, false);
                closings::store::periods(store, &live.shard, unit, range, COHORTS_AT_ONCE).await
            });
        let names = try_join_all(names).await?;
        let sections: Vec<Section> = names
            .iter()
            .flatten()
            .map(|name| live.section_noted(unit, name))
            .collect::<Result<_, _>>()?;
        if !sections.is_empty() {
            turn_over(engine, live, &sections).await?;
            expire_cohorts(engine, live, &sections).await?;
        }
        self.after = names
            .into_iter()
            .map(|names| names.into_iter().nth(COHORTS_AT_ONCE - 1))
            .collect();
        if self.after.iter().any(Option::is_some) {
            return Ok(Progress::More);
        }
        end(engine, live, &self.period).await
    }
}

/// Decides cohorts of a period, turns their members' seats, and records their results and messages.
pub(crate) async fn turn_over(
    engine: &Engine,
    live: &LiveBoard,
    sections: &[Section],
) -> Result<(), Error> {
    let due = without_result(engine, live, sections).await?;
    let id = &live.board.id;
    let decided = due.iter().map(async |section| {
        match turning::decide_cohort(engine, id, *section).await? {
            CohortState::Decided => Ok(Some(*section)),
            CohortState::Empty => Ok(None),
            // A primary that had the barrier has failed.
            CohortState::Open => Err(Error::LeagueTurning(PAUSE_MS)),
        }
    });
    let decided: Vec<Section> = try_join_all(decided).await?.into_iter().flatten().collect();
    turning::turn_cohorts(engine, live, &decided).await?;
    // One caller at a time hands out the rewards of a shard.
    let mut of_shards: BTreeMap<usize, Vec<Section>> = BTreeMap::new();
    for section in decided {
        let index = section.cohort.map_or(0, |cohort| {
            live.board.shard_of_cohort(&section.period, cohort)
        });
        of_shards.entry(index).or_default().push(section);
    }
    let recorded = of_shards.into_values().map(async |sections| {
        for section in sections {
            results::recording::record(engine, live, &section).await?;
        }
        Ok::<_, Error>(())
    });
    try_join_all(recorded).await?;
    // Even if others have recorded them: they may have crashed before this note.
    Ok(board_notes::note(&engine.store, NotedFor::Outbox, &live.board).await?)
}

/// Has the result of a cohort recorded whose period is closed, even if the closing has not reached it. Returns true: if
/// there is no result then, there never will be one.
pub(crate) async fn finish_cohort(
    engine: &Engine,
    live: &LiveBoard,
    section: Section,
) -> Result<bool, Error> {
    let closings = boards::closings(&engine.store, &live.board.id).await?;
    // After that its keys may have expired.
    if closings.results_until < live.board.end_of(&section.period) {
        turn_over(engine, live, &[section]).await?;
    }
    Ok(true)
}

/// The cohorts that should have a result and have none yet.
async fn without_result(
    engine: &Engine,
    live: &LiveBoard,
    sections: &[Section],
) -> Result<Vec<Section>, Error> {
    let board = &live.board;
    if !board.has_result(&sections[0].period) {
        return Ok(Vec::new());
    }
    let names = sections.iter().map(|section| board.section_key(section));
    let (window, names) = (sections[0].window(), names.collect::<Vec<_>>());
    let results = results::store::read_many(&engine.store, board, window, &names).await?;
    Ok(sections
        .iter()
        .zip(results)
        .filter(|(_, result)| result.is_none())
        .map(|(section, _)| *section)
        .collect())
}

/// Sets when cohorts of a period expire.
async fn expire_cohorts(
    engine: &Engine,
    live: &LiveBoard,
    sections: &[Section],
) -> Result<(), Error> {
    let Some(expires_at_ms) = live.board.expires_at_ms(&sections[0].period) else {
        return Ok(());
    };
    let instants = (expires_at_ms, engine.clock.now());
    let expired = sections.iter().map(async |section| {
        let shard = &live.shard_of_cohort(*section).shard;
        closings::store::expire_period(&engine.store, shard, section, instants, None).await
    });
    // One step each: further steps are for voters, which a league does not count.
    Ok(try_join_all(expired).await.map(drop)?)
}

/// Ends a period whose cohorts all have results: lets the remaining keys expire, and records that it is final.
async fn end(engine: &Engine, live: &LiveBoard, period: &Period) -> Result<Progress, Error> {
    let (board, now) = (&live.board, engine.clock.now());
    let last_tier = board.settings_in(period).last_tier();
    if let Some(expires_at_ms) = board.expires_at_ms(period) {
        let expired = (0..=last_tier).map(async |tier| {
            let shard = &live.shards[board.shard_of_tier(period, tier)].shard;
            store::expire_tiers(&engine.store, shard, (period, &[tier]), expires_at_ms, now).await
        });
        try_join_all(expired).await?;
    }
    if board.has_result(period) {
        record_period(engine, live, period).await?;
    }
    Ok(Progress::Done)
}

/// Records, once, when a period of a league became final, with its message.
async fn record_period(engine: &Engine, live: &LiveBoard, period: &Period) -> Result<(), Error> {
    let (board, store, section) = (&live.board, &engine.store, Section::from(*period));
    let first = PeriodResult::empty(board, period, engine.clock.now());
    let cohorts = results::store::final_cohorts(store, board, period).await?;
    let message = message_of(board, &section, &first, Some(cohorts));
    results::store::record(store, board, &section, &first, &message, None).await?;
    // The recorder may have crashed before this note.
    Ok(board_notes::note(store, NotedFor::Outbox, board).await?)
}
