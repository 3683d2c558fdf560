//! Reading how a board is spread over shards, and how far a move has come.

use super::{Error, Service};
use crate::domain::ids::BoardId;
use crate::engine::moves::{Position, lease_of};

/// How a board is spread.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Progress {
    /// Over how many shards.
    pub shards: u16,
    /// Over how many it is going to be, if it is on the way.
    pub moving_to: Option<u16>,
    /// How many entries have been copied on that way, some of them again.
    pub copied: u64,
}

impl Service {
    /// How a board is spread, and how far a move has come.
    pub async fn reshard_progress(&self, id: &BoardId) -> Result<Progress, Error> {
        let board = self.engine.board(id).await?;
        let next = board.placement.next;
        let copied = match next {
            Some(_) => {
                let position = self.engine.store.lease_position(&lease_of(&board)).await?;
                Position::parse(&position).copied
            }
            None => 0,
        };
        Ok(Progress {
            shards: board.placement.current.shards,
            moving_to: next.map(|next| next.to.shards),
            copied,
        })
    }
}
