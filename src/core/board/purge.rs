//! Unlinks data that nothing needs any more: of deleted boards, and of shards that a board has moved away from.

use super::deletions;
use super::store::boards;
use super::sweep::Deleted;
use crate::core::jobs::faults::Subject;
use crate::core::jobs::{Job, JobKind, Progress};
use crate::core::{Engine, Error};
use crate::domain::ids::BoardId;
use crate::domain::shard::Sharding;
use crate::domain::texts::{fields_as_text, words};
use crate::redis::decode::{Coded, Done};
use crate::redis::dispatch::Store;
use crate::redis::{StoreError, keys, script};
use crate::runtime::join::try_join_all;

/// The maximum number of keys that one call unlinks. Unlinking is quick; another thread frees the memory.
const CALL_KEYS_MAX: u32 = 200;

/// Data to unlink as soon as nothing needs it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Unneeded {
    pub generation: u64,
    /// The board's id, which a newer board may have by now.
    pub id: BoardId,
    /// The shards that have it.
    pub sharding: Sharding,
    /// Why. A deletion has its own mark: a purge that did not see it may, at its end, remove the mark of a move.
    pub cause: Cause,
}

words! {
    /// Why data is not needed.
    #[derive(Hash)]
    pub enum Cause {
        /// Its board is deleted.
        Deleted = "deleted",
        /// Its board moves away from it.
        Moved = "moved",
    }
}

fields_as_text! {
    Unneeded {
        generation: |text| text.parse().ok(),
        id: |text| BoardId::parse(text).ok(),
        sharding: |text| text.parse().ok(),
        cause: Cause::named,
    }
}

/// Marks data, so that it is unlinked once nothing needs it.
pub async fn mark(store: &Store, unneeded: &Unneeded) -> Result<(), StoreError> {
    let marked = store
        .call(&script::UNNEEDED, unneeded.id.as_str())
        .key(keys::UNNEEDED)
        .arg(unneeded.to_string());
    marked.write::<Done>().await.map(drop)
}

/// The marked data.
pub async fn unneeded(store: &Store) -> Result<Vec<Unneeded>, StoreError> {
    let names: Vec<String> = store.command("SMEMBERS", [keys::UNNEEDED]).await?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

/// Unlinks some marked data, in a bounded step; returns whether there is more. Data is left alone unless there is a proof that
/// its board was deleted, or the board exists and does not need it: a move has not come that far yet, or has failed, or the
/// board's definition is lost.
pub async fn unlink_some(store: &Store, unneeded: &Unneeded) -> Result<bool, StoreError> {
    let Unneeded {
        generation,
        id,
        sharding,
        cause: _,
    } = unneeded;
    let last = deletions::last(store, id).await?;
    let is_deleted = last.is_some_and(|stamp| *generation <= stamp);
    if !is_deleted {
        let stored = boards::load(store, id).await?;
        let board = stored.and_then(Result::ok);
        let own = board.filter(|board| board.generation == *generation);
        if own.is_none_or(|board| board.placement.needs(*sharding)) {
            return Ok(false);
        }
    }
    let purged = sharding.all().map(async |shard| {
        let tag = shard.tag(id);
        purge_shard(store, &tag, unneeded, is_deleted).await
    });
    let mut is_more = try_join_all(purged).await?.contains(&true);
    if is_deleted {
        let results = [
            keys::results_registry(id, *generation),
            keys::head(id.as_str()),
        ];
        is_more |= unlink(store, id.as_str(), results, *generation, true).await?;
    }
    if !is_more {
        if is_deleted {
            let left = store
                .call(&script::UNNEEDED, id.as_str())
                .key(keys::DELETED)
                .arg(Deleted::of(unneeded).to_string());
            left.write::<Done>().await?;
        }
        let mark = [keys::UNNEEDED, &unneeded.to_string()];
        let () = store.command("SREM", mark).await?;
    }
    Ok(is_more)
}

async fn purge_shard(
    store: &Store,
    tag: &str,
    unneeded: &Unneeded,
    is_deleted: bool,
) -> Result<bool, StoreError> {
    let generation = unneeded.generation;
    let data = [keys::registry(tag, generation), keys::head(tag)];
    let is_more = unlink(store, tag, data, generation, is_deleted).await?;
    if !is_deleted {
        // The head stays, and refuses late calls; so do the counts of quotas.
        return Ok(is_more);
    }
    let quotas = [
        keys::counts_registry(tag, generation),
        keys::counts_head(tag, unneeded.sharding),
    ];
    Ok(unlink(store, tag, quotas, generation, true).await? || is_more)
}

/// Unlinks some of the keys that a registry names, and its head if the board was deleted.
async fn unlink(
    store: &Store,
    tag: &str,
    registry_and_head: [String; 2],
    generation: u64,
    is_deleted: bool,
) -> Result<bool, StoreError> {
    store
        .call(&script::PURGE, tag)
        .keys(registry_and_head)
        .arg(generation)
        .arg(CALL_KEYS_MAX)
        .arg(is_deleted)
        .write::<Coded>()
        .await?
        .is("MORE", "DONE")
}

/// The job: unlinks what is marked as not needed: of deleted boards, and of shards that a board has moved away from.
#[derive(Clone, Copy, Debug)]
pub struct Purge;

impl Job for Purge {
    type Item = Unneeded;
    const KIND: JobKind = JobKind::Purge;

    fn subject(&self, unneeded: &Unneeded) -> Subject {
        Subject::part(&unneeded.id, unneeded.to_string())
    }

    async fn due(&self, engine: &Engine) -> Result<Vec<Unneeded>, Error> {
        Ok(unneeded(&engine.store).await?)
    }

    async fn step(&self, engine: &Engine, unneeded: &mut Unneeded) -> Result<Progress, Error> {
        let is_more = unlink_some(&engine.store, unneeded).await?;
        Ok(Progress::more_if(is_more))
    }
}
