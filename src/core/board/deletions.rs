//! Deletes boards, and finishes deletions that others have begun.
//!
//! The head of a deleted board keeps the stamp of the deletion, as a proof: every board of that name with this generation or
//! a lower one is deleted. Without it nothing of a board is unlinked, whatever else was lost. The heads of its shards get
//! that stamp, so that they refuse calls of instances that do not know of the deletion yet.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::purge::{self, Cause, Unneeded};
use super::store::boards::{self, tell};
use crate::core::{Engine, Error, Outdated};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;
use crate::domain::shard::Sharding;
use crate::redis::decode::Coded;
use crate::redis::dispatch::Store;
use crate::redis::stored::read_json;
use crate::redis::{StoreError, keys, script};
use crate::runtime::join::try_join_all;

/// For how long a deletion is remembered: far longer than a call can be on its way, and than it takes to unlink the data.
const REMEMBERED: Duration = Duration::from_hours(7 * 24);
/// The amendment in the heads of closed shards: no definition has it.
const CLOSED: u64 = 0;

/// A deletion that is not finished.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Deletion {
    pub stamp: u64,
    /// The generation of the deleted board.
    pub generation: u64,
    /// The shardings that may have its data, the first of them also the counts of its quotas.
    pub shardings: Vec<Sharding>,
}

/// Deletes the definition of a board if its stored version is this one, and leaves the proof. Returns whether it did.
pub async fn delete(store: &Store, board: &Board, stamp: u64) -> Result<bool, StoreError> {
    let deletion = Deletion {
        stamp,
        generation: board.generation,
        shardings: board.placement.all().collect(),
    };
    let deleted = store
        .call_head(&script::DELETE, board)
        .arg(board.version())
        .arg(stamp)
        .json(&deletion)
        .arg(REMEMBERED.as_millis());
    deleted.write::<Coded>().await?.is("OK", "CHANGED")
}

/// The deletion of a board of this name that was begun and is not finished, if any.
pub async fn unfinished(store: &Store, id: &BoardId) -> Result<Option<Deletion>, StoreError> {
    let Some(stamp) = last(store, id).await? else {
        return Ok(None);
    };
    let of_last = [keys::head(id.as_str()), unfinished_field(stamp)];
    let json: Option<String> = store.command("HGET", of_last).await?;
    let deletion = json.map(|json| read_json("an unfinished deletion", &json));
    deletion.transpose()
}

/// Notes that a deletion is finished.
pub async fn end(store: &Store, id: &BoardId, stamp: u64) -> Result<(), StoreError> {
    let ended = [keys::head(id.as_str()), unfinished_field(stamp)];
    store.command("HDEL", ended).await
}

/// The stamp of the last deletion of a board with this name, while it is remembered: all boards of that name with this
/// generation or a lower one are deleted.
pub async fn last(store: &Store, id: &BoardId) -> Result<Option<u64>, StoreError> {
    let deleted = [&keys::head(id.as_str()), "deleted"];
    store.command("HGET", deleted).await
}

/// Makes all shards of a deleted board refuse its calls. The head of a single shard is that of the board.
pub async fn close_shards(
    store: &Store,
    id: &BoardId,
    deletion: &Deletion,
) -> Result<(), StoreError> {
    let of_shards = deletion.shardings.iter().flat_map(|sharding| {
        let tags = tags_of(id, *sharding);
        tags.map(|tag| (keys::head(&tag), tag))
    });
    let homes = deletion.shardings.iter().take(1).flat_map(|home| {
        let tags = tags_of(id, *home);
        tags.map(|tag| (keys::counts_head(&tag, *home), tag))
    });
    let closed = of_shards.chain(homes).map(async |(head, tag)| {
        let version = (deletion.stamp, CLOSED);
        match tell(store, &tag, head, version, Some(REMEMBERED)).await {
            // It knows of a later board of that name.
            Ok(_) | Err(StoreError::Stale) => Ok(()),
            Err(error) => Err(error),
        }
    });
    try_join_all(closed).await.map(drop)
}

fn tags_of(id: &BoardId, sharding: Sharding) -> impl Iterator<Item = String> {
    sharding
        .all()
        .filter(move |_| !sharding.is_together())
        .map(|shard| shard.tag(id))
}

/// Marks all data of a deleted board, so that it is unlinked.
pub async fn mark_unneeded(
    store: &Store,
    id: &BoardId,
    deletion: &Deletion,
) -> Result<(), StoreError> {
    for sharding in &deletion.shardings {
        let unneeded = Unneeded {
            generation: deletion.generation,
            id: id.clone(),
            sharding: *sharding,
            cause: Cause::Deleted,
        };
        purge::mark(store, &unneeded).await?;
    }
    Ok(())
}

/// The field of the head that says what a deletion with this stamp has left to do.
fn unfinished_field(stamp: u64) -> String {
    format!("unfinished:{stamp}")
}

impl Engine {
    /// Deletes a board. When this returns, no shard takes or shows anything of it, on any instance. If it fails half-way, a
    /// repeated deletion, a job, or the creation of the next board of that name finishes it.
    ///
    /// # Errors
    ///
    /// [`Error::Again`] if its definition is no longer the stored one.
    pub(crate) async fn delete_board(&self, board: &Arc<Board>) -> Result<(), Error> {
        let stamp = boards::begin_change(&self.store, &board.id).await?;
        if delete(&self.store, board, stamp).await? {
            self.hold(&board.id, None, self.boards.begin_read());
            return self.finish_deletion(&board.id).await.map(drop);
        }
        boards::end_change(&self.store, &board.id, stamp).await?;
        Err(Error::Again(Outdated::Board))
    }

    /// Finishes the deletion of a board of this name, if there is an unfinished one. Returns whether there was.
    pub(crate) async fn finish_deletion(&self, id: &BoardId) -> Result<bool, Error> {
        let store = &self.store;
        let Some(deletion) = unfinished(store, id).await? else {
            return Ok(false);
        };
        close_shards(store, id, &deletion).await?;
        self.wait_for_replicas(Instant::now()).await?;
        mark_unneeded(store, id, &deletion).await?;
        boards::announce(store, id, Some(deletion.stamp)).await?;
        end(store, id, deletion.stamp).await?;
        Ok(true)
    }
}
