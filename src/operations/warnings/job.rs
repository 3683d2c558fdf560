//! Warnings about Redis: each is logged when it begins and when it is over.

use std::collections::BTreeSet;

use metrics::gauge;
use parking_lot::Mutex;

use super::store;
use crate::core::{Engine, Error};

/// What the log has been told of, and is not over.
#[derive(Debug, Default)]
pub(crate) struct Warned(Mutex<BTreeSet<String>>);

/// Asks Redis what is wrong with it, and logs what is new.
pub(crate) async fn log_new(engine: &Engine) -> Result<(), Error> {
    let found: BTreeSet<String> = store::current(&engine.store).await.into_iter().collect();
    gauge!("standings_store_warnings").set(u32::try_from(found.len()).unwrap_or(u32::MAX));
    let mut known = engine.states.get::<Warned>().0.lock();
    for warning in found.difference(&known) {
        tracing::warn!(%warning, "redis needs to be looked after");
    }
    for warning in known.difference(&found) {
        tracing::info!(%warning, "this is over");
    }
    *known = found;
    Ok(())
}
