//! The loop that drops old lines of the audit log.

use std::time::Duration;

use metrics::gauge;

use super::store;
use crate::core::{Engine, Error};

/// The pause between two calls, so that Redis can serve other clients.
const PAUSE: Duration = Duration::from_millis(5);

/// Drops lines that are too old, and removes members that no line names any more.
pub async fn trim(engine: &Engine) -> Result<(), Error> {
    loop {
        let trimmed = store::trim(&engine.store, engine.clock.now()).await?;
        #[expect(clippy::cast_precision_loss, reason = "a count of bytes")]
        gauge!("standings_audit_bytes").set(trimmed.bytes as f64);
        if !trimmed.is_more {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
