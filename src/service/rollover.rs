//! Completing derived standings: on demand, and ahead of time in the background.
//!
//! A standing that is not complete is never read. Whoever finds it so completes it, in bounded steps that
//! any number of instances can take at once; all there is to know lies in Redis. So the background step is
//! a matter of speed alone: without it, the first read of a new period waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{counter, gauge};
use parking_lot::Mutex;

use super::faults::Job;
use super::{Error, LiveBoard, Service};
use crate::domain::board::Board;
use crate::domain::period::Period;
use crate::domain::series::{Derived, Series};
use crate::domain::time::Timestamp;
use crate::store::rollover::STEP_BUDGET;
use crate::store::{StoreError, Versioned};

/// How long a request waits for a standing to be completed. What has been done by then stays done.
const COMPLETE_TIME_MAX: Duration = Duration::from_secs(8);
/// The next period's standing is completed ahead of its time by at most this, in milliseconds: before that,
/// every event would be written to it in vain.
const AHEAD_MS_MAX: u64 = 3_600_000;
/// The pause between two steps in the background, in which other clients have Redis to themselves.
const BACKGROUND_PAUSE: Duration = Duration::from_millis(1);

/// A derived standing, by the tag of its board or shard, the version, its series and where its newest period begins.
type StandingKey = (String, String, Series, i64);

/// What this instance is completing, so that its requests don't all do the same work, and what its
/// background step has found complete.
#[derive(Debug, Default)]
pub struct Completing {
    running: Mutex<HashMap<StandingKey, Arc<tokio::sync::Mutex<()>>>>,
    found_complete: Mutex<HashMap<(String, Series), (String, i64)>>,
}

impl Completing {
    /// Forgets what has been found complete: Redis may have gone back to older data.
    pub(super) fn forget(&self) {
        self.found_complete.lock().clear();
    }
}

impl Service {
    /// Completes the standing of a derived series whose newest period begins at this instant.
    pub(super) async fn complete_from(
        &self,
        board: &Board,
        series: Series,
        start_ms: i64,
    ) -> Result<(), Error> {
        let Some(derived) = board.derived_as(series) else {
            return Ok(());
        };
        let start = Timestamp::from_ms_clamped(start_ms);
        let unit = derived.window.unit();
        let period = board.calendar.containing(unit, start);
        self.complete(board, &derived, &period, Duration::ZERO)
            .await
    }

    /// Begins the running period's standing of every derived series: on a new board it is complete with that.
    pub(super) async fn begin_derived(&self, live: &LiveBoard) -> Result<(), Error> {
        let now = self.clock.now();
        for shard in &live.shards {
            for derived in shard.board.derived() {
                let unit = derived.window.unit();
                let running = shard.board.calendar.containing(unit, now);
                let begin = async {
                    let (board, budget) = (&shard.board, STEP_BUDGET);
                    let begun = self
                        .store
                        .advance(board, &derived, &running, &running, now, budget);
                    Ok(begun.await?)
                };
                // A fault is noted: the definition is stored all the same.
                let (id, part) = (&shard.board.id, part(&shard.board, &derived));
                self.faults
                    .guard(Job::Rollover, id, &part, now, begin)
                    .await?;
            }
        }
        Ok(())
    }

    async fn complete(
        &self,
        board: &Board,
        derived: &Derived,
        period: &Period,
        pause: Duration,
    ) -> Result<(), Error> {
        let key = (
            board.tag(),
            board.version(),
            derived.series,
            period.start_ms,
        );
        let turn = Arc::clone(
            self.completing
                .running
                .lock()
                .entry(key.clone())
                .or_default(),
        );
        let _turn = turn.lock().await;
        let result = self.complete_in_turn(board, derived, period, pause).await;
        self.completing.running.lock().remove(&key);
        result
    }

    async fn complete_in_turn(
        &self,
        board: &Board,
        derived: &Derived,
        period: &Period,
        pause: Duration,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let time_max = self.store.timeouts.times(COMPLETE_TIME_MAX);
        while begun.elapsed() < time_max || !pause.is_zero() {
            let now = self.clock.now();
            let unit = derived.window.unit();
            let running = board.calendar.containing(unit, now);
            counter!("standings_rollover_steps_total").increment(1);
            match self
                .store
                .advance(board, derived, period, &running, now, STEP_BUDGET)
                .await?
            {
                Versioned::Current(true) => return Ok(()),
                Versioned::Current(false) => {}
                Versioned::Stale => return self.reload(&board.id).await,
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        let message = format!(
            "{} of board {} is still being completed",
            derived.window, board.id
        );
        Err(StoreError::Unavailable(message).into())
    }

    /// The background step: completes the running period's standing of every derived series, and, near its
    /// end, the next one's. Safe to run at any time, on any number of instances, and to stop half-way.
    pub async fn roll_over(&self) -> Result<(), Error> {
        let (mut pending, mut current) = (Vec::new(), HashMap::new());
        let now = self.clock.now();
        for live in self.live_boards() {
            for shard in &live.shards {
                for derived in shard.board.derived() {
                    let series = (shard.board.tag(), derived.series);
                    current.insert(series, shard.board.version());
                    for period in upcoming(&shard.board, &derived, now) {
                        if !self.was_complete(&shard.board, derived.series, &period) {
                            pending.push((Arc::clone(&shard.board), derived, period));
                        }
                    }
                }
            }
        }
        self.completing
            .found_complete
            .lock()
            .retain(|series, (version, _)| current.get(series) == Some(version));
        #[expect(clippy::cast_precision_loss, reason = "a count of windows")]
        gauge!("standings_rollover_pending").set(pending.len() as f64);
        let mut failed = None;
        for (board, derived, period) in pending {
            let part = part(&board, &derived);
            let complete = self.complete(&board, &derived, &period, BACKGROUND_PAUSE);
            let completed = self
                .faults
                .guard(Job::Rollover, &board.id, &part, now, complete)
                .await;
            match completed {
                Ok(Some(())) => {
                    let version = (board.version(), period.start_ms);
                    self.completing
                        .found_complete
                        .lock()
                        .insert((board.tag(), derived.series), version);
                    gauge!("standings_rollover_pending").decrement(1.0);
                }
                // A fault is noted, and holds up no other.
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn was_complete(&self, board: &Board, series: Series, period: &Period) -> bool {
        let found = self.completing.found_complete.lock();
        found
            .get(&(board.tag(), series))
            .is_some_and(|(version, start_ms)| {
                *version == board.version() && *start_ms >= period.start_ms
            })
    }

    /// Whether the running period's standing of every derived series has been found complete.
    pub fn windows_are_complete(&self) -> bool {
        let now = self.clock.now();
        self.live_boards().iter().all(|live| {
            live.shards.iter().all(|shard| {
                let board = &shard.board;
                board.derived().all(|derived| {
                    let running = board.calendar.containing(derived.window.unit(), now);
                    self.was_complete(board, derived.series, &running)
                })
            })
        })
    }
}

/// What a derived series is called in the log.
fn part(board: &Board, derived: &Derived) -> String {
    let (window, track) = (derived.window, derived.series.track);
    format!("{window} ({track:?}) of {}", board.tag())
}

/// The running period of a derived series, and near its end the next one.
fn upcoming(board: &Board, derived: &Derived, now: Timestamp) -> impl Iterator<Item = Period> {
    let running = board.calendar.containing(derived.window.unit(), now);
    let ahead_ms = (running.end_ms.abs_diff(running.start_ms) / 4).min(AHEAD_MS_MAX);
    let is_near = running.end_ms.saturating_sub_unsigned(ahead_ms) <= now.ms();
    let next = board.calendar.next(&running).filter(|_| is_near);
    std::iter::once(running).chain(next)
}
