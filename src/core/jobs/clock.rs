//! Follows the clock of Redis.

use std::time::Instant;

use metrics::{counter, gauge};

use crate::core::{Engine, Error};
use crate::domain::clock::{Clock, Look};
use crate::domain::time::Timestamp;

/// The job: compares the clock with that of Redis, and reports a jump.
pub(crate) async fn follow(engine: &Engine) -> Result<(), Error> {
    let followed = look(engine).await;
    gauge!("standings_store_up").set(if followed.is_ok() { 1.0 } else { 0.0 });
    if let Some(jump_ms) = followed? {
        counter!("standings_clock_jumps_total").increment(1);
        let what = "the clock of Redis has jumped. Ahead: event ids, quota counts and standings that would have expired in \
                    that time have expired. Back: they are kept longer by that time";
        tracing::error!(jump_ms, "{what}");
    }
    Ok(())
}

/// Reads the clock of Redis, and returns by how many milliseconds it has jumped since the last time, if it has.
async fn look(engine: &Engine) -> Result<Option<i64>, Error> {
    let local_now = || (Clock::local_us(), Instant::now());
    let began = local_now();
    let redis_us = engine.store.server_time_us().await?;
    Ok(engine
        .clock
        .follow(Look::between(redis_us, began, local_now())))
}

/// The current time, for decisions that can't be undone.
pub(crate) async fn trusted_now(engine: &Engine) -> Result<Timestamp, Error> {
    look(engine).await?;
    match engine.clock.doubt() {
        Some(doubt) => Err(Error::ClockDoubted(doubt)),
        None => Ok(engine.clock.now()),
    }
}
