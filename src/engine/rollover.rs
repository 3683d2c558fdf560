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
use super::{Engine, Error, LiveBoard, LiveShard};
use crate::domain::board::Board;
use crate::domain::period::Period;
use crate::domain::series::{Derived, Series};
use crate::domain::shard::Shard;
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
pub(super) struct Completing {
    running: Mutex<HashMap<StandingKey, Arc<tokio::sync::Mutex<()>>>>,
    found_complete: Mutex<HashMap<(String, Series), (String, i64)>>,
}

impl Completing {
    /// Forgets what has been found complete: Redis may have gone back to older data.
    pub(crate) fn forget(&self) {
        self.found_complete.lock().clear();
    }
}

impl Engine {
    /// Completes the standing of a derived series whose newest period begins at this instant.
    pub(crate) async fn complete_from(
        &self,
        shard: &Shard,
        series: Series,
        start_ms: i64,
    ) -> Result<(), Error> {
        let Some(derived) = shard.derived_as(series) else {
            return Ok(());
        };
        let start = Timestamp::from_ms_clamped(start_ms);
        let unit = derived.window.unit();
        let period = shard.calendar.containing(unit, start);
        self.complete(shard, &derived, &period, Duration::ZERO)
            .await
    }

    /// Begins the running period's standing of every derived series: on a new board it is complete with that.
    pub(crate) async fn begin_derived(&self, live: &LiveBoard) -> Result<(), Error> {
        let now = self.clock.now();
        for LiveShard { shard, .. } in &live.shards {
            for derived in shard.derived() {
                let unit = derived.window.unit();
                let running = shard.calendar.containing(unit, now);
                let begin = async {
                    let budget = STEP_BUDGET;
                    let begun = self
                        .store
                        .advance(shard, &derived, &running, &running, now, budget);
                    Ok(begun.await?)
                };
                // A fault is noted: the definition is stored all the same.
                let part = part(shard, &derived);
                self.faults
                    .guard(Job::Rollover, &shard.id, &part, now, begin)
                    .await?;
            }
        }
        Ok(())
    }

    async fn complete(
        &self,
        shard: &Shard,
        derived: &Derived,
        period: &Period,
        pause: Duration,
    ) -> Result<(), Error> {
        let key = (
            shard.tag().to_owned(),
            shard.version(),
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
        let result = self.complete_in_turn(shard, derived, period, pause).await;
        self.completing.running.lock().remove(&key);
        result
    }

    async fn complete_in_turn(
        &self,
        shard: &Shard,
        derived: &Derived,
        period: &Period,
        pause: Duration,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        let time_max = self.store.timeouts.times(COMPLETE_TIME_MAX);
        while begun.elapsed() < time_max || !pause.is_zero() {
            let now = self.clock.now();
            let unit = derived.window.unit();
            let running = shard.calendar.containing(unit, now);
            counter!("standings_rollover_steps_total").increment(1);
            match self
                .store
                .advance(shard, derived, period, &running, now, STEP_BUDGET)
                .await?
            {
                Versioned::Current(true) => return Ok(()),
                Versioned::Current(false) => {}
                Versioned::Stale => return self.reload(&shard.id).await,
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        let message = format!(
            "{} of board {} is still being completed",
            derived.window, shard.id
        );
        Err(StoreError::Unavailable(message).into())
    }

    /// The background step: completes the running period's standing of every derived series, and, near its
    /// end, the next one's. Safe to run at any time, on any number of instances, and to stop half-way.
    pub async fn roll_over(&self) -> Result<(), Error> {
        let (mut pending, mut current) = (Vec::new(), HashMap::new());
        let now = self.clock.now();
        for live in self.live_boards() {
            for LiveShard { shard, .. } in &live.shards {
                for derived in shard.derived() {
                    let series = (shard.tag().to_owned(), derived.series);
                    current.insert(series, shard.version());
                    for period in upcoming(shard, &derived, now) {
                        if !self.was_complete(shard, derived.series, &period) {
                            pending.push((shard.clone(), derived, period));
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
        for (shard, derived, period) in pending {
            let part = part(&shard, &derived);
            let complete = self.complete(&shard, &derived, &period, BACKGROUND_PAUSE);
            let completed = self
                .faults
                .guard(Job::Rollover, &shard.id, &part, now, complete)
                .await;
            match completed {
                Ok(Some(())) => {
                    let version = (shard.version(), period.start_ms);
                    self.completing
                        .found_complete
                        .lock()
                        .insert((shard.tag().to_owned(), derived.series), version);
                    gauge!("standings_rollover_pending").decrement(1.0);
                }
                // A fault is noted, and holds up no other.
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn was_complete(&self, shard: &Shard, series: Series, period: &Period) -> bool {
        let found = self.completing.found_complete.lock();
        found
            .get(&(shard.tag().to_owned(), series))
            .is_some_and(|(version, start_ms)| {
                *version == shard.version() && *start_ms >= period.start_ms
            })
    }

    /// Whether the running period's standing of every derived series has been found complete.
    pub fn windows_are_complete(&self) -> bool {
        let now = self.clock.now();
        self.live_boards().iter().all(|live| {
            live.shards.iter().all(|LiveShard { shard, .. }| {
                shard.derived().all(|derived| {
                    let running = shard.calendar.containing(derived.window.unit(), now);
                    self.was_complete(shard, derived.series, &running)
                })
            })
        })
    }
}

/// What a derived series is called in the log.
fn part(shard: &Shard, derived: &Derived) -> String {
    let (window, track) = (derived.window, derived.series.track);
    format!("{window} ({track:?}) of {}", shard.tag())
}

/// The running period of a derived series, and near its end the next one.
fn upcoming(board: &Board, derived: &Derived, now: Timestamp) -> impl Iterator<Item = Period> {
    let running = board.calendar.containing(derived.window.unit(), now);
    let ahead_ms = (running.end_ms.abs_diff(running.start_ms) / 4).min(AHEAD_MS_MAX);
    let is_near = running.end_ms.saturating_sub_unsigned(ahead_ms) <= now.ms();
    let next = board.calendar.next(&running).filter(|_| is_near);
    std::iter::once(running).chain(next)
}
