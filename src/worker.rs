//! Background loops: each only sleeps and calls one step of the service. All steps may run on any number
//! of instances at once, and be stopped half-way.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics::{counter, gauge};
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Look};
use crate::engine::announcements::Announcements;
use crate::engine::moves::Moves;
use crate::engine::purge::Purge;
use crate::engine::reservations::LeftBehind;
use crate::engine::rollover::Rollover;
use crate::engine::sweep::Sweep;
use crate::engine::{Engine, Error};
use crate::service::Service;
use crate::throttle;

/// The longest pause after failures; they double the interval up to it.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// What is done again and again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Taking other instances' changes of definitions into memory.
    Boards,
    /// Taking changes of API keys into memory.
    ApiKeys,
    /// Noting when API keys were used.
    ApiKeyUses,
    /// Comparing the clock with Redis' clock.
    Clock,
    /// Telling in the log what of Redis somebody should look after.
    Warnings,
    /// Completing rolling windows ahead of time.
    Rollover,
    /// Moving boards to another number of shards.
    Reshard,
    /// Unlinking data that is not needed any more.
    Purge,
    /// Announcing changes of definitions whose makers are gone.
    Changes,
    /// Forgetting the events of boards that were deleted.
    Sweep,
    /// Settling what was reserved of quotas for events that nobody brought to their end.
    Reservations,
}

impl Step {
    /// What every instance needs, to keep its memory and its clock right, and its operator informed.
    pub const OF_EVERY_INSTANCE: [Self; 5] = [
        Self::Clock,
        Self::ApiKeys,
        Self::Boards,
        Self::Warnings,
        Self::ApiKeyUses,
    ];
    /// What one instance is enough for.
    pub const IN_BACKGROUND: [Self; 6] = [
        Self::Rollover,
        Self::Reshard,
        Self::Purge,
        Self::Changes,
        Self::Sweep,
        Self::Reservations,
    ];

    /// Its name in the log and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Boards => "boards",
            Self::ApiKeys => "api-keys",
            Self::ApiKeyUses => "api-key-uses",
            Self::Clock => "clock",
            Self::Rollover => "rollover",
            Self::Reshard => "reshard",
            Self::Purge => "purge",
            Self::Changes => "changes",
            Self::Sweep => "sweep",
            Self::Reservations => "reservations",
            Self::Warnings => "warnings",
        }
    }

    /// How long the loop sleeps between two steps.
    fn interval(self) -> Duration {
        match self {
            Self::Boards | Self::ApiKeys => Duration::from_millis(250),
            Self::Rollover => Duration::from_millis(500),
            Self::Warnings | Self::ApiKeyUses => Duration::from_secs(10),
            Self::Clock | Self::Reshard | Self::Purge | Self::Changes | Self::Reservations => {
                Duration::from_secs(1)
            }
            // One walk over all keys is for all boards that were deleted by then.
            Self::Sweep => Duration::from_mins(1),
        }
    }

    /// The longest pause after failures.
    fn pause_max(self) -> Duration {
        match self {
            // While they can't be confirmed they open nothing.
            Self::ApiKeys => Duration::from_millis(500),
            _ => PAUSE_MAX,
        }
    }

    /// Does it once.
    pub async fn run(self, engine: &Engine) -> Result<(), Error> {
        match self {
            Self::Boards => engine.refresh_boards().await,
            Self::ApiKeys => engine.refresh_api_keys().await,
            Self::ApiKeyUses => engine.note_api_key_uses().await,
            Self::Clock => follow_clock(engine).await,
            Self::Warnings => engine.warn().await,
            Self::Rollover => engine.run(&Rollover).await,
            Self::Reshard => engine.run(&Moves).await,
            Self::Purge => engine.run(&Purge).await,
            Self::Changes => engine.run(&Announcements::default()).await,
            Self::Sweep => engine.run(&Sweep).await,
            Self::Reservations => engine.run(&LeftBehind::default()).await,
        }
    }
}

/// Does a step again and again until it is told to stop, less often while it fails.
pub async fn repeat(step: Step, service: Arc<Service>, cancelled: CancellationToken) {
    let mut pause = step.interval();
    loop {
        let run = Box::pin(step.run(&service.engine));
        match cancelled.run_until_cancelled(run).await {
            None => return,
            Some(Ok(())) => pause = step.interval(),
            Some(Err(error)) => {
                let name = step.name();
                throttle::say(&format!("background step: {error}"), |more| {
                    tracing::warn!(%error, step = name, more, "a background step failed; it will be tried again");
                });
                pause = (pause * 2).min(step.pause_max());
            }
        }
        let slept = cancelled
            .run_until_cancelled(tokio::time::sleep(pause))
            .await;
        if slept.is_none() {
            return;
        }
    }
}

async fn follow_clock(engine: &Engine) -> Result<(), Error> {
    let local_now = || (Clock::local_ms(), Instant::now());
    let began = local_now();
    let answer = engine.store.server_time_ms().await;
    gauge!("standings_store_up").set(if answer.is_ok() { 1.0 } else { 0.0 });
    let look = Look::between(answer?, began, local_now());
    if let Some(jump_ms) = engine.clock.follow(look) {
        counter!("standings_clock_jumps_total").increment(1);
        let what = "the clock of Redis has jumped: ahead, what was to expire within that time is gone (event ids, counts of \
                    quotas, standings with a retention); back, it stays for so much longer";
        tracing::error!(jump_ms, "{what}");
    }
    Ok(())
}
