//! Closes the periods of boards (`domain/closing.rs`): a job, and requests that can't wait for it.
//!
//! A closing is decided for an instant; then the barriers of all shards are raised, and the results of all periods that end
//! up to it are recorded in the order of their ends. All progress is in Redis and every step can be repeated, so any number
//! of instances may take the same steps at once, and crash between any two. Only the decision and the end of the wait for a
//! queue depend on a clock.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::barriers::raise_barriers;
use super::store::{self, KeyRange, QueueWait};
use crate::core::board::store::board_notes::{self, NotedFor};
use crate::core::board::store::boards;
use crate::core::jobs::clock::trusted_now;
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{ATTEMPTS_MAX, Engine, Error, LiveBoard, LiveShard};
use crate::domain::board::Board;
use crate::domain::closing;
use crate::domain::ids::BoardId;
use crate::domain::period::{Period, Unit};
use crate::domain::problems::Problem;
use crate::domain::shard::Shard;
use crate::domain::time::{Span, Timestamp};
use crate::periods::results;
use crate::periods::turnover::work::Turnover;
use crate::queue;
use crate::redis::StoreError;
use crate::runtime::join::try_join_all;

/// How long a request waits for a closing to finish. Completed steps are kept.
const FINISH_TIME_MAX: Duration = Duration::from_secs(8);
/// In how many shards a period expires concurrently.
const SHARDS_AT_ONCE: usize = 16;

/// The job: closes periods whose wait is over, on all boards.
#[derive(Clone, Copy, Debug)]
pub struct ClosePeriods;

impl Job for ClosePeriods {
    type Item = Closing;
    const KIND: JobKind = JobKind::Closings;

    fn subject(&self, closing: &Closing) -> Subject {
        Subject::board(&closing.id)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Closing>, Error> {
        // Nothing is decided while the clock is in doubt; a fault of all boards gives the reason.
        let doubt = engine.clock.doubt().map(Error::ClockDoubted);
        let (now, subject) = (engine.clock.now(), Subject::all_boards());
        // During an outage the clock of Redis can't be read, and the outage is logged separately.
        if doubt.is_none() || engine.store.outage().is_none() {
            engine
                .faults
                .record(Self::KIND, &subject, now, doubt.as_ref());
        }
        if doubt.is_some() {
            return Ok(Vec::new());
        }
        let due = engine.closings.due(now);
        Ok(due.into_iter().map(Closing::of).collect())
    }

    async fn step(&self, engine: &Engine, closing: &mut Closing) -> Result<Progress, Error> {
        match closing.step(engine).await? {
            Step::More => Ok(Progress::More),
            // It stays due.
            Step::WaitsForQueues => Ok(Progress::Done),
            Step::Done => decide_due(engine, &closing.id).await,
        }
    }
}

/// How long a closing still waits for queued events. While the clock is in doubt, it keeps waiting.
async fn wait(engine: &Engine, max_delay: Option<Span>) -> Result<Option<QueueWait>, Error> {
    let Some(max_delay) = max_delay else {
        return Ok(None);
    };
    match trusted_now(engine).await {
        Err(Error::ClockDoubted(_)) => Ok(None),
        now => Ok(Some(QueueWait {
            now: now?,
            max_delay,
        })),
    }
}

/// Decides the closing of a board that is due, or plans when one will be.
async fn decide_due(engine: &Engine, id: &BoardId) -> Result<Progress, Error> {
    let Some(live) = engine.find_board(id).await? else {
        return Ok(Progress::Done);
    };
    let closings = boards::closings(&engine.store, id).await?;
    if closings.is_pending() {
        // Another caller has just decided one.
        return Ok(Progress::More);
    }
    let now = match trusted_now(engine).await {
        // It stays due.
        Err(Error::ClockDoubted(_)) => return Ok(Progress::Done),
        now => now?,
    };
    let Some(until) = closing::due(&live.board, closings.until, now) else {
        plan(engine, &live, now);
        return Ok(Progress::Done);
    };
    decide(engine, &live.board, until).await?;
    Ok(Progress::More)
}

/// Plans when the next closing of a board is due, if the board has not changed.
fn plan(engine: &Engine, live: &Arc<LiveBoard>, now: Timestamp) {
    let (board, schedule) = (&live.board, &engine.closings);
    let _planning = engine.boards.planning();
    let held = engine.boards.get(&board.id);
    if held.is_some_and(|held| Arc::ptr_eq(&held, live)) {
        match closing::next_due_ms(board, now) {
            Some(next_ms) => schedule.set(&board.id, next_ms),
            None => schedule.remove(&board.id),
        }
    }
}

/// Decides a closing, unless results of the last one are missing, or the definition has changed.
async fn decide(engine: &Engine, board: &Board, until: Timestamp) -> Result<(), Error> {
    let decision = store::decide(&engine.store, board, until).await;
    engine.unless_again(&board.id, decision).await.map(drop)
}

/// Makes all periods of a board final that end up to this instant, which must be in the past by a trusted clock.
///
/// # Errors
///
/// [`Error::Busy`] if that takes too long; the job continues.
pub(crate) async fn close_until(
    engine: &Engine,
    id: &BoardId,
    until: Timestamp,
) -> Result<(), Error> {
    for _ in 0..ATTEMPTS_MAX {
        if !finish(engine, id).await? {
            let left = format!("periods of board {id} are still being closed");
            return Err(Error::pending(left));
        }
        let live = engine.live_board(id).await?;
        if boards::closings(&engine.store, id).await?.until >= Some(until) {
            return Ok(());
        }
        decide(engine, &live.board, until).await?;
    }
    Err(Error::try_again(Problem::board_changes(id)))
}

/// Finishes the decided closing of a board, waiting for a bounded time. Returns whether it is finished.
pub(crate) async fn finish(engine: &Engine, id: &BoardId) -> Result<bool, Error> {
    let (begun, mut closing) = (Instant::now(), Closing::of(id.clone()));
    while begun.elapsed() < engine.store.timeouts.times(FINISH_TIME_MAX) {
        match closing.step(engine).await? {
            Step::Done => return Ok(true),
            Step::More => {}
            Step::WaitsForQueues => queue::give_time().await,
        }
    }
    Ok(false)
}

/// Like [`finish`], for many requests on this instance: one takes the steps, the others then find them taken.
pub(crate) async fn help(engine: &Engine, id: &BoardId) -> Result<(), Error> {
    let live = engine.live_board(id).await?;
    let wait_max = engine.store.timeouts.times(FINISH_TIME_MAX);
    let Ok(_turn) = timeout(wait_max, live.finishing.lock()).await else {
        return Ok(());
    };
    match finish(engine, id).await {
        Err(error) if !error.is_turn_of_others() => Err(error),
        _ => Ok(()),
    }
}

/// The periods with data that end next after one instant and up to another, and their end.
async fn next_ending(
    engine: &Engine,
    live: &LiveBoard,
    after: Timestamp,
    until: Timestamp,
) -> Result<Option<(Timestamp, Vec<Period>)>, Error> {
    let board = &live.board;
    let units = board.recorded_units();
    let firsts = units.map(|unit| first_with_data(engine, live, unit, after));
    let mut ending: BTreeMap<Timestamp, Vec<Period>> = BTreeMap::new();
    for first in try_join_all(firsts).await?.into_iter().flatten() {
        let end = board.end_of(&first);
        if let Some(end) = end.filter(|end| after < *end && *end <= until) {
            ending.entry(end).or_default().push(first);
        }
    }
    Ok(ending.pop_first())
}

/// Which of these units have periods with data that are final.
pub(crate) async fn final_units(
    engine: &Engine,
    board: &Board,
    units: impl Iterator<Item = Unit>,
) -> Result<Vec<Unit>, Error> {
    let mut found = Vec::new();
    for unit in units {
        let first = engine
            .with_board(&board.id, async |live| {
                first_with_data(engine, &live, unit, Timestamp::MIN).await
            })
            .await?;
        let end = first.and_then(|first| board.end_of(&first));
        if end.is_some_and(|end| board.closings.until >= Some(end)) {
            found.push(unit);
        }
    }
    Ok(found)
}

/// The first period of a unit with data that ends after an instant.
async fn first_with_data(
    engine: &Engine,
    live: &LiveBoard,
    unit: Unit,
    after: Timestamp,
) -> Result<Option<Period>, Error> {
    let calendar = &live.board.calendar;
    let from = calendar.key(&calendar.containing(unit, after));
    let range = (Bound::Included(&*from), Bound::Unbounded);
    let keys = periods_in(engine, &live.shards, unit, (range, false), 1).await?;
    let first = keys.iter().min();
    let section = first.map(|key| live.section_noted(unit, key)).transpose()?;
    Ok(section.map(|section| section.period))
}

/// The keys of up to `count` periods of a unit with data in each of these shards: see [`store::periods`].
pub(crate) async fn periods_in(
    engine: &Engine,
    shards: &[LiveShard],
    unit: Unit,
    range: KeyRange<'_>,
    count: usize,
) -> Result<Vec<String>, StoreError> {
    let of_shards = shards
        .iter()
        .map(|live| store::periods(&engine.store, &live.shard, unit, range, count));
    Ok(try_join_all(of_shards).await?.concat())
}

#[derive(Debug)]
pub struct Closing {
    id: BoardId,
    /// The instant to which this instance has raised all barriers.
    closed_until: Option<Timestamp>,
    /// The periods that end next: their end, and the work left.
    ending: Option<(Timestamp, Ending)>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    /// There is more to do.
    More,
    /// Events that were queued before the closing must be applied first.
    WaitsForQueues,
    Done,
}

/// The work left for periods that end at the same instant.
#[derive(Debug)]
enum Ending {
    /// Their results are recorded; these are to expire.
    Expiring(Vec<ExpiringPeriod>),
    /// It is a period of a league.
    Turning(Turnover),
}

/// A shard's data of a period.
#[derive(Clone, Debug)]
struct ExpiringPeriod {
    shard: Shard,
    period: Period,
    expires_at_ms: i64,
    cursor: Option<String>,
}

impl Closing {
    fn of(id: BoardId) -> Self {
        Self {
            id,
            closed_until: None,
            ending: None,
        }
    }

    /// Advances the decided closing by a bounded step.
    async fn step(&mut self, engine: &Engine) -> Result<Step, Error> {
        let stepped = self.try_step(engine).await;
        let step = engine.unless_again(&self.id, stepped).await?;
        Ok(step.unwrap_or(Step::More))
    }

    async fn try_step(&mut self, engine: &Engine) -> Result<Step, Error> {
        let closings = boards::closings(&engine.store, &self.id).await?;
        let (true, Some(until), Some(after), Some(live)) = (
            closings.is_pending(),
            closings.until,
            closings.results_until,
            engine.find_board(&self.id).await?,
        ) else {
            return Ok(Step::Done);
        };
        if self.closed_until != Some(until) {
            let wait = wait(engine, closings.max_delay()).await?;
            if raise_barriers(engine, &live.board, until, wait).await? == Progress::More {
                return Ok(Step::WaitsForQueues);
            }
            self.closed_until = Some(until);
        }
        let begun = self.ending.take().filter(|(at, _)| *at > after);
        let (at, mut ending) = if let Some(begun) = begun {
            begun
        } else {
            let next = next_ending(engine, &live, after, until).await?;
            let Some((at, periods)) = next else {
                store::note_results(&engine.store, &live.board, until).await?;
                return Ok(Step::More);
            };
            (at, Ending::begin(engine, &live, periods).await?)
        };
        let stepped = ending.step(engine, &live).await;
        match stepped {
            Ok(Progress::Done) => store::note_results(&engine.store, &live.board, at).await?,
            // What expires may be in shards that are no longer in use.
            Err(_) if !live.board.is_league() => {}
            _ => self.ending = Some((at, ending)),
        }
        stepped.map(|_| Step::More)
    }
}

impl Ending {
    /// Records the results of periods; in a league the steps do that.
    async fn begin(engine: &Engine, live: &LiveBoard, periods: Vec<Period>) -> Result<Self, Error> {
        let board = &live.board;
        if board.is_league() {
            return Ok(Self::Turning(Turnover::new(live, periods[0])));
        }
        for period in periods.iter().filter(|period| board.has_result(period)) {
            results::recording::record(engine, live, &(*period).into()).await?;
            board_notes::note(&engine.store, NotedFor::Outbox, board).await?;
        }
        let mut expiring = Vec::new();
        for period in periods {
            let Some(expires_at_ms) = board.expires_at_ms(&period) else {
                continue;
            };
            expiring.extend(live.shards.iter().map(|live| ExpiringPeriod {
                shard: live.shard.clone(),
                period,
                expires_at_ms,
                cursor: None,
            }));
        }
        Ok(Self::Expiring(expiring))
    }

    async fn step(&mut self, engine: &Engine, live: &LiveBoard) -> Result<Progress, Error> {
        let expiring = match self {
            Self::Turning(turnover) => return turnover.step(engine, live).await,
            Self::Expiring(expiring) => expiring,
        };
        let count = expiring.len().min(SHARDS_AT_ONCE);
        let left = try_join_all(expiring[..count].iter().map(|one| one.expire(engine))).await?;
        drop(expiring.splice(..count, left.into_iter().flatten()));
        Ok(Progress::more_if(!expiring.is_empty()))
    }
}

impl ExpiringPeriod {
    /// Lets it expire by a step; returns the remaining work.
    async fn expire(&self, engine: &Engine) -> Result<Option<Self>, StoreError> {
        let (shard, section, cursor) = (&self.shard, self.period.into(), self.cursor.as_deref());
        let expires = (self.expires_at_ms, engine.clock.now());
        let next = store::expire_period(&engine.store, shard, &section, expires, cursor).await?;
        Ok(next.map(|cursor| Self {
            cursor: Some(cursor),
            ..self.clone()
        }))
    }
}
