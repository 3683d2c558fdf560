//! Hides members of a board, brings them back, and lists who is hidden.

use std::time::Instant;

use super::{Error, Service};
use crate::domain::hide::Hide;
use crate::domain::ids::{BoardId, MemberId};
pub use crate::engine::hides::FoundHidden;

impl Service {
    /// Hides a member of a board, and returns its hide: one that was there keeps its `since` and its `by`. When this
    /// returns, no read that begins later shows the member, by any instance.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyHidden`] if as many members of the board are hidden as may be.
    pub async fn hide(&self, id: &BoardId, member: &MemberId, hide: &Hide) -> Result<Hide, Error> {
        let hidden = self.engine.hide(id, member, hide).await?;
        self.engine.wait_for_replicas(Instant::now()).await?;
        Ok(hidden)
    }

    /// Brings a member of a board back. When this returns, every read that begins later shows the member. Returns whether
    /// it was hidden.
    pub async fn unhide(&self, id: &BoardId, member: &MemberId) -> Result<bool, Error> {
        let was_hidden = self.engine.unhide(id, member, None).await?;
        self.engine.wait_for_replicas(Instant::now()).await?;
        Ok(was_hidden)
    }

    /// Lists hidden members of a board: up to `count` of them, behind `after`.
    pub async fn hidden(
        &self,
        id: &BoardId,
        after: Option<&MemberId>,
        count: usize,
    ) -> Result<FoundHidden, Error> {
        self.engine.hidden(id, after, count).await
    }

    /// Which of these members of a board are hidden, with their hides.
    pub async fn hidden_among(
        &self,
        id: &BoardId,
        members: &[MemberId],
    ) -> Result<Vec<(MemberId, Hide)>, Error> {
        self.engine.hidden_among(id, members).await
    }
}
