//! Hides members of a board, and brings them back.

use std::time::Instant;

use super::{Error, Service};
use crate::domain::hide::Hide;
use crate::domain::ids::{BoardId, MemberId};
pub use crate::engine::hides::Hiding;
use crate::problems::Problem;

impl Service {
    /// Hides a member of a board: a hide that is there keeps its `id`, its `since` and its `by`. When this returns, no read that begins
    /// later shows the member, by any instance.
    ///
    /// # Errors
    ///
    /// [`Problem::too_many_hidden`] if as many members of the board are hidden as may be.
    pub async fn hide(
        &self,
        id: &BoardId,
        member: &MemberId,
        hide: &Hide,
    ) -> Result<Hiding, Error> {
        let hidden = self.engine.hide(id, member, hide).await?;
        self.engine.wait_for_replicas(Instant::now()).await?;
        Ok(hidden)
    }

    /// How a member of a board is hidden.
    ///
    /// # Errors
    ///
    /// [`Problem::not_hidden`] if it is not.
    pub async fn hide_of(&self, id: &BoardId, member: &MemberId) -> Result<Hide, Error> {
        let asked = std::slice::from_ref(member);
        let hidden = self.engine.hidden_among(id, asked).await?.pop();
        let hide = hidden.map(|(_, hide)| hide);
        hide.ok_or_else(|| Problem::not_hidden(id, member.as_str()).into())
    }

    /// Brings a member of a board back. When this returns, every read that begins later shows the member. Returns the hide
    /// that it had.
    ///
    /// # Errors
    ///
    /// [`Problem::not_hidden`] if it had none.
    pub async fn unhide(&self, id: &BoardId, member: &MemberId) -> Result<Hide, Error> {
        let before = self.engine.unhide(id, member, None).await?;
        self.engine.wait_for_replicas(Instant::now()).await?;
        before.ok_or_else(|| Problem::not_hidden(id, member.as_str()).into())
    }
}
