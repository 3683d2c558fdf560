//! Raising the barriers of a board's shards.

use super::{ATTEMPTS_MAX, Engine, Error};
use crate::domain::ids::BoardId;
use crate::domain::time::Timestamp;
use crate::store::Versioned;

impl Engine {
    /// Raises the barriers of all shards of a board to this instant. When this returns, nothing changes what events that lie
    /// before it have made of the standings, whatever is under way. The closing has to be decided before.
    ///
    /// If it fails, some of the barriers may be raised. To call it again is safe, also on other instances.
    pub async fn close_shards(&self, id: &BoardId, until: Timestamp) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            // It waits while the board is being moved from one sharding to another.
            let live = self.live_board(id).await?;
            let mut is_done = true;
            for shard in live.shards.iter().map(|live| &live.shard) {
                is_done &= self.store.close_shard(shard, until).await? == Versioned::Current(());
            }
            if is_done {
                return Ok(());
            }
            self.reload(id).await?;
        }
        Err(Error::busy())
    }
}
