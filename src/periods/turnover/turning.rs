//! Turns leagues over: decides the cohorts of ended periods, and applies the outcomes to the players.
//!
//! The first to need it does it: a member that takes its next seat, or the closing of the period (`work.rs`). A cohort is
//! decided once, from its standing and the hides at that moment, and everyone reads that record. A seat is turned by a
//! compare-and-set of the player. So any number of instances may repeat every step at once.

use std::collections::{BTreeMap, HashSet};

use futures::FutureExt;

use super::store::{self, DecisionRecord};
use crate::core::board::store::boards;
use crate::core::jobs::clock::trusted_now;
use crate::core::read::merge::{Merged, Start};
use crate::core::read::reader::{ReadSize, Reader};
use crate::core::read::store::standings::Visibility;
use crate::core::write::store::seats::{
    self, CALL_MEMBERS_MAX, PlayerChange, Stepped, StoredPlayer,
};
use crate::core::{Engine, Error, LiveBoard, Outdated};
use crate::domain::closing;
use crate::domain::ids::{BoardId, MemberId};
use crate::domain::league::decision::{Outcome, Placed, Summary};
use crate::domain::league::player::Turned;
use crate::domain::league::{COHORT_SIZES, Section};
use crate::domain::state::PeriodState;
use crate::domain::time::{Span, Timestamp};
use crate::periods::closings::barriers;
use crate::periods::results::{self, recording::standing_of};
use crate::redis::Freshness;
use crate::runtime::join::try_join_all;
use crate::runtime::throttle;

/// How long a caller should wait, in milliseconds, while the time of the closing is unknown.
pub(crate) const PAUSE_MS: u64 = 1_000;

/// The state of a cohort whose period has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CohortState {
    /// Its decision is stored.
    Decided,
    /// Nobody is listed, so there is nothing to decide.
    Empty,
    /// The period is not closed yet.
    Open,
}

/// A member whose seat is to be turned, and its outcome in the cohort's record.
struct Turning {
    member: MemberId,
    section: Section,
    outcome: Outcome,
}

/// Turns the seat of a member whose period has ended. Does nothing if there is no such seat.
///
/// # Errors
///
/// [`Error::LeagueTurning`] while the period can't be closed.
pub async fn turn_seat(engine: &Engine, id: &BoardId, member: &MemberId) -> Result<(), Error> {
    engine
        .with_board(id, async |live| {
            let home = &live.shard_of(member).shard;
            let seen = live.player(member).await?;
            let Some((seen, section)) = seen.and_then(|seen| with_section(&live, seen)) else {
                return Ok(());
            };
            let end = live.board.end_of(&section.period);
            if end.is_none_or(|end| end > engine.clock.now()) {
                return Ok(());
            }
            let outcome = outcome(engine, id, section, member).await?;
            let change = change_of(&live, member, seen, outcome.as_ref());
            match seats::write_players(&engine.store, home, &[change]).await?[..] {
                [Stepped::Done(())] => return Ok(()),
                [Stepped::Erasing] => engine.forget(id, member).await?,
                _ => {}
            }
            Err(Error::Again(Outdated::Board))
        })
        .await
}

/// The outcome of a member whose seat is not turned; `None` if the cohort never listed it.
async fn outcome(
    engine: &Engine,
    id: &BoardId,
    section: Section,
    member: &MemberId,
) -> Result<Option<Outcome>, Error> {
    engine
        .with_board(id, async |live| {
            let shard = &live.shard_of_cohort(section).shard;
            let standing = standing_of(&live.board, &section);
            let outcome = store::outcome(&engine.store, shard, &standing, member);
            if let Some(outcome) = outcome.await? {
                return Ok(outcome);
            }
            let closings = boards::closings(&engine.store, id).await?;
            if closings.results_until >= live.board.end_of(&section.period) {
                // The closing has turned all seats that count, even if the record has expired since.
                return Ok(None);
            }
            match decide_cohort(engine, id, section).await? {
                CohortState::Decided => {}
                CohortState::Empty => return Ok(None),
                CohortState::Open => {
                    let end = live
                        .board
                        .end_of(&section.period)
                        .expect("invariant: the periods of a league end");
                    close_league_until(engine, id, end).await?;
                }
            }
            Err(Error::Again(Outdated::Board))
        })
        .await
}

/// Decides a cohort whose period is closed, unless it is decided already.
pub(crate) async fn decide_cohort(
    engine: &Engine,
    id: &BoardId,
    section: Section,
) -> Result<CohortState, Error> {
    engine
        .with_board(id, async |live| {
            let (board, period) = (&live.board, &section.period);
            let shard = &live.shard_of_cohort(section).shard;
            let standing = standing_of(board, &section);
            let decided = store::summary(&engine.store, shard, &standing);
            if decided.await?.is_some() {
                return Ok(CohortState::Decided);
            }
            let seen = results::store::change_counters(&engine.store, shard).await?;
            let reader = Reader::new(engine, &live, Freshness::Current).of_size(ReadSize::Large);
            let entries = placed(engine, &reader, section, seen.hides > 0).await?;
            let (now, end) = (engine.clock.now(), board.end_of(period));
            // A read that has not seen the barrier doesn't wait for the removal of erased members either.
            let is_final = board.state_of(period, reader.seen(), now) == Some(PeriodState::Final);
            let Some(end) = end.filter(|_| is_final) else {
                return Ok(CohortState::Open);
            };
            if entries.is_empty() {
                return Ok(CohortState::Empty);
            }
            let tier = section.cohort.map_or(0, |cohort| cohort.tier);
            let decimals = board.definition.decimals;
            let (summary, outcomes) = board
                .settings_in(period)
                .decide(tier, decimals, now, entries);
            let decision = (&summary, &outcomes[..]);
            let recorded = store::record(&engine.store, shard, (&standing, end), seen, decision);
            match recorded.await? {
                DecisionRecord::Done => Ok(CohortState::Decided),
                DecisionRecord::Open => Ok(CohortState::Open),
                DecisionRecord::Moderated => Err(Error::Again(Outdated::Read)),
            }
        })
        .await
}

/// What all members of a decided cohort have in common; `None` for a whole period.
pub(crate) async fn summary_of(
    engine: &Engine,
    live: &LiveBoard,
    section: &Section,
) -> Result<Option<Summary>, Error> {
    if section.cohort.is_none() {
        return Ok(None);
    }
    let shard = &live.shard_of_cohort(*section).shard;
    let standing = standing_of(&live.board, section);
    Ok(store::summary(&engine.store, shard, &standing).await?)
}

/// The ordered entries of a cohort, including hidden ones.
async fn placed(
    engine: &Engine,
    reader: &Reader<'_>,
    section: Section,
    may_be_hidden: bool,
) -> Result<Vec<Placed<String>>, Error> {
    let board = &reader.live.board;
    let standing = standing_of(board, &section);
    let count = u64::from(*COHORT_SIZES.end());
    let read = async |reader: &Reader<'_>| {
        let list = Merged::new(reader, standing);
        let lines = list.lines(Start::Behind(0), count).boxed().await?;
        let entries = lines.iter().map(|line| line.entry(board, None));
        Ok::<Vec<_>, Error>(entries.collect::<Result<_, _>>()?)
    };
    let visible = read(reader).await?;
    let all = if may_be_hidden {
        let reader = Reader::new(engine, reader.live, Freshness::Current);
        read(&reader.with_visibility(Visibility::All)).await?
    } else {
        visible.clone()
    };
    let visible: HashSet<&str> = visible.iter().map(|entry| &*entry.member).collect();
    Ok(all
        .iter()
        .map(|entry| Placed {
            member: entry.member.to_string(),
            score: entry.score,
            is_hidden: !visible.contains(&*entry.member),
        })
        .collect())
}

/// Closes the periods of a league that end up to an instant, without recording their results.
///
/// # Errors
///
/// [`Error::LeagueTurning`] if that is not possible yet.
pub(crate) async fn close_league_until(
    engine: &Engine,
    id: &BoardId,
    end: Timestamp,
) -> Result<(), Error> {
    let now = match trusted_now(engine).await {
        Err(Error::ClockDoubted(_)) => return Err(Error::LeagueTurning(PAUSE_MS)),
        now => now?,
    };
    let live = engine.live_board(id).await?;
    // Closes everything that is due at once: a second closing would have to wait for the results of the first.
    match closing::due(&live.board, None, now).filter(|due| *due >= end) {
        Some(due) if barriers::decide_and_raise(engine, id, due).await? => Ok(()),
        Some(_) => Err(Error::LeagueTurning(PAUSE_MS)),
        None => {
            let finalize = live.board.definition.finalize;
            let due_ms = end
                .ms()
                .saturating_add_unsigned(finalize.map_or(0, Span::ms));
            let left_ms = u64::try_from(due_ms.saturating_sub(now.ms())).unwrap_or(0);
            Err(Error::LeagueTurning(left_ms.max(1)))
        }
    }
}

/// Turns the seats of all members listed in these decided cohorts.
pub(crate) async fn turn_cohorts(
    engine: &Engine,
    live: &LiveBoard,
    sections: &[Section],
) -> Result<(), Error> {
    let decided = sections.iter().map(async |section| {
        let standing = standing_of(&live.board, section);
        let shard = &live.shard_of_cohort(*section).shard;
        let outcomes = store::outcomes(&engine.store, shard, &standing).await?;
        Ok::<_, Error>((*section, outcomes))
    });
    let mut of_homes: BTreeMap<usize, Vec<Turning>> = BTreeMap::new();
    for (section, outcomes) in try_join_all(decided).await? {
        for (member, outcome) in outcomes {
            // An erased member is no longer a player.
            let Ok(member) = MemberId::parse(&member) else {
                continue;
            };
            let home = of_homes.entry(live.board.shard_of(&member)).or_default();
            home.push(Turning {
                member,
                section,
                outcome,
            });
        }
    }
    let turned = of_homes.into_iter().map(async |(home, mut turning)| {
        turning.sort_unstable_by(|one, other| one.member.cmp(&other.member));
        for turning in turning.chunks(CALL_MEMBERS_MAX) {
            engine
                .with_board(&live.board.id, async |live| {
                    turn_at_home(engine, &live, home, turning).await
                })
                .await?;
        }
        Ok::<_, Error>(())
    });
    try_join_all(turned).await.map(drop)
}

/// Turns seats of members with the same home shard. Turned seats stay unchanged.
async fn turn_at_home(
    engine: &Engine,
    live: &LiveBoard,
    home: usize,
    turning: &[Turning],
) -> Result<(), Error> {
    let shard = &live.shards[home].shard;
    let members: Vec<MemberId> = turning.iter().map(|of| of.member.clone()).collect();
    let found = seats::players(&engine.store, shard, &members).await?;
    let mut changes = Vec::new();
    for (of, found) in turning.iter().zip(found) {
        let seen = found.unwrap_or_else(|error| {
            // Only this member is stuck, until a release runs that can read its player.
            throttle::say(&format!("players of {}", live.board.id), |more| {
                tracing::error!(board = %live.board.id, %error, more, "a stored player of a league can't be read");
            });
            None
        });
        let seated = seen.and_then(|seen| with_section(live, seen));
        if let Some((seen, _)) = seated.filter(|(_, section)| *section == of.section) {
            changes.push(change_of(live, &of.member, seen, Some(&of.outcome)));
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    let written = seats::write_players(&engine.store, shard, &changes).await?;
    if written.contains(&Stepped::Changed) {
        return Err(Error::Again(Outdated::Board));
    }
    Ok(())
}

/// A player with a seat, and the cohort of that seat.
fn with_section(live: &LiveBoard, seen: StoredPlayer) -> Option<(StoredPlayer, Section)> {
    let seat = seen.player.seat.as_ref()?;
    let section = live.cohort_at(seat.start, seat.cohort);
    Some((seen, section))
}

/// How turning its seat changes a player.
fn change_of(
    live: &LiveBoard,
    member: &MemberId,
    seen: StoredPlayer,
    outcome: Option<&Outcome>,
) -> PlayerChange {
    let unit = live
        .board
        .league_unit()
        .expect("invariant: a board with seats is a league");
    let Turned { player, line } = seen.player.turned(&live.board, unit, outcome);
    PlayerChange {
        member: member.clone(),
        seen: Some(seen),
        new: player,
        played: line,
    }
}
