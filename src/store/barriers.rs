//! The barriers of shards: the instants before which they take no event any more.

use super::dispatch::Store;
use super::kinds::Kind;
use super::reply::{Reply, unknown_code};
use super::{StoreError, Versioned, keys, script};
use crate::domain::shard::Shard;
use crate::domain::time::{Span, Timestamp};

/// The field of a shard's head with its barrier.
const FIELD: &str = "closed_until";

/// How long a closing waits for events that were queued before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience {
    /// The time now, by a clock that is trusted.
    pub now: Timestamp,
    /// How long it waits at the most, from the first call on that says so.
    pub max_delay: Span,
}

impl Store {
    /// Raises the barrier of a shard to this instant. From then on the shard refuses every event that lies before it, but for
    /// those that it has taken already, and for those that wait in its queue. A barrier that is higher stays. Reads see the barrier once
    /// nothing waits any more that was in the queue by then, or it has waited for as long as it may, and the replicas have the barrier that
    /// have to have what is written. Without a `patience` it waits for all events. Returns whether reads see it; if not, the call is to be
    /// repeated.
    pub async fn close_shard(
        &self,
        shard: &Shard,
        until: Timestamp,
        patience: Option<Patience>,
    ) -> Result<Versioned<bool>, StoreError> {
        if self.waits_for_replicas() {
            let raised = self.raise_barrier(shard, until, patience, false).await?;
            if raised != Versioned::Current(true) {
                return Ok(raised);
            }
        }
        self.raise_barrier(shard, until, patience, true).await
    }

    async fn raise_barrier(
        &self,
        shard: &Shard,
        until: Timestamp,
        patience: Option<Patience>,
        is_confirmed: bool,
    ) -> Result<Versioned<bool>, StoreError> {
        let keys = vec![keys::head(shard.tag()), keys::single(shard, Kind::Queue)];
        let is_confirmed = if is_confirmed { "1" } else { "0" };
        let [now, max_delay] = patience.map_or([const { String::new() }; 2], |patience| {
            [
                patience.now.ms().to_string(),
                patience.max_delay.ms().to_string(),
            ]
        });
        let args = vec![
            shard.version().into(),
            until.ms().to_string().into(),
            is_confirmed.into(),
            now.into(),
            max_delay.into(),
        ];
        let reply = self.write(shard, &script::CLOSE_SHARD, keys, args);
        let mut reply = Reply::new(reply.await?)?;
        Ok(match reply.text()?.as_str() {
            "OK" => Versioned::Current(true),
            "WAITS" => Versioned::Current(false),
            "STALE" => Versioned::Stale,
            other => return unknown_code(other),
        })
    }

    /// The barrier of a shard; `None` if it was never raised.
    pub async fn closed_until(&self, shard: &Shard) -> Result<Option<Timestamp>, StoreError> {
        let field = vec![keys::head(shard.tag()), FIELD.to_owned()];
        let stored: Option<i64> = self.command("HGET", field).await?;
        Ok(stored.map(Timestamp::from_ms_clamped))
    }
}
