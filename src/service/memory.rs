//! Tells about how much memory of Redis a board takes.

use super::{Error, Service};
use crate::domain::ids::BoardId;
use crate::join::try_join_all;
use crate::store::footprint::Footprint;

/// How many keys of a board are looked at at the most; of each shard one at least.
const KEYS_MAX: usize = 128;

impl Service {
    /// About how much memory a board takes, by a sample of its keys.
    pub async fn footprint(&self, id: &BoardId) -> Result<Footprint, Error> {
        let live = self.engine.live_board(id).await?;
        let count = (KEYS_MAX / live.shards.len()).max(1);
        let shards = live.shards.iter();
        let parts = shards.map(|live| self.engine.store.footprint(&live.shard, count));
        let mut all = Footprint::default();
        for part in try_join_all(parts).await? {
            all.keys += part.keys;
            all.bytes = all.bytes.saturating_add(part.bytes);
            all.sampled += part.sampled;
        }
        Ok(all)
    }
}
