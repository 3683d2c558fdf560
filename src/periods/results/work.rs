//! Reads the results of periods, and closes a period before its wait is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::periods::{
    FoundPeriod, PeriodName, find_league_period, find_period, has_cohorts, has_data,
};
use super::store::{self, ChangeCounters};
use super::{digests, recording};
use crate::core::jobs::clock::trusted_now;
use crate::core::read::period::Choice;
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::problems::{NOT_FINALIZED, PERIOD_NOT_FOUND, Problem};
use crate::domain::state::PeriodState;
use crate::periods::{closings, revisions, turnover};
use crate::redis::StoreError;

/// A period, with the digest and revision state of its result.
#[derive(Clone, Debug)]
pub struct FoundResult {
    pub live: Arc<LiveBoard>,
    pub period: FoundPeriod,
    /// Whether some hides are not included yet.
    pub is_revising: bool,
    /// The digest of its result; `None` while it is being made, or if it can't be made any more.
    pub digest: Option<String>,
    /// The shards' counters of hides and erasures before the result was revised, by tag. The result includes them all
    /// unless `is_revising`.
    pub(crate) basis: BTreeMap<String, ChangeCounters>,
}

/// A period of a window, or one cohort of it, with its digest if it is final.
///
/// # Errors
///
/// As [`period_to_export`].
pub async fn read(
    engine: &Engine,
    at: &PeriodName,
    cohort: Option<&str>,
) -> Result<FoundResult, Error> {
    if cohort.is_none()
        && let Some(found) = league_period(engine, at).await?
    {
        return Ok(found);
    }
    let mut found = period_to_export(engine, at, cohort).await?;
    if let Some(result) = found.period.result.as_ref().filter(|_| !found.is_revising) {
        let section = &found.period.target.standing.section();
        let live = &found.live;
        found.digest = digests::of_result(engine, live, section, result, &found.basis).await?;
    }
    Ok(found)
}

/// Makes an ended period final, and every period of the board that ends no later. Returns its result; `None` if it has no
/// data.
pub async fn close_period(engine: &Engine, at: &PeriodName) -> Result<Option<FoundResult>, Error> {
    let (now, id) = (trusted_now(engine).await?, &at.board);
    let target = at.target(engine, &*engine.live_board(id).await?)?;
    // The copy in memory may be outdated.
    let board = engine.board(id).await?;
    let end = board.end_of(&target.standing.period);
    let Some(end) = end.filter(|end| *end <= now) else {
        return Err(Problem::period_running(id, &target.name(), end).into());
    };
    if !board.closes(end) {
        let detail = match board.finalize_since {
            None => format!("board {id} has no `finalize`"),
            Some(since) => {
                format!("the period had already ended when `finalize` was set, at {since}")
            }
        };
        return Err(Problem::new(NOT_FINALIZED, detail).into());
    }
    closings::work::close_until(engine, id, end).await?;
    let closed = PeriodName {
        choice: Choice::Key(target.key),
        ..at.clone()
    };
    match read(engine, &closed, None).await {
        Err(error) if error.is(PERIOD_NOT_FOUND) => Ok(None),
        found => found.map(Some),
    }
}

/// A whole period of a league; `None` on other boards.
async fn league_period(engine: &Engine, at: &PeriodName) -> Result<Option<FoundResult>, Error> {
    engine
        .with_board(&at.board, async |live| {
            if !live.board.is_league() {
                return Ok(None);
            }
            let target = at.target(engine, &live)?;
            if !has_cohorts(engine, &live, &target).await? {
                return Err(Problem::period_not_found(&at.board, &target.name()).into());
            }
            let period = find_league_period(engine, &live, target).await?;
            Ok(Some(FoundResult {
                live,
                period,
                is_revising: false,
                basis: BTreeMap::new(),
                digest: None,
            }))
        })
        .await
}

/// A period of a window, or one cohort of it in a league. A final result includes all hides acknowledged before the call,
/// as far as time allows.
///
/// # Errors
///
/// [`Problem::period_not_found`], or [`Problem::cohort_not_found`], if it has neither data nor a result;
/// [`Problem::cohort_required`] if the board is a league and no cohort is named.
pub async fn period_to_export(
    engine: &Engine,
    at: &PeriodName,
    cohort: Option<&str>,
) -> Result<FoundResult, Error> {
    let is_finished = AtomicBool::new(false);
    engine
        .with_board(&at.board, async |live| {
            let target = at.target(engine, &live)?.in_cohort(&live.board, cohort)?;
            let section = target.standing.section();
            let recorded = store::read(&engine.store, &live.board, &section).await?;
            let found = find_period(engine, &live, target, recorded).await?;
            if found.result.is_none() && !has_data(engine, &live, &found).await? {
                if let Some(cohort) = cohort {
                    return Err(found.target.cohort_not_found(&live.board, cohort));
                }
                return Err(Problem::period_not_found(&at.board, &found.target.name()).into());
            }
            let lacks_result = found.state == Some(PeriodState::Final) && found.result.is_none();
            if lacks_result && !is_finished.load(Ordering::Relaxed) {
                // A missing result never comes: the period ended before `finalize` was set.
                let finished = if section.cohort.is_some() {
                    turnover::work::finish_cohort(engine, &live, section).await?
                } else {
                    let finished = closings::work::finish(engine, &at.board).await?;
                    // A correction may have given it its first entry.
                    match revisions::work::revise(engine, &at.board).await {
                        Err(error) if !error.is_turn_of_others() => return Err(error),
                        _ => finished,
                    }
                };
                is_finished.store(finished, Ordering::Relaxed);
                return Err(Error::Again(Outdated::Read));
            }
            revised(engine, live, found).await
        })
        .await
}

/// A period whose result includes all hides, or is marked as revising.
async fn revised(
    engine: &Engine,
    live: Arc<LiveBoard>,
    mut period: FoundPeriod,
) -> Result<FoundResult, Error> {
    let (mut basis, mut is_revising) = (BTreeMap::new(), false);
    if period.result.is_some() {
        // The winner may have been erased.
        engine.forget_all(&live.board.id).await?;
        let section = period.target.standing.section();
        basis = recording::change_counters(engine, &live, &section).await?;
        is_revising = match revisions::work::revise(engine, &live.board.id).await {
            Ok(_) => false,
            // The job continues.
            Err(
                Error::Busy(_) | Error::Store(StoreError::Unavailable(_) | StoreError::Full(_)),
            ) => true,
            Err(error) => return Err(error),
        };
        period.take_over(store::read(&engine.store, &live.board, &section).await?);
    }
    Ok(FoundResult {
        live,
        is_revising,
        period,
        digest: None,
        basis,
    })
}
