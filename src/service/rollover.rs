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

use super::{Error, LiveBoard, Service};
use crate::domain::ids::BoardId;
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

/// A derived standing, by its board's version, its series and where its newest period begins.
type StandingKey = (BoardId, String, Series, i64);

/// What this instance is completing, so that its requests don't all do the same work, and what its
/// background step has found complete.
#[derive(Debug, Default)]
pub struct Completing {
    running: Mutex<HashMap<StandingKey, Arc<tokio::sync::Mutex<()>>>>,
    found_complete: Mutex<HashMap<(BoardId, Series), (String, i64)>>,
}

impl Service {
    /// Completes the standing of a derived series whose newest period begins at this instant.
    pub(super) async fn complete_from(
        &self,
        live: &LiveBoard,
        series: Series,
        start_ms: i64,
    ) -> Result<(), Error> {
        let Some(derived) = live.board.derived_as(series) else {
            return Ok(());
        };
        let start = Timestamp::from_ms_clamped(start_ms);
        let unit = derived.window.unit();
        let period = live.board.calendar.containing(unit, start);
        self.complete(live, &derived, &period, Duration::ZERO).await
    }

    /// Begins the running period's standing of every derived series: on a new board it is complete with that.
    pub(super) async fn begin_derived(&self, live: &LiveBoard) -> Result<(), Error> {
        let now = self.clock.now();
        for derived in live.board.derived() {
            let unit = derived.window.unit();
            let running = live.board.calendar.containing(unit, now);
            self.store
                .advance(&live.board, &derived, &running, &running, now, STEP_BUDGET)
                .await?;
        }
        Ok(())
    }

    async fn complete(
        &self,
        live: &LiveBoard,
        derived: &Derived,
        period: &Period,
        pause: Duration,
    ) -> Result<(), Error> {
        let key = (
            live.board.id.clone(),
            live.board.version(),
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
        let result = self.complete_in_turn(live, derived, period, pause).await;
        self.completing.running.lock().remove(&key);
        result
    }

    async fn complete_in_turn(
        &self,
        live: &LiveBoard,
        derived: &Derived,
        period: &Period,
        pause: Duration,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        while begun.elapsed() < COMPLETE_TIME_MAX || !pause.is_zero() {
            let now = self.clock.now();
            let unit = derived.window.unit();
            let running = live.board.calendar.containing(unit, now);
            counter!("standings_rollover_steps_total").increment(1);
            match self
                .store
                .advance(&live.board, derived, period, &running, now, STEP_BUDGET)
                .await?
            {
                Versioned::Current(true) => return Ok(()),
                Versioned::Current(false) => {}
                Versioned::Stale => return self.reload(&live.board.id).await,
            }
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
        }
        let message = format!(
            "{} of board {} is still being completed",
            derived.window, live.board.id
        );
        Err(StoreError::Unavailable(message).into())
    }

    /// The background step: completes the running period's standing of every derived series, and, near its
    /// end, the next one's. Safe to run at any time, on any number of instances, and to stop half-way.
    pub async fn roll_over(&self) -> Result<(), Error> {
        let mut pending = Vec::new();
        let now = self.clock.now();
        for live in self.live_boards() {
            for derived in live.board.derived() {
                let unit = derived.window.unit();
                let running = live.board.calendar.containing(unit, now);
                let ahead_ms = (running.end_ms.abs_diff(running.start_ms) / 4).min(AHEAD_MS_MAX);
                let next = if running.end_ms.saturating_sub_unsigned(ahead_ms) <= now.ms() {
                    live.board.calendar.next(&running)
                } else {
                    None
                };
                for period in std::iter::once(running).chain(next) {
                    if !self.was_complete(&live, derived.series, &period) {
                        pending.push((Arc::clone(&live), derived, period));
                    }
                }
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "a count of windows")]
        gauge!("standings_rollover_pending").set(pending.len() as f64);
        for (live, derived, period) in pending {
            self.complete(&live, &derived, &period, BACKGROUND_PAUSE)
                .await?;
            let version = (live.board.version(), period.start_ms);
            self.completing
                .found_complete
                .lock()
                .insert((live.board.id.clone(), derived.series), version);
            gauge!("standings_rollover_pending").decrement(1.0);
        }
        Ok(())
    }

    fn was_complete(&self, live: &LiveBoard, series: Series, period: &Period) -> bool {
        let found = self.completing.found_complete.lock();
        found
            .get(&(live.board.id.clone(), series))
            .is_some_and(|(version, start_ms)| {
                *version == live.board.version() && *start_ms >= period.start_ms
            })
    }

    /// Whether the running period's standing of every derived series has been found complete.
    pub fn windows_are_complete(&self) -> bool {
        let now = self.clock.now();
        self.live_boards().iter().all(|live| {
            live.board.derived().all(|derived| {
                let unit = derived.window.unit();
                let running = live.board.calendar.containing(unit, now);
                self.was_complete(live, derived.series, &running)
            })
        })
    }
}
