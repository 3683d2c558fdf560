//! Revises the results of final periods after members were hidden or brought back.
//!
//! Each line of a journal of hides revises the results whose standings have its member. A revision covers all lines that
//! its walk over the standing has seen. Lines are taken in order, and a result stores the last line of each shard that it
//! covers, so any number of callers may revise at once and stop half-way. A request that needs an up-to-date result revises
//! it; otherwise a job does.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use futures::FutureExt;
use serde_json::json;
use tokio::time::sleep;

use super::corrected;
use super::journals::{note_journal, note_journals};
use super::store::{self, JournalLine, Moderation, RevisedMember, RevisedPeriod, Revision};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::board::store::boards;
use crate::core::hide::erasures::Revised;
use crate::core::jobs::Progress;
use crate::core::read::merge::Merged;
use crate::core::read::reader::Reader;
use crate::core::read::store::standings::{SortKey, Visibility};
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::board::Board;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::Section;
use crate::domain::message::{Message, MessageKind};
use crate::domain::period::{Period, Unit};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;
use crate::domain::window::Window;
use crate::periods::results::recording::standing_of;
use crate::periods::results::store::{Forgetting, PeriodResult};
use crate::periods::results::{self, histories};
use crate::periods::rewards;
use crate::periods::rewards::walk::Handing;
use crate::redis::Freshness;
use crate::runtime::join::join_all;
use crate::webhooks::outbox;

/// How many sections are checked concurrently.
const SECTIONS_AT_ONCE: usize = 100;
/// How many lines one revision covers at most.
const COVERED_MAX: usize = 100;
/// If more lines than this wait, a request that hides a member helps to revise.
const WAITING_MAX: usize = COVERED_MAX;
/// How far the last noted line may fall behind the journal's last line: well below what a journal keeps
/// (`scripts/lib/hides.lua`).
const NOTED_BEHIND_MAX: u64 = 1_000;
/// How long requests that hide members wait for an erasure after a hide interfered with its revisions.
const TURN: Duration = Duration::from_millis(500);
/// How long they wait in all, and how often they check.
const HELD_MAX: Duration = Duration::from_secs(2);
const HELD_LOOK_AFTER: Duration = Duration::from_millis(20);
/// How many lines one step searches for one that is due: more than can wait on a board whose callers help.
const LINES_READ_MAX: usize = 1_000;
/// How many periods a message names at most.
const NAMED_MAX: usize = 100;

/// The journal line for which results are revised, and its context.
struct Cause<'a> {
    line: &'a JournalLine,
    /// The board's `forgetting` before anything looked for the member.
    forgetting: Forgetting,
}

/// Announces that a member of a shard is about to be hidden or brought back. While many lines wait, the caller first
/// revises by one of them, so hides can't outpace revisions.
pub(crate) async fn begin_moderation(
    engine: &Engine,
    board: &Board,
    shard: &Shard,
) -> Result<(), Error> {
    begin_change(engine, board).await?;
    if store::count_lines_to_revise(&engine.store, board).await? > WAITING_MAX {
        // The job reports a fault; the member is hidden anyway.
        let due = OnceLock::new();
        drop(revise_on(engine, &board.id, &due, false).boxed().await);
    }
    loop {
        let known = store::revised(&engine.store, board).await?;
        let last = results::store::change_counters(&engine.store, shard)
            .await?
            .hides;
        match known.get(shard.tag()) {
            None => {
                // All results already include earlier hides.
                store::note_lines(&engine.store, board, shard.tag(), (None, last), &[]).await?;
                return Ok(());
            }
            Some(known) if *known + NOTED_BEHIND_MAX >= last => return Ok(()),
            Some(known) => {
                note_journal(engine, board, shard, *known, false).await?;
            }
        }
    }
}

/// Announces that something is about to change which results have to follow, and waits while an erasure needs them unchanged.
pub(crate) async fn begin_change(engine: &Engine, board: &Board) -> Result<(), Error> {
    board_notes::note(&engine.store, NotedFor::Revision, board).await?;
    let until = Instant::now() + engine.store.timeouts.times(HELD_MAX);
    while store::is_moderation_held(&engine.store, board).await? && Instant::now() < until {
        sleep(HELD_LOOK_AFTER).await;
    }
    Ok(())
}

/// Refuses to make results while events are being revoked.
pub(crate) async fn require_revoked(engine: &Engine, board: &Board) -> Result<(), Error> {
    if board.revoking().is_none_or(|revoking| revoking.is_dry_run) {
        return Ok(());
    }
    boards::require_current(&engine.store, board).await?;
    let left = format!("events of board {} are being revoked", board.id);
    Err(Error::pending(left))
}

/// Revises the results of a board until they include all hides and corrections that were acknowledged before the call. Later hides may be
/// included, but are not waited for.
pub(crate) async fn revise(engine: &Engine, id: &BoardId) -> Result<Revised, Error> {
    revise_whole(engine, id, false).await
}

/// Like [`revise`], but makes requests that hide members wait: an erasure's walk along a standing counts only if nobody is
/// hidden meanwhile, and might never finish otherwise.
pub(crate) async fn revise_in_turn(engine: &Engine, id: &BoardId) -> Result<Revised, Error> {
    revise_whole(engine, id, true).await
}

async fn revise_whole(engine: &Engine, id: &BoardId, in_turn: bool) -> Result<Revised, Error> {
    let left = || format!("the results of board {id} are still being revised");
    let due = OnceLock::new();
    let step = || revise_on(engine, id, &due, in_turn);
    engine
        .take_steps(engine.steps_wait_max(), step, left)
        .await?;
    if in_turn {
        let live = engine.live_board(id).await?;
        store::release_moderation(&engine.store, &live.board).await?;
    }
    Ok(due.into_inner().unwrap_or_default())
}

/// Revises results of a board by a bounded step. `due`: the hides that must be included in the end; the first step sets it
/// to those that exist. `in_turn`: if a hide interferes, make requests that hide members wait for a while.
pub(super) async fn revise_on(
    engine: &Engine,
    id: &BoardId,
    due: &OnceLock<Revised>,
    in_turn: bool,
) -> Result<Progress, Error> {
    engine
        .step_with_board(id, async |live| {
            let revised = revise_due(engine, &live, due).await;
            if in_turn && matches!(revised, Err(Error::Again(_))) {
                let turn = engine.store.timeouts.times(TURN);
                store::hold_moderation(&engine.store, &live.board, turn).await?;
            }
            revised
        })
        .await
}

async fn revise_due(
    engine: &Engine,
    live: &LiveBoard,
    due: &OnceLock<Revised>,
) -> Result<Progress, Error> {
    let board = &live.board;
    // Each period gets one revision when all of its events are revoked.
    require_revoked(engine, board).await?;
    let due = if let Some(due) = due.get() {
        due
    } else {
        let mut noted = store::revised(&engine.store, board).await?;
        if note_journals(engine, live, &mut noted).await? {
            return Ok(Progress::More);
        }
        let corrected = corrected::counters(engine, live).await?;
        due.get_or_init(|| Revised::new(noted, corrected))
    };
    if corrected::revise_one(engine, live, due).boxed().await? {
        return Ok(Progress::More);
    }
    let is_due = |line: &JournalLine| due.up_to(&line.tag) >= Some(line.number);
    let lines = store::lines_to_revise(&engine.store, board, LINES_READ_MAX).await?;
    let Some(cause) = lines.into_iter().find(is_due) else {
        return Ok(Progress::Done);
    };
    revise_by(engine, live, &cause).await?;
    Ok(Progress::More)
}

/// Revises all results by a line, and posts its messages.
async fn revise_by(engine: &Engine, live: &LiveBoard, noted: &JournalLine) -> Result<(), Error> {
    let board = &live.board;
    let cause = &Cause {
        line: noted,
        forgetting: results::store::forgetting(&engine.store, board).await?,
    };
    if board.is_league() {
        revise_cohorts(engine, live, cause).await?;
    } else {
        let windows = board.definition.windows.iter();
        for unit in windows.filter_map(|window| match window {
            Window::Period(unit) => Some(*unit),
            Window::Rolling { .. } => None,
        }) {
            revise_before(engine, None, live, unit, cause).await?;
        }
    }
    let periods = store::revised_periods(&engine.store, board, noted).await?;
    let messages = messages_of(engine, board, noted, &periods).await?;
    if !messages.is_empty() {
        outbox::store::post(&engine.store, board, &messages).await?;
        board_notes::note(&engine.store, NotedFor::Outbox, board).await?;
    }
    Ok(store::end_line(&engine.store, board, noted).await?)
}

/// Revises the results of all cohorts in which the line's member had a seat and whose standings are still kept.
async fn revise_cohorts(engine: &Engine, live: &LiveBoard, cause: &Cause<'_>) -> Result<(), Error> {
    let (board, now) = (&live.board, engine.clock.now());
    let (seats, first) = histories::of_member(engine, live, &cause.line.member).await?;
    let kept: Vec<Section> = seats
        .into_iter()
        .filter(|section| is_kept(board, &section.period, now))
        .collect();
    for sections in kept.chunks(SECTIONS_AT_ONCE) {
        revise_sections(engine, live, sections, cause).await?;
    }
    match first {
        Some(first) => {
            let key = board.calendar.key(&first);
            revise_before(engine, Some(key), live, first.unit, cause).await
        }
        None => Ok(()),
    }
}

/// Revises the results of a unit by a line: all sections, or those before a key, whose standings are still kept.
async fn revise_before(
    engine: &Engine,
    mut before: Option<String>,
    live: &LiveBoard,
    unit: Unit,
    cause: &Cause<'_>,
) -> Result<(), Error> {
    let (board, window) = (&live.board, Window::Period(unit));
    let now = engine.clock.now();
    loop {
        let between = (None, before.as_deref());
        let keys =
            results::store::final_periods(&engine.store, board, window, between, SECTIONS_AT_ONCE)
                .await?;
        let sections: Vec<Section> = keys
            .iter()
            .filter_map(|key| board.section_named(unit, key))
            .collect();
        // They come in descending order of their ends.
        let kept = sections.partition_point(|section| is_kept(board, &section.period, now));
        revise_sections(engine, live, &sections[..kept], cause).await?;
        if keys.len() < SECTIONS_AT_ONCE || kept < sections.len() {
            return Ok(());
        }
        before = keys.into_iter().next_back();
    }
}

/// The webhook messages of a line.
async fn messages_of(
    engine: &Engine,
    board: &Board,
    cause: &JournalLine,
    periods: &[RevisedPeriod],
) -> Result<Vec<Message>, Error> {
    let occasion = format!("{}:{}", cause.tag, cause.number);
    let now = engine.clock.now();
    let message = |kind, data| Message::new(kind, board, &occasion, now, &data);
    let mut messages = Vec::new();
    if cause.says() == Moderation::Hidden {
        let members = std::slice::from_ref(&cause.member);
        // `None` if the hide has ended.
        let hidden = engine.hidden_among(&board.id, members).await?.pop();
        let hide = hidden.map(|(_, hide)| hide.id);
        messages.push(message(MessageKind::MemberHidden, json!({ "hide": hide })));
    }
    if !periods.is_empty() {
        let named = &periods[..periods.len().min(NAMED_MAX)];
        let data = json!({"periods": named, "count": periods.len()});
        messages.push(message(MessageKind::PeriodRevised, data));
    }
    Ok(messages)
}

/// Revises the results of some sections of a unit by a line.
async fn revise_sections(
    engine: &Engine,
    live: &LiveBoard,
    sections: &[Section],
    cause: &Cause<'_>,
) -> Result<(), Error> {
    let Some(first) = sections.first() else {
        return Ok(());
    };
    let board = &live.board;
    let names: Vec<String> = sections
        .iter()
        .map(|section| board.section_key(section))
        .collect();
    let results = results::store::read_many(&engine.store, board, first.window(), &names).await?;
    let recorded = sections.iter().zip(results);
    let sections: Vec<&Section> = recorded
        .filter_map(|(section, recorded)| {
            let is_due = !cause.line.is_in(&recorded?.result.hides);
            // The result of a whole period of a league names no member.
            let has_members = section.cohort.is_some() == board.is_league();
            (is_due && has_members).then_some(section)
        })
        .collect();
    let places = sections
        .iter()
        .map(|section| find(engine, live, section, &cause.line.member));
    let places = join_all(places).await;
    for (section, mark) in sections.into_iter().zip(places) {
        if mark?.is_some() {
            let mut handing = rewards::walk::begin_handing(engine, live, section).await?;
            let revised = revise_section(engine, live, section, cause, &mut handing).await;
            handing.give_back().await?;
            revised?;
        }
    }
    Ok(())
}

/// A member's place in a section, hidden or not.
async fn find(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    member: &MemberId,
) -> Result<Option<SortKey>, Error> {
    let reader = Reader::new(engine, live, Freshness::Current).with_visibility(Visibility::All);
    let list = Merged::new(&reader, standing_of(&live.board, section));
    let found = list.find(member).boxed().await?;
    Ok(found.map(|(mark, _)| mark))
}

/// Revises the result of a section by a line whose member is listed there.
async fn revise_section(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    cause: &Cause<'_>,
    handing: &mut Handing,
) -> Result<(), Error> {
    let board = &live.board;
    let Some(seen) = results::store::read(&engine.store, board, section).await? else {
        return Ok(());
    };
    if cause.line.is_in(&seen.result.hides) {
        // Another instance has revised it.
        return Ok(());
    }
    let mut result = seen.result.clone();
    result.revision += 1;
    // Hides came after the walk. A revision that includes more hides than it covers leaves nothing for the next ones to do.
    if results::recording::change_counters(engine, live, section).await? != result.walked {
        let made =
            results::recording::make(engine, live, section, result.revision, handing).await?;
        result = PeriodResult {
            total: made.total,
            winner: made.winner,
            rewards: made.rewards,
            walked: made.walked,
            ..result
        };
    }
    let covered = covered(engine, live, cause, &result).await?;
    let (lines, members) = revised_members(engine, live, section, &covered).await?;
    if lines.is_empty() {
        // The line's member was erased meanwhile.
        return Err(Error::Again(Outdated::Board));
    }
    let change = Revision {
        at: engine.clock.now(),
        members,
        corrected: false,
        total_before: seen.result.total,
        total: result.total,
    };
    for line in &covered {
        let known = result.hides.entry(line.tag.clone()).or_default();
        *known = line.number.max(*known);
    }
    let change = (&lines[..], &change, &cause.forgetting);
    let results = (&seen, &result);
    Ok(store::revise_result(&engine.store, board, section, results, change, None).await?)
}

/// The noted lines, the cause among them, that the walk of a result includes and that the result does not cover yet.
async fn covered(
    engine: &Engine,
    live: &LiveBoard,
    cause: &Cause<'_>,
    result: &PeriodResult,
) -> Result<Vec<JournalLine>, Error> {
    let mut noted = store::revised(&engine.store, &live.board).await?;
    note_journals(engine, live, &mut noted).await?;
    let walked: BTreeMap<String, u64> = result
        .walked
        .iter()
        .map(|(tag, of)| (tag.clone(), of.hides))
        .collect();
    let mut lines = store::lines_to_revise(&engine.store, &live.board, COVERED_MAX).await?;
    lines.retain(|line| line.is_in(&walked) && !line.is_in(&result.hides));
    if !lines.iter().any(|line| line.is_of_same(cause.line)) {
        lines.insert(0, cause.line.clone());
    }
    Ok(lines)
}

/// The lines whose members are listed in a section, and what happened to each member there.
async fn revised_members<'l>(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
    lines: &'l [JournalLine],
) -> Result<(Vec<&'l JournalLine>, Vec<RevisedMember>), Error> {
    let marks = lines
        .iter()
        .map(|line| find(engine, live, section, &line.member));
    let mut found = Vec::new();
    for (line, mark) in lines.iter().zip(join_all(marks).await) {
        found.extend(mark?.map(|mark| (line, mark.of_score())));
    }
    let (lines, marks): (Vec<&JournalLine>, Vec<SortKey>) = found.into_iter().unzip();
    let reader = Reader::new(engine, live, Freshness::Current);
    let list = Merged::new(&reader, standing_of(&live.board, section));
    let ahead = list.positions(marks).boxed().await?;
    let members = lines
        .iter()
        .zip(ahead)
        .map(|(line, ahead)| RevisedMember {
            action: line.says(),
            place: ahead + 1,
        })
        .collect();
    Ok((lines, members))
}

/// Whether the standings of a period are kept.
pub(super) fn is_kept(board: &Board, period: &Period, now: Timestamp) -> bool {
    let expires_ms = board.expires_at_ms(period);
    expires_ms.is_none_or(|expires_ms| expires_ms > now.ms())
}
