//! Erases a member of a board.

use super::{Error, Service};
use crate::domain::ids::{BoardId, MemberId};

impl Service {
    /// Erases a member of a board: what was written of it before counts for nothing, and no read shows it. The member need not
    /// have a score. If what it has left is not all removed when this returns, a job goes on.
    pub async fn erase(&self, id: &BoardId, member: &MemberId) -> Result<(), Error> {
        let engine = &self.engine;
        engine.live_board(id).await?;
        let number = engine.store.begin_erasure(id).await?;
        engine.erase(id, member, number).await?;
        if engine.forget(id, member).await.is_ok() {
            engine.store.end_erasure(id, number).await?;
        }
        Ok(())
    }
}
