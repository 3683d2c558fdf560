//! Revises the results of final periods after events were corrected.
//!
//! A correction of a closed period notes it in its shard (`scripts/corrections/correct.lua`). The result is made again, as it is
//! first made; it stores up to which correction of each shard it includes all. So any number of callers may revise at once, and
//! stop halfway.

use std::collections::BTreeMap;

use serde_json::json;

use super::store::{self, CorrectedPeriod, RevisedPeriod, Revision};
use super::work::is_kept;
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::hide::erasures::Revised;
use crate::core::{Engine, Error, LiveBoard, LiveShard};
use crate::domain::league::Section;
use crate::domain::message::{Message, MessageKind};
use crate::domain::problems::STANDING_PENDING;
use crate::domain::shard::Shard;
use crate::periods::results;
use crate::periods::results::store::{PeriodResult, RecordedResult};
use crate::periods::rewards;

/// The number of the last correction of each shard, by tag; empty if none can be.
pub(super) async fn counters(
    engine: &Engine,
    live: &LiveBoard,
) -> Result<BTreeMap<String, u64>, Error> {
    let mut counters = BTreeMap::new();
    // Without a history nothing is corrected.
    let is_possible = live.board.history.is_some() && live.board.closes_periods();
    for LiveShard { shard, .. } in live.shards.iter().filter(|_| is_possible) {
        let of_shard = results::store::change_counters(&engine.store, shard).await?;
        counters.insert(shard.tag().to_owned(), of_shard.corrected);
    }
    Ok(counters)
}

/// Whether results of a board do not include all corrections.
pub(crate) async fn is_any_left(engine: &Engine, live: &LiveBoard) -> Result<bool, Error> {
    for LiveShard { shard, .. } in &live.shards {
        if !store::corrected_periods(&engine.store, shard)
            .await?
            .is_empty()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Revises the result of one period that was corrected by then. Returns whether there was one.
pub(super) async fn revise_one(
    engine: &Engine,
    live: &LiveBoard,
    due: &Revised,
) -> Result<bool, Error> {
    for LiveShard { shard, .. } in &live.shards {
        // Most have none.
        if !due.has_corrected(shard.tag(), 1) {
            continue;
        }
        let is_due = |one: &CorrectedPeriod| due.has_corrected(shard.tag(), one.number);
        let corrected = store::corrected_periods(&engine.store, shard).await?;
        for corrected in corrected.into_iter().filter(is_due) {
            if revise_period(engine, live, shard, &corrected).await? {
                store::end_corrected(&engine.store, shard, &corrected).await?;
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Has the result of a period include its corrections. Returns false if it is still being closed: then its result will.
async fn revise_period(
    engine: &Engine,
    live: &LiveBoard,
    shard: &Shard,
    corrected: &CorrectedPeriod,
) -> Result<bool, Error> {
    let board = &live.board;
    let Some(section) = board.section_titled(&corrected.title) else {
        return Ok(true);
    };
    let Some(seen) = results::store::read(&engine.store, board, &section).await? else {
        return record(engine, live, &section).await;
    };
    if includes(&seen.result, shard, corrected)
        || !is_kept(board, &section.period, engine.clock.now())
    {
        return Ok(true);
    }
    let mut handing = rewards::walk::begin_handing(engine, live, &section).await?;
    let revised = revise(engine, live, &section, &seen, &mut handing).await;
    handing.give_back().await?;
    revised?;
    Ok(true)
}

/// Whether a result includes the corrections of a period, or none of them shows in it.
fn includes(result: &PeriodResult, shard: &Shard, corrected: &CorrectedPeriod) -> bool {
    let walked = result.walked.get(shard.tag());
    let is_walked = walked.is_some_and(|walked| walked.corrected >= corrected.number);
    let hides = result.hides.get(shard.tag()).copied().unwrap_or(0);
    is_walked || corrected.line > 0 && hides >= corrected.line
}

/// Records the first result of a period that had no entries when it was closed. Returns false if it is still being closed.
async fn record(engine: &Engine, live: &LiveBoard, section: &Section) -> Result<bool, Error> {
    let board = &live.board;
    let closes = |end| board.closes(end);
    if !board.end_of(&section.period).is_some_and(closes) {
        // It had ended before `finalize` was set.
        return Ok(true);
    }
    match results::recording::record(engine, live, section).await {
        Ok(()) => {
            board_notes::note(&engine.store, NotedFor::Outbox, board).await?;
            Ok(true)
        }
        Err(Error::Busy(problem)) if problem.kind == STANDING_PENDING => Ok(false),
        Err(error) => Err(error),
    }
}

async fn revise(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    seen: &RecordedResult,
    handing: &mut rewards::walk::Handing,
) -> Result<(), Error> {
    let board = &live.board;
    let forgetting = results::store::forgetting(&engine.store, board).await?;
    let revision = seen.result.revision + 1;
    let made = results::recording::make(engine, live, section, revision, handing).await?;
    let now = engine.clock.now();
    let change = Revision {
        at: now,
        members: Vec::new(),
        corrected: true,
        total_before: seen.result.total,
        total: made.total,
    };
    let result = PeriodResult {
        total: made.total,
        winner: made.winner,
        revision,
        rewards: made.rewards,
        walked: made.walked,
        ..seen.result.clone()
    };
    let occasion = format!("{}:{revision}", board.section_title(section));
    let period = RevisedPeriod::new(board, section, revision);
    let data = json!({"periods": [period], "count": 1});
    let message = Message::new(MessageKind::PeriodRevised, board, &occasion, now, &data);
    let (store, results) = (&engine.store, (seen, &result));
    let change = (&[][..], &change, &forgetting);
    store::revise_result(store, board, section, results, change, Some(&message)).await?;
    Ok(board_notes::note(store, NotedFor::Outbox, board).await?)
}
