//! Logs each warning when it begins and when it ends.

use std::collections::BTreeSet;

use metrics::gauge;
use parking_lot::Mutex;

use crate::core::{Engine, Error};

/// The warnings that were logged and have not ended.
#[derive(Debug, Default)]
pub(crate) struct Warned(Mutex<BTreeSet<String>>);

/// Finds the current warnings, and logs the changes.
pub(crate) async fn log_new(engine: &Engine) -> Result<(), Error> {
    let found: BTreeSet<String> = super::current(engine).await.into_iter().collect();
    gauge!("standings_store_warnings").set(u32::try_from(found.len()).unwrap_or(u32::MAX));
    let mut known = engine.states.get::<Warned>().0.lock();
    // An outage has its own lines.
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
