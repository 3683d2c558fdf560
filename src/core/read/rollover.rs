//! Completes derived standings: when a read needs them, and ahead of time in a job.
//!
//! Rolling windows are sums of periods; windows with initial scores are the sum of a period and the initial scores. R(i) is
//! the standing of period i, and S(i) the derived one that ends with it:
//!
//! ```text
//! S(i) = R(i) + S(i−1) − R(i−N)        continued, if S(i−1) is complete
//! S(i) = R(i) + R(i−1) + … + R(i−N+1)  built, otherwise
//! S(i) = R(i) + I                      with the initial scores I
//! ```
//!
//! The standings in a sum are its *terms*. One string for each series, its *state* (`scripts/lib/derived.lua`), lists the
//! existing standings, and says of each whether it is *complete*: all members are listed with their exact sum.
//! `advance.lua` takes one a bounded step further:
//!
//! - It **walks** the members of one term after the other with a cursor of Redis, and lists each one that is not listed
//!   yet, with its exact sum. A cursor is valid in one process of Redis; in another one the walk begins again
//!   (`scripts/lib/cursor.lua`).
//! - Meanwhile events go on. An event whose member is listed adds to the score; otherwise it lists the member with its sum
//!   over the terms. So a listed member has the exact sum at every moment. A member that the cursor misses, because an
//!   event changed it, was listed by that event. A walk ends however many events come in.
//! - If every event wrote S(i+1) from the start of the day, only members without an event would be left for the walk; but
//!   each event would need one more write.
//!
//! Any number of callers may take steps at once and stop half-way. A read that finds an incomplete standing takes the steps
//! itself; the job does so ahead of time, for the running period and, near its end, for the next one, which only saves
//! time. Standings of the past that were built for a read are dropped when they were not used for some minutes, or are too
//! many. A derived standing can't be read at a key beyond the next period: the state would grow with every wrong key.
//!
//! In rolling windows a member whose sum is zero is not listed. `reached_at` comes from the newest period in which the
//! member has an event that is not 0; so the plan of a late event names all `later` periods of the window, to look there. A
//! zero changes no rolling standing. `initial.lua` sets a changed initial score in I and in all existing standings of
//! periods that are not closed, and lists each member that it changes with the exact sum. So a period needs no job to open
//! with its initial scores. If a unit has carryover, its periods are stored twice: with what was carried over, as they are
//! shown, and without it (`base-day`), as rolling windows sum them up.
//!
//! **An example of carryover and of the three writes of a rolling window.** A board has the windows `day` and
//! `last-3-days`, and `"carryover": {"day": 0.2}`. Today is 2026-11-22. `ann` gets 10 points for 2026-11-20, and then 5
//! points for 2026-11-21. An event adds d to its period, and ⌊0.2 · d⌋ to the next one, in the same script:
//!
//! | key (after `st:{run}:1:`) | | after the first event | after the second |
//! | --- | --- | --- | --- |
//! | `s:day:2026-11-20` | | 10 | 10 |
//! | `s:day:2026-11-21` | | 2 (carried over) | 7 |
//! | `s:day:2026-11-22` | | | 1 (carried over; not a share of the 2) |
//! | `s:base-day:2026-11-20` | R(i−2) | 10 | 10 |
//! | `s:base-day:2026-11-21` | R(i−1) | | 5 |
//! | `d:last-3-days:2026-11-22` | S(i) | 10 | 15 |
//! | `d:last-3-days:2026-11-23` | S(i+1) | once it is started | 15 − 10 = 5 |
//!
//! S(i+1) = S(i) + R(i+1) − R(i−2) is started in the last quarter of the period, at most an hour before its end. From
//! then on an event writes R, S and the next S: three writes for the window, whatever N is. An event that is k periods
//! late writes each S that contains it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::time::timeout_at;

use super::past::Turn;
use super::store::rollover::{self, STEP_BUDGET, kept_from};
use crate::core::jobs::faults::Subject;
use crate::core::jobs::schedule::Schedule;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error, LiveBoard, LiveShard};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::period::Period;
use crate::domain::series::{Derived, Series};
use crate::domain::shard::{Shard, ShardId};
use crate::domain::time::Timestamp;

/// How early, at most, the job completes the next period's standing, in ms: earlier, events would write to it unnecessarily.
const AHEAD_MS_MAX: u64 = 3_600_000;

/// A derived standing: the tag of its shard, the version, its series and where its newest period begins.
type StandingKey = (String, String, Series, i64);

/// What this instance is completing, so that its requests don't all do the same work, and what its job has found complete.
#[derive(Debug, Default)]
pub(crate) struct Completing {
    running: Mutex<HashMap<StandingKey, Weak<tokio::sync::Mutex<()>>>>,
    found_complete: Mutex<HashMap<BoardId, FoundComplete>>,
    /// When a board is due again.
    schedule: Schedule<BoardId>,
}

/// The newest period that was found complete, of each series of each shard: its start, in milliseconds.
type FoundComplete = HashMap<(ShardId, Series), i64>;

impl Completing {
    /// Notes that a board is new in memory, or left it. What was found complete is forgotten: the definition may have
    /// changed, or Redis may have gone back to older data.
    pub(crate) fn plan(&self, id: &BoardId, derives: bool) {
        self.found_complete.lock().remove(id);
        self.schedule.plan(id, derives);
    }

    /// The lock of the request that completes a standing.
    fn running(&self, key: StandingKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut running = self.running.lock();
        // A request may be dropped at any time, so nobody removes its own.
        running.retain(|_, lock| lock.strong_count() > 0);
        let known = running.get(&key).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let lock = Arc::default();
            running.insert(key, Arc::downgrade(&lock));
            lock
        })
    }

    fn was_complete(&self, shard: &Shard, series: Series, period: &Period) -> bool {
        let found = self.found_complete.lock();
        let of_board = found.get(&shard.board.id);
        let start_ms = of_board.and_then(|found| found.get(&(shard.shard_id, series)));
        start_ms.is_some_and(|start_ms| *start_ms >= period.start_ms)
    }
}

impl Engine {
    /// Completes the standing of a derived series whose newest period begins at this instant, for a caller that waits until
    /// another one; with a turn, at its pace.
    pub(crate) async fn complete_from(
        &self,
        shard: &Shard,
        (series, start_ms): (Series, i64),
        until: Instant,
        turn: Option<&Turn>,
    ) -> Result<(), Error> {
        let Some(derived) = shard.derived_as(series) else {
            return Ok(());
        };
        let start = Timestamp::from_ms_clamped(start_ms);
        let unit = derived.window.unit();
        let period = shard.calendar.containing(unit, start);
        let left = || {
            let (window, id) = (derived.window, &shard.id);
            format!("{window} of board {id} is still being completed")
        };
        let key = (
            shard.tag().to_owned(),
            shard.version(),
            series,
            period.start_ms,
        );
        let running = self.completing.running(key);
        let locks = async {
            let alone = match turn {
                Some(turn) => Some(turn.alone.lock().await),
                None => None,
            };
            (alone, running.lock().await)
        };
        let Ok(_locks) = timeout_at(until.into(), locks).await else {
            return Err(Error::pending(left()));
        };
        let step = || async {
            let begun = Instant::now();
            let advanced = self.advance(shard, &derived, &period).await?;
            if let Some(turn) = turn {
                turn.rest(begun.elapsed(), self.clock.now()).await;
            }
            // If the definition has changed, the caller that needs the standing begins again with the new one.
            Ok(Progress::more_if(advanced == Some(false)))
        };
        let wait_max = until.saturating_duration_since(Instant::now());
        self.take_steps(wait_max, step, left).await
    }

    /// Whether a standing whose newest period begins at this instant is built only for reads (`past.rs`).
    pub(crate) fn is_past(&self, shard: &Shard, series: Series, start_ms: i64) -> bool {
        shard.derived_as(series).is_some_and(|derived| {
            let running = running(shard, &derived, self.clock.now());
            start_ms < kept_from(shard, &running)
        })
    }

    /// Begins the running period's standing of every derived series; on a new board that completes it. A fault is only
    /// noted, since the definition is stored.
    pub(crate) async fn begin_derived(&self, live: &LiveBoard) -> Result<(), Error> {
        let now = self.clock.now();
        for LiveShard { shard, .. } in &live.shards {
            for derived in shard.derived() {
                let begun = Upcoming {
                    period: running(shard, &derived, now),
                    shard: shard.clone(),
                    derived,
                };
                self.take_step(&Rollover, begun).await.1?;
            }
        }
        Ok(())
    }

    /// Takes a derived standing a bounded step further; returns whether it is complete. `None`: its shard does not know the
    /// board's definition, or knows a newer one, and the board was read again.
    async fn advance(
        &self,
        shard: &Shard,
        derived: &Derived,
        period: &Period,
    ) -> Result<Option<bool>, Error> {
        let now = self.clock.now();
        let running = running(shard, derived, now);
        let advanced = rollover::advance(
            &self.store,
            shard,
            derived,
            period,
            &running,
            now,
            STEP_BUDGET,
        );
        self.unless_again(&shard.board.id, advanced.await).await
    }

    /// Notes that a standing was found complete, if its board is still the one in memory.
    fn note_complete(&self, item: &Upcoming) {
        let shard = &item.shard;
        let _planning = self.boards.planning();
        let live = self.boards.get(&shard.board.id);
        if live.is_some_and(|live| Arc::ptr_eq(&live.board, &shard.board)) {
            let mut found = self.completing.found_complete.lock();
            let found = found.entry(shard.board.id.clone()).or_default();
            let series = (shard.shard_id, item.derived.series);
            found.insert(series, item.period.start_ms);
        }
    }

    /// Whether the running period's standing of every derived series was found complete.
    pub fn windows_are_complete(&self) -> bool {
        let now = self.clock.now();
        // A board that is not due has been found complete.
        let due = self.completing.schedule.due(now);
        due.iter().filter_map(|id| self.boards.get(id)).all(|live| {
            live.shards.iter().all(|LiveShard { shard, .. }| {
                shard.derived().all(|derived| {
                    let running = running(shard, &derived, now);
                    self.completing
                        .was_complete(shard, derived.series, &running)
                })
            })
        })
    }
}

/// The job: completes the running period's standing of every derived series, and, near its end, the next one's.
#[derive(Clone, Copy, Debug)]
pub struct Rollover;

/// A standing that must be complete soon.
#[derive(Clone, Debug)]
pub struct Upcoming {
    shard: Shard,
    derived: Derived,
    period: Period,
}

impl Job for Rollover {
    type Item = Upcoming;
    const KIND: JobKind = JobKind::Rollover;
    const PAUSE: Duration = Duration::from_millis(4);

    fn subject(&self, item: &Upcoming) -> Subject {
        let (window, track) = (item.derived.window, item.derived.series.track);
        let of_shard = format!("{window} ({track:?}) of {}", item.shard.tag());
        Subject::part(&item.shard.board.id, of_shard)
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Upcoming>, Error> {
        let now = engine.clock.now();
        let _planning = engine.boards.planning();
        let mut due = Vec::new();
        for id in engine.completing.schedule.due(now) {
            let Some(live) = engine.boards.get(&id) else {
                continue;
            };
            let pending = pending(&engine.completing, &live, now);
            if pending.is_empty() {
                let next_ms = live
                    .board
                    .derived()
                    .map(|one| changes_at_ms(&live.board, &one, now))
                    .min()
                    .unwrap_or(i64::MAX);
                engine.completing.schedule.set(&id, next_ms);
            }
            due.extend(pending);
        }
        Ok(due)
    }

    async fn step(&self, engine: &Engine, item: &mut Upcoming) -> Result<Progress, Error> {
        let advanced = engine
            .advance(&item.shard, &item.derived, &item.period)
            .await?;
        if advanced == Some(true) {
            engine.note_complete(item);
        }
        Ok(Progress::more_if(advanced == Some(false)))
    }
}

/// The standings of a board that must be complete soon, and were not found complete yet.
fn pending(completing: &Completing, live: &LiveBoard, now: Timestamp) -> Vec<Upcoming> {
    let mut pending = Vec::new();
    for LiveShard { shard, .. } in &live.shards {
        for derived in shard.derived() {
            for period in upcoming(shard, &derived, now) {
                if !completing.was_complete(shard, derived.series, &period) {
                    let shard = shard.clone();
                    pending.push(Upcoming {
                        shard,
                        derived,
                        period,
                    });
                }
            }
        }
    }
    pending
}

fn running(board: &Board, derived: &Derived, now: Timestamp) -> Period {
    board.calendar.containing(derived.window.unit(), now)
}

/// The running period of a derived series, and near its end the next one.
fn upcoming(board: &Board, derived: &Derived, now: Timestamp) -> impl Iterator<Item = Period> {
    let running = running(board, derived, now);
    let is_near = near_ms(&running) <= now.ms();
    let next = board.calendar.next(&running).filter(|_| is_near);
    std::iter::once(running).chain(next)
}

/// When `upcoming` will name another period, in milliseconds since the epoch.
fn changes_at_ms(board: &Board, derived: &Derived, now: Timestamp) -> i64 {
    let running = running(board, derived, now);
    let near_ms = near_ms(&running);
    if near_ms > now.ms() {
        near_ms
    } else {
        running.end_ms
    }
}

/// From when on a period is near its end.
fn near_ms(period: &Period) -> i64 {
    let ahead_ms = (period.end_ms.abs_diff(period.start_ms) / 4).min(AHEAD_MS_MAX);
    period.end_ms.saturating_sub_unsigned(ahead_ms)
}
