//! Begins, restores and lists revocations.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::job::Work;
use super::revocation::{
    Criteria, IN_FORCE_MAX, Named, OTHERS_MAX, Report, Revocation, hash_of_event, hash_of_member,
};
use super::store::{self, Written};
use crate::audit;
use crate::core::board::store::boards;
use crate::core::jobs::Progress;
use crate::core::{Engine, Error, LiveBoard, LiveShard, Outdated};
use crate::domain::board::Board;
use crate::domain::history::{HistoryState, Revoking};
use crate::domain::ids::{BoardId, Label};
use crate::domain::part::Part;
use crate::domain::problems::Problem;
use crate::domain::quota::Network;
use crate::domain::secret::hexadecimal;
use crate::domain::time::{Span, Timestamp};
use crate::history;
use crate::history::store::{PlacedRow, oldest_rows};
use crate::queue;
use crate::redis::{StoreError, random};

/// How often a request looks whether another instance has carried its revocation out.
const LOOK_AFTER: Duration = Duration::from_millis(50);
/// How long after a revocation its rows may say that they were accepted: clocks of instances differ.
const AHEAD_MAX: Span = Span::minutes(2);
/// How long after its order was stored a revocation may still begin.
const BEGINNING_MAX: Span = Span::hours(1);
/// The number of random bytes in the name of a revocation.
const TOKEN_BYTES: usize = 16;

/// Which events are to be revoked: those that match all that is given.
#[derive(Clone, Debug, Default)]
pub struct WantedRevocation {
    pub voter: Option<Label>,
    pub device: Option<Label>,
    pub ip: Option<Network>,
    pub key: Option<Label>,
    pub channel: Option<Label>,
    pub named: Named,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub reason: String,
    /// Whether to count only.
    pub dry_run: bool,
}

/// The state of a revocation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// It is being carried out.
    Running,
    /// It is in force, or a dry run that is done.
    Done,
    /// It is being restored.
    Restoring,
    /// It was restored.
    Restored,
    /// None of its events is kept any more.
    Over,
}

/// A revocation as it is at the moment.
#[derive(Clone, Debug)]
pub struct Found {
    pub revocation: Revocation,
    pub state: State,
}

impl WantedRevocation {
    /// Whether it names nothing but times.
    pub fn is_of_all(&self) -> bool {
        let labels = [&self.voter, &self.device, &self.key, &self.channel];
        let Named { member, events } = &self.named;
        let has_label = labels.into_iter().any(Option::is_some);
        !has_label && self.ip.is_none() && member.is_none() && events.is_none()
    }

    fn criteria(&self, history: &HistoryState) -> Criteria {
        let Named { member, events } = &self.named;
        let hash = |text: String| hexadecimal(&history.hash(&text));
        Criteria {
            voter: self.voter.clone(),
            device: self.device.clone(),
            ip: self.ip.map(|ip| hash(ip.to_string())),
            key: self.key.clone(),
            channel: self.channel.clone(),
            member: member
                .as_ref()
                .map(|member| hash_of_member(history, member)),
            events: events.as_ref().map(Vec::len),
            since: self.since,
            until: self.until,
        }
    }
}

/// Begins a revocation, and carries it out as far as a request may wait for that. Returns it as it is then.
///
/// # Errors
///
/// [`Problem::history_off`], [`Problem::revocation_while_moving`], [`Problem::revocation_running`],
/// [`Problem::too_many_revocations`].
pub async fn revoke(
    engine: &Engine,
    id: &BoardId,
    wanted: &WantedRevocation,
) -> Result<(Arc<LiveBoard>, Found), Error> {
    let member = wanted.named.member.as_slice();
    let pseudonym = audit::store::pseudonyms(&engine.store, member).await?.pop();
    let token = random::hexadecimal::<TOKEN_BYTES>("")?;
    let is_stored = AtomicBool::new(false);
    let begun = engine.with_board(id, async |live| {
        begin(
            engine,
            &live,
            wanted,
            (&token, pseudonym.as_ref()),
            &is_stored,
        )
        .await
    });
    if let Err(error) = begun.await
        && !(is_stored.into_inner() && has_begun(engine, id, &token).await?)
    {
        return Err(error);
    }
    carry_on(engine, id, &token).await
}

/// Restores a revocation, as far as a request may wait for that. Returns it as it is then. If it was restored before,
/// nothing changes, unless that has failed for members.
///
/// # Errors
///
/// [`Problem::revocation_not_found`], [`Problem::revocation_running`], [`Problem::revocation_while_moving`].
pub async fn restore(
    engine: &Engine,
    id: &BoardId,
    number: u64,
) -> Result<(Arc<LiveBoard>, Found), Error> {
    let begun = engine.with_board(id, async |live| {
        boards::require_current(&engine.store, &live.board).await?;
        let Found { revocation, state } = find_on(engine, &live, number).await?;
        if revocation.dry_run {
            return Err(Problem::nothing_revoked(number).into());
        }
        let is_restored = revocation.restored.as_ref().is_some_and(Report::is_whole);
        if is_restored || state == State::Restoring {
            return Ok(revocation.token);
        }
        // One that is still running is turned round.
        let history = match &live.board.history {
            Some(history) if state == State::Running => history,
            _ => require_free(&live)?,
        };
        let running = history.revoking.as_ref();
        let revoking = Revoking {
            token: revocation.token.clone(),
            run: random::hexadecimal::<TOKEN_BYTES>("")?,
            is_dry_run: false,
            is_restoring: true,
            ends: running
                .map(|running| running.ends.clone())
                .unwrap_or_default(),
        };
        change(engine, &live, history.revoking(Some(revoking))).await?;
        Ok(revocation.token)
    });
    let token = begun.await?;
    carry_on(engine, id, &token).await
}

/// The history of a board that may begin a revocation.
fn require_free(live: &LiveBoard) -> Result<&HistoryState, Error> {
    let board = &live.board;
    let history = board.history.as_ref().filter(|_| board.keeps_events());
    let history = history.ok_or_else(|| Problem::history_off(&board.id))?;
    if board.placement.next.is_some() {
        return Err(Problem::revocation_while_moving(&board.id).into());
    }
    if history.revoking.is_some() {
        return Err(Problem::revocation_running(&board.id).into());
    }
    Ok(history)
}

/// Whether a stored revocation has begun. Otherwise it is removed.
async fn has_begun(engine: &Engine, id: &BoardId, token: &str) -> Result<bool, Error> {
    engine
        .with_board(id, async |live| {
            let (store, board) = (&engine.store, &live.board);
            boards::require_current(store, board).await?;
            let all = store::all(store, board).await?;
            if is_begun(board, &all, token) {
                return Ok(true);
            }
            let written = Written {
                removed: store::fields_of(token).to_vec(),
                ..Written::default()
            };
            store::write(store, board, written).await?;
            Ok(false)
        })
        .await
}

/// Whether a revocation is running, or has ended.
fn is_begun(board: &Board, all: &[Revocation], token: &str) -> bool {
    let revoking = board.revoking();
    let is_running = revoking.is_some_and(|revoking| revoking.token == token);
    is_running || all.iter().any(|one| one.token == token && one.has_ended())
}

/// Begins a revocation with this name, unless an earlier attempt has.
async fn begin(
    engine: &Engine,
    live: &LiveBoard,
    wanted: &WantedRevocation,
    (token, pseudonym): (&str, Option<&String>),
    is_stored: &AtomicBool,
) -> Result<(), Error> {
    let (store, board) = (&engine.store, &live.board);
    boards::require_current(store, board).await?;
    let all = store::all(store, board).await?;
    if is_begun(board, &all, token) {
        return Ok(());
    }
    let history = require_free(live)?;
    let known = with_states(engine, live, all.clone()).await?;
    let is_in_force = |found: &Found| found.state == State::Done && !found.revocation.dry_run;
    if !wanted.dry_run && known.iter().filter(|one| is_in_force(one)).count() >= IN_FORCE_MAX {
        return Err(Problem::too_many_revocations(&board.id, IN_FORCE_MAX).into());
    }
    let is_whole = |found: &&Found| {
        found
            .revocation
            .restored
            .as_ref()
            .is_none_or(Report::is_whole)
    };
    let others = known
        .iter()
        .filter(|found| !is_in_force(found))
        .filter(is_whole);
    let others = others.map(|found| &found.revocation);
    // Those that never began.
    let begun_since = engine.clock.now().saturating_sub(BEGINNING_MAX);
    let is_left = |one: &&Revocation| !one.has_ended() && one.ordered_at < begun_since;
    let removed = others.skip(OTHERS_MAX).chain(all.iter().filter(is_left));
    let removed = removed
        .flat_map(|one| store::fields_of(&one.token))
        .collect();
    let named = &wanted.named;
    // What comes into the log from now on comes with this request, or later.
    let ends = match &queue::of(engine).log {
        Some(log) => log.ends().await?,
        None => Vec::new(),
    };
    let hashes = named.events_as_stored(wanted.voter.as_ref()).map(|events| {
        let hashes: BTreeSet<_> = events.iter().map(|id| hash_of_event(history, id)).collect();
        hashes.into_iter().flatten().collect()
    });
    let revocation = Revocation {
        number: history.next_revocation(),
        token: token.to_owned(),
        criteria: wanted.criteria(history),
        member: pseudonym.cloned(),
        reason: wanted.reason.clone(),
        dry_run: wanted.dry_run,
        ordered_at: engine.clock.now(),
        report: None,
        restored: None,
    };
    let written = Written {
        revocation: Some(&revocation),
        hashes,
        removed,
        ..Written::default()
    };
    is_stored.store(true, Ordering::Relaxed);
    store::write(store, board, written).await?;
    let ends = ends.into_iter();
    let ends = ends.map(|(partition, end)| (partition.to_string(), end));
    let begun = history.revoke(Revoking {
        token: token.to_owned(),
        run: token.to_owned(),
        is_dry_run: wanted.dry_run,
        is_restoring: false,
        ends: ends.collect(),
    });
    change(engine, live, begun).await?;
    // Only while it runs. Without this the revocation goes through all events.
    let live = engine.live_board(&board.id).await?;
    let written = Written {
        named: Some((token, named)),
        ..Written::default()
    };
    let is_running = live
        .board
        .revoking()
        .is_some_and(|revoking| revoking.token == token);
    if is_running && !named.is_empty() {
        match store::write(store, &live.board, written).await {
            Err(StoreError::Stale) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Stores a board's history as it is from now on. [`Error::Again`]: the board has changed.
async fn change(engine: &Engine, live: &LiveBoard, history: HistoryState) -> Result<(), Error> {
    if history::job::change(engine, &live.board, Some(history)).await? {
        return Ok(());
    }
    Err(Error::Again(Outdated::Board))
}

/// Carries a revocation out as far as a request may wait for that, and returns it.
async fn carry_on(
    engine: &Engine,
    id: &BoardId,
    token: &str,
) -> Result<(Arc<LiveBoard>, Found), Error> {
    let mut work = Work::on(id.clone());
    let mut until = Instant::now() + engine.steps_wait_max();
    loop {
        let live = engine.live_board(id).await?;
        let revoking = live.board.revoking();
        let is_left = revoking.is_some_and(|revoking| revoking.token == token);
        if !is_left || Instant::now() >= until {
            work.give_back().await?;
            let found = engine.with_board(id, async |live| {
                let all = store::all(&engine.store, &live.board).await?;
                let own = all.into_iter().filter(|one| one.token == token).collect();
                let found = with_states(engine, &live, own).await?.pop();
                // The history was turned off meanwhile.
                let found = found.ok_or_else(|| Problem::history_off(id))?;
                Ok((live, found))
            });
            return found.await;
        }
        let left = until.saturating_duration_since(Instant::now());
        // What a step has done stays done.
        let step = timeout(left, work.step(engine)).await;
        match step.unwrap_or(Ok(Progress::More)) {
            Ok(Progress::More) => {}
            // Another instance works on it.
            Ok(Progress::Done) => {
                sleep(LOOK_AFTER).await;
                let current = boards::require_current(&engine.store, &live.board).await;
                engine.unless_again(id, current).await?;
            }
            // The job goes on.
            Err(error) => {
                if !error.is_turn_of_others() {
                    tracing::warn!(board = %id, %error, "a revocation is interrupted");
                    until = Instant::now();
                }
                sleep(LOOK_AFTER).await;
            }
        }
    }
}

/// Up to `count` revocations of a board before a number, the last first.
pub async fn list(
    engine: &Engine,
    id: &BoardId,
    before: Option<u64>,
    count: usize,
) -> Result<(Arc<LiveBoard>, Part<Found, u64>), Error> {
    engine
        .with_board(id, async |live| {
            boards::require_current(&engine.store, &live.board).await?;
            let mut all = store::all(&engine.store, &live.board).await?;
            all.retain(|one| before.is_none_or(|before| one.number < before));
            let found = with_states(engine, &live, all).await?;
            let part = Part::split(found, count, |last| last.revocation.number);
            Ok((live, part))
        })
        .await
}

/// The revocation of a board with a number.
///
/// # Errors
///
/// [`Problem::revocation_not_found`].
pub async fn find(
    engine: &Engine,
    id: &BoardId,
    number: u64,
) -> Result<(Arc<LiveBoard>, Found), Error> {
    engine
        .with_board(id, async |live| {
            boards::require_current(&engine.store, &live.board).await?;
            let found = find_on(engine, &live, number).await?;
            Ok((live, found))
        })
        .await
}

async fn find_on(engine: &Engine, live: &LiveBoard, number: u64) -> Result<Found, Error> {
    let mut all = store::all(&engine.store, &live.board).await?;
    all.retain(|one| one.number == number);
    let found = with_states(engine, live, all).await?.into_iter().next();
    let missing = || Problem::revocation_not_found(&live.board.id, &number.to_string());
    Ok(found.ok_or_else(missing)?)
}

/// Revocations with their states, without those that never began.
async fn with_states(
    engine: &Engine,
    live: &LiveBoard,
    all: Vec<Revocation>,
) -> Result<Vec<Found>, Error> {
    let oldest = if all.iter().any(Revocation::is_in_force) {
        oldest(engine, live).await?
    } else {
        None
    };
    let is_over = |report: &Report| {
        let until = report.finished_at.saturating_add(AHEAD_MAX);
        oldest.is_none_or(|oldest| oldest > until)
    };
    let revoking = live.board.revoking();
    let state = |one: &Revocation| {
        let own = revoking.filter(|revoking| revoking.token == one.token);
        Some(match (own, &one.report, &one.restored) {
            (Some(own), ..) if own.is_restoring => State::Restoring,
            (Some(_), ..) => State::Running,
            (None, _, Some(_)) => State::Restored,
            (None, None, None) => return None,
            (None, Some(report), None) if !one.dry_run && is_over(report) => State::Over,
            (None, Some(_), None) => State::Done,
        })
    };
    let found = all.into_iter().filter_map(|revocation| {
        let state = state(&revocation)?;
        Some(Found { revocation, state })
    });
    Ok(found.collect())
}

/// When the first event was accepted that is kept; `None` if none is.
async fn oldest(engine: &Engine, live: &LiveBoard) -> Result<Option<Timestamp>, Error> {
    let mut oldest = None;
    for LiveShard { shard, .. } in &live.shards {
        let rows = oldest_rows(&engine.store, shard, &[], None, 1).await?;
        let of_shard = rows.first().and_then(PlacedRow::accepted_at);
        oldest = [oldest, of_shard].into_iter().flatten().min();
    }
    Ok(oldest)
}
