//! Queues: their keys, and whether the index names those that have something.

use super::{Check, LOOK_AGAIN_AFTER, Place};
use crate::domain::shard::Shard;
use crate::store::kinds::Kind;
use crate::store::queues::QueueName;
use crate::store::{StoreError, keys};

impl Check<'_> {
    /// The queue of a shard.
    pub(super) async fn check_queue(&mut self, shard: &Shard) -> Result<(), StoreError> {
        let key = keys::single(shard, Kind::Queue);
        let place = || Place::of_key(shard, &key);
        let mends = self.manner(shard).mends;
        let checked = self.store.check_queue(shard, mends).await;
        let Some(checked) = self.unless_damaged(place, checked)? else {
            return Ok(());
        };
        self.report.tell_all(shard, &place(), checked.differences);
        if !checked.is_whole {
            let (id, count) = (&shard.id, checked.entries);
            self.report.note(format!(
                "{count} events of board {id} wait in one queue: it is not checked"
            ));
        }
        if checked.entries > 0 && self.is_unlisted(shard).await? {
            // What a queue has waits until the index names it.
            tokio::time::sleep(LOOK_AGAIN_AFTER).await;
            if self.is_unlisted(shard).await? {
                let is_mended = mends && self.store.relist_queue(shard).await?;
                let detail = "events wait in it, and the index of queues does not name it";
                self.report.tell(place(), "not_indexed", is_mended, detail);
            }
        }
        Ok(())
    }

    /// Whether a queue has something that the index does not name. It is read before its size: what is emptied meanwhile is not told.
    async fn is_unlisted(&self, shard: &Shard) -> Result<bool, StoreError> {
        let name = QueueName::of(shard);
        let listed = self.store.queues().await?;
        let is_listed = listed.iter().any(|queue| queue.name == name);
        Ok(!is_listed && self.store.queue_size(&name).await?.events > 0)
    }
}
