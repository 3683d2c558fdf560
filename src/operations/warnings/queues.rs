//! Finds queued events that no instance applies.

use crate::core::{Engine, Error, jobs};
use crate::queue;

/// Warns if events wait, in queues or in the log before them, and no running instance applies them.
pub async fn unapplied(engine: &Engine) -> Result<Option<String>, Error> {
    let queue = queue::of(engine);
    let waiting = queue.rooms.waiting().events;
    let may_wait = waiting > 0 || queue.log.is_some();
    if !may_wait || engine.presence.part.applies_queues() {
        return Ok(None);
    }
    let now = engine.clock.now();
    let instances = jobs::instances::all(&engine.store).await?;
    let mut running = instances
        .values()
        .filter(|instance| !instance.is_silent(now));
    if running.any(|instance| instance.part.applies_queues()) {
        return Ok(None);
    }
    Ok(Some(format!(
        "no running instance applies queued events, and {waiting} wait in Redis: start `standings worker`, or an instance with \
         STANDINGS_BACKGROUND and STANDINGS_APPLY_QUEUES set to true"
    )))
}
