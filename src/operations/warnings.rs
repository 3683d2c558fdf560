//! Warnings about a service that works but needs attention: its Redis may lose data, or currently refuses writes, or events
//! wait and no instance applies them. A job logs each when it begins and when it ends.

pub mod store;

use std::collections::BTreeSet;

use futures::future::join;
use metrics::gauge;
use parking_lot::Mutex;

use crate::core::{Engine, Error, jobs};
use crate::queue;

/// How the warning of [`unapplied_queues`] begins.
pub(crate) const UNAPPLIED: &str = "no running instance applies queued events";

/// The warnings that were logged and have not ended.
#[derive(Debug, Default)]
pub(crate) struct Warned(Mutex<BTreeSet<String>>);

pub async fn current(engine: &Engine) -> Vec<String> {
    let of_queues = unapplied_queues(engine);
    let (mut warnings, of_queues) = join(store::current(&engine.store), of_queues).await;
    // If Redis does not answer, other warnings say so.
    warnings.extend(of_queues.ok().flatten());
    warnings
}

/// Finds the current warnings, and logs the changes.
pub(crate) async fn log_new(engine: &Engine) -> Result<(), Error> {
    let found: BTreeSet<String> = current(engine).await.into_iter().collect();
    gauge!("standings_store_warnings").set(u32::try_from(found.len()).unwrap_or(u32::MAX));
    let mut known = engine.states.get::<Warned>().0.lock();
    // An outage is logged separately.
    if engine.store.outage().is_some() {
        return Ok(());
    }
    for warning in found.difference(&known) {
        tracing::warn!(%warning, "needs attention");
    }
    for warning in known.difference(&found) {
        tracing::info!(%warning, "resolved");
    }
    *known = found;
    Ok(())
}

/// Warns if events wait, in queues or in the log before them, and no running instance applies them.
pub async fn unapplied_queues(engine: &Engine) -> Result<Option<String>, Error> {
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
        "{UNAPPLIED}, and {waiting} wait in Redis: start `standings worker`, or an instance with \
         STANDINGS_BACKGROUND and STANDINGS_APPLY_QUEUES set to true"
    )))
}
