//! Erases members: of one board, or of all boards.

use std::time::Instant;

use super::{Error, Service};
use crate::domain::ids::{BoardId, MemberId};

impl Service {
    /// Erases a member of a board: what was written of it before counts for nothing. When this returns, no read that begins
    /// later shows the member, by any instance. The member need not have a score. If what it has left is not all removed then, a
    /// job goes on.
    pub async fn erase(&self, id: &BoardId, member: &MemberId) -> Result<(), Error> {
        let engine = &self.engine;
        engine.live_board(id).await?;
        let number = engine.store.begin_erasure(id).await?;
        engine.erase(id, member, number).await?;
        let acknowledged = Instant::now();
        if let Err(error) = engine.end_erasure(id, member, number).await {
            tracing::warn!(board = %id, %error, "what an erased member has left is removed later");
        }
        engine.wait_for_replicas(acknowledged).await
    }

    /// The same on all boards that there are. Returns the number of the task that removes what the member has left.
    pub async fn erase_everywhere(&self, member: &MemberId) -> Result<u64, Error> {
        let number = self.engine.erase_everywhere(member).await?;
        self.engine.wait_for_replicas(Instant::now()).await?;
        Ok(number)
    }
}
