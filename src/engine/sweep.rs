//! Looking for what deleted boards have left among all keys.

use std::time::Duration;

use super::{Engine, Error};

/// The pause between two steps, so that Redis spends a fortieth of its time on them at the most.
const PAUSE: Duration = Duration::from_millis(20);

impl Engine {
    /// Unlinks what expires by itself of boards that were deleted: remembered events, counts of quotas. It takes as long as
    /// it takes to look at all keys: about a minute for a million. Safe to run on any number of instances, and to stop half-way.
    pub async fn sweep_deleted(&self) -> Result<(), Error> {
        let Some(mut sweep) = self.store.begin_sweep().await? else {
            return Ok(());
        };
        while self.store.sweep_on(&mut sweep).await? {
            tokio::time::sleep(PAUSE).await;
        }
        let (boards, keys) = (sweep.deleted.len(), sweep.unlinked);
        tracing::info!(boards, keys, "what deleted boards had left was unlinked");
        Ok(())
    }
}
