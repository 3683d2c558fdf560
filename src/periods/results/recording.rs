//! Records the results of final periods: a last read of each standing, kept permanently.

use std::collections::BTreeMap;

use futures::FutureExt;
use serde_json::json;

use super::store::{self, ChangeCounters, PeriodResult, Winner};
use crate::core::hide::store::erasures;
use crate::core::read::merge::Merged;
use crate::core::read::reader::Reader;
use crate::core::read::store::standings::{Page, Selection};
use crate::core::write::store::seats::HISTORY_LINES_MAX;
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::ids::{MemberId, shown_member};
use crate::domain::league::Section;
use crate::domain::message::{Message, MessageKind};
use crate::domain::series::{Standing, Track};
use crate::domain::state::PeriodState;
use crate::domain::window::Window;
use crate::periods::rewards::walk::Handing;
use crate::periods::turnover::turning;
use crate::periods::{revisions, rewards};
use crate::redis::Freshness;
use crate::runtime::join::try_join_all;

/// How many results one call reads.
const RESULTS_AT_ONCE: usize = 100;

/// The standing of a section that has results.
pub(crate) fn standing_of(board: &Board, section: &Section) -> Standing {
    Standing::of(board.series(section.window(), Track::Shown), *section)
}

/// Records the result of a final section of a unit among the board's windows, unless there is one. Its message is then in
/// the outbox. The caller notes the outbox even if another instance recorded the result, since that one may have crashed
/// before noting it.
///
/// # Errors
///
/// `Error::busy` if the barrier of a shard is not raised yet, or if hides keep interfering.
pub(crate) async fn record(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
) -> Result<(), Error> {
    engine
        .with_board(&live.board.id, async |live| {
            let known = store::read(&engine.store, &live.board, section).await?;
            if known.is_some() {
                return Ok(());
            }
            let mut handing = rewards::walk::begin_handing(engine, &live, section).await?;
            let recorded = record_first(engine, &live, section, &mut handing).await;
            handing.give_back().await?;
            recorded
        })
        .await
}

/// Records the first result of a final section, unless there is one.
async fn record_first(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    handing: &mut Handing,
) -> Result<(), Error> {
    let (board, store) = (&live.board, &engine.store);
    let forgetting = store::forgetting(store, board).await?;
    // The previous holder of the right to hand out may have recorded it.
    if store::read(store, board, section).await?.is_some() {
        return Ok(());
    }
    let result = make(engine, live, section, 1, handing).await?;
    let message = message_of(board, section, &result, None);
    Ok(store::record(store, board, section, &result, &message, Some(&forgetting)).await?)
}

/// Makes the result of a final section, and hands out its rewards.
pub(crate) async fn make(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    revision: u64,
    handing: &mut Handing,
) -> Result<PeriodResult, Error> {
    let (board, period) = (&live.board, &section.period);
    revisions::work::require_revoked(engine, board).await?;
    let before = change_counters(engine, live, section).await?;
    if section.cohort.is_none() {
        // A member that is being erased briefly disappears, and its line comes back. A later erasure changes the counters.
        // (Of a cohort only one shard is read, and reads of a final standing wait for that.)
        engine.forget_all(&board.id).await?;
    }
    let reader = Reader::new(engine, live, Freshness::Current);
    let first = Selection::Behind(0);
    let list = Merged::new(&reader, standing_of(board, section));
    let page = list.page(first, 1, None).boxed().await?;
    let now = engine.clock.now();
    if board.state_of(period, reader.seen(), now) != Some(PeriodState::Final) {
        let left = format!("a period of board {} is still being closed", board.id);
        return Err(Error::pending(left));
    }
    let rewards = rewards::walk::hand_out(engine, live, section, revision, handing).await?;
    if change_counters(engine, live, section).await? != before {
        return Err(Error::Again(Outdated::Read));
    }
    handing.position.clear();
    let hides = before.iter();
    Ok(PeriodResult {
        total: page.total,
        winner: winner_of(&page),
        revision,
        rewards,
        hides: hides.map(|(tag, of)| (tag.clone(), of.hides)).collect(),
        walked: before,
        league: turning::summary_of(engine, live, section).await?,
        ..PeriodResult::empty(board, period, now)
    })
}

/// Removes the name of an erased member from the results of a board and their revisions, if they may have it. Callers that
/// read the name earlier can't record it any more.
pub(crate) async fn forget_member(
    engine: &Engine,
    live: &LiveBoard,
    member: &MemberId,
) -> Result<(), Error> {
    let board = &live.board;
    if !board.closes_periods() {
        return Ok(());
    }
    store::begin_forgetting(&engine.store, board).await?;
    forget_wins(engine, live, member).await?;
    for window in &board.definition.windows {
        revisions::store::forget_member(&engine.store, board, *window, member).await?;
    }
    Ok(())
}

/// Removes the id of an erased member from the results that it won.
async fn forget_wins(engine: &Engine, live: &LiveBoard, member: &MemberId) -> Result<(), Error> {
    let board = &live.board;
    if let Some(names) = cohorts_left(engine, live, member).await? {
        for names in names.chunks(RESULTS_AT_ONCE) {
            let window = board.definition.windows[0];
            forget_winners(engine, board, window, names, member).await?;
        }
        return Ok(());
    }
    for window in &board.definition.windows {
        let mut before = None;
        loop {
            let between = (None, before.as_deref());
            let keys =
                store::final_periods(&engine.store, board, *window, between, RESULTS_AT_ONCE)
                    .await?;
            forget_winners(engine, board, *window, &keys, member).await?;
            before = keys.into_iter().nth(RESULTS_AT_ONCE - 1);
            if before.is_none() {
                break;
            }
        }
    }
    Ok(())
}

/// The names of all cohorts of a league in which an erased member had a seat; `None` if not all are known.
async fn cohorts_left(
    engine: &Engine,
    live: &LiveBoard,
    member: &MemberId,
) -> Result<Option<Vec<String>>, Error> {
    if !live.board.is_league() {
        return Ok(None);
    }
    let home = &live.shard_of(member).shard;
    let seats = erasures::seats_left(&engine.store, home, member).await?;
    // A longer history has lost its first lines.
    let is_all = seats.len() < HISTORY_LINES_MAX;
    let names = seats
        .into_iter()
        .map(|(start, cohort)| live.cohort_at(start, cohort))
        .map(|section| live.board.section_key(&section));
    Ok(is_all.then(|| names.collect()))
}

async fn forget_winners(
    engine: &Engine,
    board: &Board,
    window: Window,
    names: &[String],
    member: &MemberId,
) -> Result<(), Error> {
    let recorded = store::read_many(&engine.store, board, window, names).await?;
    for (name, recorded) in names.iter().zip(recorded) {
        let Some(recorded) = recorded else { continue };
        let mut result = recorded.result.clone();
        match &mut result.winner {
            Some(winner) if winner.member.as_deref() == Some(member.as_str()) => {
                winner.member = None;
            }
            _ => continue,
        }
        store::replace(&engine.store, board, (window, name), &recorded, &result).await?;
    }
    Ok(())
}

/// The counters of the shards that a section depends on, by tag.
pub(crate) async fn change_counters(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
) -> Result<BTreeMap<String, ChangeCounters>, Error> {
    let of_shards = live.shards_moderating(*section).map(async |shard| {
        let change_counters = store::change_counters(&engine.store, &shard.shard).await?;
        Ok::<_, Error>((shard.shard.tag().to_owned(), change_counters))
    });
    Ok(try_join_all(of_shards).await?.into_iter().collect())
}

/// The first entry of a list.
pub(crate) fn winner_of(page: &Page) -> Option<Winner> {
    let first = page.entries.first()?;
    Some(Winner {
        member: shown_member(&*first.member).map(ToOwned::to_owned),
        score: first.score,
        reached_at: first.reached_at,
    })
}

/// The webhook message of a final section. `cohorts`: for a whole period of a league, how many cohorts it has; the members
/// are in their messages.
pub(crate) fn message_of(
    board: &Board,
    section: &Section,
    result: &PeriodResult,
    cohorts: Option<u64>,
) -> Message {
    let (window, name) = (section.window(), board.section_key(section));
    let occasion = format!("{window}:{name}:{}", result.revision);
    let key = board.calendar.key(&section.period);
    let of_kind = |kind, data| Message::new(kind, board, &occasion, result.final_at, &data);
    if let (Some(cohort), Some(summary)) = (section.cohort, &result.league) {
        let league = board.settings_in(&section.period);
        let data = json!({
            "window": window.to_string(),
            "key": key,
            "cohort": league.cohort_name(cohort),
            "tier": league.tier(cohort.tier).name,
            "counted": summary.counted,
            "promoted": summary.promoted,
            "demoted": summary.demoted,
            "revision": result.revision,
        });
        return of_kind(MessageKind::LeagueTurned, data);
    }
    let mut data = json!({
        "window": window.to_string(),
        "key": key,
        "revision": result.revision,
        "starts_at": result.starts_at,
        "ends_at": result.ends_at,
        "total": cohorts.is_none().then_some(result.total),
    });
    if let Some(cohorts) = cohorts {
        data["cohorts"] = cohorts.into();
    }
    of_kind(MessageKind::PeriodFinal, data)
}
