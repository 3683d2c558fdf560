//! The barriers of shards: the instants before which they take no event any more.

use super::dispatch::Store;
use super::reply::Reply;
use super::{StoreError, Versioned, keys, script};
use crate::domain::shard::Shard;
use crate::domain::time::Timestamp;

/// The field of a shard's head with its barrier.
const FIELD: &str = "closed_until";

impl Store {
    /// Raises the barrier of a shard to this instant. From then on the shard refuses every event that lies before it, but for
    /// those that it has taken already. A barrier that is higher stays.
    pub async fn close_shard(
        &self,
        shard: &Shard,
        until: Timestamp,
    ) -> Result<Versioned<()>, StoreError> {
        let keys = vec![keys::head(shard.tag())];
        let args = vec![shard.version().into(), until.ms().to_string().into()];
        let reply = self.write(shard, &script::CLOSE_SHARD, keys, args);
        Ok(match Reply::answer(reply.await?)? {
            Versioned::Current(_) => Versioned::Current(()),
            Versioned::Stale => Versioned::Stale,
        })
    }

    /// The barrier of a shard; `None` if it was never raised.
    pub async fn closed_until(&self, shard: &Shard) -> Result<Option<Timestamp>, StoreError> {
        let field = vec![keys::head(shard.tag()), FIELD.to_owned()];
        let stored: Option<i64> = self.command("HGET", field).await?;
        Ok(stored.map(Timestamp::from_ms_clamped))
    }
}
