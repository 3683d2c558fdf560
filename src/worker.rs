//! Background loops: each only sleeps and calls one step of the service. All steps may run on any number
//! of instances at once, and be stopped half-way.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::service::{Error, Service};

/// How soon another instance's change of a definition is in memory.
const BOARDS_INTERVAL: Duration = Duration::from_millis(250);
/// How often the clock is compared with Redis' clock.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// How often rolling windows are looked after.
const ROLLOVER_INTERVAL: Duration = Duration::from_millis(500);
/// How often deleted boards are looked after.
const PURGE_INTERVAL: Duration = Duration::from_secs(1);
/// The longest pause after failures; they double the interval up to it.
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The loops that every instance needs: they keep its memory and its clock right.
pub async fn keep_current(service: Arc<Service>, stop: CancellationToken) {
    let boards = every(BOARDS_INTERVAL, "boards", &stop, async || {
        service.refresh_boards().await
    });
    let clock = every(CLOCK_INTERVAL, "clock", &stop, async || {
        follow_clock(&service).await
    });
    tokio::join!(boards, clock);
}

/// The loops of which one instance is enough.
pub async fn work(service: Arc<Service>, stop: CancellationToken) {
    let rollover = every(ROLLOVER_INTERVAL, "rollover", &stop, async || {
        service.roll_over().await
    });
    let purge = every(PURGE_INTERVAL, "purge", &stop, async || {
        while !stop.is_cancelled() && service.purge_deleted().await? {}
        Ok(())
    });
    tokio::join!(rollover, purge);
}

/// Compares the clock with Redis' clock.
pub async fn follow_clock(service: &Service) -> Result<(), Error> {
    let began_ms = Clock::local_ms();
    let redis_ms = service.store.server_time_ms().await?;
    service.clock.follow(redis_ms, began_ms, Clock::local_ms());
    Ok(())
}

/// Calls a step again and again until it is told to stop, less often while it fails.
async fn every(
    interval: Duration,
    name: &'static str,
    stop: &CancellationToken,
    step: impl AsyncFn() -> Result<(), Error>,
) {
    let mut pause = interval;
    loop {
        match stop.run_until_cancelled(step()).await {
            None => return,
            Some(Ok(())) => pause = interval,
            Some(Err(error)) => {
                tracing::warn!(%error, "the background step {name} failed; it will be tried again");
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
        if stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_none()
        {
            return;
        }
    }
}
