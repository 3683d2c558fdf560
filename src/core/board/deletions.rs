//! Deletes boards, and finishes deletions that others have begun.

use std::sync::Arc;
use std::time::Instant;

use super::store::{boards, deletions};
use crate::core::{Engine, Error, Outdated};
use crate::domain::board::Board;
use crate::domain::ids::BoardId;

impl Engine {
    /// Deletes a board. When this returns, no shard takes or shows anything of it, on any instance. If it fails half-way, a
    /// repeated deletion, a job, or the creation of the next board of that name finishes it.
    ///
    /// # Errors
    ///
    /// [`Error::Again`] if its definition is no longer the stored one.
    pub(crate) async fn delete_board(&self, board: &Arc<Board>) -> Result<(), Error> {
        let drops = self.boards.drops();
        let stamp = boards::begin_change(&self.store, &board.id).await?;
        if deletions::delete(&self.store, board, stamp).await? {
            self.hold(&board.id, None, drops);
            return self.finish_deletion(&board.id).await.map(drop);
        }
        boards::end_change(&self.store, &board.id, stamp).await?;
        Err(Error::Again(Outdated::Board))
    }

    /// Finishes the deletion of a board of this name, if there is an unfinished one. Returns whether there was.
    pub(crate) async fn finish_deletion(&self, id: &BoardId) -> Result<bool, Error> {
        let store = &self.store;
        let Some(deletion) = deletions::unfinished(store, id).await? else {
            return Ok(false);
        };
        deletions::close_shards(store, id, &deletion).await?;
        self.wait_for_replicas(Instant::now()).await?;
        deletions::mark_unneeded(store, id, &deletion).await?;
        boards::announce(store, id, Some(deletion.stamp)).await?;
        deletions::end(store, id, deletion.stamp).await?;
        Ok(true)
    }
}
